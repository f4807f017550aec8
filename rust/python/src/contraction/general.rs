//! The door for every contraction that is not plain: normalised by `treadle._contract`, planned and run here.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString};
use treadle_contract::{Optimize, Route, find_path, path_cost};
use treadle_core::layout::Order;
use treadle_core::subscripts::{Bound as BoundSubscripts, Subscripts};
use treadle_core::{DType, Error, ErrorCode, Scalar};

use super::contract::{Settings, Target, check_factor, contract_with, is_native, view_of};
use super::converted::{self, Place};
use super::planning::{asks_neighbour, path_of_neighbour};
use super::source::Source;
use crate::convert::scalar::scalar;
use crate::convert::{ArrayView, Stored, dtype_of_object};
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// `optimize=` as the core takes it; callables were resolved to paths by the package.
pub(super) fn optimize_of(object: &Bound<'_, PyAny>, operation: &'static str) -> PyResult<Optimize> {
    let py = object.py();
    if let Ok(flag) = object.cast::<PyBool>() {
        return Ok(if flag.is_true() {
            Optimize::Greedy
        } else {
            Optimize::Sequential
        });
    }
    if let Ok(name) = object.cast::<PyString>() {
        return Optimize::from_name(name.to_str()?).map_err(|error| raise(py, error.in_operation(operation)));
    }
    Ok(Optimize::Path(object.extract::<Vec<Vec<usize>>>()?))
}

/// An array that the package read or checked.
pub(super) fn stored<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Stored<'a>> {
    Stored::read(object.as_borrowed())
        .ok_or_else(|| PyTypeError::new_err("the core takes arrays of its own dtypes only"))
}

/// An array of the core's own that was made plain.
pub(super) fn plain<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<ArrayView<'a>> {
    let array = stored(object)?;
    if array.is_plain && is_native(array.array.dtype) {
        Ok(array.array)
    } else {
        Err(PyTypeError::new_err("the core takes plain native arrays only"))
    }
}

/// Factors that a result can be scaled by, and what stands in an output that is read.
pub(super) fn factors(
    operation: &'static str,
    core: DType,
    out: Option<&Stored<'_>>,
    alpha: &Bound<'_, PyAny>,
    beta: &Bound<'_, PyAny>,
) -> PyResult<(Scalar, Scalar)> {
    let fail = |error: Error| raise(alpha.py(), error.in_operation(operation));
    let (alpha, beta) = (
        scalar(operation, "alpha", alpha)?,
        scalar(operation, "beta", beta)?,
    );
    check_factor(core, "alpha", alpha).map_err(fail)?;
    let summed = out.map_or(core, |out| converted::dtype_of_sum(core, out));
    check_factor(summed, "beta", beta).map_err(fail)?;
    if !beta.is_zero() && out.is_none() {
        return Err(fail(no_accumulator()));
    }
    Ok((alpha, beta))
}

#[pymethods]
impl PyCpuEngine {
    /// The contraction behind every contracting method. Operands are arrays of any dtypes, byte orders and alignments that
    /// `dtype`, the result's, may be made of; `out`, if given, has a dtype that the result may be converted to, the right
    /// shape, is writeable and shares nothing with them: `treadle._contract` saw to it.
    #[pyo3(signature = (operation, subscripts, operands, out, dtype, conj, alpha, beta, order, optimize, route, memory_limit))]
    fn _contract<'py>(
        slf: &Bound<'py, Self>,
        operation: &str,
        subscripts: &Bound<'py, PyAny>,
        operands: &Bound<'py, PyList>,
        out: Option<Bound<'py, PyAny>>,
        dtype: &Bound<'py, PyAny>,
        conj: Option<Vec<bool>>,
        alpha: &Bound<'py, PyAny>,
        beta: &Bound<'py, PyAny>,
        order: &str,
        optimize: &Bound<'py, PyAny>,
        route: &str,
        memory_limit: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let operation = operation_name(operation);
        let fail = |error: Error| raise(py, error.in_operation(operation));
        let source = Source::read(subscripts)?;
        let order = Order::from_name(order).map_err(fail)?;
        let optimize = optimize_of(optimize, operation)?;
        let route = Route::from_name(route).map_err(fail)?;
        let objects: Vec<Bound<'py, PyAny>> = operands.iter().collect();
        let arrays = objects.iter().map(stored).collect::<PyResult<Vec<_>>>()?;
        let target = out.as_ref().map(stored).transpose()?;
        if arrays.is_empty() {
            return Err(fail(Error::new(
                ErrorCode::Subscripts,
                "no operand was given; at least one is needed",
            )));
        }
        let Some(result) = dtype_of_object(dtype) else {
            return Err(PyTypeError::new_err("the core takes its own dtypes only"));
        };
        let core = result.accumulator();
        let (alpha, beta) = factors(operation, core, target.as_ref(), alpha, beta)?;
        let conj = conj.unwrap_or_default();
        if !conj.is_empty() && conj.len() != arrays.len() {
            return Err(fail(Error::new(
                ErrorCode::Argument,
                format!(
                    "conj has {} flags for {} operands; give one an operand",
                    conj.len(),
                    arrays.len()
                ),
            )));
        }
        let is_conj = core.is_complex() && conj.contains(&true);
        let settings = Settings {
            alpha,
            beta,
            order,
            route,
            optimize: &optimize,
            memory_limit,
            conj: if is_conj { &conj } else { &[] },
        };
        let plain: Vec<ArrayView<'_>> = arrays.iter().map(|array| array.array).collect();
        let is_plain = |array: &Stored<'_>| array.is_plain && array.array.dtype == core;
        if core == result && arrays.iter().chain(&target).all(is_plain) {
            let target = match (&out, &target) {
                (Some(object), Some(array)) => Target::Out(object.as_borrowed(), array.array),
                _ => Target::New,
            };
            return contract_with(py, slf.get(), operation, &source, &plain, target, &settings);
        }
        let place = match (&out, target) {
            (Some(object), Some(array)) => Place::Out(object.as_borrowed(), array),
            _ => Place::New,
        };
        converted::contract(
            py,
            slf.get(),
            operation,
            &source,
            &arrays,
            result,
            place,
            &settings,
        )
    }

    /// The view that one array with nothing summed is, or `None`.
    fn _view<'py>(
        slf: &Bound<'py, Self>,
        operation: &str,
        subscripts: &Bound<'py, PyAny>,
        array: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let source = Source::read(subscripts)?;
        let operation = operation_name(operation);
        view_of(
            slf.py(),
            slf.get(),
            operation,
            &source,
            array,
            &stored(array)?.array,
        )
    }

    /// The shape of a contraction's result.
    fn _result_shape(
        slf: &Bound<'_, Self>,
        operation: &str,
        subscripts: &Bound<'_, PyAny>,
        shapes: Vec<Vec<usize>>,
    ) -> PyResult<Vec<usize>> {
        Ok(bind(slf.py(), operation_name(operation), subscripts, &shapes)?
            .1
            .output_shape())
    }

    /// Path of a contraction as positions, with its cost: flops of one loop over everything, flops of the path, and
    /// elements of the largest intermediate.
    fn _find_path(
        slf: &Bound<'_, Self>,
        operation: &str,
        subscripts: &Bound<'_, PyAny>,
        shapes: Vec<Vec<usize>>,
        optimize: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Vec<usize>>, f64, f64, f64)> {
        let py = slf.py();
        let operation = operation_name(operation);
        let (subscripts, bound) = bind(py, operation, subscripts, &shapes)?;
        let mut optimize = optimize_of(optimize, operation)?;
        if asks_neighbour(&subscripts, &optimize)
            && let Some(path) = path_of_neighbour(py, operation, &subscripts, &bound)?
        {
            optimize = Optimize::Path(path);
        }
        let (path, cost) = py
            .detach(|| {
                let path = find_path(&subscripts, &bound, &optimize)?;
                let cost = path_cost(&bound, &path);
                Ok((path, cost))
            })
            .map_err(|error: Error| raise(py, error.in_operation(operation)))?;
        Ok((path.positions(), cost.naive_flops, cost.flops, cost.largest))
    }
}

/// A `beta` without an `out`.
pub(super) fn no_accumulator() -> Error {
    Error::new(
        ErrorCode::Argument,
        "beta is not zero and there is no out to accumulate into; give out=, or beta=0",
    )
}

/// Subscripts, and the same with every axis named.
fn bind(
    py: Python<'_>,
    operation: &'static str,
    subscripts: &Bound<'_, PyAny>,
    shapes: &[Vec<usize>],
) -> PyResult<(Subscripts, BoundSubscripts)> {
    let fail = |error: Error| raise(py, error.in_operation(operation));
    let subscripts = Source::read(subscripts)?.subscripts().map_err(fail)?;
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let bound = subscripts.bind(&shapes).map_err(fail)?;
    Ok((subscripts, bound))
}

/// An array converted to a dtype in new memory, whose axes lie as its own do.
#[pyfunction]
pub(super) fn _converted<'py>(
    py: Python<'py>,
    operation: &str,
    array: &Bound<'py, PyAny>,
    dtype: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(dtype) = dtype_of_object(dtype) else {
        return Err(PyTypeError::new_err("the core takes its own dtypes only"));
    };
    converted::copy(py, operation_name(operation), &stored(array)?, dtype)
}

type BoundLists = (Vec<Vec<u32>>, Vec<u32>, Vec<usize>, Vec<String>);

/// Labels of every axis of the operands and of the result, with extent and name by label.
#[pyfunction]
pub(super) fn _bind_subscripts(
    py: Python<'_>,
    operation: &str,
    subscripts: &Bound<'_, PyAny>,
    shapes: Vec<Vec<usize>>,
) -> PyResult<BoundLists> {
    let bound = bind(py, operation_name(operation), subscripts, &shapes)?.1;
    Ok((bound.inputs, bound.output, bound.extents, bound.names))
}

/// The static name of an operation, for errors.
pub(super) fn operation_name(name: &str) -> &'static str {
    const NAMES: &[&str] = &[
        "einsum",
        "einsum_path",
        "matmul",
        "dot",
        "vdot",
        "vecdot",
        "matvec",
        "vecmat",
        "inner",
        "outer",
        "kron",
        "tensordot",
        "gemm",
        "multi_dot",
        "plan",
    ];
    NAMES
        .iter()
        .copied()
        .find(|candidate| *candidate == name)
        .unwrap_or("contract")
}
