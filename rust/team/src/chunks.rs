//! The section of dynamic chunks: one counter, everybody claims, late workers are not waited for.

use crate::interrupted::Interrupted;
use crate::panics::LowestPanic;
use crate::section::{Header, Join, Posting, Shared};
use crate::sync::{AtomicUsize, Padded};
use crate::token::{Poll, Token};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;

impl Token<'_> {
    /// As [`chunks`](Token::chunks), and each chunk is told which slot (`0..budget`) runs it. Two chunks with the same
    /// slot never run at once, so a slot may index scratch.
    pub fn chunks_with_slot(&mut self, n: usize, f: impl Fn(usize, usize) + Sync) -> Result<(), Interrupted> {
        if n > 1
            && let Some(team) = self.live_team()
        {
            return ChunkSection::run(self, team, n, &f);
        }
        for chunk in 0..n {
            if self.poll.is_some_and(|poll| poll()) {
                return Err(Interrupted);
            }
            f(0, chunk);
        }
        Ok(())
    }
}

#[repr(C)]
struct ChunkSection {
    header: Header,
    n: usize,
    panics: LowestPanic,
    next: Padded<AtomicUsize>,
}

impl ChunkSection {
    #[inline]
    fn run<F>(token: &Token<'_>, team: &Shared, n: usize, f: &F) -> Result<(), Interrupted>
    where
        F: Fn(usize, usize) + Sync,
    {
        let section = ChunkSection {
            header: Header::new(),
            n,
            panics: LowestPanic::new(),
            next: Padded(AtomicUsize::new(0)),
        };
        let posting = Posting {
            section: (&raw const section).cast::<Header>().cast_mut(),
            enter: ChunkSection::enter::<F>,
            f: (&raw const *f).cast(),
        };
        let workers = token.workers(team, token.budget.min(n));
        // SAFETY: nothing between here and the end of the join unwinds; `f` and the section may be shared.
        let woken = unsafe { team.offer(workers, posting, || section.is_exhausted()) };

        let mut interrupted = section.claim(f, 0, token.poll);
        for mailbox in workers {
            posting.revoke(mailbox);
        }
        let stopped = Cell::new(false);
        let ask = || stopped.set(stopped.get() | section.ask(token.poll));
        let idle = (token.poll.is_some() && !interrupted).then_some(&ask as &dyn Fn());
        let mut join = Join::new(team, &section.header, woken, idle);
        for mailbox in workers {
            if join.wait(mailbox).is_err() {
                // Forked by the poll: the chunks that workers had claimed are lost.
                interrupted = true;
                break;
            }
        }
        section.panics.resume();
        if interrupted || stopped.get() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    unsafe fn enter<F>(header: *const Header, f: *const (), slot: usize)
    where
        F: Fn(usize, usize) + Sync,
    {
        // SAFETY: the header is the first field of the section that `run` posted, which is alive until this worker
        // has left it.
        let section = unsafe { &*header.cast::<Self>() };
        // SAFETY: posted with it, of this type, and F is Sync.
        let f = unsafe { &*f.cast::<F>() };
        section.claim(f, slot, None);
    }

    // Relaxed throughout: the counter hands out numbers; the data travels with the post and the finish.

    fn is_exhausted(&self) -> bool {
        self.next.0.load(Relaxed) >= self.n
    }

    /// No chunk is claimed after this.
    #[cold]
    fn stop(&self) {
        self.next.0.store(self.n, Relaxed);
    }

    /// Claims and runs chunks until none is left. True when the poll said stop.
    #[inline]
    fn claim(&self, f: &(impl Fn(usize, usize) + Sync), slot: usize, poll: Option<Poll<'_>>) -> bool {
        // One catch for all chunks of this thread; the index of the running one is known outside.
        let running = Cell::new(usize::MAX);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            loop {
                if let Some(poll) = poll
                    && poll()
                {
                    self.stop();
                    return true;
                }
                let chunk = self.next.0.fetch_add(1, Relaxed);
                if chunk >= self.n {
                    return false;
                }
                running.set(chunk);
                f(slot, chunk);
                // A panic of the poll counts after those of all chunks.
                running.set(usize::MAX);
            }
        }));
        outcome.unwrap_or_else(|payload| {
            self.stop();
            self.panics.record(running.get(), payload);
            false
        })
    }

    /// Asks the poll during the join. Its panic waits like any other.
    fn ask(&self, poll: Option<Poll<'_>>) -> bool {
        let Some(poll) = poll else { return false };
        catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|payload| {
            self.panics.record(usize::MAX, payload);
            false
        })
    }
}
