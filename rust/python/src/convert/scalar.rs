//! `alpha` and `beta`.

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyComplexMethods, PyFloat, PyInt, PyType};
use treadle_core::{Error, ErrorCode, Scalar};

use crate::errors::raise;

/// A number as the caller wrote it: an int, a float, a complex, or whatever has `__index__`, `__float__` or
/// `__complex__` (numpy's scalars).
pub(crate) fn scalar(
    operation: &'static str,
    name: &'static str,
    object: &Bound<'_, PyAny>,
) -> PyResult<Scalar> {
    number(object).map_err(|error| {
        // What an object's own methods raise is their business, unless it is their way to say that they are no number.
        let py = object.py();
        if !error.is_instance_of::<PyTypeError>(py) && !error.is_instance_of::<PyOverflowError>(py) {
            return error;
        }
        let kind = object
            .get_type()
            .name()
            .map_or_else(|_| "object".to_owned(), |name| name.to_string());
        raise(
            py,
            Error::new(
                ErrorCode::DType,
                format!("{name} is a {kind} that no number holds; give an int, a float or a complex number"),
            )
            .in_operation(operation)
            .with("expected", "a number")
            .with("actual", kind),
        )
    })
}

/// A builtin number, for the hot paths; `None` for anything that has to be asked what it is.
#[inline]
pub(crate) fn plain_scalar(object: &Bound<'_, PyAny>) -> Option<Scalar> {
    if object.is_exact_instance_of::<PyFloat>() {
        return object.extract::<f64>().ok().map(Scalar::Real);
    }
    if object.is_exact_instance_of::<PyInt>() {
        return object
            .extract::<i64>()
            .ok()
            .map(|value| Scalar::Int(value.into()));
    }
    let complex = object.cast_exact::<PyComplex>().ok()?;
    Some(Scalar::Complex(complex.real(), complex.imag()))
}

/// The number as Python writes it.
pub(crate) fn text(value: Scalar) -> String {
    match value {
        Scalar::Int(value) => value.to_string(),
        Scalar::Real(value) => real(value),
        Scalar::Complex(re, im) => {
            let sign = if im.is_sign_negative() { "" } else { "+" };
            format!("({}{sign}{}j)", real(re), real(im))
        }
    }
}

fn real(value: f64) -> String {
    if value.is_nan() {
        "nan".to_owned()
    } else {
        format!("{value:?}")
    }
}

/// The letter of an array's or a numpy scalar's dtype; nothing for a class that has such a thing, and for other objects.
fn kind(object: &Bound<'_, PyAny>) -> Option<String> {
    object.getattr("dtype").ok()?.getattr("kind").ok()?.extract().ok()
}

fn number(object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if object.is_instance_of::<PyType>() {
        return Err(PyTypeError::new_err("a class"));
    }
    if object.is_instance_of::<PyFloat>() {
        return Ok(Scalar::Real(object.extract::<f64>()?));
    }
    if object.is_instance_of::<PyInt>() {
        // Wraps, as an array of that value would.
        return match object.extract::<i128>() {
            Ok(value) => Ok(Scalar::Int(value)),
            Err(_) => Ok(Scalar::Real(object.extract::<f64>()?)),
        };
    }
    if let Ok(value) = object.cast::<PyComplex>() {
        return Ok(Scalar::Complex(value.real(), value.imag()));
    }
    if object.hasattr("__index__")?
        && let Ok(value) = object.call_method0("__index__").and_then(|v| v.extract::<i128>())
    {
        return Ok(Scalar::Int(value));
    }
    match kind(object).as_deref() {
        Some("c") => {
            let value = object.call_method0("__complex__")?;
            let value = value.cast::<PyComplex>()?;
            return Ok(Scalar::Complex(value.real(), value.imag()));
        }
        // Text and times, which have a `__float__` of their own in numpy.
        Some("U" | "S" | "M" | "m") => return Err(PyTypeError::new_err("no number")),
        _ => {}
    }
    object.extract::<f64>().map(Scalar::Real)
}
