//! A rank that is not the root: takes items, sends back what came of them, and ends when the root says so.

use std::collections::BTreeSet;

use super::link::{Link, Liveness, Rounds};
use super::message::{How, Kind, Message, Parcel};
use super::root::{Breach, BreachKind};
use super::transport::Transport;

/// One message has no more results, and no more bytes of them, than this.
const RESULTS: usize = 1 << 16;
const RESULT_BYTES: u64 = 16 << 20;
/// A result does not wait for the others of its batch for longer than this.
const HOLD_NANOS: u64 = 500_000_000;

/// What a message asks of the rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order<P> {
    /// Nothing.
    Nothing,
    /// Run these items.
    Run(Vec<Parcel<P>>),
    /// Start nothing at or above that index.
    StopAt(u64),
    /// Let the lanes end, then [`Worker::drain`].
    End,
    /// The map is over: [`Worker::closed`] says how.
    Over,
}

/// How the map ended for this rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Close<P> {
    /// As the root says.
    Verdict {
        /// Whether it is an error.
        is_error: bool,
        /// What it is.
        payload: P,
    },
    /// Without a verdict.
    Breach(Breach),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Running,
    Ending,
    Drained,
    /// Cut off at that time: only the verdict counts.
    Cut(u64),
    Over,
}

/// A rank that is not the root.
#[derive(Debug)]
pub struct Worker<P> {
    root: usize,
    link: Link,
    liveness: Liveness,
    rounds: Rounds,
    phase: Phase,
    /// The lanes are gone; what was on its way to them is nobody's.
    gone: bool,
    assigned: BTreeSet<u64>,
    ended: Vec<(Parcel<P>, u64)>,
    /// Since when results wait for the others of their batch, and how many make one.
    held_since: Option<u64>,
    batch: usize,
    /// Whether one of them says that something failed.
    urgent: bool,
    breach: Option<Breach>,
    close: Option<Close<P>>,
}

impl<P> Worker<P> {
    /// A map that starts now.
    pub fn new(now: u64, root: usize, liveness: Liveness) -> Self {
        Worker {
            root,
            link: Link::new(now),
            liveness,
            rounds: Rounds::new(now),
            phase: Phase::Running,
            gone: false,
            assigned: BTreeSet::new(),
            ended: Vec::new(),
            held_since: None,
            batch: 1,
            urgent: false,
            breach: None,
            close: None,
        }
    }

    /// Says that so many lanes take items.
    pub fn ready(&mut self, now: u64, lanes: usize, transport: &mut impl Transport<Payload = P>) {
        self.send(now, Message::bare(Kind::Ready, lanes as u64), transport);
    }

    /// A message of the root arrived.
    pub fn receive(
        &mut self,
        now: u64,
        sequence: u64,
        message: Message<P>,
        transport: &mut impl Transport<Payload = P>,
    ) -> Order<P> {
        if self.phase == Phase::Over {
            return Order::Nothing;
        }
        if matches!(self.phase, Phase::Cut(_)) && message.kind != Kind::Verdict {
            return Order::Nothing;
        }
        let heard = match self.link.hear(now, sequence) {
            // What was cut off has lost count.
            Err(_) if matches!(self.phase, Phase::Cut(_)) => Ok(()),
            heard => heard,
        };
        match heard.and_then(|()| self.obey(message)) {
            Ok(order) => order,
            Err(text) => self.garbled(now, text, transport),
        }
    }

    fn obey(&mut self, message: Message<P>) -> Result<Order<P>, String> {
        match message.kind {
            Kind::Task if self.gone => Ok(Order::Nothing),
            Kind::Task if self.phase == Phase::Running => {
                if let Some(twice) = message
                    .parcels
                    .iter()
                    .find(|parcel| self.assigned.contains(&parcel.index))
                {
                    return Err(format!("item {} for the second time", twice.index));
                }
                self.batch = message.parcels.len();
                self.assigned
                    .extend(message.parcels.iter().map(|parcel| parcel.index));
                Ok(Order::Run(message.parcels))
            }
            Kind::Stop if self.phase == Phase::Running => Ok(Order::StopAt(message.value)),
            Kind::End if self.phase == Phase::Running => {
                if let Some(index) = self.assigned.first() {
                    return Err(format!("the end while item {index} is not done"));
                }
                self.phase = Phase::Ending;
                Ok(Order::End)
            }
            Kind::Verdict => {
                let Some(payload) = message
                    .parcels
                    .into_iter()
                    .next()
                    .and_then(|parcel| parcel.payload)
                else {
                    return Err("a verdict that says nothing".to_owned());
                };
                self.over(Close::Verdict {
                    is_error: message.value != Message::<P>::FINE,
                    payload,
                });
                Ok(Order::Over)
            }
            Kind::Ping => Ok(Order::Nothing),
            kind => Err(format!("{kind:?} where it makes no sense")),
        }
    }

    /// What arrived from the root is no message: nothing that follows can be trusted but a verdict.
    pub fn garbled(
        &mut self,
        now: u64,
        text: String,
        transport: &mut impl Transport<Payload = P>,
    ) -> Order<P> {
        if matches!(self.phase, Phase::Over | Phase::Cut(_)) {
            return Order::Nothing;
        }
        let silent = self.phase == Phase::Drained;
        self.breach = Some(Breach {
            rank: self.root,
            kind: BreachKind::Protocol,
            index: None,
            text,
        });
        self.phase = Phase::Cut(now);
        self.assigned.clear();
        self.ended.clear();
        if !silent {
            self.send(
                now,
                Message::bare(Kind::Fault, Message::<P>::UNREADABLE),
                transport,
            );
        }
        Order::StopAt(0)
    }

    /// An item of this rank has ended; `bytes` is about what it weighs. False if this rank does not have it.
    pub fn ended(&mut self, parcel: Parcel<P>, bytes: u64) -> bool {
        if !self.assigned.remove(&parcel.index) {
            return false;
        }
        self.urgent |= parcel.how != How::Done;
        self.ended.push((parcel, bytes));
        true
    }

    /// Sends what has ended, a batch at a time: at once where something failed or nothing else is left to do. Returns
    /// whether something was sent.
    pub fn flush(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) -> bool {
        if self.ended.is_empty() || self.phase != Phase::Running {
            return false;
        }
        let since = *self.held_since.get_or_insert(now);
        let whole = self.ended.len() >= self.batch || self.assigned.is_empty();
        if !whole && !self.urgent && now.saturating_sub(since) < HOLD_NANOS {
            return false;
        }
        self.send_ended(now, transport);
        true
    }

    fn send_ended(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        (self.held_since, self.urgent) = (None, false);
        if self.ended.is_empty() {
            return;
        }
        let (mut parcels, mut weight) = (Vec::new(), 0);
        for (parcel, bytes) in std::mem::take(&mut self.ended) {
            if !parcels.is_empty() && (parcels.len() >= RESULTS || weight + bytes > RESULT_BYTES) {
                self.send(now, result(std::mem::take(&mut parcels)), transport);
                weight = 0;
            }
            weight += bytes;
            parcels.push(parcel);
        }
        self.send(now, result(parcels), transport);
    }

    /// A body called for the end of the map.
    pub fn cancel(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        if self.phase == Phase::Running {
            self.send(now, Message::bare(Kind::Stop, 0), transport);
        }
    }

    /// The map has to end with that. `alive` says that the lanes go on and that what they have comes back.
    pub fn fault(&mut self, now: u64, payload: P, alive: bool, transport: &mut impl Transport<Payload = P>) {
        if !matches!(self.phase, Phase::Running | Phase::Ending) {
            return;
        }
        let mut value = 0;
        if alive {
            self.send_ended(now, transport);
            value = Message::<P>::ALIVE;
        } else {
            self.gone = true;
            self.assigned.clear();
            self.ended.clear();
        }
        self.send(now, Message::with(Kind::Fault, value, payload), transport);
    }

    /// The lanes have ended, after [`Order::End`]. The last message of this rank.
    pub fn drain(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        if self.phase == Phase::Ending {
            self.send(now, Message::bare(Kind::Drain, 0), transport);
            self.phase = Phase::Drained;
        }
    }

    /// The root is gone.
    pub fn lost(&mut self, text: String) {
        if self.phase != Phase::Over {
            let root = self.root;
            self.over(Close::Breach(Breach {
                rank: root,
                kind: BreachKind::Lost,
                index: None,
                text,
            }));
        }
    }

    /// Time has passed. To be called now and then, whatever else happens.
    pub fn tick(&mut self, now: u64, transport: &mut impl Transport<Payload = P>) {
        if let Phase::Cut(since) = self.phase
            && now.saturating_sub(since) >= self.liveness.grace_nanos
            && let Some(breach) = self.breach.take()
        {
            return self.over(Close::Breach(breach));
        }
        let liveness = self.liveness;
        let Some(away) = self.rounds.turn(now, &liveness) else {
            return;
        };
        self.link.excuse(away);
        if !matches!(self.phase, Phase::Over | Phase::Cut(_)) && self.link.is_silent(now, &liveness) {
            let seconds = liveness.silence_nanos.unwrap_or(0) / 1_000_000_000;
            return self.lost(format!("it has said nothing for {seconds} s"));
        }
        if matches!(self.phase, Phase::Running | Phase::Ending) && self.link.owes_a_ping(now, &liveness) {
            self.send(now, Message::bare(Kind::Ping, 0), transport);
        }
    }

    /// Whether the map is over for this rank.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Items that this rank has and that have not ended, in order.
    pub fn assigned(&self) -> impl Iterator<Item = u64> + '_ {
        self.assigned.iter().copied()
    }

    /// How the map ended; once.
    pub fn closed(&mut self) -> Option<Close<P>> {
        self.close.take()
    }

    fn over(&mut self, close: Close<P>) {
        self.phase = Phase::Over;
        self.close = Some(close);
    }

    fn send(&mut self, now: u64, message: Message<P>, transport: &mut impl Transport<Payload = P>) {
        let sequence = self.link.speak(now);
        transport.send(self.root, sequence, message);
    }
}

fn result<P>(mut parcels: Vec<Parcel<P>>) -> Message<P> {
    for parcel in &mut parcels {
        if parcel.how == How::Skipped {
            parcel.payload = None;
        }
    }
    Message {
        kind: Kind::Result,
        value: 0,
        parcels,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sent(Vec<Message<u8>>);

    impl Transport for Sent {
        type Payload = u8;

        fn send(&mut self, _: usize, _: u64, message: Message<u8>) {
            self.0.push(message);
        }
    }

    #[test]
    fn an_end_while_items_are_not_done_is_no_end() {
        let (mut worker, mut sent) = (Worker::new(0, 0, Liveness::default()), Sent::default());
        let task = Message {
            kind: Kind::Task,
            value: 0,
            parcels: vec![Parcel::task(3, 7)],
        };
        assert_eq!(
            worker.receive(0, 0, task, &mut sent),
            Order::Run(vec![Parcel::task(3, 7)])
        );
        let end = worker.receive(0, 1, Message::bare(Kind::End, 0), &mut sent);
        assert_eq!(end, Order::StopAt(0));
        assert_eq!(sent.0, [Message::bare(Kind::Fault, Message::<u8>::UNREADABLE)]);
        worker.tick(Liveness::default().grace_nanos, &mut sent);
        let Some(Close::Breach(breach)) = worker.closed() else {
            panic!("another close");
        };
        assert_eq!(breach.text, "the end while item 3 is not done");
    }
}
