//! `LaneControl`: the signal that the lanes of one run share.

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
pub(super) struct LaneControl(pub(super) treadle_lanes::LaneControl);

#[pymethods]
impl LaneControl {
    /// Whether the run should end.
    #[getter]
    fn cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Lanes of the run that have not ended.
    #[getter]
    fn _lanes_running(&self) -> usize {
        self.0.lanes_running()
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
        self.0.cancel();
    }

    /// Sleep until the run is cancelled, every lane has ended, or the time is over.
    ///
    /// Parameters
    /// ----------
    /// timeout : float, optional
    ///     Seconds; without it there is no limit.
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
            let mut slice = SIGNAL_PERIOD;
            if let Some(deadline) = deadline {
                slice = slice.min(deadline.saturating_duration_since(Instant::now()));
            }
            let cancelled = py.detach(|| self.0.wait(Some(slice)));
            let over = deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if cancelled || over || self.0.lanes_running() == 0 {
                return Ok(cancelled);
            }
        }
    }

    fn __repr__(&self) -> String {
        let state = if self.0.is_cancelled() {
            "cancelled"
        } else {
            "running"
        };
        format!("<LaneControl: {state}, {} lanes>", self.0.lanes_running())
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
