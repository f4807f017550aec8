//! `LaneControl`: the signal that the lanes of one run share.

use std::sync::OnceLock;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// How long a thread sleeps at most before it looks for Python's signals.
pub(super) const SIGNAL_PERIOD: Duration = Duration::from_millis(50);

/// Says that a run over lanes should end. A body finds it in its lane, a coordinator is given it.
///
/// It is cancelled by a lane that raises, by the coordinator's exit, by a map that fails, is interrupted or runs out
/// of time, and by :meth:`cancel`. Nothing is torn down: bodies look at ``cancelled``, or sleep in :meth:`wait`.
///
/// Attributes
/// ----------
/// cancelled : bool
///     Whether the run should end.
///
/// Examples
/// --------
/// >>> import treadle as td
/// >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
/// ...     lanes.run(lambda lane: lane.control.cancelled)
/// [False]
#[pyclass(frozen, name = "LaneControl", module = "treadle._native")]
pub(super) struct LaneControl {
    control: treadle_lanes::LaneControl,
    /// The thread that the run belongs to, if it belongs to one.
    caller: Option<ThreadId>,
}

/// The thread that ends the interpreter, once it waits for Python's other threads.
static THREADS_END: OnceLock<ThreadId> = OnceLock::new();

/// From now on a wait without a timeout ends, in every run that is not the calling thread's: the interpreter waits
/// for the threads that wait there, and nobody else may be left to end them.
pub(super) fn threads_end() {
    let _ = THREADS_END.set(std::thread::current().id());
}

/// Whether the interpreter waits for a thread like the calling one.
pub(super) fn is_waited_for() -> bool {
    THREADS_END
        .get()
        .is_some_and(|thread| *thread != std::thread::current().id())
}

impl LaneControl {
    /// The control of a run of the calling thread's.
    pub(super) fn of_caller(control: treadle_lanes::LaneControl) -> Self {
        LaneControl {
            control,
            caller: Some(std::thread::current().id()),
        }
    }

    /// The control of a run that no thread waits for.
    pub(super) fn of_nobody(control: treadle_lanes::LaneControl) -> Self {
        LaneControl {
            control,
            caller: None,
        }
    }

    pub(super) fn native(&self) -> &treadle_lanes::LaneControl {
        &self.control
    }

    fn must_end(&self) -> bool {
        THREADS_END
            .get()
            .is_some_and(|thread| Some(*thread) != self.caller)
    }
}

#[pymethods]
impl LaneControl {
    /// Whether the run should end.
    #[getter]
    fn cancelled(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Lanes of the run that have not ended.
    #[getter]
    fn _lanes_running(&self) -> usize {
        self.control.lanes_running()
    }

    /// Ask every lane and the coordinator to end, and wake those that wait. In a map, no further item starts.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
    /// ...     lanes.run(lambda lane: (lane.control.cancel(), lane.control.cancelled))
    /// [(None, True)]
    fn cancel(&self) {
        self.control.cancel();
    }

    /// Sleep until the run is cancelled, every lane has ended, or the time is over.
    ///
    /// Parameters
    /// ----------
    /// timeout : float, optional
    ///     Seconds; without it there is no limit, but the end of the interpreter cancels a run that it would wait for.
    ///
    /// Returns
    /// -------
    /// bool
    ///     Whether the run is cancelled.
    ///
    /// Examples
    /// --------
    /// >>> import treadle as td
    /// >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
    /// ...     lanes.run(lambda lane: lane.control.wait(0.001))
    /// [False]
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = match timeout {
            None => None,
            Some(seconds) => Instant::now().checked_add(seconds_of(seconds, "timeout")?),
        };
        loop {
            py.check_signals()?;
            if timeout.is_none() && self.must_end() {
                self.cancel();
            }
            let mut slice = SIGNAL_PERIOD;
            if let Some(deadline) = deadline {
                slice = slice.min(deadline.saturating_duration_since(Instant::now()));
            }
            let cancelled = py.detach(|| self.control.wait(Some(slice)));
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if cancelled || over || self.control.lanes_running() == 0 {
                return Ok(cancelled);
            }
        }
    }

    fn __repr__(&self) -> String {
        let state = if self.control.is_cancelled() {
            "cancelled"
        } else {
            "running"
        };
        format!("<LaneControl: {state}, {} lanes>", self.control.lanes_running())
    }
}

/// A number of seconds that a clock can hold; negative is none, infinite is very long.
pub(super) fn seconds_of(seconds: f64, what: &str) -> PyResult<Duration> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err(format!(
            "{what} is nan; it is a number of seconds"
        )));
    }
    Ok(Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX))
}
