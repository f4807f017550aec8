//! Singular value decomposition.
//!
//! Every matrix is brought to tall shape (transposed when wide) and scaled to entries of at most 1. Small ones are
//! decomposed side by side by Jacobi rotations (`small`), larger ones on the team (`large`).

pub(crate) mod arrow;
pub(crate) mod bidiagonal;
pub(crate) mod call;
pub(crate) mod divide;
pub(crate) mod group;
pub(crate) mod hermitian;
pub(crate) mod iteration;
pub(crate) mod kernels;
pub(crate) mod lanes;
pub(crate) mod large;
pub(crate) mod qd;
pub(crate) mod reflectors;
pub(crate) mod secular;
pub(crate) mod small;

use crate::cost;
use crate::field::Field;
use crate::gauge::Gauge;
use crate::matrices::{Matrices, Part};
use crate::run::{Batch, REDUCTION_ALONE_NS};
use crate::svd::call::Call;
use crate::svd::large::{Tall, Vectors};
use crate::workspace::need;
use faer::dyn_stack::StackReq;
use treadle_contract::policy::BatchPolicy;
use treadle_core::Result;
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
    let call = Call {
        tall,
        gauge,
        check_finite,
        out,
    };
    if tall.n <= small::ORDER {
        // SAFETY: passed on.
        return unsafe { group::run(&batch, token, a, &call) };
    }
    let item_ns = cost::svd(a.rows, a.cols, tall.vectors != Vectors::None, !T::IS_REAL);
    let scratch = StackReq::all_of(&[need::<T::R>(tall.n), tall.scratch::<T>()]);
    let call = &call;
    batch.each_with_crew_from(
        REDUCTION_ALONE_NS,
        token,
        item_ns,
        scratch,
        |index, crew, stack| {
            // SAFETY: every index is given out once, so that no two items write to the same place.
            unsafe { call.large(a.item(index), index, crew, stack) }
        },
    )
}
