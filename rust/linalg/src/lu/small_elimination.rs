//! Small matrices side by side: one in each lane of the registers, so that elimination runs without a shuffle or a branch.
//!
//! A lane whose matrix needs more than the plain algorithm (a pivot of zero, entries or results near the ends of the range)
//! is not finished here: the caller gives it to the code for single matrices. What happens in a lane does not depend on its
//! neighbours, so that a matrix has the same result alone and in any batch.

#![allow(clippy::needless_range_loop, reason = "one index for several arrays")]

use crate::field::{Field, RealNumber, power_of_two};
use crate::side_by_side::{MOST_LANES, together};
use crate::wide::{Wide, kernel};
use treadle_core::Element;

/// The largest order.
pub(crate) const ORDER: usize = 16;
/// The most right-hand sides.
pub(crate) const SIDES: usize = 16;
/// Columns that one pass over the rows brings up to date.
const BLOCK: usize = 4;

/// One entry of every lane; the imaginary parts are zero and unused where `C` is false.
#[derive(Clone, Copy)]
pub(crate) struct Number<W, const C: bool> {
    re: W,
    im: W,
}

impl<W: Wide, const C: bool> Number<W, C> {
    /// # Safety
    /// From a `Task`; so below.
    #[inline(always)]
    unsafe fn size(self) -> W {
        // SAFETY: passed on.
        unsafe {
            if C {
                self.re.abs().add(self.im.abs())
            } else {
                self.re.abs()
            }
        }
    }

    /// `self - left * right`.
    ///
    /// # Safety
    /// As `size`.
    #[inline(always)]
    unsafe fn minus_product(mut self, left: Self, right: Self) -> Self {
        // SAFETY: passed on.
        unsafe {
            self.re = left.re.fnma(right.re, self.re);
            if C {
                self.re = left.im.fma(right.im, self.re);
                self.im = left.re.fnma(right.im, self.im);
                self.im = left.im.fnma(right.re, self.im);
            }
        }
        self
    }

    /// `self - left * conj(right)`.
    ///
    /// # Safety
    /// As `size`.
    #[inline(always)]
    unsafe fn minus_conjugate_product(mut self, left: Self, right: Self) -> Self {
        // SAFETY: passed on.
        unsafe {
            self.re = left.re.fnma(right.re, self.re);
            if C {
                self.re = left.im.fnma(right.im, self.re);
                self.im = left.re.fma(right.im, self.im);
                self.im = left.im.fnma(right.re, self.im);
            }
        }
        self
    }

    /// The quotient; a number by itself is exactly one. Squares of the parts of the divisor stay in the range.
    ///
    /// # Safety
    /// As `size`.
    #[inline(always)]
    unsafe fn over(self, divisor: Self) -> Self {
        // SAFETY: passed on.
        unsafe {
            if !C {
                return Number {
                    re: self.re.div(divisor.re),
                    im: self.im,
                };
            }
            let (re, im) = (divisor.re, divisor.im);
            let squared = re.mul(re).add(im.mul(im));
            Number {
                re: self.re.mul(re).add(self.im.mul(im)).div(squared),
                im: self.im.mul(re).sub(self.re.mul(im)).div(squared),
            }
        }
    }

    /// Lane by lane, `yes` where `which` is `index`, else `self`.
    ///
    /// # Safety
    /// As `size`.
    #[inline(always)]
    unsafe fn or_where(self, which: W, index: W, yes: Self) -> Self {
        // SAFETY: passed on.
        unsafe {
            Number {
                re: which.where_equal(index, yes.re, self.re),
                im: if C {
                    which.where_equal(index, yes.im, self.im)
                } else {
                    self.im
                },
            }
        }
    }
}

/// Cells in a line, of the lanes of one register.
#[derive(Clone, Copy)]
pub(crate) struct Line<R> {
    pub(crate) at: *mut R,
    /// Cells from one to the next.
    pub(crate) step: usize,
}

impl<R: RealNumber> Line<R> {
    #[inline(always)]
    fn cell<const C: bool>(self, i: usize) -> *mut R {
        self.at
            .wrapping_add(i * self.step * if C { 2 } else { 1 } * together::<R>())
    }

    /// # Safety
    /// The cell is in the room; from a `Task`.
    #[inline(always)]
    pub(crate) unsafe fn get<W: Wide<R = R>, const C: bool>(self, i: usize) -> Number<W, C> {
        let cell = self.cell::<C>(i);
        // SAFETY: passed on.
        unsafe {
            Number {
                re: W::load(cell),
                im: if C {
                    W::load(cell.add(together::<R>()))
                } else {
                    W::zero()
                },
            }
        }
    }

    /// # Safety
    /// As `get`.
    #[inline(always)]
    pub(crate) unsafe fn set<W: Wide<R = R>, const C: bool>(self, i: usize, x: Number<W, C>) {
        let cell = self.cell::<C>(i);
        // SAFETY: passed on.
        unsafe {
            x.re.store(cell);
            if C {
                x.im.store(cell.add(together::<R>()));
            }
        }
    }
}

/// What was seen of the sizes of numbers, lane by lane.
#[derive(Clone, Copy)]
pub(crate) struct Seen<R> {
    /// The sum of the sizes, not finite where one is not.
    total: [R; MOST_LANES],
    /// More than zero where a number was too small.
    small: [R; MOST_LANES],
}

impl<R: RealNumber> Seen<R> {
    pub(crate) fn nothing() -> Self {
        Seen {
            total: [<R as Element>::ZERO; MOST_LANES],
            small: [<R as Element>::ZERO; MOST_LANES],
        }
    }

    /// Whether all numbers of a lane are in the middle of the range.
    #[inline(always)]
    pub(crate) fn is_sound(&self, lane: usize) -> bool {
        self.total[lane] < R::of(power_of_two(R::EXPONENT_LIMIT / 2))
            && self.small[lane] == <R as Element>::ZERO
    }
}

/// The same in a register.
struct Look<W> {
    total: W,
    small: W,
    low: W,
}

impl<W: Wide> Look<W> {
    /// # Safety
    /// From a `Task`; so below.
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: passed on.
        unsafe {
            Look {
                total: W::zero(),
                small: W::zero(),
                low: W::splat(W::R::of(power_of_two(-W::R::EXPONENT_LIMIT / 2))),
            }
        }
    }

    /// A number that may be zero.
    ///
    /// # Safety
    /// As `new`.
    #[inline(always)]
    unsafe fn see(&mut self, size: W) {
        // SAFETY: passed on.
        unsafe {
            self.total = self.total.add(size);
            self.small = self.small.add(size.where_less(self.low, size, W::zero()));
        }
    }

    /// A number that may not.
    ///
    /// # Safety
    /// As `new`.
    #[inline(always)]
    unsafe fn see_divisor(&mut self, size: W) {
        // SAFETY: passed on.
        unsafe {
            self.total = self.total.add(size);
            self.small = self.small.add(size.where_less(self.low, self.low, W::zero()));
        }
    }

    /// # Safety
    /// As `new`, for the lanes of a register from `lane` on.
    #[inline(always)]
    unsafe fn keep(self, seen: &mut Seen<W::R>, lane: usize) {
        // SAFETY: passed on.
        unsafe {
            self.total.store(seen.total.as_mut_ptr().add(lane));
            self.small.store(seen.small.as_mut_ptr().add(lane));
        }
    }
}

/// Matrices side by side, row after row, with right-hand sides behind them.
#[derive(Clone, Copy)]
pub(crate) struct Systems<R> {
    pub(crate) a: *mut R,
    pub(crate) n: usize,
    pub(crate) b: *mut R,
    pub(crate) sides: usize,
    /// The row with which each row was exchanged, as a number, in every lane.
    pub(crate) pivots: *mut R,
    /// Rows of the lower factor are exchanged too.
    pub(crate) lower: bool,
}

kernel! {
    /// `P a = L U` in every lane, and the solutions in place of the right-hand sides.
    ///
    /// # Safety
    /// The cells are those of `Systems`.
    pub(crate) unsafe fn eliminate<T, W>(systems: Systems<T::R>) -> Seen<T::R> {
        let mut seen = Seen::nothing();
        for lane in (0..together::<T::R>()).step_by(W::LANES) {
            let here = Systems {
                a: systems.a.add(lane),
                b: systems.b.wrapping_add(lane),
                pivots: systems.pivots.add(lane),
                ..systems
            };
            let look = match (T::IS_REAL, here.n) {
                (true, 4) => here.solve::<W, false>(4),
                (true, n) => here.solve::<W, false>(n),
                (false, n) => here.solve::<W, true>(n),
            };
            look.keep(&mut seen, lane);
        }
        seen
    }
}

impl<R: RealNumber> Systems<R> {
    #[inline(always)]
    fn cells(first: *mut R, cell: usize, step: usize, complex: bool) -> Line<R> {
        let parts = if complex { 2 } else { 1 };
        Line {
            at: first.wrapping_add(cell * parts * together::<R>()),
            step,
        }
    }

    /// A column of the matrices, or of the right-hand sides behind them.
    #[inline(always)]
    fn column<const C: bool>(&self, n: usize, col: usize) -> Line<R> {
        if col < n {
            Self::cells(self.a, col, n, C)
        } else {
            Self::cells(self.b, col - n, self.sides, C)
        }
    }

    /// # Safety
    /// From a `Task`, with the cells of a register.
    #[inline(always)]
    unsafe fn solve<W: Wide<R = R>, const C: bool>(&self, n: usize) -> Look<W> {
        let cols = n + self.sides;
        // SAFETY: rows and columns of the matrices and the right-hand sides.
        unsafe {
            let one = W::splat(R::of(1.0));
            let mut look = Look::<W>::new();
            let all = Self::cells(self.a, 0, 1, C);
            for i in 0..n * n {
                look.see(all.get::<W, C>(i).size());
            }
            for k in 0..n {
                let column = self.column::<C>(n, k);
                let start = W::splat(R::of(k as f64));
                let mut best = column.get::<W, C>(k).size();
                let (mut which, mut index) = (start, start);
                for i in k + 1..n {
                    index = index.add(one);
                    let size = column.get::<W, C>(i).size();
                    which = best.where_less(size, index, which);
                    best = best.where_less(size, size, best);
                }
                which.store(self.pivots.add(k * together::<R>()));
                let old = column.get::<W, C>(k);
                let mut pivot = old;
                let mut index = start;
                for i in k + 1..n {
                    index = index.add(one);
                    pivot = pivot.or_where(which, index, column.get(i));
                }
                look.see_divisor(pivot.size());
                column.set(k, pivot);
                let mut index = start;
                for i in k + 1..n {
                    index = index.add(one);
                    let x = column.get::<W, C>(i).or_where(which, index, old);
                    column.set(i, x.over(pivot));
                }
                let mut col = k + 1;
                while col + BLOCK <= cols {
                    let columns = std::array::from_fn(|at| self.column::<C>(n, col + at));
                    Self::step::<W, C, BLOCK>(k, n, which, column, columns);
                    col += BLOCK;
                }
                while col < cols {
                    Self::step::<W, C, 1>(k, n, which, column, [self.column::<C>(n, col)]);
                    col += 1;
                }
                if self.lower {
                    for col in 0..k {
                        let column = self.column::<C>(n, col);
                        let old = column.get::<W, C>(k);
                        let mut top = old;
                        let mut index = start;
                        for i in k + 1..n {
                            index = index.add(one);
                            let x = column.get(i);
                            top = top.or_where(which, index, x);
                            column.set(i, x.or_where(which, index, old));
                        }
                        column.set(k, top);
                    }
                }
            }
            if self.sides > 0 {
                self.substitute::<W, C>(n, &mut look);
            }
            look
        }
    }

    /// Exchanges row `k` of some columns with the row of the pivot, and subtracts its products from those below.
    ///
    /// # Safety
    /// As `solve`.
    #[inline(always)]
    unsafe fn step<W: Wide<R = R>, const C: bool, const COLS: usize>(
        k: usize,
        n: usize,
        which: W,
        factors: Line<R>,
        columns: [Line<R>; COLS],
    ) {
        // SAFETY: passed on.
        unsafe {
            let one = W::splat(R::of(1.0));
            let start = W::splat(R::of(k as f64));
            let mut old = [Number::<W, C> { re: start, im: start }; COLS];
            for (old, column) in old.iter_mut().zip(&columns) {
                *old = column.get(k);
            }
            let mut top = old;
            let mut index = start;
            for i in k + 1..n {
                index = index.add(one);
                for (top, column) in top.iter_mut().zip(&columns) {
                    *top = top.or_where(which, index, column.get(i));
                }
            }
            for (top, column) in top.iter().zip(&columns) {
                column.set(k, *top);
            }
            let mut index = start;
            for i in k + 1..n {
                index = index.add(one);
                let factor = factors.get::<W, C>(i);
                for at in 0..COLS {
                    let x = columns[at].get(i).or_where(which, index, old[at]);
                    columns[at].set(i, x.minus_product(factor, top[at]));
                }
            }
        }
    }

    /// # Safety
    /// As `solve`, after elimination.
    #[inline(always)]
    unsafe fn substitute<W: Wide<R = R>, const C: bool>(&self, n: usize, look: &mut Look<W>) {
        // SAFETY: passed on.
        unsafe {
            for k in (0..n).rev() {
                let column = self.column::<C>(n, k);
                let pivot = column.get::<W, C>(k);
                for col in n..n + self.sides {
                    let side = self.column::<C>(n, col);
                    let x = side.get::<W, C>(k).over(pivot);
                    look.see(x.size());
                    side.set(k, x);
                    for i in 0..k {
                        side.set(i, side.get::<W, C>(i).minus_product(column.get(i), x));
                    }
                }
            }
        }
    }
}

kernel! {
    /// The product of the pivots of every lane, with the sign of the permutation; zero where it came near the end of the range
    /// on the way.
    ///
    /// # Safety
    /// The cells are those of `Systems`, eliminated; `to` has room for one cell.
    pub(crate) unsafe fn determinants<T, W>(systems: Systems<T::R>, to: *mut T::R) {
        for lane in (0..together::<T::R>()).step_by(W::LANES) {
            if T::IS_REAL {
                systems.determinant::<W, false>(lane, to.add(lane));
            } else {
                systems.determinant::<W, true>(lane, to.add(lane));
            }
        }
    }
}

impl<R: RealNumber> Systems<R> {
    /// # Safety
    /// As `determinants`, from a `Task`, for a register from `lane` on.
    #[inline(always)]
    unsafe fn determinant<W: Wide<R = R>, const C: bool>(&self, lane: usize, to: *mut R) {
        // SAFETY: the diagonal and its pivots.
        unsafe {
            let low = W::splat(R::of(power_of_two(10 - R::EXPONENT_LIMIT)));
            let mut sign = W::splat(R::of(1.0));
            let mut kept = sign;
            let diagonal = Line {
                at: self.a.add(lane),
                step: self.n + 1,
            };
            let mut product = Number::<W, C> {
                re: sign,
                im: W::zero(),
            };
            for k in 0..self.n {
                let x = diagonal.get::<W, C>(k);
                if C {
                    product = Number {
                        re: product.re.mul(x.re).sub(product.im.mul(x.im)),
                        im: product.re.mul(x.im).add(product.im.mul(x.re)),
                    };
                } else {
                    product.re = product.re.mul(x.re);
                }
                kept = product.size().where_less(low, W::zero(), kept);
                let which = W::load(self.pivots.add(k * together::<R>() + lane));
                let row = W::splat(R::of(k as f64));
                sign = which.where_equal(row, sign, W::zero().sub(sign));
            }
            product.re = product.re.mul(sign).mul(kept);
            product.im = product.im.mul(sign).mul(kept);
            Line { at: to, step: 1 }.set(0, product);
        }
    }
}

/// Rows of a column of a Cholesky factor that are computed at once.
const ROWS: usize = 4;

kernel! {
    /// `a = l l^H` in the lower triangle of every lane, zeros above it. With `upper` it is the upper triangle, transposed.
    ///
    /// # Safety
    /// `a` holds the cells of matrices of order `n`.
    pub(crate) unsafe fn cholesky<T, W>(a: *mut T::R, n: usize, upper: bool) -> Seen<T::R> {
        let mut seen = Seen::nothing();
        for lane in (0..together::<T::R>()).step_by(W::LANES) {
            let (row_step, col_step) = if upper { (1, n) } else { (n, 1) };
            let at = a.add(lane);
            let factor = Factor { at, row_step, col_step };
            let look = if !T::IS_REAL {
                factor.run::<W, true>(n)
            } else if n == 4 && !upper {
                Factor { at, row_step: 4, col_step: 1 }.run::<W, false>(4)
            } else {
                factor.run::<W, false>(n)
            };
            look.keep(&mut seen, lane);
        }
        seen
    }
}

/// Matrices side by side of which the Cholesky factors are wanted.
struct Factor<R> {
    at: *mut R,
    row_step: usize,
    col_step: usize,
}

impl<R: RealNumber> Factor<R> {
    #[inline(always)]
    fn row<const C: bool>(&self, row: usize) -> Line<R> {
        Line {
            at: Line {
                at: self.at,
                step: self.row_step,
            }
            .cell::<C>(row),
            step: self.col_step,
        }
    }

    /// # Safety
    /// From a `Task`, with the cells of a register.
    #[inline(always)]
    unsafe fn run<W: Wide<R = R>, const C: bool>(&self, n: usize) -> Look<W> {
        // SAFETY: rows and columns of the matrices.
        unsafe {
            let mut look = Look::<W>::new();
            let zero = Number::<W, C> {
                re: W::zero(),
                im: W::zero(),
            };
            for j in 0..n {
                let own = self.row::<C>(j);
                let mut pivot = own.get::<W, C>(j);
                for k in 0..j {
                    let x = own.get(k);
                    pivot = pivot.minus_conjugate_product(x, x);
                }
                let root = pivot.re.root();
                look.see_divisor(root);
                own.set(
                    j,
                    Number::<W, C> {
                        re: root,
                        im: W::zero(),
                    },
                );
                for col in j + 1..n {
                    own.set(col, zero);
                }
                let mut i = j + 1;
                while i + ROWS <= n {
                    self.rows::<W, C, ROWS>(i, j, root);
                    i += ROWS;
                }
                while i < n {
                    self.rows::<W, C, 1>(i, j, root);
                    i += 1;
                }
            }
            look
        }
    }

    /// Column `j` of the rows from `first` on.
    ///
    /// # Safety
    /// As `run`.
    #[inline(always)]
    unsafe fn rows<W: Wide<R = R>, const C: bool, const COUNT: usize>(
        &self,
        first: usize,
        j: usize,
        root: W,
    ) {
        // SAFETY: passed on.
        unsafe {
            let lines: [Line<R>; COUNT] = std::array::from_fn(|at| self.row::<C>(first + at));
            let own = self.row::<C>(j);
            let mut x = [own.get::<W, C>(j); COUNT];
            for (x, line) in x.iter_mut().zip(&lines) {
                *x = line.get(j);
            }
            for k in 0..j {
                let right = own.get::<W, C>(k);
                for (x, line) in x.iter_mut().zip(&lines) {
                    *x = x.minus_conjugate_product(line.get(k), right);
                }
            }
            for (x, line) in x.iter_mut().zip(&lines) {
                x.re = x.re.div(root);
                if C {
                    x.im = x.im.div(root);
                }
                line.set(j, *x);
            }
        }
    }
}

/// The number in one lane of a cell.
///
/// # Safety
/// The cell is in the room.
#[inline(always)]
pub(crate) unsafe fn number_of<T: Field>(cells: *const T::R, cell: usize, lane: usize) -> T {
    let width = together::<T::R>();
    // SAFETY: passed on.
    unsafe {
        if T::IS_REAL {
            T::from_real(*cells.add(cell * width + lane))
        } else {
            let at = cells.add(2 * cell * width + lane);
            T::from_parts(*at, *at.add(width))
        }
    }
}
