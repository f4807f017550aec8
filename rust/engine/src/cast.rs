//! Conversion between dtypes and byte orders, from any strides to any strides.
//!
//! Values convert as numpy's `astype` converts them with `casting="unsafe"`, for which floating-point flags and
//! `np.errstate` play no part: nothing here looks at a flag or warns. Half precisions go through `float32`, and `float64`
//! becomes `float16` in one rounding.

mod half;
mod numbers;
mod swap;

use treadle_core::{DType, Result};
use treadle_strided::Nest;
use treadle_team::Token;

/// Converts `n` elements; strides in bytes.
///
/// # Safety
/// Every element of the source is readable and of the destination writeable, aligned or not, and the two do not overlap.
type Row = unsafe fn(n: usize, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize);

/// The most steps of one conversion: into native order, three from one dtype to another and three to the next, into foreign
/// order.
const STEPS: usize = 8;
/// Elements between two steps, which stand in the cache nearest to the core.
const STAGE: usize = 256;
/// Elements for which a conversion looks whether it has been interrupted, and from twice as many on it is spread.
const PIECE: usize = 1 << 16;

/// How elements stand in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Form {
    /// What they are.
    pub dtype: DType,
    /// True for the other byte order than this machine's.
    pub is_swapped: bool,
}

impl Form {
    /// In this machine's byte order.
    pub fn native(dtype: DType) -> Form {
        Form {
            dtype,
            is_swapped: false,
        }
    }
}

/// A conversion from one form to another.
#[derive(Clone, Copy)]
pub struct Cast {
    rows: [Option<Row>; STEPS],
    /// Bytes of an element behind each step.
    sizes: [usize; STEPS],
    count: usize,
}

impl Cast {
    /// Between any two forms; between equal ones it copies.
    pub fn new(from: Form, to: Form) -> Cast {
        Cast::through(from, to.dtype, to)
    }

    /// As [`Cast::new`], rounding to the dtype `via` on the way.
    pub fn through(from: Form, via: DType, to: Form) -> Cast {
        let mut cast = Cast {
            rows: [None; STEPS],
            sizes: [0; STEPS],
            count: 0,
        };
        if from.is_swapped {
            cast.push(swap::row(from.dtype), from.dtype);
        }
        cast.convert(from.dtype, via);
        cast.convert(via, to.dtype);
        if to.is_swapped {
            cast.push(swap::row(to.dtype), to.dtype);
        }
        if cast.count == 0 {
            cast.push(swap::copy(to.dtype), to.dtype);
        }
        cast
    }

    /// The steps between two dtypes in native order.
    fn convert(&mut self, from: DType, to: DType) {
        if from == to {
            return;
        }
        let is_half = |dtype: DType| dtype.accumulator() != dtype;
        let mut now = from;
        if is_half(now) {
            self.push(half::widen(now), DType::F32);
            now = DType::F32;
        }
        if is_half(to) {
            let wide = match (to, now) {
                (DType::F16, DType::F64 | DType::C128) => DType::F64,
                _ => DType::F32,
            };
            if now != wide {
                self.push(numbers::row(now, wide), wide);
            }
            self.push(half::round(wide, to), to);
        } else if now != to {
            self.push(numbers::row(now, to), to);
        }
    }

    fn push(&mut self, row: Row, dtype: DType) {
        self.rows[self.count] = Some(row);
        self.sizes[self.count] = dtype.size();
        self.count += 1;
    }

    /// Converts every element of one array into another of the same shape; strides in bytes.
    ///
    /// Axes along which both have stride zero are converted once. Spread over the budget where it is large.
    ///
    /// # Errors
    /// `Interrupted`, after which the destination holds unspecified values.
    ///
    /// # Safety
    /// The elements that `shape` and the strides reach are readable in `from` and writeable in `to`, and the two do not
    /// overlap. They need not be aligned. Two indices of one element of `to` are two of one element of `from`.
    pub unsafe fn run(
        &self,
        token: &mut Token<'_>,
        shape: &[usize],
        from: *const u8,
        from_strides: &[isize],
        to: *mut u8,
        to_strides: &[isize],
    ) -> Result<()> {
        let axes = shape
            .iter()
            .zip(to_strides.iter().zip(from_strides))
            .map(|(&extent, (&to, &from))| {
                let is_one = to == 0 && from == 0 && extent > 0;
                (if is_one { 1 } else { extent }, [to, from])
            });
        let nest = Nest::new(axes);
        let elements = nest.iterations();
        if elements < 2 * PIECE {
            // SAFETY: the caller's contract.
            unsafe { self.walk(nest.axes(), from, to) };
            return Ok(());
        }
        let (from, to) = (from as usize, to as usize);
        let pieces = nest.pieces(elements / PIECE);
        token.chunks(pieces, |at| {
            let (part, [to_start, from_start]) = nest.piece(at, pieces);
            let from = (from as *const u8).wrapping_offset(from_start);
            let to = (to as *mut u8).wrapping_offset(to_start);
            // SAFETY: the caller's contract for a part of the elements; parts share no element of the destination.
            unsafe { self.walk(part.axes(), from, to) };
        })?;
        Ok(())
    }

    /// # Safety
    /// As `run`, for loops of destination and source.
    unsafe fn walk(&self, axes: &[(usize, [isize; 2])], from: *const u8, to: *mut u8) {
        match axes {
            // SAFETY: one element, by the caller's contract.
            [] => unsafe { self.row(1, from, 0, to, 0) },
            // SAFETY: as above, for a run of them.
            [(extent, [to_stride, from_stride])] => unsafe {
                self.row(*extent, from, *from_stride, to, *to_stride);
            },
            [(extent, [to_stride, from_stride]), inner @ ..] => {
                let (mut from, mut to) = (from, to);
                for _ in 0..*extent {
                    // SAFETY: within the extent of this loop.
                    unsafe { self.walk(inner, from, to) };
                    from = from.wrapping_offset(*from_stride);
                    to = to.wrapping_offset(*to_stride);
                }
            }
        }
    }

    /// # Safety
    /// As [`Row`].
    unsafe fn row(&self, n: usize, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize) {
        if self.count == 1
            && let Some(row) = self.rows[0]
        {
            // SAFETY: passed on.
            return unsafe { row(n, from, from_stride, to, to_stride) };
        }
        let mut stages = [[0u128; STAGE]; 2];
        for start in (0..n).step_by(STAGE) {
            let count = STAGE.min(n - start);
            let mut source = from.wrapping_offset(start as isize * from_stride);
            let mut source_stride = from_stride;
            for (at, row) in self.rows[..self.count].iter().flatten().enumerate() {
                let (target, stride) = if at + 1 == self.count {
                    (to.wrapping_offset(start as isize * to_stride), to_stride)
                } else {
                    (stages[at % 2].as_mut_ptr().cast::<u8>(), self.sizes[at] as isize)
                };
                // SAFETY: the first step reads the source and the last writes the destination, by the caller's contract;
                // between them a stage holds `STAGE` elements of the largest size, and no step reads the one it writes.
                unsafe { row(count, source, source_stride, target, stride) };
                source = target;
                source_stride = stride;
            }
        }
    }
}

#[cfg(test)]
mod tests;
