//! An engine that several threads can see, and only one can use.
//!
//! Entering is one compare-and-swap of the owner's identity; a thread that comes second is refused at once. A
//! lease lets a thread wait for the engine and then keep it over several operations.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use treadle_core::{Error, ErrorCode, Result};
use treadle_team::{Pool, PoolId};

use crate::CpuEngine;

/// What an engine is at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Ready.
    Open,
    /// An operation runs, or a lease is held.
    Busy,
    /// An operation panicked.
    Broken,
    /// Closed by the caller.
    Closed,
}

impl State {
    /// `"open"`, `"busy"`, `"broken"` or `"closed"`.
    pub const fn name(self) -> &'static str {
        match self {
            State::Open => "open",
            State::Busy => "busy",
            State::Broken => "broken",
            State::Closed => "closed",
        }
    }
}

const OPEN: u8 = 0;
const BROKEN: u8 = 1;
const CLOSED: u8 = 2;

/// An engine behind its busy guard.
pub struct EngineCell {
    /// The thread inside, or 0. See [`thread_identity`].
    owner: AtomicUsize,
    /// The thread that holds the lease, or 0. Written only by a thread that is inside.
    leaseholder: AtomicUsize,
    lease_depth: AtomicUsize,
    status: AtomicU8,
    /// Fork generation in which the engine was made or rebuilt.
    generation: AtomicU64,
    /// Threads that wait in `lease`; leaving rings the bell only for them.
    waiting: AtomicUsize,
    gate: Mutex<()>,
    bell: Condvar,
    /// The engine's team, to tell its own workers from strangers; only asked after a refusal.
    team: Mutex<Option<PoolId>>,
    engine: UnsafeCell<CpuEngine>,
}

// SAFETY: `engine` is only reached through `Entered`, and `owner` lets one thread at a time hold one.
unsafe impl Sync for EngineCell {}

/// The engine, for as long as the operation runs.
pub struct Entered<'a> {
    cell: &'a EngineCell,
}

/// A number that no other living thread has: the address of a thread-local byte.
#[inline]
fn thread_identity() -> usize {
    thread_local! { static MARK: u8 = const { 0 } }
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

impl EngineCell {
    /// Puts an engine behind a guard.
    pub fn new(engine: CpuEngine) -> Self {
        EngineCell {
            owner: AtomicUsize::new(0),
            leaseholder: AtomicUsize::new(0),
            lease_depth: AtomicUsize::new(0),
            status: AtomicU8::new(OPEN),
            generation: AtomicU64::new(treadle_team::fork::generation()),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            bell: Condvar::new(),
            team: Mutex::new(engine.pool().map(Pool::id)),
            engine: UnsafeCell::new(engine),
        }
    }

    /// Takes the engine for one operation.
    ///
    /// # Errors
    /// `EngineBusy`, `ReentrantCall`, `EngineClosed`, `EngineBroken` or `ForkedEngine`, at once.
    #[inline(always)]
    pub fn enter(&self) -> Result<Entered<'_>> {
        if self.is_forked() {
            return Err(forked());
        }
        let entered = self.claim()?;
        match self.status.load(Ordering::Relaxed) {
            OPEN => Ok(entered),
            status => Err(refusal(status)),
        }
    }

    /// Owner and lease, without the status.
    #[inline(always)]
    fn claim(&self) -> Result<Entered<'_>> {
        let me = thread_identity();
        if let Err(owner) = self
            .owner
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
        {
            self.outwait(me, owner)?;
        }
        let entered = Entered { cell: self };
        let leaseholder = self.leaseholder.load(Ordering::Relaxed);
        if leaseholder != 0 && leaseholder != me {
            return Err(leased());
        }
        Ok(entered)
    }

    /// Enters after a first try failed, or says why it cannot be.
    ///
    /// A stranger learns of a lease only when it is inside, and then leaves at once: the holder waits for that.
    #[cold]
    fn outwait(&self, me: usize, mut owner: usize) -> Result<()> {
        while owner != me && self.leaseholder.load(Ordering::Relaxed) == me {
            std::thread::yield_now();
            match self
                .owner
                .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(another) => owner = another,
            }
        }
        Err(self.occupied(owner == me))
    }

    /// Why the engine cannot be entered while somebody is inside.
    #[cold]
    fn occupied(&self, by_this_thread: bool) -> Error {
        let team = *self.team.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own_worker = team.is_some_and(|team| team.current_thread_index().is_some());
        if by_this_thread || is_own_worker {
            reentrant()
        } else {
            busy()
        }
    }

    /// True in a child process that was forked after the engine was made.
    #[inline]
    pub fn is_forked(&self) -> bool {
        self.generation.load(Ordering::Relaxed) != treadle_team::fork::generation()
    }

    /// What the engine is now.
    pub fn state(&self) -> State {
        match self.status.load(Ordering::Relaxed) {
            CLOSED => State::Closed,
            BROKEN => State::Broken,
            _ if self.owner.load(Ordering::Relaxed) != 0 || self.leaseholder.load(Ordering::Relaxed) != 0 => {
                State::Busy
            }
            _ => State::Open,
        }
    }

    /// After a panic: nothing runs until [`EngineCell::rebuild`].
    pub fn mark_broken(&self) {
        // A closed engine stays closed.
        let _ = self
            .status
            .compare_exchange(OPEN, BROKEN, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Joins the workers and frees what is retained. Closing twice is nothing.
    ///
    /// # Errors
    /// `EngineBusy` or `ReentrantCall` when an operation runs.
    pub fn close(&self) -> Result<()> {
        if self.is_forked() {
            self.status.store(CLOSED, Ordering::Relaxed);
            return Ok(());
        }
        let mut entered = self.claim()?;
        if self.status.swap(CLOSED, Ordering::Relaxed) != CLOSED {
            entered.close();
        }
        Ok(())
    }

    /// Makes a broken or forked engine new: same options, fresh team, empty caches.
    ///
    /// # Errors
    /// `EngineBusy` or `ReentrantCall` when an operation runs, `EngineClosed` for a closed engine, and what
    /// starting the workers may meet.
    pub fn rebuild(&self) -> Result<()> {
        if self.is_forked() {
            // Whoever was inside did not come along; the child has this thread alone.
            self.owner.store(0, Ordering::Relaxed);
            self.leaseholder.store(0, Ordering::Relaxed);
            self.lease_depth.store(0, Ordering::Relaxed);
            self.waiting.store(0, Ordering::Relaxed);
        }
        let mut entered = self.claim()?;
        if self.status.load(Ordering::Relaxed) == CLOSED {
            return Err(refusal(CLOSED));
        }
        entered.rebuild(self.is_forked())?;
        *self.team.lock().unwrap_or_else(PoisonError::into_inner) = entered.pool().map(Pool::id);
        self.generation
            .store(treadle_team::fork::generation(), Ordering::Relaxed);
        self.status.store(OPEN, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until the engine is free and keeps it for this thread. `keep_waiting` is asked every 20 ms at most
    /// and may end the wait (a signal arrived). Leases of one thread nest.
    ///
    /// # Errors
    /// `EngineBusy` after `timeout`, `Interrupted` when `keep_waiting` said no, and the states that `enter` refuses.
    pub fn lease(&self, timeout: Option<Duration>, mut keep_waiting: impl FnMut() -> bool) -> Result<()> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            match self.enter() {
                Ok(entered) => {
                    self.leaseholder.store(thread_identity(), Ordering::Relaxed);
                    self.lease_depth.fetch_add(1, Ordering::Relaxed);
                    drop(entered);
                    return Ok(());
                }
                Err(error) if error.code() != ErrorCode::EngineBusy => return Err(error),
                Err(error) => {
                    let mut patience = Duration::from_millis(20);
                    if let Some(deadline) = deadline {
                        let left = deadline.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return Err(expired(timeout.unwrap_or_default(), &error));
                        }
                        patience = patience.min(left);
                    }
                    if !keep_waiting() {
                        return Err(Error::new(
                            ErrorCode::Interrupted,
                            "interrupted while waiting for an engine",
                        ));
                    }
                    self.waiting.fetch_add(1, Ordering::SeqCst);
                    let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
                    // Leaving may fall between the refusal and the wait; the bounded wait makes that a delay.
                    drop(self.bell.wait_timeout(gate, patience));
                    self.waiting.fetch_sub(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// Gives back one lease of this thread.
    ///
    /// # Errors
    /// `Engine` when this thread holds none.
    pub fn release(&self) -> Result<()> {
        if self.leaseholder.load(Ordering::Relaxed) != thread_identity() {
            return Err(Error::new(
                ErrorCode::Engine,
                "this thread holds no lease of the engine",
            ));
        }
        if self.lease_depth.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.leaseholder.store(0, Ordering::Release);
            self.ring();
        }
        Ok(())
    }

    #[inline]
    fn ring(&self) {
        if self.waiting.load(Ordering::SeqCst) != 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.bell.notify_all();
        }
    }
}

impl Deref for Entered<'_> {
    type Target = CpuEngine;
    #[inline]
    fn deref(&self) -> &CpuEngine {
        // SAFETY: this thread is the owner until `self` is dropped, so no other reference exists.
        unsafe { &*self.cell.engine.get() }
    }
}

impl DerefMut for Entered<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut CpuEngine {
        // SAFETY: as in `deref`; `&mut self` keeps two such borrows apart.
        unsafe { &mut *self.cell.engine.get() }
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        // Under a lease nobody who waits could enter.
        let leased = self.cell.leaseholder.load(Ordering::Relaxed) != 0;
        self.cell.owner.store(0, Ordering::Release);
        if !leased {
            self.cell.ring();
        }
    }
}

impl Drop for EngineCell {
    fn drop(&mut self) {
        if self.is_forked() {
            self.engine.get_mut().abandon();
        }
    }
}

#[cold]
fn busy() -> Error {
    Error::new(
        ErrorCode::EngineBusy,
        "another thread's operation runs on this engine; give each thread an engine of its own, or wait with \
         engine.lease()",
    )
}

#[cold]
fn leased() -> Error {
    Error::new(
        ErrorCode::EngineBusy,
        "another thread holds a lease of this engine; wait with engine.lease(), or use another engine",
    )
}

#[cold]
fn expired(timeout: Duration, last: &Error) -> Error {
    Error::new(
        ErrorCode::EngineBusy,
        format!(
            "the engine was still busy after {} s: {}",
            timeout.as_secs_f64(),
            last.message()
        ),
    )
    .with("timeout", timeout.as_secs_f64().to_string())
}

#[cold]
fn reentrant() -> Error {
    Error::new(
        ErrorCode::ReentrantCall,
        "this thread is inside an operation of the same engine; use another engine in callbacks and signal handlers",
    )
}

#[cold]
fn forked() -> Error {
    Error::new(
        ErrorCode::ForkedEngine,
        "the process was forked after the engine was made and its workers did not come along; call \
         engine.rebuild() in the child, or make engines after the fork",
    )
}

#[cold]
fn refusal(status: u8) -> Error {
    if status == CLOSED {
        Error::new(
            ErrorCode::EngineClosed,
            "the engine was closed; make a new one, for example with engine.spec().build()",
        )
    } else {
        Error::new(
            ErrorCode::EngineBroken,
            "an earlier operation of this engine panicked; engine.rebuild() makes it new",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DEFAULT_CAPACITY, EngineOptions};
    use treadle_contract::BatchPolicy;

    fn cell(threads: usize) -> EngineCell {
        let options = EngineOptions {
            threads,
            batch: BatchPolicy::Auto,
            plan_cache: None,
            plan_capacity: DEFAULT_CAPACITY,
            buffer_bytes: 1 << 20,
            affinity: None,
            name: None,
            isa: None,
            stack_bytes: 1 << 20,
        };
        EngineCell::new(CpuEngine::new(options).unwrap())
    }

    fn refusal_inside(cell: &EngineCell) -> ErrorCode {
        cell.enter().err().map(|error| error.code()).unwrap()
    }

    #[test]
    fn who_comes_second_is_told_why() {
        let cell = cell(2);
        let mut inside = cell.enter().unwrap();
        assert_eq!(cell.state(), State::Busy);
        assert_eq!(refusal_inside(&cell), ErrorCode::ReentrantCall, "the same thread");
        let stranger = std::thread::scope(|scope| scope.spawn(|| refusal_inside(&cell)).join().unwrap());
        assert_eq!(stranger, ErrorCode::EngineBusy);
        let codes = Mutex::new(Vec::new());
        inside
            .begin()
            .unwrap()
            .token
            .broadcast(|_| codes.lock().unwrap().push(refusal_inside(&cell)));
        assert_eq!(
            codes.into_inner().unwrap(),
            [ErrorCode::ReentrantCall; 2],
            "the leader and its worker"
        );
        drop(inside);
        assert_eq!(cell.state(), State::Open);
        assert!(cell.enter().is_ok());
    }

    #[test]
    fn a_broken_engine_is_rebuilt_and_a_closed_one_is_not() {
        let cell = cell(2);
        cell.mark_broken();
        assert_eq!(refusal_inside(&cell), ErrorCode::EngineBroken);
        cell.rebuild().unwrap();
        assert!(cell.enter().is_ok());
        cell.close().unwrap();
        cell.close().unwrap();
        cell.mark_broken();
        assert_eq!(cell.state(), State::Closed);
        assert_eq!(refusal_inside(&cell), ErrorCode::EngineClosed);
        assert_eq!(cell.rebuild().unwrap_err().code(), ErrorCode::EngineClosed);
    }

    #[test]
    fn leases_exclude_nest_and_end() {
        let cell = cell(1);
        cell.lease(None, || true).unwrap();
        cell.lease(None, || true).unwrap();
        assert!(cell.enter().is_ok(), "the holder's own calls run");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert_eq!(refusal_inside(&cell), ErrorCode::EngineBusy);
                assert_eq!(cell.release().unwrap_err().code(), ErrorCode::Engine);
                let expired = cell.lease(Some(Duration::from_millis(5)), || true).unwrap_err();
                assert!(expired.message().contains("0.005 s"), "{expired}");
                let stopped = cell.lease(None, || false).unwrap_err();
                assert_eq!(stopped.code(), ErrorCode::Interrupted);
            });
            other.join().unwrap();
            let waiting = scope.spawn(|| {
                cell.lease(Some(Duration::from_secs(30)), || true).unwrap();
                cell.release().unwrap();
            });
            cell.release().unwrap();
            cell.release().unwrap();
            waiting.join().unwrap();
        });
        assert_eq!(cell.state(), State::Open);
    }

    #[test]
    fn strangers_at_the_door_never_keep_the_holder_out() {
        use std::sync::atomic::AtomicBool;
        let cell = cell(1);
        cell.lease(None, || true).unwrap();
        let done = AtomicBool::new(false);
        let refused = std::thread::scope(|scope| {
            let strangers = [(); 3].map(|()| {
                scope.spawn(|| {
                    let mut refused = 0u64;
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(refusal_inside(&cell), ErrorCode::EngineBusy);
                        refused += 1;
                    }
                    refused
                })
            });
            let entered = (0..200_000).filter(|_| cell.enter().is_ok()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(entered, 200_000);
            strangers.map(|stranger| stranger.join().unwrap())
        });
        assert!(refused.iter().sum::<u64>() > 1000, "{refused:?}");
        cell.release().unwrap();
    }
}
