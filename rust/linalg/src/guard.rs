//! Checks factors against the matrix they come from.
//!
//! A divide and conquer may return wrong factors and say nothing (faer's does for rank-deficient matrices and for blocks
//! of very different size). The check multiplies a few random vectors through both sides: for a residual matrix E and a
//! vector x of independent entries of variance one, the mean of |E x|^2 is |E|_F^2. It costs O(n^2), where the full residual
//! costs a product.
//!
//! In units of `sqrt(max(m, n)) eps |A|_F` right factors of divide and conquer leave 0.7 to 4 (measured, n = 128 to 512,
//! four types), those of the QR iteration 1.5 to 12 and growing with n; wrong ones leave 30 and more in single precision and
//! 10^10 in double.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::workspace::{need, read, take, write};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::matmul::matmul;
use faer::{Accum, MatRef, Par};

/// Relative residuals and departures from orthogonality up to this are rounding.
fn tolerance<T: Field>(size: usize) -> f64 {
    let size = size as f64;
    24.0 * (size / 128.0).sqrt().max(1.0) * size.sqrt() * T::EPSILON
}

/// Random vectors in a check.
const VECTORS: usize = 2;

/// Scratch of the checks for factors of an `m` by `n` matrix.
pub(crate) fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let one = need::<T>(m.max(n) * VECTORS);
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
fn orthonormal<T: Field>(q: MatRef<'_, T>, stack: &mut MemStack) -> bool {
    let (m, n) = q.shape();
    let vectors = VECTORS;
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
    off <= tolerance::<T>(m.max(n)) * ((n * vectors) as f64).sqrt()
}

/// `left` times the diagonal times the adjoint of `right` is `a`, to rounding.
fn reproduces<T: Field>(
    a: MatRef<'_, T>,
    left: MatRef<'_, T>,
    diagonal: &[T::R],
    right: MatRef<'_, T>,
    stack: &mut MemStack,
) -> bool {
    let (m, n) = a.shape();
    let vectors = VECTORS;
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
    off <= tolerance::<T>(m.max(n)) * frobenius(a) * (vectors as f64).sqrt()
}

/// Values are finite, ordered, and (when asked) not negative.
pub(crate) fn ordered<R: RealNumber>(values: &[R], descending: bool) -> bool {
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
    stack: &mut MemStack,
) -> bool {
    let k = s.len();
    ordered(s, true)
        && reproduces(a, u.subcols(0, k), s, v.subcols(0, k), stack)
        && orthonormal(u, stack)
        && orthonormal(v, stack)
}

/// Singular values alone: ordered, and their squares add up to the matrix's.
pub(crate) fn svdvals_hold<T: Field>(a: MatRef<'_, T>, s: &[T::R]) -> bool {
    let sum: f64 = s.iter().map(|x| x.to_f64() * x.to_f64()).sum();
    let norm = frobenius(a);
    ordered(s, true) && (sum.sqrt() - norm).abs() <= tolerance::<T>(a.nrows().max(a.ncols())) * norm
}

/// Random vectors of a probe.
const PROBES: usize = 2;
/// Residuals and departures from orthogonality up to this, in units of `sqrt(max(m, n)) eps`, are rounding.
pub(crate) const PROBE_TOLERANCE: f64 = 24.0;

/// What a matrix does to two random vectors, taken before the matrix is overwritten, to hold its factors against.
#[derive(Clone, Copy)]
pub(crate) struct Probe<T> {
    m: usize,
    n: usize,
    norm: f64,
    /// The vectors, and the matrix times them.
    vectors: *mut T,
    image: *mut T,
}

impl<T: Field> Probe<T> {
    /// Scratch that lives as long as the probe.
    pub(crate) fn kept(m: usize, n: usize) -> StackReq {
        StackReq::all_of(&[need::<T>(n * PROBES), need::<T>(m * PROBES)])
    }

    /// Scratch of `new` and `holds`, for a left factor of `cols` columns.
    pub(crate) fn scratch(m: usize, n: usize, cols: usize) -> StackReq {
        StackReq::all_of(&[
            need::<T>(2 * n * PROBES),
            need::<T>(2 * cols.max(n) * PROBES),
            need::<T>(2 * m * PROBES),
        ])
    }

    /// The probe of `a` in the memory given.
    ///
    /// # Safety
    /// `a` is readable; `vectors` and `image` hold `2 n` and `2 m` elements.
    pub(crate) unsafe fn new(
        crew: &mut Crew<'_>,
        a: Block<T>,
        vectors: *mut T,
        image: *mut T,
    ) -> Result<Self, Failure> {
        let (m, n) = (a.rows, a.cols);
        fill_random(vectors, n * PROBES);
        let x = Block::columns(vectors, n, PROBES, n);
        // SAFETY: as large as the caller says.
        let norm = unsafe {
            crew.multiply(T::ONE, a, x, T::ZERO, Block::columns(image, m, PROBES, m))?;
            frobenius(read(a.pointer.cast_const(), m, n, a.col_stride as usize))
        };
        Ok(Probe {
            m,
            n,
            norm,
            vectors,
            image,
        })
    }

    /// The factors are right, to rounding: `left` has orthonormal columns, `right` is unitary, and they reproduce what the
    /// matrix did to the vectors.
    ///
    /// # Safety
    /// `left` has `m` rows and at least `n` columns, `right` is `n` by `n`, both readable.
    pub(crate) unsafe fn holds(
        &self,
        crew: &mut Crew<'_>,
        left: Block<T>,
        s: &[T::R],
        right: Block<T>,
        stack: &mut MemStack,
    ) -> Result<bool, Failure> {
        let (m, n, cols) = (self.m, self.n, left.cols);
        if !ordered(s, true) {
            return Ok(false);
        }
        let (inner, stack) = take::<T>(stack, 2 * n * PROBES);
        let (before, stack) = take::<T>(stack, 2 * cols.max(n) * PROBES);
        let (after, _) = take::<T>(stack, 2 * m * PROBES);
        let limit = |size: usize| PROBE_TOLERANCE * (size as f64).sqrt() * T::EPSILON;
        // SAFETY: parts of the scratch cut above and the caller's factors; each is written before it is read.
        unsafe {
            let x = Block::columns(self.vectors, n, PROBES, n);
            let turned = Block::columns(inner, n, PROBES, n);
            let back = Block::columns(inner.add(n * PROBES), n, PROBES, n);
            crew.multiply(T::ONE, right.adjoint(), x, T::ZERO, turned)?;
            crew.multiply(T::ONE, right, turned, T::ZERO, back)?;
            let off = distance(self.vectors.cast_const(), back.pointer, n * PROBES);
            // A NaN anywhere makes the comparison false.
            let right_holds = off <= limit(n) * ((n * PROBES) as f64).sqrt();
            // The scaled vectors and random ones go through the left factor together.
            for p in 0..PROBES {
                for (i, &value) in s.iter().enumerate() {
                    *before.add(i + p * cols) = treadle_core::Float::scale(*turned.at(i, p), value);
                }
                (n..cols).for_each(|i| *before.add(i + p * cols) = T::ZERO);
            }
            let random = before.add(cols * PROBES);
            fill_random(random, cols * PROBES);
            let image = Block::columns(after, m, 2 * PROBES, m);
            crew.multiply(
                T::ONE,
                left,
                Block::columns(before, cols, 2 * PROBES, cols),
                T::ZERO,
                image,
            )?;
            let off = distance(self.image.cast_const(), after, m * PROBES);
            let reproduced = off <= limit(m) * self.norm * (PROBES as f64).sqrt();
            let through = image.part(0..m, PROBES..2 * PROBES);
            let back = Block::columns(before, cols, PROBES, cols);
            crew.multiply(T::ONE, left.adjoint(), through, T::ZERO, back)?;
            let off = distance(random.cast_const(), before, cols * PROBES);
            let left_holds = off <= limit(m) * ((cols * PROBES) as f64).sqrt();
            Ok(right_holds && reproduced && left_holds)
        }
    }

    /// Singular values alone: ordered, and their squares add up to the matrix's.
    pub(crate) fn values_hold(&self, s: &[T::R]) -> bool {
        let sum: f64 = s.iter().map(|x| x.to_f64() * x.to_f64()).sum();
        let limit = PROBE_TOLERANCE * (self.m.max(self.n) as f64).sqrt() * T::EPSILON;
        ordered(s, true) && (sum.sqrt() - self.norm).abs() <= limit * self.norm
    }
}

/// The factors of a Hermitian eigendecomposition are right, to rounding; `a` holds both triangles.
pub(crate) fn eigh_holds<T: Field>(
    a: MatRef<'_, T>,
    w: &[T::R],
    v: MatRef<'_, T>,
    stack: &mut MemStack,
) -> bool {
    ordered(w, false) && reproduces(a, v, w, v, stack) && orthonormal(v, stack)
}

/// Eigenvalues alone: ordered, with the trace and the Frobenius norm of the matrix.
pub(crate) fn eigvalsh_hold<T: Field>(a: MatRef<'_, T>, w: &[T::R]) -> bool {
    let n = w.len();
    let norm = frobenius(a);
    let trace: f64 = (0..n).map(|i| a[(i, i)].re().to_f64()).sum();
    let sum: f64 = w.iter().map(|x| x.to_f64()).sum();
    let squares: f64 = w.iter().map(|x| x.to_f64() * x.to_f64()).sum();
    let bound = tolerance::<T>(n) * norm;
    ordered(w, false)
        && (squares.sqrt() - norm).abs() <= bound
        && (sum - trace).abs() <= bound * (n as f64).sqrt()
}
