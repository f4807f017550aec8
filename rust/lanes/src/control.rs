//! The signal that one run shares between its lanes and its coordinator.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Says that a run should end. Clones share the signal.
///
/// It is cancelled by a lane's error, a lane's panic, the coordinator's exit of any kind, and [`cancel`]. Running
/// bodies are never torn down: they look at [`is_cancelled`] or sleep in [`wait`] and end by themselves.
///
/// [`cancel`]: LaneControl::cancel
/// [`is_cancelled`]: LaneControl::is_cancelled
/// [`wait`]: LaneControl::wait
#[derive(Clone)]
pub struct LaneControl(Arc<Shared>);

struct Shared {
    cancelled: AtomicBool,
    /// Lanes of the run that have not ended.
    running: AtomicUsize,
    /// Guarded by the mutex so that no waiter misses it.
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// True once no lane is left.
    ended: bool,
    /// Threads that sleep until something changes.
    sleepers: usize,
}

impl Default for LaneControl {
    fn default() -> Self {
        Self::new()
    }
}

impl LaneControl {
    /// A control that nobody has cancelled, of a run with no lanes yet.
    pub fn new() -> Self {
        LaneControl(Arc::new(Shared {
            cancelled: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A flag and a count, each written whole, so a poisoned lock holds nothing torn.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run should end. One load.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Asks every lane and the coordinator to end, and wakes those that wait here.
    pub fn cancel(&self) {
        if !self.0.cancelled.swap(true, Ordering::AcqRel) {
            // Taking the lock orders this against a waiter that has looked and not slept yet.
            drop(self.lock());
            self.0.changed.notify_all();
        }
    }

    /// Sleeps until the run is cancelled or `timeout` is over; returns whether it is cancelled.
    ///
    /// It also returns, with `false`, when every lane has ended: nobody would be left to cancel, and a coordinator
    /// must not sleep for ever.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.wait_until(timeout, |control, ended| control.is_cancelled() || ended);
        self.is_cancelled()
    }

    /// Whether the two are the control of the same run.
    pub fn is(&self, other: &LaneControl) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Lanes of the run that have not ended.
    pub fn lanes_running(&self) -> usize {
        self.0.running.load(Ordering::Acquire)
    }

    /// Sleeps until every lane has ended or `timeout` is over; returns whether all have ended.
    pub fn wait_for_lanes(&self, timeout: Option<Duration>) -> bool {
        self.wait_until(timeout, |_, ended| ended)
    }

    fn wait_until(&self, timeout: Option<Duration>, done: impl Fn(&Self, bool) -> bool) -> bool {
        // A timeout too long for the clock is none at all.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.lock();
        loop {
            if done(self, state.ended) {
                return true;
            }
            state.sleepers += 1;
            state = match deadline {
                None => self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let Some(left) = deadline
                        .checked_duration_since(Instant::now())
                        .filter(|d| !d.is_zero())
                    else {
                        state.sleepers -= 1;
                        return false;
                    };
                    let waited = self.0.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            state.sleepers -= 1;
        }
    }

    /// Sleeps until `ready` holds, every lane has ended, or `timeout` is over; returns whether all have ended.
    ///
    /// Whoever makes `ready` true calls [`ring`](LaneControl::ring) afterwards. `ready` runs under the control's
    /// lock, so it must be a few loads and nothing else.
    pub fn wait_for_lanes_or(&self, timeout: Option<Duration>, ready: impl Fn() -> bool) -> bool {
        self.wait_until(timeout, |_, ended| ended || ready());
        self.lanes_running() == 0
    }

    /// Wakes those that sleep here, so that they look at what they wait for.
    pub fn ring(&self) {
        // Telling nobody is a system call all the same, and a lane rings for each result.
        if self.lock().sleepers > 0 {
            self.0.changed.notify_all();
        }
    }

    /// The run is going to have that many lanes.
    pub(crate) fn lanes_start(&self, lanes: usize) {
        self.0.running.store(lanes, Ordering::Release);
    }

    /// So many lanes are over, or were never started.
    pub(crate) fn lanes_end(&self, lanes: usize) {
        if self.0.running.fetch_sub(lanes, Ordering::AcqRel) == lanes {
            self.lock().ended = true;
            self.0.changed.notify_all();
        }
    }
}

impl fmt::Debug for LaneControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneControl")
            .field("cancelled", &self.is_cancelled())
            .field("lanes_running", &self.lanes_running())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_by_its_timeout_and_by_the_cancel() {
        let control = LaneControl::new();
        assert!(!control.wait(Some(Duration::ZERO)));
        assert!(!control.wait(Some(Duration::from_millis(5))));
        let other = control.clone();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || other.wait(Some(Duration::from_secs(20))));
            control.cancel();
            assert!(waiter.join().unwrap());
        });
        control.cancel();
        assert!(control.is_cancelled());
        assert!(control.wait(None));
        assert!(control.wait(Some(Duration::MAX)));
    }

    #[test]
    fn a_wait_ends_without_a_cancel_when_no_lane_is_left() {
        let control = LaneControl::new();
        control.lanes_start(1);
        assert_eq!(control.lanes_running(), 1);
        assert!(!control.wait_for_lanes(Some(Duration::ZERO)));
        control.lanes_end(1);
        assert!(!control.wait(None));
        assert!(control.wait_for_lanes(None));
        assert!(!control.is_cancelled());
    }
    #[test]
    fn a_ring_wakes_a_sleeper_whose_condition_holds() {
        let control = LaneControl::new();
        control.lanes_start(1);
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let sleeper =
                scope.spawn(|| control.wait_for_lanes_or(None, || done.load(Ordering::Acquire) == 1));
            done.store(1, Ordering::Release);
            control.ring();
            assert!(!sleeper.join().unwrap());
        });
    }
}
