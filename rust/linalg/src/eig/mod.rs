//! Eigenvalues and eigenvectors of general matrices: balancing, Hessenberg form, QR iteration, substitution.
//!
//! The result is checked against the matrix. Where balancing made it worse than rounding explains (it can, see Watkins,
//! Electron. Trans. Numer. Anal. 23, 2006), the matrix is taken again without it.

pub(crate) mod balance;
pub(crate) mod column_loops;
pub(crate) mod eigenvectors;
pub(crate) mod fast;
pub(crate) mod hessenberg;
pub(crate) mod multishift;
pub(crate) mod qr_iteration;
pub(crate) mod reflection;
pub(crate) mod schur;
pub(crate) mod standard_block;

use crate::crew::{Block, Crew};
use crate::eig::schur::Workspace;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Matrices, Part, View, fill_nan, store_rows};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::workspace::{need, read, slice, write};
use crate::{cost, guard};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::{Accum, Par};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Float, Result};
use treadle_team::Token;

/// Where the results go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct EigOut<T: Field> {
    /// `(..., n)`, eigenvalues in the order in which they were found; of real matrices their real parts.
    pub w: *mut T,
    /// `(..., n)`, the imaginary parts of the eigenvalues of real matrices; null for complex ones.
    pub w_im: *mut T::R,
    /// `(..., n, n)`, a vector of length one in each column; null for the values alone. Of a complex pair of a real
    /// matrix the columns hold the real and the imaginary part for the eigenvalue with the positive imaginary part, which
    /// comes first.
    pub v: *mut T,
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for EigOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for EigOut<T> {}

/// Columns of the back transformation that are computed together.
const STRIP: usize = 64;

fn scratch<T: Field>(n: usize, vectors: bool) -> StackReq {
    let square = need::<T>(n * n);
    let if_vectors = if vectors { square } else { StackReq::EMPTY };
    StackReq::all_of(&[
        square,
        square,
        if_vectors,
        if_vectors,
        need::<usize>(n),
        need::<usize>(n),
        need::<i32>(n),
        need::<f64>(2 * n),
        need::<T>(n),
        need::<T::R>(n),
        StackReq::any_of(&[
            schur::scratch::<T>(n),
            fast::scratch::<T>(n, vectors),
            guard::scratch::<T>(n, n),
        ]),
    ])
}

/// Eigenvalues and vectors of the scaled matrix.
pub(crate) struct Eigen<'a, T: Field> {
    pub(crate) w: &'a mut [T],
    pub(crate) w_im: &'a mut [T::R],
    /// Column-major; empty for the values alone.
    pub(crate) v: &'a mut [T],
}

/// The decomposition of `a`, which is destroyed.
fn decompose<T: Field>(
    a: &mut [T],
    n: usize,
    balanced: bool,
    eigen: &mut Eigen<'_, T>,
    mut crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> std::result::Result<(), Failure> {
    let vectors = !eigen.v.is_empty();
    let (other, stack) = slice(stack, n * n, T::ZERO);
    let (x, stack) = slice(stack, if vectors { n * n } else { 0 }, T::ZERO);
    let (order, stack) = slice(stack, n, 0usize);
    let (entries, stack) = slice(stack, n, 0usize);
    let (exponents, stack) = slice(stack, n, 0i32);
    let (squares, stack) = slice(stack, 2 * n, 0.0f64);
    let mut active = 0..n;
    let (mut h, mut z) = (a, other);
    (0..n).for_each(|i| order[i] = i);
    if balanced {
        active = balance::isolate(h, n, order, entries);
        if active != (0..n) {
            balance::permute(h, n, order, z);
            (h, z) = (z, h);
        }
        balance::scale(h, n, active.clone(), exponents, squares);
    }
    if balanced && n >= fast::from::<T>(vectors) && active == (0..n) {
        fast::decompose(h, n, eigen, x, stack)?;
        if vectors {
            finish(x, n, order, exponents, eigen);
        }
        return Ok(());
    }
    schur::iterate(
        Workspace {
            h,
            z: if vectors { Some(&mut *z) } else { None },
            n,
            active,
            whole: vectors,
            chains: balanced,
        },
        eigen.w,
        eigen.w_im,
        crew.as_deref_mut(),
        stack,
    )?;
    if !vectors {
        return Ok(());
    }
    if T::IS_REAL {
        let (re, im) = (schur::as_real(eigen.w), &*eigen.w_im);
        eigenvectors::of_real(schur::as_real(h), n, re, im, schur::as_real_mut(x));
    } else {
        eigenvectors::of_triangular(h, n, x);
    }
    back_transform(z, x, n, h, crew)?;
    finish(h, n, order, exponents, eigen);
    Ok(())
}

/// Vectors of the balanced matrix, as those of the original one, of length one.
fn finish<T: Field>(from: &[T], n: usize, order: &[usize], exponents: &[i32], eigen: &mut Eigen<'_, T>) {
    let im = &*eigen.w_im;
    for j in 0..n {
        balance::restore(
            &from[j * n..(j + 1) * n],
            order,
            exponents,
            &mut eigen.v[j * n..(j + 1) * n],
        );
    }
    let zero = <T::R as Element>::ZERO;
    let mut j = 0;
    while j < n {
        if T::IS_REAL && im[j] != zero {
            let (left, right) = schur::as_real_mut(&mut eigen.v[j * n..(j + 2) * n]).split_at_mut(n);
            eigenvectors::normalise_parts(left, right);
            j += 2;
        } else {
            eigenvectors::normalise(&mut eigen.v[j * n..(j + 1) * n]);
            j += 1;
        }
    }
}

/// `to = z x` for `x` that is zero below the first subdiagonal.
fn back_transform<T: Field>(
    z: &mut [T],
    x: &mut [T],
    n: usize,
    to: &mut [T],
    mut crew: Option<&mut Crew<'_>>,
) -> std::result::Result<(), Failure> {
    for first in (0..n).step_by(STRIP) {
        let cols = first..(first + STRIP).min(n);
        let rows = (cols.end + 1).min(n);
        // SAFETY: three buffers of n by n that are apart.
        unsafe {
            match crew.as_deref_mut() {
                Some(crew) => crew.multiply(
                    T::ONE,
                    Block::columns(z.as_mut_ptr(), n, rows, n),
                    Block::columns(x.as_mut_ptr(), n, n, n).part(0..rows, cols.clone()),
                    T::ZERO,
                    Block::columns(to.as_mut_ptr(), n, n, n).part(0..n, cols),
                )?,
                None => matmul(
                    write(to.as_mut_ptr().add(first * n), n, cols.len(), n),
                    Accum::Replace,
                    read(z.as_ptr(), n, rows, n),
                    read(x.as_ptr().add(first * n), rows, cols.len(), n),
                    T::ONE,
                    Par::Seq,
                ),
            }
        }
    }
    Ok(())
}

/// Every vector solves its equation to rounding, and the eigenvalues add up to the trace; `a` is column-major.
///
/// # Safety
/// `a` holds `n` by `n`, the scratch is `guard::scratch`.
unsafe fn holds<T: Field>(a: *const T, n: usize, eigen: &Eigen<'_, T>, stack: &mut MemStack) -> bool {
    // SAFETY: passed on.
    let matrix = unsafe { read(a, n, n, n) };
    let norm = guard::frobenius(matrix);
    let size = n as f64;
    let bound = 8.0 * (size * (size / 128.0).max(1.0)).sqrt() * T::EPSILON * norm;
    let (mut re, mut im) = (0.0, 0.0);
    for i in 0..n {
        re += (eigen.w[i].re() - matrix[(i, i)].re()).to_f64();
        im += (eigen.w[i].im() - matrix[(i, i)].im()).to_f64();
    }
    let finite =
        eigen.w.iter().all(|x| Float::is_finite(*x)) && eigen.w_im.iter().all(|x| Float::is_finite(*x));
    if !finite || re.hypot(im) > bound * size.sqrt() {
        return false;
    }
    if eigen.v.is_empty() {
        return true;
    }
    let (x, stack) = slice(stack, n * PROBES, T::ZERO);
    let (left, stack) = slice(stack, n * PROBES, T::ZERO);
    let (right, stack) = slice(stack, n * PROBES, T::ZERO);
    let (scaled, _) = slice(stack, n * PROBES, T::ZERO);
    guard::fill_random(x.as_mut_ptr(), n * PROBES);
    // Lambda x, where a pair of a real matrix is a rotation of its two columns.
    for (x, to) in x.chunks_exact(n).zip(scaled.chunks_exact_mut(n)) {
        let mut j = 0;
        while j < n {
            let pair = T::IS_REAL && eigen.w_im[j] != <T::R as Element>::ZERO;
            if pair {
                // A re = w re - w_im im and A im = w_im re + w im.
                let w_im = T::from_real(eigen.w_im[j]);
                to[j] = eigen.w[j] * x[j] + w_im * x[j + 1];
                to[j + 1] = eigen.w[j] * x[j + 1] - w_im * x[j];
                j += 2;
            } else {
                to[j] = eigen.w[j] * x[j];
                j += 1;
            }
        }
    }
    let times = |a: &[T], b: &[T], to: &mut [T]| {
        // SAFETY: n by n times n by PROBES.
        unsafe {
            matmul(
                write(to.as_mut_ptr(), n, PROBES, n),
                Accum::Replace,
                read(a.as_ptr(), n, n, n),
                read(b.as_ptr(), n, PROBES, n),
                T::ONE,
                Par::Seq,
            );
        }
    };
    times(eigen.v, x, left);
    x.copy_from_slice(left);
    // SAFETY: as promised by the caller.
    times(unsafe { std::slice::from_raw_parts(a, n * n) }, x, left);
    times(eigen.v, scaled, right);
    let off = guard::distance(left.as_ptr(), right.as_ptr(), n * PROBES);
    // A NaN makes this false.
    off <= bound * (PROBES as f64).sqrt()
}

/// Random vectors in the check.
const PROBES: usize = 2;

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `eig`.
unsafe fn item<T: Field>(
    view: View<T>,
    check_finite: bool,
    out: EigOut<T>,
    index: usize,
    mut crew: Option<&mut Crew<'_>>,
    stack: &mut MemStack,
) -> std::result::Result<(), Failure> {
    let n = view.rows;
    let vectors = !out.v.is_null();
    let w = out.w.wrapping_add(index * n);
    let w_im = out.w_im.wrapping_add(index * n);
    let v = out.v.wrapping_add(index * n * n);
    // SAFETY: the outputs hold every item; the scratch was sized by `scratch`.
    unsafe {
        if !check_finite && view.has_non_finite(Part::All) {
            fill_nan(w, n);
            if T::IS_REAL {
                // A NaN here would make the result of a real matrix complex.
                (0..n).for_each(|i| *w_im.add(i) = <T::R as Element>::ZERO);
            }
            if vectors {
                fill_nan(v, n * n);
            }
            return Ok(());
        }
        let scaling = Scaling::<T::R>::to_unit(view.max_abs(Part::All));
        let (a, stack) = slice(stack, n * n, T::ZERO);
        let (columns, stack) = slice(stack, if vectors { n * n } else { 0 }, T::ZERO);
        let (values, stack) = slice(stack, n, T::ZERO);
        let (imaginary, stack) = slice(stack, n, <T::R as Element>::ZERO);
        let mut eigen = Eigen {
            w: values,
            w_im: imaginary,
            v: columns,
        };
        let mut failure = None;
        for balanced in [true, false] {
            view.load(scaling, a.as_mut_ptr(), n);
            failure = decompose(a, n, balanced, &mut eigen, crew.as_deref_mut(), stack).err();
            if failure == Some(Failure::NotConverged) {
                continue;
            }
            if failure.is_some() {
                break;
            }
            view.load(scaling, a.as_mut_ptr(), n);
            if holds(a.as_ptr(), n, &eigen, stack) {
                break;
            }
            failure = Some(Failure::NotConverged);
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        let back = scaling.inverse();
        for i in 0..n {
            *w.add(i) = back.apply(eigen.w[i]);
            if T::IS_REAL {
                *w_im.add(i) = back.apply(eigen.w_im[i]);
            }
        }
        if vectors {
            store_rows(eigen.v.as_ptr(), n, n, n, v, n, |_, x| x);
        }
    }
    Ok(())
}

/// Eigenvalues, and eigenvectors when asked for, of every matrix.
///
/// # Safety
/// The matrices must be square and readable. Each output must hold its shape (see `EigOut`) and share no memory with the
/// input or another output.
pub unsafe fn eig<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    out: EigOut<T>,
) -> Result<()> {
    let vectors = !out.v.is_null();
    let batch = Batch {
        operation: if vectors { "eig" } else { "eigvals" },
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let n = a.rows;
    let item_ns = cost::eig(n, vectors, !T::IS_REAL);
    let need = scratch::<T>(n, vectors);
    let out = &out;
    if n >= schur::CREW_FROM {
        return batch.each_with_crew(token, item_ns, need, |index, crew, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe { item(a.item(index), check_finite, *out, index, Some(crew), stack) }
        });
    }
    batch.each(token, item_ns, need, |index, stack| {
        // SAFETY: as above.
        unsafe { item(a.item(index), check_finite, *out, index, None, stack) }
    })
}

/// Writes `count` sets of packed results of real matrices as complex ones: `w` and, unless null, `v`.
///
/// # Safety
/// The packed arrays hold what `eig` writes for matrices of order `n`; the targets are as large and apart from them.
pub unsafe fn unpack<R: RealNumber, C: Field<R = R>>(
    packed: EigOut<R>,
    n: usize,
    count: usize,
    w: *mut C,
    v: *mut C,
) {
    let zero = <R as Element>::ZERO;
    // SAFETY: indices stay inside count sets.
    unsafe {
        for i in 0..count * n {
            *w.add(i) = C::from_parts(*packed.w.add(i), *packed.w_im.add(i));
        }
        if v.is_null() {
            return;
        }
        for row in 0..count * n {
            let im = packed.w_im.add(row / n * n);
            let (from, to) = (packed.v.add(row * n), v.add(row * n));
            let mut j = 0;
            while j < n {
                if *im.add(j) != zero {
                    let (x, y) = (*from.add(j), *from.add(j + 1));
                    *to.add(j) = C::from_parts(x, y);
                    *to.add(j + 1) = C::from_parts(x, -y);
                    j += 2;
                } else {
                    *to.add(j) = C::from_parts(*from.add(j), zero);
                    j += 1;
                }
            }
        }
    }
}
