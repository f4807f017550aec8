//! Cholesky factorisation of positive definite matrices.

use crate::cost;
use crate::eigh::Triangle;
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Matrices, View};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::workspace::{need, take, write};
use faer::dyn_stack::{MemStack, StackReq};
use faer::linalg::cholesky::llt::factor::{
    LltError, LltParams, LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};
use faer::{Auto, Par, Spec};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

fn params<T: Field>() -> Spec<LltParams, T> {
    <LltParams as Auto<T>>::auto().into()
}

/// One item, from the caller's matrix to its place in the output.
///
/// # Safety
/// As `cholesky`.
unsafe fn item<T: Field>(
    view: View<T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = view.rows;
    let upper = triangle == Triangle::Upper;
    // SAFETY: the output holds n by n; the scratch was sized by `cholesky`.
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
        let (a, stack) = take::<T>(stack, n * n);
        // No scaling: nothing here is squared that is not the square of an entry of the factor, and a power of two
        // could push small pivots below the range.
        view.load_hermitian(upper, Scaling::none(), a, n);
        for col in 0..n {
            for row in 0..col {
                *a.add(row + col * n) = T::ZERO;
            }
        }
        let regularization = LltRegularization {
            dynamic_regularization_delta: <T::R as Element>::ZERO,
            dynamic_regularization_epsilon: <T::R as Element>::ZERO,
        };
        let done = cholesky_in_place(write(a, n, n, n), regularization, Par::Seq, stack, params::<T>());
        if let Err(LltError::NonPositivePivot { index }) = done {
            return Err(Failure::NotPositiveDefinite { minor: index + 1 });
        }
        // Rounding leaves imaginary parts on the diagonal of complex factors.
        for i in 0..n {
            *a.add(i + i * n) = T::from_real((*a.add(i + i * n)).re());
        }
        for row in 0..n {
            for col in 0..n {
                *out.add(row * n + col) = match (upper, col.cmp(&row)) {
                    (false, std::cmp::Ordering::Greater) | (true, std::cmp::Ordering::Less) => T::ZERO,
                    (false, _) => *a.add(row + col * n),
                    (true, _) => (*a.add(col + row * n)).conj(),
                };
            }
        }
    }
    Ok(())
}

/// The Cholesky factor of every matrix: `a = l @ l^H` from the lower triangle, or `a = u^H @ u` from the upper one. Only
/// that triangle is read; the other one of the result is zero.
///
/// # Safety
/// The matrices must be square and readable in that triangle. `out` must hold `(..., n, n)` and share no memory with the
/// input.
pub unsafe fn cholesky<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let batch = Batch {
        operation: "cholesky",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, triangle.part())? };
    }
    let n = a.rows;
    let scratch = StackReq::all_of(&[
        need::<T>(n * n),
        cholesky_in_place_scratch::<T>(n, Par::Seq, params::<T>()),
    ]);
    let item_ns = cost::cholesky(n, !T::IS_REAL);
    let out = crate::run::Target(out);
    batch.each(token, item_ns, scratch, |index, stack| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe {
            item(
                a.item(index),
                triangle,
                check_finite,
                out.item(index, n * n),
                stack,
            )
        }
    })
}
