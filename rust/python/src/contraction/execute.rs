//! Running a plan on an engine.

use pyo3::prelude::*;
use treadle_contract::{BatchPolicy, Plan, Prepared, Scratch};
use treadle_core::{Result, Scalar};
use treadle_engine::{Buffer, BufferPool, CpuEngine, EngineCell};
use treadle_team::Token;

use crate::door::{self, Address};

/// Scratch from the engine's buffers, held until the call is over.
pub(super) struct PooledScratch<'a> {
    buffers: &'a BufferPool,
    /// A plan asks once; what it asks for later stands in `more`.
    first: Option<Buffer>,
    more: Vec<Buffer>,
}

impl<'a> PooledScratch<'a> {
    #[inline]
    pub(super) fn new(buffers: &'a BufferPool) -> Self {
        PooledScratch {
            buffers,
            first: None,
            more: Vec::new(),
        }
    }
}

// SAFETY: every block comes fresh from the pool, is aligned to 64 and held until `self` is dropped, which is after
// the plan has run.
unsafe impl Scratch for PooledScratch<'_> {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        let buffer = self.buffers.take(bytes)?;
        let address = buffer.as_ptr();
        match self.first {
            None => self.first = Some(buffer),
            Some(_) => self.more.push(buffer),
        }
        Ok(address)
    }
}

/// What a run reads and writes: the arrays that the plan was made for, but for its constants where they are prepared.
#[derive(Clone, Copy)]
pub(super) struct Arrays<'a> {
    pub(super) operands: &'a [*mut u8],
    /// What the plan made of its constants.
    pub(super) prepared: Option<&'a Prepared>,
    pub(super) out: *mut u8,
    pub(super) alpha: Scalar,
    pub(super) beta: Scalar,
}

/// Runs `plan`, attached when it is short and detached when it is not.
///
/// # Safety
/// As [`Plan::execute`], or [`Plan::execute_prepared`] with `prepared`: operands and `out` are the arrays that the plan
/// was made for, alive and, for `out`, writeable and free of overlap.
#[inline]
pub(super) unsafe fn execute(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    plan: &Plan,
    arrays: Arrays<'_>,
) -> PyResult<()> {
    let pointers = const_pointers(arrays.operands);
    let Arrays {
        prepared,
        out,
        alpha,
        beta,
        ..
    } = arrays;
    if plan.estimate_ns() < door::DETACH_NS {
        return door::run_short(py, cell, operation, engine, |engine| {
            let policy = engine.options().batch;
            // SAFETY: the caller's contract; a plan with constants has no quick form.
            if prepared.is_none() && unsafe { plan.execute_quick(policy, pointers, out, alpha, beta) } {
                engine.count_operation();
                return Ok(());
            }
            let mut parts = engine.begin()?;
            let mut scratch = PooledScratch::new(parts.buffers);
            // SAFETY: the caller's contract.
            unsafe {
                run(
                    plan,
                    prepared,
                    &mut parts.token,
                    parts.batch,
                    &mut scratch,
                    pointers,
                    out,
                    alpha,
                    beta,
                )
            }
        });
    }
    let addresses: Vec<Address<u8>> = arrays.operands.iter().map(|&pointer| Address(pointer)).collect();
    let out = Address(out);
    door::run_long(py, cell, operation, engine, move |engine, poll| {
        let pointers: Vec<*const u8> = addresses
            .iter()
            .map(|address| address.get().cast_const())
            .collect();
        let mut parts = engine.begin()?;
        let mut scratch = PooledScratch::new(parts.buffers);
        let mut token = parts.token.with_poll(poll);
        // SAFETY: the caller's contract.
        unsafe {
            run(
                plan,
                prepared,
                &mut token,
                parts.batch,
                &mut scratch,
                &pointers,
                out.get(),
                alpha,
                beta,
            )
        }
    })
}

/// # Safety
/// As [`execute`].
unsafe fn run(
    plan: &Plan,
    prepared: Option<&Prepared>,
    token: &mut Token<'_>,
    policy: BatchPolicy,
    scratch: &mut PooledScratch<'_>,
    operands: &[*const u8],
    out: *mut u8,
    alpha: Scalar,
    beta: Scalar,
) -> Result<()> {
    // SAFETY: passed on.
    unsafe {
        match prepared {
            None => plan.execute(token, policy, scratch, operands, out, alpha, beta),
            Some(prepared) => {
                plan.execute_prepared(token, policy, scratch, prepared, operands, out, alpha, beta)
            }
        }
    }
}

/// Computes once what depends on a plan's constants alone; `constants` are their positions and elements.
///
/// # Safety
/// As [`Plan::prepare`]: the constants are the arrays that the plan was made for, alive for the whole call.
pub(super) unsafe fn prepare(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    plan: &Plan,
    constants: &[(usize, Address<u8>)],
) -> PyResult<Prepared> {
    door::run_long(py, cell, operation, engine, |engine, poll| {
        let pointers: Vec<(usize, *const u8)> = constants
            .iter()
            .map(|(position, address)| (*position, address.get().cast_const()))
            .collect();
        let mut parts = engine.begin()?;
        let mut token = parts.token.with_poll(poll);
        // SAFETY: the caller's contract.
        unsafe { plan.prepare(&mut token, &pointers) }
    })
}

fn const_pointers(pointers: &[*mut u8]) -> &[*const u8] {
    // SAFETY: `*mut u8` and `*const u8` have the same representation.
    unsafe { std::slice::from_raw_parts(pointers.as_ptr().cast::<*const u8>(), pointers.len()) }
}
