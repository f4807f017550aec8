//! `alpha` and `beta`.

use pyo3::prelude::*;
use pyo3::types::{PyComplex, PyComplexMethods, PyFloat, PyInt};
use treadle_core::{Error, ErrorCode, Scalar};

use crate::errors::raise;

/// A number as the caller wrote it: an int, a float, a complex, or whatever has `__index__`, `__float__` or
/// `__complex__` (numpy's scalars).
pub(crate) fn scalar(name: &'static str, object: &Bound<'_, PyAny>) -> PyResult<Scalar> {
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
    if object.hasattr("dtype")? && object.getattr("dtype")?.getattr("kind")?.extract::<String>()? == "c" {
        let value = object.call_method0("__complex__")?;
        let value = value.cast::<PyComplex>()?;
        return Ok(Scalar::Complex(value.real(), value.imag()));
    }
    object.extract::<f64>().map(Scalar::Real).map_err(|_| {
        raise(
            object.py(),
            Error::new(
                ErrorCode::DType,
                format!(
                    "{name} is a {}; give an int, a float or a complex number",
                    object.get_type()
                ),
            )
            .with("expected", "a number")
            .with("actual", object.get_type().to_string()),
        )
    })
}
