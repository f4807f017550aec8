//! Operands that do not change: what depends on them alone is computed once and kept.

use crate::PlanRequest;
use crate::lower::builder::Tensor;
use crate::lower::schedule::{Schedule, Stage, preferred_order};
use crate::lower::{Builder, Lowering, lies};
use crate::step::{Kind, Source, Step, Target};
use treadle_core::subscripts::{Bound, Label};
use treadle_core::{Error, ErrorCode, Result, sizes};

/// The part of a plan that is run once, by `Plan::prepare`.
#[derive(Clone, Debug)]
pub(crate) struct Constants {
    /// Positions of the constant operands, ascending.
    pub(crate) positions: Vec<usize>,
    pub(crate) steps: Vec<Step>,
    /// Memory for what the steps make, what they need on the way included.
    pub(crate) bytes: usize,
    /// Memory for panels.
    pub(crate) panel_bytes: usize,
    /// What later steps read: places in the table of operands. A constant operand stands at its own position, laid out
    /// anew; results stand behind the operands.
    pub(crate) entries: Vec<(usize, Place)>,
}

/// Where something that was prepared stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In order, bytes into the memory of the steps.
    Tensor(usize),
    /// As panels, bytes into the memory for them.
    Panels(usize),
}

impl Constants {
    /// For a plan that reads no operand.
    pub(crate) fn unread(request: &PlanRequest) -> Option<Box<Constants>> {
        (!request.constants.is_empty()).then(|| {
            Box::new(Constants {
                positions: positions(request),
                steps: Vec::new(),
                bytes: 0,
                panel_bytes: 0,
                entries: Vec::new(),
            })
        })
    }

    /// Whether something that was prepared is read in order.
    pub(crate) fn keeps_tensors(&self) -> bool {
        self.entries
            .iter()
            .any(|(_, place)| matches!(place, Place::Tensor(_)))
    }

    /// Bytes that are kept between executions.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.panel_bytes + if self.keeps_tensors() { self.bytes } else { 0 }
    }

    /// Products that would pack what was prepared in every execution take it as panels from now on.
    pub(crate) fn pack(&mut self, steps: &mut [Step]) {
        for step in steps {
            let Kind::Gemm { gemm, inputs } = &mut step.kind else {
                continue;
            };
            for (side, input) in inputs.iter_mut().enumerate() {
                let Some((place, offset)) = self.entries.iter_mut().find_map(|(entry, place)| match place {
                    Place::Tensor(offset) if *input == Source::Operand(*entry) => {
                        let offset = *offset;
                        Some((place, offset))
                    }
                    _ => None,
                }) else {
                    continue;
                };
                let Some((ahead, bytes)) = gemm.keep(side) else {
                    continue;
                };
                *place = Place::Panels(self.panel_bytes);
                self.steps.push(Step {
                    kind: Kind::Pack {
                        ahead: Box::new(ahead),
                        input: Source::Scratch(offset),
                    },
                    target: Target::Panels(self.panel_bytes),
                    estimate_ns: 0.0,
                });
                self.panel_bytes += bytes.next_multiple_of(64);
            }
        }
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        size_of::<Constants>()
            + self.steps.len() * size_of::<Step>()
            + self.steps.iter().map(Step::retained_bytes).sum::<usize>()
            + (self.entries.len() + self.positions.len()) * 16
    }
}

fn positions(request: &PlanRequest) -> Vec<usize> {
    let mut positions = request.constants.clone();
    positions.sort_unstable();
    positions
}

/// Refuses positions that name no operand, or one twice.
pub(crate) fn check(request: &PlanRequest) -> Result<()> {
    let positions = positions(request);
    let operands = request.operands.len();
    let fault = |position: usize, why: String| {
        Err(Error::new(ErrorCode::Argument, format!("constants {why}"))
            .with("argument", "constants")
            .with("position", position))
    };
    for (at, &position) in positions.iter().enumerate() {
        if position >= operands {
            return fault(
                position,
                format!("names operand {position}, but there are {operands}; positions count from 0"),
            );
        }
        if at > 0 && positions[at - 1] == position {
            return fault(
                position,
                format!("names operand {position} twice; once is enough"),
            );
        }
    }
    Ok(())
}

/// By pair, whether it is computed once: both tensors are constant and its result is as small as intermediates must be.
/// The last pair never is, since it writes the output.
pub(crate) fn prepared(
    request: &PlanRequest,
    bound: &Bound,
    schedule: &Schedule,
    carried: &[Vec<Label>],
) -> Vec<bool> {
    let mut constant = vec![false; schedule.operands];
    for &position in &request.constants {
        constant[position] = true;
    }
    let mut prepared = Vec::with_capacity(schedule.pairs.len());
    for (at, pair) in schedule.pairs.iter().enumerate() {
        let labels = &carried[schedule.operands + at];
        let shape: Vec<usize> = labels
            .iter()
            .map(|&label| bound.extents[label as usize])
            .collect();
        let small = match (sizes::bytes(&shape, request.dtype.size()), request.memory_limit) {
            (Err(_), _) => false,
            (Ok(_), None) => true,
            (Ok(bytes), Some(limit)) => bytes / request.dtype.size() <= limit,
        };
        let last = at + 1 == schedule.pairs.len();
        let both = pair.inputs.iter().all(|&tensor| constant[tensor]);
        prepared.push(both && small && !last);
        constant.push(both && small && !last);
    }
    prepared
}

impl Lowering<'_> {
    /// Plans what is done once, and puts constant tensors into the table of operands.
    pub(crate) fn prepare(&mut self, tensors: &mut [Option<Tensor>]) -> Result<Option<Box<Constants>>> {
        let request = self.builder.request;
        if request.constants.is_empty() {
            return Ok(None);
        }
        for at in 0..self.schedule.pairs.len() {
            if self.stage(at) == Stage::Prepared {
                self.pair(at, tensors)?;
            }
        }
        let mut entries = Vec::new();
        let mut table = self.schedule.operands;
        for (number, place) in tensors.iter_mut().enumerate() {
            let is_operand = number < self.schedule.operands;
            if is_operand && !request.constants.contains(&number) {
                continue;
            }
            let Some(tensor) = place.take() else { continue };
            let mut kept = if is_operand {
                self.laid_out(number, tensor)?
            } else {
                tensor
            };
            let Source::Scratch(offset) = kept.source else {
                return Err(Error::new(ErrorCode::Internal, "a prepared tensor has no memory"));
            };
            let entry = if is_operand { number } else { table };
            table += usize::from(!is_operand);
            entries.push((entry, Place::Tensor(offset)));
            kept.source = Source::Operand(entry);
            kept.held = false;
            *place = Some(kept);
        }
        let builder: &mut Builder<'_> = &mut self.builder;
        let arena = std::mem::take(&mut builder.arena);
        builder.elements = 0.0;
        Ok(Some(Box::new(Constants {
            positions: positions(request),
            steps: std::mem::take(&mut builder.steps),
            bytes: arena.high,
            panel_bytes: 0,
            entries,
        })))
    }

    /// A constant operand in the order in which the pair that takes it reads it best. Labels that nobody else needs are
    /// summed here.
    fn laid_out(&mut self, number: usize, mut tensor: Tensor) -> Result<Tensor> {
        let schedule = self.schedule;
        let (request, bound) = (self.builder.request, self.builder.bound);
        let own: Vec<Label> = tensor.axes.iter().map(|&(label, ..)| label).collect();
        let order = match (schedule.taker(number), schedule.partner(number)) {
            (Some(taker), Some(partner)) => {
                let mut labels = match partner.checked_sub(schedule.operands) {
                    None => bound.inputs[partner].clone(),
                    Some(pair) => schedule.pairs[pair].kept.clone(),
                };
                let kept = &schedule.pairs[taker].kept;
                let needed: Vec<Label> = own
                    .into_iter()
                    .filter(|label| kept.contains(label) || labels.contains(label))
                    .collect();
                if partner < schedule.operands {
                    labels = lies(request, bound, partner);
                } else {
                    labels.sort_unstable();
                }
                preferred_order(&needed, &labels, &self.orders[taker])
            }
            _ => own,
        };
        // What the operand repeats is one element here as well, not a sum.
        let repeated: Vec<(Label, usize, isize)> = tensor
            .axes
            .iter()
            .copied()
            .filter(|(label, _, stride)| *stride == 0 && order.contains(label))
            .collect();
        tensor
            .axes
            .retain(|axis| !repeated.iter().any(|(label, ..)| *label == axis.0));
        let axes: Vec<(Label, usize)> = order
            .iter()
            .filter_map(|&label| Some((label, tensor.find(label)?.0)))
            .collect();
        let mut result = self.builder.dense(&axes)?;
        self.builder
            .unary(&tensor, &result.axes, Builder::target(&result))?;
        result.axes.extend(repeated);
        Ok(result)
    }
}
