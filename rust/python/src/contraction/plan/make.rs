//! Making a plan, and giving it an engine.

use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use treadle_contract::{Optimize, Path, Route};
use treadle_core::Error;
use treadle_core::layout::Order;

use super::{OPERATION, Operand, PyPlan};
use crate::contraction::contract::Settings;
use crate::contraction::general::{optimize_of, plain};
use crate::contraction::planning::{asks_neighbour, bound_of, path_of_neighbour, plan_of, request_of};
use crate::contraction::source::Source;
use crate::contraction::{execute, view};
use crate::convert::{Blank, dtype_of_object};
use crate::door::{self, Address};
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// The positions, sizes and whatever else the package settled; the last dtype is the result's.
#[pyfunction]
pub(crate) fn _plan(
    py: Python<'_>,
    engine: Option<Bound<'_, PyCpuEngine>>,
    recipe: Bound<'_, PyAny>,
    subscripts: Bound<'_, PyAny>,
    dtypes: Vec<Bound<'_, PyAny>>,
    layouts: Vec<(Vec<isize>, Vec<isize>)>,
    constants: Bound<'_, PyDict>,
    conj: Vec<bool>,
    order: &str,
    optimize: &Bound<'_, PyAny>,
    route: &str,
    memory_limit: Option<usize>,
    has_own_names: bool,
) -> PyResult<PyPlan> {
    let fail = |error: Error| raise(py, error.in_operation(OPERATION));
    let isa = match &engine {
        None => None,
        Some(engine) => {
            // A closed or busy engine plans nothing.
            let entered = door::enter(py, engine.get().cell(), OPERATION)?;
            entered.options().isa
        }
    };
    let read = |dtype: &Bound<'_, PyAny>| {
        dtype_of_object(dtype).ok_or_else(|| PyTypeError::new_err("a dtype that is not the core's"))
    };
    let mut dtypes = dtypes.iter().map(read).collect::<PyResult<Vec<_>>>()?;
    let Some(result) = dtypes.pop() else {
        return Err(PyTypeError::new_err("a plan has a dtype"));
    };
    let dtype = result.accumulator();
    let optimize = optimize_of(optimize, OPERATION)?;
    let is_conj = dtype.is_complex() && conj.contains(&true);
    let conj = if is_conj { conj } else { Vec::new() };
    let (order, route) = (
        Order::from_name(order).map_err(fail)?,
        Route::from_name(route).map_err(fail)?,
    );
    let mut operands: Vec<Operand> = layouts
        .into_iter()
        .zip(dtypes)
        .map(|((shape, strides), dtype)| Operand {
            dtype,
            shape: shape.into(),
            strides: strides.into(),
            constant: None,
        })
        .collect();
    for (position, array) in constants {
        let data = plain(&array)?.data;
        if let Some(operand) = operands.get_mut(position.extract::<usize>()?) {
            operand.constant = Some((array.unbind(), Address(data)));
        }
    }
    let settings = Settings {
        order,
        route,
        optimize: &optimize,
        memory_limit,
        conj: &conj,
        ..Settings::DEFAULT
    };
    let source = Source::read(&subscripts)?;
    let layouts = operands.iter().map(Operand::layout);
    let mut request = request_of(dtype, isa, &source, layouts, None, &settings).map_err(fail)?;
    request.constants = constant_positions(&operands);
    let bound = bound_of(&request).map_err(fail)?;
    // What a path costs beside constants only our own search knows.
    if request.constants.is_empty()
        && asks_neighbour(&request.subscripts, &request.optimize)
        && let Some(path) = path_of_neighbour(py, OPERATION, &request.subscripts, &bound)?
    {
        request.optimize = Optimize::Path(path);
    }
    let is_view = match &request.operands[..] {
        [operand] if route == Route::Auto && conj.is_empty() => view::is_view(&bound, &operand.shape),
        _ => false,
    };
    let plan = plan_of(py, OPERATION, &request)?;
    let optimize = match request.subscripts.nesting() {
        // The order stands in the subscripts.
        Some(_) => Optimize::Auto,
        None => Optimize::Path(ordered_positions(plan.path())),
    };
    // What is free is not converted, and its dtype has numpy's own name.
    let is_direct = has_own_names
        && result == dtype
        && operands
            .iter()
            .all(|operand| operand.constant.is_some() || operand.dtype == dtype);
    let blank = Blank::new(
        py,
        OPERATION,
        dtype,
        plan.output_shape(),
        Some(plan.output_strides()),
    )?;
    let mut expected = Vec::new();
    for operand in operands.iter().filter(|operand| operand.constant.is_none()) {
        expected.push(operand.shape.len() as isize);
        expected.extend_from_slice(&operand.shape);
        expected.extend_from_slice(&operand.strides);
    }
    let plan = PyPlan {
        engine: None,
        plan: Arc::new(plan),
        expected: expected.into(),
        blank: Arc::new(blank),
        isa,
        recipe: recipe.unbind(),
        dtype,
        result,
        free: operands.len() - request.constants.len(),
        operands: operands.into(),
        is_direct,
        has_own_names,
        is_view,
        prepared: None,
        order,
        route,
        optimize,
        memory_limit,
        conj,
        subscripts: subscripts.clone().unbind(),
    };
    match engine {
        None => Ok(plan),
        Some(engine) => plan.on(py, engine),
    }
}

/// The steps as positions, each in the order in which the plan takes its operands. `Path::positions` sorts them.
pub(super) fn ordered_positions(path: &Path) -> Vec<Vec<usize>> {
    let mut positions = path.positions();
    for (sorted, numbers) in positions.iter_mut().zip(path.steps()) {
        // Whatever is live stands in the order of its number, so that positions and numbers are sorted alike.
        let mut order: Vec<usize> = (0..numbers.len()).collect();
        order.sort_unstable_by_key(|&at| numbers[at]);
        let mut step = vec![0; numbers.len()];
        for (&at, &position) in order.iter().zip(&*sorted) {
            step[at] = position;
        }
        *sorted = step;
    }
    positions
}

/// Positions of the operands that a plan holds.
pub(super) fn constant_positions(operands: &[Operand]) -> Vec<usize> {
    let positions = operands.iter().enumerate();
    positions
        .filter(|(_, operand)| operand.constant.is_some())
        .map(|(position, _)| position)
        .collect()
}

impl PyPlan {
    /// The same plan on an engine, which computes what depends on constants alone if that was not done before.
    pub(super) fn on(&self, py: Python<'_>, engine: Bound<'_, PyCpuEngine>) -> PyResult<PyPlan> {
        let cell = engine.get().cell();
        let mut entered = door::enter(py, cell, OPERATION)?;
        let prepared = match &self.prepared {
            None if self.free < self.operands.len() => {
                let constants: Vec<(usize, Address<u8>)> = self
                    .operands
                    .iter()
                    .enumerate()
                    .filter_map(|(position, operand)| Some((position, operand.constant.as_ref()?.1)))
                    .collect();
                // SAFETY: constants are arrays of the plan's own, of the layouts that it was made for.
                let made =
                    unsafe { execute::prepare(py, cell, OPERATION, &mut entered, &self.plan, &constants) }?;
                Some(Arc::new(made))
            }
            made => made.clone(),
        };
        drop(entered);
        Ok(PyPlan {
            engine: Some(engine.unbind()),
            plan: Arc::clone(&self.plan),
            isa: self.isa,
            recipe: self.recipe.clone_ref(py),
            subscripts: self.subscripts.clone_ref(py),
            dtype: self.dtype,
            result: self.result,
            operands: Arc::clone(&self.operands),
            free: self.free,
            expected: Arc::clone(&self.expected),
            blank: Arc::clone(&self.blank),
            is_direct: self.is_direct,
            has_own_names: self.has_own_names,
            is_view: self.is_view,
            prepared,
            order: self.order,
            route: self.route,
            optimize: self.optimize.clone(),
            memory_limit: self.memory_limit,
            conj: self.conj.clone(),
        })
    }
}
