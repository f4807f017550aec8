//! A network in memory, with a clock of its own and faults on demand.

use std::collections::{BTreeMap, VecDeque};

/// What happens to one message.
pub enum Fault<M> {
    /// It never arrives.
    Drop,
    /// It arrives so much later, and everything after it from the same sender to the same receiver.
    Delay(u64),
    /// It arrives twice.
    Duplicate,
    /// It arrives after the next one of the same pair, if there is one.
    Overtaken,
    /// It arrives changed.
    Change(Box<dyn FnMut(&mut M)>),
}

/// A message under way.
struct Flight<M> {
    due: u64,
    message: M,
}

/// Carries messages between ranks. Those of one pair arrive in order, unless a fault says otherwise; nothing is said of
/// different pairs.
pub struct Network<M> {
    latency: u64,
    sent: u64,
    faults: BTreeMap<u64, Fault<M>>,
    pairs: BTreeMap<(usize, usize), VecDeque<Flight<M>>>,
    held: BTreeMap<(usize, usize), Flight<M>>,
    /// When each pair's first message is due, so that the next one is found without a search.
    due: BTreeMap<(u64, usize, usize), ()>,
    dead: Vec<bool>,
}

impl<M: Clone> Network<M> {
    /// Between so many ranks, with the same latency everywhere.
    pub fn new(ranks: usize, latency: u64) -> Self {
        Network {
            latency,
            sent: 0,
            faults: BTreeMap::new(),
            pairs: BTreeMap::new(),
            held: BTreeMap::new(),
            due: BTreeMap::new(),
            dead: vec![false; ranks],
        }
    }

    /// Message number `number`, counted over all ranks from 0, meets a fault.
    #[must_use]
    pub fn with_fault(mut self, number: u64, fault: Fault<M>) -> Self {
        self.faults.insert(number, fault);
        self
    }

    /// A rank sends a message.
    pub fn send(&mut self, now: u64, from: usize, to: usize, message: M) {
        let number = self.sent;
        self.sent += 1;
        if self.dead[from] || self.dead[to] {
            return;
        }
        let pair = (from, to);
        let mut flight = Flight {
            due: now + self.latency,
            message,
        };
        match self.faults.remove(&number) {
            None => {}
            Some(Fault::Drop) => return,
            Some(Fault::Delay(time)) => flight.due += time,
            Some(Fault::Duplicate) => self.push(
                pair,
                Flight {
                    due: flight.due,
                    message: flight.message.clone(),
                },
            ),
            Some(Fault::Overtaken) => {
                self.held.insert(pair, flight);
                return;
            }
            Some(Fault::Change(mut change)) => change(&mut flight.message),
        }
        self.push(pair, flight);
        if let Some(mut held) = self.held.remove(&pair) {
            held.due = held.due.max(now + self.latency);
            self.push(pair, held);
        }
    }

    fn push(&mut self, pair: (usize, usize), mut flight: Flight<M>) {
        let queue = self.pairs.entry(pair).or_default();
        match queue.back() {
            Some(last) => flight.due = flight.due.max(last.due),
            None => {
                self.due.insert((flight.due, pair.0, pair.1), ());
            }
        }
        queue.push_back(flight);
    }

    /// The pairs that have a message under way.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.pairs.keys().copied()
    }

    /// The pair whose message is due first, and when.
    pub fn earliest(&self) -> Option<(u64, (usize, usize))> {
        self.due
            .first_key_value()
            .map(|((due, from, to), ())| (*due, (*from, *to)))
    }

    /// Delivers the first message of a pair.
    pub fn deliver(&mut self, pair: (usize, usize)) -> Option<M> {
        let queue = self.pairs.get_mut(&pair)?;
        let flight = queue.pop_front()?;
        self.due.remove(&(flight.due, pair.0, pair.1));
        match queue.front() {
            Some(next) => {
                self.due.insert((next.due, pair.0, pair.1), ());
            }
            None => {
                self.pairs.remove(&pair);
            }
        }
        Some(flight.message)
    }

    /// A rank dies: what it had not received is gone, and so is what others send to it. What it had sent still arrives.
    pub fn kill(&mut self, rank: usize) {
        self.dead[rank] = true;
        self.pairs.retain(|(_, to), _| *to != rank);
        self.due.retain(|(_, _, to), ()| *to != rank);
        self.held.retain(|(_, to), _| *to != rank);
    }

    /// Messages that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(network: &mut Network<u32>) -> Vec<(u64, u32)> {
        std::iter::from_fn(|| {
            let (due, pair) = network.earliest()?;
            Some((due, network.deliver(pair)?))
        })
        .collect()
    }

    #[test]
    fn order_within_a_pair_and_faults_where_they_were_asked_for() {
        let mut network = Network::new(3, 10)
            .with_fault(0, Fault::Delay(100))
            .with_fault(3, Fault::Overtaken)
            .with_fault(5, Fault::Duplicate)
            .with_fault(6, Fault::Drop)
            .with_fault(7, Fault::Change(Box::new(|value| *value += 1000)));
        for (number, to) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2), (7, 2)] {
            network.send(number, 0, to, number as u32);
        }
        let got = drain(&mut network);
        assert_eq!(
            got,
            [
                (12, 2),
                (14, 4),
                (14, 3),
                (15, 5),
                (15, 5),
                (17, 1007),
                (110, 0),
                (110, 1)
            ]
        );
        assert_eq!(network.sent(), 8);
    }

    #[test]
    fn the_dead_neither_send_nor_receive() {
        let mut network = Network::new(2, 1);
        network.send(0, 0, 1, 1);
        network.send(0, 1, 0, 2);
        network.kill(1);
        network.send(1, 0, 1, 3);
        network.send(1, 1, 0, 4);
        assert_eq!(drain(&mut network), [(1, 2)]);
    }
}
