//! A bounded queue that one thread feeds, for items that are read lazily.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::cutoff::Cutoff;

/// What a lane gets when it asks a [`Feed`].
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// The next item and its index.
    Item(usize, T),
    /// Nothing yet; ask again.
    Later,
    /// Nothing will come any more.
    End,
}

/// Items go in one by one, are numbered in that order, and are handed out in that order.
///
/// The window bounds the look-ahead: items that wait here. The feeding thread asks [`has_room`](Feed::has_room)
/// before it reads its source (it may [widen](Feed::set_window) the window), and sleeps elsewhere (a lane that makes room says so, see [`take`](Feed::take)).
#[derive(Debug)]
pub struct Feed<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    window: AtomicUsize,
    waiting: AtomicUsize,
    closed: AtomicBool,
    cutoff: Cutoff,
}

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    /// The index of the first item that waits.
    first: usize,
    /// Lanes that sleep until one comes.
    sleepers: usize,
}

impl<T> Feed<T> {
    /// A feed in which at most `window` items wait (at least one).
    pub fn new(window: usize) -> Self {
        let window = window.max(1);
        Feed {
            state: Mutex::new(State {
                items: VecDeque::with_capacity(window.min(1024)),
                first: 0,
                sleepers: 0,
            }),
            filled: Condvar::new(),
            window: AtomicUsize::new(window),
            waiting: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            cutoff: Cutoff::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether another item may be fed.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Acquire) < self.window.load(Ordering::Relaxed)
    }

    /// Another number of items may wait from now on; only the feeding thread calls this.
    pub fn set_window(&self, window: usize) {
        self.window.store(window.max(1), Ordering::Relaxed);
    }

    /// Feeds the next item; only the feeding thread calls this, after [`has_room`](Feed::has_room).
    pub fn push(&self, item: T) {
        let mut state = self.lock();
        state.items.push_back(item);
        self.waiting.store(state.items.len(), Ordering::Release);
        let sleeps = state.sleepers > 0;
        drop(state);
        if sleeps {
            self.filled.notify_one();
        }
    }

    /// No further item will be fed; those that wait are still handed out.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether nothing at or below item `index` has failed, and nobody stopped the feed.
    pub fn admits(&self, index: usize) -> bool {
        self.cutoff.admits(index)
    }

    /// Item `index` failed: nothing above it starts any more.
    pub fn fail(&self, index: usize) {
        self.cutoff.fail(index);
        self.wake();
    }

    /// Nothing starts any more.
    pub fn stop(&self) {
        self.cutoff.stop();
        self.wake();
    }

    /// Whether something failed or the feed was stopped, so that feeding is of no use.
    pub fn is_stopped(&self) -> bool {
        self.cutoff.is_set()
    }

    fn wake(&self) {
        drop(self.lock());
        self.filled.notify_all();
    }

    /// The next item. Waits up to `patience` for one.
    ///
    /// The flag beside the answer says that this call made the room that a full feed did not have: the caller then
    /// wakes the feeding thread.
    pub fn take(&self, patience: Duration) -> (Taken<T>, bool) {
        let mut state = self.lock();
        let mut waited = patience.is_zero();
        loop {
            if self.cutoff.is_set() && !self.cutoff.admits(state.first) {
                return (Taken::End, true);
            }
            let was = state.items.len();
            if let Some(item) = state.items.pop_front() {
                let index = state.first;
                state.first += 1;
                self.waiting.store(was - 1, Ordering::Release);
                // Half a window at a time: one wake-up of the feeder then pays for several items.
                let refill = was - 1 == self.window.load(Ordering::Relaxed) / 2;
                return (Taken::Item(index, item), refill);
            }
            if self.closed.load(Ordering::Acquire) {
                return (Taken::End, false);
            }
            if waited {
                return (Taken::Later, false);
            }
            state.sleepers += 1;
            let (again, timeout) = self
                .filled
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = again;
            state.sleepers -= 1;
            waited = timeout.timed_out();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(1);

    #[test]
    fn items_keep_their_order_and_the_window_bounds_them() {
        let feed = Feed::new(2);
        assert_eq!(feed.take(Duration::ZERO).0, Taken::Later);
        feed.push("a");
        assert!(feed.has_room());
        feed.push("b");
        assert!(!feed.has_room());
        assert_eq!(feed.take(SOON), (Taken::Item(0, "a"), true));
        assert!(feed.has_room());
        assert_eq!(feed.take(SOON), (Taken::Item(1, "b"), false));
        assert_eq!(feed.take(SOON).0, Taken::Later);
        feed.push("c");
        feed.close();
        assert_eq!(feed.take(SOON).0, Taken::Item(2, "c"));
        assert_eq!(feed.take(SOON).0, Taken::End);
    }

    #[test]
    fn a_failure_drops_what_waits_above_it() {
        let feed = Feed::new(8);
        for item in 0..4 {
            feed.push(item);
        }
        assert_eq!(feed.take(SOON).0, Taken::Item(0, 0));
        assert_eq!(feed.take(SOON).0, Taken::Item(1, 1));
        feed.fail(1);
        assert!(feed.admits(0) && !feed.admits(1));
        assert!(feed.is_stopped());
        assert_eq!(feed.take(SOON).0, Taken::End);
        feed.stop();
        assert_eq!(feed.take(SOON).0, Taken::End);
    }

    #[test]
    fn a_sleeping_lane_is_woken_by_an_item_and_by_the_close() {
        let feed = Feed::new(2);
        std::thread::scope(|scope| {
            let lane = scope.spawn(|| {
                let mut got = Vec::new();
                loop {
                    match feed.take(Duration::from_secs(20)).0 {
                        Taken::Item(index, item) => got.push((index, item)),
                        Taken::Later => panic!("slept for twenty seconds"),
                        Taken::End => return got,
                    }
                }
            });
            feed.push(7);
            feed.push(8);
            feed.close();
            assert_eq!(lane.join().unwrap(), [(0, 7), (1, 8)]);
        });
    }
}
