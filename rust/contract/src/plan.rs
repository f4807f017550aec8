//! The plan: everything decided once, then run any number of times.

use crate::lower::{self, Lowered};
use crate::policy::BatchPolicy;
use crate::step::{Buffers, Step};
use crate::{PathCost, PlanRequest, Route, Scratch, find_path, path_cost};
use std::fmt;
use treadle_core::layout::{self, Order};
use treadle_core::subscripts::Bound;
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Error, ErrorCode, Result, Scalar, sizes};
use treadle_kernels::{Isa, small};
use treadle_strided::Nest;
use treadle_team::Token;

/// A contraction, decided. Immutable, without pointers and without a width.
#[derive(Debug)]
pub struct Plan {
    pub(crate) dtype: DType,
    pub(crate) isa: Isa,
    operands: usize,
    output_shape: Vec<usize>,
    output_strides: Vec<isize>,
    subscripts: String,
    pub(crate) route: Route,
    why: String,
    cost: PathCost,
    names: Vec<String>,
    state: State,
    /// The whole plan as one small product, run before anything else is looked at.
    quick: Option<Quick>,
    /// `beta` times the output, for an empty sum or a zero `alpha`.
    rescale: Nest<1>,
    pub(crate) steps: Vec<Step>,
    scratch_bytes: usize,
    estimate_ns: f64,
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
        }
        let shapes: Vec<&[usize]> = request
            .operands
            .iter()
            .map(|operand| &operand.shape[..])
            .collect();
        let bound = request.subscripts.bind(&shapes)?;
        let output_shape = bound.output_shape();
        sizes::bytes(&output_shape, dtype.size())?;
        let output_strides = match &request.out {
            None => fresh_strides(request, &bound, &output_shape),
            Some((shape, strides)) => {
                if *shape != output_shape || strides.len() != shape.len() {
                    return Err(Error::new(
                        ErrorCode::Shape,
                        format!(
                            "out has shape {}, but the result has shape {}",
                            shape_text(shape),
                            shape_text(&output_shape)
                        ),
                    )
                    .with("expected", shape_text(&output_shape))
                    .with("actual", shape_text(shape)));
                }
                strides.clone()
            }
        };
        let path = find_path(&request.subscripts, &bound, &request.optimize)?;
        let cost = path_cost(&bound, &path);
        let summed_empty = bound
            .extents
            .iter()
            .enumerate()
            .any(|(label, &extent)| extent == 0 && !bound.output.contains(&(label as u32)));
        let state = if output_shape.contains(&0) {
            State::Nothing
        } else if summed_empty {
            State::EmptySum
        } else {
            State::Full
        };
        let rescale = Nest::new(
            output_shape
                .iter()
                .zip(&output_strides)
                .map(|(&extent, &stride)| (extent, [stride])),
        );
        let lowered = if state == State::Full {
            lower::lower(request, &bound, &path, &output_strides, isa)?
        } else {
            lower::check_route(request)?;
            Lowered::empty(if state == State::Nothing {
                "the result is empty"
            } else {
                "the sum is empty"
            })
        };
        let quick = quick_kernel(dtype, isa, &lowered);
        let estimate_ns = match state {
            State::Nothing => 50.0,
            State::EmptySum => 50.0 + sizes::elements(&output_shape)? as f64 * 0.5,
            State::Full => 30.0 + lowered.steps.iter().map(|step| step.estimate_ns).sum::<f64>(),
        };
        Ok(Plan {
            dtype,
            isa,
            operands: request.operands.len(),
            subscripts: subscripts_text(&bound),
            output_shape,
            output_strides,
            route: lowered.route,
            why: lowered.why,
            cost,
            names: bound.names,
            state,
            quick,
            rescale,
            steps: lowered.steps,
            scratch_bytes: lowered.scratch_bytes,
            estimate_ns,
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

    /// The number of operands.
    #[inline]
    pub fn operands(&self) -> usize {
        self.operands
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> f64 {
        self.cost.flops
    }

    /// Bytes of scratch that one execution takes.
    pub fn scratch_bytes(&self) -> usize {
        self.scratch_bytes
    }

    /// The route that was taken.
    pub fn route(&self) -> Route {
        self.route
    }

    /// Why that route was taken.
    pub fn why(&self) -> &str {
        &self.why
    }

    /// One line per kernel call, in the order of execution.
    pub fn steps(&self) -> Vec<String> {
        self.steps.iter().map(ToString::to_string).collect()
    }

    /// The costs of the pairwise steps.
    pub fn cost(&self) -> &PathCost {
        &self.cost
    }

    /// Bytes that keeping the plan costs, about.
    pub fn retained_bytes(&self) -> usize {
        size_of::<Plan>()
            + self.steps.len() * size_of::<Step>()
            + self.steps.iter().map(Step::retained_bytes).sum::<usize>()
            + self.subscripts.len()
            + self
                .names
                .iter()
                .map(|name| name.len() + size_of::<String>())
                .sum::<usize>()
            + self.cost.steps.len() * 160
            + self.output_shape.len() * 16
    }

    /// Serial nanoseconds, roughly.
    #[inline]
    pub fn estimate_ns(&self) -> f64 {
        self.estimate_ns
    }

    /// Runs it: `out = alpha * contraction + beta * out`.
    ///
    /// Nothing is written before every refusal has been raised, but for `ErrorCode::Interrupted`, after which the
    /// output holds unspecified values.
    ///
    /// # Safety
    /// `operands` and `out` point to elements of the plan's dtype, aligned for it, with the shapes and strides that
    /// the plan was made for; operands are readable and the output writeable for the whole call, no element of the
    /// output stands at two indices, and the output shares no element with an operand. With `beta` zero the output
    /// need not be initialised.
    #[inline]
    pub unsafe fn execute(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        // SAFETY: passed on unchanged.
        if unsafe { self.execute_quick(policy, operands, out, alpha, beta) } {
            return Ok(());
        }
        // SAFETY: passed on unchanged.
        unsafe { self.execute_general(token, policy, scratch, operands, out, alpha, beta) }
    }

    /// Runs it if it is one small product that needs neither budget nor scratch; false if nothing was done.
    ///
    /// # Safety
    /// As `execute`.
    #[inline]
    pub unsafe fn execute_quick(
        &self,
        policy: BatchPolicy,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> bool {
        if let Some(quick) = &self.quick
            && policy == BatchPolicy::Auto
            && alpha.is_one()
            && beta.is_zero()
            && operands.len() == self.operands
        {
            // SAFETY: the kernel was made for these strides and this dtype, and the caller vouches for the pointers.
            unsafe {
                quick
                    .kernel
                    .run(operands[quick.first], operands[quick.second], out)
            };
            return true;
        }
        false
    }

    /// # Safety
    /// As `execute`.
    unsafe fn execute_general(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        if operands.len() != self.operands {
            return Err(Error::new(
                ErrorCode::Subscripts,
                format!(
                    "the plan takes {} operands, but {} were given",
                    self.operands,
                    operands.len()
                ),
            )
            .with("expected", self.operands)
            .with("actual", operands.len()));
        }
        policy.check(token.budget())?;
        macro_rules! typed {
            ($t:ty) => {
                // SAFETY: passed on; the dtype is the plan's.
                unsafe { self.execute_typed::<$t>(token, policy, scratch, operands, out, alpha, beta) }
            };
        }
        match self.dtype {
            DType::Bool => typed!(Bool),
            DType::U8 => typed!(u8),
            DType::I8 => typed!(i8),
            DType::U16 => typed!(u16),
            DType::I16 => typed!(i16),
            DType::U32 => typed!(u32),
            DType::I32 => typed!(i32),
            DType::U64 => typed!(u64),
            DType::I64 => typed!(i64),
            DType::F32 => typed!(f32),
            DType::F64 => typed!(f64),
            DType::C64 => typed!(Complex32),
            DType::C128 => typed!(Complex64),
            DType::F16 | DType::BF16 => Err(Error::new(
                ErrorCode::Internal,
                format!("a plan of dtype {} exists", self.dtype),
            )),
        }
    }

    /// # Safety
    /// As `execute`, with `T` the plan's dtype.
    unsafe fn execute_typed<T: crate::gemm::MatrixElement>(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        scratch: &mut dyn Scratch,
        operands: &[*const u8],
        out: *mut u8,
        alpha: Scalar,
        beta: Scalar,
    ) -> Result<()> {
        debug_assert_eq!(T::DTYPE, self.dtype);
        let (alpha, beta) = (T::from_scalar(alpha), <T as Element>::from_scalar(beta));
        let out = out.cast::<T>();
        if self.state == State::Nothing {
            return Ok(());
        }
        if self.state == State::EmptySum || alpha == T::ZERO {
            // SAFETY: the output's own shape and strides; `rescale` does not read it when `beta` is zero.
            unsafe { treadle_strided::scale(&self.rescale, out, beta) };
            return Ok(());
        }
        let base = if self.scratch_bytes == 0 {
            std::ptr::null_mut()
        } else {
            scratch.take(self.scratch_bytes)?
        };
        let buffers = Buffers {
            operands,
            scratch: base,
            out,
        };
        for step in &self.steps {
            // SAFETY: each step stays within the operands, the scratch and the output that it was planned for.
            unsafe { step.run::<T>(token, policy, &buffers, alpha, beta)? };
        }
        Ok(())
    }
}

fn quick_kernel(dtype: DType, isa: Isa, lowered: &Lowered) -> Option<Quick> {
    let [step] = &lowered.steps[..] else { return None };
    let (gemm, first, second) = step.as_plain_gemm()?;
    let kernel = small::erased(dtype, isa, &gemm.shape())?;
    Some(Quick {
        kernel,
        first,
        second,
    })
}

fn fresh_strides(request: &PlanRequest, bound: &Bound, shape: &[usize]) -> Vec<isize> {
    match request.order {
        Order::C => layout::c_strides(shape),
        Order::F => layout::f_strides(shape),
        Order::A => {
            let all = |f: fn(&[usize], &[isize]) -> bool| {
                request
                    .operands
                    .iter()
                    .all(|operand| f(&operand.shape, &operand.strides))
            };
            if all(layout::is_f_contiguous) && !all(layout::is_c_contiguous) {
                layout::f_strides(shape)
            } else {
                layout::c_strides(shape)
            }
        }
        Order::K => {
            if shape.len() < 2 {
                return layout::c_strides(shape);
            }
            let along: Vec<Vec<isize>> = request
                .operands
                .iter()
                .zip(&bound.inputs)
                .map(|(operand, labels)| {
                    bound
                        .output
                        .iter()
                        .map(|label| {
                            labels
                                .iter()
                                .zip(&operand.strides)
                                .zip(&operand.shape)
                                .filter(|((own, _), extent)| *own == label && **extent > 1)
                                .map(|((_, stride), _)| *stride)
                                .sum()
                        })
                        .collect()
                })
                .collect();
            layout::keep_strides(shape, &along)
        }
    }
}

pub(crate) fn shape_text(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!(
        "({}{})",
        inner.join(", "),
        if inner.len() == 1 { "," } else { "" }
    )
}

pub(crate) fn labels_text(names: &[String], labels: &[u32]) -> String {
    let short = labels
        .iter()
        .all(|&label| names[label as usize].chars().count() == 1);
    let words: Vec<&str> = labels
        .iter()
        .map(|&label| names[label as usize].as_str())
        .collect();
    words.join(if short { "" } else { " " })
}

fn subscripts_text(bound: &Bound) -> String {
    const SHOWN: usize = 40;
    let mut inputs: Vec<String> = bound
        .inputs
        .iter()
        .take(SHOWN)
        .map(|labels| labels_text(&bound.names, labels))
        .collect();
    if bound.inputs.len() > SHOWN {
        inputs.push(format!("... ({} more)", bound.inputs.len() - SHOWN));
    }
    format!(
        "{}->{}",
        inputs.join(","),
        labels_text(&bound.names, &bound.output)
    )
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", self.subscripts, self.dtype)?;
        writeln!(f, "route    {} ({})", self.route, self.why)?;
        writeln!(
            f,
            "result   {} strides {:?}",
            shape_text(&self.output_shape),
            self.output_strides
        )?;
        writeln!(
            f,
            "flops    {:.3e} (one loop over all labels: {:.3e})",
            self.cost.flops, self.cost.naive_flops
        )?;
        writeln!(f, "largest  {} elements", self.cost.largest)?;
        writeln!(f, "scratch  {} bytes", self.scratch_bytes)?;
        writeln!(f, "isa      {}", self.isa)?;
        const SHOWN: usize = 60;
        for (at, step) in self.steps.iter().take(SHOWN).enumerate() {
            writeln!(f, "step {at:<3} {step}")?;
        }
        if self.steps.len() > SHOWN {
            writeln!(f, "... and {} more steps", self.steps.len() - SHOWN)?;
        }
        Ok(())
    }
}
