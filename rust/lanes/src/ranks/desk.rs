//! What the lanes of one rank have to know of the map: where it stops, and whether an item is tried again.

use std::sync::atomic::{AtomicBool, Ordering};

use super::message::How;
use crate::cutoff::Cutoff;

/// Shared by the lanes of a rank.
#[derive(Debug)]
pub struct Desk {
    cutoff: Cutoff,
    retries: u64,
    /// Whether a failing item ends the map.
    stops: bool,
    stopped: AtomicBool,
}

impl Desk {
    /// For items that are tried so many more times; `stops` says whether one that failed for good ends the map.
    pub fn new(retries: u64, stops: bool) -> Self {
        Desk {
            cutoff: Cutoff::new(),
            retries,
            stops,
            stopped: AtomicBool::new(false),
        }
    }

    /// Whether that item may start.
    #[inline]
    pub fn admits(&self, index: u64) -> bool {
        usize::try_from(index).is_ok_and(|index| self.cutoff.admits(index))
    }

    /// Whether the map itself has stopped, as opposed to somebody who cancelled the lanes.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Nothing at or above `cutoff` starts any more.
    pub fn stop_at(&self, cutoff: u64) {
        self.cutoff.fail(usize::try_from(cutoff).unwrap_or(usize::MAX));
        self.stopped.store(true, Ordering::Release);
    }

    /// Whether an item that failed after `failures` tries before this one is tried again. `cancelled` is what the lanes'
    /// control says, `gave_up` whether the failure is the item's answer to that.
    ///
    /// A failure above it also cancels the control, and must not decide whether this item fails.
    pub fn again(&self, index: u64, failures: u64, cancelled: bool, gave_up: bool) -> bool {
        failures < self.retries && self.admits(index) && !(cancelled && (gave_up || !self.is_stopped()))
    }

    /// Item `index` has ended. Returns whether that stops the lanes of this rank.
    pub fn ended(&self, index: u64, how: How) -> bool {
        let cutoff = match how {
            How::Done | How::Skipped => return false,
            How::Failed if !self.stops => return false,
            How::Failed | How::Wire => index,
            How::Fatal => 0,
        };
        self.stop_at(cutoff);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_failure_decides_what_starts() {
        let desk = Desk::new(0, true);
        assert!(desk.admits(0) && desk.admits(1 << 40) && !desk.is_stopped());
        assert!(!desk.ended(3, How::Done) && !desk.ended(4, How::Skipped));
        assert!(desk.ended(9, How::Failed) && desk.ended(5, How::Wire) && desk.ended(7, How::Failed));
        assert!(desk.is_stopped() && desk.admits(4) && !desk.admits(5));
        assert!(desk.ended(8, How::Fatal) && !desk.admits(0));
        let returns = Desk::new(0, false);
        assert!(!returns.ended(2, How::Failed) && returns.admits(2));
        assert!(returns.ended(2, How::Wire) && !returns.admits(2));
    }

    #[test]
    fn retries_end_with_their_number_a_failure_below_and_a_cancel_from_outside() {
        let desk = Desk::new(2, true);
        assert!(desk.again(5, 0, false, false) && desk.again(5, 1, false, false));
        assert!(!desk.again(5, 2, false, false), "their number");
        assert!(!desk.again(5, 0, true, false), "somebody cancelled");
        desk.stop_at(9);
        assert!(desk.again(5, 0, true, false), "a failure above it cancelled");
        assert!(!desk.again(5, 0, true, true), "the item gave up by itself");
        desk.stop_at(5);
        assert!(!desk.again(5, 0, false, false), "a failure at or below it");
    }
}
