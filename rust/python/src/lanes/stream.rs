//! `imap_in_lanes`: results are taken as they come, a bounded number of items ahead.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration, PyValueError};
use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_lanes::{End, Started, lowest};

use super::caller::{look_for_signals, wait_for_lanes};
use super::control::SIGNAL_PERIOD;
use super::failure::{Failure, internal, is_ordinary, unfinished};
use super::lane::current_lane;
use super::map::{LaneMap, MapWork};
use super::pool::Lanes;
use super::source::Source;
use crate::errors::raise;

/// Results that nobody has taken yet.
#[derive(Default)]
pub(super) struct Outbox(Mutex<BTreeMap<usize, Py<PyAny>>>);

impl Outbox {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, index: usize, value: Py<PyAny>) {
        self.lock().insert(index, value);
    }

    /// The result of that index, or any result.
    fn take(&self, index: Option<usize>) -> Option<Py<PyAny>> {
        let mut values = self.lock();
        match index {
            Some(index) => values.remove(&index),
            None => values.pop_first().map(|(_, value)| value),
        }
    }

    fn has(&self, index: Option<usize>) -> bool {
        let values = self.lock();
        index.map_or(!values.is_empty(), |index| values.contains_key(&index))
    }
}

/// What a stream is asked for.
pub(super) struct StreamOptions {
    pub(super) ordered: bool,
    pub(super) window: usize,
    pub(super) progress: Option<Py<PyAny>>,
    /// Called when the lanes were joined.
    pub(super) finish: Option<Py<PyAny>>,
    pub(super) total: Option<usize>,
    pub(super) deadline: Option<Instant>,
}

/// The iterator. Its lanes run until it ends, is closed, or is dropped.
#[pyclass(frozen, weakref, name = "LaneStream", module = "treadle._native")]
pub(super) struct LaneStream {
    work: Arc<MapWork>,
    lanes: Py<Lanes>,
    options: StreamOptions,
    state: Mutex<State>,
}

struct State {
    /// None once every lane was joined.
    started: Option<Started<LaneMap, PyErr>>,
    iterator: Option<Py<PyAny>>,
    exhausted: bool,
    read: usize,
    given: usize,
    reported: usize,
    deadline: Option<Instant>,
    source_error: Option<PyErr>,
    progress_failed: bool,
}

impl LaneStream {
    pub(super) fn new(
        work: Arc<MapWork>,
        lanes: Py<Lanes>,
        options: StreamOptions,
        started: Started<LaneMap, PyErr>,
        iterator: Py<PyAny>,
    ) -> Self {
        let state = State {
            started: Some(started),
            iterator: Some(iterator),
            exhausted: false,
            read: 0,
            given: 0,
            reported: 0,
            deadline: options.deadline,
            source_error: None,
            progress_failed: false,
        };
        LaneStream {
            work,
            lanes,
            options,
            state: Mutex::new(state),
        }
    }

    /// The state, unless another thread (or the iterable itself) is inside.
    fn enter(&self) -> PyResult<MutexGuard<'_, State>> {
        self.state
            .try_lock()
            .map_err(|_| PyValueError::new_err("the iterator is already being advanced"))
    }

    /// Ends the lanes and gives them back. Running items finish; what they bring is dropped.
    fn shut(&self, py: Python<'_>, state: &mut State) -> (Vec<End<LaneMap, PyErr>>, Option<PyErr>) {
        let Some(started) = state.started.take() else {
            return (Vec::new(), None);
        };
        state.iterator = None;
        if treadle_team::fork::generation() != self.work.generation {
            started.abandon();
            return (Vec::new(), None);
        }
        self.work.halt();
        if current_lane(py).is_some_and(|lane| lane.get().is_of(&self.work.control)) {
            // Dropped or closed by one of its own lanes, which cannot wait for itself. All of them end by themselves, and
            // what belongs to the stream goes with the last of them.
            started.abandon();
            self.lanes.get().release();
            return (Vec::new(), None);
        }
        let interrupt = wait_for_lanes(py, &self.work.control, || ());
        let ends = py.detach(|| started.join());
        self.lanes.get().release();
        (ends, interrupt.or(self.finish(py)))
    }

    /// Ends what belongs to the stream, such as a bar. Called once, by whoever took the lanes out of the state.
    fn finish(&self, py: Python<'_>) -> Option<PyErr> {
        self.options.finish.as_ref()?.call0(py).err()
    }

    /// Feeds, tells the progress, and looks at the clock and the signals.
    fn attend(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let mut raised = None;
        look_for_signals(py, &mut raised, || self.work.halt());
        if let Some(error) = raised {
            self.shut(py, state);
            return Err(error);
        }
        if state.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            state.deadline = None;
            self.work.expire();
        }
        self.report(py, state)?;
        self.feed(py, state);
        Ok(())
    }

    /// A forked child has none of the lanes, and would wait for them for ever.
    fn refuse_in_child(&self, py: Python<'_>) -> PyResult<()> {
        if treadle_team::fork::generation() == self.work.generation {
            return Ok(());
        }
        Err(raise(
            py,
            Error::new(
                ErrorCode::ForkedEngine,
                "the process was forked after this map was started; its results belong to the parent",
            ),
        ))
    }

    fn report(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let Some(progress) = &self.options.progress else {
            return Ok(());
        };
        while !state.progress_failed && state.reported < self.work.completed.load(Ordering::Acquire) {
            state.reported += 1;
            if let Err(error) = progress.call1(py, (state.reported, self.options.total)) {
                state.progress_failed = true;
                self.shut(py, state);
                return Err(not_the_end(py, error));
            }
        }
        Ok(())
    }

    /// Reads items while the window has room for them.
    fn feed(&self, py: Python<'_>, state: &mut State) {
        let Source::Fed(feed) = &self.work.source else {
            return;
        };
        while let Some(iterator) = &state.iterator {
            if !feed.is_stopped() {
                if state.read - state.given >= self.options.window || !feed.has_room() {
                    return;
                }
                match iterator
                    .bind(py)
                    .try_iter()
                    .and_then(|mut items| items.next().transpose())
                {
                    Ok(Some(item)) => {
                        feed.push(item.unbind());
                        state.read += 1;
                        continue;
                    }
                    Ok(None) => state.exhausted = true,
                    Err(error) => {
                        if !is_ordinary(py, &error) {
                            self.work.halt();
                        }
                        state.source_error = Some(error);
                    }
                }
            }
            state.iterator = None;
            feed.close();
        }
    }

    /// All lanes are over and nothing is left to give: the end, or the failure that counts.
    fn conclude(&self, py: Python<'_>, state: &mut State) -> PyResult<()> {
        let given = state.given;
        let (ends, interrupt) = self.shut(py, state);
        if let Some(error) = interrupt {
            return Err(error);
        }
        // Ctrl-C may arrive in the middle of the iterable; no failure of an item hides it.
        if let Some(error) = state.source_error.take_if(|error| !is_ordinary(py, error)) {
            return Err(error);
        }
        let (mut failures, mut cancelled, mut fatal, mut fault) = (Vec::new(), Vec::new(), Vec::new(), None);
        for (lane, end) in ends.into_iter().enumerate() {
            match end {
                End::Value(map) => {
                    failures.extend(map.failure.map(|failure| (failure.index, failure)));
                    cancelled.extend(map.cancelled.map(|failure| (failure.index, failure)));
                    fatal.extend(map.fatal);
                }
                End::Error(error) => {
                    fault.get_or_insert(error);
                }
                End::Panic(panic) => {
                    fault.get_or_insert(internal(py, &format!("lane {lane}"), &panic));
                }
            }
        }
        if let Some((_, error)) = lowest(fatal) {
            return Err(error);
        }
        if let Some(error) = fault {
            return Err(error);
        }
        if let Some((_, failure)) = lowest(failures) {
            return Err(failure.raise(py));
        }
        if let Some(error) = state.source_error.take() {
            let error = error.into_value(py);
            return Err(Failure {
                index: state.read,
                lane: None,
                rank: None,
                item: None,
                error,
            }
            .raise(py));
        }
        let expired = self.work.expired.load(Ordering::Acquire);
        if !expired && let Some((_, failure)) = lowest(cancelled) {
            return Err(failure.raise(py));
        }
        if !state.exhausted || given < state.read {
            let why = if expired {
                "the deadline of the map is over"
            } else {
                "the map was cancelled"
            };
            let error = unfinished(py, given, why, None, None);
            return Err(PyErr::from_value(error.into_bound(py).into_any()));
        }
        Ok(())
    }
}

/// A `StopIteration` of a callback would end the iteration as if nothing had happened; as in a generator it becomes a
/// `RuntimeError`.
#[cold]
fn not_the_end(py: Python<'_>, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyStopIteration>(py) {
        return error;
    }
    let made = PyRuntimeError::new_err("the progress callback raised StopIteration");
    made.set_cause(py, Some(error));
    made
}

#[pymethods]
impl LaneStream {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut state = self.enter()?;
        let Some(outbox) = &self.work.outbox else {
            return Ok(None);
        };
        while state.started.is_some() {
            self.refuse_in_child(py)?;
            self.attend(py, &mut state)?;
            self.refuse_in_child(py)?;
            let wanted = self.options.ordered.then_some(state.given);
            // Looked at before the outbox: what a lane brings before it ends is then in the outbox.
            let over = self.work.control.lanes_running() == 0;
            if let Some(value) = outbox.take(wanted) {
                state.given += 1;
                return Ok(Some(value));
            }
            if over {
                self.report(py, &mut state)?;
                return self.conclude(py, &mut state).map(|()| None);
            }
            let mut slice = SIGNAL_PERIOD;
            if let Some(deadline) = state.deadline {
                slice = slice.min(deadline.saturating_duration_since(Instant::now()));
            }
            let (reported, feeds) = (state.reported, state.iterator.is_some());
            let in_flight = state.read - state.given;
            let (work, options) = (&self.work, &self.options);
            py.detach(|| {
                work.control.wait_for_lanes_or(Some(slice), || {
                    let room = feeds
                        && in_flight < options.window
                        && matches!(&work.source, Source::Fed(feed) if feed.has_room());
                    let news = work.watched && work.completed.load(Ordering::Acquire) > reported;
                    room || news || outbox.has(wanted)
                })
            });
        }
        Ok(None)
    }

    /// Ends the map: no item starts any more, those that run finish, the lanes are free again. Closing twice is nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = self.enter()?;
        let (_, interrupt) = self.shut(py, &mut state);
        interrupt.map_or(Ok(()), Err)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close(py)
    }
}

impl Drop for LaneStream {
    fn drop(&mut self) {
        Python::attach(|py| {
            let Ok(mut state) = self.state.try_lock() else {
                return;
            };
            // Nobody is left to raise to; a signal's exception is for whoever runs next.
            if let (_, Some(error)) = self.shut(py, &mut state) {
                error.write_unraisable(py, None);
            }
        });
    }
}
