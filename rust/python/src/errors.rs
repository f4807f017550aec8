//! Errors of the core become Python's exceptions. The classes are Python's own (`treadle.exceptions`).

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use treadle_core::{Detail, Error, ErrorCode};

/// The class of that name in `treadle.exceptions`.
pub(crate) fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyType>> {
    static EXCEPTIONS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = EXCEPTIONS
        .get_or_try_init(py, || {
            PyModule::import(py, "treadle.exceptions").map(Bound::unbind)
        })?
        .bind(py);
    Ok(module.getattr(name)?.cast_into::<PyType>()?)
}

/// The exception that says what `error` says.
#[cold]
pub(crate) fn raise(py: Python<'_>, error: Error) -> PyErr {
    match exception(py, &error) {
        Ok(exception) => exception,
        // The package is damaged; its own message is then the best there is.
        Err(other) => other,
    }
}

fn exception(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    if error.code() == ErrorCode::Interrupted {
        // The handler of the signal has its own exception; `door` prefers that one.
        return Ok(PyKeyboardInterrupt::new_err(()));
    }
    let fields = PyDict::new(py);
    fields.set_item("operation", error.operation())?;
    fields.set_item("operand", error.operand())?;
    for (name, value) in error.details() {
        match value {
            Detail::Int(value) => fields.set_item(name, value)?,
            Detail::Text(value) => fields.set_item(name, value)?,
        }
    }
    let exception = class(py, error.code().class())?.call((error.to_string(),), Some(&fields))?;
    Ok(PyErr::from_value(exception))
}

/// Code and class name of every error, for the package's own tests.
#[pyfunction]
fn _error_codes(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for code in ErrorCode::ALL {
        if *code != ErrorCode::Interrupted {
            table.set_item(code.code(), code.class())?;
        }
    }
    Ok(table)
}

/// Raises the error of that code as the core would, for the package's own tests.
#[pyfunction]
fn _raise(py: Python<'_>, code: &str) -> PyResult<()> {
    match ErrorCode::ALL.iter().find(|candidate| candidate.code() == code) {
        Some(&code) => Err(raise(
            py,
            Error::new(code, "raised by a test")
                .with_operand(1)
                .in_operation("test")
                .with("index", 2usize),
        )),
        None => Ok(()),
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_error_codes, module)?)?;
    module.add_function(wrap_pyfunction!(_raise, module)?)
}
