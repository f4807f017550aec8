//! Where the items of a map come from.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PyList, PyRange, PySet, PyString, PyTuple};
use treadle_lanes::{Feed, IndexQueue, Taken};

/// How long a lane sleeps at most for an item; every wake-up has an owner, this only bounds the damage of a lost one.
const PATIENCE: Duration = Duration::from_millis(100);

/// What the lanes take their items from.
pub(super) enum Source {
    /// A tuple: each lane reads the item of the index that it claimed.
    Tuple(IndexQueue, Py<PyTuple>),
    /// An arithmetic progression, which makes its items itself.
    Range(IndexQueue, i64, i64),
    /// Anything else: read by the calling thread only, a bounded number of items ahead.
    Fed(Feed<Py<PyAny>>),
}

impl Source {
    /// The source for `items`, and the iterator that the caller feeds it from, if it needs one.
    pub(super) fn of<'py>(
        items: &Bound<'py, PyAny>,
        window: usize,
    ) -> PyResult<(Self, Option<Bound<'py, PyAny>>)> {
        if let Ok(list) = items.cast_exact::<PyList>() {
            // A copy, so that a body that changes the list does not move the items under the lanes.
            let tuple = list.to_tuple();
            return Ok((Source::Tuple(IndexQueue::new(tuple.len()), tuple.unbind()), None));
        }
        if let Ok(tuple) = items.cast_exact::<PyTuple>() {
            return Ok((
                Source::Tuple(IndexQueue::new(tuple.len()), tuple.clone().unbind()),
                None,
            ));
        }
        if let Some((start, step, len)) = progression(items) {
            return Ok((Source::Range(IndexQueue::new(len), start, step), None));
        }
        if is_plain_container(items) {
            let tuple = items.try_iter()?.collect::<PyResult<Vec<_>>>()?;
            let tuple = PyTuple::new(items.py(), tuple)?;
            return Ok((Source::Tuple(IndexQueue::new(tuple.len()), tuple.unbind()), None));
        }
        let iterator = items.try_iter()?;
        Ok((Source::Fed(Feed::new(window)), Some(iterator.into_any())))
    }

    /// The number of items, where it is known before the first is read.
    pub(super) fn known_len(&self) -> Option<usize> {
        match self {
            Source::Tuple(queue, _) | Source::Range(queue, ..) => Some(queue.len()),
            Source::Fed(_) => None,
        }
    }

    /// The next item and whether the feeding thread has to be woken. Waits detached, and calls `waits` now and then.
    #[inline]
    pub(super) fn next<'py>(
        &self,
        py: Python<'py>,
        waits: impl Fn(),
    ) -> PyResult<(Option<(usize, Bound<'py, PyAny>)>, bool)> {
        match self {
            Source::Tuple(queue, items) => {
                let Some(index) = queue.claim() else {
                    return Ok((None, false));
                };
                Ok((Some((index, items.bind(py).get_item(index)?)), false))
            }
            Source::Range(queue, start, step) => {
                let Some(index) = queue.claim() else {
                    return Ok((None, false));
                };
                let value = start + step * index as i64;
                Ok((Some((index, value.into_pyobject(py)?.into_any())), false))
            }
            Source::Fed(feed) => {
                let mut answer = feed.take(Duration::ZERO);
                while matches!(answer.0, Taken::Later) {
                    waits();
                    answer = py.detach(|| feed.take(PATIENCE));
                }
                Ok(match answer {
                    (Taken::Item(index, item), wake) => (Some((index, item.into_bound(py))), wake),
                    (_, wake) => (None, wake),
                })
            }
        }
    }

    /// Item `index` failed: nothing above it starts any more.
    pub(super) fn fail(&self, index: usize) {
        match self {
            Source::Tuple(queue, _) | Source::Range(queue, ..) => queue.fail(index),
            Source::Fed(feed) => feed.fail(index),
        }
    }

    /// Whether nothing at or below item `index` has failed, and nobody stopped the source.
    pub(super) fn admits(&self, index: usize) -> bool {
        match self {
            Source::Tuple(queue, _) | Source::Range(queue, ..) => queue.admits(index),
            Source::Fed(feed) => feed.admits(index),
        }
    }

    /// Whether something failed or the source was stopped.
    #[inline]
    pub(super) fn is_stopped(&self) -> bool {
        match self {
            Source::Tuple(queue, _) | Source::Range(queue, ..) => queue.is_stopped(),
            Source::Fed(feed) => feed.is_stopped(),
        }
    }

    /// Item `index`, for whoever asks after it was handed out; only what is kept as a whole can be asked again.
    pub(super) fn item<'py>(&self, py: Python<'py>, index: usize) -> Option<Bound<'py, PyAny>> {
        match self {
            Source::Tuple(_, items) => items.bind(py).get_item(index).ok(),
            Source::Range(_, start, step) => {
                Some((start + step * index as i64).into_pyobject(py).ok()?.into_any())
            }
            Source::Fed(_) => None,
        }
    }

    /// Nothing starts any more.
    pub(super) fn stop(&self) {
        match self {
            Source::Tuple(queue, _) | Source::Range(queue, ..) => queue.stop(),
            Source::Fed(feed) => feed.stop(),
        }
    }
}

/// A container that is in memory as a whole and whose iteration runs no code of the user's: read at once.
fn is_plain_container(items: &Bound<'_, PyAny>) -> bool {
    items.is_exact_instance_of::<PyDict>()
        || items.is_exact_instance_of::<PyString>()
        || items.is_exact_instance_of::<PySet>()
        || items.is_exact_instance_of::<PyFrozenSet>()
        || items
            .get_type()
            .fully_qualified_name()
            .is_ok_and(|name| name == "numpy.ndarray")
}

/// Start, step and length of a range whose every item is an i64.
fn progression(items: &Bound<'_, PyAny>) -> Option<(i64, i64, usize)> {
    if !items.is_exact_instance_of::<PyRange>() {
        return None;
    }
    let start = items.getattr("start").ok()?.extract::<i64>().ok()?;
    let step = items.getattr("step").ok()?.extract::<i64>().ok()?;
    let len = items.len().ok()?;
    let last = i64::try_from(len).ok()?;
    start.checked_add(step.checked_mul(last)?)?;
    Some((start, step, len))
}
