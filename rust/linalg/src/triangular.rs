//! Substitution with a triangle: halves, of which products couple the right-hand sides, down to small diagonal blocks.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::registers::Lanes;
use crate::transpose::Turn;
use crate::vectorised::{Vectorised, vectorised};
use std::mem::MaybeUninit;

/// Order of the diagonal blocks that are solved without a product.
pub(crate) const LEAF: usize = 32;
/// Right-hand sides that a leaf solves at once.
const STRIPE: usize = 32;
/// Right-hand sides below which a leaf solves them one after the other.
const NARROW: usize = 4;

/// `b = t^-1 b` for a lower triangle `t`; with `unit` its diagonal counts as ones and is not read. Nothing above the
/// diagonal is read. Both have any strides.
///
/// # Safety
/// `t` is square and readable in its lower triangle, `b` has as many rows and is writeable; they share no element.
pub(crate) unsafe fn substitute<T: Field>(
    crew: &mut Crew<'_>,
    t: Block<T>,
    unit: bool,
    b: Block<T>,
) -> Result<(), Failure> {
    let n = t.rows;
    if n == 0 || b.cols == 0 {
        return Ok(());
    }
    if n <= LEAF {
        // SAFETY: passed on.
        return unsafe { leaf(crew, t, unit, b) };
    }
    let half = (n / 2).next_multiple_of(LEAF);
    let (top, bottom) = (b.part(0..half, 0..b.cols), b.part(half..n, 0..b.cols));
    // SAFETY: passed on; the halves of b share no element.
    unsafe {
        substitute(crew, t.part(0..half, 0..half), unit, top)?;
        crew.multiply(-T::ONE, t.part(half..n, 0..half), top, T::ONE, bottom)?;
        substitute(crew, t.part(half..n, half..n), unit, bottom)
    }
}

/// The same for an upper triangle.
///
/// # Safety
/// As `substitute`, with the upper triangle.
pub(crate) unsafe fn substitute_back<T: Field>(
    crew: &mut Crew<'_>,
    t: Block<T>,
    unit: bool,
    b: Block<T>,
) -> Result<(), Failure> {
    // From the last row to the first an upper triangle is a lower one.
    // SAFETY: passed on.
    unsafe { substitute(crew, t.reversed(true, true), unit, b.reversed(true, false)) }
}

/// A diagonal block in a layout of its own.
struct Packed<T: Field> {
    order: usize,
    /// Row-major, or column-major for narrow right-hand sides.
    entries: [MaybeUninit<T>; LEAF * LEAF],
    divisors: [MaybeUninit<T::Divisor>; LEAF],
    unit: bool,
}

impl<T: Field> Packed<T> {
    /// # Safety
    /// `t` is readable in its lower triangle.
    unsafe fn new(t: Block<T>, unit: bool, by_column: bool) -> Self {
        let mut packed = Packed {
            order: t.rows,
            entries: [const { MaybeUninit::uninit() }; LEAF * LEAF],
            divisors: [const { MaybeUninit::uninit() }; LEAF],
            unit,
        };
        for row in 0..t.rows {
            for col in 0..row {
                // SAFETY: below the diagonal.
                let x = unsafe { *t.at(row, col) };
                let to = if by_column {
                    col * LEAF + row
                } else {
                    row * LEAF + col
                };
                packed.entries[to].write(if t.conj { x.conj() } else { x });
            }
            let x = if unit {
                T::ONE
            } else {
                // SAFETY: on the diagonal.
                unsafe { *t.at(row, row) }
            };
            packed.divisors[row].write(if t.conj { x.conj() } else { x }.divisor());
        }
        packed
    }

    /// # Safety
    /// The entry was written by `new`.
    #[inline(always)]
    unsafe fn entry(&self, at: usize) -> T {
        // SAFETY: the index is in range, and the caller vouches for the entry.
        unsafe { self.entries.get_unchecked(at).assume_init() }
    }

    /// # Safety
    /// `row` is below the order.
    #[inline(always)]
    unsafe fn divisor(&self, row: usize) -> T::Divisor {
        // SAFETY: written by `new`.
        unsafe { self.divisors.get_unchecked(row).assume_init() }
    }
}

/// # Safety
/// As `substitute`, of at most `LEAF` rows.
unsafe fn leaf<T: Field>(crew: &mut Crew<'_>, t: Block<T>, unit: bool, b: Block<T>) -> Result<(), Failure> {
    if b.cols <= NARROW {
        // SAFETY: passed on.
        unsafe {
            let packed = Packed::new(t, unit, true);
            vectorised(Narrow { packed: &packed, b });
        }
        return Ok(());
    }
    // SAFETY: passed on.
    let packed = unsafe { Packed::new(t, unit, false) };
    let stripes = b.cols.div_ceil(STRIPE);
    let nanoseconds = (t.rows * t.rows * b.cols) as f64 * 0.05;
    let solve = |stripe: usize| {
        let cols = stripe * STRIPE..((stripe + 1) * STRIPE).min(b.cols);
        let b = b.part(0..b.rows, cols);
        // SAFETY: every stripe is one caller's.
        unsafe { vectorised(Stripe { packed: &packed, b }) };
    };
    if stripes == 1 {
        solve(0);
        return Ok(());
    }
    crew.chunks(stripes, nanoseconds, solve)
}

/// A few right-hand sides, one after the other.
///
/// # Safety
/// `b` is writeable and has as many rows as the block.
struct Narrow<'a, T: Field> {
    packed: &'a Packed<T>,
    b: Block<T>,
}

impl<T: Field> Vectorised for Narrow<'_, T> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) {
        let (b, n) = (self.b, self.packed.order);
        for col in 0..b.cols {
            let mut x = [T::ZERO; LEAF];
            // SAFETY: rows and columns are in range; the block is packed by columns.
            unsafe {
                for (row, x) in x.iter_mut().enumerate().take(n) {
                    *x = *b.at(row, col);
                }
                for k in 0..n {
                    if !self.packed.unit {
                        x[k] = x[k].over(self.packed.divisor(k));
                    }
                    let y = x[k];
                    for (row, x) in x.iter_mut().enumerate().take(n).skip(k + 1) {
                        *x = x.minus_product::<FUSED>(self.packed.entry(k * LEAF + row), y);
                    }
                }
                for (row, &x) in x.iter().enumerate().take(n) {
                    *b.at(row, col) = x;
                }
            }
        }
    }
}

/// Up to `STRIPE` right-hand sides at once.
///
/// # Safety
/// As `Narrow`, of at most `STRIPE` columns.
struct Stripe<'a, T: Field> {
    packed: &'a Packed<T>,
    b: Block<T>,
}

impl<T: Field> Vectorised for Stripe<'_, T> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) {
        let b = self.b;
        // SAFETY: rows and columns are in range.
        unsafe {
            if b.col_stride == 1 && b.cols == STRIPE {
                self.solve::<FUSED>(b.pointer, b.row_stride);
                return;
            }
            let mut copy = [T::ZERO; LEAF * STRIPE];
            let inside = Block::rows(copy.as_mut_ptr(), b.rows, b.cols, STRIPE);
            Turn { from: b, to: inside }.run::<FUSED>();
            self.solve::<FUSED>(inside.pointer, STRIPE as isize);
            Turn { from: inside, to: b }.run::<FUSED>();
        }
    }
}

impl<T: Field> Stripe<'_, T> {
    /// # Safety
    /// Rows of `STRIPE` elements, `step` apart, are writeable.
    #[inline(always)]
    unsafe fn solve<const FUSED: bool>(&self, x: *mut T, step: isize) {
        for row in 0..self.packed.order {
            // SAFETY: rows in range; the block is packed by rows.
            unsafe {
                let to = x.offset(row as isize * step);
                let mut sum = Lanes::<T, STRIPE>::load(to);
                for k in 0..row {
                    let factor = self.packed.entry(row * LEAF + k);
                    let from = Lanes::load(x.offset(k as isize * step));
                    sum = sum.minus_product::<FUSED>(from, factor);
                }
                if !self.packed.unit {
                    sum = sum.over(self.packed.divisor(row));
                }
                sum.store(to);
            }
        }
    }
}
