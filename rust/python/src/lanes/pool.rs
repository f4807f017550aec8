//! `Lanes`: engines that are lent to lane threads, one run at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use treadle_core::{Error, ErrorCode};
use treadle_lanes::{LaneThreads, STACK_BYTES};

use super::body::{BodyWork, Ended, body_values, outcomes};
use super::caller::wait_for_lanes;
use super::control::{LaneControl, seconds_of};
use super::failure::{is_ordinary, lane_error, without_panic};
use super::feeder::Caller;
use super::lane::current_lane;
use super::map::{CallerEnd, MapWork, OnError, conclude};
use super::ranks::RankRun;
use super::source::Source;
use super::stream::{LaneStream, Outbox, StreamOptions};
use super::tally::{Tally, describe, width_of};
use super::thread::{LaneWork, Ticket, end_forked_child, run_lane};
use crate::errors::raise;

/// No lane: the place of the panic that a test asks for.
const NOWHERE: usize = usize::MAX;

/// Lane i always has engine i. Owns no thread: a run starts its own and joins them.
#[pyclass(frozen, subclass, name = "Lanes", module = "treadle._native")]
pub(super) struct Lanes {
    engines: Vec<Py<PyAny>>,
    widths: Vec<usize>,
    threads: LaneThreads,
    tallies: Arc<[Tally]>,
    busy: AtomicBool,
    closed: AtomicBool,
    generation: u64,
    panic_in: AtomicUsize,
    /// The control of the run that is using the lanes.
    running: Mutex<Option<treadle_lanes::LaneControl>>,
}

/// The thread that ends the interpreter, once it does. Another one must not be inside a run any more when Python has
/// ended: it would be killed there, and that aborts the process.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// The lanes are this run's until it is dropped.
struct Held<'a> {
    lanes: &'a Lanes,
    kept: bool,
}

impl Held<'_> {
    /// Leaves the lanes taken; `Lanes::release` gives them back.
    fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.lanes.release();
        }
    }
}

impl Lanes {
    /// Takes the lanes for one run.
    fn hold(&self, py: Python<'_>) -> PyResult<Held<'_>> {
        if treadle_team::fork::generation() != self.generation {
            return Err(raise(
                py,
                Error::new(
                    ErrorCode::ForkedEngine,
                    "the process was forked after these lanes were made; make Lanes in the child, over engines that \
                     were made or rebuilt there",
                ),
            ));
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(lane_error(
                py,
                "the lanes were closed; make new Lanes over open engines",
            ));
        }
        if ENDING
            .get()
            .is_some_and(|thread| *thread != std::thread::current().id())
        {
            return Err(lane_error(
                py,
                "the interpreter is ending; no run starts on another thread now",
            ));
        }
        if self.busy.swap(true, Ordering::AcqRel) {
            let inside = current_lane(py).is_some_and(|lane| {
                let engine = lane.get().engine();
                self.engines.iter().any(|own| own.is(engine))
            });
            return Err(lane_error(
                py,
                if inside {
                    "a run over lanes was started from inside one of them; use other lanes there, or the engine that \
                     the lane has"
                } else {
                    "another run is using these lanes; wait for it, or make other Lanes over other engines"
                },
            ));
        }
        Ok(Held {
            lanes: self,
            kept: false,
        })
    }

    /// One lane of a run. What fails in its surroundings halts the others.
    fn run_one<W: LaneWork + 'static>(
        &self,
        index: usize,
        ticket: &Ticket,
        work: &Arc<W>,
        halt: &(impl Fn() + ?Sized),
    ) -> PyResult<W::Outcome> {
        let mut guard = HaltOnFailure::armed(halt);
        if self
            .panic_in
            .compare_exchange(index, NOWHERE, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            panic!("a panic that a test asked for in lane {index}");
        }
        let outcome = run_lane(ticket, work)?;
        guard.armed = false;
        Ok(outcome)
    }

    /// The run that holds the lanes is going to use that control.
    fn runs_with(&self, control: &treadle_lanes::LaneControl) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(control.clone());
    }

    /// A run is over, also one that outlived its call.
    pub(super) fn release(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.busy.store(false, Ordering::Release);
    }

    /// Runs `work` in every lane and `attend` on this thread; everything is joined when it returns.
    fn execute<W: LaneWork + 'static, C: Send>(
        &self,
        py: Python<'_>,
        control: &Py<LaneControl>,
        rank: Option<usize>,
        work: &Arc<W>,
        halt: impl Fn() + Send + Sync,
        attend: impl FnOnce(Python<'_>, &treadle_lanes::LaneControl) -> C + Send,
    ) -> PyResult<Ended<W, C>> {
        let mut tickets = Ticket::for_lanes(py, &self.engines, &self.threads, control, rank)?;
        let control = control.get().0.clone();
        let report = py.detach(|| {
            self.threads.report(
                &control,
                &mut tickets,
                |mut lane| self.run_one(lane.index(), lane.resource(), work, &halt),
                |control| Ok(Python::attach(|py| attend(py, control))),
            )
        });
        report.map_err(|error| raise(py, error))
    }
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

/// A lane that fails in its surroundings takes no further items, and lets the others take none.
struct HaltOnFailure<F: Fn()> {
    halt: F,
    armed: bool,
}

impl<F: Fn()> HaltOnFailure<F> {
    fn armed(halt: F) -> Self {
        HaltOnFailure { halt, armed: true }
    }
}

impl<F: Fn()> Drop for HaltOnFailure<F> {
    fn drop(&mut self) {
        if self.armed {
            (self.halt)();
        }
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
        let _ = ENDING.set(std::thread::current().id());
    }

    /// Cancels the run that is using the lanes; returns whether there is one in this process.
    fn _cancel_run(&self) -> bool {
        if treadle_team::fork::generation() != self.generation {
            return false;
        }
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(control) = &*running {
            control.cancel();
        }
        running.is_some()
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
        this.runs_with(&control);
        let work = Arc::new(BodyWork {
            body,
            control: control.clone(),
            tallies: Arc::clone(&this.tallies),
            counts: false,
            generation: this.generation,
        });
        let shared = Py::new(py, LaneControl(control.clone()))?;
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
        self.runs_with(&control);
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
        let control = Py::new(py, LaneControl(control))?;
        let iterator = iterator.map(Bound::unbind);
        let attend = |py: Python<'_>, control: &treadle_lanes::LaneControl| -> CallerEnd {
            let iterator = iterator.map(|iterator| iterator.into_bound(py));
            let progress = progress.map(|progress| progress.into_bound(py));
            Caller::new(py, &work, iterator, progress, total, deadline).attend(control)
        };
        let report = self.execute(py, &control, rank, &work, || work.halt(), attend)?;
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
    #[pyo3(signature = (function, items, *, ordered, window, on_error, progress, total, retries, deadline))]
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
    ) -> PyResult<LaneStream> {
        let this = slf.get();
        let deadline = deadline
            .map(|seconds| seconds_of(seconds, "deadline"))
            .transpose()?;
        let deadline = deadline.and_then(|seconds| Instant::now().checked_add(seconds));
        let iterator = items.try_iter()?.into_any().unbind();
        let held = this.hold(py)?;
        let control = treadle_lanes::LaneControl::new();
        this.runs_with(&control);
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
        let shared = Py::new(py, LaneControl(control.clone()))?;
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
        self.runs_with(&control);
        let work = Arc::new(BodyWork {
            body,
            control: control.clone(),
            tallies: Arc::clone(&self.tallies),
            counts: true,
            generation: self.generation,
        });
        let shared = Py::new(py, LaneControl(control.clone()))?;
        let given = shared.clone_ref(py);
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
        let report = self.execute(py, &shared, None, &work, || control.cancel(), attend)?;
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
