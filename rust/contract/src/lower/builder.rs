//! The tensors of a contraction on their way through its pairs, and the kernel calls that make them.

use crate::arena::Arena;
use crate::fold::{A, B, C, Loop, Roles};
use crate::lower::level::Level;
use crate::lower::refused;
use crate::plan::labels_text;
use crate::step::{Kind, Source, Step, Target, moving_ns};
use crate::{PlanRequest, Route};
use std::borrow::Cow;
use treadle_core::subscripts::{Bound, Label};
use treadle_core::{DType, Error, ErrorCode, Result, layout, sizes};
use treadle_kernels::{Isa, Kernel};
use treadle_strided::{Nest, Sums};

/// A tensor on its way through the network. Axes of extent 1 are left out; a broadcast axis is one of them until it
/// meets its partner.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) axes: Vec<(Label, usize, isize)>,
    pub(crate) source: Source,
    pub(crate) conj: bool,
    /// Its memory is not reused: what reads it runs more often than what writes it.
    pub(crate) held: bool,
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

    /// Elements in memory: an axis with stride 0 repeats one.
    fn distinct(&self) -> f64 {
        self.axes
            .iter()
            .filter(|(_, _, stride)| *stride != 0)
            .map(|&(_, extent, _)| extent as f64)
            .product()
    }

    /// The same with fewer indices along a label.
    pub(crate) fn narrow(&mut self, label: Label, extent: usize) {
        narrow(&mut self.axes, label, extent);
    }
}

/// Leaves that many indices along a label.
pub(crate) fn narrow(axes: &mut Vec<(Label, usize, isize)>, label: Label, extent: usize) {
    axes.retain_mut(|(own, own_extent, _)| {
        if *own == label {
            *own_extent = extent;
        }
        *own_extent > 1
    });
}

pub(crate) struct Builder<'r> {
    pub(crate) request: &'r PlanRequest,
    pub(crate) bound: &'r Bound,
    /// The output's axes with more than one index.
    pub(crate) out: Vec<(Label, usize, isize)>,
    pub(crate) isa: Isa,
    pub(crate) steps: Vec<Step>,
    pub(crate) arena: Arena,
    /// Elements that the steps read and write.
    pub(crate) elements: f64,
    /// The order in which the result of the current pair should lie, outermost first.
    pub(crate) wanted: &'r [Label],
    /// Elements that an intermediate may have.
    pub(crate) limit: Option<usize>,
    /// The labels of the intermediate that had more.
    pub(crate) excess: Option<Vec<Label>>,
    /// The route of the most expensive pair.
    dominant: Option<(Route, Cow<'static, str>, f64)>,
}

impl<'r> Builder<'r> {
    /// `out` are the output's axes with more than one index.
    pub(crate) fn new(
        request: &'r PlanRequest,
        bound: &'r Bound,
        isa: Isa,
        out: Vec<(Label, usize, isize)>,
    ) -> Builder<'r> {
        Builder {
            request,
            bound,
            out,
            isa,
            steps: Vec::new(),
            arena: Arena::default(),
            elements: 0.0,
            wanted: &[],
            limit: None,
            excess: None,
            dominant: None,
        }
    }

    pub(crate) fn dtype(&self) -> DType {
        self.request.dtype
    }

    /// Diagonals are taken here: strides of a repeated label add up.
    pub(crate) fn load(&self, at: usize) -> Tensor {
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
            held: false,
        }
    }

    /// The most expensive pair names the plan's route and says why.
    pub(crate) fn note<S: Into<Cow<'static, str>>>(
        &mut self,
        route: Route,
        why: impl FnOnce() -> S,
        cost: f64,
    ) {
        if self.dominant.as_ref().is_none_or(|(_, _, known)| cost > *known) {
            self.dominant = Some((route, why().into(), cost));
        }
    }

    /// The steps since the last call.
    pub(crate) fn take_level(&mut self) -> Level {
        Level {
            steps: std::mem::take(&mut self.steps),
            elements: std::mem::take(&mut self.elements),
            inner: None,
        }
    }

    /// The plan's route and why.
    pub(crate) fn route(&mut self) -> (Route, Cow<'static, str>) {
        match self.dominant.take() {
            Some((route, why, _)) => (route, why),
            None => (Route::Elementwise, Cow::Borrowed("one operand")),
        }
    }

    /// Scratch for an intermediate with dense axes in this order.
    pub(crate) fn dense(&mut self, axes: &[(Label, usize)]) -> Result<Tensor> {
        let shape: Vec<usize> = axes.iter().map(|&(_, extent)| extent).collect();
        if let Some(limit) = self.limit
            && sizes::elements(&shape).map_or(true, |elements| elements > limit)
        {
            self.excess = Some(axes.iter().map(|&(label, _)| label).collect());
            return Err(too_large(&shape, limit));
        }
        let bytes = sizes::bytes(&shape, self.dtype().size())?;
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
            held: false,
        })
    }

    pub(crate) fn release(&mut self, tensor: &Tensor) {
        if let Source::Scratch(offset) = tensor.source
            && !tensor.held
        {
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
    pub(crate) fn single(&mut self, tensor: Option<Tensor>) -> Result<()> {
        let route = self.request.route;
        if !matches!(route, Route::Auto | Route::Elementwise) {
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
        self.note(Route::Elementwise, || why, 0.0);
        self.unary(&tensor, &out, Target::Out)
    }

    /// Copies or sums `tensor` into `to`; a label of `to` that it lacks is broadcast.
    pub(crate) fn unary(
        &mut self,
        tensor: &Tensor,
        to: &[(Label, usize, isize)],
        target: Target,
    ) -> Result<()> {
        let kept = to.iter().map(|&(label, extent, stride)| {
            (extent, [stride, tensor.find(label).map_or(0, |(_, from)| from)])
        });
        let summed: Vec<(usize, [isize; 1])> = tensor
            .axes
            .iter()
            .filter(|(label, ..)| !to.iter().any(|(own, ..)| own == label))
            .map(|&(_, extent, stride)| (extent, [stride]))
            .collect();
        countable(tensor.elements())?;
        let estimate_ns = moving_ns(tensor.elements(), self.dtype().size());
        self.elements += tensor.distinct() + to.iter().map(|&(_, extent, _)| extent as f64).product::<f64>();
        let (input, conj) = (tensor.source, tensor.conj);
        let kind = if summed.is_empty() {
            Kind::Copy {
                nest: Nest::for_copy(kept),
                input,
                conj,
            }
        } else {
            let kernel = Kernel::of(self.dtype(), self.isa)
                .ok_or_else(|| Error::new(ErrorCode::Internal, "a sum of a dtype without kernels"))?;
            let kept = kept.map(|(extent, [to, from])| (extent, [to, from, 0]));
            let summed = summed.into_iter().map(|(extent, [from])| (extent, [from, 0]));
            Kind::Sum {
                sums: Box::new(Sums::new(kernel, 1, kept, summed, [conj, false])),
                input,
            }
        };
        self.steps.push(Step {
            kind,
            target,
            estimate_ns,
        });
        Ok(())
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
        self.unary(&tensor, &result.axes, Self::target(&result))?;
        self.release(&tensor);
        Ok(result)
    }

    /// Contracts two tensors; the last pair writes the output.
    pub(crate) fn pair(
        &mut self,
        a: Tensor,
        b: Tensor,
        kept: &[Label],
        last: bool,
    ) -> Result<Option<Tensor>> {
        let a = self.reduced(a, &b, kept)?;
        let b = self.reduced(b, &a, kept)?;
        let roles = self.roles(&a, &b, kept, last);
        let written: f64 = [&roles.batch, &roles.rows, &roles.columns]
            .into_iter()
            .flatten()
            .map(|l| l.extent as f64)
            .product();
        let summed = roles.terms.iter().map(|l| l.extent as f64);
        countable(written * summed.product::<f64>())?;
        self.elements += a.distinct() + b.distinct() + written;
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
            self.prefer(&mut loops);
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
        self.note(Route::Elementwise, || why, estimate_ns);
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

    /// Sorts the loops of an intermediate into the order in which the pair that takes it reads it best.
    pub(crate) fn prefer(&self, loops: &mut [Loop]) {
        let place = |label: Label| self.wanted.iter().position(|&own| own == label);
        loops.sort_by_key(|l| place(l.label).unwrap_or(usize::MAX));
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

/// Refuses a step with more turns than can be counted; only repeated elements can ask for that many.
pub(crate) fn countable(turns: f64) -> Result<()> {
    if turns < isize::MAX as f64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorCode::SizeOverflow,
        format!(
            "a step of this contraction has {turns:.1e} multiplications, more than can be counted ({}); contract in \
             smaller pieces",
            isize::MAX
        ),
    ))
}

/// The refusal of an intermediate, or of a contraction that cannot be cut to what is allowed.
pub(crate) fn too_large(shape: &[usize], limit: usize) -> Error {
    let elements = match sizes::elements(shape) {
        Ok(elements) => elements.to_string(),
        Err(_) => format!("more than {}", isize::MAX),
    };
    Error::new(
        ErrorCode::Unsupported,
        format!(
            "an intermediate of this path has {elements} elements, more than memory_limit={limit}; choose another \
             path or a larger limit"
        ),
    )
    .with("limit", limit)
}
