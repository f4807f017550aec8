//! Cholesky factorisation of positive definite matrices, by halves: triangles are substituted and products subtracted, and
//! small diagonal blocks are factored in a copy that the first-level cache holds.

#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN is to fail like what is not positive"
)]

use crate::cost;
use crate::crew::{Block, Crew};
use crate::eigh::Triangle;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::lu::panel::LANES;
use crate::lu::small::{self, is_small_cholesky};
use crate::matrices::{Matrices, View};
use crate::registers::Lanes;
use crate::run::{Batch, Target};
use crate::side_by_side::together;
use crate::triangular::{LEAF, substitute};
use crate::vectorised::{Vectorised, vectorised};
use faer::dyn_stack::StackReq;
use treadle_contract::policy::BatchPolicy;
use treadle_core::Result;
use treadle_team::Token;

/// Order of the diagonal blocks of a product of which one triangle is wanted, that are computed whole.
const SQUARE: usize = 48;

/// `a = l l^H` in place of the lower triangle. What stands above the diagonal is overwritten near it, up to `SQUARE`
/// columns away. Fails with the order of the first leading minor that is not positive, counted from `first`.
///
/// # Safety
/// `a` is square and writeable.
unsafe fn factor<T: Field>(crew: &mut Crew<'_>, a: Block<T>, first: usize) -> Result<(), Failure> {
    let n = a.rows;
    // SAFETY: the quarters share no element.
    unsafe {
        if n <= LEAF {
            return leaf(a, first);
        }
        let half = (n / 2).next_multiple_of(LEAF);
        let corner = a.part(0..half, 0..half);
        let below = a.part(half..n, 0..half);
        let rest = a.part(half..n, half..n);
        factor(crew, corner, first)?;
        // below = l21 l11^H, so that conj(l11) l21^T = below^T.
        let conjugate = Block {
            conj: !T::IS_REAL,
            ..corner
        };
        substitute(crew, conjugate, false, below.transposed())?;
        subtract_square(crew, below, rest)?;
        factor(crew, rest, first + half)
    }
}

/// `c -= l l^H` in the lower triangle.
///
/// # Safety
/// `l` is readable and `c` square and writeable, with as many rows; they share no element.
unsafe fn subtract_square<T: Field>(crew: &mut Crew<'_>, l: Block<T>, c: Block<T>) -> Result<(), Failure> {
    let n = c.rows;
    // SAFETY: the quarters share no element.
    unsafe {
        if n <= SQUARE {
            return crew.multiply(-T::ONE, l, l.adjoint(), T::ONE, c);
        }
        let half = (n / 2).next_multiple_of(16);
        let (top, bottom) = (l.part(0..half, 0..l.cols), l.part(half..n, 0..l.cols));
        subtract_square(crew, top, c.part(0..half, 0..half))?;
        crew.multiply(-T::ONE, bottom, top.adjoint(), T::ONE, c.part(half..n, 0..half))?;
        subtract_square(crew, bottom, c.part(half..n, half..n))
    }
}

/// `factor` of at most `LEAF` rows.
///
/// # Safety
/// As `factor`.
unsafe fn leaf<T: Field>(a: Block<T>, first: usize) -> Result<(), Failure> {
    // SAFETY: passed on.
    match unsafe { vectorised(Leaf(a)) } {
        None => Ok(()),
        Some(row) => Err(Failure::NotPositiveDefinite {
            minor: first + row + 1,
        }),
    }
}

/// A diagonal block of at most `LEAF` rows; the row whose pivot is not positive, if there is one.
///
/// # Safety
/// As `factor`.
struct Leaf<T>(Block<T>);

/// Columns whose products one pass over the columns on the right subtracts.
const GROUP: usize = 4;

impl<T: Field> Vectorised for Leaf<T> {
    type Out = Option<usize>;

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) -> Option<usize> {
        let a = self.0;
        let n = a.rows;
        let rows = n.next_multiple_of(LANES);
        // Column-major; what is above the diagonal is zero, so that whole vectors can be subtracted.
        let mut l = [T::ZERO; LEAF * LEAF];
        // SAFETY: rows and columns are in range.
        unsafe {
            for row in 0..n {
                for col in 0..row {
                    l[col * LEAF + row] = *a.at(row, col);
                }
                l[row * LEAF + row] = T::from_real((*a.at(row, row)).re());
            }
            let at = l.as_mut_ptr();
            for first in (0..n).step_by(GROUP) {
                let width = GROUP.min(n - first);
                for j in first..first + width {
                    let column = at.add(j * LEAF);
                    for k in first..j {
                        let y = (*at.add(k * LEAF + j)).conj();
                        for block in (j / LANES * LANES..rows).step_by(LANES) {
                            let left = Lanes::<T, LANES>::load(at.add(k * LEAF + block));
                            let x = Lanes::load(column.add(block)).minus_product::<FUSED>(left, y);
                            x.store(column.add(block));
                        }
                    }
                    let pivot = (*column.add(j)).re();
                    // NaN is not positive either.
                    if !(pivot > <T::R as treadle_core::Element>::ZERO) {
                        return Some(j);
                    }
                    let root = pivot.root();
                    for block in (j / LANES * LANES..rows).step_by(LANES) {
                        let x = Lanes::<T, LANES>::load(column.add(block)).over_real(root);
                        x.store(column.add(block));
                    }
                    *column.add(j) = T::from_real(root);
                    for i in j / LANES * LANES..j {
                        *column.add(i) = T::ZERO;
                    }
                }
                for j in first + width..n {
                    let column = at.add(j * LEAF);
                    for block in (j / LANES * LANES..rows).step_by(LANES) {
                        let mut x = Lanes::<T, LANES>::load(column.add(block));
                        for k in 0..GROUP {
                            let from = at.add((first + k) * LEAF);
                            x = x.minus_product::<FUSED>(Lanes::load(from.add(block)), (*from.add(j)).conj());
                        }
                        x.store(column.add(block));
                    }
                }
            }
            for row in 0..n {
                for col in 0..=row {
                    *a.at(row, col) = l[col * LEAF + row];
                }
            }
        }
        None
    }
}

/// One item of at most `LEAF` rows.
///
/// # Safety
/// As `cholesky`.
unsafe fn small_item<T: Field>(
    view: View<T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
) -> Result<(), Failure> {
    // SAFETY: passed on.
    unsafe { item_with(view, triangle, check_finite, out, |a| leaf(a, 0)) }
}

/// One item, in its place in the output.
///
/// # Safety
/// As `cholesky`; `factor_lower` does what `factor` does.
unsafe fn item_with<T: Field>(
    view: View<T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
    factor_lower: impl FnOnce(Block<T>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let n = view.rows;
    let upper = triangle == Triangle::Upper;
    // SAFETY: the output holds n by n.
    unsafe {
        if !check_finite && view.has_non_finite(triangle.part()) {
            let nan = T::from_parts(T::R::NAN, T::R::NAN);
            for row in 0..n {
                for col in 0..n {
                    let counts = if upper { col >= row } else { col <= row };
                    *out.add(row * n + col) = if counts { nan } else { T::ZERO };
                }
            }
            return Ok(());
        }
        // No scaling: nothing here is squared that is not the square of an entry of the factor, and a power of two
        // could push small pivots below the range.
        let whole = Block::rows(out, n, n, n);
        // u^H u is conj(l l^H) of the transposed factor, whose lower triangle is the upper one of the matrix.
        let (from, to) = if upper {
            (view.transposed(), whole.transposed())
        } else {
            (view, whole)
        };
        copy_lower(from, to);
        factor_lower(to)?;
        for row in 0..n {
            let zeros = if upper { 0..row } else { row + 1..n };
            std::slice::from_raw_parts_mut(out.add(row * n + zeros.start), zeros.len()).fill(T::ZERO);
            let diagonal = whole.at(row, row);
            *diagonal = T::from_real((*diagonal).re());
        }
    }
    Ok(())
}

/// Copies the lower triangle, with zeros above it as far as products may read.
///
/// # Safety
/// `from` is readable in its lower triangle, `to` is writeable and square, and they share no element.
unsafe fn copy_lower<T: Field>(from: View<T>, to: Block<T>) {
    const TILE: usize = 16;
    let n = from.rows;
    // SAFETY: inside both; of `from` the lower triangle alone.
    unsafe {
        if from.col_stride == 1 && to.col_stride == 1 {
            for row in 0..n {
                let source = from.pointer.wrapping_offset(row as isize * from.row_stride);
                std::ptr::copy_nonoverlapping(source, to.at(row, 0), row + 1);
                let above = (row + 1..(row + 1 + SQUARE).min(n)).len();
                std::slice::from_raw_parts_mut(to.at(row, row).wrapping_add(1), above).fill(T::ZERO);
            }
            return;
        }
        if from.row_stride == 1 && to.row_stride == 1 {
            for col in 0..n {
                let source = from
                    .pointer
                    .wrapping_offset(col as isize * from.col_stride + col as isize);
                std::ptr::copy_nonoverlapping(source, to.at(col, col), n - col);
                let start = col.saturating_sub(SQUARE);
                std::slice::from_raw_parts_mut(to.at(start, col), col - start).fill(T::ZERO);
            }
            return;
        }
        for row0 in (0..n).step_by(TILE) {
            for col0 in (0..(row0 + TILE + SQUARE).min(n)).step_by(TILE) {
                for row in row0..(row0 + TILE).min(n) {
                    for col in col0..(col0 + TILE).min(n) {
                        *to.at(row, col) = if col <= row { from.at(row, col) } else { T::ZERO };
                    }
                }
            }
        }
    }
}

/// The Cholesky factor of every matrix: `a = l @ l^H` from the lower triangle, or `a = u^H @ u` from the upper one. Only
/// that triangle is read; the other one of the result is zero. The factor is computed in the output, so that after a
/// failure the output of the items that were tried holds nothing of use.
///
/// # Safety
/// The matrices must be square and readable. `out` must hold `(..., n, n)` and share no memory with the
/// input.
pub unsafe fn cholesky<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    // SAFETY: passed on.
    unsafe { cholesky_as("cholesky", token, policy, a, triangle, check_finite, out) }
}

/// As `cholesky`, under the name of another operation.
///
/// # Safety
/// As `cholesky`.
pub unsafe fn cholesky_as<T: Field>(
    operation: &'static str,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let batch = Batch {
        operation,
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, triangle.part())? };
    }
    let n = a.rows;
    let item_ns = cost::cholesky(n, !T::IS_REAL);
    let out = Target(out);
    let place = |index: usize| out.item(index, n * n);
    let single = |index: usize| {
        // SAFETY: every index is given out once, so that no two items write to the same place; a matrix of that order is one
        // leaf.
        unsafe { small_item(a.item(index), triangle, check_finite, place(index)) }
    };
    if is_small_cholesky(n, batch.count) {
        let upper = triangle == Triangle::Upper;
        let scratch = small::scratch::<T>(n, 0);
        return batch.each_range(
            token,
            item_ns / 4.0,
            scratch,
            together::<T::R>(),
            |range, stack| {
                // SAFETY: as above.
                unsafe { small::cholesky(range, a, upper, stack, place, single) }
            },
        );
    }
    if n <= LEAF {
        return batch.each(token, item_ns, StackReq::EMPTY, |index, _| single(index));
    }
    batch.each_with_crew(token, item_ns, StackReq::EMPTY, |index, crew, _| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe {
            item_with(
                a.item(index),
                triangle,
                check_finite,
                out.item(index, n * n),
                |block| factor(crew, block, 0),
            )
        }
    })
}
