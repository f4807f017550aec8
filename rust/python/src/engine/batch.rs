//! Batch policies by their names, and the scoped one.

use std::sync::Mutex;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};
use treadle_contract::BatchPolicy;
use treadle_core::{Error, ErrorCode};

use super::PyCpuEngine;
use crate::door;
use crate::errors::raise;

const VALID: &str = "\"auto\", \"sequential\", \"outer\", \"inner\" or (\"split\", lanes)";

/// The policy that `object` names.
pub(crate) fn policy_of(object: &Bound<'_, PyAny>) -> PyResult<BatchPolicy> {
    let wrong = || {
        let given = object
            .repr()
            .map_or_else(|_| "something else".to_owned(), |text| text.to_string());
        raise(
            object.py(),
            Error::new(
                ErrorCode::Argument,
                format!("batch is {given}; valid are {VALID}"),
            ),
        )
    };
    if let Ok(name) = object.extract::<String>() {
        return BatchPolicy::from_name(&name).map_err(|_| wrong());
    }
    if let Ok(pair) = object.cast::<PyTuple>()
        && let Ok((name, lanes)) = pair.extract::<(String, i64)>()
        && !pair.get_item(1)?.is_instance_of::<PyBool>()
        && name == "split"
        && lanes >= 1
    {
        return Ok(BatchPolicy::Split(lanes as usize));
    }
    Err(wrong())
}

/// The policy as the caller would write it.
pub(crate) fn policy_object(py: Python<'_>, policy: BatchPolicy) -> PyResult<Py<PyAny>> {
    match policy {
        BatchPolicy::Auto => "auto".into_py_any(py),
        BatchPolicy::Sequential => "sequential".into_py_any(py),
        BatchPolicy::Outer => "outer".into_py_any(py),
        BatchPolicy::Inner => "inner".into_py_any(py),
        BatchPolicy::Split(lanes) => ("split", lanes).into_py_any(py),
    }
}

/// The context manager of ``engine.policy(batch=...)``.
#[pyclass(frozen, module = "treadle._native")]
pub(crate) struct Policy {
    engine: Py<PyCpuEngine>,
    batch: BatchPolicy,
    before: Mutex<Vec<BatchPolicy>>,
}

impl Policy {
    pub(super) fn new(engine: Py<PyCpuEngine>, batch: BatchPolicy) -> Self {
        Policy {
            engine,
            batch,
            before: Mutex::new(Vec::new()),
        }
    }
}

#[pymethods]
impl Policy {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyCpuEngine>> {
        let mut engine = door::enter(py, self.engine.get().cell(), "policy")?;
        let before = engine.set_batch(self.batch);
        self.before
            .lock()
            .map_err(|_| PyRuntimeError::new_err("a policy in an unknown state"))?
            .push(before);
        Ok(self.engine.clone_ref(py))
    }

    fn __exit__(
        &self,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let before = self
            .before
            .lock()
            .map_err(|_| PyRuntimeError::new_err("a policy in an unknown state"))?
            .pop();
        // A closed or broken engine has no policy to restore.
        if let Some(before) = before
            && let Ok(mut engine) = self.engine.get().cell().enter()
        {
            engine.set_batch(before);
        }
        Ok(())
    }
}
