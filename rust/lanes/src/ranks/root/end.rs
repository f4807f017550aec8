//! The end of a map: when everything has come back, what came of it, and who is told.

use super::{Breach, BreachKind, Phase, Root, Standing};
use crate::ranks::message::{Kind, Message};
use crate::ranks::transport::Transport;

/// What came of the map, as far as ranks and items decide it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome<'a, P> {
    /// A rank broke away.
    Breach(&'a Breach),
    /// Something ended it at once.
    Fatal(&'a P),
    /// The lowest failing item.
    Failed(u64, &'a P),
    /// Nothing failed.
    Fine,
}

impl<P> Root<P> {
    /// Whether everything that was handed out has come back, and every rank was heard.
    pub fn is_settled(&self) -> bool {
        self.closed && self.ledger.is_empty() && !self.standings.contains(&Standing::Unheard)
    }

    /// Tells every rank that its lanes may end. To be called once, when the map is settled.
    pub fn end(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        if self.phase != Phase::Running {
            return;
        }
        self.phase = Phase::Ending;
        for rank in 0..self.options.ranks {
            if self.standings[rank] == Standing::Here {
                self.send(now, rank, Message::bare(Kind::End, 0), transport);
            }
        }
        if self.skipped < self.cutoff && self.breach.is_none() {
            // A worker left something out that every rank should have run.
            self.breach = Some(Breach {
                rank: self.options.rank,
                kind: BreachKind::Protocol,
                index: Some(self.skipped),
                text: format!(
                    "item {} was left out, and nothing below it had failed",
                    self.skipped
                ),
            });
        }
    }

    /// Whether every rank that can has sent its last message.
    pub fn is_drained(&self) -> bool {
        self.phase != Phase::Running && !self.standings.contains(&Standing::Here)
    }

    /// What came of the map.
    pub fn outcome(&self) -> Outcome<'_, P> {
        match (&self.breach, &self.fatal, &self.failed) {
            (Some(breach), _, _) => Outcome::Breach(breach),
            (_, Some(fatal), _) => Outcome::Fatal(fatal),
            (_, _, Some((index, failed))) => Outcome::Failed(*index, failed),
            _ => Outcome::Fine,
        }
    }

    /// Whether a rank broke away, so that messages may be left over.
    pub fn is_broken(&self) -> bool {
        self.breach.is_some()
    }

    /// Whether the deadline ended it.
    pub fn is_expired(&self) -> bool {
        self.expired
    }

    /// Whether a body on another rank ended it.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    /// Tells the verdict to every rank that is there; nothing is said or heard after it.
    pub fn conclude(
        &mut self,
        now: u64,
        value: u64,
        mut verdict: impl FnMut() -> P,
        transport: &mut impl Transport<Payload = P>,
    ) {
        if self.phase == Phase::Over {
            return;
        }
        self.phase = Phase::Over;
        for rank in 0..self.options.ranks {
            if rank != self.options.rank && self.standings[rank] != Standing::Lost {
                self.send(
                    now,
                    rank,
                    Message::with(Kind::Verdict, value, verdict()),
                    transport,
                );
            }
        }
    }
}
