//! The right to use some slots of a pool, and the ways to divide it.

use crate::interrupted::Interrupted;
use crate::mailbox::Mailbox;
use crate::section::Shared;
use std::fmt;

/// What the owner of a token is asked between its chunks; true is stop.
pub(crate) type Poll<'p> = &'p (dyn Fn() -> bool + Sync + 'p);

/// A budget of slots: the thread that holds the token and a range of workers that nobody else can reach meanwhile.
///
/// A section borrows the token mutably, so a budget is never spent twice. A budget of one is serial: everything runs
/// inline on the calling thread.
pub struct Token<'p> {
    pub(crate) team: Option<&'p Shared>,
    /// The worker of slot 1; slot `k` is worker `first + k - 1`.
    pub(crate) first: usize,
    pub(crate) budget: usize,
    pub(crate) poll: Option<Poll<'p>>,
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Token<'_> {
    /// A budget of the calling thread alone, legal anywhere.
    pub fn serial() -> Token<'static> {
        Token {
            team: None,
            first: 0,
            budget: 1,
            poll: None,
        }
    }
}

impl<'p> Token<'p> {
    pub(crate) fn root(team: &'p Shared) -> Self {
        Token {
            team: Some(team),
            first: 0,
            budget: team.mailboxes.len() + 1,
            poll: None,
        }
    }

    /// Slots, the calling thread's included; at least 1.
    #[inline]
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Whether everything runs inline.
    #[inline]
    pub fn is_serial(&self) -> bool {
        self.budget == 1
    }

    /// The same authority for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> Token<'_> {
        Token { ..*self }
    }

    /// At most that many slots (and at least 1); always the same workers, so that they stay awake.
    #[inline]
    pub fn narrowed(&mut self, slots: usize) -> Token<'_> {
        Token {
            budget: slots.clamp(1, self.budget),
            ..*self
        }
    }

    /// The same authority with a question: true from `poll` stops sections between chunks. Only the thread that owns
    /// the token calls it: before each chunk that it claims, and now and then while it sleeps in a join.
    #[inline]
    pub fn with_poll<'a>(&'a mut self, poll: &'a (dyn Fn() -> bool + Sync)) -> Token<'a> {
        Token {
            poll: Some(poll),
            ..*self
        }
    }

    /// What `with_poll` was given, for work inside a section that asks by itself; it is asked on this thread only.
    #[inline]
    pub fn poll(&self) -> Option<&'p (dyn Fn() -> bool + Sync + 'p)> {
        self.poll
    }

    /// Runs `f(i)` once for every `i` in `0..n`. The slots claim chunks in increasing order as they become free.
    ///
    /// Inline when the budget is 1 or `n` is at most 1. A worker that comes too late finds nothing and is not waited
    /// for. After a panic no further chunk is claimed; all are joined, then the panic of the lowest index is resumed.
    ///
    /// # Errors
    /// When the poll said stop; chunks that were not claimed yet are not run.
    pub fn chunks(&mut self, n: usize, f: impl Fn(usize) + Sync) -> Result<(), Interrupted> {
        self.chunks_with_slot(n, |_slot, chunk| f(chunk))
    }

    /// The pool behind the token, if a section would use it. In a forked child none is left.
    #[inline]
    pub(crate) fn live_team(&self) -> Option<&'p Shared> {
        self.team.filter(|team| self.budget > 1 && !team.is_forked())
    }

    /// The mailboxes of slots 1 to `slots - 1`.
    #[inline]
    pub(crate) fn workers(&self, team: &'p Shared, slots: usize) -> &'p [Mailbox] {
        &team.mailboxes[self.first..self.first + slots - 1]
    }
}
