//! The calling thread's part of a run: it waits detached and looks for signals.

use pyo3::prelude::*;

use super::control::SIGNAL_PERIOD;

/// Waits until every lane has ended. A signal handler that raises ends the run early: `interrupt` is called, the
/// lanes are waited for all the same, and the first exception comes back. Further signals are handled and what their
/// handlers raise is dropped, so that a second Ctrl-C does not leave lanes behind.
pub(super) fn wait_for_lanes(
    py: Python<'_>,
    control: &treadle_lanes::LaneControl,
    interrupt: impl Fn(),
) -> Option<PyErr> {
    let mut raised = None;
    loop {
        look_for_signals(py, &mut raised, &interrupt);
        if py.detach(|| control.wait_for_lanes(Some(SIGNAL_PERIOD))) {
            return raised;
        }
    }
}

/// Runs the handlers of the signals that arrived; the first exception is kept and interrupts the run.
pub(super) fn look_for_signals(py: Python<'_>, raised: &mut Option<PyErr>, interrupt: impl Fn()) {
    if let Err(error) = py.check_signals() {
        interrupt();
        raised.get_or_insert(error);
    }
}
