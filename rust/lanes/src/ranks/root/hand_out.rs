//! Which rank gets the next items, and how many.

use super::{Phase, Root, Want};
use crate::ranks::message::{Kind, Message, Parcel};
use crate::ranks::transport::Transport;

/// Items that each of the root's own lanes may have before it, when items are short: they travel nowhere.
const OWN_AHEAD: usize = 6;
/// Items for the root's own lanes wait for no longer than this.
const OWN_NANOS: f64 = 5e5;
/// In a stream without a window so many items for each lane are read ahead of the results, twice over.
const STREAM_AHEAD: usize = 4;

impl<P> Root<P> {
    /// The rank that is to get items next, and how many; none while no rank has room or nothing is to be handed out.
    pub fn want(&self) -> Option<Want> {
        if self.closed || self.phase != Phase::Running {
            return None;
        }
        let left = self.options.total.map(|total| total.saturating_sub(self.next));
        let batch = self.options.batching.size(&self.times, self.ledger.lanes(), left);
        let lanes = self.ledger.lanes();
        let second =
            self.options.prefetch && self.options.batching.looks_ahead(&self.times, lanes, left, batch);
        let ahead = if second { 2 } else { 1 };
        let window = self.room_in_window(ahead * batch);
        if window == 0 {
            return None;
        }
        let elsewhere = self.ledger.lightest().and_then(|rank| {
            let (lanes, items) = self.ledger.of(rank);
            let room = lanes.saturating_mul(ahead * batch).saturating_sub(items);
            // Whole batches only: a message for each item that came back would be no batch.
            (room >= batch).then_some((rank, items as f64 / lanes as f64, batch))
        });
        let own = self.options.rank;
        let (lanes, items) = self.ledger.of(own);
        let room = (lanes * self.own_ahead(ahead)).saturating_sub(items);
        let here = (room > 0).then(|| (own, items as f64 / lanes as f64, room));
        let (rank, _, count) = match (elsewhere, here) {
            // What travels comes first: it is on its way while the own lanes begin.
            (Some(elsewhere), Some(here)) => {
                if here.1 < elsewhere.1 {
                    here
                } else {
                    elsewhere
                }
            }
            (one, other) => one.or(other)?,
        };
        Some(Want {
            rank,
            count: count.min(window),
        })
    }

    /// How many items may be read before results are taken.
    fn room_in_window(&self, for_a_lane: usize) -> usize {
        if !self.options.streams {
            return usize::MAX;
        }
        let lanes = self.ledger.lanes().saturating_mul(for_a_lane.max(STREAM_AHEAD));
        let window = self.options.window.unwrap_or(2 * lanes as u64);
        usize::try_from(window.saturating_sub(self.next - self.taken)).unwrap_or(usize::MAX)
    }

    /// Items for each of the root's own lanes.
    fn own_ahead(&self, ahead: usize) -> usize {
        let short = self.times.mean().map_or(1.0, |mean| OWN_NANOS / mean);
        ahead.max((short as usize).min(OWN_AHEAD))
    }

    /// The index of the next item.
    pub fn next_index(&self) -> u64 {
        self.next
    }

    /// The next item needs no lane: its result is at hand.
    pub fn skip(&mut self, value: P) {
        self.kept.insert(self.next, value);
        self.next += 1;
        self.done += 1;
    }

    /// Gives the next items to a rank; the root's own are only booked.
    pub fn give(
        &mut self,
        now: u64,
        rank: usize,
        items: Vec<Parcel<P>>,
        transport: &mut impl Transport<Payload = P>,
    ) {
        if items.is_empty() {
            return;
        }
        self.ledger.give(rank, items.iter().map(|item| item.index));
        self.next = self.next.max(items[items.len() - 1].index + 1);
        if rank != self.options.rank {
            let message = Message {
                kind: Kind::Task,
                value: 0,
                parcels: items,
            };
            self.send(now, rank, message, transport);
        }
    }

    /// There are no further items.
    pub fn close(&mut self) {
        self.closed = true;
    }
}
