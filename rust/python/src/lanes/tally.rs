//! What an engine is to its lane, and what the lane has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use treadle_core::{Error, ErrorCode};

use crate::errors::raise;

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

    /// Items and time of all lanes together.
    pub(super) fn sum(tallies: &[Tally]) -> (u64, Duration) {
        let (mut items, mut nanoseconds) = (0, 0);
        for tally in tallies {
            items += tally.items.load(Ordering::Relaxed);
            nanoseconds += tally.busy_ns.load(Ordering::Relaxed);
        }
        (items, Duration::from_nanos(nanoseconds))
    }
}

/// One row for each lane.
pub(super) fn describe<'py>(
    py: Python<'py>,
    tallies: &[Tally],
    widths: &[usize],
) -> PyResult<Bound<'py, PyList>> {
    let rows = PyList::empty(py);
    for (index, (tally, width)) in tallies.iter().zip(widths).enumerate() {
        let row = PyDict::new(py);
        row.set_item("index", index)?;
        row.set_item("threads", width)?;
        row.set_item("items", tally.items.load(Ordering::Relaxed))?;
        row.set_item(
            "busy_seconds",
            tally.busy_ns.load(Ordering::Relaxed) as f64 * 1e-9,
        )?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// The width of an engine, whatever kind of engine it is.
pub(super) fn width_of(index: usize, engine: &Bound<'_, PyAny>) -> PyResult<usize> {
    let read = || -> PyResult<(usize, String)> {
        Ok((
            engine.getattr("threads")?.extract()?,
            engine.getattr("state")?.extract()?,
        ))
    };
    let (threads, state) = read().map_err(|_| {
        let given = engine
            .get_type()
            .qualname()
            .map_or_else(|_| "an object".to_owned(), |name| name.to_string());
        PyTypeError::new_err(format!(
            "engines[{index}] is a {given}, not an engine (it has no .threads and .state)"
        ))
    })?;
    if state == "closed" {
        let message = format!("engines[{index}] was closed; give each lane an open engine");
        return Err(raise(
            engine.py(),
            Error::new(ErrorCode::EngineClosed, message).with("index", index),
        ));
    }
    Ok(threads)
}
