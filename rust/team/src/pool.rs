//! The pool: workers that wait, and nothing else.

use crate::builder::PoolBuilder;
use crate::section::Shared;
use crate::sync::JoinHandle;
use crate::token::Token;
use crate::worker::PoolId;
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use treadle_core::{Error, ErrorCode, Result};

/// `width - 1` workers that sleep until a section is posted to them; the caller is the other one.
///
/// Dropping the pool ends the workers and joins them. In a forked child, where they do not exist, dropping it leaves
/// everything as it is.
pub struct Pool {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
}

/// What a pool has done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolStats {
    /// Sections that were posted to workers.
    pub dispatches: u64,
    /// Workers that slept and had to be woken by the system.
    pub wakeups: u64,
    /// Threads that the pool holds: its width less the caller.
    pub workers: usize,
}

impl Pool {
    /// A builder with the defaults: one slot for every CPU that this process may use, 16 MiB of stack.
    pub fn builder<'a>() -> PoolBuilder<'a> {
        PoolBuilder::new()
    }

    pub(crate) fn new(shared: Arc<Shared>, handles: Vec<JoinHandle<()>>) -> Self {
        Pool { shared, handles }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Slots: the caller and the workers.
    pub fn width(&self) -> usize {
        self.shared.mailboxes.len() + 1
    }

    /// The pool's name for [`PoolId::current_thread_index`], which can be asked while a token is out.
    pub fn id(&self) -> PoolId {
        PoolId(self.shared.id)
    }

    /// The worker's number (from 0) if the current thread is a worker of this pool.
    pub fn current_thread_index(&self) -> Option<usize> {
        self.id().current_thread_index()
    }

    /// The whole budget of the pool.
    ///
    /// # Errors
    /// `ForkedEngine` in a forked child, `ReentrantCall` on a worker of this pool.
    #[inline]
    pub fn token(&mut self) -> Result<Token<'_>> {
        if self.shared.is_forked() {
            return Err(forked());
        }
        if let Some(worker) = self.current_thread_index() {
            return Err(reentrant(worker));
        }
        Ok(Token::root(&self.shared))
    }

    /// What the pool has done so far.
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            dispatches: self.shared.dispatches.load(Relaxed),
            wakeups: self.shared.wakeups.load(Relaxed),
            workers: self.shared.mailboxes.len(),
        }
    }

    /// Whether this process was forked from the one that built the pool.
    pub fn is_forked(&self) -> bool {
        self.shared.is_forked()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("width", &self.width())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cold]
pub(crate) fn forked() -> Error {
    Error::new(
        ErrorCode::ForkedEngine,
        "the pool was built before this process was forked, and its workers are not here; build a new one",
    )
}

#[cold]
fn reentrant(worker: usize) -> Error {
    Error::new(
        ErrorCode::ReentrantCall,
        format!("called from worker {worker} of the same pool, which is busy with the outer call; use another pool or a serial token"),
    )
    .with("worker", worker)
}

impl Drop for Pool {
    fn drop(&mut self) {
        let handles = mem::take(&mut self.handles);
        if self.shared.is_forked() {
            // Even detaching would touch the threads' memory, which the child may have reused.
            let _leaked = ManuallyDrop::new(handles);
            return;
        }
        for mailbox in &self.shared.mailboxes[..handles.len()] {
            mailbox.shut_down();
        }
        let own = self.current_thread_index();
        for (worker, handle) in handles.into_iter().enumerate() {
            // A worker that drops its own pool cannot wait for itself; it ends when it returns to its mailbox.
            if own != Some(worker) {
                // A worker catches every panic of what it runs.
                let _ended = handle.join();
            }
        }
    }
}
