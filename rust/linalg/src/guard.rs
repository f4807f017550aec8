//! Checks factors against the matrix they come from.
//!
//! faer's divide and conquer can return wrong factors and say nothing (rank-deficient matrices, blocks of very
//! different size). The check multiplies a few random vectors through both sides: for a residual matrix E and a
//! vector x of independent entries of variance one, the mean of |E x|^2 is |E|_F^2. It costs O(n^2), where the full residual
//! costs a product.
//!
//! In units of `sqrt(max(m, n)) eps |A|_F` right factors of divide and conquer leave 0.7 to 4 (measured, n = 128 to 512,
//! four types), those of the QR iteration 1.5 to 12 and growing with n; wrong ones leave 30 and more in single precision and
//! 10^10 in double. Hence two tolerances. An estimate from eight vectors that is a third of the truth has a chance below
//! 10^-3, and only for a residual of rank one.

use crate::field::{Field, RealNumber};
use crate::workspace::{need, read, take, write};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatRef, Par};

/// How the factors came about, which says what rounding may have done to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    DivideAndConquer,
    Iteration,
}

impl Origin {
    /// Random vectors in a check.
    fn vectors(self) -> usize {
        match self {
            Origin::DivideAndConquer => MOST_VECTORS,
            Origin::Iteration => 2,
        }
    }

    /// Relative residuals and departures from orthogonality up to this are rounding.
    fn tolerance<T: Field>(self, size: usize) -> f64 {
        let size = size as f64;
        let factor = match self {
            Origin::DivideAndConquer => 8.0,
            Origin::Iteration => 24.0 * (size / 128.0).sqrt().max(1.0),
        };
        factor * size.sqrt() * T::EPSILON
    }
}

const MOST_VECTORS: usize = 8;

/// Scratch of the checks for factors of an `m` by `n` matrix.
pub(crate) fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let one = need::<T>(m.max(n) * MOST_VECTORS);
    StackReq::all_of(&[one, one, one, one])
}

/// Entries of variance one, the same in every call.
pub(crate) fn fill_random<T: Field>(to: *mut T, len: usize) {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    for i in 0..len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
        let x = (2.0 * unit - 1.0) * 3f64.sqrt();
        // SAFETY: the callers cut `len` elements.
        unsafe { *to.add(i) = T::from_real(T::R::of(x)) };
    }
}

/// Frobenius norm of `a - b` (column-major, no gaps), in `f64`.
pub(crate) fn distance<T: Field>(a: *const T, b: *const T, len: usize) -> f64 {
    let mut sum = 0.0;
    for i in 0..len {
        // SAFETY: the callers cut `len` elements.
        let d = unsafe { *a.add(i) - *b.add(i) };
        sum += d.re().to_f64() * d.re().to_f64() + d.im().to_f64() * d.im().to_f64();
    }
    sum.sqrt()
}

/// Frobenius norm of a matrix whose entries are at most about 1.
pub(crate) fn frobenius<T: Field>(a: MatRef<'_, T>) -> f64 {
    let mut total = 0.0;
    for j in 0..a.ncols() {
        let column = a.col(j);
        let mut sum = <T::R as treadle_core::Element>::ZERO;
        for x in column.iter() {
            sum += x.modulus_squared();
        }
        total += sum.to_f64();
    }
    total.sqrt()
}

/// `q` has orthonormal columns, to rounding.
fn orthonormal<T: Field>(q: MatRef<'_, T>, origin: Origin, stack: &mut MemStack) -> bool {
    let (m, n) = q.shape();
    let vectors = origin.vectors();
    let (x, stack) = take::<T>(stack, n * vectors);
    let (y, stack) = take::<T>(stack, m * vectors);
    let (z, _) = take::<T>(stack, n * vectors);
    fill_random(x, n * vectors);
    // SAFETY: cut with these sizes above; each is written before it is read.
    unsafe {
        matmul(
            write(y, m, vectors, m),
            Accum::Replace,
            q,
            read(x, n, vectors, n),
            T::ONE,
            Par::Seq,
        );
        matmul(
            write(z, n, vectors, n),
            Accum::Replace,
            q.adjoint(),
            read(y, m, vectors, m),
            T::ONE,
            Par::Seq,
        );
    }
    let off = distance(x.cast_const(), z.cast_const(), n * vectors);
    // A NaN anywhere makes the comparison false.
    off <= origin.tolerance::<T>(m.max(n)) * ((n * vectors) as f64).sqrt()
}

/// `left` times the diagonal times the adjoint of `right` is `a`, to rounding.
fn reproduces<T: Field>(
    a: MatRef<'_, T>,
    left: MatRef<'_, T>,
    diagonal: &[T::R],
    right: MatRef<'_, T>,
    origin: Origin,
    stack: &mut MemStack,
) -> bool {
    let (m, n) = a.shape();
    let vectors = origin.vectors();
    let k = diagonal.len();
    let (x, stack) = take::<T>(stack, n * vectors);
    let (y, stack) = take::<T>(stack, m * vectors);
    let (z, stack) = take::<T>(stack, k * vectors);
    let (w, _) = take::<T>(stack, m * vectors);
    fill_random(x, n * vectors);
    // SAFETY: cut with these sizes above; each is written before it is read.
    unsafe {
        let probes = read(x, n, vectors, n);
        matmul(
            write(y, m, vectors, m),
            Accum::Replace,
            a,
            probes,
            T::ONE,
            Par::Seq,
        );
        matmul(
            write(z, k, vectors, k),
            Accum::Replace,
            right.adjoint(),
            probes,
            T::ONE,
            Par::Seq,
        );
        for column in 0..vectors {
            for (i, &value) in diagonal.iter().enumerate() {
                let entry = z.add(i + column * k);
                *entry = treadle_core::Float::scale(*entry, value);
            }
        }
        matmul(
            write(w, m, vectors, m),
            Accum::Replace,
            left,
            read(z, k, vectors, k),
            T::ONE,
            Par::Seq,
        );
    }
    let off = distance(y.cast_const(), w.cast_const(), m * vectors);
    off <= origin.tolerance::<T>(m.max(n)) * frobenius(a) * (vectors as f64).sqrt()
}

/// Values are finite, ordered, and (when asked) not negative.
fn ordered<R: RealNumber>(values: &[R], descending: bool) -> bool {
    let in_order = |a: R, b: R| if descending { a >= b } else { a <= b };
    values.iter().all(|x| treadle_core::Float::is_finite(*x))
        && values.windows(2).all(|pair| in_order(pair[0], pair[1]))
        && (!descending || values.iter().all(|&x| x >= <R as treadle_core::Element>::ZERO))
}

/// The factors of a singular value decomposition are right, to rounding.
pub(crate) fn svd_holds<T: Field>(
    a: MatRef<'_, T>,
    u: MatRef<'_, T>,
    s: &[T::R],
    v: MatRef<'_, T>,
    origin: Origin,
    stack: &mut MemStack,
) -> bool {
    let k = s.len();
    ordered(s, true)
        && reproduces(a, u.subcols(0, k), s, v.subcols(0, k), origin, stack)
        && orthonormal(u, origin, stack)
        && orthonormal(v, origin, stack)
}

/// Singular values alone: ordered, and their squares add up to the matrix's.
pub(crate) fn svdvals_hold<T: Field>(a: MatRef<'_, T>, s: &[T::R]) -> bool {
    let sum: f64 = s.iter().map(|x| x.to_f64() * x.to_f64()).sum();
    let norm = frobenius(a);
    ordered(s, true)
        && (sum.sqrt() - norm).abs() <= Origin::Iteration.tolerance::<T>(a.nrows().max(a.ncols())) * norm
}

/// The factors of a Hermitian eigendecomposition are right, to rounding; `a` holds both triangles.
pub(crate) fn eigh_holds<T: Field>(
    a: MatRef<'_, T>,
    w: &[T::R],
    v: MatRef<'_, T>,
    origin: Origin,
    stack: &mut MemStack,
) -> bool {
    ordered(w, false) && reproduces(a, v, w, v, origin, stack) && orthonormal(v, origin, stack)
}

/// Eigenvalues alone: ordered, with the trace and the Frobenius norm of the matrix.
pub(crate) fn eigvalsh_hold<T: Field>(a: MatRef<'_, T>, w: &[T::R]) -> bool {
    let n = w.len();
    let norm = frobenius(a);
    let trace: f64 = (0..n).map(|i| a[(i, i)].re().to_f64()).sum();
    let sum: f64 = w.iter().map(|x| x.to_f64()).sum();
    let squares: f64 = w.iter().map(|x| x.to_f64() * x.to_f64()).sum();
    let bound = Origin::Iteration.tolerance::<T>(n) * norm;
    ordered(w, false)
        && (squares.sqrt() - norm).abs() <= bound
        && (sum - trace).abs() <= bound * (n as f64).sqrt()
}
