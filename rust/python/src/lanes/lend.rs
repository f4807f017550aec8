//! How lanes are lent to a run: to one at a time, and back when it is over.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::thread::ThreadId;

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_lanes::LaneThreads;

use super::body::Ended;
use super::control::{LaneControl, SIGNAL_PERIOD};
use super::failure::lane_error;
use super::lane::current_lane;
use super::pool::Lanes;
use super::tally::Tally;
use super::thread::{LaneWork, Ticket, run_lane};
use crate::errors::raise;

/// No lane: the place of the panic that a test asks for.
pub(super) const NOWHERE: usize = usize::MAX;

/// The thread that ends the interpreter, once it does. Another one must not be inside a run any more when Python has
/// ended: it would be killed there, and that aborts the process.
static ENDING: OnceLock<ThreadId> = OnceLock::new();

/// The calling thread ends the interpreter.
pub(super) fn interpreter_ends() {
    let _ = ENDING.set(std::thread::current().id());
}

/// The lanes are this run's until it is dropped.
pub(super) struct Held<'a> {
    lanes: &'a Lanes,
    kept: bool,
}

impl Held<'_> {
    /// Leaves the lanes taken; `Lanes::release` gives them back.
    pub(super) fn keep(mut self) {
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
    pub(super) fn hold(&self, py: Python<'_>) -> PyResult<Held<'_>> {
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
    pub(super) fn run_one<W: LaneWork + 'static>(
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
    pub(super) fn runs_with(&self, control: &treadle_lanes::LaneControl, bodies: bool) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some((control.clone(), bodies));
    }

    pub(super) fn lent(&self) -> &[Py<PyAny>] {
        &self.engines
    }

    pub(super) fn lane_threads(&self) -> &LaneThreads {
        &self.threads
    }

    pub(super) fn tallies(&self) -> Arc<[Tally]> {
        Arc::clone(&self.tallies)
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// A run is over, also one that outlived its call.
    pub(super) fn release(&self) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.busy.store(false, Ordering::Release);
    }

    /// Runs `work` in every lane and `attend` on this thread, at once unless the caller is `idle`; everything is joined
    /// when it returns.
    pub(super) fn execute<W: LaneWork + 'static, C: Send>(
        &self,
        py: Python<'_>,
        control: &Py<LaneControl>,
        rank: Option<usize>,
        work: &Arc<W>,
        halt: impl Fn() + Send + Sync,
        idle: bool,
        attend: impl FnOnce(Python<'_>, &treadle_lanes::LaneControl) -> C + Send,
    ) -> PyResult<Ended<W, C>> {
        let mut tickets = Ticket::for_lanes(py, &self.engines, &self.threads, control, rank)?;
        let control = control.get().native().clone();
        let report = py.detach(|| {
            self.threads.report(
                &control,
                &mut tickets,
                |mut lane| self.run_one(lane.index(), lane.resource(), work, &halt),
                |control| {
                    if idle {
                        // Nothing to do for the first look at the signals' time: a caller that asked for the interpreter
                        // now would only stand in the way of the lanes.
                        control.wait_for_lanes(Some(SIGNAL_PERIOD));
                    }
                    Ok(Python::attach(|py| attend(py, control)))
                },
            )
        });
        report.map_err(|error| raise(py, error))
    }
}

/// A lane that fails in its surroundings takes no further items, and lets the others take none.
pub(super) struct HaltOnFailure<F: Fn()> {
    halt: F,
    armed: bool,
}

impl<F: Fn()> HaltOnFailure<F> {
    pub(super) fn armed(halt: F) -> Self {
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
