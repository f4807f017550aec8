//! `lanes.run`: one call of the body in each lane, and what a run's outcomes amount to.

use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use treadle_lanes::{End, Report};

use super::failure::{Failure, internal, is_ordinary, says_cancelled, without_panic};
use super::lane::Lane;
use super::tally::Tally;
use super::thread::LaneWork;

/// Every outcome of a run.
pub(super) type Ended<W, C> = Report<<W as LaneWork>::Outcome, PyErr, C, PyErr>;

/// The outcomes, or the exception for the first lane that panicked or failed in its surroundings.
pub(super) fn outcomes<W: LaneWork, C>(
    py: Python<'_>,
    report: Ended<W, C>,
) -> (Vec<W::Outcome>, Option<C>, Option<PyErr>) {
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
pub(super) struct BodyWork {
    pub(super) body: Py<PyAny>,
    pub(super) control: treadle_lanes::LaneControl,
    pub(super) tallies: Arc<[Tally]>,
    /// Whether the body itself is what the lane has done.
    pub(super) counts: bool,
    pub(super) generation: u64,
}

impl LaneWork for BodyWork {
    type Outcome = PyResult<Py<PyAny>>;

    fn work(
        &self,
        py: Python<'_>,
        index: usize,
        _: &Bound<'_, PyAny>,
        lane: &Bound<'_, Lane>,
    ) -> Self::Outcome {
        let begun = Instant::now();
        let result = self
            .body
            .call1(py, (lane,))
            .map_err(|error| without_panic(py, error));
        if treadle_team::fork::generation() != self.generation {
            super::thread::end_forked_child(py, result.err());
        }
        if result.is_err() {
            self.control.cancel();
        }
        if self.counts {
            self.tallies[index].add(begun.elapsed());
        }
        result
    }
}

/// The values of the bodies, or the exception of the lowest lane: what is no `Exception` first, then the first that
/// says more than that it was cancelled.
pub(super) fn body_values(py: Python<'_>, ends: Vec<PyResult<Py<PyAny>>>) -> PyResult<Vec<Py<PyAny>>> {
    let (mut values, mut failed, mut cancelled) = (Vec::with_capacity(ends.len()), None, None);
    for (lane, end) in ends.into_iter().enumerate() {
        match end {
            Ok(value) => values.push(value),
            Err(error) if !is_ordinary(py, &error) => return Err(error),
            Err(error) => {
                let place = if says_cancelled(py, &error) {
                    &mut cancelled
                } else {
                    &mut failed
                };
                place.get_or_insert((lane, error));
            }
        }
    }
    match failed.or(cancelled) {
        None => Ok(values),
        Some((lane, error)) => {
            let error = error.into_value(py);
            Err(Failure {
                index: lane,
                lane: Some(lane),
                rank: None,
                item: None,
                error,
            }
            .raise_for_lane(py))
        }
    }
}
