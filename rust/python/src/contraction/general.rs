//! The door for every contraction that is not plain: normalised by `treadle._contract`, planned and run here.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyList, PyString};
use treadle_contract::{Optimize, Plan, PlanRequest, Route, find_path, path_cost};
use treadle_core::layout::Order;
use treadle_core::subscripts::{Bound as BoundSubscripts, Subscripts, Term};
use treadle_core::{Error, ErrorCode};
use treadle_engine::CacheKey;

use super::einsum::{TAG_GENERAL, is_native, operand_spec, push_layout};
use super::{execute, view};
use crate::convert::scalar::scalar;
use crate::convert::{ArrayView, exact_array, new_array};
use crate::door;
use crate::engine::PyCpuEngine;
use crate::errors::raise;

/// Subscripts as text, or as `(inputs, output, names)` with labels numbered and `None` for an ellipsis.
pub(super) enum Source {
    Text(String),
    Lists {
        inputs: Vec<Vec<Term>>,
        output: Option<Vec<Term>>,
        names: Vec<String>,
    },
}

impl Source {
    pub(super) fn read(object: &Bound<'_, PyAny>) -> PyResult<Source> {
        if let Ok(text) = object.cast::<PyString>() {
            return match text.to_str() {
                Ok(text) => Ok(Source::Text(text.to_owned())),
                Err(_) => {
                    let error = Error::new(
                        ErrorCode::Subscripts,
                        format!(
                            "the subscripts {} hold a lone surrogate, which is no character",
                            text.repr()?
                        ),
                    );
                    Err(raise(object.py(), error.in_operation("einsum")))
                }
            };
        }
        type Terms = Vec<Option<u32>>;
        let (inputs, output, names) = object.extract::<(Vec<Terms>, Option<Terms>, Vec<String>)>()?;
        let terms = |list: Terms| {
            list.into_iter()
                .map(|term| term.map_or(Term::Ellipsis, Term::Label))
                .collect::<Vec<_>>()
        };
        Ok(Source::Lists {
            inputs: inputs.into_iter().map(terms).collect(),
            output: output.map(terms),
            names,
        })
    }

    pub(super) fn subscripts(&self) -> treadle_core::Result<Subscripts> {
        match self {
            Source::Text(text) => Subscripts::parse(text),
            Source::Lists {
                inputs,
                output,
                names,
            } => Subscripts::from_terms(inputs, output.as_deref(), |label| {
                names
                    .get(label as usize)
                    .cloned()
                    .unwrap_or_else(|| label.to_string())
            }),
        }
    }

    fn push(&self, key: &mut CacheKey) {
        let term = |term: &Term| match term {
            Term::Ellipsis => u64::MAX,
            Term::Label(label) => u64::from(*label),
        };
        match self {
            Source::Text(text) => {
                key.push(0);
                key.push_bytes(text.as_bytes());
            }
            Source::Lists { inputs, output, .. } => {
                key.push(1 + u64::from(output.is_some()));
                for list in inputs.iter().chain(output) {
                    key.push(list.len() as u64);
                    list.iter().for_each(|t| key.push(term(t)));
                }
            }
        }
    }
}

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

fn push_optimize(key: &mut CacheKey, optimize: &Optimize) {
    match optimize {
        Optimize::Auto => key.push(0),
        Optimize::Greedy => key.push(1),
        Optimize::Optimal => key.push(2),
        Optimize::Sequential => key.push(3),
        Optimize::Path(steps) => {
            key.push(4 + steps.len() as u64);
            for step in steps {
                key.push(step.len() as u64);
                step.iter().for_each(|&position| key.push(position as u64));
            }
        }
    }
}

/// The named operand as a plain array; the package has made it one.
fn plain<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<ArrayView<'a>> {
    exact_array(object)
        .filter(|array| is_native(array.dtype))
        .ok_or_else(|| PyTypeError::new_err("_contract takes plain native arrays only"))
}

#[pymethods]
impl PyCpuEngine {
    /// The contraction behind every contracting method. Operands are plain arrays of one dtype; `out`, if given,
    /// has that dtype, the right shape, is writeable and shares nothing with them: `treadle._contract` saw to it.
    #[pyo3(signature = (operation, subscripts, operands, out, conj, alpha, beta, order, optimize, route, memory_limit))]
    fn _contract<'py>(
        slf: &Bound<'py, Self>,
        operation: &str,
        subscripts: &Bound<'py, PyAny>,
        operands: &Bound<'py, PyList>,
        out: Option<Bound<'py, PyAny>>,
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
        let (alpha, beta) = (
            scalar(operation, "alpha", alpha)?,
            scalar(operation, "beta", beta)?,
        );
        let objects: Vec<Bound<'py, PyAny>> = operands.iter().collect();
        let arrays = objects.iter().map(plain).collect::<PyResult<Vec<_>>>()?;
        let target = out.as_ref().map(plain).transpose()?;
        let Some(dtype) = arrays.first().map(|array| array.dtype) else {
            return Err(fail(Error::new(
                ErrorCode::Subscripts,
                "no operand was given; at least one is needed",
            )));
        };
        for (name, value) in [("alpha", alpha), ("beta", beta)] {
            if !value.fits(dtype) {
                return Err(fail(
                    Error::new(
                        ErrorCode::DType,
                        format!("{name} is {value:?}, which a {dtype} result cannot be scaled by; convert the operands"),
                    )
                    .with("expected", dtype.name())
                    .with("actual", format!("{value:?}")),
                ));
            }
        }
        if !beta.is_zero() && target.is_none() {
            return Err(fail(Error::new(
                ErrorCode::Argument,
                "beta is not zero and there is no out to accumulate into; give out=, or beta=0",
            )));
        }
        if let Some(conj) = &conj
            && conj.len() != arrays.len()
        {
            return Err(fail(Error::new(
                ErrorCode::Argument,
                format!(
                    "conj has {} flags for {} operands; give one an operand",
                    conj.len(),
                    arrays.len()
                ),
            )));
        }
        let flag = |operand: usize| dtype.is_complex() && conj.as_ref().is_some_and(|flags| flags[operand]);

        let cell = slf.get().cell();
        let mut engine = door::enter(py, cell, operation)?;
        // A view needs no plan, and a plan of the same key with another alpha must not hide it.
        if let ([array], None) = (arrays.as_slice(), &target)
            && alpha.is_one()
            && !flag(0)
            && route == Route::Auto
        {
            let bound = source
                .subscripts()
                .and_then(|subscripts| subscripts.bind(&[&array.sizes()]))
                .map_err(fail)?;
            if let Some((shape, strides)) = view::view_layout(&bound, array) {
                // SAFETY: each stride is a sum of the operand's strides along axes of that one length.
                return unsafe { view::new_view(&objects[0], array, &shape, &strides) };
            }
        }
        let isa = engine.options().isa;
        let mut key = CacheKey::new();
        key.push(TAG_GENERAL | (dtype as u64) << 8 | isa.map_or(0, |isa| isa as u64 + 1) << 16);
        key.push(order as u64 | (route as u64) << 8);
        key.push(memory_limit.map_or(u64::MAX, |limit| limit as u64));
        source.push(&mut key);
        push_optimize(&mut key, &optimize);
        key.push(arrays.len() as u64);
        for (operand, array) in arrays.iter().enumerate() {
            key.push(u64::from(flag(operand)));
            push_layout(&mut key, array);
        }
        key.push(u64::from(target.is_some()));
        if let Some(target) = &target {
            push_layout(&mut key, target);
        }
        let plan = match engine.plan(&key) {
            Some(plan) => plan,
            None => {
                let subscripts = source.subscripts().map_err(fail)?;
                let mut request = PlanRequest::new(
                    dtype,
                    subscripts,
                    arrays
                        .iter()
                        .enumerate()
                        .map(|(operand, array)| operand_spec(array, flag(operand)))
                        .collect(),
                );
                request.out = target.as_ref().map(|target| (target.sizes(), target.strides()));
                request.order = order;
                request.optimize = optimize;
                request.route = route;
                request.isa = isa;
                request.memory_limit = memory_limit;
                let plan = py.detach(|| Plan::new(&request)).map_err(fail)?;
                engine.keep(&key, plan)
            }
        };
        let (result, data, fresh) = match (&out, &target) {
            (Some(out), Some(target)) => (out.clone(), target.data, false),
            _ => {
                let (array, data) = new_array(
                    py,
                    dtype,
                    plan.output_shape(),
                    Some(plan.output_strides()),
                    engine.buffers(),
                )?;
                (array, data, true)
            }
        };
        let pointers: Vec<*mut u8> = arrays.iter().map(|array| array.data).collect();
        // SAFETY: the key holds shapes, strides, dtype and flags of these very arrays, so the plan is theirs; the
        // output is new, or the caller's, checked by the package as the docstring says.
        unsafe {
            execute::execute(
                py,
                cell,
                operation,
                &mut engine,
                &plan,
                &pointers,
                data,
                alpha,
                beta,
            )?;
        }
        let is_scalar = plan.output_shape().is_empty();
        engine.put_back(plan);
        drop(engine);
        if fresh && is_scalar {
            view::to_scalar(result)
        } else {
            Ok(result)
        }
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
        subscripts: &Bound<'_, PyAny>,
        shapes: Vec<Vec<usize>>,
        optimize: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<Vec<usize>>, f64, f64, f64)> {
        let py = slf.py();
        let operation = operation_name("einsum_path");
        let (subscripts, bound) = bind(py, operation, subscripts, &shapes)?;
        let optimize = optimize_of(optimize, operation)?;
        let path = find_path(&subscripts, &bound, &optimize)
            .map_err(|error| raise(py, error.in_operation(operation)))?;
        let cost = path_cost(&bound, &path);
        Ok((path.positions(), cost.naive_flops, cost.flops, cost.largest))
    }
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
fn operation_name(name: &str) -> &'static str {
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
    ];
    NAMES
        .iter()
        .copied()
        .find(|candidate| *candidate == name)
        .unwrap_or("contract")
}
