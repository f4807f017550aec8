//! One word per worker, through which a leader and the worker hand over a section.
//!
//! ```text
//!         post (revocable)       take                      finish
//!  EMPTY ----------> section -----------> BUSY --------------------------> EMPTY
//!    |  ^               |                  | announce                        ^
//!    |  +--- revoke ----+                  v        finish, then unpark      |
//!    |                              BUSY_LEADER_WAITS -----------------------+
//!    |                                                                       |
//!    |     post                                      finish                  |
//!    +-------------> section|MUST ------------------------------------------>+
//!    |                     | announce                                        |
//!    | sleep               v                         finish, then unpark     |
//!    v             section|MUST|LEADER_WAITS --------------------------------+
//!  PARKED --- either post, then unpark
//! ```
//!
//! A section that will not be revoked is left standing while it runs: taking it is a load.
//!
//! Only the holder of the token writes `post`, `revoke`, `announce` and `shut_down`, and only the worker writes
//! `take`, `finish` and `sleep`. Everything happens in one word, so its modification order alone decides every race.

use crate::section::Header;
use crate::sync::{AtomicPtr, Thread, UnsafeCell, fence, park};
use crate::waiting::Waiting;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const fn word(value: usize) -> *mut Header {
    ptr::without_provenance_mut(value)
}

/// The worker has nothing to do and is awake, or has been woken.
const EMPTY: *mut Header = word(0);
/// The worker has nothing to do and sleeps; who posts must unpark it.
const PARKED: *mut Header = word(2);
/// The worker runs a section.
const BUSY: *mut Header = word(4);
/// The worker runs a section, and must unpark the leader at its end.
const BUSY_LEADER_WAITS: *mut Header = word(6);
/// The worker must end.
const SHUT_DOWN: *mut Header = word(8);
/// On a section's address: the leader sleeps already. Sections are aligned to far more than the marks need.
const LEADER_WAITS: usize = 1;
/// On a section's address: it will not be revoked.
const MUST: usize = 16;

/// What a worker runs: `enter(section, f, slot)`.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    /// Must not unwind. The section is alive until it returns, and `f` is the one that was posted with it.
    pub(crate) enter: unsafe fn(*const Header, *const (), usize),
    pub(crate) f: *const (),
    pub(crate) slot: usize,
}

/// A section that a worker has taken.
pub(crate) struct Taken {
    pub(crate) section: *mut Header,
    pub(crate) call: Call,
    /// What stands in the mailbox unless the leader announces itself.
    state: *mut Header,
}

/// How an announcement ended.
pub(crate) enum Announced {
    /// The worker will unpark the leader.
    Registered,
    /// The worker has left the section; there is nothing to wait for.
    Done,
}

/// The hand-over word of one worker with what goes with it, in one cache line: a hot hand-over moves that line there
/// and back, and nothing else.
#[repr(align(128))]
pub(crate) struct Mailbox {
    state: AtomicPtr<Header>,
    /// Written by the leader while the worker is idle, read by the worker between `take` and `finish`.
    call: UnsafeCell<Option<Call>>,
    thread: OnceLock<Thread>,
}

// SAFETY: the pointers of `call` are only used by the worker that takes the section, under the contract of the post,
// which hands over a section and an `f` that may be shared between threads.
unsafe impl Send for Mailbox {}
// SAFETY: as above; accesses to `call` are ordered by `state`, as its comment says.
unsafe impl Sync for Mailbox {}

impl Mailbox {
    pub(crate) fn new() -> Self {
        Mailbox {
            state: AtomicPtr::new(EMPTY),
            call: UnsafeCell::new(None),
            thread: OnceLock::new(),
        }
    }

    /// Says which thread reads this mailbox. Before the first post.
    pub(crate) fn attach(&self, thread: Thread) {
        let first = self.thread.set(thread).is_ok();
        debug_assert!(first, "a mailbox has one worker");
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    // The leader's side.

    /// Writes what the worker will run. The worker is idle.
    #[inline]
    fn write(&self, call: Call) {
        // SAFETY: the worker is idle, which the leader has acquired, and reads the cell only after the next post.
        self.call.with_mut(|cell| unsafe { *cell = Some(call) });
    }

    /// Posts to an idle worker if it is awake; false if it sleeps and needs `post_if_parked`.
    ///
    /// # Safety
    /// The holder of the worker's token calls this. `section` and `call.f` stay alive, and may be used from another
    /// thread, until `is_done` says so after a `revoke`. The same holds for the other posts.
    #[inline]
    pub(crate) unsafe fn post_if_awake(&self, section: *mut Header, call: Call) -> bool {
        self.write(call);
        // Release: whoever takes the section sees it whole.
        self.state
            .compare_exchange(EMPTY, section, Release, Relaxed)
            .is_ok()
    }

    /// Posts to a worker that sleeps and wakes it; false if it does not sleep.
    ///
    /// # Safety
    /// As `post_if_awake`.
    pub(crate) unsafe fn post_if_parked(&self, section: *mut Header, call: Call) -> bool {
        // Acquire: the worker may have run this section already and must have read its call. Only a post ends PARKED.
        if self.state.load(Acquire) != PARKED {
            return false;
        }
        self.write(call);
        self.state.store(section, Release);
        self.unpark();
        true
    }

    /// Posts a section that the worker has to run; true if it had to be woken.
    ///
    /// # Safety
    /// As `post_if_awake`, but `is_done` comes without a `revoke`.
    #[inline]
    pub(crate) unsafe fn post(&self, section: *mut Header, call: Call) -> bool {
        self.write(call);
        let before = self
            .state
            .swap(section.map_addr(|address| address | MUST), Release);
        debug_assert!(before == EMPTY || before == PARKED, "the worker is idle");
        let parked = before == PARKED;
        if parked {
            self.unpark();
        }
        parked
    }

    /// Takes back a section that the worker has not taken.
    #[inline]
    pub(crate) fn revoke(&self, section: *mut Header) {
        // Relaxed: on success the worker has read nothing of the section; on failure `is_done` acquires.
        let _taken = self.state.compare_exchange(section, EMPTY, Relaxed, Relaxed);
    }

    /// Whether the worker has left the section. If so, all that it wrote is visible.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with the Release of `finish`.
        let state = self.state.load(Acquire);
        state == EMPTY || state == PARKED
    }

    /// Announces that the leader is about to sleep. Its handle stands in the header already.
    pub(crate) fn announce(&self) -> Announced {
        let mut state = self.state.load(Acquire);
        loop {
            let waits = if state == EMPTY || state == PARKED {
                return Announced::Done;
            } else if state == BUSY {
                BUSY_LEADER_WAITS
            } else if state.addr() & (MUST | LEADER_WAITS) == MUST {
                state.map_addr(|address| address | LEADER_WAITS)
            } else {
                // Announced already: a revocable section is never left standing when its leader comes here.
                return Announced::Registered;
            };
            // Release: the worker that finds the mark sees the leader's handle. It also keeps a section that is
            // still to be taken published.
            match self.state.compare_exchange(state, waits, Release, Acquire) {
                Ok(_) => return Announced::Registered,
                Err(now) => state = now,
            }
        }
    }

    /// Asks the idle worker to end.
    pub(crate) fn shut_down(&self) {
        if self.state.swap(SHUT_DOWN, Release) == PARKED {
            self.unpark();
        }
    }

    // The worker's side.

    /// Waits for a section and takes it; `None` is the end. The section stays alive until `finish`.
    ///
    /// `woken` says on entry whether the last section came by a wake-up, and on return whether this one did.
    pub(crate) fn take(&self, woken: &mut bool) -> Option<Taken> {
        // A thread that was woken may share the leader's core, and gives it back before it polls for more.
        let mut waiting = Waiting::for_peer(*woken);
        *woken = false;
        loop {
            let state = self.state.load(Relaxed);
            if state == EMPTY {
                if !waiting.again() {
                    *woken = self.sleep();
                    waiting = Waiting::for_peer(*woken);
                }
            } else if state == SHUT_DOWN {
                return None;
            } else if state.addr() & MUST != 0 {
                // Pairs with the Release of the post, also through the leader's announcement.
                fence(Acquire);
                let section = state.map_addr(|address| address & !(MUST | LEADER_WAITS));
                return Some(self.taken(section, section.map_addr(|address| address | MUST)));
            } else if self
                .state
                // Acquire pairs with the Release of the post. A failure means revoked.
                .compare_exchange(state, BUSY, Acquire, Relaxed)
                .is_ok()
            {
                return Some(self.taken(state, BUSY));
            }
        }
    }

    #[inline]
    fn taken(&self, section: *mut Header, state: *mut Header) -> Taken {
        // SAFETY: the post has been acquired, and the leader writes the next call after it has acquired the finish.
        let call = self.call.with(|cell| unsafe { *cell });
        Taken {
            section,
            call: call.expect("a call is posted with every section"),
            state,
        }
    }

    /// Sleeps until something is posted; returns at once, and false, if something was.
    fn sleep(&self) -> bool {
        // The exchange is the re-check: a post that came before makes it fail, one that comes after sees PARKED
        // and unparks, and the token of the unpark is kept if it comes before the park.
        // Relaxed: an exchange continues the release sequence of `finish`, so that a leader that reads PARKED still
        // acquires what the section wrote.
        let parked = self
            .state
            .compare_exchange(EMPTY, PARKED, Relaxed, Relaxed)
            .is_ok();
        if parked {
            while self.state.load(Relaxed) == PARKED {
                park();
            }
        }
        parked
    }

    /// Leaves the section.
    ///
    /// # Safety
    /// `taken` is what `take` returned last, and the caller touches its section no more.
    #[inline]
    pub(crate) unsafe fn finish(&self, taken: Taken) {
        // Release: what the section wrote is visible to the leader. Acquire on failure: the leader's handle is.
        if self
            .state
            .compare_exchange(taken.state, EMPTY, Release, Acquire)
            .is_err()
        {
            // SAFETY: the leader waits for this mailbox to become EMPTY, so the section is alive until the store.
            // The clone keeps the handle alive after it.
            let leader = unsafe { (*taken.section).leader() };
            self.state.store(EMPTY, Release);
            if let Some(leader) = leader {
                leader.unpark();
            }
        }
    }
}
