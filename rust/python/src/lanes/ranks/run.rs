//! The lanes of one rank, started; the caller goes on, talks to the other ranks, and joins them.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use treadle_lanes::{End, Started};

use crate::lanes::body::body_values;
use crate::lanes::caller::wait_for_lanes;
use crate::lanes::control::LaneControl;
use crate::lanes::failure::internal;
use crate::lanes::pool::Lanes;

/// What a body brought back, or what failed around it.
pub(in crate::lanes) type Bodies = Started<PyResult<Py<PyAny>>, PyErr>;

/// Started lanes. They end when the bodies return, so the caller ends those before it joins.
#[pyclass(frozen, name = "RankRun", module = "treadle._native")]
pub(in crate::lanes) struct RankRun {
    lanes: Py<Lanes>,
    control: treadle_lanes::LaneControl,
    shared: Py<LaneControl>,
    started: Mutex<Option<Bodies>>,
}

impl RankRun {
    pub(in crate::lanes) fn new(
        lanes: Py<Lanes>,
        control: treadle_lanes::LaneControl,
        shared: Py<LaneControl>,
        started: Bodies,
    ) -> Self {
        RankRun {
            lanes,
            control,
            shared,
            started: Mutex::new(Some(started)),
        }
    }

    fn take(&self) -> Option<Bodies> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl RankRun {
    #[getter]
    fn control(&self, py: Python<'_>) -> Py<LaneControl> {
        self.shared.clone_ref(py)
    }

    /// Waits for the lanes and gives them back; raises what a body raised. Joining twice is nothing.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        let Some(started) = self.take() else {
            return Ok(());
        };
        let interrupt = wait_for_lanes(py, &self.control, || ());
        let ends = py.detach(|| started.join());
        self.lanes.get().release();
        if let Some(error) = interrupt {
            return Err(error);
        }
        let mut values = Vec::with_capacity(ends.len());
        for (lane, end) in ends.into_iter().enumerate() {
            match end {
                End::Value(value) => values.push(value),
                End::Error(error) => return Err(error),
                End::Panic(panic) => return Err(internal(py, &format!("lane {lane}"), &panic)),
            }
        }
        body_values(py, values).map(drop)
    }
}

impl Drop for RankRun {
    fn drop(&mut self) {
        // Nobody is left who could end the bodies, so nobody may wait for them.
        if let Some(started) = self.take() {
            self.control.cancel();
            started.abandon();
            self.lanes.get().release();
        }
    }
}
