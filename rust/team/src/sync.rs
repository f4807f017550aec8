//! The one place where atomics, parking and threads are chosen: `std`, or loom when the protocol is model-checked.

#[cfg(not(treadle_loom))]
mod chosen {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};
    pub(crate) use std::sync::{Condvar, Mutex};
    use std::sync::{MutexGuard, PoisonError};
    pub(crate) use std::thread::{Builder, JoinHandle, Thread, current, park, park_timeout, yield_now};
    use std::time::Duration;

    /// Waits for a notification, but not for ever.
    pub(crate) fn wait_timeout<'g>(
        changed: &Condvar,
        guard: MutexGuard<'g, ()>,
        limit: Duration,
    ) -> MutexGuard<'g, ()> {
        changed
            .wait_timeout(guard, limit)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// `std`'s cell with loom's closures, so that one source serves both.
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(treadle_loom)]
mod chosen {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicPtr, AtomicUsize, fence};
    pub(crate) use loom::sync::{Condvar, Mutex};
    pub(crate) use loom::thread::{Builder, JoinHandle, Thread, current, park, yield_now};

    use loom::sync::MutexGuard;
    use std::sync::PoisonError;
    use std::time::Duration;

    // loom has no time: a wait with a limit is a wait, and must be ended by somebody.

    pub(crate) fn park_timeout(_limit: Duration) {
        park();
    }

    pub(crate) fn wait_timeout<'g>(
        changed: &Condvar,
        guard: MutexGuard<'g, ()>,
        _limit: Duration,
    ) -> MutexGuard<'g, ()> {
        changed.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) use chosen::*;

/// Keeps what one side writes often away from the lines that the other side reads. Two lines of 64 bytes, because
/// the neighbour is prefetched.
#[repr(align(128))]
pub(crate) struct Padded<T>(pub(crate) T);
