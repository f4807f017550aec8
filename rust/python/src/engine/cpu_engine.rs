//! `CpuEngine`: construction, state and members. Its verbs stand in `contraction` and `linalg`.

use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyTuple, PyType};
use treadle_contract::BatchPolicy;
use treadle_core::{Error, ErrorCode};
use treadle_engine::{CpuEngine, EngineCell, EngineOptions, PROVIDER_ID};
use treadle_kernels::Isa;

use super::batch::{Policy, policy_object, policy_of};
use super::lease::Lease;
use super::plan_cache::{PyPlanCache, stats_dict};
use super::pool::PyPool;
use crate::door;
use crate::errors::raise;

const STACK_BYTES: usize = 16 << 20;
const BUFFER_BYTES: usize = 256 << 20;

/// The engine behind the Python class `treadle.CpuEngine`.
#[pyclass(frozen, subclass, weakref, name = "CpuEngine", module = "treadle._native")]
pub(crate) struct PyCpuEngine {
    cell: EngineCell,
    options: EngineOptions,
}

impl PyCpuEngine {
    #[inline]
    pub(crate) fn cell(&self) -> &EngineCell {
        &self.cell
    }
}

/// Every CPU that this process may use (affinity mask and cgroup quota).
#[pyfunction]
#[pyo3(name = "_allowed_cpu_count")]
pub(super) fn allowed_cpu_count() -> usize {
    treadle_team::allowed_width()
}

/// The CPU provider that this build computes with.
///
/// Returns
/// -------
/// str
///     ``"treadle.cpu.native"``.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> td.cpu_provider_id()
/// 'treadle.cpu.native'
#[pyfunction]
pub(super) fn cpu_provider_id() -> &'static str {
    PROVIDER_ID
}

#[cold]
fn argument(py: Python<'_>, message: String) -> PyErr {
    raise(
        py,
        Error::new(ErrorCode::Argument, message).in_operation("CpuEngine"),
    )
}

/// The options of an engine of that width.
pub(super) fn default_options(py: Python<'_>, threads: Option<&Bound<'_, PyAny>>) -> PyResult<EngineOptions> {
    let threads = match threads {
        None => allowed_cpu_count(),
        Some(object) => {
            if object.is_instance_of::<PyBool>() {
                return Err(PyTypeError::new_err(
                    "threads is a bool; give an int, or None for every allowed CPU",
                ));
            }
            let index = if object.is_instance_of::<PyInt>() {
                object.clone()
            } else {
                object.call_method0("__index__").map_err(|_| {
                    PyTypeError::new_err(format!(
                        "threads is a {}; give an int, or None for every allowed CPU",
                        object.get_type()
                    ))
                })?
            };
            match index.extract::<i64>() {
                Ok(threads) if (1..=MAX_THREADS).contains(&threads) => threads as usize,
                _ => {
                    return Err(argument(
                        py,
                        format!("threads is {index}; valid are 1 to {MAX_THREADS}"),
                    ));
                }
            }
        }
    };
    Ok(EngineOptions {
        threads,
        batch: BatchPolicy::Auto,
        plan_cache: None,
        plan_capacity: treadle_engine::DEFAULT_CAPACITY,
        buffer_bytes: BUFFER_BYTES,
        affinity: None,
        name: None,
        isa: None,
        stack_bytes: STACK_BYTES,
    })
}

/// A whole number of at least `least`, as an option takes it.
pub(super) fn whole_number(name: &str, object: &Bound<'_, PyAny>, least: usize) -> PyResult<usize> {
    let number = object
        .call_method0("__index__")
        .ok()
        .and_then(|index| index.extract::<usize>().ok());
    number
        .filter(|&number| number >= least && !object.is_instance_of::<PyBool>())
        .ok_or_else(|| {
            let given = object
                .repr()
                .map_or_else(|_| "something else".to_owned(), |text| text.to_string());
            argument(
                object.py(),
                format!("{name} is {given}; valid are whole numbers from {least} on"),
            )
        })
}

/// `affinity` as numbers of CPUs.
pub(super) fn cpus(object: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<usize>>> {
    let Some(object) = object else { return Ok(None) };
    object
        .try_iter()?
        .map(|cpu| whole_number("a CPU of affinity", &cpu?, 0))
        .collect::<PyResult<Vec<_>>>()
        .map(Some)
}

/// A width above this is a slip of the keyboard; no machine of today has as many CPUs.
const MAX_THREADS: i64 = 4096;

/// Refuses what cannot be built, before a thread starts.
pub(super) fn check_options(py: Python<'_>, options: &EngineOptions) -> PyResult<()> {
    if let Some(cpus) = &options.affinity
        && cpus.len() != options.threads
    {
        return Err(argument(
            py,
            format!(
                "affinity names {} CPUs for {} threads; give one a thread (the first is the caller's and is not pinned)",
                cpus.len(),
                options.threads
            ),
        ));
    }
    if options.stack_bytes < 64 << 10 {
        return Err(argument(
            py,
            format!(
                "stack_bytes is {}; valid are {} and above",
                options.stack_bytes,
                64 << 10
            ),
        ));
    }
    Ok(())
}

#[pymethods]
impl PyCpuEngine {
    #[new]
    #[pyo3(signature = (threads = None, *, batch = None, plan_cache = None, buffer_bytes = None, affinity = None, name = None, isa = None, pool = None))]
    fn new(
        py: Python<'_>,
        threads: Option<&Bound<'_, PyAny>>,
        batch: Option<&Bound<'_, PyAny>>,
        plan_cache: Option<&Bound<'_, PyPlanCache>>,
        buffer_bytes: Option<&Bound<'_, PyAny>>,
        affinity: Option<&Bound<'_, PyAny>>,
        name: Option<String>,
        isa: Option<String>,
        pool: Option<&Bound<'_, PyPool>>,
    ) -> PyResult<Self> {
        let mut options = match pool {
            Some(pool) => {
                if threads.is_some() || affinity.is_some() {
                    return Err(argument(
                        py,
                        "pool= brings its own threads and affinity; leave those out here".to_owned(),
                    ));
                }
                pool.get().options()
            }
            None => default_options(py, threads)?,
        };
        if let Some(batch) = batch {
            options.batch = policy_of(batch)?;
            options
                .batch
                .check(options.threads)
                .map_err(|error| raise(py, error.in_operation("CpuEngine")))?;
        }
        if let Some(cache) = plan_cache {
            let cache = cache.get().share();
            options.plan_capacity = cache.capacity();
            options.plan_cache = Some(cache);
        }
        if let Some(bytes) = buffer_bytes {
            options.buffer_bytes = whole_number("buffer_bytes", bytes, 0)?;
        }
        if affinity.is_some() {
            options.affinity = cpus(affinity)?;
        }
        if name.is_some() {
            options.name = name;
        }
        if let Some(isa) = isa {
            let isa = Isa::from_name(&isa).map_err(|error| raise(py, error.in_operation("CpuEngine")))?;
            Isa::resolve(Some(isa)).map_err(|error| raise(py, error.in_operation("CpuEngine")))?;
            options.isa = Some(isa);
        }
        check_options(py, &options)?;
        let engine = match pool {
            Some(pool) => CpuEngine::with_pool(options.clone(), pool.get().take(py)?),
            None => py
                .detach(|| CpuEngine::new(options.clone()))
                .map_err(|error| raise(py, error.in_operation("CpuEngine")))?,
        };
        Ok(PyCpuEngine {
            cell: EngineCell::new(engine),
            options,
        })
    }

    /// An engine of width one: no pool, no thread beside the caller's.
    ///
    /// Parameters
    /// ----------
    /// **options : object
    ///     As for the class, without ``threads`` and ``pool``.
    ///
    /// Returns
    /// -------
    /// CpuEngine
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine.serial().threads
    /// 1
    #[classmethod]
    #[pyo3(signature = (**options))]
    fn serial<'py>(
        cls: &Bound<'py, PyType>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        cls.call((1,), options)
    }

    /// int: Width; the calling thread and ``threads - 1`` workers.
    #[getter]
    fn threads(&self) -> usize {
        self.options.threads
    }

    /// str or None: Prefix of the workers' names.
    #[getter]
    fn name(&self) -> Option<&str> {
        self.options.name.as_deref()
    }

    /// str: The instruction set of the kernels: the one asked for, or the best of this machine.
    #[getter]
    fn isa(&self) -> &'static str {
        self.options.isa.unwrap_or_else(Isa::detect).name()
    }

    /// str: The CPU provider of this build.
    #[getter]
    fn provider(&self) -> &'static str {
        PROVIDER_ID
    }

    /// str or tuple: The batch policy that the next operation follows.
    #[getter]
    fn batch(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let policy = match self.cell.enter() {
            Ok(engine) => engine.options().batch,
            Err(_) => self.options.batch,
        };
        policy_object(py, policy)
    }

    /// str: ``"open"``, ``"busy"``, ``"broken"`` (also in a forked child) or ``"closed"``.
    #[getter]
    fn state(&self) -> &'static str {
        let state = self.cell.state();
        if self.cell.is_forked() && state != treadle_engine::State::Closed {
            "broken"
        } else {
            state.name()
        }
    }

    /// PlanCache: The cache of contraction plans, which may be shared with other engines.
    #[getter]
    fn plan_cache(&self, py: Python<'_>) -> PyResult<PyPlanCache> {
        let engine = door::enter(py, &self.cell, "plan_cache")?;
        Ok(PyPlanCache::of(engine.plans().clone()))
    }

    /// Join the workers and free what the engine retains.
    ///
    /// Closing twice is nothing. Any later operation raises :class:`EngineClosedError`. Arrays that the engine
    /// made stay valid for as long as they live.
    ///
    /// Raises
    /// ------
    /// EngineBusyError
    ///     If an operation runs.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> engine = td.CpuEngine(2)
    /// >>> engine.close()
    /// >>> engine.state
    /// 'closed'
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.cell.close())
            .map_err(|error| raise(py, error.in_operation("close")))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _type: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.close(py)?;
        Ok(())
    }

    /// Make a broken or forked engine new: same options, fresh workers, empty caches.
    ///
    /// Raises
    /// ------
    /// EngineClosedError
    ///     If the engine was closed.
    /// EngineBusyError
    ///     If an operation runs.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> engine = td.CpuEngine(2)
    /// >>> engine.rebuild()
    /// >>> engine.state
    /// 'open'
    fn rebuild(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.cell.rebuild())
            .map_err(|error| raise(py, error.in_operation("rebuild")))
    }

    /// Counters of the plan cache, the buffers, the pool and the operations.
    ///
    /// Returns
    /// -------
    /// dict
    ///     ``plan_cache`` (entries, bytes, hits, misses, evictions, clears, capacity), ``buffers`` (retained, lent
    ///     and peak in bytes, hits, misses), ``pool`` (dispatches, wakeups, workers) and ``ops``.
    ///
    /// Raises
    /// ------
    /// EngineBusyError
    ///     If an operation of another thread runs.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> td.CpuEngine(2).stats()["pool"]["workers"]
    /// 1
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let engine = door::enter(py, &self.cell, "stats")?;
        let stats = PyDict::new(py);
        stats.set_item("plan_cache", stats_dict(py, &engine.plans().stats())?)?;
        let buffers = PyDict::new(py);
        let held = engine.buffers().stats();
        buffers.set_item("retained", held.retained)?;
        buffers.set_item("lent", held.lent)?;
        buffers.set_item("peak", held.peak)?;
        buffers.set_item("hits", held.hits)?;
        buffers.set_item("misses", held.misses)?;
        stats.set_item("buffers", buffers)?;
        let pool = PyDict::new(py);
        let team = engine.pool().map(treadle_team::Pool::stats);
        pool.set_item("dispatches", team.map_or(0, |team| team.dispatches))?;
        pool.set_item("wakeups", team.map_or(0, |team| team.wakeups))?;
        pool.set_item("workers", team.map_or(0, |team| team.workers))?;
        stats.set_item("pool", pool)?;
        stats.set_item("ops", engine.operations())?;
        Ok(stats)
    }

    /// Drop every plan and every retained buffer.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> engine = td.CpuEngine.serial()
    /// >>> engine.clear_caches()
    /// >>> engine.stats()["buffers"]["retained"]
    /// 0
    fn clear_caches(&self, py: Python<'_>) -> PyResult<()> {
        let engine = door::enter(py, &self.cell, "clear_caches")?;
        engine.plans().clear();
        engine.buffers().clear();
        Ok(())
    }

    /// Use another batch policy inside a ``with`` block.
    ///
    /// Parameters
    /// ----------
    /// batch : str or tuple
    ///     ``"auto"``, ``"sequential"``, ``"outer"``, ``"inner"`` or ``("split", lanes)``.
    ///
    /// Returns
    /// -------
    /// context manager
    ///     Entering it gives the engine.
    ///
    /// Raises
    /// ------
    /// ArgumentError
    ///     For an unknown policy.
    /// UnsupportedError
    ///     For more lanes than the engine has threads.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> engine = td.CpuEngine(2)
    /// >>> with engine.policy(batch="outer"):
    /// ...     engine.batch
    /// 'outer'
    /// >>> engine.batch
    /// 'auto'
    #[pyo3(signature = (*, batch))]
    fn policy(slf: &Bound<'_, Self>, batch: &Bound<'_, PyAny>) -> PyResult<Policy> {
        let batch = policy_of(batch)?;
        batch
            .check(slf.get().options.threads)
            .map_err(|error| raise(slf.py(), error.in_operation("policy")))?;
        Ok(Policy::new(slf.clone().unbind(), batch))
    }

    /// Wait for a busy engine and keep it inside a ``with`` block.
    ///
    /// While a thread holds the lease, its own calls run and other threads get :class:`EngineBusyError`.
    ///
    /// Parameters
    /// ----------
    /// timeout : float, optional
    ///     Seconds to wait at most; None waits for ever.
    ///
    /// Returns
    /// -------
    /// context manager
    ///     Entering it waits and gives the engine.
    ///
    /// Raises
    /// ------
    /// EngineBusyError
    ///     On entry, when the wait expires.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> engine = td.CpuEngine.serial()
    /// >>> with engine.lease(timeout=1.0):
    /// ...     engine.state
    /// 'busy'
    #[pyo3(signature = (timeout = None))]
    fn lease(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Lease> {
        let timeout = match timeout {
            None => None,
            Some(seconds) if seconds >= 0.0 => {
                // Longer than a duration can be is for ever.
                Duration::try_from_secs_f64(seconds).ok()
            }
            Some(seconds) => {
                return Err(argument(
                    slf.py(),
                    format!("timeout is {seconds}; valid are seconds from 0 on, or None"),
                ));
            }
        };
        Ok(Lease::new(slf.clone().unbind(), timeout))
    }

    /// What the engine was made from, as keyword arguments of the class; `spec()` makes it an `EngineSpec`.
    fn _options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let options = PyDict::new(py);
        options.set_item("threads", self.options.threads)?;
        options.set_item("batch", policy_object(py, self.options.batch)?)?;
        options.set_item("plan_capacity", self.options.plan_capacity)?;
        options.set_item("buffer_bytes", self.options.buffer_bytes)?;
        let affinity = match &self.options.affinity {
            Some(cpus) => PyTuple::new(py, cpus)?.into_any(),
            None => py.None().into_bound(py),
        };
        options.set_item("affinity", affinity)?;
        options.set_item("name", self.options.name.as_deref())?;
        options.set_item("isa", self.options.isa.map(Isa::name))?;
        options.set_item("stack_bytes", self.options.stack_bytes)?;
        Ok(options)
    }

    /// Runs an operation that panics, on the caller (`"caller"`) or on a worker (`"worker"`), for the package's
    /// own tests.
    fn _panic(&self, py: Python<'_>, place: &str) -> PyResult<()> {
        let on_worker = place == "worker";
        let mut engine = door::enter(py, &self.cell, "_panic")?;
        door::run_long(py, &self.cell, "_panic", &mut engine, |engine, _poll| {
            let mut parts = engine.begin()?;
            parts.token.broadcast(|member| {
                assert!(!(on_worker && member.index() == 1), "injected in a worker");
                assert!(on_worker || member.index() != 0, "injected in the caller");
            });
            Ok(())
        })
    }

    /// Runs an operation of that many milliseconds, in chunks of one, for the package's own tests.
    fn _sleep(&self, py: Python<'_>, milliseconds: usize) -> PyResult<()> {
        let mut engine = door::enter(py, &self.cell, "_sleep")?;
        door::run_long(py, &self.cell, "_sleep", &mut engine, |engine, poll| {
            let mut parts = engine.begin()?;
            parts
                .token
                .with_poll(poll)
                .chunks(milliseconds, |_| std::thread::sleep(Duration::from_millis(1)))?;
            Ok(())
        })
    }

    fn __reduce_ex__(slf: &Bound<'_, Self>, _protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err(format!(
            "a {} holds threads and memory of this process and cannot be pickled or copied; pickle engine.spec() and \
             call build() where it is needed",
            slf.get_type().name()?
        )))
    }

    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        let engine = slf.get();
        Ok(format!(
            "{}(threads={}, isa='{}', state='{}')",
            slf.get_type().name()?,
            engine.options.threads,
            engine.isa(),
            engine.state()
        ))
    }
}
