//! faer's eigendecomposition, for large complex matrices.
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
use treadle_core::DType;

/// Order from which faer's iteration is quicker than ours (Zen 4, AVX-512): that of real matrices never is.
pub(crate) fn from<T: Field>() -> usize {
    if T::IS_REAL { usize::MAX } else { 48 }
}

/// Scratch of `decompose`.
pub(crate) fn scratch<T: Field>(n: usize, vectors: bool) -> StackReq {
    if n < from::<T>() {
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
    let x_pointer = if vectors {
        x.as_mut_ptr()
    } else {
        std::ptr::null_mut()
    };
    let w = eigen.w.as_mut_ptr();
    // SAFETY: the buffers hold n by n and n elements of the type that the dtype names.
    let done = unsafe {
        match T::DTYPE {
            DType::C64 => complex::<f32>(h.as_ptr().cast(), n, w.cast(), x_pointer.cast(), stack),
            DType::C128 => complex::<f64>(h.as_ptr().cast(), n, w.cast(), x_pointer.cast(), stack),
            // `from` lets no real matrix come here.
            _ => return Err(Failure::NotConverged),
        }
    };
    done.map_err(|_| Failure::NotConverged)
}

/// The decomposition; `x` is null for the values alone.
///
/// # Safety
/// `h` and `x` hold `n` by `n`, `w` holds `n`; the scratch is `scratch`.
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
