//! `Lanes`: engines that are lent to lane threads, one run at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use treadle_core::{Error, ErrorCode};
use treadle_lanes::{End, LaneThreads, Report, STACK_BYTES};

use super::caller::wait_for_lanes;
use super::control::{LaneControl, seconds_of};
use super::failure::{Failure, internal, is_ordinary, lane_error, says_cancelled, without_panic};
use super::feeder::Caller;
use super::lane::{Lane, current_lane};
use super::map::{CallerEnd, MapWork, OnError, conclude};
use super::source::Source;
use super::thread::{LaneWork, Ticket, run_lane};
use crate::errors::raise;

/// No lane: the place of the panic that a test asks for.
const NOWHERE: usize = usize::MAX;

/// What a lane has done since it was made.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Tally {
    items: AtomicU64,
    busy_ns: AtomicU64,
}

impl Tally {
    #[inline]
    pub(super) fn add(&self, busy: Duration) {
        self.items.fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

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
}

/// The lanes are this run's until it is dropped.
struct Held<'a>(&'a Lanes);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}

type Ended<W, C> = Report<<W as LaneWork>::Outcome, PyErr, C, PyErr>;

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
            return Err(lane_error(py, "the lanes were closed; make new Lanes over open engines"));
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
        Ok(Held(self))
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
                |mut lane| {
                    let index = lane.index();
                    let mut guard = HaltOnFailure::armed(&halt);
                    if self.panic_in.compare_exchange(index, NOWHERE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                        panic!("a panic that a test asked for in lane {index}");
                    }
                    let outcome = run_lane(lane.resource(), work)?;
                    guard.armed = false;
                    Ok(outcome)
                },
                |control| Ok(Python::attach(|py| attend(py, control))),
            )
        });
        report.map_err(|error| raise(py, error))
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

/// The outcomes, or the exception for the first lane that panicked or failed in its surroundings.
fn outcomes<W: LaneWork, C>(py: Python<'_>, report: Ended<W, C>) -> (Vec<W::Outcome>, Option<C>, Option<PyErr>) {
    let (mut values, mut fault) = (Vec::new(), None);
    for (lane, end) in report.lanes.into_iter().enumerate() {
        let error = match end {
            End::Value(value) => {
                values.push(value);
                continue;
            }
            End::Error(error) => error,
            End::Panic(panic) => internal(py, &format!("lane {lane}"), &panic),
        };
        fault.get_or_insert(error);
    }
    match report.coordinator {
        End::Value(value) => (values, Some(value), fault),
        End::Error(error) => (values, None, Some(fault.unwrap_or(error))),
        End::Panic(panic) => {
            let fault = fault.unwrap_or_else(|| internal(py, "the thread that waits for the lanes", &panic));
            (values, None, Some(fault))
        }
    }
}

/// `lanes.run`: one call of the body in each lane.
struct BodyWork {
    body: Py<PyAny>,
    control: treadle_lanes::LaneControl,
    tallies: Arc<[Tally]>,
    generation: u64,
}

impl LaneWork for BodyWork {
    type Outcome = PyResult<Py<PyAny>>;

    fn work(&self, py: Python<'_>, index: usize, _: &Bound<'_, PyAny>, lane: &Bound<'_, Lane>) -> Self::Outcome {
        let begun = Instant::now();
        let result = self.body.call1(py, (lane,)).map_err(|error| without_panic(py, error));
        if treadle_team::fork::generation() != self.generation {
            super::thread::end_forked_child(py, result.err());
        }
        if result.is_err() {
            self.control.cancel();
        }
        self.tallies[index].add(begun.elapsed());
        result
    }
}

/// The values of the bodies, or the exception of the lowest lane: what is no `Exception` first, then the first that
/// says more than that it was cancelled.
fn body_values(py: Python<'_>, ends: Vec<PyResult<Py<PyAny>>>) -> PyResult<Vec<Py<PyAny>>> {
    let (mut values, mut failed, mut cancelled) = (Vec::with_capacity(ends.len()), None, None);
    for (lane, end) in ends.into_iter().enumerate() {
        match end {
            Ok(value) => values.push(value),
            Err(error) if !is_ordinary(py, &error) => return Err(error),
            Err(error) => {
                let place = if says_cancelled(py, &error) { &mut cancelled } else { &mut failed };
                place.get_or_insert((lane, error));
            }
        }
    }
    match failed.or(cancelled) {
        None => Ok(values),
        Some((lane, error)) => {
            let error = error.into_value(py);
            Err(Failure { index: lane, lane: Some(lane), rank: None, item: None, error }.raise_for_lane(py))
        }
    }
}

#[pymethods]
impl Lanes {
    #[new]
    #[pyo3(signature = (engines, *, stack_bytes=STACK_BYTES))]
    fn new(engines: &Bound<'_, PyAny>, stack_bytes: usize) -> PyResult<Self> {
        let py = engines.py();
        let given = engines.try_iter()?.collect::<PyResult<Vec<_>>>()?;
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
                return Err(raise(py, Error::new(ErrorCode::Argument, message).with("index", index)));
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
        let rows = PyList::empty(py);
        for (index, (tally, width)) in self.tallies.iter().zip(&self.widths).enumerate() {
            let row = PyDict::new(py);
            row.set_item("index", index)?;
            row.set_item("threads", width)?;
            row.set_item("items", tally.items.load(Ordering::Relaxed))?;
            row.set_item("busy_seconds", tally.busy_ns.load(Ordering::Relaxed) as f64 * 1e-9)?;
            rows.append(row)?;
        }
        Ok(rows)
    }

    /// Refuses further runs; returns whether this call closed the lanes.
    fn _close(&self, py: Python<'_>) -> PyResult<bool> {
        if self.busy.load(Ordering::Acquire) && treadle_team::fork::generation() == self.generation {
            return Err(lane_error(py, "a run is using the lanes; close them after it"));
        }
        Ok(!self.closed.swap(true, Ordering::AcqRel))
    }

    fn run(&self, py: Python<'_>, body: Py<PyAny>) -> PyResult<Vec<Py<PyAny>>> {
        self.run_bodies(py, body, None, None).map(|(_, values)| values)
    }

    fn run_with_coordinator(
        &self,
        py: Python<'_>,
        body: Py<PyAny>,
        coordinator: Py<PyAny>,
    ) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
        self.run_bodies(py, body, Some(coordinator), None)
    }

    /// As `run_with_coordinator`, for lanes that belong to a rank.
    fn _run_on_rank(
        &self,
        py: Python<'_>,
        body: Py<PyAny>,
        coordinator: Py<PyAny>,
        rank: usize,
    ) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
        self.run_bodies(py, body, Some(coordinator), Some(rank))
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
        let deadline = deadline.map(|seconds| seconds_of(seconds, "deadline")).transpose()?;
        let deadline = deadline.and_then(|seconds| Instant::now().checked_add(seconds));
        let on_error = match on_error.extract::<&str>() {
            Ok("raise") => OnError::Raise,
            Ok(_) => OnError::Return,
            Err(_) => OnError::Handle(on_error.clone().unbind()),
        };
        let held = self.hold(py)?;
        // What runs and what waits together are twice the lanes, so as many wait as run.
        let (source, iterator) = Source::of(items, self.engines.len())?;
        let control = treadle_lanes::LaneControl::new();
        let work = Arc::new(MapWork {
            function,
            source,
            on_error,
            retries,
            rank,
            control: control.clone(),
            tallies: Arc::clone(&self.tallies),
            completed: AtomicUsize::new(0),
            watched: progress.is_some(),
            expired: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            generation: self.generation,
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
            (Some(CallerEnd { interrupt: Some(error), .. }), _) => Err(error),
            (_, Some(error)) => Err(error),
            (None, None) => Err(lane_error(py, "the map ended without its caller")),
            (Some(caller), None) => PyList::new(py, conclude(py, &work, lanes, caller)?),
        }
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
        rank: Option<usize>,
    ) -> PyResult<(Py<PyAny>, Vec<Py<PyAny>>)> {
        for (what, callable) in [("body", Some(&body)), ("coordinator", coordinator.as_ref())] {
            if let Some(callable) = callable
                && !callable.bind(py).is_callable()
            {
                let given = callable.bind(py).get_type().qualname()?;
                return Err(PyTypeError::new_err(format!("{what} must be callable, not {given}")));
            }
        }
        let held = self.hold(py)?;
        let control = treadle_lanes::LaneControl::new();
        let work = Arc::new(BodyWork {
            body,
            control: control.clone(),
            tallies: Arc::clone(&self.tallies),
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
                    coordinator.call1(py, (given,)).map_err(|error| without_panic(py, error))
                }
            };
            let interrupt = wait_for_lanes(py, control, || control.cancel());
            (value, interrupt)
        };
        let report = self.execute(py, &shared, rank, &work, || control.cancel(), attend)?;
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

/// The width of an engine, whatever kind of engine it is.
fn width_of(index: usize, engine: &Bound<'_, PyAny>) -> PyResult<usize> {
    let read = || -> PyResult<(usize, String)> {
        Ok((engine.getattr("threads")?.extract()?, engine.getattr("state")?.extract()?))
    };
    let (threads, state) = read().map_err(|_| {
        let given = engine.get_type().qualname().map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!("engines[{index}] is a {given}, not an engine (it has no .threads and .state)"))
    })?;
    if state == "closed" {
        let message = format!("engines[{index}] was closed; give each lane an open engine");
        return Err(raise(engine.py(), Error::new(ErrorCode::EngineClosed, message).with("index", index)));
    }
    Ok(threads)
}
