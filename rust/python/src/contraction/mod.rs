//! Contraction: the hot paths that go straight from the method to a kernel, and the door for everything else.
//!
//! A method here looks at its arguments once. Plain arrays of one dtype and no options take the hot path; for
//! anything else `treadle._contract` normalises the call (labels, casts, options, overlap) and comes back through
//! [`general`].

mod einsum;
mod execute;
mod general;
mod matmul;
mod view;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Calls a function of the package, which knows the options and refuses others.
#[cold]
fn call_package<'py>(
    py: Python<'py>,
    module: &'static str,
    name: &'static str,
    arguments: impl pyo3::call::PyCallArgs<'py>,
    options: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, module)?
        .getattr(name)?
        .call(arguments, options)
}

/// True when every optional argument was left out.
#[inline]
fn all_absent(options: &[&Option<Bound<'_, PyAny>>]) -> bool {
    options.iter().all(|option| option.is_none())
}

/// The positional operands as one tuple.
fn operands_tuple<'py>(
    py: Python<'py>,
    fixed: &[Option<Borrowed<'_, 'py, PyAny>>],
    rest: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    let mut all: Vec<Bound<'py, PyAny>> = fixed.iter().flatten().map(|object| (**object).clone()).collect();
    all.extend(rest.iter());
    PyTuple::new(py, all)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(general::_bind_subscripts, module)?)
}
