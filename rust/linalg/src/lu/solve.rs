//! Square linear systems by LU with partial pivoting.
//!
//! Singular means a pivot that is exactly zero, nothing less: there is no rank cut-off. The right-hand sides are further
//! columns of the matrix, so that elimination substitutes forward on the way. A matrix near the ends of the range is scaled
//! by an exact power of two; where one power cannot serve all entries, `elimination` gives every row and column its own.

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::lu;
use crate::lu::elimination::solve_scaled;
use crate::lu::panel::{BackSubstitute, Eliminate, leading, multipliers_len};
use crate::lu::small::{self, Sides, is_quicker_together};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::run::{Batch, Target};
use crate::scaling::{Scaling, exponent_above};
use crate::side_by_side::together;
use crate::transpose::{Turn, columns_of_rows, rows_of_columns};
use crate::triangular::substitute_back;
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

/// Order up to which the whole system is one panel.
pub(crate) const PANEL_ORDER: usize = 64;

/// How a matrix is brought to the middle of the range.
pub(crate) enum Reach<R> {
    /// Times this power of two, every entry is kept.
    Kept(Scaling<R>),
    /// No power of two keeps every entry.
    TooWide,
    /// An entry is NaN or infinite.
    NonFinite,
}

/// Looks at the largest entry, and at the smallest one where the matrix must be scaled down.
///
/// # Safety
/// The matrix must be readable.
pub(crate) unsafe fn reach_of<T: Field>(view: &View<T>) -> Reach<T::R> {
    // SAFETY: passed on.
    let bits = unsafe { view.largest_bits() };
    if bits >= T::R::INFINITE_BITS {
        return Reach::NonFinite;
    }
    let largest = T::R::from_bits(bits).to_f64();
    let comfortable = T::R::EXPONENT_LIMIT / 2;
    let exponent = if largest == 0.0 {
        0
    } else {
        exponent_above(largest)
    };
    if exponent.abs() <= comfortable {
        return Reach::Kept(Scaling::none());
    }
    if exponent < 0 {
        return Reach::Kept(Scaling::by(-exponent));
    }
    let scaling = Scaling::by(comfortable - exponent);
    // SAFETY: passed on.
    let smallest = unsafe { view.min_abs() } * crate::field::power_of_two(comfortable - exponent);
    if smallest >= T::R::TINY.to_f64() {
        Reach::Kept(scaling)
    } else {
        Reach::TooWide
    }
}

/// Whether products of entries may have fallen below the range, so that a zero pivot proves nothing.
///
/// # Safety
/// The matrix must be readable.
pub(crate) unsafe fn may_underflow<T: Field>(view: &View<T>) -> bool {
    // SAFETY: passed on.
    let (largest, smallest) = unsafe { (view.max_abs(Part::All), view.min_abs()) };
    smallest < largest * crate::field::power_of_two(-T::R::EXPONENT_LIMIT / 3)
}

/// The block of a view that is only read.
pub(crate) fn block_of<T: Field>(view: &View<T>) -> Block<T> {
    Block {
        pointer: view.pointer.cast_mut(),
        rows: view.rows,
        cols: view.cols,
        row_stride: view.row_stride,
        col_stride: view.col_stride,
        conj: false,
    }
}

/// Multiplies every entry of a block by a power of two.
///
/// # Safety
/// The block is writeable.
pub(crate) unsafe fn rescale<T: Field>(block: Block<T>, scaling: Scaling<T::R>) {
    if scaling.exponent() == 0 {
        return;
    }
    for row in 0..block.rows {
        for col in 0..block.cols {
            // SAFETY: inside the block.
            unsafe { *block.at(row, col) = scaling.apply(*block.at(row, col)) };
        }
    }
}

/// # Safety
/// The block is readable.
pub(crate) unsafe fn all_finite<T: Field>(block: Block<T>) -> bool {
    let view = View {
        pointer: block.pointer.cast_const(),
        rows: block.rows,
        cols: block.cols,
        row_stride: block.row_stride,
        col_stride: block.col_stride,
    };
    // SAFETY: passed on.
    unsafe { view.largest_bits() < T::R::INFINITE_BITS }
}

/// Elements between the rows of a row-major matrix of that many columns: whole cache lines, and no power of two, whose
/// rows would meet in a few sets of the cache.
pub(crate) fn row_step<T>(cols: usize) -> usize {
    let line = (64 / size_of::<T>()).max(1);
    let step = cols.next_multiple_of(line);
    if (step * size_of::<T>()).is_multiple_of(1024) {
        step + line
    } else {
        step
    }
}

/// What a factored system came to.
enum Outcome {
    Solved,
    ZeroPivot,
    OutOfRange,
}

/// Factors the first `n` columns and solves for the others.
///
/// # Safety
/// `a` is row-major, of `n` rows.
unsafe fn solve_large<T: Field>(
    crew: &mut Crew<'_>,
    a: Block<T>,
    pivots: *mut usize,
    stack: &mut MemStack,
) -> Result<Outcome, Failure> {
    let n = a.rows;
    let (square, right) = (a.part(0..n, 0..n), a.part(0..n, n..a.cols));
    // SAFETY: passed on.
    unsafe {
        lu::factor(crew, a, n, pivots, stack)?;
        if lu::has_zero_pivot(square) {
            return Ok(if all_finite(square) {
                Outcome::ZeroPivot
            } else {
                Outcome::OutOfRange
            });
        }
        substitute_back(crew, square, false, right)?;
        let sound = all_finite(right) && (right.cols > 0 || all_finite(square));
        Ok(if sound {
            Outcome::Solved
        } else {
            Outcome::OutOfRange
        })
    }
}

/// The same in one panel, column-major.
///
/// # Safety
/// `a` holds `n + cols` columns, `leading(n)` apart and zero below `n`.
unsafe fn solve_panel<T: Field>(
    a: *mut T,
    n: usize,
    cols: usize,
    pivots: *mut usize,
    multipliers: *mut T,
) -> Outcome {
    let lead = leading(n);
    let (square, right) = (Block::columns(a, n, n, lead), a.wrapping_add(n * lead));
    let block = Block::columns(right, n, cols, lead);
    // SAFETY: passed on.
    unsafe {
        vectorised(Eliminate {
            a,
            rows: n,
            cols: n + cols,
            steps: n,
            pivots,
            multipliers,
        });
        if lu::has_zero_pivot(square) {
            return if all_finite(square) {
                Outcome::ZeroPivot
            } else {
                Outcome::OutOfRange
            };
        }
        vectorised(BackSubstitute {
            u: a,
            rows: n,
            x: right,
            cols,
            multipliers,
        });
        if all_finite(block) && (cols > 0 || all_finite(square)) {
            Outcome::Solved
        } else {
            Outcome::OutOfRange
        }
    }
}

/// What one system needs, from the sizes alone.
#[derive(Clone, Copy)]
struct Sizes {
    n: usize,
    cols: usize,
}

impl Sizes {
    fn is_panel(self) -> bool {
        self.n <= PANEL_ORDER && self.cols <= PANEL_ORDER
    }

    fn scratch<T: Field>(self) -> StackReq {
        let all = self.n + self.cols;
        if self.is_panel() {
            StackReq::all_of(&[
                need::<T>(leading(self.n) * all),
                need::<usize>(self.n),
                need::<T>(multipliers_len(self.n)),
            ])
        } else {
            StackReq::all_of(&[
                need::<T>(self.n * row_step::<T>(all)),
                need::<usize>(self.n),
                lu::scratch::<T>(self.n),
            ])
        }
    }
}

/// One system, from the caller's arrays to its place in the output.
///
/// # Safety
/// As `solve`; a crew is there unless the system is a panel.
unsafe fn item<T: Field>(
    crew: Option<&mut Crew<'_>>,
    a_view: View<T>,
    b_view: View<T>,
    out: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (n, cols) = (a_view.rows, b_view.cols);
    let to = Block::rows(out, n, cols, cols);
    // SAFETY: the output holds n by cols; the scratch was sized by `Sizes`.
    unsafe {
        let scaling = match reach_of(&a_view) {
            Reach::NonFinite => {
                fill_nan(out, n * cols);
                return Ok(());
            }
            Reach::Kept(scaling) => Some(scaling),
            Reach::TooWide => None,
        };
        if let Some(scaling) = scaling {
            let (outcome, right) = match crew {
                None => {
                    let lead = leading(n);
                    let (a, stack) = take::<T>(stack, lead * (n + cols));
                    let (pivots, stack) = take::<usize>(stack, n);
                    let (multipliers, _) = take::<T>(stack, multipliers_len(n));
                    columns_of_rows(block_of(&a_view), a, lead);
                    columns_of_rows(block_of(&b_view), a.add(n * lead), lead);
                    rescale(Block::columns(a, n, n, lead), scaling);
                    let right = Block::columns(a.add(n * lead), n, cols, lead);
                    (solve_panel(a, n, cols, pivots, multipliers), right)
                }
                Some(crew) => {
                    let step = row_step::<T>(n + cols);
                    let (a, stack) = take::<T>(stack, n * step);
                    let (pivots, stack) = take::<usize>(stack, n);
                    let a = Block::rows(a, n, n + cols, step);
                    let (square, right) = (a.part(0..n, 0..n), a.part(0..n, n..n + cols));
                    vectorised(Turn {
                        from: block_of(&a_view),
                        to: square,
                    });
                    vectorised(Turn {
                        from: block_of(&b_view),
                        to: right,
                    });
                    rescale(square, scaling);
                    (solve_large(crew, a, pivots, stack)?, right)
                }
            };
            match outcome {
                Outcome::ZeroPivot if !may_underflow(&a_view) => return Err(Failure::Singular),
                Outcome::Solved => {
                    // a x = b became (a 2^e) y = b, so x = y 2^e.
                    rescale(right, scaling);
                    if right.row_stride == 1 {
                        rows_of_columns(right.pointer, right.col_stride as usize, to);
                    } else {
                        vectorised(Turn { from: right, to });
                    }
                    return Ok(());
                }
                Outcome::OutOfRange if !all_finite(block_of(&b_view)) => {
                    vectorised(Turn { from: right, to });
                    return Ok(());
                }
                _ => {}
            }
        }
        solve_scaled(&a_view, &b_view, |row, col, x| *to.at(row, col) = x)
    }
}

/// The solution of `a @ x = b` for every pair of matrices; the leading axes of both have been broadcast to one shape by
/// the caller (stride zero where an operand is repeated).
///
/// # Safety
/// `a` must be square, with as many rows as `b`, and both readable. `out` must hold the shape of `b` after broadcasting and
/// share no memory with the inputs.
pub unsafe fn solve<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    b: &Matrices<'_, T>,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    // SAFETY: passed on.
    unsafe { solve_as("solve", token, policy, a, (b, false), check_finite, out) }
}

/// As `solve`, under the name of another operation, and with the right-hand sides said to be the identity or not.
///
/// # Safety
/// As `solve`.
pub(crate) unsafe fn solve_as<T: Field>(
    operation: &'static str,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    (b, identity): (&Matrices<'_, T>, bool),
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    if a.batch_shape != b.batch_shape || a.rows != b.rows || a.rows != a.cols {
        return Err(Error::new(
            ErrorCode::MatrixShape,
            format!(
                "a has batch shape {:?} and matrices of {} by {}, b has {:?} and {} rows; broadcast them to one batch \
                 shape first",
                a.batch_shape, a.rows, a.cols, b.batch_shape, b.rows
            ),
        )
        .in_operation(operation));
    }
    let batch = Batch {
        operation,
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe {
            batch.refuse_non_finite(token, 0, a, Part::All)?;
            if !identity {
                batch.refuse_non_finite(token, 1, b, Part::All)?;
            }
        }
    }
    let (n, cols) = (a.rows, b.cols);
    let sizes = Sizes { n, cols };
    let item_ns = cost::solve(n, cols, !T::IS_REAL);
    let out = Target(out);
    let (a, b) = (&a, &b);
    let scratch = sizes.scratch::<T>();
    if is_quicker_together(n, cols, batch.count) {
        let scratch = scratch.and(small::scratch::<T>(n, cols));
        let together = together::<T::R>();
        return batch.each_range(token, item_ns / 6.0, scratch, together, |range, stack| {
            let place = |index: usize| out.item(index, n * cols);
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe {
                let single = |index: usize, stack: &mut MemStack| {
                    item(None, a.item(index), b.item(index), place(index), stack)
                };
                let sides = if identity { Sides::Identity } else { Sides::Of(b) };
                small::eliminate(range, a, sides, stack, place, |_, _, _| {}, single)
            }
        });
    }
    if sizes.is_panel() {
        return batch.each(token, item_ns, scratch, |index, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe {
                item(
                    None,
                    a.item(index),
                    b.item(index),
                    out.item(index, n * cols),
                    stack,
                )
            }
        });
    }
    batch.each_with_crew(token, item_ns, scratch, |index, crew, stack| {
        // SAFETY: as above.
        unsafe {
            item(
                Some(crew),
                a.item(index),
                b.item(index),
                out.item(index, n * cols),
                stack,
            )
        }
    })
}
