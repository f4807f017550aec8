//! A worker's life, and the question whether the current thread is one.

use crate::section::Shared;
use std::cell::Cell;

/// Names a pool for as long as the process lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PoolId(pub(crate) u64);

impl PoolId {
    /// The worker's number (from 0) if the current thread is a worker of that pool. Needs no access to the pool,
    /// which a running operation holds.
    #[inline]
    pub fn current_thread_index(self) -> Option<usize> {
        current_worker().and_then(|(pool, worker)| (pool == self).then_some(worker))
    }
}

std::thread_local! {
    static WORKER: Cell<Option<(PoolId, usize)>> = const { Cell::new(None) };
}

/// The pool and the number of the current thread, if it is a worker of any pool.
#[inline]
pub fn current_worker() -> Option<(PoolId, usize)> {
    // loom's threads are coroutines of one thread, so that a thread-local would mix them up.
    if cfg!(treadle_loom) {
        return None;
    }
    // A thread that is being torn down runs no section any more.
    WORKER.try_with(Cell::get).unwrap_or(None)
}

/// Runs on the worker's thread until the pool is dropped.
pub(crate) fn live(shared: &Shared, worker: usize) {
    WORKER.set(Some((PoolId(shared.id), worker)));
    let mailbox = shared.mailbox(worker);
    let mut woken = false;
    while let Some(taken) = mailbox.take(&mut woken) {
        // SAFETY: the leader keeps the section and its function alive until this mailbox says that the worker has left,
        // and they were posted to this worker together.
        unsafe { (taken.call.enter)(taken.section, taken.call.f, taken.call.slot) };
        // SAFETY: taken above, and the section is not touched after this.
        unsafe { mailbox.finish(taken) };
    }
}
