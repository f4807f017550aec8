//! `P a = L U` with partial pivoting, by halving the columns (Toledo 1997, Gustavson 1997): nearly all of the work is
//! products. The matrix is row-major, so that rows are exchanged as contiguous memory; narrow panels are eliminated in a
//! column-major copy that fits a near cache.

pub(crate) mod determinant;
pub(crate) mod elimination;
pub(crate) mod factored;
pub(crate) mod factorize;
pub(crate) mod full_pivoting;
pub(crate) mod inverse;
pub(crate) mod panel;
pub(crate) mod small;
pub(crate) mod small_elimination;
pub(crate) mod solve;

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::lu::panel::{Eliminate, leading, multipliers_len};
use crate::transpose::{columns_of_rows, rows_of_columns};
use crate::triangular::substitute;
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Columns of a panel.
const PANEL: usize = 32;
/// Columns whose rows are exchanged by one slot.
const SWAP: usize = 128;

/// Scratch of `factor` for a matrix of that many rows.
pub(crate) fn scratch<T: Field>(rows: usize) -> StackReq {
    StackReq::all_of(&[need::<T>(PANEL * leading(rows)), need::<T>(multipliers_len(rows))])
}

/// Factors a row-major matrix in place: the first `steps` columns are eliminated and the others updated. Pivot `j` is the
/// row with which row `j` was exchanged.
///
/// # Safety
/// `a` is writeable, with rows that do not overlap and columns next to each other; `steps` is at most either extent;
/// `pivots` holds `steps` elements, and `stack` has `scratch(a.rows)`.
pub(crate) unsafe fn factor<T: Field>(
    crew: &mut Crew<'_>,
    a: Block<T>,
    steps: usize,
    pivots: *mut usize,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (panel, stack) = take::<T>(stack, PANEL * leading(a.rows));
    let (multipliers, _) = take::<T>(stack, multipliers_len(a.rows));
    // SAFETY: passed on.
    unsafe { halves(crew, a, steps, pivots, panel, multipliers) }
}

/// # Safety
/// As `factor`, with its scratch.
unsafe fn halves<T: Field>(
    crew: &mut Crew<'_>,
    a: Block<T>,
    steps: usize,
    pivots: *mut usize,
    panel: *mut T,
    multipliers: *mut T,
) -> Result<(), Failure> {
    if steps == 0 {
        return Ok(());
    }
    let (m, n) = (a.rows, a.cols);
    let left = if steps <= PANEL {
        steps
    } else {
        (steps / 2).next_multiple_of(PANEL)
    };
    // SAFETY: the parts lie inside the matrix and share no element.
    unsafe {
        if steps <= PANEL {
            columns_of_rows(a.part(0..m, 0..left), panel, leading(m));
            vectorised(Eliminate {
                a: panel,
                rows: m,
                cols: left,
                steps,
                pivots,
                multipliers,
            });
            rows_of_columns(panel, leading(m), a.part(0..m, 0..left));
            if crew.is_interrupted() {
                return Err(Failure::Interrupted);
            }
        } else {
            halves(crew, a.part(0..m, 0..left), left, pivots, panel, multipliers)?;
        }
        if left == n {
            return Ok(());
        }
        exchange_rows(crew, a.part(0..m, left..n), pivots, left)?;
        let triangle = a.part(0..left, 0..left);
        let right = a.part(0..left, left..n);
        substitute(crew, triangle, true, right)?;
        if left == m {
            return Ok(());
        }
        let rest = a.part(left..m, left..n);
        crew.multiply(-T::ONE, a.part(left..m, 0..left), right, T::ONE, rest)?;
        let more = steps - left;
        halves(crew, rest, more, pivots.add(left), panel, multipliers)?;
        exchange_rows(crew, a.part(left..m, 0..left), pivots.add(left), more)?;
        for j in left..steps {
            *pivots.add(j) += left;
        }
    }
    Ok(())
}

/// Exchanges row `j` with row `pivots[j]`, for `j` from 0 to `count`.
///
/// # Safety
/// The block is writeable, its columns next to each other; the pivots are rows of it.
pub(crate) unsafe fn exchange_rows<T: Field>(
    crew: &mut Crew<'_>,
    a: Block<T>,
    pivots: *const usize,
    count: usize,
) -> Result<(), Failure> {
    struct Pivots(*const usize);
    // SAFETY: read only.
    unsafe impl Sync for Pivots {}
    impl Pivots {
        /// # Safety
        /// `j` is below the count.
        unsafe fn at(&self, j: usize) -> usize {
            // SAFETY: passed on.
            unsafe { *self.0.add(j) }
        }
    }
    let pivots = Pivots(pivots);
    let chunks = a.cols.div_ceil(SWAP);
    let nanoseconds = (count * a.cols * size_of::<T>()) as f64 * 0.05;
    let swap = |chunk: usize| {
        let cols = chunk * SWAP..((chunk + 1) * SWAP).min(a.cols);
        for j in 0..count {
            // SAFETY: the rows differ, and every chunk of columns is one caller's.
            unsafe {
                let pivot = pivots.at(j);
                if pivot != j {
                    std::ptr::swap_nonoverlapping(a.at(j, cols.start), a.at(pivot, cols.start), cols.len());
                }
            }
        }
    };
    if chunks == 1 {
        swap(0);
        return Ok(());
    }
    crew.chunks(chunks, nanoseconds, swap)
}

/// Whether an entry of the diagonal is exactly zero.
///
/// # Safety
/// The block is readable.
pub(crate) unsafe fn has_zero_pivot<T: Field>(a: Block<T>) -> bool {
    // SAFETY: on the diagonal.
    (0..a.rows.min(a.cols)).any(|i| unsafe { *a.at(i, i) } == T::ZERO)
}

/// Where each row of the result comes from: `(P a)[i] = a[order[i]]`. Returns whether the permutation is odd.
///
/// # Safety
/// `pivots` holds `count` elements below `rows`, `order` holds `rows`.
pub(crate) unsafe fn order_of(pivots: *const usize, count: usize, order: *mut usize, rows: usize) -> bool {
    let mut odd = false;
    // SAFETY: passed on.
    unsafe {
        for i in 0..rows {
            *order.add(i) = i;
        }
        for j in 0..count {
            let pivot = *pivots.add(j);
            if pivot != j {
                std::ptr::swap(order.add(j), order.add(pivot));
                odd = !odd;
            }
        }
    }
    odd
}
