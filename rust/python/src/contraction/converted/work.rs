//! What is done for one block, with the interpreter given back where it is long.

use pyo3::prelude::*;
use treadle_contract::{Plan, Scratch};
use treadle_core::{DType, Result, Scalar};
use treadle_engine::{Buffer, BufferPool, Cast, CpuEngine, EngineCell};

use super::strided::Strided;
use crate::door::{self, Address, Poll};

/// Converting an element, in nanoseconds of one thread, high.
const CAST_NS: f64 = 1.0;

/// One thing to do.
pub(super) enum Op<'p> {
    /// Converts all elements of one array into another of its shape, rounded to a dtype on the way.
    Cast(Strided, DType, Strided),
    /// Runs a plan on the arrays that it was made for.
    Plan {
        plan: &'p Plan,
        operands: Vec<Address<u8>>,
        out: Address<u8>,
        alpha: Scalar,
        beta: Scalar,
    },
}

impl Op<'_> {
    fn estimate_ns(&self) -> f64 {
        match self {
            Op::Cast(_, _, to) => to.shape.iter().map(|&size| size as f64).product::<f64>() * CAST_NS,
            Op::Plan { plan, .. } => plan.estimate_ns(),
        }
    }
}

/// Memory for plans, kept from one block to the next: what the first could have the others need not ask for.
#[derive(Default)]
pub(super) struct Kept {
    blocks: Vec<Buffer>,
}

struct KeptScratch<'a> {
    buffers: &'a BufferPool,
    kept: &'a mut Kept,
    lent: usize,
}

// SAFETY: every block comes from the pool, aligned to 64; none is lent twice before the plan has run, for `lent` counts
// up, and all live as long as what keeps them. A block that is replaced was lent to no plan that still runs.
unsafe impl Scratch for KeptScratch<'_> {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        let at = self.lent;
        self.lent += 1;
        let blocks = &mut self.kept.blocks;
        match blocks.get_mut(at) {
            Some(held) if held.size() >= bytes => {}
            Some(held) => *held = self.buffers.take(bytes)?,
            None => blocks.push(self.buffers.take(bytes)?),
        }
        Ok(blocks[at].as_ptr())
    }
}

/// Does everything in order.
///
/// # Safety
/// The arrays of each conversion are alive, of one shape, and share no element; the plans' are those that they were made
/// for, alive and, for the results, writeable and free of overlap.
pub(super) unsafe fn run(
    py: Python<'_>,
    cell: &EngineCell,
    operation: &'static str,
    engine: &mut CpuEngine,
    kept: &mut Kept,
    ops: &[Op<'_>],
) -> PyResult<()> {
    if ops.iter().map(Op::estimate_ns).sum::<f64>() < door::DETACH_NS {
        return door::run_short(py, cell, operation, engine, |engine| {
            // SAFETY: the caller's contract.
            unsafe { run_all(engine, kept, ops, None) }
        });
    }
    door::run_long(py, cell, operation, engine, |engine, poll| {
        // SAFETY: the caller's contract.
        unsafe { run_all(engine, kept, ops, Some(poll)) }
    })
}

/// # Safety
/// As [`run`].
unsafe fn run_all(
    engine: &mut CpuEngine,
    kept: &mut Kept,
    ops: &[Op<'_>],
    poll: Option<Poll<'_>>,
) -> Result<()> {
    let mut parts = engine.begin()?;
    let never = || false;
    let mut token = parts.token.with_poll(poll.unwrap_or(&never));
    for op in ops {
        match op {
            Op::Cast(from, via, to) => {
                let cast = Cast::through(from.form, *via, to.form);
                // SAFETY: the caller's contract; both have the shape of the one and strides of their own.
                unsafe {
                    cast.run(
                        &mut token,
                        &from.sizes(),
                        from.data.get(),
                        &from.strides,
                        to.data.get(),
                        &to.strides,
                    )?;
                }
            }
            Op::Plan {
                plan,
                operands,
                out,
                alpha,
                beta,
            } => {
                let pointers: Vec<*const u8> = operands
                    .iter()
                    .map(|address| address.get().cast_const())
                    .collect();
                let mut scratch = KeptScratch {
                    buffers: parts.buffers,
                    kept: &mut *kept,
                    lent: 0,
                };
                // SAFETY: the caller's contract.
                unsafe {
                    plan.execute(
                        &mut token,
                        parts.batch,
                        &mut scratch,
                        &pointers,
                        out.get(),
                        *alpha,
                        *beta,
                    )?;
                }
            }
        }
    }
    Ok(())
}
