//! How every thread of the team waits before it sleeps.

use crate::sync::{spin_loop, yield_now};

/// Polls before the first yield. A hot hand-off is a few polls; longer spinning only pays with the time slices of
/// whoever else wants the core.
#[cfg(not(treadle_loom))]
const POLLS: u32 = 2000;
/// Yields before sleeping: a peer that is ready but has no core gets this one.
#[cfg(not(treadle_loom))]
const YIELDS: u32 = 16;

// One of each shows loom every path; more only multiplies its executions.
#[cfg(treadle_loom)]
const POLLS: u32 = 1;
#[cfg(treadle_loom)]
const YIELDS: u32 = 0;

/// Polls before the early yields of a patient wait.
#[cfg(not(treadle_loom))]
const EARLY_POLLS: u32 = 64;
/// Early yields: one lets the peer run, the other is for a peer that the system was still about to put here.
#[cfg(not(treadle_loom))]
const EARLY_YIELDS: u32 = 2;

#[cfg(treadle_loom)]
const EARLY_POLLS: u32 = 0;
#[cfg(treadle_loom)]
const EARLY_YIELDS: u32 = 0;

/// A bounded wait, counted and never timed: a clock keeps running while the thread has no core.
pub(crate) struct Waiting {
    early: u32,
    polls: u32,
}

impl Waiting {
    /// `woken` says that the peer, or this thread, has just been woken. The system may have put it on the core of the one
    /// that woke it, where no poll brings it forward: this wait offers the core early.
    #[inline]
    pub(crate) fn for_peer(woken: bool) -> Self {
        Waiting {
            early: if woken { 0 } else { EARLY_POLLS + EARLY_YIELDS },
            polls: 0,
        }
    }

    /// Waits a little; false when it is time to sleep.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        if self.early < EARLY_POLLS + EARLY_YIELDS {
            if self.early < EARLY_POLLS {
                spin_loop();
            } else {
                yield_now();
            }
            self.early += 1;
            return true;
        }
        if self.polls < POLLS {
            spin_loop();
        } else if self.polls < POLLS + YIELDS {
            yield_now();
        } else {
            return false;
        }
        self.polls += 1;
        true
    }
}
