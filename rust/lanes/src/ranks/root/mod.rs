//! The root of a map across ranks: hands out items in order, takes back what came of them, and decides the end.

mod breach;
mod end;
mod hand_out;
mod options;
mod take_back;

use std::collections::BTreeMap;

use super::batching::Times;
use super::ledger::Ledger;
use super::link::{Link, Rounds};
use super::message::Message;
use super::transport::Transport;

pub use breach::{Breach, BreachKind};
pub use end::Outcome;
pub use options::{Arrival, Judgement, OnFailure, RootOptions, Want};

/// What has not stopped.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Standing {
    /// Nothing was heard of it yet.
    Unheard,
    /// Takes items, or has told a fault and waits for the end.
    Here,
    /// Has sent its last message.
    Drained,
    /// Nothing that it says counts, but it is told the verdict.
    Estranged,
    /// Gone.
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Ending,
    Over,
}

/// The root. It hands out items in increasing order of their indices, so everything below a failing item was handed
/// out and finishes, and the lowest failing index depends on no timing.
#[derive(Debug)]
pub struct Root<P> {
    options: RootOptions,
    phase: Phase,
    links: Vec<Link>,
    standings: Vec<Standing>,
    rounds: Rounds,
    ledger: Ledger,
    times: Times,
    /// The index of the next item.
    next: u64,
    closed: bool,
    cutoff: u64,
    skipped: u64,
    done: u64,
    expired: bool,
    cancelled: bool,
    fatal: Option<P>,
    failed: Option<(u64, P)>,
    breach: Option<Breach>,
    kept: BTreeMap<u64, P>,
    taken: u64,
}

impl<P> Root<P> {
    /// A map that starts now.
    pub fn new(now: u64, options: RootOptions) -> Self {
        let mut ledger = Ledger::new(options.ranks, options.rank);
        ledger.join(options.rank, options.lanes);
        let mut standings = vec![Standing::Unheard; options.ranks];
        standings[options.rank] = Standing::Drained;
        Root {
            options,
            phase: Phase::Running,
            links: vec![Link::new(now); options.ranks],
            standings,
            rounds: Rounds::new(now),
            ledger,
            times: Times::default(),
            next: 0,
            closed: false,
            cutoff: NEVER,
            skipped: NEVER,
            done: 0,
            expired: false,
            cancelled: false,
            fatal: None,
            failed: None,
            breach: None,
            kept: BTreeMap::new(),
            taken: 0,
        }
    }

    /// The next result in order, with its index.
    pub fn take(&mut self) -> Option<(u64, P)> {
        let value = self.kept.remove(&self.taken)?;
        self.taken += 1;
        Some((self.taken - 1, value))
    }

    /// The results that are left, in order, with gaps.
    pub fn rest(&mut self) -> impl Iterator<Item = (u64, P)> {
        std::mem::take(&mut self.kept).into_iter()
    }

    /// Items that have come back.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// The lowest index from which on nothing starts.
    pub fn cutoff(&self) -> Option<u64> {
        (self.cutoff != NEVER).then_some(self.cutoff)
    }

    fn send(
        &mut self,
        now: u64,
        to: usize,
        message: Message<P>,
        transport: &mut impl Transport<Payload = P>,
    ) {
        let sequence = self.links[to].speak(now);
        transport.send(to, sequence, message);
    }
}
