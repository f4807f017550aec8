//! What the lanes of a rank ask before and after each item.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use treadle_lanes::ranks::{Desk, How};

/// How an item ended, from the number that Python has for it.
pub(super) fn how_of(how: u8) -> PyResult<How> {
    How::of(how).ok_or_else(|| PyValueError::new_err(format!("{how} is no way in which an item ends")))
}

/// Shared by the lanes of a rank.
#[pyclass(frozen, name = "RankDesk", module = "treadle._native")]
pub(in crate::lanes) struct RankDesk(Desk);

#[pymethods]
impl RankDesk {
    #[new]
    fn new(retries: u64, stops: bool) -> Self {
        RankDesk(Desk::new(retries, stops))
    }

    #[getter]
    fn stopped(&self) -> bool {
        self.0.is_stopped()
    }

    fn admits(&self, index: u64) -> bool {
        self.0.admits(index)
    }

    fn again(&self, index: u64, failures: u64, cancelled: bool, gave_up: bool) -> bool {
        self.0.again(index, failures, cancelled, gave_up)
    }

    fn ended(&self, index: u64, how: u8) -> PyResult<bool> {
        Ok(self.0.ended(index, how_of(how)?))
    }

    fn stop_at(&self, cutoff: u64) {
        self.0.stop_at(cutoff);
    }
}
