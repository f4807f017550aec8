//! `P a Q^T = L U` with complete pivoting: each pivot is the largest entry of what is left, the first in C order of those
//! that are equal. No pivot is perturbed, and a singular matrix is factored like any other, so that the pivots reveal its
//! rank.
//!
//! Every step is one pass over the rest of the matrix, which subtracts the step and finds the next pivot.

#![allow(clippy::needless_range_loop, reason = "one index for several arrays")]

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::lu::has_zero_pivot;
use crate::lu::panel::LANES;
use crate::lu::solve::{Reach, block_of, reach_of};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::registers::Lanes;
use crate::run::{Batch, Target};
use crate::transpose::Turn;
use crate::triangular::{substitute, substitute_back};
use crate::vectorised::{Vectorised, vectorised};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// A row-major matrix under elimination, with rows of whole vectors that end in zeros.
#[derive(Clone, Copy)]
struct Rest<T> {
    a: *mut T,
    rows: usize,
    cols: usize,
    step: usize,
    /// The row of the pivot, with zeros up to its column; `step` elements.
    pivot_row: *mut T,
}

/// The largest size among the entries from `(from, from)` on, and the first entry in C order that has it. With `eliminate`
/// step `from - 1` is subtracted on the way.
///
/// # Safety
/// The matrix is as `Rest` says and `from` is below both extents.
struct Pass<T> {
    rest: Rest<T>,
    from: usize,
    eliminate: bool,
}

impl<T: Field> Vectorised for Pass<T> {
    type Out = (T::R, usize, usize);

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) -> Self::Out {
        let Rest {
            a,
            rows,
            cols,
            step,
            pivot_row,
        } = self.rest;
        let from = self.from;
        let start = from / LANES * LANES;
        let none = T::R::of(-1.0);
        let (mut best, mut best_row) = (none, from);
        // SAFETY: rows are below `rows`, blocks below `step`.
        unsafe {
            let divisor = if self.eliminate {
                let pivot = *a.add((from - 1) * step + from - 1);
                if pivot == T::ZERO { T::ONE } else { pivot }.divisor()
            } else {
                T::ONE.divisor()
            };
            for i in from..rows {
                let row = a.add(i * step);
                let mut factor = T::ZERO;
                if self.eliminate {
                    factor = (*row.add(from - 1)).over(divisor);
                    *row.add(from - 1) = factor;
                }
                let mut largest = [none; LANES];
                for block in (start..step).step_by(LANES) {
                    let mut x = Lanes::<T, LANES>::load(row.add(block));
                    if self.eliminate {
                        x = x.minus_product::<FUSED>(Lanes::load(pivot_row.add(block)), factor);
                        x.store(row.add(block));
                    }
                    if block == start {
                        for lane in 0..LANES {
                            let size = x.0[lane].square_size();
                            largest[lane] = if block + lane >= from { size } else { none };
                        }
                    } else {
                        for lane in 0..LANES {
                            let size = x.0[lane].square_size();
                            largest[lane] = if size > largest[lane] { size } else { largest[lane] };
                        }
                    }
                }
                let mut row_best = none;
                for x in largest {
                    row_best = if x > row_best { x } else { row_best };
                }
                if row_best > best {
                    best = row_best;
                    best_row = i;
                }
            }
            let row = a.add(best_row * step);
            let col = (from..cols).find(|&j| (*row.add(j)).square_size() == best);
            (best, best_row, col.unwrap_or(from))
        }
    }
}

/// As `Pass` without elimination, with moduli that do not leave the range: for what is left when the squares have.
///
/// # Safety
/// As `Pass`.
unsafe fn careful<T: Field>(rest: &Rest<T>, from: usize) -> (usize, usize) {
    let (mut best, mut place) = (T::R::of(-1.0), (from, from));
    for i in from..rest.rows {
        for j in from..rest.cols {
            // SAFETY: inside the matrix.
            let size = unsafe { *rest.a.add(i * rest.step + j) }.modulus();
            if size > best {
                best = size;
                place = (i, j);
            }
        }
    }
    place
}

/// The packed factors, and the row and column with which those of each step were exchanged.
struct Pivoted<T> {
    packed: Block<T>,
    rows: *mut usize,
    cols: *mut usize,
}

fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let k = m.min(n);
    let step = n.next_multiple_of(LANES);
    StackReq::all_of(&[
        need::<T>(m * step),
        need::<T>(step),
        need::<usize>(k),
        need::<usize>(k),
    ])
}

/// # Safety
/// The view is readable and finite; `stack` has its `scratch`.
unsafe fn factor<'s, T: Field>(
    crew: &mut Crew<'_>,
    view: &View<T>,
    stack: &'s mut MemStack,
) -> Result<(Pivoted<T>, &'s mut MemStack), Failure> {
    let (m, n) = (view.rows, view.cols);
    let (k, step) = (m.min(n), n.next_multiple_of(LANES));
    let (a, stack) = take::<T>(stack, m * step);
    let (pivot_row, stack) = take::<T>(stack, step);
    let (rows, stack) = take::<usize>(stack, k);
    let (cols, stack) = take::<usize>(stack, k);
    let packed = Block::rows(a, m, n, step);
    let rest = Rest {
        a,
        rows: m,
        cols: n,
        step,
        pivot_row,
    };
    // SAFETY: everything is inside the arrays above.
    unsafe {
        vectorised(Turn {
            from: block_of(view),
            to: packed,
        });
        for row in 0..m {
            (n..step).for_each(|col| *a.add(row * step + col) = T::ZERO);
        }
        for from in 0..k {
            let pass = Pass {
                rest,
                from,
                eliminate: from > 0,
            };
            let (best, mut row, mut col) = vectorised(pass);
            if best < T::square_floor() || best > T::square_ceiling() {
                (row, col) = careful(&rest, from);
            }
            *rows.add(from) = row;
            *cols.add(from) = col;
            if row != from {
                std::ptr::swap_nonoverlapping(a.add(from * step), a.add(row * step), n);
            }
            if col != from {
                (0..m).for_each(|i| std::ptr::swap(a.add(i * step + from), a.add(i * step + col)));
            }
            let line = std::slice::from_raw_parts_mut(pivot_row, step);
            line[..=from].fill(T::ZERO);
            for (j, x) in line.iter_mut().enumerate().skip(from + 1) {
                *x = *a.add(from * step + j);
            }
            if crew.is_interrupted() {
                return Err(Failure::Interrupted);
            }
        }
        // The multipliers of the last step, and where rows are left no columns.
        if k > 0 && m > k - 1 {
            let pivot = *packed.at(k - 1, k - 1);
            let divisor = if pivot == T::ZERO { T::ONE } else { pivot }.divisor();
            for i in k..m {
                *packed.at(i, k - 1) = (*packed.at(i, k - 1)).over(divisor);
            }
        }
    }
    Ok((Pivoted { packed, rows, cols }, stack))
}

/// Where each row (or column) of the permuted matrix comes from, and whether the permutation is odd.
///
/// # Safety
/// `pivots` holds `count` elements below `len`, `order` holds `len`.
unsafe fn order(pivots: *const usize, count: usize, order: *mut usize, len: usize) -> bool {
    // SAFETY: passed on.
    unsafe { crate::lu::order_of(pivots, count, order, len) }
}

/// Outputs of `full_piv_lu`, with `k = min(m, n)`.
#[derive(Clone, Copy, Debug)]
pub struct FullPivLuOut<T: Field> {
    /// `(..., m, m)`.
    pub p: *mut T::R,
    /// `(..., m, k)`.
    pub l: *mut T,
    /// `(..., k, n)`.
    pub u: *mut T,
    /// `(..., n, n)`.
    pub q: *mut T::R,
    /// `(...)`: the determinant of `p` times that of `q`.
    pub parity: *mut T::R,
}

// SAFETY: pointers to outputs, of which every item is one caller's.
unsafe impl<T: Field> Sync for FullPivLuOut<T> {}

/// # Safety
/// As `full_piv_lu`.
unsafe fn item<T: Field>(
    crew: &mut Crew<'_>,
    view: View<T>,
    out: FullPivLuOut<T>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (m, n) = (view.rows, view.cols);
    let k = m.min(n);
    let (zero, one) = (<T::R as Element>::ZERO, <T::R as Element>::ONE);
    // SAFETY: the outputs have the shapes of `FullPivLuOut`.
    unsafe {
        let non_finite = matches!(reach_of(&view), Reach::NonFinite);
        let (from_rows, stack) = take::<usize>(stack, m);
        let (from_cols, stack) = take::<usize>(stack, n);
        let mut odd = false;
        if non_finite {
            fill_nan(out.l, m * k);
            fill_nan(out.u, k * n);
            order(std::ptr::null(), 0, from_rows, m);
            order(std::ptr::null(), 0, from_cols, n);
        } else {
            let (pivoted, _) = factor(crew, &view, stack)?;
            let packed = pivoted.packed;
            odd ^= order(pivoted.rows, k, from_rows, m);
            odd ^= order(pivoted.cols, k, from_cols, n);
            for row in 0..m {
                for col in 0..k {
                    *out.l.add(row * k + col) = match col.cmp(&row) {
                        std::cmp::Ordering::Less => *packed.at(row, col),
                        std::cmp::Ordering::Equal => T::ONE,
                        std::cmp::Ordering::Greater => T::ZERO,
                    };
                }
            }
            for row in 0..k {
                for col in 0..n {
                    *out.u.add(row * n + col) = if col < row { T::ZERO } else { *packed.at(row, col) };
                }
            }
        }
        std::slice::from_raw_parts_mut(out.p, m * m).fill(zero);
        for row in 0..m {
            *out.p.add(row * m + *from_rows.add(row)) = one;
        }
        std::slice::from_raw_parts_mut(out.q, n * n).fill(zero);
        for col in 0..n {
            *out.q.add(col * n + *from_cols.add(col)) = one;
        }
        *out.parity = if odd { -one } else { one };
    }
    Ok(())
}

/// `p a q^T = l u` for every matrix.
///
/// # Safety
/// The matrices must be readable. The outputs must have the shapes of `FullPivLuOut` and share no memory.
pub unsafe fn full_piv_lu<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    out: FullPivLuOut<T>,
) -> Result<()> {
    let batch = Batch {
        operation: "full_piv_lu",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let need = StackReq::all_of(&[need::<usize>(m), need::<usize>(n), scratch::<T>(m, n)]);
    let out = &out;
    let item_ns = cost::full_piv_lu(m, n, !T::IS_REAL);
    batch.each_with_crew(token, item_ns, need, |index, crew, stack| {
        let own = FullPivLuOut::<T> {
            p: out.p.wrapping_add(index * m * m),
            l: out.l.wrapping_add(index * m * k),
            u: out.u.wrapping_add(index * k * n),
            q: out.q.wrapping_add(index * n * n),
            parity: out.parity.wrapping_add(index),
        };
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe { item(crew, a.item(index), own, stack) }
    })
}

/// The solution of `a x = b` by complete pivoting: singular means a pivot that is exactly zero.
///
/// # Safety
/// As `solve`.
pub unsafe fn full_piv_lu_solve<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    b: &Matrices<'_, T>,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    debug_assert!(a.batch_shape == b.batch_shape && a.rows == b.rows && a.rows == a.cols);
    let batch = Batch {
        operation: "full_piv_lu_solve",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe {
            batch.refuse_non_finite(token, 0, a, Part::All)?;
            batch.refuse_non_finite(token, 1, b, Part::All)?;
        }
    }
    let (n, cols) = (a.rows, b.cols);
    let need = StackReq::all_of(&[need::<T>(n * cols), need::<usize>(n), scratch::<T>(n, n)]);
    let out = Target(out);
    let item_ns = cost::full_piv_lu(n, n, !T::IS_REAL) + cost::substitute(n, cols, !T::IS_REAL);
    batch.each_with_crew(token, item_ns, need, |index, crew, stack| {
        let (view, to) = (
            a.item(index),
            Block::rows(out.item(index, n * cols), n, cols, cols),
        );
        // SAFETY: the scratch has the sizes that are taken, and every index is given out once.
        unsafe {
            if matches!(reach_of(&view), Reach::NonFinite) {
                fill_nan(to.pointer, n * cols);
                return Ok(());
            }
            let (x, stack) = take::<T>(stack, n * cols);
            let (from_cols, stack) = take::<usize>(stack, n);
            let x = Block::rows(x, n, cols, cols);
            let (pivoted, _) = factor(crew, &view, stack)?;
            if has_zero_pivot(pivoted.packed) {
                return Err(Failure::Singular);
            }
            vectorised(Turn {
                from: block_of(&b.item(index)),
                to: x,
            });
            for j in 0..n {
                let row = *pivoted.rows.add(j);
                if row != j {
                    std::ptr::swap_nonoverlapping(x.at(j, 0), x.at(row, 0), cols);
                }
            }
            substitute(crew, pivoted.packed, true, x)?;
            substitute_back(crew, pivoted.packed, false, x)?;
            order(pivoted.cols, n, from_cols, n);
            for j in 0..n {
                std::ptr::copy_nonoverlapping(x.at(j, 0), to.at(*from_cols.add(j), 0), cols);
            }
        }
        Ok(())
    })
}
