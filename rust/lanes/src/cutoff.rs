//! Where a map stops: the index from which on nothing is started.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The lowest failing index so far; no item at or above it is started.
///
/// Indices are handed out in increasing order, and an index below the cutoff is run to its end once it was handed
/// out. So when item `j` fails, everything below `j` has been handed out and finishes, and the lowest failing index
/// does not depend on timing.
#[derive(Debug)]
pub struct Cutoff(AtomicUsize);

impl Default for Cutoff {
    fn default() -> Self {
        Self::new()
    }
}

impl Cutoff {
    /// Nothing has failed.
    pub const fn new() -> Self {
        Cutoff(AtomicUsize::new(usize::MAX))
    }

    /// Item `index` failed.
    pub fn fail(&self, index: usize) {
        self.0.fetch_min(index, Ordering::AcqRel);
    }

    /// No item at all may start from now on.
    pub fn stop(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Whether item `index` may start.
    #[inline]
    pub fn admits(&self, index: usize) -> bool {
        index < self.0.load(Ordering::Acquire)
    }

    /// Whether something failed or the map was stopped.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) != usize::MAX
    }
}
