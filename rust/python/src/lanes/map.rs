//! `map_in_lanes`: the work of a lane, and what becomes of what the lanes bring back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use treadle_lanes::{LaneControl, in_order, lowest};

use super::failure::{
    Failure, internal_text, is_ordinary, item_text, says_cancelled, unfinished, without_panic,
};
use super::lane::Lane;
use super::source::Source;
use super::stream::Outbox;
use super::tally::Tally;
use super::thread::LaneWork;
use crate::door::panic_text;

/// How long a lane runs callbacks that never give the interpreter back before it does so itself.
const FAIRNESS: Duration = Duration::from_millis(2);

/// What becomes of an item that failed.
pub(super) enum OnError {
    /// It ends the map.
    Raise,
    /// Its exception is its result.
    Return,
    /// What this callable makes of it is its result.
    Handle(Py<PyAny>),
}

impl OnError {
    /// From an option that Python has checked.
    pub(super) fn of(option: &Bound<'_, PyAny>) -> Self {
        match option.extract::<&str>() {
            Ok("raise") => OnError::Raise,
            Ok(_) => OnError::Return,
            Err(_) => OnError::Handle(option.clone().unbind()),
        }
    }
}

/// What all lanes of one map share.
pub(super) struct MapWork {
    pub(super) function: Py<PyAny>,
    pub(super) source: Source,
    pub(super) on_error: OnError,
    pub(super) retries: usize,
    /// From then on no item starts.
    pub(super) deadline: Option<Instant>,
    pub(super) rank: Option<usize>,
    pub(super) control: LaneControl,
    pub(super) tallies: Arc<[Tally]>,
    /// Items that are over, whatever came of them.
    pub(super) completed: AtomicUsize,
    /// Whether the calling thread wants to know of every one.
    pub(super) watched: bool,
    /// The deadline is over: what ends from now on is late.
    pub(super) expired: AtomicBool,
    /// Somebody called `control.cancel()`.
    pub(super) cancelled: AtomicBool,
    pub(super) generation: u64,
    /// Where results go at once, if somebody takes them as they come.
    pub(super) outbox: Option<Outbox>,
}

/// What one lane brings back.
#[derive(Default)]
pub(super) struct LaneMap {
    values: Vec<(usize, Py<PyAny>)>,
    late: Vec<(usize, Option<Py<PyBaseException>>)>,
    /// The lowest failure, under `OnError::Raise`.
    pub(super) failure: Option<Failure>,
    /// The lowest item that only said that it was cancelled; counts when nothing else failed.
    pub(super) cancelled: Option<Failure>,
    /// What ends the whole map: no `Exception`.
    pub(super) fatal: Option<(usize, PyErr)>,
}

impl MapWork {
    /// No item starts any more, and those that run are asked to end.
    pub(super) fn halt(&self) {
        // In this order: a lane that sees the cancel finds the source stopped, and knows that it was the map itself.
        self.source.stop();
        self.control.cancel();
    }

    /// The deadline is over.
    pub(super) fn expire(&self) {
        self.expired.store(true, Ordering::Release);
        self.halt();
    }

    /// Somebody called `cancel()`, or another lane's thread did not start: nothing starts any more.
    #[inline]
    fn look_for_cancel(&self) {
        // A map that cancels its control has stopped its source before.
        if self.control.is_cancelled() && !self.source.is_stopped() {
            self.cancelled.store(true, Ordering::Release);
            self.source.stop();
        }
    }

    /// Keeps a result, or hands it to whoever waits for it.
    #[inline]
    fn deliver(&self, out: &mut LaneMap, index: usize, value: Py<PyAny>) {
        match &self.outbox {
            None => out.values.push((index, value)),
            Some(outbox) => {
                outbox.put(index, value);
                self.control.ring();
            }
        }
    }

    fn fail(&self, index: usize) {
        self.source.fail(index);
        self.control.cancel();
    }

    /// The callback on one item, again and again while it fails and may be retried.
    #[inline]
    fn attempt<'py>(
        &self,
        py: Python<'py>,
        item: &Bound<'py, PyAny>,
        engine: &Bound<'py, PyAny>,
        index: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let function = self.function.bind(py);
        let mut left = self.retries;
        loop {
            // The interpreter hands a panic from further in on as a panic; the item fails with it, the lane does not.
            let error = match catch_unwind(AssertUnwindSafe(|| function.call1((item, engine)))) {
                Ok(Ok(value)) => return Ok(value),
                Ok(Err(error)) => without_panic(py, error),
                Err(panic) => internal_text(py, "a callback", &panic_text(&*panic)),
            };
            if left == 0 || !is_ordinary(py, &error) || self.gives_up(py, index, &error) {
                return Err(error);
            }
            left -= 1;
        }
    }

    /// Whether an item is not tried again although tries are left.
    #[cold]
    fn gives_up(&self, py: Python<'_>, index: usize, error: &PyErr) -> bool {
        if !self.source.admits(index) {
            return true;
        }
        // A failure above it also cancels the control, and must not decide whether this item fails.
        self.control.is_cancelled() && (!self.source.is_stopped() || says_cancelled(py, error))
    }

    /// Books a failed item; false when the lane is over.
    #[cold]
    fn failed(
        &self,
        item: &Bound<'_, PyAny>,
        index: usize,
        lane: usize,
        error: PyErr,
        out: &mut LaneMap,
    ) -> bool {
        let py = item.py();
        if !is_ordinary(py, &error) {
            self.halt();
            out.fatal = Some((index, error));
            return false;
        }
        if self.expired.load(Ordering::Acquire) {
            out.late.push((index, Some(error.into_value(py))));
            return true;
        }
        let error = match &self.on_error {
            OnError::Raise => error,
            OnError::Return => {
                self.deliver(out, index, error.into_value(py).into_any());
                return true;
            }
            OnError::Handle(handler) => {
                let value = error.into_value(py);
                match handler.call1(py, (index, item, &value)) {
                    Ok(value) => {
                        self.deliver(out, index, value);
                        return true;
                    }
                    Err(own) => {
                        let own = without_panic(py, own);
                        if own.context(py).is_none() {
                            own.set_context(py, Some(PyErr::from_value(value.into_bound(py).into_any())));
                        }
                        if !is_ordinary(py, &own) {
                            self.halt();
                            out.fatal = Some((index, own));
                            return false;
                        }
                        own
                    }
                }
            }
        };
        let only_cancelled = self.control.is_cancelled() && says_cancelled(py, &error);
        let failure = Failure {
            index,
            lane: Some(lane),
            rank: self.rank,
            item: Some(item_text(item)),
            error: error.into_value(py),
        };
        let place = if only_cancelled {
            &mut out.cancelled
        } else {
            self.fail(index);
            &mut out.failure
        };
        // A lane's items come in increasing order, so its first failure is its lowest.
        place.get_or_insert(failure);
        true
    }
}

impl LaneWork for MapWork {
    type Outcome = LaneMap;

    fn work(&self, py: Python<'_>, lane: usize, engine: &Bound<'_, PyAny>, _: &Bound<'_, Lane>) -> LaneMap {
        let mut out = LaneMap::default();
        let tally = &self.tallies[lane];
        let mut yielded = Instant::now();
        loop {
            self.look_for_cancel();
            let (index, item) = match self.source.next(py, || self.look_for_cancel()) {
                Ok((next, wake)) => {
                    if wake {
                        self.control.ring();
                    }
                    let Some(next) = next else { break };
                    next
                }
                Err(error) => {
                    self.halt();
                    out.fatal = Some((0, error));
                    break;
                }
            };
            let begun = Instant::now();
            if self.deadline.is_some_and(|deadline| begun >= deadline) {
                // The calling thread may be held up by its iterable or its progress callback, or be away from its
                // stream, so that it does not see the time itself.
                self.expire();
                out.late.push((index, None));
                break;
            }
            let result = self.attempt(py, &item, engine, index);
            if treadle_team::fork::generation() != self.generation {
                super::thread::end_forked_child(py, result.err());
            }
            let go_on = match result {
                Ok(_) if self.expired.load(Ordering::Acquire) => {
                    out.late.push((index, None));
                    true
                }
                Ok(value) => {
                    self.deliver(&mut out, index, value.unbind());
                    true
                }
                Err(error) => self.failed(&item, index, lane, error, &mut out),
            };
            drop(item);
            let now = Instant::now();
            tally.add(now - begun);
            self.completed.fetch_add(1, Ordering::AcqRel);
            if self.watched {
                self.control.ring();
            }
            if !go_on {
                break;
            }
            if now - yielded > FAIRNESS {
                py.detach(|| ());
                yielded = now;
            }
        }
        out
    }
}

/// What the calling thread brings back.
#[derive(Default)]
pub(super) struct CallerEnd {
    /// Items that were read.
    pub(super) read: usize,
    /// Nothing is left to read.
    pub(super) exhausted: bool,
    /// A signal's handler raised.
    pub(super) interrupt: Option<PyErr>,
    /// The progress callback raised.
    pub(super) progress: Option<PyErr>,
    /// The iterable raised.
    pub(super) source: Option<PyErr>,
}

/// The ordered results, or the one exception that the map raises.
pub(super) fn conclude(
    py: Python<'_>,
    work: &MapWork,
    lanes: Vec<LaneMap>,
    caller: CallerEnd,
    total: Option<usize>,
) -> PyResult<Vec<Py<PyAny>>> {
    let (mut values, mut late) = (Vec::new(), Vec::new());
    let (mut failures, mut cancelled, mut fatal) = (Vec::new(), Vec::new(), Vec::new());
    for lane in lanes {
        values.push(lane.values);
        late.extend(lane.late);
        failures.extend(lane.failure.map(|failure| (failure.index, failure)));
        cancelled.extend(lane.cancelled.map(|failure| (failure.index, failure)));
        fatal.extend(lane.fatal);
    }
    if let Some(error) = caller.interrupt {
        return Err(error);
    }
    // Ctrl-C may arrive in the middle of the callback or the iterable; no failure of an item hides it.
    for error in [&caller.progress, &caller.source].into_iter().flatten() {
        if !is_ordinary(py, error) {
            return Err(error.clone_ref(py));
        }
    }
    if let Some((_, error)) = lowest(fatal) {
        return Err(error);
    }
    let failure = lowest(failures).map(|(_, failure)| failure);
    let end = match (failure, caller.progress, caller.source) {
        (Some(failure), progress, _) => {
            let raised = failure.raise(py);
            if progress.is_some() {
                raised.set_context(py, progress);
            }
            Some(raised)
        }
        (None, Some(progress), _) => Some(progress),
        (None, None, Some(error)) => {
            let error = error.into_value(py);
            Some(
                Failure {
                    index: caller.read,
                    lane: None,
                    rank: work.rank,
                    item: None,
                    error,
                }
                .raise(py),
            )
        }
        (None, None, None) => None,
    };
    if let Some(error) = end {
        return Err(error);
    }
    let expired = work.expired.load(Ordering::Acquire);
    if !expired && let Some((_, failure)) = lowest(cancelled) {
        return Err(failure.raise(py));
    }
    let why = if expired {
        "the deadline of the map is over"
    } else {
        "the map was cancelled"
    };
    // Cut short, items that were never read are unfinished as well, as far as their number is known.
    let cut = !caller.exhausted && (expired || work.cancelled.load(Ordering::Acquire));
    let mut count = caller.read;
    if cut {
        count += usize::from(matches!(work.on_error, OnError::Raise));
        count = count.max(total.unwrap_or(0));
    }
    let mut ordered = Vec::with_capacity(count);
    for (index, value) in in_order(count, values).into_iter().enumerate() {
        if let Some(value) = value {
            ordered.push(value);
            continue;
        }
        let raised = late
            .iter_mut()
            .find(|(late, _)| *late == index)
            .and_then(|(_, error)| error.take());
        let error = unfinished(py, index, why, work.rank, raised);
        ordered.push(match &work.on_error {
            OnError::Raise => return Err(PyErr::from_value(error.into_bound(py).into_any())),
            OnError::Return => error.into_any(),
            OnError::Handle(handler) => handler.call1(py, (index, work.source.item(py, index), error))?,
        });
    }
    Ok(ordered)
}
