//! faer's eigendecomposition, for large matrices.
//!
//! Its iteration has many shifts and early deflation (Braman, Byers and Mathias, SIAM J. Matrix Anal. Appl. 23, 2002). It is
//! sequential and cannot be interrupted.

use crate::eig::Eigen;
use crate::failure::Failure;
use crate::field::Field;
use crate::workspace::{read, write};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors, EvdError, EvdParams};
use faer::traits::RealField;
use faer::{Auto, Par};
use num_complex::Complex;
use treadle_core::{DType, Element};

/// Order from which faer's iteration is quicker than ours (Zen 4, AVX-512). That for the values alone of real matrices
/// never is; with vectors its early deflation tells where sweeps are long.
pub(crate) fn from<T: Field>(vectors: bool) -> usize {
    match (T::IS_REAL, vectors) {
        (true, true) => 400,
        (true, false) => usize::MAX,
        (false, _) => 48,
    }
}

/// Scratch of `decompose`.
pub(crate) fn scratch<T: Field>(n: usize, vectors: bool) -> StackReq {
    if n < from::<T>(vectors) {
        return StackReq::EMPTY;
    }
    let compute = if vectors {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    };
    let params: EvdParams = <EvdParams as Auto<T>>::auto();
    evd::evd_scratch::<T>(n, ComputeEigenvectors::No, compute, Par::Seq, params.into())
}

/// faer's iteration with many shifts and early deflation, for matrices of which no eigenvalue stands alone. It says
/// nothing when it does not converge; the check of the result finds that.
pub(crate) fn decompose<T: Field>(
    h: &[T],
    n: usize,
    eigen: &mut Eigen<'_, T>,
    x: &mut [T],
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let vectors = !eigen.v.is_empty();
    let zero = <T::R as Element>::ZERO;
    let x_pointer = if vectors {
        x.as_mut_ptr()
    } else {
        std::ptr::null_mut()
    };
    let (w, w_im) = (eigen.w.as_mut_ptr(), eigen.w_im.as_mut_ptr());
    // SAFETY: the buffers hold n by n and n elements of the type that the dtype names.
    let done = unsafe {
        match T::DTYPE {
            DType::F32 => real::<f32>(
                h.as_ptr().cast(),
                n,
                w.cast(),
                w_im.cast(),
                x_pointer.cast(),
                stack,
            ),
            DType::F64 => real::<f64>(
                h.as_ptr().cast(),
                n,
                w.cast(),
                w_im.cast(),
                x_pointer.cast(),
                stack,
            ),
            DType::C64 => complex::<f32>(h.as_ptr().cast(), n, w.cast(), x_pointer.cast(), stack),
            _ => complex::<f64>(h.as_ptr().cast(), n, w.cast(), x_pointer.cast(), stack),
        }
    };
    done.map_err(|_| Failure::NotConverged)?;
    if T::IS_REAL {
        // Pairs with the positive imaginary part first; anything else is no result.
        let mut j = 0;
        while j < n {
            if eigen.w_im[j] == zero {
                j += 1;
                continue;
            }
            if j + 1 == n || eigen.w_im[j + 1] != -eigen.w_im[j] {
                return Err(Failure::NotConverged);
            }
            if eigen.w_im[j] < zero {
                eigen.w_im.swap(j, j + 1);
                if vectors {
                    x[(j + 1) * n..(j + 2) * n].iter_mut().for_each(|x| *x = -*x);
                }
            }
            j += 2;
        }
    }
    Ok(())
}

/// faer's decomposition of a real matrix; `x` is null for the values alone.
///
/// # Safety
/// `h` and `x` hold `n` by `n`, `w` and `w_im` hold `n`; the scratch is `scratch`.
unsafe fn real<R: RealField>(
    h: *const R,
    n: usize,
    w: *mut R,
    w_im: *mut R,
    x: *mut R,
    stack: &mut MemStack,
) -> Result<(), EvdError> {
    // SAFETY: passed on.
    unsafe {
        evd::evd_real::<R>(
            read(h, n, n, n),
            DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(w, n)),
            DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(w_im, n)),
            None,
            (!x.is_null()).then(|| write(x, n, n, n)),
            Par::Seq,
            stack,
            <EvdParams as Auto<R>>::auto().into(),
        )
    }
}

/// As `real`, of a complex matrix.
///
/// # Safety
/// As `real`.
unsafe fn complex<R: RealField>(
    h: *const Complex<R>,
    n: usize,
    w: *mut Complex<R>,
    x: *mut Complex<R>,
    stack: &mut MemStack,
) -> Result<(), EvdError> {
    // SAFETY: passed on.
    unsafe {
        evd::evd_cplx::<R>(
            read(h, n, n, n),
            DiagMut::from_slice_mut(std::slice::from_raw_parts_mut(w, n)),
            None,
            (!x.is_null()).then(|| write(x, n, n, n)),
            Par::Seq,
            stack,
            <EvdParams as Auto<Complex<R>>>::auto().into(),
        )
    }
}
