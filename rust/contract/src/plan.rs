//! The plan: everything decided once, then run any number of times.

mod execute;
mod output;
mod prepare;
mod reach;
mod report;
mod slices;

use crate::constants::{self, Constants};
use crate::lower::level::Level;
use crate::lower::{self, Lowered};
use crate::path::find_path_with;
use crate::step::Step;
use crate::{Path, PathCost, PlanRequest, Route, path_cost};
pub(crate) use report::{labels_text, shape_text};
use std::borrow::Cow;
use std::sync::OnceLock;
use treadle_core::subscripts::Bound;
use treadle_core::{DType, Error, ErrorCode, Result, sizes};
use treadle_kernels::{Isa, small};

/// A contraction, decided. Immutable, without pointers and without a width.
#[derive(Debug)]
pub struct Plan {
    pub(crate) dtype: DType,
    pub(crate) isa: Isa,
    operands: usize,
    output_shape: Vec<usize>,
    output_strides: Vec<isize>,
    pub(crate) route: Route,
    why: Cow<'static, str>,
    state: State,
    /// The whole plan as one small product, run before anything else is looked at.
    quick: Option<Quick>,
    level: Level,
    constants: Option<Box<Constants>>,
    scratch_bytes: usize,
    estimate_ns: f64,
    /// For the report, as are the cost and the repeats.
    bound: Bound,
    path: Path,
    cost: OnceLock<PathCost>,
    /// How many times each pair's work is done; nothing when it is once for all of them.
    repeats: Vec<f64>,
}

/// What the extents leave to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The output has no element.
    Nothing,
    /// A label that is summed has extent 0: the sum is zero and no operand is read.
    EmptySum,
    /// Every extent is positive.
    Full,
}

/// A small product that needs neither scratch nor a second look.
#[derive(Clone, Copy, Debug)]
struct Quick {
    kernel: small::Erased,
    first: usize,
    second: usize,
}

impl Plan {
    /// Decides everything about a contraction, or says what is wrong with it.
    pub fn new(request: &PlanRequest) -> Result<Plan> {
        Plan::build(request).map_err(|error| error.in_operation("einsum"))
    }

    fn build(request: &PlanRequest) -> Result<Plan> {
        let dtype = request.dtype;
        if matches!(dtype, DType::F16 | DType::BF16) {
            return Err(Error::new(
                ErrorCode::DType,
                format!(
                    "{dtype} operands are contracted in {}; convert them first",
                    dtype.accumulator()
                ),
            )
            .with("actual", dtype.name())
            .with("expected", dtype.accumulator().name()));
        }
        let isa = Isa::resolve(request.isa)?;
        for (at, operand) in request.operands.iter().enumerate() {
            if operand.shape.len() != operand.strides.len() {
                return Err(Error::new(
                    ErrorCode::Internal,
                    format!(
                        "operand {at} has {} extents and {} strides",
                        operand.shape.len(),
                        operand.strides.len()
                    ),
                ));
            }
            reach::check(
                || format!("operand {at}"),
                &operand.shape,
                &operand.strides,
                dtype.size(),
            )?;
        }
        constants::check(request)?;
        let shapes: Vec<&[usize]> = request
            .operands
            .iter()
            .map(|operand| &operand.shape[..])
            .collect();
        let bound = request.subscripts.bind(&shapes)?;
        let output_shape = bound.output_shape();
        let elements = sizes::elements(&output_shape)?;
        sizes::bytes(&output_shape, dtype.size())?;
        let output_strides = output::strides(request, &bound, &output_shape)?;
        reach::check(|| "out".to_owned(), &output_shape, &output_strides, dtype.size())?;
        let path = find_path_with(&request.subscripts, &bound, &request.optimize, &request.constants)?;
        let summed_empty = bound
            .extents
            .iter()
            .enumerate()
            .any(|(label, &extent)| extent == 0 && !bound.output.contains(&(label as u32)));
        let state = if elements == 0 {
            State::Nothing
        } else if summed_empty {
            State::EmptySum
        } else {
            State::Full
        };
        let lowered = match state {
            State::Full => lower::lower(request, &bound, &path, &output_strides, isa)?,
            State::Nothing => Lowered::empty(request, "the result is empty"),
            State::EmptySum => Lowered::empty(request, "the sum is empty"),
        };
        let estimate_ns = match state {
            State::Nothing => 50.0,
            State::EmptySum => 50.0 + elements as f64 * 0.5,
            State::Full => {
                30.0 + lowered
                    .level
                    .total(&|level| level.steps.iter().map(|step| step.estimate_ns).sum::<f64>())
            }
        };
        let quick = quick_kernel(dtype, isa, &lowered);
        Ok(Plan {
            dtype,
            isa,
            operands: request.operands.len(),
            output_shape,
            output_strides,
            route: lowered.route,
            why: lowered.why,
            state,
            quick,
            level: lowered.level,
            constants: lowered.constants,
            scratch_bytes: lowered.scratch_bytes,
            estimate_ns,
            bound,
            path,
            cost: OnceLock::new(),
            repeats: lowered.repeats,
        })
    }

    /// The result's shape.
    #[inline]
    pub fn output_shape(&self) -> &[usize] {
        &self.output_shape
    }

    /// Strides of the result in elements: the caller's, or those of the fresh array to make.
    #[inline]
    pub fn output_strides(&self) -> &[isize] {
        &self.output_strides
    }

    /// The dtype of operands and result.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of operands, constants included.
    #[inline]
    pub fn operands(&self) -> usize {
        self.operands
    }

    /// Positions of the operands that do not change, ascending.
    pub fn constants(&self) -> &[usize] {
        self.constants
            .as_ref()
            .map_or(&[], |constants| &constants.positions)
    }

    /// Bytes that are kept of what `prepare` makes from the constants.
    pub fn prepared_bytes(&self) -> usize {
        self.constants
            .as_ref()
            .map_or(0, |constants| constants.kept_bytes())
    }

    /// Multiplications and additions of one execution, as numpy and opt_einsum count them: what slices repeat counts
    /// every time, what is prepared does not count.
    pub fn flops(&self) -> f64 {
        let cost = self.cost();
        if self.repeats.is_empty() {
            return cost.flops;
        }
        cost.steps
            .iter()
            .zip(&self.repeats)
            .map(|(step, repeats)| step.flops * repeats)
            .sum()
    }

    /// Bytes that the steps of one execution read and write.
    pub fn bytes(&self) -> f64 {
        let elements = match self.state {
            State::Nothing => 0.0,
            State::EmptySum => self.output_shape.iter().map(|&extent| extent as f64).product(),
            State::Full => self.level.total(&|level| level.elements),
        };
        elements * self.dtype.size() as f64
    }

    /// Bytes of scratch that one execution takes for intermediates.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// Bytes of scratch for packed panels that each product under way takes besides.
    pub fn panel_bytes(&self) -> usize {
        let mut most = 0;
        self.level.visit(0, &mut |_, level| {
            most = level.steps.iter().map(Step::panel_bytes).fold(most, usize::max);
        });
        most
    }

    /// The route that was taken.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Why that route was taken.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// The instruction set of its kernels.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The pairwise order.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The costs of the pairwise steps, each done once.
    pub fn cost(&self) -> &PathCost {
        self.cost.get_or_init(|| path_cost(&self.bound, &self.path))
    }

    /// Bytes that keeping the plan costs, about.
    pub fn retained_bytes(&self) -> usize {
        let mut bytes = size_of::<Plan>();
        self.level.visit(0, &mut |_, level| {
            bytes += size_of::<Level>()
                + level.steps.len() * size_of::<Step>()
                + level.steps.iter().map(Step::retained_bytes).sum::<usize>();
        });
        let lists = |lists: usize, items: usize, size: usize| lists * size_of::<Vec<u8>>() + items * size;
        bytes
            + self.constants.as_ref().map_or(0, |constants| constants.retained_bytes())
            + self.path.retained_bytes()
            + lists(
                self.bound.inputs.len(),
                self.bound.inputs.iter().map(Vec::len).sum(),
                4,
            )
            + lists(
                self.bound.names.len(),
                self.bound.names.iter().map(String::len).sum(),
                1,
            )
            + (self.bound.extents.len() + self.repeats.len() + 2 * self.output_shape.len()) * 8
            // The cost, if somebody asks for it.
            + self.operands * 160
    }

    /// Serial nanoseconds, roughly.
    #[inline]
    pub fn estimate_ns(&self) -> f64 {
        self.estimate_ns
    }
}

fn quick_kernel(dtype: DType, isa: Isa, lowered: &Lowered) -> Option<Quick> {
    let ([step], None, None) = (&lowered.level.steps[..], &lowered.level.inner, &lowered.constants) else {
        return None;
    };
    let (gemm, first, second) = step.as_plain_gemm()?;
    let kernel = small::erased(dtype, isa, &gemm.shape())?;
    Some(Quick {
        kernel,
        first,
        second,
    })
}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Plan>();
    shared::<crate::Prepared>();
};
