//! What the leader and its workers share while a section runs, and the join at its end.

use crate::fork;
use crate::mailbox::{Announced, Call, Mailbox};
use crate::sync::{Thread, UnsafeCell, current, park, park_timeout};
use crate::waiting::Waiting;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The first field of every section: whom its workers wake at the end. Aligned so that the low bits of its address are
/// free for the mailbox.
#[repr(C, align(64))]
pub(crate) struct Header {
    leader: UnsafeCell<Option<Thread>>,
}

impl Header {
    pub(crate) fn new() -> Self {
        Header {
            leader: UnsafeCell::new(None),
        }
    }

    /// Called by the leader, before it announces itself anywhere.
    fn set_leader(&self) {
        // SAFETY: workers read the handle only after an announcement, and none was made.
        self.leader.with_mut(|slot| unsafe { *slot = Some(current()) });
    }

    /// The thread to wake. Called by a worker that found the leader's announcement.
    pub(crate) fn leader(&self) -> Option<Thread> {
        // SAFETY: the handle was written before the announcement and is not written again.
        self.leader.with(|slot| unsafe { (*slot).clone() })
    }
}

/// What a section posts to its workers: itself, and how they enter it.
#[derive(Clone, Copy)]
pub(crate) struct Posting {
    pub(crate) section: *mut Header,
    pub(crate) enter: unsafe fn(*const Header, *const (), usize),
    pub(crate) f: *const (),
}

impl Posting {
    pub(crate) fn call(self, slot: usize) -> Call {
        Call {
            enter: self.enter,
            f: self.f,
            slot,
        }
    }

    pub(crate) fn revoke(self, mailbox: &Mailbox) {
        mailbox.revoke(self.section);
    }
}

/// The workers are not there: the process was forked while the section ran.
#[derive(Debug)]
pub(crate) struct WorkersGone;

/// What the workers of a pool and the holders of its tokens share.
pub(crate) struct Shared {
    pub(crate) mailboxes: Box<[Mailbox]>,
    pub(crate) id: u64,
    pub(crate) generation: u64,
    pub(crate) dispatches: AtomicU64,
    pub(crate) wakeups: AtomicU64,
}

impl Shared {
    /// Whether this process is a forked child, in which the workers do not exist.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        fork::generation() != self.generation
    }

    pub(crate) fn mailbox(&self, worker: usize) -> &Mailbox {
        &self.mailboxes[worker]
    }

    /// One more section that is posted to workers.
    #[inline]
    pub(crate) fn count_dispatch(&self) {
        self.dispatches.fetch_add(1, Relaxed);
    }

    /// Posts a section that each worker may take or leave, the first one as slot 1. Those that are awake get it first;
    /// then sleepers are woken for as long as there is something left to do. Says whether one was.
    ///
    /// # Safety
    /// The caller holds the token of these workers. Before the section or the function dies or is touched exclusively, it
    /// revokes the posting at each of them and waits in a `Join`. Both may be used from any thread until then.
    #[inline]
    pub(crate) unsafe fn offer(
        &self,
        workers: &[Mailbox],
        posting: Posting,
        exhausted: impl Fn() -> bool,
    ) -> bool {
        self.count_dispatch();
        let mut sleepers = false;
        for (index, mailbox) in workers.iter().enumerate() {
            // SAFETY: this function's contract.
            sleepers |= !unsafe { mailbox.post_if_awake(posting.section, posting.call(index + 1)) };
        }
        // SAFETY: this function's contract.
        sleepers && unsafe { self.wake(workers, posting, exhausted) }
    }

    /// # Safety
    /// As `offer`.
    #[cold]
    unsafe fn wake(&self, workers: &[Mailbox], posting: Posting, exhausted: impl Fn() -> bool) -> bool {
        let mut woken = false;
        for (index, mailbox) in workers.iter().enumerate() {
            if exhausted() {
                break;
            }
            // A worker that was served, has finished and sleeps again gets the section twice, which is harmless: it
            // finds what is left, or nothing.
            // SAFETY: this function's contract.
            if unsafe { mailbox.post_if_parked(posting.section, posting.call(index + 1)) } {
                self.wakeups.fetch_add(1, Relaxed);
                woken = true;
            }
        }
        woken
    }

    /// Posts a section that the worker has to run as that slot. Says whether it had to be woken.
    ///
    /// # Safety
    /// As `offer`, without the revocation.
    #[inline]
    pub(crate) unsafe fn assign(&self, mailbox: &Mailbox, posting: Posting, slot: usize) -> bool {
        // SAFETY: this function's contract.
        let woken = unsafe { mailbox.post(posting.section, posting.call(slot)) };
        if woken {
            self.wakeups.fetch_add(1, Relaxed);
        }
        woken
    }
}

/// The leader's end of a section: it waits until every worker has left.
pub(crate) struct Join<'s> {
    team: &'s Shared,
    header: &'s Header,
    /// Called now and then while the leader sleeps.
    idle: Option<&'s dyn Fn()>,
    /// Whether the section woke workers.
    woken: bool,
    announced: bool,
}

impl<'s> Join<'s> {
    pub(crate) fn new(team: &'s Shared, header: &'s Header, woken: bool, idle: Option<&'s dyn Fn()>) -> Self {
        Join {
            team,
            header,
            idle,
            woken,
            announced: false,
        }
    }

    /// Waits until this worker has left the section.
    #[inline]
    pub(crate) fn wait(&mut self, mailbox: &Mailbox) -> Result<(), WorkersGone> {
        let mut waiting = Waiting::for_peer(self.woken);
        while !mailbox.is_done() {
            if !waiting.again() {
                return self.sleep(mailbox);
            }
        }
        Ok(())
    }

    #[cold]
    fn sleep(&mut self, mailbox: &Mailbox) -> Result<(), WorkersGone> {
        const IDLE: Duration = Duration::from_millis(20);
        if self.team.is_forked() {
            return Err(WorkersGone);
        }
        if !self.announced {
            self.header.set_leader();
            self.announced = true;
        }
        if let Announced::Done = mailbox.announce() {
            return Ok(());
        }
        let Some(idle) = self.idle else {
            while !mailbox.is_done() {
                park();
            }
            return Ok(());
        };
        while !mailbox.is_done() {
            park_timeout(IDLE);
            if mailbox.is_done() {
                break;
            }
            idle();
            // `idle` runs the caller's code, which may have forked.
            if self.team.is_forked() {
                return Err(WorkersGone);
            }
        }
        Ok(())
    }
}
