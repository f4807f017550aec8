//! A lane's thread as Python sees it: attached for the run, with a name, the tracing hooks of `threading`, and the
//! caller's context variables.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use treadle_lanes::LaneThreads;

use super::control::LaneControl;
use super::failure::without_panic;
use super::lane::{Lane, Occupied};

/// What the lanes of a run do.
pub(super) trait LaneWork: Send + Sync {
    /// What one lane brings back.
    type Outcome: Send + 'static;

    /// The lane's whole work, attached, in the caller's context.
    fn work(
        &self,
        py: Python<'_>,
        index: usize,
        engine: &Bound<'_, PyAny>,
        lane: &Bound<'_, Lane>,
    ) -> Self::Outcome;
}

/// Everything that a lane's thread needs, made by the calling thread.
pub(super) struct Ticket {
    index: usize,
    engine: Py<PyAny>,
    lane: Py<Lane>,
    context: Py<PyAny>,
    name: String,
}

impl Ticket {
    /// One for each engine. The context is copied here, so the lanes see what the caller sees now.
    pub(super) fn for_lanes(
        py: Python<'_>,
        engines: &[Py<PyAny>],
        threads: &LaneThreads,
        control: &Py<LaneControl>,
        rank: Option<usize>,
    ) -> PyResult<Vec<Ticket>> {
        // Imported by the caller: an import lock is then nothing that a lane may meet.
        runner(py)?;
        let context = py.import("contextvars")?.getattr("copy_context")?;
        engines
            .iter()
            .enumerate()
            .map(|(index, engine)| {
                let lane = Lane::new(index, engine.clone_ref(py), control.clone_ref(py), rank);
                Ok(Ticket {
                    index,
                    engine: engine.clone_ref(py),
                    lane: Py::new(py, lane)?,
                    context: context.call0()?.unbind(),
                    name: threads.name_of(index),
                })
            })
            .collect()
    }
}

fn runner(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    static RUN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUN.get_or_try_init(py, || {
        Ok(py
            .import("treadle.lanes.thread")?
            .getattr("run_as_lane")?
            .unbind())
    })
    .map(|run| run.bind(py))
}

/// The function that Python calls inside the context; it calls back into the work.
#[pyclass(frozen, name = "_LaneEntry", module = "treadle._native")]
struct LaneEntry(Box<dyn Fn(Python<'_>) + Send + Sync>);

#[pymethods]
impl LaneEntry {
    fn __call__(&self, py: Python<'_>) {
        (self.0)(py);
    }
}

/// The body of a lane's thread: attaches, enters the context, works. `Err` is a failure of the surroundings.
pub(super) fn run_lane<W: LaneWork + 'static>(ticket: &Ticket, work: &Arc<W>) -> PyResult<W::Outcome> {
    Python::attach(|py| {
        let outcome = Arc::new(Mutex::new(None));
        let (place, work) = (Arc::clone(&outcome), Arc::clone(work));
        let (index, engine, lane) = (
            ticket.index,
            ticket.engine.clone_ref(py),
            ticket.lane.clone_ref(py),
        );
        let entry = LaneEntry(Box::new(move |py| {
            let occupied = Occupied::by(lane.clone_ref(py));
            let value = work.work(py, index, engine.bind(py), lane.bind(py));
            drop(occupied);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        }));
        let entry = Py::new(py, entry)?;
        let called = runner(py)?.call1((&ticket.name, &ticket.context, &entry));
        let value = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (called, value) {
            // The work was done; what the surroundings say afterwards (a trace hook that raises) does not undo it.
            (_, Some(value)) => Ok(value),
            (Err(error), None) => Err(without_panic(py, error)),
            (Ok(_), None) => Err(super::failure::lane_error(py, "a lane ended without having run")),
        }
    })
}

/// A callback forked and its child came back from it: the child has this thread alone, and the run belongs to the
/// parent. Ends the child with 0, or with what the exception says.
#[cold]
pub(super) fn end_forked_child(py: Python<'_>, error: Option<PyErr>) -> ! {
    let end = || -> PyResult<()> {
        let end = py.import("treadle.lanes.thread")?.getattr("end_forked_child")?;
        end.call1((error.map(|error| error.into_value(py)),)).map(drop)
    };
    let _ = end();
    std::process::abort()
}
