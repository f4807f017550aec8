//! From a path to kernel calls.

pub(crate) mod builder;
pub(crate) mod level;
pub(crate) mod schedule;

use crate::constants::{self, Constants};
use crate::path::Path;
use crate::reference::{Axis, Reference};
use crate::slicing::{self, Cut, Slicer};
use crate::step::{Kind, Source, Step, Target};
use crate::{PlanRequest, Route};
pub(crate) use builder::{Builder, Tensor};
use level::{Level, SliceLoop};
use schedule::{Schedule, Stage, preferred_orders};
use std::borrow::Cow;
use std::cmp::Reverse;
use treadle_core::subscripts::{Bound, Label};
use treadle_core::{Error, ErrorCode, Result};
use treadle_kernels::Isa;

/// The kernel calls of a plan.
pub(crate) struct Lowered {
    pub(crate) level: Level,
    pub(crate) scratch_bytes: usize,
    pub(crate) route: Route,
    pub(crate) why: Cow<'static, str>,
    pub(crate) constants: Option<Box<Constants>>,
    /// How many times each pair's work is done; nothing when it is once for all of them.
    pub(crate) repeats: Vec<f64>,
}

impl Lowered {
    fn new(
        mut builder: Builder<'_>,
        level: Level,
        constants: Option<Box<Constants>>,
        repeats: Vec<f64>,
    ) -> Lowered {
        let (route, why) = builder.route();
        Lowered {
            level,
            scratch_bytes: builder.arena.high,
            route,
            why,
            constants,
            repeats,
        }
    }

    /// For a plan that computes nothing.
    pub(crate) fn empty(request: &PlanRequest, why: &'static str) -> Lowered {
        Lowered {
            level: Level::default(),
            scratch_bytes: 0,
            route: Route::Elementwise,
            why: Cow::Borrowed(why),
            constants: Constants::unread(request),
            repeats: Vec::new(),
        }
    }
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
    if request.route == Route::Reference {
        return reference(request, bound, out_strides, isa);
    }
    let mut out: Vec<(Label, usize, isize)> = Vec::with_capacity(bound.output.len());
    for (&label, &stride) in bound.output.iter().zip(out_strides) {
        let extent = bound.extents[label as usize];
        if extent > 1 {
            out.push((label, extent, stride));
        }
    }
    let has_constants = !request.constants.is_empty();
    let is_plain = request.memory_limit.is_none() && !has_constants;
    if is_plain
        && let [step] = path.steps()
        && let [first, second] = step[..]
    {
        // By far the most frequent: one pair, which needs no schedule.
        let mut builder = Builder::new(request, bound, isa, out);
        let (a, b) = (builder.load(first), builder.load(second));
        builder.pair(a, b, &bound.output, true)?;
        let level = builder.take_level();
        return Ok(Lowered::new(builder, level, None, Vec::new()));
    }
    let schedule = Schedule::new(bound, path);
    let orders = if schedule.pairs.len() > 1 || has_constants {
        orders(request, bound, &schedule, &out)
    } else {
        Vec::new()
    };
    let mut lowering = Lowering {
        builder: Builder::new(request, bound, isa, out),
        schedule: &schedule,
        orders: &orders,
        stages: Vec::new(),
        cuts: Vec::new(),
    };
    if is_plain {
        let tensors = lowering.operands();
        let level = lowering.level(0, tensors)?;
        return Ok(Lowered::new(lowering.builder, level, None, Vec::new()));
    }
    let carried = schedule.carried(request, bound);
    let prepared = constants::prepared(request, bound, &schedule, &carried);
    let limit = request.memory_limit;
    let whole_out = lowering.builder.out.clone();
    let mut slicer = Slicer::new(
        &schedule,
        &carried,
        &bound.extents,
        &prepared,
        limit.unwrap_or(usize::MAX),
    );
    if limit.is_some() && !schedule.pairs.is_empty() {
        slicer.fit()?;
    }
    loop {
        let cuts = slicer.cuts();
        lowering.stages = slicing::stages(&schedule, &carried, &prepared, cuts);
        lowering.cuts = cuts.to_vec();
        let repeats = (0..schedule.pairs.len())
            .map(|pair| slicing::repeats(&schedule, &carried, &lowering.stages, cuts, pair))
            .collect();
        let mut tensors = lowering.operands();
        let constants = lowering.prepare(&mut tensors)?;
        lowering.builder.limit = limit;
        match lowering.level(0, tensors) {
            Ok(mut level) => {
                let mut constants = constants;
                if let Some(constants) = &mut constants {
                    constants.pack(&mut level.steps);
                }
                return Ok(Lowered::new(lowering.builder, level, constants, repeats));
            }
            Err(error) => {
                // A route needs an intermediate that the pairs alone did not tell.
                let Some(labels) = lowering.builder.excess.take() else {
                    return Err(error);
                };
                slicer.cut(&labels)?;
                lowering.builder = Builder::new(request, bound, isa, whole_out.clone());
            }
        }
    }
}

/// The order in which the result of each pair should lie.
fn orders(
    request: &PlanRequest,
    bound: &Bound,
    schedule: &Schedule,
    out: &[(Label, usize, isize)],
) -> Vec<Vec<Label>> {
    let mut output: Vec<(Label, usize, isize)> = out.to_vec();
    output.sort_by_key(|&(label, _, stride)| (Reverse(stride.unsigned_abs()), label));
    let output: Vec<Label> = output.into_iter().map(|(label, ..)| label).collect();
    preferred_orders(schedule, |operand| lies(request, bound, operand), &output)
}

/// An operand's labels as they lie in memory, outermost first; those of a constant, which is laid out anew, in the
/// order of their numbers.
pub(crate) fn lies(request: &PlanRequest, bound: &Bound, operand: usize) -> Vec<Label> {
    let spec = &request.operands[operand];
    let mut axes: Vec<(usize, Label)> = Vec::with_capacity(spec.shape.len());
    for ((&label, &extent), &stride) in bound.inputs[operand].iter().zip(&spec.shape).zip(&spec.strides) {
        if extent > 1 && !axes.iter().any(|&(_, own)| own == label) {
            axes.push((stride.unsigned_abs(), label));
        }
    }
    if request.constants.contains(&operand) {
        axes.sort_by_key(|&(_, label)| label);
    } else {
        axes.sort_by_key(|&(stride, label)| (Reverse(stride), label));
    }
    axes.into_iter().map(|(_, label)| label).collect()
}

/// The state of planning the steps.
pub(crate) struct Lowering<'r> {
    pub(crate) builder: Builder<'r>,
    pub(crate) schedule: &'r Schedule,
    /// By pair, the order in which its result should lie.
    pub(crate) orders: &'r [Vec<Label>],
    /// When each pair runs; nothing when every one runs once.
    pub(crate) stages: Vec<Stage>,
    /// Labels that are cut, outermost first.
    cuts: Vec<Cut>,
}

impl<'r> Lowering<'r> {
    pub(crate) fn stage(&self, pair: usize) -> Stage {
        self.stages.get(pair).copied().unwrap_or(Stage::Level(0))
    }

    fn operands(&self) -> Vec<Option<Tensor>> {
        let tensors = self.schedule.operands + self.schedule.pairs.len();
        let mut loaded: Vec<Option<Tensor>> = Vec::with_capacity(tensors);
        loaded.extend((0..self.schedule.operands).map(|at| Some(self.builder.load(at))));
        loaded.resize(tensors, None);
        loaded
    }

    /// Plans a pair, and leaves its result among the tensors.
    pub(crate) fn pair(&mut self, at: usize, tensors: &mut [Option<Tensor>]) -> Result<()> {
        let schedule = self.schedule;
        let pair = &schedule.pairs[at];
        let (Some(a), Some(b)) = (tensors[pair.inputs[0]].take(), tensors[pair.inputs[1]].take()) else {
            return Err(Error::new(ErrorCode::Internal, "a path uses a tensor twice"));
        };
        self.builder.wanted = self.orders.get(at).map_or(&[], Vec::as_slice);
        let last = at + 1 == schedule.pairs.len();
        let number = schedule.operands + at;
        let mut result = self.builder.pair(a, b, &pair.kept, last)?;
        if let Some(result) = &mut result
            && let Some(taker) = schedule.taker(number)
        {
            result.held = self.stage(taker) != self.stage(at);
        }
        tensors[number] = result;
        Ok(())
    }

    /// Plans the steps that run once whenever the loop at this depth advances, and the loop inside.
    fn level(&mut self, depth: usize, mut tensors: Vec<Option<Tensor>>) -> Result<Level> {
        for at in 0..self.schedule.pairs.len() {
            if self.stage(at) == Stage::Level(depth) {
                self.pair(at, &mut tensors)?;
            }
        }
        if self.schedule.pairs.is_empty() {
            self.builder.single(tensors[0].take())?;
        }
        let mut level = self.builder.take_level();
        if let Some(cut) = self.cuts.get(depth).copied() {
            level.inner = Some(Box::new(self.slices(depth, cut, &tensors)?));
        }
        Ok(level)
    }

    fn slices(&mut self, depth: usize, cut: Cut, tensors: &[Option<Tensor>]) -> Result<SliceLoop> {
        let mut shifts = Vec::new();
        for tensor in tensors.iter().flatten() {
            if let (Some((_, stride)), Source::Operand(entry)) = (tensor.find(cut.label), tensor.source) {
                shifts.push((entry, stride * cut.chunk as isize));
            }
        }
        let out = self.builder.out.iter().find(|(label, ..)| *label == cut.label);
        let out = out.map(|&(_, _, stride)| stride * cut.chunk as isize);
        let whole = self.part(depth, cut.label, cut.chunk, tensors)?;
        let tail = match cut.tail() {
            0 => None,
            extent => Some(self.part(depth, cut.label, extent, tensors)?),
        };
        Ok(SliceLoop {
            cut,
            shifts,
            out,
            whole,
            tail,
        })
    }

    /// The inside of a loop over slices, with that many indices of the label.
    fn part(
        &mut self,
        depth: usize,
        label: Label,
        extent: usize,
        tensors: &[Option<Tensor>],
    ) -> Result<Level> {
        let mut inside = tensors.to_vec();
        for tensor in inside.iter_mut().flatten() {
            tensor.narrow(label, extent);
        }
        let out = self.builder.out.clone();
        builder::narrow(&mut self.builder.out, label, extent);
        let arena = self.builder.arena.clone();
        let level = self.level(depth + 1, inside)?;
        let high = self.builder.arena.high;
        self.builder.out = out;
        self.builder.arena = arena;
        self.builder.arena.high = high;
        Ok(level)
    }
}

fn reference(request: &PlanRequest, bound: &Bound, out_strides: &[isize], isa: Isa) -> Result<Lowered> {
    // Constants are copied, since they are not there when the plan runs.
    let path = Path::from_numbers(request.operands.len(), Vec::new());
    let schedule = Schedule::new(bound, &path);
    let mut lowering = Lowering {
        builder: Builder::new(request, bound, isa, Vec::new()),
        schedule: &schedule,
        orders: &[],
        stages: Vec::new(),
        cuts: Vec::new(),
    };
    let mut tensors = lowering.operands();
    let constants = lowering.prepare(&mut tensors)?;
    let axis = |label: usize, out: isize| Axis {
        extent: bound.extents[label],
        out,
        operands: tensors
            .iter()
            .map(|tensor| {
                tensor
                    .as_ref()
                    .and_then(|tensor| tensor.find(label as Label))
                    .map_or(0, |(_, stride)| stride)
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
    builder::countable(work)?;
    let reference = Reference {
        kept,
        summed,
        conj: tensors
            .iter()
            .map(|tensor| tensor.as_ref().is_some_and(|tensor| tensor.conj))
            .collect(),
    };
    let results = bound
        .output
        .iter()
        .map(|&label| bound.extents[label as usize] as f64);
    Ok(Lowered {
        level: Level {
            steps: vec![Step {
                kind: Kind::Reference {
                    reference: Box::new(reference),
                },
                target: Target::Out,
                estimate_ns: work * 10.0 * request.operands.len() as f64,
            }],
            elements: work * request.operands.len() as f64 + results.product::<f64>(),
            inner: None,
        },
        scratch_bytes: 0,
        route: Route::Reference,
        why: Cow::Borrowed("asked for"),
        constants,
        repeats: Vec::new(),
    })
}
