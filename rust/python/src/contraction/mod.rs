//! Contraction: the hot paths that go straight from the method to a kernel, and the door for everything else.
//!
//! A method here looks at its arguments once. Plain arrays of one dtype take a hot path, with builtin options too, and
//! those of two dtypes or of half precision are converted on the way ([`converted`]); for anything else
//! `treadle._contract` normalises the call (labels, options, overlap) and comes back through [`general`].

mod chain;
mod contract;
mod converted;
mod einsum;
mod execute;
mod gemm;
mod general;
mod interleaved;
mod matmul;
mod options;
mod outer;
mod plan;
mod planning;
mod source;
mod tensordot;
mod text;
mod vectors;
mod view;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// An argument that may be left out. An operand that is `None` is an error, not a missing one.
///
/// Borrowed, for a call that looks at fourteen arguments notices fourteen reference counts.
#[derive(Clone, Copy)]
struct Given<'a, 'py>(Option<Borrowed<'a, 'py, PyAny>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Given<'a, 'py> {
    type Error = std::convert::Infallible;

    #[inline(always)]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> Result<Self, Self::Error> {
        Ok(Given(Some(object)))
    }
}

impl<'a, 'py> Given<'a, 'py> {
    /// True for an option that was left out, or given as `None`.
    #[inline(always)]
    fn is_none(&self) -> bool {
        self.given().is_none()
    }

    /// The option, unless it was left out or given as `None`.
    #[inline(always)]
    fn given(&self) -> Option<Borrowed<'a, 'py, PyAny>> {
        self.0.filter(|object| !object.is_none())
    }

    /// For the package.
    fn object(&self) -> Option<Bound<'py, PyAny>> {
        self.0.map(|object| (*object).clone())
    }
}

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
    module.add_class::<plan::PyPlan>()?;
    module.add_function(wrap_pyfunction!(plan::_plan, module)?)?;
    module.add_function(wrap_pyfunction!(chain::_chain_path, module)?)?;
    module.add_function(wrap_pyfunction!(general::_converted, module)?)?;
    module.add_function(wrap_pyfunction!(general::_bind_subscripts, module)?)
}
