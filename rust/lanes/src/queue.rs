//! A queue over items whose number is known: the next index, in order, and nothing after a failure.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cutoff::Cutoff;

/// Hands out `0..len`, each index once, in increasing order, until something fails.
#[derive(Debug)]
pub struct IndexQueue {
    next: AtomicUsize,
    len: usize,
    cutoff: Cutoff,
}

impl IndexQueue {
    /// A queue over `0..len`.
    pub const fn new(len: usize) -> Self {
        IndexQueue {
            next: AtomicUsize::new(0),
            len,
            cutoff: Cutoff::new(),
        }
    }

    /// The number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to hand out from the start.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The next index, or `None` when all were handed out or the queue has stopped. An index that was handed out is run.
    #[inline]
    pub fn claim(&self) -> Option<usize> {
        // The look before the addition keeps the counter from running away under many idle claims.
        let end = self.len;
        if self.next.load(Ordering::Relaxed) >= end || self.cutoff.is_set() {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        (index < end && self.cutoff.admits(index)).then_some(index)
    }

    /// Whether nothing at or below item `index` has failed, and nobody stopped the queue.
    pub fn admits(&self, index: usize) -> bool {
        self.cutoff.admits(index)
    }

    /// Item `index` failed: nothing above it starts any more.
    pub fn fail(&self, index: usize) {
        self.cutoff.fail(index);
    }

    /// Nothing starts any more.
    pub fn stop(&self) {
        self.cutoff.stop();
    }

    /// Whether something failed or the queue was stopped.
    pub fn is_stopped(&self) -> bool {
        self.cutoff.is_set()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Mutex;

    #[test]
    fn each_index_is_handed_out_once() {
        let queue = IndexQueue::new(10_000);
        let seen = Mutex::new(BTreeSet::new());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut own = Vec::new();
                    while let Some(index) = queue.claim() {
                        assert!(own.last().is_none_or(|last| *last < index));
                        own.push(index);
                    }
                    let mut seen = seen.lock().unwrap();
                    for index in own {
                        assert!(seen.insert(index));
                    }
                });
            }
        });
        assert_eq!(seen.into_inner().unwrap().len(), 10_000);
        assert_eq!(queue.claim(), None);
        assert!(!queue.is_stopped());
    }

    #[test]
    fn after_a_failure_nothing_is_handed_out() {
        let queue = IndexQueue::new(5);
        assert_eq!(queue.claim(), Some(0));
        assert_eq!(queue.claim(), Some(1));
        queue.fail(1);
        assert_eq!(queue.claim(), None);
        assert!(queue.admits(0) && !queue.admits(1));
        queue.fail(3);
        assert!(queue.is_stopped());
        assert_eq!(queue.claim(), None);
        let empty = IndexQueue::new(0);
        assert!(empty.is_empty());
        assert_eq!(empty.claim(), None);
        let stopped = IndexQueue::new(3);
        stopped.stop();
        assert_eq!(stopped.claim(), None);
    }
}
