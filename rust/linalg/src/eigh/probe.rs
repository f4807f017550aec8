//! Checks a Hermitian eigendecomposition against its matrix: two random vectors go through both (`guard` says why that is
//! enough and what the bound allows).

use crate::crew::{Block, Crew};
use crate::eigh::hermitian_vector::hermitian_times;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::guard::{PROBE_TOLERANCE, distance, fill_random, ordered};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Random vectors of a probe.
const VECTORS: usize = 2;

/// What a Hermitian matrix does to random vectors, its norm and its trace, taken before the matrix is overwritten.
#[derive(Clone, Copy)]
pub(crate) struct Probe<T> {
    n: usize,
    norm: f64,
    trace: f64,
    /// The vectors, and the matrix times them: null where the values alone are checked.
    vectors: *mut T,
    image: *mut T,
}

impl<T: Field> Probe<T> {
    /// Scratch that lives as long as the probe: the vectors, and their images.
    pub(crate) fn kept(n: usize, vectors: bool) -> StackReq {
        let one = need::<T>(if vectors { n * VECTORS } else { 0 });
        StackReq::all_of(&[one, one])
    }

    /// Scratch of `holds`.
    pub(crate) fn scratch(n: usize) -> StackReq {
        StackReq::all_of(&[need::<T>(2 * n * VECTORS), need::<T>(2 * n * VECTORS)])
    }

    /// The probe of the matrix whose lower triangle is in `a`, in memory of `kept`.
    ///
    /// # Safety
    /// `a` holds `n` columns, `leading` apart, entries at most about 1.
    pub(crate) unsafe fn new(
        a: *const T,
        n: usize,
        leading: usize,
        vectors: bool,
        stack: &mut MemStack,
    ) -> (Self, &mut MemStack) {
        let len = if vectors { n * VECTORS } else { 0 };
        let (x, stack) = take::<T>(stack, len);
        let (image, stack) = take::<T>(stack, len);
        let (mut squares, mut trace) = (0.0, 0.0);
        // SAFETY: the lower triangle is readable, and the vectors were cut for it.
        unsafe {
            for col in 0..n {
                let column = a.add(col * leading);
                let head = (*column.add(col)).re().to_f64();
                let mut sum = <T::R as treadle_core::Element>::ZERO;
                for row in col + 1..n {
                    sum += (*column.add(row)).modulus_squared();
                }
                trace += head;
                squares += head * head + 2.0 * sum.to_f64();
            }
            if vectors {
                fill_random(x, len);
                (0..len).for_each(|i| *image.add(i) = T::ZERO);
                for k in 0..VECTORS {
                    hermitian_times(a, n, leading, 0, n, x.add(k * n).cast_const(), image.add(k * n));
                }
            }
        }
        let probe = Probe {
            n,
            norm: squares.sqrt(),
            trace,
            vectors: x,
            image,
        };
        (probe, stack)
    }

    /// The vectors in `v` are orthonormal, to rounding, and with the values `w` they reproduce what the matrix did.
    ///
    /// # Safety
    /// The probe was made with vectors; `v` is `n` by `n` and readable.
    pub(crate) unsafe fn holds(
        &self,
        crew: &mut Crew<'_>,
        w: &[T::R],
        v: Block<T>,
        stack: &mut MemStack,
    ) -> Result<bool, Failure> {
        let n = self.n;
        if !ordered(w, false) {
            return Ok(false);
        }
        let (inner, stack) = take::<T>(stack, 2 * n * VECTORS);
        let (outer, _) = take::<T>(stack, 2 * n * VECTORS);
        let size = (n * VECTORS) as f64;
        let limit = PROBE_TOLERANCE * (n as f64).sqrt() * T::EPSILON;
        // SAFETY: parts of the scratch cut above, and the caller's vectors; each is written before it is read.
        unsafe {
            let x = Block::columns(self.vectors, n, VECTORS, n);
            let turned = Block::columns(inner, n, 2 * VECTORS, n);
            let plain = turned.part(0..n, 0..VECTORS);
            crew.multiply(T::ONE, v.adjoint(), x, T::ZERO, plain)?;
            for k in 0..VECTORS {
                for (i, &value) in w.iter().enumerate() {
                    *turned.at(i, VECTORS + k) = treadle_core::Float::scale(*turned.at(i, k), value);
                }
            }
            let back = Block::columns(outer, n, 2 * VECTORS, n);
            crew.multiply(T::ONE, v, turned, T::ZERO, back)?;
            // A NaN anywhere makes the comparisons false.
            let skew = distance(self.vectors.cast_const(), outer.cast_const(), n * VECTORS);
            let off = distance(
                self.image.cast_const(),
                outer.add(n * VECTORS).cast_const(),
                n * VECTORS,
            );
            Ok(skew <= limit * size.sqrt() && off <= limit * self.norm * (VECTORS as f64).sqrt())
        }
    }

    /// Values alone: ascending, with the trace and the norm of the matrix.
    pub(crate) fn values_hold(&self, w: &[T::R]) -> bool {
        let (mut sum, mut squares) = (0.0, 0.0);
        for x in w {
            sum += x.to_f64();
            squares += x.to_f64() * x.to_f64();
        }
        let root = (self.n as f64).sqrt();
        let limit = PROBE_TOLERANCE * root * T::EPSILON * self.norm;
        ordered(w, false)
            && (squares.sqrt() - self.norm).abs() <= limit
            && (sum - self.trace).abs() <= limit * root
    }
}
