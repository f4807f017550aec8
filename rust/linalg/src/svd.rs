//! Singular value decomposition.
//!
//! Every matrix is brought to tall shape (transposed when wide) and scaled to entries of at most 1. Small ones are
//! decomposed side by side by Jacobi rotations (`svd_small`), larger ones on the team (`svd_large`).

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::gauge::{Gauge, fix_column, turn_row};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::svd_large::{Factors, Tall, Vectors};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Element, Result};
use treadle_team::Token;

/// Where the factors go: C-contiguous, the batch leading, uninitialised on entry and whole on success.
#[derive(Clone, Copy, Debug)]
pub struct SvdOut<T: Field> {
    /// `(..., m, m)`, or `(..., m, k)` when reduced.
    pub u: *mut T,
    /// `(..., k)` with `k = min(m, n)`, descending.
    pub s: *mut T::R,
    /// `(..., n, n)`, or `(..., k, n)` when reduced.
    pub vh: *mut T,
}

// SAFETY: the pointers go to distinct items on distinct threads.
unsafe impl<T: Field> Sync for SvdOut<T> {}
// SAFETY: as above.
unsafe impl<T: Field> Send for SvdOut<T> {}

/// One item, from the caller's matrix to its place in the outputs.
///
/// # Safety
/// As `svd`.
unsafe fn item<T: Field>(
    tall: Tall,
    view: View<T>,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
    index: usize,
    crew: &mut Crew<'_>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (m, n, cols) = (tall.m, tall.n, tall.left_cols());
    let vectors = tall.vectors != Vectors::None;
    let (rows_u, cols_u, rows_v, cols_v) = match (vectors, tall.wide) {
        (false, _) => (0, 0, 0, 0),
        (true, false) => (m, cols, n, n),
        (true, true) => (n, n, cols, m),
    };
    // SAFETY: the outputs hold every item; the scratch was sized by `Tall::scratch`.
    unsafe {
        let u = out.u.wrapping_add(index * rows_u * cols_u);
        let vh = out.vh.wrapping_add(index * rows_v * cols_v);
        let s = out.s.wrapping_add(index * n);
        if !check_finite && view.has_non_finite(Part::All) {
            fill_nan(u, rows_u * cols_u);
            fill_nan(vh, rows_v * cols_v);
            fill_nan(s, n);
            return Ok(());
        }
        let scaling = Scaling::to_unit(view.max_abs(Part::All));
        let (values, stack) = take::<T::R>(stack, n);
        for i in 0..n {
            *values.add(i) = <T::R as Element>::ZERO;
        }
        let values = std::slice::from_raw_parts_mut(values, n);
        // The factors are built where they stay: `a = left s right^H`, or its transpose `conj(right) s left^T`.
        let factors = if tall.wide {
            Factors {
                left: Block::columns(vh, m, cols, m),
                right: Block::columns(u, n, n, n).transposed(),
            }
        } else {
            Factors {
                left: Block::columns(u, cols, m, cols).transposed(),
                right: Block::columns(vh, n, n, n),
            }
        };
        let view = if tall.wide { view.transposed() } else { view };
        if n > 0 {
            tall.decompose(crew, &view, scaling, values, factors, stack)?;
        } else {
            for i in 0..m * cols {
                *factors.left.pointer.add(i) = if i % (m + 1) == 0 { T::ONE } else { T::ZERO };
            }
        }
        if vectors && !T::IS_REAL {
            for i in 0..n * n {
                let entry = factors.right.pointer.add(i);
                *entry = (*entry).conj();
            }
        }
        let back = scaling.inverse();
        for (i, &value) in values.iter().enumerate() {
            *s.add(i) = back.apply(value);
        }
        if gauge == Gauge::Canonical {
            for k in 0..cols_u {
                let out = fix_column(u.add(k), rows_u, cols_u);
                if k < n {
                    turn_row(vh.add(k * cols_v), cols_v, out);
                }
            }
        }
    }
    Ok(())
}

/// Singular value decomposition of every matrix: `a = u @ diag(s) @ vh`.
///
/// # Safety
/// The matrices must be readable. Each output must hold its shape (see `SvdOut`; `u` and `vh` square when `full`) and
/// share no memory with the input or another output.
pub unsafe fn svd<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    full: bool,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
) -> Result<()> {
    let vectors = if full { Vectors::Full } else { Vectors::Thin };
    // SAFETY: passed on.
    unsafe {
        run(
            token,
            policy,
            "svd",
            a,
            Tall::new(a.rows, a.cols, vectors),
            gauge,
            check_finite,
            out,
        )
    }
}

/// Singular values of every matrix, descending, as `(..., min(m, n))`.
///
/// # Safety
/// As `svd`, with `s` alone.
pub unsafe fn svdvals<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    s: *mut T::R,
) -> Result<()> {
    let out = SvdOut {
        u: std::ptr::null_mut(),
        s,
        vh: std::ptr::null_mut(),
    };
    let tall = Tall::new(a.rows, a.cols, Vectors::None);
    // SAFETY: passed on; without vectors the null pointers are not used.
    unsafe { run(token, policy, "svdvals", a, tall, Gauge::Raw, check_finite, out) }
}

unsafe fn run<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    operation: &str,
    a: &Matrices<'_, T>,
    tall: Tall,
    gauge: Gauge,
    check_finite: bool,
    out: SvdOut<T>,
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
    let item_ns = cost::svd(a.rows, a.cols, tall.vectors != Vectors::None, !T::IS_REAL);
    let out = &out;
    let scratch = StackReq::all_of(&[need::<T::R>(tall.n), tall.scratch::<T>()]);
    batch.each_with_crew(token, item_ns, scratch, |index, crew, stack| {
        // SAFETY: every index is given out once, so that no two items write to the same place.
        unsafe { item(tall, a.item(index), gauge, check_finite, *out, index, crew, stack) }
    })
}
