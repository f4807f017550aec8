//! The section of parts: the budget is split, and every part has its own workers.

use crate::panics::LowestPanic;
use crate::pool::forked;
use crate::section::{Header, Join, Posting, Shared};
use crate::sync::AtomicUsize;
use crate::token::{Poll, Token};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use treadle_core::{Error, ErrorCode, Result};

impl Token<'_> {
    /// Splits the budget over `parts` and runs `f(part, token)` for all parts at once, each on a thread of its own.
    ///
    /// The budgets of the parts add up to this one and differ by at most 1, the larger ones first. Part 0 runs on the
    /// calling thread. When the poll of this token says stop, the tokens of all parts do. A panic of a part leaves the
    /// others running; all are joined, then the panic of the lowest part is resumed.
    ///
    /// # Errors
    /// `Argument` when there are more parts than slots, `ForkedEngine` in a forked child, both before anything runs;
    /// `Interrupted` after all parts have ended when the poll said stop.
    pub fn fork(&mut self, parts: usize, f: impl Fn(usize, Token<'_>) + Sync) -> Result<()> {
        if parts > self.budget {
            return Err(Error::new(
                ErrorCode::Argument,
                format!(
                    "{parts} parts do not fit into a budget of {}; ask for at most one part a slot",
                    self.budget
                ),
            )
            .with("parts", parts)
            .with("budget", self.budget));
        }
        match parts {
            0 => Ok(()),
            1 => {
                f(0, self.reborrow());
                Ok(())
            }
            _ => match self.live_team() {
                Some(team) => PartSection::run(self, team, parts, &f),
                None => Err(forked()),
            },
        }
    }
}

/// How `budget` slots are split over `parts`: consecutive runs of slots, the first `larger` of them one longer.
#[derive(Clone, Copy)]
struct Split {
    share: usize,
    larger: usize,
}

impl Split {
    fn new(budget: usize, parts: usize) -> Self {
        Split {
            share: budget / parts,
            larger: budget % parts,
        }
    }

    /// The slot on which the part itself runs; its workers follow.
    fn slot(self, part: usize) -> usize {
        part * self.share + part.min(self.larger)
    }

    fn budget(self, part: usize) -> usize {
        self.share + usize::from(part < self.larger)
    }
}

/// 1 once the poll said stop; what the tokens of the other parts ask. Relaxed: it carries no data.
struct Latch(AtomicUsize);

impl Latch {
    fn is_set(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    fn set(&self) -> bool {
        self.0.store(1, Relaxed);
        true
    }
}

#[repr(C)]
struct PartSection<'p> {
    header: Header,
    team: &'p Shared,
    first: usize,
    split: Split,
    has_poll: bool,
    stopped: Latch,
    panics: LowestPanic,
}

impl<'p> PartSection<'p> {
    fn run<F>(token: &Token<'p>, team: &'p Shared, parts: usize, f: &F) -> Result<()>
    where
        F: Fn(usize, Token<'_>) + Sync,
    {
        let split = Split::new(token.budget, parts);
        let section = PartSection {
            header: Header::new(),
            team,
            first: token.first,
            split,
            has_poll: token.poll.is_some(),
            stopped: Latch(AtomicUsize::new(0)),
            panics: LowestPanic::new(),
        };
        let posting = Posting {
            section: (&raw const section).cast::<Header>().cast_mut(),
            enter: PartSection::enter::<F>,
            f: (&raw const *f).cast(),
        };
        team.count_dispatch();
        let leader_of = |part| team.mailbox(token.first + split.slot(part) - 1);
        let mut woken = false;
        for part in 1..parts {
            // The part stands in the place of the slot.
            // SAFETY: nothing between here and the end of the join unwinds; `f` and the section may be shared.
            woken |= unsafe { team.assign(leader_of(part), posting, part) };
        }

        // Latched, so that a poll which says stop only once stops all parts.
        let stopped = &section.stopped;
        let asked = token.poll;
        let poll = || stopped.is_set() || asked.is_some_and(|asked| asked() && stopped.set());
        section.part(f, 0, &poll);

        let ask = || {
            if let Err(payload) = catch_unwind(AssertUnwindSafe(poll)) {
                section.panics.record(usize::MAX, payload);
            }
        };
        let idle = section.has_poll.then_some(&ask as &dyn Fn());
        let mut join = Join::new(team, &section.header, woken, idle);
        let mut gone = false;
        for part in 1..parts {
            gone |= join.wait(leader_of(part)).is_err();
        }
        section.panics.resume();
        if gone {
            return Err(forked());
        }
        if stopped.is_set() {
            return Err(crate::Interrupted.into());
        }
        Ok(())
    }

    unsafe fn enter<F>(header: *const Header, f: *const (), part: usize)
    where
        F: Fn(usize, Token<'_>) + Sync,
    {
        // SAFETY: the header is the first field of the section that `run` posted, which waits for every part.
        let section = unsafe { &*header.cast::<Self>() };
        // SAFETY: posted with it, of this type, and F is Sync.
        let f = unsafe { &*f.cast::<F>() };
        let stopped = &section.stopped;
        section.part(f, part, &|| stopped.is_set());
    }

    fn part(&self, f: &(impl Fn(usize, Token<'_>) + Sync), part: usize, poll: Poll<'_>) {
        let token = Token {
            team: Some(self.team),
            // The worker after the one of the part's own slot.
            first: self.first + self.split.slot(part),
            budget: self.split.budget(part),
            poll: self.has_poll.then_some(poll),
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| f(part, token))) {
            self.panics.record(part, payload);
        }
    }
}

#[cfg(all(test, not(treadle_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_split_conserves_slots() {
        for budget in 1..40 {
            for parts in 1..=budget {
                let split = Split::new(budget, parts);
                let mut next = 0;
                for part in 0..parts {
                    assert_eq!(split.slot(part), next);
                    assert!(split.budget(part) >= 1);
                    assert!(split.budget(part) <= split.budget(0));
                    assert!(split.budget(part) + 1 >= split.budget(0));
                    next += split.budget(part);
                }
                assert_eq!(next, budget);
            }
        }
    }
}
