//! Ranks that break away, and what time alone brings about.

use super::{Phase, Root, Standing};
use crate::ranks::message::{Kind, Message};
use crate::ranks::transport::Transport;

/// A rank that can no longer take part, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach {
    /// Which rank.
    pub rank: usize,
    /// What happened.
    pub kind: BreachKind,
    /// The lowest item that it held.
    pub index: Option<u64>,
    /// The story.
    pub text: String,
}

/// What happened to a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BreachKind {
    /// It is gone.
    Lost,
    /// What it sent, or was sent, is no message of the map.
    Protocol,
}

impl<P> Root<P> {
    /// What arrived from that rank is no message.
    pub fn garbled(
        &mut self,
        now: u64,
        from: usize,
        text: String,
        transport: &mut impl Transport<Payload = P>,
    ) {
        if self.phase != Phase::Over && matches!(self.standings[from], Standing::Unheard | Standing::Here) {
            self.estrange(now, from, text, transport);
        }
    }

    pub(super) fn estrange(
        &mut self,
        now: u64,
        from: usize,
        text: String,
        transport: &mut impl Transport<Payload = P>,
    ) {
        self.standings[from] = Standing::Estranged;
        self.breaks(now, from, BreachKind::Protocol, text, transport);
    }

    /// A rank is gone.
    pub fn lost(&mut self, now: u64, rank: usize, text: String, transport: &mut impl Transport<Payload = P>) {
        if self.phase == Phase::Over || rank == self.options.rank || self.standings[rank] == Standing::Lost {
            return;
        }
        let before = std::mem::replace(&mut self.standings[rank], Standing::Lost);
        if before != Standing::Estranged {
            self.breaks(now, rank, BreachKind::Lost, text, transport);
        }
    }

    pub(super) fn breaks(
        &mut self,
        now: u64,
        rank: usize,
        kind: BreachKind,
        text: String,
        transport: &mut impl Transport<Payload = P>,
    ) {
        let index = self.ledger.leave(rank);
        self.breach.get_or_insert(Breach {
            rank,
            kind,
            index,
            text,
        });
        self.stop_at(now, 0, transport);
    }

    /// Time has passed: pings, silence and the deadline. To be called now and then, whatever else happens.
    pub fn tick(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        if self.phase == Phase::Over {
            return;
        }
        if self.options.deadline.is_some_and(|deadline| now >= deadline) {
            self.options.deadline = None;
            if self.phase == Phase::Running {
                self.expired = true;
                self.stop_at(now, 0, transport);
            }
        }
        let liveness = self.options.liveness;
        let Some(away) = self.rounds.turn(now, &liveness) else {
            return;
        };
        for rank in 0..self.options.ranks {
            let standing = self.standings[rank];
            if rank == self.options.rank || matches!(standing, Standing::Lost | Standing::Estranged) {
                continue;
            }
            self.links[rank].excuse(away);
            if standing != Standing::Drained && self.links[rank].is_silent(now, &liveness) {
                let seconds = liveness.silence_nanos.unwrap_or(0) / 1_000_000_000;
                self.lost(
                    now,
                    rank,
                    format!("it has said nothing for {seconds} s"),
                    transport,
                );
            } else if self.links[rank].owes_a_ping(now, &liveness) {
                self.send(now, rank, Message::bare(Kind::Ping, 0), transport);
            }
        }
    }
}
