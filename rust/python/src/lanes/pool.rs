//! `Lanes`: engines that are lent to lane threads, one run at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use treadle_core::{Error, ErrorCode};
use treadle_lanes::{LaneThreads, STACK_BYTES};

use super::body::{BodyWork, body_values, outcomes};
use super::caller::wait_for_lanes;
use super::control::{LaneControl, is_waited_for, seconds_of, threads_end};
use super::failure::{is_ordinary, lane_error, without_panic};
use super::feeder::Caller;
use super::lend::{HaltOnFailure, NOWHERE, interpreter_ends};
use super::map::{CallerEnd, MapWork, OnError, conclude};
use super::ranks::RankRun;
use super::source::Source;
use super::stream::{LaneStream, Outbox, StreamOptions};
use super::tally::{Tally, describe, width_of};
use super::thread::{Ticket, end_forked_child};
use crate::errors::raise;

/// Lane i always has engine i. Owns no thread: a run starts its own and joins them.
#[pyclass(frozen, subclass, name = "Lanes", module = "treadle._native")]
pub(super) struct Lanes {
    pub(super) engines: Vec<Py<PyAny>>,
    pub(super) widths: Vec<usize>,
    pub(super) threads: LaneThreads,
    pub(super) tallies: Arc<[Tally]>,
    pub(super) busy: AtomicBool,
    pub(super) closed: AtomicBool,
    pub(super) generation: u64,
    pub(super) panic_in: AtomicUsize,
    /// The control of the run that is using the lanes, and whether it is a run of bodies.
    pub(super) running: Mutex<Option<(treadle_lanes::LaneControl, bool)>>,
}

/// What was given instead of engines.
#[cold]
fn not_engines(given: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyTypeError>(given.py()) {
        return error;
    }
    match given.get_type().qualname() {
        Ok(name) => PyTypeError::new_err(format!(
            "Lanes takes a list of engines, for example td.Lanes([engine]), not {name}"
        )),
        Err(error) => error,
    }
}

#[pymethods]
impl Lanes {
    #[new]
    #[pyo3(signature = (engines, *, stack_bytes=STACK_BYTES))]
    fn new(engines: &Bound<'_, PyAny>, stack_bytes: usize) -> PyResult<Self> {
        let py = engines.py();
        let given = engines.try_iter().map_err(|error| not_engines(engines, error))?;
        let given = given.collect::<PyResult<Vec<_>>>()?;
        if given.is_empty() {
            let message = "Lanes need at least one engine, one for each lane; 0 were given";
            return Err(raise(py, Error::new(ErrorCode::NoEngine, message)));
        }
        let mut widths = Vec::with_capacity(given.len());
        for (index, engine) in given.iter().enumerate() {
            widths.push(width_of(index, engine)?);
            if let Some(first) = given[..index].iter().position(|other| other.is(engine)) {
                let message = format!(
                    "engines {first} and {index} are the same engine; each lane needs one of its own, for example \
                     engine.spec().build()"
                );
                return Err(raise(
                    py,
                    Error::new(ErrorCode::Argument, message).with("index", index),
                ));
            }
        }
        let tallies = given.iter().map(|_| Tally::default()).collect();
        Ok(Lanes {
            engines: given.into_iter().map(Bound::unbind).collect(),
            widths,
            threads: LaneThreads::new().stack_bytes(stack_bytes),
            tallies,
            busy: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            generation: treadle_team::fork::generation(),
            panic_in: AtomicUsize::new(NOWHERE),
            running: Mutex::new(None),
        })
    }

    #[getter]
    fn engines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.engines)
    }

    /// Whether a run is using the lanes.
    #[getter]
    fn busy(&self) -> bool {
        self.busy.load(Ordering::Acquire)
    }

    /// Whether the lanes were closed.
    #[getter]
    fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn __len__(&self) -> usize {
        self.engines.len()
    }

    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        describe(py, &self.tallies, &self.widths)
    }

    /// Refuses further runs; returns whether this call closed the lanes.
    fn _close(&self, py: Python<'_>) -> PyResult<bool> {
        if self.busy.load(Ordering::Acquire) && treadle_team::fork::generation() == self.generation {
            return Err(lane_error(py, "a run is using the lanes; close them after it"));
        }
        Ok(!self.closed.swap(true, Ordering::AcqRel))
    }

    /// From now on only the calling thread, which ends the interpreter, starts runs.
    #[staticmethod]
    fn _interpreter_ends() {
        interpreter_ends();
    }

    /// The calling thread ends the interpreter and is about to wait for Python's other threads.
    #[staticmethod]
    fn _threads_end() {
        threads_end();
    }

    /// Cancels the run that is using the lanes (a run of bodies only, if asked); returns whether there is one in this
    /// process.
    fn _cancel_run(&self, bodies_only: bool) -> bool {
        if treadle_team::fork::generation() != self.generation {
            return false;
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match &*running {
            Some((control, bodies)) if *bodies || !bodies_only => {
                control.cancel();
                true
            }
            _ => false,
        }
    }

    fn run(&self, py: Python<'_>, body: Py<PyAny>) -> PyResult<Vec<Py<PyAny>>> {
        self.run_bodies(py, body, None).map(|(_, values)| values)
    }

    fn run_with_coordinator(
        &self,
        py: Python<'_>,
        body: Py<PyAny>,
        coordinator: Py<PyAny>,
    ) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
        self.run_bodies(py, body, Some(coordinator))
    }

    /// Starts `body` in every lane, for lanes that belong to a rank, and comes back at once.
    fn _begin_on_rank(
        slf: &Bound<'_, Self>,
        py: Python<'_>,
        body: Py<PyAny>,
        rank: usize,
    ) -> PyResult<RankRun> {
        let this = slf.get();
        let held = this.hold(py)?;
        let control = treadle_lanes::LaneControl::new();
        this.runs_with(&control, false);
        let work = Arc::new(BodyWork {
            body,
            control: control.clone(),
            tallies: Arc::clone(&this.tallies),
            counts: false,
            generation: this.generation,
        });
        let shared = Py::new(py, LaneControl::of_caller(control.clone()))?;
        let tickets = Ticket::for_lanes(py, &this.engines, &this.threads, &shared, Some(rank))?;
        let (panics, cancelled) = (slf.clone().unbind(), control.clone());
        let run = move |mut lane: treadle_lanes::Lane<'_, Ticket>| {
            let index = lane.index();
            panics
                .get()
                .run_one(index, lane.resource(), &work, &|| cancelled.cancel())
        };
        let started = py.detach(|| this.threads.start(&control, tickets, Arc::new(run)));
        let started = started.map_err(|error| raise(py, error))?;
        held.keep();
        Ok(RankRun::new(slf.clone().unbind(), control, shared, started))
    }

    /// An item that a body of `_begin_on_rank` has done.
    fn _count(&self, lane: usize, seconds: f64) -> PyResult<()> {
        let tally = self.tallies.get(lane).ok_or_else(|| {
            let lanes = self.tallies.len();
            PyIndexError::new_err(format!("there is no lane {lane}; the lanes are {lanes}"))
        })?;
        tally.add(Duration::try_from_secs_f64(seconds).unwrap_or_default());
        Ok(())
    }

    /// `map_in_lanes` after its options were checked.
    #[pyo3(signature = (function, items, *, on_error, progress, total, retries, deadline, rank))]
    fn _map<'py>(
        &self,
        py: Python<'py>,
        function: Py<PyAny>,
        items: &Bound<'py, PyAny>,
        on_error: &Bound<'py, PyAny>,
        progress: Option<Py<PyAny>>,
        total: Option<usize>,
        retries: usize,
        deadline: Option<f64>,
        rank: Option<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let deadline = deadline
            .map(|seconds| seconds_of(seconds, "deadline"))
            .transpose()?;
        let deadline = deadline.and_then(|seconds| Instant::now().checked_add(seconds));
        let held = self.hold(py)?;
        // What runs and what waits together are twice the lanes, so as many wait as run.
        let (source, iterator) = Source::of(items, self.engines.len())?;
        let control = treadle_lanes::LaneControl::new();
        self.runs_with(&control, false);
        let work = Arc::new(MapWork {
            function,
            source,
            on_error: OnError::of(on_error),
            retries,
            deadline,
            rank,
            control: control.clone(),
            tallies: Arc::clone(&self.tallies),
            completed: AtomicUsize::new(0),
            watched: progress.is_some(),
            expired: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            generation: self.generation,
            outbox: None,
        });
        let control = Py::new(py, LaneControl::of_caller(control))?;
        let idle = iterator.is_none() && progress.is_none() && deadline.is_none();
        let iterator = iterator.map(Bound::unbind);
        let attend = |py: Python<'_>, control: &treadle_lanes::LaneControl| -> CallerEnd {
            let iterator = iterator.map(|iterator| iterator.into_bound(py));
            let progress = progress.map(|progress| progress.into_bound(py));
            Caller::new(py, &work, iterator, progress, total, deadline).attend(control)
        };
        let report = self.execute(py, &control, rank, &work, || work.halt(), idle, attend)?;
        drop(held);
        let (lanes, caller, fault) = outcomes::<MapWork, _>(py, report);
        match (caller, fault) {
            (
                Some(CallerEnd {
                    interrupt: Some(error),
                    ..
                }),
                _,
            ) => Err(error),
            (_, Some(error)) => Err(error),
            (None, None) => Err(lane_error(py, "the map ended without its caller")),
            (Some(caller), None) => PyList::new(py, conclude(py, &work, lanes, caller, total)?),
        }
    }

    /// `imap_in_lanes` after its options were checked.
    #[pyo3(signature = (function, items, *, ordered, window, on_error, progress, total, retries, deadline, finish))]
    fn _stream<'py>(
        slf: &Bound<'py, Self>,
        py: Python<'py>,
        function: Py<PyAny>,
        items: &Bound<'py, PyAny>,
        ordered: bool,
        window: usize,
        on_error: &Bound<'py, PyAny>,
        progress: Option<Py<PyAny>>,
        total: Option<usize>,
        retries: usize,
        deadline: Option<f64>,
        finish: Option<Py<PyAny>>,
    ) -> PyResult<LaneStream> {
        let this = slf.get();
        let deadline = deadline
            .map(|seconds| seconds_of(seconds, "deadline"))
            .transpose()?;
        let deadline = deadline.and_then(|seconds| Instant::now().checked_add(seconds));
        let iterator = items.try_iter()?.into_any().unbind();
        let held = this.hold(py)?;
        let control = treadle_lanes::LaneControl::new();
        this.runs_with(&control, false);
        let work = Arc::new(MapWork {
            function,
            source: Source::Fed(treadle_lanes::Feed::new(window)),
            on_error: OnError::of(on_error),
            retries,
            deadline,
            rank: None,
            control: control.clone(),
            tallies: Arc::clone(&this.tallies),
            completed: AtomicUsize::new(0),
            watched: progress.is_some(),
            expired: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            generation: this.generation,
            outbox: Some(Outbox::default()),
        });
        let shared = Py::new(py, LaneControl::of_caller(control.clone()))?;
        let tickets = Ticket::for_lanes(py, &this.engines, &this.threads, &shared, None)?;
        let (worker, panics) = (Arc::clone(&work), slf.clone().unbind());
        let body = move |mut lane: treadle_lanes::Lane<'_, Ticket>| {
            let index = lane.index();
            panics
                .get()
                .run_one(index, lane.resource(), &worker, &|| worker.halt())
        };
        let started = py.detach(|| this.threads.start(&control, tickets, Arc::new(body)));
        let started = started.map_err(|error| raise(py, error))?;
        held.keep();
        let options = StreamOptions {
            ordered,
            window,
            progress,
            finish,
            total,
            deadline,
        };
        Ok(LaneStream::new(
            work,
            slf.clone().unbind(),
            options,
            started,
            iterator,
        ))
    }

    /// The next run panics in that lane, for the package's own tests.
    fn _panic_in_lane(&self, lane: usize) {
        self.panic_in.store(lane, Ordering::Release);
    }
}

impl Lanes {
    fn run_bodies(
        &self,
        py: Python<'_>,
        body: Py<PyAny>,
        coordinator: Option<Py<PyAny>>,
    ) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
        for (what, callable) in [("body", Some(&body)), ("coordinator", coordinator.as_ref())] {
            if let Some(callable) = callable
                && !callable.bind(py).is_callable()
            {
                let given = callable.bind(py).get_type().qualname()?;
                return Err(PyTypeError::new_err(format!(
                    "{what} must be callable, not {given}"
                )));
            }
        }
        let held = self.hold(py)?;
        let control = treadle_lanes::LaneControl::new();
        self.runs_with(&control, true);
        if is_waited_for() {
            // The interpreter waits for this thread: a body that only waits to be told to end must not keep it.
            control.cancel();
        }
        let work = Arc::new(BodyWork {
            body,
            control: control.clone(),
            tallies: Arc::clone(&self.tallies),
            counts: true,
            generation: self.generation,
        });
        let shared = Py::new(py, LaneControl::of_caller(control.clone()))?;
        let given = shared.clone_ref(py);
        let idle = coordinator.is_none();
        let attend = |py: Python<'_>, control: &treadle_lanes::LaneControl| {
            let value = match coordinator {
                None => Ok(py.None()),
                Some(coordinator) => {
                    // The coordinator's exit of any kind ends the run; the lanes are waited for with signals on.
                    let _guard = HaltOnFailure::armed(|| control.cancel());
                    let value = coordinator
                        .call1(py, (given,))
                        .map_err(|error| without_panic(py, error));
                    if treadle_team::fork::generation() != self.generation {
                        end_forked_child(py, value.err());
                    }
                    value
                }
            };
            let interrupt = wait_for_lanes(py, control, || control.cancel());
            (value, interrupt)
        };
        let report = self.execute(py, &shared, None, &work, || control.cancel(), idle, attend)?;
        drop(held);
        let (lanes, caller, fault) = outcomes::<BodyWork, _>(py, report);
        let (value, interrupt) = match caller {
            Some((value, interrupt)) => (Some(value), interrupt),
            None => (None, None),
        };
        if let Some(error) = interrupt {
            return Err(error);
        }
        let value = match value {
            // A KeyboardInterrupt in the coordinator stands above whatever the lanes say.
            Some(Err(error)) if !is_ordinary(py, &error) => return Err(error),
            value => value,
        };
        if let Some(error) = fault {
            return Err(error);
        }
        match (body_values(py, lanes), value) {
            (Ok(values), Some(Ok(value))) => Ok((value, values)),
            (Err(error), Some(Err(coordinator))) => {
                error.set_context(py, Some(coordinator));
                Err(error)
            }
            (Err(error), _) | (Ok(_), Some(Err(error))) => Err(error),
            (Ok(_), None) => Err(lane_error(py, "the run ended without its coordinator")),
        }
    }
}
