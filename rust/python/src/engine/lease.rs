//! The context manager of `engine.lease()`.

use std::time::Duration;

use pyo3::prelude::*;
use std::sync::Mutex;

use super::PyCpuEngine;
use crate::errors::raise;

/// Waits for a busy engine on entry and keeps it for the thread until exit.
#[pyclass(frozen, module = "treadle._native")]
pub(crate) struct Lease {
    engine: Py<PyCpuEngine>,
    timeout: Option<Duration>,
}

impl Lease {
    pub(super) fn new(engine: Py<PyCpuEngine>, timeout: Option<Duration>) -> Self {
        Lease { engine, timeout }
    }
}

#[pymethods]
impl Lease {
    fn __enter__(&self, py: Python<'_>) -> PyResult<Py<PyCpuEngine>> {
        let cell = self.engine.get().cell();
        let raised = Mutex::new(None);
        let outcome = py.detach(|| {
            cell.lease(self.timeout, || {
                Python::attach(|py| match py.check_signals() {
                    Ok(()) => true,
                    Err(error) => {
                        if let Ok(mut slot) = raised.lock() {
                            *slot = Some(error);
                        }
                        false
                    }
                })
            })
        });
        if let Err(error) = outcome {
            let signal = raised.lock().ok().and_then(|mut slot| slot.take());
            return Err(signal.unwrap_or_else(|| raise(py, error.in_operation("lease"))));
        }
        Ok(self.engine.clone_ref(py))
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.engine
            .get()
            .cell()
            .release()
            .map_err(|error| raise(py, error.in_operation("lease")))?;
        Ok(())
    }
}
