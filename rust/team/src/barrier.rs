//! A reusable barrier that nobody can be left waiting in.

use crate::mailbox::Mailbox;
use crate::panics::PeerPanicked;
use crate::sync::{AtomicUsize, Condvar, Mutex, Padded, wait_timeout};
use crate::waiting::Waiting;
use std::panic::resume_unwind;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

/// Somebody sleeps on the condition variable; who changes the word must notify.
const SLEEPER: usize = 1;
/// A member panicked.
const POISONED: usize = 2;
/// Member 0 has returned. The others are seen to return in their mailboxes.
const DEPARTED: usize = 4;
const FLAGS: usize = SLEEPER | POISONED | DEPARTED;
/// The rest of the word counts the meetings, and may wrap around.
const MEETING: usize = 8;

/// How often member 0 looks whether somebody has returned. Only a section that is wrong waits that long.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Barrier<'p> {
    /// Those of members 1 and up.
    workers: &'p [Mailbox],
    lock: Mutex<()>,
    changed: Condvar,
    arrived: Padded<AtomicUsize>,
    /// The number of the meeting and the flags in one word, so that its modification order decides every race.
    word: Padded<AtomicUsize>,
}

enum Seen {
    Met,
    Waits,
}

impl<'p> Barrier<'p> {
    pub(crate) fn new(workers: &'p [Mailbox]) -> Self {
        Barrier {
            workers,
            lock: Mutex::new(()),
            changed: Condvar::new(),
            arrived: Padded(AtomicUsize::new(0)),
            word: Padded(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.len() + 1
    }

    /// `leader` is member 0; `first` says that the others may just have been woken.
    pub(crate) fn wait(&self, leader: bool, first: bool) {
        if self.workers.is_empty() {
            return;
        }
        // Relaxed: this thread has acquired the current meeting already, and it cannot end before it arrives.
        let meeting = self.word.0.load(Relaxed) & !FLAGS;
        // AcqRel: the last one to arrive has seen what everybody wrote.
        if self.arrived.0.fetch_add(1, AcqRel) == self.workers.len() {
            self.open();
            return;
        }
        let mut waiting = Waiting::for_peer(first);
        while let Seen::Waits = self.look(meeting) {
            if !waiting.again() {
                self.sleep(meeting, leader);
            }
        }
    }

    /// The last one ends the meeting.
    fn open(&self) {
        // Before the word: who sees the next meeting sees the count of 0.
        self.arrived.0.store(0, Relaxed);
        let mut word = self.word.0.load(Relaxed);
        loop {
            let next = (word & !SLEEPER).wrapping_add(MEETING);
            // Release: passes on what was acquired from everybody.
            match self.word.0.compare_exchange_weak(word, next, Release, Relaxed) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        self.notify(word);
    }

    fn look(&self, meeting: usize) -> Seen {
        // Acquire pairs with the Release of `open`.
        let word = self.word.0.load(Acquire);
        if word & !FLAGS != meeting {
            return Seen::Met;
        }
        if word & POISONED != 0 {
            // Without the panic hook: the panic that counts has been shown.
            resume_unwind(Box::new(PeerPanicked));
        }
        if word & DEPARTED != 0 {
            panic!("{DEPARTURE}");
        }
        Seen::Waits
    }

    #[cold]
    fn sleep(&self, meeting: usize, leader: bool) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let mut word = self.word.0.load(Relaxed);
        // Whoever changes the word after SLEEPER stands in it takes the lock, which this thread gives up only in the
        // wait: the notification cannot fall between.
        while word & !FLAGS == meeting && word & (POISONED | DEPARTED) == 0 {
            if word & SLEEPER == 0
                && let Err(now) = self
                    .word
                    .0
                    .compare_exchange(word, word | SLEEPER, Relaxed, Relaxed)
            {
                word = now;
                continue;
            }
            if !leader {
                // Member 0 ends this sleep in every case: by coming here, by returning or by a panic.
                guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
                word = self.word.0.load(Relaxed);
                continue;
            }
            guard = wait_timeout(&self.changed, guard, LOOK);
            // A worker that had been at this meeting leaves only after it, and who has seen it leave would see the
            // next meeting in the word. Only member 0 may look: it knows that all have been posted.
            let departed = self.workers.iter().any(Mailbox::is_done);
            word = self.word.0.load(Relaxed);
            if departed && word & !FLAGS == meeting && word & POISONED == 0 {
                drop(guard);
                panic!("{DEPARTURE}");
            }
        }
    }

    fn notify(&self, before: usize) {
        if before & SLEEPER != 0 {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// A member panicked: the others must not wait for it.
    #[cold]
    pub(crate) fn poison(&self) {
        let before = self.word.0.fetch_or(POISONED, Release);
        self.notify(before);
    }

    /// Member 0 has returned: who waits for it, waits in vain.
    pub(crate) fn depart(&self) {
        let before = self.word.0.fetch_or(DEPARTED, Release);
        self.notify(before);
    }
}

const DEPARTURE: &str = "a member returned from the section while another one waits for it at the barrier";
