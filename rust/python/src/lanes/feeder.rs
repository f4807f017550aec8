//! What the calling thread does during a map: reads the items that are read lazily, tells the progress, watches the
//! deadline and the signals, and sleeps detached in between.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use treadle_lanes::{LaneControl, lookahead};

use super::caller::look_for_signals;
use super::control::SIGNAL_PERIOD;
use super::failure::is_ordinary;
use super::map::{CallerEnd, MapWork};
use super::source::Source;
use super::tally::Tally;
use super::thread::end_forked_child;

/// The calling thread of one map.
pub(super) struct Caller<'a, 'py> {
    py: Python<'py>,
    work: &'a MapWork,
    iterator: Option<Bound<'py, PyAny>>,
    /// Items and time of the lanes before this run, and whether as much waits as may.
    before: (u64, Duration),
    full: bool,
    progress: Option<Bound<'py, PyAny>>,
    total: Option<usize>,
    deadline: Option<Instant>,
    reported: usize,
    end: CallerEnd,
}

/// Lanes that wait for an item are released however the caller leaves.
struct StopOnExit<'a>(&'a MapWork);

impl Drop for StopOnExit<'_> {
    fn drop(&mut self) {
        self.0.source.stop();
    }
}

impl<'a, 'py> Caller<'a, 'py> {
    pub(super) fn new(
        py: Python<'py>,
        work: &'a MapWork,
        iterator: Option<Bound<'py, PyAny>>,
        progress: Option<Bound<'py, PyAny>>,
        total: Option<usize>,
        deadline: Option<Instant>,
    ) -> Self {
        let read = work.source.known_len().unwrap_or(0);
        let end = CallerEnd {
            read,
            exhausted: iterator.is_none(),
            ..CallerEnd::default()
        };
        Caller {
            py,
            work,
            iterator,
            before: Tally::sum(&work.tallies),
            full: false,
            progress,
            total,
            deadline,
            reported: 0,
            end,
        }
    }

    /// Until every lane has ended.
    pub(super) fn attend(mut self, control: &LaneControl) -> CallerEnd {
        let _guard = StopOnExit(self.work);
        loop {
            look_for_signals(self.py, &mut self.end.interrupt, || self.work.halt());
            self.watch_deadline();
            self.report();
            let more = self.feed();
            self.end_if_forked();
            if more {
                continue;
            }
            let mut slice = SIGNAL_PERIOD;
            if let Some(deadline) = self.deadline {
                slice = slice.min(deadline.saturating_duration_since(Instant::now()));
            }
            let (feeds, reported) = (self.iterator.is_some(), self.reported);
            let (work, watched) = (self.work, self.progress.is_some());
            let ended = self.py.detach(|| {
                control.wait_for_lanes_or(Some(slice), || {
                    let room = feeds && matches!(&work.source, Source::Fed(feed) if feed.has_room());
                    let news = watched && work.completed.load(Ordering::Acquire) > reported;
                    room || news
                })
            });
            if ended {
                self.report();
                self.end_if_forked();
                return self.end;
            }
        }
    }

    /// The iterable, the progress callback or a signal's handler forked: the child has none of the lanes.
    fn end_if_forked(&mut self) {
        if treadle_team::fork::generation() != self.work.generation {
            let error = self.end.interrupt.take();
            let error = error.or(self.end.progress.take()).or(self.end.source.take());
            end_forked_child(self.py, error);
        }
    }

    fn watch_deadline(&mut self) {
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.deadline = None;
            self.work.expire();
        }
    }

    /// Tells every completion, one by one.
    fn report(&mut self) {
        while let Some(progress) = &self.progress {
            if self.reported >= self.work.completed.load(Ordering::Acquire) {
                return;
            }
            self.reported += 1;
            if let Err(error) = progress.call1((self.reported, self.total)) {
                self.progress = None;
                self.work.halt();
                self.end.progress = Some(error);
            }
        }
    }

    /// Reads one item if there is room for it; returns whether there may be another.
    fn feed(&mut self) -> bool {
        let (Some(iterator), Source::Fed(feed)) = (&self.iterator, &self.work.source) else {
            return false;
        };
        if feed.is_stopped() {
            self.iterator = None;
            feed.close();
            return false;
        }
        if !feed.has_room() {
            self.full = true;
            return false;
        }
        if self.full {
            self.full = false;
            let (items, busy) = Tally::sum(&self.work.tallies);
            let (items, busy) = (items - self.before.0, busy - self.before.1);
            feed.set_window(lookahead(self.work.tallies.len(), items, busy));
        }
        match next_of(iterator) {
            Ok(Some(item)) => {
                feed.push(item.unbind());
                self.end.read += 1;
                return true;
            }
            Ok(None) => self.end.exhausted = true,
            Err(error) => {
                if !is_ordinary(self.py, &error) {
                    self.work.halt();
                }
                self.end.source = Some(error);
            }
        }
        self.iterator = None;
        feed.close();
        false
    }
}

fn next_of<'py>(iterator: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
    iterator.try_iter()?.next().transpose()
}
