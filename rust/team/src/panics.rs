//! The panic that a section reports: that of the lowest index, whatever the timing.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) type Payload = Box<dyn Any + Send>;

/// The payload of a member that unwinds only because another one panicked. Never reported.
pub(crate) struct PeerPanicked;

/// Keeps the payload of the lowest index. A `std` mutex also under loom: nothing inside it is a switch point.
pub(crate) struct LowestPanic(Mutex<Option<(usize, Payload)>>);

impl LowestPanic {
    pub(crate) fn new() -> Self {
        LowestPanic(Mutex::new(None))
    }

    fn lock(&self) -> MutexGuard<'_, Option<(usize, Payload)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the panic of `index`; of two, the lower one stays.
    #[cold]
    pub(crate) fn record(&self, index: usize, payload: Payload) {
        if payload.is::<PeerPanicked>() {
            return;
        }
        let loser = {
            let mut lowest = self.lock();
            match &*lowest {
                Some((held, _)) if *held <= index => Some(payload),
                _ => lowest.replace((index, payload)).map(|(_, payload)| payload),
            }
        };
        if let Some(loser) = loser {
            discard(loser);
        }
    }

    /// Takes the index and payload, once everybody is joined.
    pub(crate) fn take(&self) -> Option<(usize, Payload)> {
        self.lock().take()
    }

    /// Raises what was recorded. Called after the join, on the leader.
    pub(crate) fn resume(&self) {
        if let Some((_, payload)) = self.take() {
            resume_unwind(payload);
        }
    }
}

/// Drops a payload whose destructor may itself panic; a worker must not unwind.
fn discard(payload: Payload) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        let _leaked = ManuallyDrop::new(second);
    }
}

/// The text of a payload, for an error sentence.
pub(crate) fn text(payload: &Payload) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "(no text)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_index_stays_and_a_follower_is_never_kept() {
        let panics = LowestPanic::new();
        panics.record(5, Box::new("five"));
        panics.record(2, Box::new("two".to_owned()));
        panics.record(3, Box::new("three"));
        panics.record(0, Box::new(PeerPanicked));
        let (index, payload) = panics.take().expect("one was recorded");
        assert_eq!((index, text(&payload)), (2, "two"));
        assert!(panics.take().is_none());
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_survived() {
        struct Bomb;
        impl Drop for Bomb {
            fn drop(&mut self) {
                panic!("dropped");
            }
        }
        let panics = LowestPanic::new();
        panics.record(1, Box::new("one"));
        panics.record(2, Box::new(Bomb));
        assert_eq!(panics.take().map(|(index, _)| index), Some(1));
    }
}
