//! `Pool`: a thread team that an engine is built over.

use std::sync::Mutex;

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_engine::EngineOptions;
use treadle_team::Pool;

use crate::errors::raise;

/// A team of worker threads for one engine.
///
/// Parameters
/// ----------
/// threads : int, optional
///     Width: the thread that calls the engine and ``threads - 1`` workers. Default: every CPU that this process
///     may use.
/// affinity : sequence of int, optional
///     One CPU for each thread. The first belongs to the calling thread, which is never pinned.
/// name : str, optional
///     Prefix of the workers' names.
/// stack_bytes : int, default 16 MiB
///     Stack of each worker.
///
/// Notes
/// -----
/// The workers start here, and are joined when the engine is closed. A pool serves one engine.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> with td.CpuEngine(pool=td.Pool(threads=2, name="solver")) as engine:
/// ...     engine.threads
/// 2
#[pyclass(frozen, name = "Pool", module = "treadle._native")]
pub(crate) struct PyPool {
    /// The team (none when the width is one), until an engine takes it.
    pool: Mutex<Option<Option<Pool>>>,
    options: EngineOptions,
}

impl PyPool {
    /// Width, affinity, names and stack; the rest at its default.
    pub(super) fn options(&self) -> EngineOptions {
        self.options.clone()
    }

    /// Moves the workers into an engine.
    pub(super) fn take(&self, py: Python<'_>) -> PyResult<Option<Pool>> {
        let pool = self.pool.lock().ok().and_then(|mut pool| pool.take());
        pool.ok_or_else(|| {
            raise(
                py,
                Error::new(
                    ErrorCode::Argument,
                    "the pool already belongs to an engine; build one pool an engine",
                ),
            )
        })
    }
}

#[pymethods]
impl PyPool {
    #[new]
    #[pyo3(signature = (threads = None, *, affinity = None, name = None, stack_bytes = None))]
    fn new(
        py: Python<'_>,
        threads: Option<&Bound<'_, PyAny>>,
        affinity: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        stack_bytes: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let mut options = super::cpu_engine::default_options(py, threads)?;
        options.affinity = super::cpu_engine::cpus(affinity)?;
        options.name = name;
        if let Some(bytes) = stack_bytes {
            options.stack_bytes = super::cpu_engine::whole_number("stack_bytes", bytes, 0)?;
        }
        super::cpu_engine::check_options(py, &options)?;
        let pool = py
            .detach(|| treadle_engine::build_pool(&options))
            .map_err(|error| raise(py, error.in_operation("Pool")))?;
        Ok(PyPool {
            pool: Mutex::new(Some(pool)),
            options,
        })
    }

    /// Width: the calling thread and the workers.
    #[getter]
    fn threads(&self) -> usize {
        self.options.threads
    }

    fn __repr__(&self) -> String {
        format!("Pool(threads={})", self.options.threads)
    }
}
