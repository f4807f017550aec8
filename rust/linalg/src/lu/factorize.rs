//! LU as a result: packed for later solves, or with its three factors written out.

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::lu::factored::Factored;
use crate::lu::order_of;
use crate::lu::small::{self, Group, Sides, is_quicker_together};
use crate::matrices::{Matrices, Part};
use crate::run::{Batch, Target};
use crate::scaling::Scaling;
use crate::side_by_side::together;
use crate::transpose::Turn;
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::Result;
use treadle_team::Token;

/// Runs `f(index, factored, order)`, where `order` has room for as many indices as there are rows, with the factors of every matrix; a singular matrix is no failure.
///
/// # Safety
/// The matrices are readable.
unsafe fn each_factored<T: Field>(
    operation: &'static str,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    f: impl Fn(usize, &Factored<T>, *mut usize) + Sync,
) -> Result<()> {
    let batch = Batch {
        operation,
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let (m, n) = (a.rows, a.cols);
    let item_ns = cost::lu(m, n, !T::IS_REAL);
    let scratch = StackReq::all_of(&[Factored::<T>::scratch(m, n), need::<usize>(m)]);
    let item = |index: usize, crew: Option<&mut Crew<'_>>, stack: &mut MemStack| -> Result<(), Failure> {
        // SAFETY: passed on.
        let (factored, stack) = unsafe { Factored::new(crew, &a.item(index), Scaling::none(), stack)? };
        let (order, _) = take::<usize>(stack, m);
        f(index, &factored, order);
        Ok(())
    };
    if m == n && is_quicker_together(n, 0, batch.count) {
        let scratch = scratch
            .and(small::scratch::<T>(n, 0))
            .and(need::<T>(n * n))
            .and(need::<usize>(n))
            .and(need::<usize>(n));
        return batch.each_range(
            token,
            item_ns / 4.0,
            scratch,
            together::<T::R>(),
            |range, stack| {
                let (packed, stack) = take::<T>(stack, n * n);
                let (pivots, stack) = take::<usize>(stack, n);
                let (order, stack) = take::<usize>(stack, n);
                // SAFETY: passed on; the arrays hold one matrix and its pivots.
                unsafe {
                    let finish = |index: usize, lane: usize, group: &Group<T>| {
                        for row in 0..n {
                            *pivots.add(row) = group.pivot(lane, row);
                            for col in 0..n {
                                *packed.add(row * n + col) = group.at(lane, row, col);
                            }
                        }
                        let packed = Block::rows(packed, n, n, n);
                        f(index, &Factored { packed, pivots }, order);
                    };
                    let nowhere = |_| std::ptr::null_mut();
                    let single = |index: usize, stack: &mut MemStack| item(index, None, stack);
                    small::eliminate(range, a, Sides::Factors, stack, nowhere, finish, single)
                }
            },
        );
    }
    if Factored::<T>::is_panel(m, n) {
        return batch.each(token, item_ns, scratch, |index, stack| item(index, None, stack));
    }
    batch.each_with_crew(token, item_ns, scratch, |index, crew, stack| {
        item(index, Some(crew), stack)
    })
}

/// The packed factors of every matrix and the row with which each row was exchanged, as LAPACK's `getrf` returns them but
/// counted from zero. A singular matrix is no error: its factors hold a pivot that is exactly zero.
///
/// # Safety
/// The matrices must be readable. `lu` must have the shape of `a`, `pivots` `(..., min(m, n))`, and none share memory.
pub unsafe fn lu_factor<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    lu: *mut T,
    pivots: *mut i32,
) -> Result<()> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (lu, out) = (Target(lu), Target(pivots));
    // SAFETY: passed on; every index is given out once.
    unsafe {
        each_factored(
            "lu_factor",
            token,
            policy,
            a,
            check_finite,
            |index, factored, _| {
                let to = Block::rows(lu.item(index, m * n), m, n, n);
                vectorised(Turn {
                    from: factored.packed,
                    to,
                });
                let pivots = out.item(index, k);
                for j in 0..k {
                    *pivots.add(j) = *factored.pivots.add(j) as i32;
                }
            },
        )
    }
}

/// Where `lu` puts what it is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Permutation<T: Field> {
    /// `P`, `(..., m, m)`, with `a = P L U`.
    Matrix(*mut T::R),
    /// The row of `L U` that each row of `a` is, `(..., m)`: `a = (L U)[p]`.
    Indices(*mut i32),
    /// None: the rows of `L` are permuted, so that `a = L U`.
    IntoL,
}

// SAFETY: pointers to outputs, of which every item is one caller's.
unsafe impl<T: Field> Sync for Permutation<T> {}

/// `a = P L U`: `L` `(..., m, k)` with a unit diagonal, `U` `(..., k, n)`.
///
/// # Safety
/// The matrices must be readable. The outputs must have those shapes and share no memory.
pub unsafe fn lu<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    permutation: Permutation<T>,
    l: *mut T,
    u: *mut T,
) -> Result<()> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let (lower, upper) = (Target(l), Target(u));
    let permutation = &permutation;
    // SAFETY: passed on; every index is given out once.
    unsafe {
        each_factored("lu", token, policy, a, check_finite, |index, factored, order| {
            let packed = factored.packed;
            let u = Block::rows(upper.item(index, k * n), k, n, n);
            vectorised(Turn {
                from: packed.part(0..k, 0..n),
                to: u,
            });
            for row in 0..k {
                std::slice::from_raw_parts_mut(u.at(row, 0), row).fill(T::ZERO);
            }
            order_of(factored.pivots, k, order, m);
            let l = Block::rows(lower.item(index, m * k), m, k, k);
            let scattered = matches!(permutation, Permutation::IntoL);
            if !scattered {
                vectorised(Turn {
                    from: packed.part(0..m, 0..k),
                    to: l,
                });
            }
            for row in 0..m {
                let to = if scattered { *order.add(row) } else { row };
                let line = std::slice::from_raw_parts_mut(l.at(to, 0), k);
                if scattered {
                    for (col, x) in line.iter_mut().enumerate().take(row) {
                        *x = *packed.at(row, col);
                    }
                }
                if row < k {
                    line[row..].fill(T::ZERO);
                    line[row] = T::ONE;
                }
            }
            match permutation {
                Permutation::Matrix(p) => {
                    let p = std::slice::from_raw_parts_mut(p.wrapping_add(index * m * m), m * m);
                    p.fill(<T::R as treadle_core::Element>::ZERO);
                    for row in 0..m {
                        p[*order.add(row) * m + row] = <T::R as treadle_core::Element>::ONE;
                    }
                }
                Permutation::Indices(p) => {
                    let p = p.wrapping_add(index * m);
                    for row in 0..m {
                        *p.add(*order.add(row)) = row as i32;
                    }
                }
                Permutation::IntoL => {}
            }
        })
    }
}
