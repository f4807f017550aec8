//! Running a plan on an engine.

use pyo3::prelude::*;
use treadle_contract::{Plan, Scratch};
use treadle_core::{Result, Scalar};
use treadle_engine::{Buffer, BufferPool, CpuEngine, EngineCell};

use crate::door::{self, Address};

/// Scratch from the engine's buffers, held until the call is over.
struct PooledScratch<'a> {
    buffers: &'a BufferPool,
    held: Vec<Buffer>,
}

// SAFETY: every block comes fresh from the pool, is aligned to 64 and held until `self` is dropped, which is after
// the plan has run.
unsafe impl Scratch for PooledScratch<'_> {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        let buffer = self.buffers.take(bytes)?;
        let address = buffer.as_ptr();
        self.held.push(buffer);
        Ok(address)
    }
}

/// Runs `plan`, attached when it is short and detached when it is not.
///
/// # Safety
/// As [`Plan::execute`]: `operands` and `out` are the arrays that the plan was made for, alive and, for `out`,
/// writeable and free of overlap.
#[inline]
pub(super) unsafe fn execute(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    plan: &Plan,
    operands: &[*mut u8],
    out: *mut u8,
    alpha: Scalar,
    beta: Scalar,
) -> PyResult<()> {
    if plan.estimate_ns() < door::DETACH_NS {
        return door::run_short(py, cell, operation, engine, |engine| {
            let policy = engine.options().batch;
            // SAFETY: the caller's contract.
            if unsafe { plan.execute_quick(policy, const_pointers(operands), out, alpha, beta) } {
                engine.count_operation();
                return Ok(());
            }
            let mut parts = engine.begin()?;
            let mut scratch = PooledScratch {
                buffers: parts.buffers,
                held: Vec::new(),
            };
            // SAFETY: the caller's contract.
            unsafe {
                plan.execute(
                    &mut parts.token,
                    parts.batch,
                    &mut scratch,
                    const_pointers(operands),
                    out,
                    alpha,
                    beta,
                )
            }
        });
    }
    let addresses: Vec<Address<u8>> = operands.iter().map(|&pointer| Address(pointer)).collect();
    let out = Address(out);
    door::run_long(py, cell, operation, engine, move |engine, poll| {
        let pointers: Vec<*const u8> = addresses
            .iter()
            .map(|address| address.get().cast_const())
            .collect();
        let mut parts = engine.begin()?;
        let mut scratch = PooledScratch {
            buffers: parts.buffers,
            held: Vec::new(),
        };
        let mut token = parts.token.with_poll(poll);
        // SAFETY: the caller's contract.
        unsafe {
            plan.execute(
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

fn const_pointers(pointers: &[*mut u8]) -> &[*const u8] {
    // SAFETY: `*mut u8` and `*const u8` have the same representation.
    unsafe { std::slice::from_raw_parts(pointers.as_ptr().cast::<*const u8>(), pointers.len()) }
}
