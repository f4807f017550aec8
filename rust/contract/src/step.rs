//! One kernel call of a plan.

use crate::ahead::PackAhead;
use crate::gemm::Gemm;
use crate::policy::{self, BatchPolicy};
use crate::reference::Reference;
use std::fmt;
use treadle_core::{Element, Result};
use treadle_kernels::Caches;
use treadle_strided::{Nest, Sums};
use treadle_team::Token;

/// Where a step reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// An operand by its position.
    Operand(usize),
    /// Scratch, from this byte on.
    Scratch(usize),
}

/// Where a step writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// The result: `alpha` and `beta` apply.
    Out,
    /// Scratch, from this byte on.
    Scratch(usize),
    /// Memory for panels, from this byte on.
    Panels(usize),
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Products of matrices.
    Gemm { gemm: Box<Gemm>, inputs: [Source; 2] },
    /// Panels of a factor that does not change.
    Pack { ahead: Box<PackAhead>, input: Source },
    /// Products of elements.
    Multiply {
        nest: Nest<3>,
        inputs: [Source; 2],
        conj: [bool; 2],
    },
    /// One array in another order.
    Copy {
        nest: Nest<2>,
        input: Source,
        conj: bool,
    },
    /// Sums over axes of one array.
    Sum { sums: Box<Sums>, input: Source },
    /// One loop over everything.
    Reference { reference: Box<Reference> },
}

/// A kernel call with its target.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    pub(crate) estimate_ns: f64,
}

/// The memory of one execution.
pub(crate) struct Buffers<'o, T> {
    pub(crate) operands: &'o [*const u8],
    pub(crate) scratch: *mut u8,
    pub(crate) out: *mut T,
}

impl<T> Buffers<'_, T> {
    /// # Safety
    /// The source was planned for these buffers.
    unsafe fn source(&self, source: Source) -> *const T {
        match source {
            Source::Operand(at) => self.operands[at].cast(),
            // SAFETY: an offset within the scratch that was planned; 64-byte aligned like its base.
            Source::Scratch(at) => unsafe { self.scratch.add(at) }.cast_const().cast(),
        }
    }

    /// # Safety
    /// As `source`.
    unsafe fn target(&self, target: Target) -> *mut T {
        match target {
            Target::Out => self.out,
            // SAFETY: as above.
            Target::Scratch(at) => unsafe { self.scratch.add(at) }.cast(),
            // SAFETY: as above. Only steps that prepare constants write panels, and those have no other output.
            Target::Panels(at) => unsafe { self.out.cast::<u8>().add(at) }.cast(),
        }
    }
}

/// Pointers that threads share: each writes elements that no other does.
struct Shared<T>(*mut T, [*const T; 2]);

// SAFETY: the pieces of a step write disjoint elements of the target and only read the sources.
unsafe impl<T: Sync> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// # Safety
    /// The offsets are within the arrays.
    unsafe fn at(&self, target: isize, first: isize, second: isize) -> (*mut T, *const T, *const T) {
        // SAFETY: passed on.
        unsafe {
            (
                self.0.offset(target),
                self.1[0].offset(first),
                self.1[1].offset(second),
            )
        }
    }
}

/// Into how many pieces elementwise work is cut, at most. Bits do not depend on it.
const PIECES: usize = 64;

impl Step {
    /// The product, when the step is one call of a small kernel from two operands to the result.
    pub(crate) fn as_plain_gemm(&self) -> Option<(&Gemm, usize, usize)> {
        match (&self.kind, self.target) {
            (
                Kind::Gemm {
                    gemm,
                    inputs: [Source::Operand(first), Source::Operand(second)],
                },
                Target::Out,
            ) if gemm.items() == 1 && gemm.as_small().is_some() => Some((gemm, *first, *second)),
            _ => None,
        }
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        match &self.kind {
            Kind::Gemm { gemm, .. } => size_of::<Gemm>() + gemm.retained_bytes(),
            Kind::Pack { .. } => size_of::<PackAhead>(),
            Kind::Multiply { nest, .. } => nest.axes().len() * 32,
            Kind::Copy { nest, .. } => nest.axes().len() * 24,
            Kind::Sum { sums, .. } => size_of::<Sums>() + sums.retained_bytes(),
            Kind::Reference { reference } => {
                (reference.kept.len() + reference.summed.len()) * (48 + 8 * reference.conj.len())
            }
        }
    }

    /// Bytes of panels that one product of the step needs.
    pub(crate) fn panel_bytes(&self) -> usize {
        match &self.kind {
            Kind::Gemm { gemm, .. } => gemm.panel_bytes(),
            Kind::Pack { ahead, .. } => ahead.scratch_bytes(),
            _ => 0,
        }
    }

    /// Bytes of panels that `run` needs under that policy.
    #[inline]
    pub(crate) fn room(&self, policy: BatchPolicy, budget: usize) -> usize {
        match &self.kind {
            Kind::Gemm { gemm, .. } => gemm.room(policy, budget),
            Kind::Pack { ahead, .. } => ahead.scratch_bytes(),
            _ => 0,
        }
    }

    /// Runs the step.
    ///
    /// # Safety
    /// The buffers hold what the plan was made for, with elements of `T`; `panels` has `room` bytes, aligned to 64, that
    /// nobody else uses.
    pub(crate) unsafe fn run<T: Element>(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        panels: *mut u8,
        buffers: &Buffers<'_, T>,
        alpha: T,
        beta: T,
    ) -> Result<()> {
        let (alpha, beta) = if self.target == Target::Out {
            (alpha, beta)
        } else {
            (T::ONE, T::ZERO)
        };
        // SAFETY: the plan's sources and target, and loops that stay within them.
        let target = unsafe { buffers.target(self.target) };
        // SAFETY: as above.
        let pair = |inputs: [Source; 2]| inputs.map(|input| unsafe { buffers.source(input) });
        match &self.kind {
            Kind::Gemm { gemm, inputs } => {
                let [a, b] = pair(*inputs);
                // SAFETY: as above.
                unsafe { gemm.run(token, policy, panels, a, b, target, alpha, beta)? };
            }
            Kind::Pack { ahead, input } => {
                let [from, _] = pair([*input, *input]);
                // SAFETY: as above; the target has the bytes of all panels.
                unsafe { ahead.run(token, panels, from, target)? };
            }
            Kind::Multiply { nest, inputs, conj } => {
                let [a, b] = pair(*inputs);
                let shared = Shared(target, [a, b]);
                let far = nest.iterations() * size_of::<T>() > Caches::detect().l3 / 2;
                self.pieces(token, policy, nest.pieces(PIECES), |at| {
                    // SAFETY: as above; `None` is the whole, which needs no piece of its own.
                    unsafe {
                        let Some((at, count)) = at else {
                            return treadle_strided::multiply(
                                nest,
                                shared.0,
                                shared.1[0],
                                shared.1[1],
                                *conj,
                                alpha,
                                beta,
                                far,
                            );
                        };
                        let (piece, [to, a, b]) = nest.piece(at, count);
                        let (to, a, b) = shared.at(to, a, b);
                        treadle_strided::multiply(&piece, to, a, b, *conj, alpha, beta, far);
                    }
                })?;
            }
            Kind::Copy { nest, input, conj } => {
                let [from, _] = pair([*input, *input]);
                let shared = Shared(target, [from, from]);
                self.pieces(token, policy, nest.pieces(PIECES), |at| {
                    // SAFETY: as above.
                    unsafe {
                        let Some((at, count)) = at else {
                            return treadle_strided::copy(nest, shared.0, shared.1[0], *conj, alpha, beta);
                        };
                        let (piece, [to, from]) = nest.piece(at, count);
                        let (to, from, _) = shared.at(to, from, 0);
                        treadle_strided::copy(&piece, to, from, *conj, alpha, beta);
                    }
                })?;
            }
            Kind::Sum { sums, input } => {
                let [from, _] = pair([*input, *input]);
                let slots = match policy {
                    BatchPolicy::Sequential => 1,
                    _ => policy::worthwhile_slots(self.estimate_ns, token.budget()),
                };
                // SAFETY: as above.
                unsafe { sums.run(token, slots, target, from, from, alpha, beta)? };
            }
            Kind::Reference { reference } => {
                let operands: Vec<*const T> = buffers.operands.iter().map(|operand| operand.cast()).collect();
                // SAFETY: as above.
                unsafe { reference.run(token, &operands, target, alpha, beta)? };
            }
        }
        Ok(())
    }

    /// Elementwise work over the slots that it pays for: `body(None)` for the whole, or every `(piece, count)`.
    fn pieces(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        count: usize,
        body: impl Fn(Option<(usize, usize)>) + Sync,
    ) -> Result<()> {
        let slots = match policy {
            BatchPolicy::Sequential => 1,
            _ => policy::worthwhile_slots(self.estimate_ns, token.budget()),
        };
        // Long serial work is cut as well, so that a signal is seen in between.
        if count <= 1 || (slots <= 1 && self.estimate_ns < 20.0 * policy::FAN_OUT_NS) {
            body(None);
            return Ok(());
        }
        token
            .narrowed(slots)
            .chunks(count, |at| body(Some((at, count))))?;
        Ok(())
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Operand(at) => write!(f, "operand {at}"),
            Source::Scratch(at) => write!(f, "scratch+{at}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Gemm { gemm, inputs } => {
                write!(f, "product {gemm}")?;
                write!(f, ", {} * {}", inputs[0], inputs[1])?;
            }
            Kind::Pack { ahead, input } => write!(f, "{ahead}, {input}")?,
            Kind::Multiply { nest, inputs, .. } => {
                write!(
                    f,
                    "multiply {} elements, {} * {}",
                    nest.iterations(),
                    inputs[0],
                    inputs[1]
                )?;
            }
            Kind::Copy { nest, input, .. } => write!(f, "copy {} elements, {input}", nest.iterations())?,
            Kind::Sum { sums, input } => {
                write!(
                    f,
                    "sum {} results of {} terms, {input}",
                    sums.results(),
                    sums.terms()
                )?;
            }
            Kind::Reference { reference } => {
                let count =
                    |axes: &[crate::reference::Axis]| axes.iter().map(|axis| axis.extent).product::<usize>();
                write!(
                    f,
                    "reference loop {} x {}",
                    count(&reference.kept),
                    count(&reference.summed)
                )?;
            }
        }
        match self.target {
            Target::Out => write!(f, " -> out"),
            Target::Scratch(at) => write!(f, " -> scratch+{at}"),
            Target::Panels(at) => write!(f, " -> panels+{at}"),
        }
    }
}

/// Serial nanoseconds of moving that many elements, roughly.
pub(crate) fn moving_ns(elements: f64, size: usize) -> f64 {
    10.0 + elements * (0.3 + size as f64 * 0.08)
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Step>();
    assert!(<f64 as Element>::ONE == 1.0);
};
