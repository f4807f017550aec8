//! Gaussian elimination with partial pivoting of a panel that fits a near cache.
//!
//! Columns are eliminated in groups: inside a group a column is brought up to date when its turn comes (left-looking),
//! and the columns right of the group get all its steps in one pass (right-looking). The multipliers of a group stand in
//! an array of their own with zeros above, so that every pass runs over whole vectors. Quotients are divisions, not
//! products with a reciprocal: equal rows cancel exactly, and pivots near the ends of the range are no special case.

#![allow(clippy::needless_range_loop, reason = "one index for several arrays")]

use crate::field::{Field, RealNumber};
use crate::registers::Lanes;
use crate::vectorised::Vectorised;

/// Rows are padded to a multiple of this, with zeros.
pub(crate) const LANES: usize = 16;
/// Steps that one pass over the columns on the right applies.
const GROUP: usize = 4;
/// Columns that one sweep over the rows updates.
const STRETCH: usize = 32;
/// Rows of which the multipliers stay in the first-level cache.
const ROWS: usize = 256;

/// Elements between two columns of a panel of that many rows.
pub(crate) fn leading(rows: usize) -> usize {
    rows.next_multiple_of(LANES)
}

/// Elements of the multipliers that `Eliminate` asks for.
pub(crate) fn multipliers_len(rows: usize) -> usize {
    GROUP * leading(rows)
}

/// `P a = L U` in place: `steps` columns are eliminated, those right of them are updated. Pivot `j` is the first of the
/// largest entries from row `j` on; a column of zeros is left as it is.
///
/// # Safety
/// `a` is column-major, its columns `leading(rows)` apart and zero below `rows`; `steps` is at most `rows` and `cols`;
/// `pivots` holds `steps` elements and `multipliers` holds `multipliers_len(rows)`.
pub(crate) struct Eliminate<T> {
    pub(crate) a: *mut T,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) steps: usize,
    pub(crate) pivots: *mut usize,
    pub(crate) multipliers: *mut T,
}

impl<T: Field> Vectorised for Eliminate<T> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) {
        for first in (0..self.steps).step_by(GROUP) {
            let width = GROUP.min(self.steps - first);
            // SAFETY: passed on; the group lies inside the panel.
            unsafe {
                for local in 0..width {
                    self.column::<FUSED>(first, local);
                }
                for spare in width..GROUP {
                    let from = first / LANES * LANES;
                    let to = self.multipliers.add(spare * leading(self.rows));
                    (from..leading(self.rows)).for_each(|i| *to.add(i) = T::ZERO);
                }
                self.update_all::<FUSED>(first, width);
            }
        }
    }
}

impl<T: Field> Eliminate<T> {
    /// The entries of `U` of one column in the rows of the group, from its entries there.
    ///
    /// # Safety
    /// As the type; the first `steps` columns of the group are done.
    #[inline(always)]
    unsafe fn upper<const FUSED: bool>(&self, first: usize, steps: usize, column: *const T) -> [T; GROUP] {
        let lead = leading(self.rows);
        let mut u = [T::ZERO; GROUP];
        for k in 0..steps {
            // SAFETY: rows of the group.
            unsafe {
                let mut x = *column.add(first + k);
                for (before, &y) in u.iter().enumerate().take(k) {
                    x = x.minus_product::<FUSED>(*self.multipliers.add(before * lead + first + k), y);
                }
                u[k] = x;
            }
        }
        u
    }

    /// Brings column `first + local` up to date, finds its pivot, exchanges rows and divides.
    ///
    /// # Safety
    /// As the type; the columns before it are done.
    #[inline(always)]
    unsafe fn column<const FUSED: bool>(&self, first: usize, local: usize) {
        let lead = leading(self.rows);
        let j = first + local;
        // SAFETY: every row is below `lead`, which is a multiple of LANES.
        unsafe {
            let column = self.a.add(j * lead);
            let multipliers = self.multipliers;
            if local > 0 {
                let u = self.upper::<FUSED>(first, local, column);
                for block in (first / LANES * LANES..lead).step_by(LANES) {
                    let mut x = Lanes::<T, LANES>::load(column.add(block));
                    x = x.minus_product::<FUSED>(Lanes::load(multipliers.add(block)), u[0]);
                    if local > 1 {
                        x = x.minus_product::<FUSED>(Lanes::load(multipliers.add(lead + block)), u[1]);
                    }
                    if local > 2 {
                        x = x.minus_product::<FUSED>(Lanes::load(multipliers.add(2 * lead + block)), u[2]);
                    }
                    x.store(column.add(block));
                }
            }
            // Among NaN the largest may be one of the zeros below the rows.
            let pivot = match largest(column, j, lead) {
                pivot if pivot < self.rows => pivot,
                _ => j,
            };
            *self.pivots.add(j) = pivot;
            if pivot != j {
                for col in 0..self.cols {
                    std::ptr::swap(self.a.add(j + col * lead), self.a.add(pivot + col * lead));
                }
                for k in 0..local {
                    std::ptr::swap(multipliers.add(j + k * lead), multipliers.add(pivot + k * lead));
                }
            }
            let own = multipliers.add(local * lead);
            let head = *column.add(j);
            // All of a column whose largest entry is zero is zero.
            let divisor = if head == T::ZERO { T::ONE } else { head }.divisor();
            let start = j / LANES * LANES;
            for i in (first / LANES * LANES)..=j {
                *own.add(i) = T::ZERO;
            }
            for i in j + 1..start + LANES {
                let quotient = (*column.add(i)).over(divisor);
                *column.add(i) = quotient;
                *own.add(i) = quotient;
            }
            for block in (start + LANES..lead).step_by(LANES) {
                let quotient = Lanes::<T, LANES>::load(column.add(block)).over(divisor);
                quotient.store(column.add(block));
                quotient.store(own.add(block));
            }
        }
    }

    /// Applies the steps of a group to the columns right of it: a stretch of rows at a time, whose multipliers stay in the
    /// first-level cache.
    ///
    /// # Safety
    /// As the type; the group is done.
    #[inline(always)]
    unsafe fn update_all<const FUSED: bool>(&self, first: usize, width: usize) {
        let lead = leading(self.rows);
        for from in (first + width..self.cols).step_by(STRETCH) {
            let until = (from + STRETCH).min(self.cols);
            let mut upper = [[T::ZERO; GROUP]; STRETCH];
            for col in from..until {
                // SAFETY: a column right of the group.
                upper[col - from] = unsafe { self.upper::<FUSED>(first, width, self.a.add(col * lead)) };
            }
            for top in (first / LANES * LANES..lead).step_by(ROWS) {
                let rows = top..(top + ROWS).min(lead);
                let mut col = from;
                // SAFETY: rows below `lead`, columns right of the group.
                unsafe {
                    while col + 4 <= until {
                        self.update::<FUSED, 4>(rows.clone(), col, &upper[col - from..]);
                        col += 4;
                    }
                    while col < until {
                        self.update::<FUSED, 1>(rows.clone(), col, &upper[col - from..]);
                        col += 1;
                    }
                }
            }
        }
    }

    /// Applies the steps of a group to rows of `COLS` columns.
    ///
    /// # Safety
    /// As the type; the rows start and end at multiples of LANES.
    #[inline(always)]
    unsafe fn update<const FUSED: bool, const COLS: usize>(
        &self,
        rows: std::ops::Range<usize>,
        col: usize,
        upper: &[[T; GROUP]],
    ) {
        let lead = leading(self.rows);
        let u: [[T; GROUP]; COLS] = std::array::from_fn(|at| upper[at]);
        for block in rows.step_by(LANES) {
            // SAFETY: every row is below `lead`.
            unsafe {
                let g: [Lanes<T, LANES>; GROUP] =
                    std::array::from_fn(|k| Lanes::load(self.multipliers.add(k * lead + block)));
                for (at, u) in u.iter().enumerate() {
                    let to = self.a.add((col + at) * lead + block);
                    let mut x = Lanes::load(to);
                    for k in 0..GROUP {
                        x = x.minus_product::<FUSED>(g[k], u[k]);
                    }
                    x.store(to);
                }
            }
        }
    }
}

/// The row of the first of the largest entries of a column from row `from` on.
///
/// # Safety
/// `column` holds `lead` elements, `from < lead` and `lead` is a multiple of LANES.
#[inline(always)]
unsafe fn largest<T: Field>(column: *const T, from: usize, lead: usize) -> usize {
    let start = from / LANES * LANES;
    let mut best = [T::R::of(-1.0); LANES];
    // SAFETY: every index is below `lead`.
    unsafe {
        for (lane, best) in best.iter_mut().enumerate() {
            let size = (*column.add(start + lane)).size();
            *best = if start + lane >= from { size } else { *best };
        }
        for block in (start + LANES..lead).step_by(LANES) {
            for (lane, best) in best.iter_mut().enumerate() {
                let size = (*column.add(block + lane)).size();
                *best = if size > *best { size } else { *best };
            }
        }
        let top = best
            .iter()
            .fold(T::R::of(-1.0), |top, &x| if x > top { x } else { top });
        for i in from..(start + LANES).min(lead) {
            if (*column.add(i)).size() == top {
                return i;
            }
        }
        for block in (start + LANES..lead).step_by(LANES) {
            let mut here = false;
            for lane in 0..LANES {
                here |= (*column.add(block + lane)).size() == top;
            }
            if here {
                for i in block..block + LANES {
                    if (*column.add(i)).size() == top {
                        return i;
                    }
                }
            }
        }
    }
    from
}

/// `x = u^-1 x` for the upper triangle of an eliminated panel.
///
/// # Safety
/// `u` and `x` are column-major, columns `leading(rows)` apart, `rows` and `cols` of them, and share no element;
/// `multipliers` holds `multipliers_len(rows)`.
pub(crate) struct BackSubstitute<T> {
    pub(crate) u: *const T,
    pub(crate) rows: usize,
    pub(crate) x: *mut T,
    pub(crate) cols: usize,
    pub(crate) multipliers: *mut T,
}

impl<T: Field> Vectorised for BackSubstitute<T> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) {
        let lead = leading(self.rows);
        for first in (0..self.rows).step_by(GROUP).rev() {
            let width = GROUP.min(self.rows - first);
            let top = first.next_multiple_of(LANES);
            // SAFETY: every row and column is in range.
            unsafe {
                let mut divisors = [T::ONE.divisor(); GROUP];
                for k in 0..GROUP {
                    let to = self.multipliers.add(k * lead);
                    if k >= width {
                        (0..top).for_each(|i| *to.add(i) = T::ZERO);
                        continue;
                    }
                    let from = self.u.add((first + k) * lead);
                    (0..first).for_each(|i| *to.add(i) = *from.add(i));
                    (first..top).for_each(|i| *to.add(i) = T::ZERO);
                    divisors[k] = (*from.add(first + k)).divisor();
                }
                for col in 0..self.cols {
                    let x = self.x.add(col * lead);
                    let mut y = [T::ZERO; GROUP];
                    for k in (0..width).rev() {
                        let mut sum = *x.add(first + k);
                        // From the last one on, as everywhere: systems side by side get the same bits.
                        for l in (k + 1..width).rev() {
                            sum =
                                sum.minus_product::<FUSED>(*self.u.add(first + k + (first + l) * lead), y[l]);
                        }
                        y[k] = sum.over(divisors[k]);
                        *x.add(first + k) = y[k];
                    }
                    let m = self.multipliers;
                    for block in (0..top).step_by(LANES) {
                        let mut sum = Lanes::<T, LANES>::load(x.add(block));
                        for (k, &y) in y.iter().enumerate().rev() {
                            sum = sum.minus_product::<FUSED>(Lanes::load(m.add(k * lead + block)), y);
                        }
                        sum.store(x.add(block));
                    }
                }
            }
        }
    }
}
