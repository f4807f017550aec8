//! A run that goes on until its bodies return: what an executor serves its queue from.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use treadle_lanes::Started;

use super::body::BodyWork;
use super::caller::wait_for_lanes;
use super::control::LaneControl;
use super::failure::lane_error;
use super::lane::current_lane;
use super::pool::Lanes;
use super::thread::Ticket;
use crate::errors::raise;

type Ends = Started<PyResult<Py<PyAny>>, PyErr>;

/// One call of a body in each lane, started and not waited for.
#[pyclass(frozen, name = "_LaneRun", module = "treadle._native")]
pub(super) struct LaneRun {
    control: Py<LaneControl>,
    /// None once every lane was joined.
    started: Mutex<Option<Ends>>,
    generation: u64,
}

/// The lanes are the run's until its last thread is done with them, whether or not anybody joins it.
struct Release(Py<Lanes>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.get().release();
    }
}

/// Starts `body(lane)` in each lane and comes back. `failed()` is called by a lane that ends without having run it.
#[pyfunction]
pub(super) fn _start_lanes(
    py: Python<'_>,
    lanes: &Bound<'_, Lanes>,
    body: Py<PyAny>,
    failed: Py<PyAny>,
) -> PyResult<LaneRun> {
    for callable in [&body, &failed] {
        if !callable.bind(py).is_callable() {
            return Err(PyTypeError::new_err("body and failed must be callable"));
        }
    }
    let this = lanes.get();
    let held = this.hold(py)?;
    let control = treadle_lanes::LaneControl::new();
    this.runs_with(&control, false);
    let work = Arc::new(BodyWork {
        body,
        control: control.clone(),
        tallies: this.tallies(),
        counts: false,
        generation: this.generation(),
    });
    // Nobody in particular waits for the lanes, so a wait of theirs ends with the interpreter's threads.
    let shared = Py::new(py, LaneControl::of_nobody(control.clone()))?;
    let tickets = Ticket::for_lanes(py, this.lent(), this.lane_threads(), &shared, None)?;
    held.keep();
    let release = Release(lanes.clone().unbind());
    let all_there = Arc::new(AtomicBool::new(false));
    let gate = Arc::clone(&all_there);
    let run = move |mut lane: treadle_lanes::Lane<'_, Ticket>| {
        let index = lane.index();
        // A body may wait for what only a run that has begun brings: none begins before every thread is there.
        let ready = || gate.load(Ordering::Acquire) || lane.control().is_cancelled();
        lane.control().wait_for_lanes_or(None, ready);
        if !gate.load(Ordering::Acquire) {
            return Err(PyRuntimeError::new_err("another lane's thread did not start"));
        }
        release.0.get().run_one(index, lane.resource(), &work, &|| {
            work.control.cancel();
            Python::attach(|py| {
                if let Err(error) = failed.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        })
    };
    let started = py.detach(|| this.lane_threads().start(&control, tickets, Arc::new(run)));
    let started = started.map_err(|error| raise(py, error))?;
    all_there.store(true, Ordering::Release);
    control.ring();
    Ok(LaneRun {
        control: shared,
        started: Mutex::new(Some(started)),
        generation: this.generation(),
    })
}

#[pymethods]
impl LaneRun {
    /// The control that the lanes share.
    #[getter]
    fn control(&self, py: Python<'_>) -> Py<LaneControl> {
        self.control.clone_ref(py)
    }

    /// Waits until every lane has ended and is joined. What a signal's handler raises calls `interrupted()`, and is
    /// raised after the join.
    fn join(&self, py: Python<'_>, interrupted: &Bound<'_, PyAny>) -> PyResult<()> {
        if treadle_team::fork::generation() != self.generation {
            self.forget();
            return Ok(());
        }
        let control = self.control.get().native();
        if current_lane(py).is_some_and(|lane| lane.get().is_of(control)) {
            let message = "a lane cannot wait for the end of the run that it belongs to";
            return Err(lane_error(py, message));
        }
        let interrupt = wait_for_lanes(py, control, || {
            if let Err(error) = interrupted.call0() {
                error.write_unraisable(py, None);
            }
        });
        // Locked detached: another thread that joins may hold it while it drops what the lanes brought.
        let ends = py.detach(|| {
            let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
            started.take().map(Started::join)
        });
        drop(ends);
        interrupt.map_or(Ok(()), Err)
    }
}

impl LaneRun {
    fn forget(&self) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(started) = started {
            started.abandon();
        }
    }
}

impl Drop for LaneRun {
    fn drop(&mut self) {
        // Whoever dropped it has told the bodies to end, and must not be kept waiting in a garbage collection.
        self.forget();
    }
}
