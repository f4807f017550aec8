//! From a call to its plan: the key, the engine's cache, and what is planned when the cache has nothing.

use pyo3::prelude::*;
use treadle_contract::{Isa, OperandSpec, Optimize, Plan, PlanRequest, find_path, path_cost};
use treadle_core::subscripts::{Bound as BoundSubscripts, Subscripts};
use treadle_core::{DType, Error};
use treadle_engine::{BorrowedPlan, CacheKey, Entered};

use super::contract::Settings;
use super::source::Source;
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// Keys of contractions; other makers of keys have other tags.
const TAG: u64 = 1;
/// Networks of more operands than this ask opt_einsum for a path too, if it is there; in smaller ones our own search
/// has tried every order.
const OWN_PATHS: usize = 5;
/// So do only networks that cost more than this by our own path: looking for another takes milliseconds.
const OWN_FLOPS: f64 = 1e7;
/// Networks of more operands than this are planned with the interpreter given back.
const PLANNED_ATTACHED: usize = 8;
/// Size and byte stride of every axis.
pub(super) type Layout<'a> = (&'a [isize], &'a [isize]);

/// The key of a contraction: every word that the plan depends on, and before those a word that says which follow.
#[inline(always)]
fn key_of<'a>(
    dtype: DType,
    isa: Option<Isa>,
    source: &Source<'_>,
    layouts: impl Iterator<Item = Layout<'a>>,
    out: Option<Layout<'_>>,
    settings: &Settings<'_>,
) -> CacheKey {
    let mut key = CacheKey::new();
    let conj = settings.conj;
    let optimize = settings.optimize;
    let has_limit = settings.memory_limit.is_some();
    key.push(
        TAG | (dtype as u64) << 8
            | isa.map_or(0, |isa| isa as u64 + 1) << 16
            | (settings.order as u64) << 24
            | (settings.route as u64) << 32
            | kind(optimize) << 40
            | u64::from(source.is_text()) << 48
            | u64::from(out.is_some()) << 49
            | u64::from(has_limit) << 50
            | u64::from(!conj.is_empty()) << 51,
    );
    source.push(&mut key);
    if !conj.is_empty() {
        key.push(conj.len() as u64);
        for flags in conj.chunks(64) {
            key.push(
                flags
                    .iter()
                    .rev()
                    .fold(0, |word, &flag| word << 1 | u64::from(flag)),
            );
        }
    }
    if let Optimize::Path(steps) = optimize {
        key.push(steps.len() as u64);
        for step in steps {
            key.push(step.len() as u64);
            step.iter().for_each(|&position| key.push(position as u64));
        }
    }
    if let Some(limit) = settings.memory_limit {
        key.push(limit as u64);
    }
    for (sizes, strides) in layouts {
        key.push_layout(sizes, strides);
    }
    if let Some((sizes, strides)) = out {
        key.push_layout(sizes, strides);
    }
    key
}

#[inline(always)]
fn kind(optimize: &Optimize) -> u64 {
    match optimize {
        Optimize::Auto => 0,
        Optimize::Greedy => 1,
        Optimize::Optimal => 2,
        Optimize::Sequential => 3,
        Optimize::Path(_) => 4,
    }
}

/// What the plan has to know of an operand.
fn operand_spec((sizes, strides): Layout<'_>, dtype: DType, conj: bool) -> OperandSpec {
    OperandSpec {
        shape: sizes.iter().map(|&size| size as usize).collect(),
        strides: in_elements(strides, dtype),
        conj,
    }
}

fn in_elements(strides: &[isize], dtype: DType) -> Vec<isize> {
    strides
        .iter()
        .map(|stride| stride / dtype.size() as isize)
        .collect()
}

/// What the core plans from.
pub(super) fn request_of<'a>(
    dtype: DType,
    isa: Option<Isa>,
    source: &Source<'_>,
    layouts: impl Iterator<Item = Layout<'a>>,
    out: Option<Layout<'_>>,
    settings: &Settings<'_>,
) -> treadle_core::Result<PlanRequest> {
    let operands = layouts
        .enumerate()
        .map(|(operand, layout)| operand_spec(layout, dtype, settings.is_conj(operand, dtype)))
        .collect();
    let mut request = PlanRequest::new(dtype, source.subscripts()?, operands);
    request.out = out.map(|(sizes, strides)| {
        let shape = sizes.iter().map(|&size| size as usize).collect();
        (shape, in_elements(strides, dtype))
    });
    request.order = settings.order;
    request.route = settings.route;
    request.isa = isa;
    request.memory_limit = settings.memory_limit;
    request.optimize = settings.optimize.clone();
    Ok(request)
}

/// Plans; networks with the interpreter given back.
pub(super) fn plan_of(py: Python<'_>, operation: &'static str, request: &PlanRequest) -> PyResult<Plan> {
    let plan = if request.operands.len() > PLANNED_ATTACHED {
        py.detach(|| Plan::new(request))
    } else {
        Plan::new(request)
    };
    plan.map_err(|error| {
        // The core says "einsum", whichever method was called.
        let renamed = Error::new(error.code(), error.message()).in_operation(operation);
        let renamed = match error.operand() {
            Some(operand) => renamed.with_operand(operand),
            None => renamed,
        };
        let details = error.details().iter();
        raise(
            py,
            details.fold(renamed, |renamed, (name, value)| {
                renamed.with(name, value.clone())
            }),
        )
    })
}

/// Makes the plan that no cache had, and keeps it.
///
/// The engine is let go of while another package looks for a path.
#[cold]
#[inline(never)]
fn make<'a, 'e>(
    py: Python<'_>,
    slf: &'e PyCpuEngine,
    mut engine: Entered<'e>,
    operation: &'static str,
    key: &CacheKey,
    source: &Source<'_>,
    dtype: DType,
    layouts: impl Iterator<Item = Layout<'a>>,
    out: Option<Layout<'_>>,
    settings: &Settings<'_>,
) -> PyResult<(Entered<'e>, BorrowedPlan<Plan>)> {
    let fail = |error: Error| raise(py, error.in_operation(operation));
    let isa = engine.options().isa;
    let mut request = request_of(dtype, isa, source, layouts, out, settings).map_err(fail)?;
    if asks_neighbour(&request.subscripts, &request.optimize) {
        drop(engine);
        let bound = bound_of(&request).map_err(fail)?;
        if let Some(path) = path_of_neighbour(py, operation, &request.subscripts, &bound)? {
            request.optimize = Optimize::Path(path);
        }
        engine = door::enter(py, slf.cell(), operation)?;
    }
    let plan = plan_of(py, operation, &request)?;
    let plan = engine.keep(key, plan);
    Ok((engine, plan))
}

/// The request's subscripts with every axis named.
pub(super) fn bound_of(request: &PlanRequest) -> treadle_core::Result<BoundSubscripts> {
    let shapes: Vec<&[usize]> = request
        .operands
        .iter()
        .map(|operand| &operand.shape[..])
        .collect();
    request.subscripts.bind(&shapes)
}

/// True for networks for which another package may know a better path.
pub(super) fn asks_neighbour(subscripts: &Subscripts, optimize: &Optimize) -> bool {
    *optimize == Optimize::Auto && subscripts.operands() > OWN_PATHS && subscripts.nesting().is_none()
}

/// opt_einsum's path, if the network is worth a look, opt_einsum is installed and its path is the cheaper one.
pub(super) fn path_of_neighbour(
    py: Python<'_>,
    operation: &'static str,
    subscripts: &Subscripts,
    bound: &BoundSubscripts,
) -> PyResult<Option<Vec<Vec<usize>>>> {
    let cost = |optimize: &Optimize| {
        py.detach(|| find_path(subscripts, bound, optimize).map(|path| path_cost(bound, &path).flops))
            .map_err(|error| raise(py, error.in_operation(operation)))
    };
    let own = cost(&Optimize::Auto)?;
    if own < OWN_FLOPS {
        return Ok(None);
    }
    let found = PyModule::import(py, "treadle._paths")?
        .getattr("path_of_neighbour")?
        .call1((&bound.inputs, &bound.output, &bound.extents))?;
    let Some(path) = found.extract::<Option<Vec<Vec<usize>>>>()? else {
        return Ok(None);
    };
    let theirs = Optimize::Path(path);
    let is_cheaper = cost(&theirs)? < own;
    Ok(match theirs {
        Optimize::Path(path) if is_cheaper => Some(path),
        _ => None,
    })
}

/// The plan of a contraction: from the engine's cache, or made and kept there.
#[inline(always)]
pub(super) fn find<'a, 'e>(
    py: Python<'_>,
    slf: &'e PyCpuEngine,
    mut engine: Entered<'e>,
    operation: &'static str,
    source: &Source<'_>,
    dtype: DType,
    layouts: impl Iterator<Item = Layout<'a>> + Clone,
    out: Option<Layout<'_>>,
    settings: &Settings<'_>,
) -> PyResult<(Entered<'e>, BorrowedPlan<Plan>)> {
    let isa = engine.options().isa;
    let key = key_of(dtype, isa, source, layouts.clone(), out, settings);
    match engine.plan(&key) {
        Some(plan) => Ok((engine, plan)),
        None => make(
            py, slf, engine, operation, &key, source, dtype, layouts, out, settings,
        ),
    }
}
