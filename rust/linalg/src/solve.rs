//! Square linear systems by LU with partial pivoting.
//!
//! Singular means a pivot that is exactly zero, nothing less: there is no rank cut-off. faer multiplies by reciprocals of
//! pivots, which leaves the range for pivots near its ends; such matrices are scaled by an exact power of two, and
//! where one power cannot serve all entries a plain elimination with divisions runs.

use crate::cost;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Matrices, Part, View, fill_nan, store_rows};
use crate::run::{Batch, Target};
use crate::scaling::Scaling;
use crate::workspace::{need, read, take, write};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::lu::partial_pivoting::factor::{PartialPivLuParams, lu_in_place, lu_in_place_scratch};
use faer::linalg::lu::partial_pivoting::solve::{solve_in_place_scratch, solve_in_place_with_conj};
use faer::{Auto, Conj, Par, Spec};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

fn params<T: Field>() -> Spec<PartialPivLuParams, T> {
    <PartialPivLuParams as Auto<T>>::auto().into()
}

/// Entries of at most this magnitude and at least its inverse are left as they are.
fn comfortable<T: Field>() -> f64 {
    crate::field::power_of_two(T::R::EXPONENT_LIMIT / 2)
}

/// The power of two by which the matrix is to be multiplied, or none when no power keeps every entry.
///
/// # Safety
/// The matrix must be readable.
unsafe fn scaling_for<T: Field>(view: &View<T>) -> Option<Scaling<T::R>> {
    // SAFETY: passed on.
    let largest = unsafe { view.max_abs(Part::All) };
    let limit = comfortable::<T>();
    if largest <= limit && largest * limit >= 1.0 {
        return Some(Scaling::none());
    }
    let scaling = Scaling::to_unit(largest);
    // SAFETY: passed on.
    let smallest = unsafe { view.min_abs() };
    let kept = smallest * Scaling::<f64>::by(scaling.exponent()).apply(1.0);
    (kept >= T::R::TINY.to_f64() || smallest.is_infinite()).then_some(scaling)
}

/// # Safety
/// `x` holds `len` elements.
unsafe fn all_finite<T: Field>(x: *const T, len: usize) -> bool {
    let mut finite = true;
    for i in 0..len {
        // SAFETY: i < len.
        finite &= unsafe { *x.add(i) }.is_finite();
    }
    finite
}

/// LU by plain elimination with divisions, and the solution of `a x = b` in place of `b`. Both column-major without gaps.
///
/// # Safety
/// `a` is `n` by `n`, `b` is `n` by `cols`.
unsafe fn eliminate<T: Field>(a: *mut T, n: usize, b: *mut T, cols: usize) -> Result<(), Failure> {
    let at = |i: usize, j: usize| a.wrapping_add(i + j * n);
    let rhs = |i: usize, j: usize| b.wrapping_add(i + j * n);
    // SAFETY: every index is in range.
    unsafe {
        for k in 0..n {
            let mut pivot = k;
            let mut largest = T::R::of(-1.0);
            for i in k..n {
                let size = (*at(i, k)).re().magnitude() + (*at(i, k)).im().magnitude();
                if size > largest {
                    largest = size;
                    pivot = i;
                }
            }
            if *at(pivot, k) == T::ZERO {
                return Err(Failure::Singular);
            }
            if pivot != k {
                (0..n).for_each(|j| std::ptr::swap(at(k, j), at(pivot, j)));
                (0..cols).for_each(|j| std::ptr::swap(rhs(k, j), rhs(pivot, j)));
            }
            for i in k + 1..n {
                if *at(i, k) == T::ZERO {
                    continue;
                }
                let factor = (*at(i, k)).quotient(*at(k, k));
                for j in k + 1..n {
                    *at(i, j) -= factor * *at(k, j);
                }
                for j in 0..cols {
                    *rhs(i, j) -= factor * *rhs(k, j);
                }
            }
        }
        for j in 0..cols {
            for k in (0..n).rev() {
                let x = (*rhs(k, j)).quotient(*at(k, k));
                *rhs(k, j) = x;
                if x == T::ZERO {
                    continue;
                }
                for i in 0..k {
                    *rhs(i, j) -= *at(i, k) * x;
                }
            }
        }
    }
    Ok(())
}

/// One system, from the caller's arrays to its place in the output.
///
/// # Safety
/// As `solve`.
unsafe fn item<T: Field>(
    a_view: View<T>,
    b_view: View<T>,
    check_finite: bool,
    out: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (n, cols) = (a_view.rows, b_view.cols);
    // SAFETY: the output holds n by cols; the scratch was sized by `solve`.
    unsafe {
        if !check_finite && a_view.has_non_finite(Part::All) {
            fill_nan(out, n * cols);
            return Ok(());
        }
        let (a, stack) = take::<T>(stack, n * n);
        let (b, stack) = take::<T>(stack, n * cols);
        let (forward, stack) = take::<usize>(stack, n);
        let (backward, stack) = take::<usize>(stack, n);
        let scaling = scaling_for(&a_view);
        let mut right = false;
        if let Some(scaling) = scaling {
            a_view.load(scaling, a, n);
            b_view.load(Scaling::none(), b, n);
            (0..n).for_each(|i| {
                *forward.add(i) = 0;
                *backward.add(i) = 0;
            });
            let (_, permutation) = lu_in_place(
                write(a, n, n, n),
                std::slice::from_raw_parts_mut(forward, n),
                std::slice::from_raw_parts_mut(backward, n),
                Par::Seq,
                stack,
                params::<T>(),
            );
            if (0..n).any(|i| *a.add(i + i * n) == T::ZERO) && all_finite(a, n * n) {
                return Err(Failure::Singular);
            }
            let factors = read(a.cast_const(), n, n, n);
            solve_in_place_with_conj(
                factors,
                factors,
                permutation,
                Conj::No,
                write(b, n, cols, n),
                Par::Seq,
                stack,
            );
            // a x = b became (a 2^e) y = b, so x = y 2^e.
            if scaling.exponent() != 0 {
                (0..n * cols).for_each(|i| *b.add(i) = scaling.apply(*b.add(i)));
            }
            // Without right-hand sides nothing but the factors tells that a zero pivot was divided by.
            right = all_finite(b, n * cols) && (cols > 0 || all_finite(a, n * n));
        }
        if !right {
            a_view.load(Scaling::none(), a, n);
            b_view.load(Scaling::none(), b, n);
            eliminate(a, n, b, cols)?;
        }
        store_rows(b, n, n, cols, out, cols, |_, x| x);
    }
    Ok(())
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
    if a.batch_shape != b.batch_shape || a.rows != b.rows || a.rows != a.cols {
        return Err(Error::new(
            ErrorCode::MatrixShape,
            format!(
                "a has batch shape {:?} and matrices of {} by {}, b has {:?} and {} rows; broadcast them to one batch \
                 shape first",
                a.batch_shape, a.rows, a.cols, b.batch_shape, b.rows
            ),
        )
        .in_operation("solve"));
    }
    let batch = Batch {
        operation: "solve",
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
    let scratch = StackReq::all_of(&[
        need::<T>(n * n),
        need::<T>(n * cols),
        need::<usize>(n),
        need::<usize>(n),
        StackReq::any_of(&[
            lu_in_place_scratch::<usize, T>(n, n, Par::Seq, params::<T>()),
            solve_in_place_scratch::<usize, T>(n, cols, Par::Seq),
        ]),
    ]);
    let item_ns = cost::solve(n, cols, !T::IS_REAL);
    let out = Target(out);
    let (a, b) = (&a, &b);
    batch.each(token, item_ns, scratch, |index, stack| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe {
            item(
                a.item(index),
                b.item(index),
                check_finite,
                out.item(index, n * cols),
                stack,
            )
        }
    })
}
