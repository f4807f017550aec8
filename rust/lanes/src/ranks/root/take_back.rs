//! What came of items, and where the map stops for it.

use super::{Arrival, Judgement, OnFailure, Phase, Root, Standing};
use crate::ranks::message::{How, Kind, Message, NO_INDEX};
use crate::ranks::transport::Transport;

impl<P> Root<P> {
    /// A message arrived. What has to be looked into is returned, in the order in which it is to be judged.
    pub fn receive(
        &mut self,
        now: u64,
        from: usize,
        sequence: u64,
        message: Message<P>,
        transport: &mut impl Transport<Payload = P>,
    ) -> Vec<Arrival<P>> {
        if self.phase == Phase::Over
            || from >= self.options.ranks
            || !matches!(self.standings[from], Standing::Unheard | Standing::Here)
        {
            return Vec::new();
        }
        let taken = self.links[from]
            .hear(now, sequence)
            .and_then(|()| self.obey(now, from, message, transport));
        match taken {
            Ok(arrivals) => arrivals,
            Err(text) => {
                self.estrange(now, from, text, transport);
                Vec::new()
            }
        }
    }

    fn obey(
        &mut self,
        now: u64,
        from: usize,
        message: Message<P>,
        transport: &mut impl Transport<Payload = P>,
    ) -> Result<Vec<Arrival<P>>, String> {
        let standing = self.standings[from];
        let arrival = |parcel| Arrival { rank: from, parcel };
        match message.kind {
            Kind::Ready if standing == Standing::Unheard => {
                self.standings[from] = Standing::Here;
                self.ledger
                    .join(from, usize::try_from(message.value).unwrap_or(usize::MAX));
            }
            Kind::Result => {
                // Looked at in full before anything is booked.
                let mut seen: Vec<u64> = message.parcels.iter().map(|parcel| parcel.index).collect();
                seen.sort_unstable();
                let twice = seen.windows(2).find(|pair| pair[0] == pair[1]);
                let strange = seen.iter().find(|index| !self.ledger.holds(from, **index));
                if let Some(index) = strange.or(twice.map(|pair| &pair[0])) {
                    return Err(format!("a result of item {index}, which it does not hold"));
                }
                for parcel in &message.parcels {
                    self.ledger.take(from, parcel.index);
                    if parcel.how != How::Skipped {
                        self.times.add(parcel.nanos);
                    }
                }
                return Ok(message.parcels.into_iter().map(arrival).collect());
            }
            // A body called cancel().
            Kind::Stop => {
                self.cancelled = true;
                self.stop_at(now, 0, transport);
            }
            Kind::Fault => {
                if message.value & Message::<P>::UNREADABLE != 0 {
                    return Err("it could not read what the root sent".to_owned());
                }
                let Some(mut parcel) = message.parcels.into_iter().next() else {
                    return Err("a fault without its error".to_owned());
                };
                self.standings[from] = Standing::Here;
                if message.value & Message::<P>::ALIVE == 0 {
                    self.ledger.leave(from);
                }
                self.stop_at(now, 0, transport);
                parcel.how = How::Fatal;
                return Ok(vec![arrival(parcel)]);
            }
            Kind::Drain if self.phase == Phase::Ending && standing == Standing::Here => {
                self.standings[from] = Standing::Drained;
            }
            Kind::Ping => {}
            kind => return Err(format!("{kind:?} where it makes no sense")),
        }
        Ok(Vec::new())
    }

    /// What came of an item of the root's own lanes; false if they did not have it.
    pub fn local(&mut self, index: u64, how: How, nanos: u64) -> bool {
        let own = self.options.rank;
        if !self.ledger.holds(own, index) {
            return false;
        }
        self.ledger.take(own, index);
        if how != How::Skipped {
            self.times.add(nanos);
        }
        true
    }

    /// The root's own lanes are gone, with what they had.
    pub fn leave(&mut self) {
        self.ledger.leave(self.options.rank);
    }

    /// What the host is to do with something that arrived, after it was looked into; counts it.
    pub fn judge(&mut self, index: u64, how: How) -> Judgement {
        if how == How::Skipped {
            self.skipped = self.skipped.min(index);
            return Judgement::Drop;
        }
        if index != NO_INDEX {
            self.done += 1;
        }
        match how {
            How::Fatal => Judgement::End,
            _ if self.expired => Judgement::Drop,
            How::Done | How::Skipped => Judgement::Keep,
            How::Wire => Judgement::Fail,
            How::Failed => match self.options.on_failure {
                OnFailure::Raise => Judgement::Fail,
                OnFailure::Return => Judgement::Return,
                OnFailure::Handle => Judgement::Handle,
            },
        }
    }

    /// The result of an item.
    pub fn keep(&mut self, index: u64, value: P) {
        self.kept.insert(index, value);
    }

    /// An item failed, or the items ended with an error at that index: nothing at or above it starts any more.
    pub fn fail(&mut self, now: u64, index: u64, failure: P, transport: &mut impl Transport<Payload = P>) {
        if self.failed.as_ref().is_none_or(|(lowest, _)| index < *lowest) {
            self.failed = Some((index, failure));
        }
        self.stop_at(now, index, transport);
    }

    /// The map ends with that, whatever the items do.
    pub fn end_at_once(&mut self, now: u64, failure: P, transport: &mut impl Transport<Payload = P>) {
        self.fatal.get_or_insert(failure);
        self.stop_at(now, 0, transport);
    }

    /// Nothing at or above `cutoff` starts any more, on any rank.
    pub fn stop_at(&mut self, now: u64, cutoff: u64, transport: &mut impl Transport<Payload = P>) {
        if cutoff >= self.cutoff || self.phase != Phase::Running {
            return;
        }
        self.cutoff = cutoff;
        self.closed = true;
        for rank in 0..self.options.ranks {
            if matches!(self.standings[rank], Standing::Unheard | Standing::Here) {
                self.send(now, rank, Message::bare(Kind::Stop, cutoff), transport);
            }
        }
    }
}
