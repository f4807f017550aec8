//! From a path to kernel calls.

use crate::arena::Arena;
use crate::fold::{A, B, C, Loop, Roles};
use crate::path::{Network, Path};
use crate::plan::labels_text;
use crate::reference::{Axis, Reference};
use crate::step::{Kind, Source, Step, Target, moving_ns};
use crate::{PlanRequest, Route};
use treadle_core::subscripts::{Bound, Label};
use treadle_core::{DType, Error, ErrorCode, Result, layout, sizes};
use treadle_kernels::Isa;
use treadle_strided::{Nest, Reduction};

/// The kernel calls of a plan.
pub(crate) struct Lowered {
    pub(crate) steps: Vec<Step>,
    pub(crate) scratch_bytes: usize,
    pub(crate) route: Route,
    pub(crate) why: String,
}

impl Lowered {
    /// For a plan that computes nothing.
    pub(crate) fn empty(why: &str) -> Lowered {
        Lowered {
            steps: Vec::new(),
            scratch_bytes: 0,
            route: Route::Elementwise,
            why: why.to_owned(),
        }
    }
}

/// Refuses routes that do not exist yet.
pub(crate) fn check_route(request: &PlanRequest) -> Result<()> {
    if request.route == Route::Packed {
        return Err(Error::new(
            ErrorCode::Unsupported,
            "route='packed' is not part of this version; use 'auto', 'gemm' or 'transpose'",
        )
        .with("route", Route::Packed.name()));
    }
    Ok(())
}

/// The refusal of a forced route.
pub(crate) fn refused(route: Route, why: &str) -> Error {
    Error::new(
        ErrorCode::Unsupported,
        format!("route='{route}' is not possible here: {why}"),
    )
    .with("route", route.name())
}

/// Plans every step.
pub(crate) fn lower(
    request: &PlanRequest,
    bound: &Bound,
    path: &Path,
    out_strides: &[isize],
    isa: Isa,
) -> Result<Lowered> {
    check_route(request)?;
    if request.route == Route::Reference {
        return Ok(reference(request, bound, out_strides));
    }
    let out: Vec<(Label, usize, isize)> = bound
        .output
        .iter()
        .zip(out_strides)
        .map(|(&label, &stride)| (label, bound.extents[label as usize], stride))
        .filter(|&(_, extent, _)| extent > 1)
        .collect();
    let mut builder = Builder {
        request,
        bound,
        out,
        isa,
        steps: Vec::new(),
        arena: Arena::default(),
        dominant: None,
    };
    let mut tensors: Vec<Option<Tensor>> = (0..request.operands.len())
        .map(|at| Some(builder.load(at)))
        .collect();
    let pairs = path.pairs();
    if pairs.is_empty() {
        builder.single(tensors[0].take())?;
    } else {
        let mut network = Network::new(bound);
        let last = pairs.len() - 1;
        for (at, pair) in pairs.iter().enumerate() {
            let kept = network.contract(pair);
            let (Some(a), Some(b)) = (tensors[pair[0]].take(), tensors[pair[1]].take()) else {
                return Err(Error::new(ErrorCode::Internal, "a path uses a tensor twice"));
            };
            let result = builder.pair(a, b, &kept, at == last)?;
            tensors.push(result);
        }
    }
    let (route, why) = match builder.dominant.take() {
        Some((route, why, _)) => (route, why),
        None => (Route::Elementwise, "one operand".to_owned()),
    };
    Ok(Lowered {
        steps: builder.steps,
        scratch_bytes: builder.arena.high,
        route,
        why,
    })
}

fn reference(request: &PlanRequest, bound: &Bound, out_strides: &[isize]) -> Lowered {
    let axis = |label: usize, out: isize| Axis {
        extent: bound.extents[label],
        out,
        operands: request
            .operands
            .iter()
            .zip(&bound.inputs)
            .map(|(operand, labels)| {
                (0..labels.len())
                    .filter(|&at| labels[at] as usize == label && operand.shape[at] > 1)
                    .map(|at| operand.strides[at])
                    .sum()
            })
            .collect(),
    };
    let kept = bound
        .output
        .iter()
        .zip(out_strides)
        .map(|(&label, &stride)| axis(label as usize, stride))
        .collect();
    let summed: Vec<Axis> = (0..bound.extents.len())
        .filter(|&label| !bound.output.contains(&(label as Label)))
        .map(|label| axis(label, 0))
        .collect();
    let work = bound.extents.iter().map(|&extent| extent as f64).product::<f64>();
    let reference = Reference {
        kept,
        summed,
        conj: request.operands.iter().map(|operand| operand.conj).collect(),
    };
    Lowered {
        steps: vec![Step {
            kind: Kind::Reference {
                reference: Box::new(reference),
            },
            target: Target::Out,
            estimate_ns: work * 10.0 * request.operands.len() as f64,
        }],
        scratch_bytes: 0,
        route: Route::Reference,
        why: "asked for".to_owned(),
    }
}

/// A tensor on its way through the network. Axes of extent 1 are left out; a broadcast axis is one of them until it
/// meets its partner.
#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) axes: Vec<(Label, usize, isize)>,
    pub(crate) source: Source,
    pub(crate) conj: bool,
}

impl Tensor {
    pub(crate) fn find(&self, label: Label) -> Option<(usize, isize)> {
        self.axes
            .iter()
            .find(|(own, ..)| *own == label)
            .map(|&(_, extent, stride)| (extent, stride))
    }

    fn elements(&self) -> f64 {
        self.axes.iter().map(|&(_, extent, _)| extent as f64).product()
    }
}

pub(crate) struct Builder<'r> {
    pub(crate) request: &'r PlanRequest,
    pub(crate) bound: &'r Bound,
    /// The output's axes with more than one index.
    pub(crate) out: Vec<(Label, usize, isize)>,
    pub(crate) isa: Isa,
    pub(crate) steps: Vec<Step>,
    arena: Arena,
    /// The route of the most expensive pair.
    dominant: Option<(Route, String, f64)>,
}

impl Builder<'_> {
    pub(crate) fn dtype(&self) -> DType {
        self.request.dtype
    }

    /// Diagonals are taken here: strides of a repeated label add up.
    fn load(&self, at: usize) -> Tensor {
        let operand = &self.request.operands[at];
        let mut axes: Vec<(Label, usize, isize)> = Vec::with_capacity(operand.shape.len());
        for ((&label, &extent), &stride) in self.bound.inputs[at]
            .iter()
            .zip(&operand.shape)
            .zip(&operand.strides)
        {
            if extent == 1 {
                continue;
            }
            match axes.iter_mut().find(|(own, ..)| *own == label) {
                Some((_, _, sum)) => *sum += stride,
                None => axes.push((label, extent, stride)),
            }
        }
        Tensor {
            axes,
            source: Source::Operand(at),
            conj: operand.conj,
        }
    }

    pub(crate) fn note(&mut self, route: Route, why: impl FnOnce() -> String, cost: f64) {
        if self.dominant.as_ref().is_none_or(|(_, _, known)| cost > *known) {
            self.dominant = Some((route, why(), cost));
        }
    }

    /// Scratch for an intermediate with dense axes in this order.
    pub(crate) fn dense(&mut self, axes: &[(Label, usize)]) -> Result<Tensor> {
        let shape: Vec<usize> = axes.iter().map(|&(_, extent)| extent).collect();
        let bytes = sizes::bytes(&shape, self.dtype().size())?;
        if let Some(limit) = self.request.memory_limit
            && sizes::elements(&shape)? > limit
        {
            return Err(Error::new(
                ErrorCode::Unsupported,
                format!(
                    "an intermediate of this path has {} elements, more than memory_limit={limit}; choose another \
                     path or a larger limit",
                    sizes::elements(&shape)?
                ),
            )
            .with("limit", limit));
        }
        let strides = layout::c_strides(&shape);
        let offset = self.arena.take(bytes)?;
        Ok(Tensor {
            axes: axes
                .iter()
                .zip(strides)
                .map(|(&(label, extent), stride)| (label, extent, stride))
                .collect(),
            source: Source::Scratch(offset),
            conj: false,
        })
    }

    pub(crate) fn release(&mut self, tensor: &Tensor) {
        if let Source::Scratch(offset) = tensor.source {
            self.arena.give_back(offset);
        }
    }

    pub(crate) fn target(tensor: &Tensor) -> Target {
        match tensor.source {
            Source::Scratch(offset) => Target::Scratch(offset),
            Source::Operand(_) => Target::Out,
        }
    }

    /// One operand: a copy, or sums.
    fn single(&mut self, tensor: Option<Tensor>) -> Result<()> {
        let route = self.request.route;
        if matches!(route, Route::Gemm | Route::Transpose) {
            return Err(refused(
                route,
                "one operand needs no product; use 'auto' or 'elementwise'",
            ));
        }
        let Some(tensor) = tensor else { return Ok(()) };
        let out = self.out.clone();
        let summed = tensor
            .axes
            .iter()
            .any(|(label, ..)| !out.iter().any(|(own, ..)| own == label));
        let why = if summed {
            "one operand, summed"
        } else {
            "one operand, copied"
        };
        self.note(Route::Elementwise, || why.to_owned(), 0.0);
        self.unary(&tensor, &out, Target::Out);
        Ok(())
    }

    /// Copies or sums `tensor` into `to`; a label of `to` that it lacks is broadcast.
    pub(crate) fn unary(&mut self, tensor: &Tensor, to: &[(Label, usize, isize)], target: Target) {
        let kept = to.iter().map(|&(label, extent, stride)| {
            (extent, [stride, tensor.find(label).map_or(0, |(_, from)| from)])
        });
        let summed: Vec<(usize, [isize; 1])> = tensor
            .axes
            .iter()
            .filter(|(label, ..)| !to.iter().any(|(own, ..)| own == label))
            .map(|&(_, extent, stride)| (extent, [stride]))
            .collect();
        let estimate_ns = moving_ns(tensor.elements(), self.dtype().size());
        let (input, conj) = (tensor.source, tensor.conj);
        let kind = if summed.is_empty() {
            Kind::Copy {
                nest: Nest::for_copy(kept),
                input,
                conj,
            }
        } else {
            Kind::Sum {
                reduction: Box::new(Reduction::new(kept, summed)),
                input,
                conj,
            }
        };
        self.steps.push(Step {
            kind,
            target,
            estimate_ns,
        });
    }

    /// Sums away what neither the partner nor the result needs.
    fn reduced(&mut self, tensor: Tensor, partner: &Tensor, kept: &[Label]) -> Result<Tensor> {
        let needed = |label: Label| kept.contains(&label) || partner.find(label).is_some();
        if tensor.axes.iter().all(|&(label, ..)| needed(label)) {
            return Ok(tensor);
        }
        let mut axes: Vec<(Label, usize, isize)> = tensor
            .axes
            .iter()
            .copied()
            .filter(|&(label, ..)| needed(label))
            .collect();
        axes.sort_by_key(|&(_, _, stride)| std::cmp::Reverse(stride.unsigned_abs()));
        let order: Vec<(Label, usize)> = axes.iter().map(|&(label, extent, _)| (label, extent)).collect();
        let result = self.dense(&order)?;
        self.unary(&tensor, &result.axes, Self::target(&result));
        self.release(&tensor);
        Ok(result)
    }

    /// Contracts two tensors; the last pair writes the output.
    fn pair(&mut self, a: Tensor, b: Tensor, kept: &[Label], last: bool) -> Result<Option<Tensor>> {
        let a = self.reduced(a, &b, kept)?;
        let b = self.reduced(b, &a, kept)?;
        let roles = self.roles(&a, &b, kept, last);
        let route = self.request.route;
        let result = if roles.terms.is_empty() && matches!(route, Route::Auto | Route::Elementwise) {
            self.multiply(&a, &b, &roles, last)?
        } else if route == Route::Elementwise {
            let labels: Vec<Label> = roles.terms.iter().map(|l| l.label).collect();
            let text = labels_text(&self.bound.names, &labels);
            return Err(refused(
                route,
                &format!("label '{text}' is summed over both operands; use 'auto' or 'gemm'"),
            ));
        } else {
            self.product(&a, &b, roles, last)?
        };
        self.release(&a);
        self.release(&b);
        Ok(result)
    }

    fn roles(&self, a: &Tensor, b: &Tensor, kept: &[Label], last: bool) -> Roles {
        let mut roles = Roles::default();
        let labels = a
            .axes
            .iter()
            .chain(b.axes.iter().filter(|(label, ..)| a.find(*label).is_none()));
        for &(label, extent, _) in labels {
            let stride = |tensor: &Tensor| tensor.find(label).map_or(0, |(_, stride)| stride);
            let mut l = Loop {
                label,
                extent,
                strides: [stride(a), stride(b), 0],
            };
            if !kept.contains(&label) {
                roles.terms.push(l);
                continue;
            }
            if last {
                l.strides[C] = self
                    .out
                    .iter()
                    .find(|(own, ..)| *own == label)
                    .map_or(0, |&(_, _, stride)| stride);
            }
            // A factor that stands still along a label does not carry it.
            match (l.strides[A] != 0, l.strides[B] != 0) {
                (true, false) => roles.rows.push(l),
                (false, true) => roles.columns.push(l),
                _ => roles.batch.push(l),
            }
        }
        roles
    }

    fn multiply(&mut self, a: &Tensor, b: &Tensor, roles: &Roles, last: bool) -> Result<Option<Tensor>> {
        let mut loops: Vec<Loop> = [&roles.batch[..], &roles.rows, &roles.columns].concat();
        let result = if last {
            None
        } else {
            Some(self.result(&mut loops)?)
        };
        let elements = loops.iter().map(|l| l.extent as f64).product::<f64>();
        let nest = Nest::new(
            loops
                .iter()
                .map(|l| (l.extent, [l.strides[C], l.strides[A], l.strides[B]])),
        );
        let estimate_ns = moving_ns(elements, self.dtype().size()) * 1.5;
        let outer = !roles.rows.is_empty() && !roles.columns.is_empty();
        let why = if outer {
            "nothing is summed over both operands"
        } else {
            "every axis is a batch axis"
        };
        self.note(Route::Elementwise, || why.to_owned(), estimate_ns);
        self.steps.push(Step {
            kind: Kind::Multiply {
                nest,
                inputs: [a.source, b.source],
                conj: [a.conj, b.conj],
            },
            target: result.as_ref().map_or(Target::Out, Self::target),
            estimate_ns,
        });
        Ok(result)
    }

    /// A dense intermediate over these loops, whose result strides are filled in.
    pub(crate) fn result(&mut self, loops: &mut [Loop]) -> Result<Tensor> {
        let order: Vec<(Label, usize)> = loops.iter().map(|l| (l.label, l.extent)).collect();
        let result = self.dense(&order)?;
        for (l, &(_, _, stride)) in loops.iter_mut().zip(&result.axes) {
            l.strides[C] = stride;
        }
        Ok(result)
    }
}
