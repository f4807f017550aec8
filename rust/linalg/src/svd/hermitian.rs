//! Singular value decomposition of Hermitian matrices, by their eigendecomposition.

use crate::cost;
use crate::crew::Crew;
use crate::eigh::{self, Triangle};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::gauge::{Gauge, fix_column};
use crate::matrices::{Matrices, View, fill_nan};
use crate::run::{Batch, REDUCTION_ALONE_NS};
use crate::svd::SvdOut;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::cmp::Ordering;
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `svd_hermitian`.
unsafe fn item<T: Field>(
    view: View<T>,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
    index: usize,
    crew: &mut Crew<'_>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = view.rows;
    let leading = eigh::leading::<T>(n);
    let zero = <T::R as Element>::ZERO;
    let vectors = !out.u.is_null();
    // SAFETY: the outputs hold every item; the scratch was sized by `svd_hermitian`.
    unsafe {
        let s = out.s.wrapping_add(index * n);
        let (u, vh) = (
            out.u.wrapping_add(index * n * n),
            out.vh.wrapping_add(index * n * n),
        );
        if !check_finite && view.has_non_finite(Triangle::Lower.part()) {
            fill_nan(s, n);
            if vectors {
                fill_nan(u, n * n);
                fill_nan(vh, n * n);
            }
            return Ok(());
        }
        let (values, stack) = take::<T::R>(stack, n);
        (0..n).for_each(|i| *values.add(i) = zero);
        let values = std::slice::from_raw_parts_mut(values, n);
        let (columns, stack) = take::<T>(stack, if vectors { leading * n } else { 0 });
        let columns = if vectors { columns } else { std::ptr::null_mut() };
        let (order, stack) = take::<usize>(stack, n);
        let back = eigh::eigen(crew, &view, Triangle::Lower, values, columns, stack)?;
        (0..n).for_each(|i| *order.add(i) = i);
        let order = std::slice::from_raw_parts_mut(order, n);
        order.sort_by(|&i, &j| {
            let (x, y) = (values[i].magnitude(), values[j].magnitude());
            y.partial_cmp(&x).unwrap_or(Ordering::Equal).then(i.cmp(&j))
        });
        for (k, &i) in order.iter().enumerate() {
            *s.add(k) = back.apply(values[i].magnitude());
            if !vectors {
                continue;
            }
            let column = columns.add(i * leading);
            if gauge == Gauge::Canonical {
                fix_column(column, n, 1);
            }
            for row in 0..n {
                let x = *column.add(row);
                *u.add(row * n + k) = x;
                *vh.add(k * n + row) = if values[i] < zero { -x.conj() } else { x.conj() };
            }
        }
    }
    Ok(())
}

/// Singular value decomposition of every Hermitian matrix, of which the lower triangle is read; `u` and `vh` are square, or
/// null for the values alone.
///
/// # Safety
/// As `svd`; the matrices must be square.
pub unsafe fn svd_hermitian<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
) -> Result<()> {
    let vectors = !out.u.is_null();
    let batch = Batch {
        operation: if vectors { "svd" } else { "svdvals" },
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Triangle::Lower.part())? };
    }
    let n = a.rows;
    let scratch = StackReq::all_of(&[eigh::scratch::<T>(n, vectors), need::<usize>(n)]);
    let out = &out;
    batch.each_with_crew_from(
        REDUCTION_ALONE_NS,
        token,
        cost::eigh(n, vectors, !T::IS_REAL),
        scratch,
        |index, crew, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe { item(a.item(index), gauge, check_finite, *out, index, crew, stack) }
        },
    )
}
