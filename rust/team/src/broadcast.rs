//! The co-scheduled section: every slot runs the same function at once and may wait for the others.

use crate::barrier::Barrier;
use crate::panics::LowestPanic;
use crate::section::{Header, Join, Posting};
use crate::token::Token;
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One of the threads of a [`broadcast`](Token::broadcast).
pub struct Member<'s> {
    barrier: &'s Barrier<'s>,
    index: usize,
    /// Whether it has been at a barrier. At the first one the others may still be on their way.
    met: Cell<bool>,
    /// Stays on its thread: a barrier counts threads.
    on_thread: PhantomData<*const ()>,
}

impl Member<'_> {
    /// The slot, in `0..count`. Member 0 is the calling thread.
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The budget of the token.
    #[inline]
    pub fn count(&self) -> usize {
        self.barrier.count()
    }

    /// Waits until every member has come here. What they wrote before it is visible after it.
    ///
    /// Unwinds when another member panicked, and panics when another member has returned: neither will come.
    #[inline]
    pub fn barrier(&self) {
        self.barrier.wait(self.index == 0, !self.met.replace(true));
    }
}

impl Token<'_> {
    /// Runs `f` once on every slot, all live at once, so that they may meet at [`Member::barrier`].
    ///
    /// A panic of a member makes the barriers of the others unwind; all are joined, then the panic of the lowest
    /// member is resumed. The poll is not asked.
    ///
    /// # Panics
    /// With the panic of a member; and in a forked child, where the other members do not exist.
    pub fn broadcast(&mut self, f: impl Fn(&Member<'_>) + Sync) {
        if self.budget == 1 {
            return f(&Member::new(&Barrier::new(&[]), 0));
        }
        let team = self.live_team().expect(FORKED);
        let workers = self.workers(team, self.budget);
        let section = BroadcastSection {
            header: Header::new(),
            barrier: Barrier::new(workers),
            panics: LowestPanic::new(),
        };
        let posting = section.posting(&f);
        team.count_dispatch();
        let mut woken = false;
        for (index, mailbox) in workers.iter().enumerate() {
            // SAFETY: nothing between here and the end of the join unwinds; `f` and the section may be shared.
            woken |= unsafe { team.assign(mailbox, posting, index + 1) };
        }
        section.member(&f, 0);
        section.barrier.depart();
        let mut join = Join::new(team, &section.header, woken, None);
        let mut gone = false;
        for mailbox in workers {
            gone |= join.wait(mailbox).is_err();
        }
        section.panics.resume();
        assert!(!gone, "{FORKED}");
    }
}

const FORKED: &str = "a broadcast in a forked child, where the other members do not exist";

impl<'s> Member<'s> {
    fn new(barrier: &'s Barrier<'s>, index: usize) -> Self {
        Member {
            barrier,
            index,
            met: Cell::new(false),
            on_thread: PhantomData,
        }
    }
}

#[repr(C)]
struct BroadcastSection<'p> {
    header: Header,
    barrier: Barrier<'p>,
    panics: LowestPanic,
}

impl BroadcastSection<'_> {
    fn posting<F: Fn(&Member<'_>) + Sync>(&self, f: &F) -> Posting {
        Posting {
            section: (&raw const *self).cast::<Header>().cast_mut(),
            enter: Self::enter::<F>,
            f: (&raw const *f).cast(),
        }
    }

    unsafe fn enter<F: Fn(&Member<'_>) + Sync>(header: *const Header, f: *const (), index: usize) {
        // SAFETY: the header is the first field of the section that `broadcast` posted, which waits for every member.
        let section = unsafe { &*header.cast::<Self>() };
        // SAFETY: posted with it, of this type, and F is Sync.
        let f = unsafe { &*f.cast::<F>() };
        section.member(f, index);
    }

    fn member(&self, f: &(impl Fn(&Member<'_>) + Sync), index: usize) {
        let member = Member::new(&self.barrier, index);
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(&member))) {
            self.barrier.poison();
            self.panics.record(index, payload);
        }
    }
}
