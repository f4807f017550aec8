//! A whole map across ranks on the fake network: the real machines, lanes that take virtual time, one clock.

use std::collections::VecDeque;

use treadle_lanes::ranks::{
    Batching, BreachKind, Close, Desk, Head, How, Judgement, Liveness, Message, NO_INDEX, OnFailure, Order,
    Outcome, Parcel, Place, Root, RootOptions, Transport, Worker,
};
use treadle_testkit::Network;

pub(crate) const MILLI: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MILLI;

/// The payload of a result, a failure, a fault or a verdict says what it is.
pub(crate) const VALUE: u64 = 1_000_000;
const FAILURE: u64 = 2_000_000;
pub(crate) const FINE: u64 = 3_000_000;
pub(crate) const FAILED: u64 = 4_000_000;
pub(crate) const FATAL: u64 = 5_000_000;
pub(crate) const LOST: u64 = 6_000_000;
pub(crate) const PROTOCOL: u64 = 7_000_000;

/// A frame as it travels, and the payloads that it stands for.
#[derive(Clone)]
pub(crate) struct Packet {
    pub(crate) frame: Vec<u8>,
    payloads: VecDeque<u64>,
    sequence: u64,
}

/// One rank's end of the network.
pub(crate) struct Port<'a> {
    pub(crate) network: &'a mut Network<Packet>,
    now: u64,
    rank: usize,
}

/// A payload is a pickle and a buffer; some are long enough to be attached.
fn lengths(payload: &u64, out: &mut Vec<u64>) {
    out.extend([8 + payload % 3, (payload % 5) * 20_000]);
}

impl Transport for Port<'_> {
    type Payload = u64;

    fn send(&mut self, to: usize, sequence: u64, message: Message<u64>) {
        let head = Head::of(sequence, &message, lengths).expect("what a machine says can be said");
        let mut frame = head.encode();
        let inline: u64 = head
            .segments()
            .filter(|segment| segment.place != Place::Attached)
            .map(|segment| segment.bytes)
            .sum();
        frame.resize(frame.len() + inline as usize, 0);
        let payloads = message
            .parcels
            .into_iter()
            .filter_map(|parcel| parcel.payload)
            .collect();
        let packet = Packet {
            frame,
            payloads,
            sequence,
        };
        self.network.send(self.now, self.rank, to, packet);
    }
}

/// What one call of the map is.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) ranks: usize,
    pub(crate) lanes: usize,
    pub(crate) root: usize,
    pub(crate) root_computes: bool,
    /// How each item ends, and after how long.
    pub(crate) items: Vec<(How, u64)>,
    pub(crate) batching: Batching,
    pub(crate) prefetch: bool,
    pub(crate) on_failure: OnFailure,
    pub(crate) silence: Option<u64>,
    pub(crate) deadline: Option<u64>,
    pub(crate) window: Option<u64>,
}

impl Plan {
    pub(crate) fn new(ranks: usize, items: usize) -> Self {
        Plan {
            ranks,
            lanes: 1,
            root: 0,
            root_computes: true,
            items: vec![(How::Done, 5 * MILLI); items],
            batching: Batching::Fixed(1),
            prefetch: false,
            on_failure: OnFailure::Raise,
            silence: Some(3 * SECOND),
            deadline: None,
            window: None,
        }
    }

    pub(crate) fn failing(mut self, at: &[usize]) -> Self {
        for index in at {
            self.items[*index].0 = How::Failed;
        }
        self
    }

    /// What every rank says when nothing goes wrong but items.
    pub(crate) fn expected(&self) -> u64 {
        let lowest = |how| self.items.iter().position(|item| item.0 == how);
        if lowest(How::Fatal).is_some() {
            return FATAL;
        }
        let failed = self.on_failure == OnFailure::Raise;
        match (lowest(How::Failed).filter(|_| failed), lowest(How::Wire)) {
            (None, None) => FINE,
            (one, other) => FAILED + one.unwrap_or(usize::MAX).min(other.unwrap_or(usize::MAX)) as u64,
        }
    }
}

/// One thing that can happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    Deliver(usize, usize),
    Finish(usize, usize),
    Tick,
}

struct Rank {
    alive: bool,
    worker: Option<Worker<u64>>,
    desk: Desk,
    queue: VecDeque<u64>,
    /// What each lane runs, and until when.
    lanes: Vec<Option<(u64, u64)>>,
    end: Option<u64>,
}

pub(crate) struct World {
    plan: Plan,
    now: u64,
    next_tick: u64,
    root: Root<u64>,
    ranks: Vec<Rank>,
    pub(crate) network: Network<Packet>,
    /// How often each item was run.
    pub(crate) runs: Vec<u32>,
    pub(crate) results: Vec<u64>,
    read: u64,
    /// The largest number of items that were read and not yet taken.
    pub(crate) ahead: u64,
}

const TICK: u64 = 100 * MILLI;

impl World {
    pub(crate) fn new(plan: Plan, network: Network<Packet>) -> Self {
        let liveness = Liveness {
            ping_nanos: SECOND,
            silence_nanos: plan.silence,
            grace_nanos: 2 * SECOND,
        };
        let root = Root::new(
            0,
            RootOptions {
                rank: plan.root,
                ranks: plan.ranks,
                lanes: if plan.root_computes { plan.lanes } else { 0 },
                batching: plan.batching,
                prefetch: plan.prefetch,
                on_failure: plan.on_failure,
                deadline: plan.deadline,
                streams: plan.window.is_some(),
                window: plan.window,
                total: Some(plan.items.len() as u64),
                liveness,
            },
        );
        let rank = |rank: usize| Rank {
            alive: true,
            worker: (rank != plan.root).then(|| Worker::new(0, plan.root, liveness)),
            desk: Desk::new(0, plan.on_failure == OnFailure::Raise),
            queue: VecDeque::new(),
            lanes: vec![None; plan.lanes],
            end: None,
        };
        let mut world = World {
            now: 0,
            next_tick: TICK,
            root,
            ranks: (0..plan.ranks).map(rank).collect(),
            network,
            runs: vec![0; plan.items.len()],
            results: Vec::new(),
            read: 0,
            ahead: 0,
            plan,
        };
        for rank in 0..world.plan.ranks {
            world.with_worker(rank, |worker, port, lanes| worker.ready(0, lanes, port));
        }
        world.step_root();
        world
    }

    fn port(network: &mut Network<Packet>, now: u64, rank: usize) -> Port<'_> {
        Port { network, now, rank }
    }

    fn with_worker<R>(
        &mut self,
        rank: usize,
        act: impl FnOnce(&mut Worker<u64>, &mut Port<'_>, usize) -> R,
    ) -> Option<R> {
        let lanes = self.plan.lanes;
        let mut port = World::port(&mut self.network, self.now, rank);
        let worker = self.ranks[rank].worker.as_mut()?;
        Some(act(worker, &mut port, lanes))
    }

    fn with_root<R>(&mut self, act: impl FnOnce(&mut Root<u64>, &mut Port<'_>) -> R) -> R {
        let mut port = World::port(&mut self.network, self.now, self.plan.root);
        act(&mut self.root, &mut port)
    }

    /// What each rank says at the end; none while it says nothing.
    pub(crate) fn ends(&self) -> Vec<Option<u64>> {
        self.ranks.iter().map(|rank| rank.end).collect()
    }

    pub(crate) fn is_alive(&self, rank: usize) -> bool {
        self.ranks[rank].alive
    }

    pub(crate) fn is_over(&self) -> bool {
        self.ranks.iter().all(|rank| !rank.alive || rank.end.is_some())
    }

    /// What can happen now, apart from time.
    pub(crate) fn enabled(&self) -> Vec<Event> {
        let arrivals = self.network.pairs().map(|(from, to)| Event::Deliver(from, to));
        let finishes = self.ranks.iter().enumerate().flat_map(|(rank, state)| {
            let busy = state.lanes.iter().enumerate().filter(|(_, lane)| lane.is_some());
            busy.map(move |(lane, _)| Event::Finish(rank, lane))
        });
        arrivals.chain(finishes).collect()
    }

    /// What happens next by the clock.
    pub(crate) fn next_event(&self) -> (u64, Event) {
        let mut first = (self.next_tick, Event::Tick);
        if let Some((due, (from, to))) = self.network.earliest()
            && due < first.0
        {
            first = (due, Event::Deliver(from, to));
        }
        for (rank, state) in self.ranks.iter().enumerate() {
            for (lane, busy) in state.lanes.iter().enumerate() {
                if let Some((_, until)) = busy
                    && *until < first.0
                {
                    first = (*until, Event::Finish(rank, lane));
                }
            }
        }
        first
    }

    pub(crate) fn kill(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        state.alive = false;
        state.queue.clear();
        state.lanes.fill(None);
        state.worker = None;
        self.network.kill(rank);
    }

    /// The host of `observer` learns that a process is gone.
    pub(crate) fn report_lost(&mut self, observer: usize, rank: usize) {
        if observer == self.plan.root {
            let now = self.now;
            self.with_root(|root, port| root.lost(now, rank, "its process is gone".into(), port));
            self.step_root();
        } else if rank == self.plan.root {
            self.with_worker(observer, |worker, _, _| worker.lost("its process is gone".into()));
            self.over(observer);
        }
    }

    pub(crate) fn perform(&mut self, time: u64, event: Event) {
        self.now = self.now.max(time);
        let now = self.now;
        match event {
            Event::Tick => {
                self.next_tick = now + TICK;
                for rank in 0..self.plan.ranks {
                    if rank == self.plan.root && self.ranks[rank].alive {
                        self.with_root(|root, port| root.tick(now, port));
                    }
                    self.with_worker(rank, |worker, port, _| {
                        worker.flush(now, port);
                        worker.tick(now, port);
                    });
                    self.over(rank);
                }
            }
            Event::Finish(rank, lane) => {
                let Some((index, _)) = self.ranks[rank].lanes[lane].take() else {
                    return;
                };
                let (how, nanos) = self.plan.items[index as usize];
                self.ranks[rank].desk.ended(index, how);
                let payload = if how == How::Done { VALUE } else { FAILURE } + index;
                self.ended(rank, index, how, nanos, Some(payload));
                self.start(rank);
            }
            Event::Deliver(from, to) => {
                if let Some(packet) = self.network.deliver((from, to)) {
                    self.receive(from, to, packet);
                }
            }
        }
        self.step_root();
    }

    fn receive(&mut self, from: usize, to: usize, mut packet: Packet) {
        let now = self.now;
        let read = Head::decode(&packet.frame).map(|head| {
            let message = head.message(|_| packet.payloads.pop_front().ok_or(()));
            (head.sequence(), message.expect("a payload for each entry"))
        });
        if let Ok((sequence, _)) = &read {
            assert_eq!(*sequence, packet.sequence, "the checksum covers it");
        }
        if to == self.plan.root {
            let arrivals = self.with_root(|root, port| match read {
                Ok((sequence, message)) => root.receive(now, from, sequence, message, port),
                Err(error) => {
                    root.garbled(now, from, error.to_string(), port);
                    Vec::new()
                }
            });
            for arrival in arrivals {
                self.judge(arrival.parcel);
            }
            return;
        }
        let order = self.with_worker(to, |worker, port, _| match read {
            Ok((sequence, message)) => worker.receive(now, sequence, message, port),
            Err(error) => worker.garbled(now, error.to_string(), port),
        });
        match order.unwrap_or(Order::Nothing) {
            Order::Nothing => {}
            Order::Run(tasks) => {
                self.ranks[to].queue.extend(tasks.iter().map(|task| task.index));
                self.start(to);
            }
            Order::StopAt(cutoff) => {
                self.ranks[to].desk.stop_at(cutoff);
                self.start(to);
            }
            Order::End => {
                self.with_worker(to, |worker, port, _| worker.drain(now, port));
            }
            Order::Over => self.over(to),
        }
    }

    /// Free lanes take what waits.
    fn start(&mut self, rank: usize) {
        while let Some(index) = self.ranks[rank].queue.front().copied() {
            let state = &mut self.ranks[rank];
            if !state.desk.admits(index) {
                state.queue.pop_front();
                self.ended(rank, index, How::Skipped, 0, None);
                continue;
            }
            let Some(lane) = state.lanes.iter_mut().find(|lane| lane.is_none()) else {
                return;
            };
            state.queue.pop_front();
            *lane = Some((index, self.now + self.plan.items[index as usize].1));
            self.runs[index as usize] += 1;
        }
    }

    fn ended(&mut self, rank: usize, index: u64, how: How, nanos: u64, payload: Option<u64>) {
        let (now, parcel) = (
            self.now,
            Parcel {
                index,
                how,
                nanos,
                payload,
            },
        );
        if rank == self.plan.root {
            if self.root.local(index, how, nanos) {
                self.judge(parcel);
            }
            return;
        }
        self.with_worker(rank, |worker, port, _| {
            worker.ended(parcel, 100);
            worker.flush(now, port);
        });
    }

    fn judge(&mut self, parcel: Parcel<u64>) {
        let (now, index) = (self.now, parcel.index);
        match self.root.judge(index, parcel.how) {
            Judgement::Drop => {}
            Judgement::Keep => self.root.keep(index, parcel.payload.unwrap()),
            Judgement::Return | Judgement::Handle => self.root.keep(index, parcel.payload.unwrap()),
            Judgement::Fail => self.with_root(|root, port| root.fail(now, index, FAILED + index, port)),
            Judgement::End => {
                assert!(parcel.payload.is_some() && (index == NO_INDEX || parcel.how == How::Fatal));
                self.with_root(|root, port| root.end_at_once(now, FATAL, port));
            }
        }
    }

    /// What the host of the root does between messages.
    fn step_root(&mut self) {
        let (own, now) = (self.plan.root, self.now);
        if !self.ranks[own].alive || self.ranks[own].end.is_some() {
            return;
        }
        while let Some((index, value)) = self.root.take() {
            assert_eq!(index, self.results.len() as u64);
            self.results.push(value);
        }
        if let Some(cutoff) = self.root.cutoff() {
            self.ranks[own].desk.stop_at(cutoff);
            self.start(own);
        }
        while let Some(want) = self.root.want() {
            let total = self.plan.items.len() as u64;
            let until = total.min(self.read + want.count as u64);
            let items = (self.read..until)
                .map(|index| Parcel::task(index, index))
                .collect();
            if self.read == total {
                self.root.close();
                break;
            }
            let given = self.read..until;
            self.read = until;
            self.ahead = self.ahead.max(self.read - self.results.len() as u64);
            self.with_root(|root, port| root.give(now, want.rank, items, port));
            if want.rank == own {
                self.ranks[own].queue.extend(given);
                self.start(own);
            }
        }
        if self.root.is_settled() {
            self.with_root(|root, port| root.end(now, port));
        }
        if self.root.is_drained() {
            let (value, verdict) = match self.root.outcome() {
                Outcome::Breach(breach) => match breach.kind {
                    BreachKind::Lost => (1, LOST + breach.rank as u64),
                    BreachKind::Protocol => (1, PROTOCOL + breach.rank as u64),
                },
                Outcome::Fatal(fatal) => (1, *fatal),
                Outcome::Failed(index, failed) => {
                    assert_eq!(*failed, FAILED + index);
                    (1, *failed)
                }
                Outcome::Fine => (0, FINE),
            };
            self.with_root(|root, port| root.conclude(now, value, || verdict, port));
            while let Some((index, value)) = self.root.take() {
                assert_eq!(index, self.results.len() as u64);
                self.results.push(value);
            }
            self.ranks[own].end = Some(verdict);
        }
    }

    fn over(&mut self, rank: usize) {
        let close = self.with_worker(rank, |worker, _, _| worker.closed()).flatten();
        match close {
            None => {}
            Some(Close::Verdict { payload, .. }) => self.ranks[rank].end = Some(payload),
            Some(Close::Breach(breach)) => {
                let kind = match breach.kind {
                    BreachKind::Lost => LOST,
                    BreachKind::Protocol => PROTOCOL,
                };
                self.ranks[rank].end = Some(kind + breach.rank as u64);
            }
        }
    }

    /// Runs by the clock until every rank has an end. A map that takes longer than any may is a hang.
    pub(crate) fn run(&mut self) {
        let mut events = 0;
        while !self.is_over() {
            let (time, event) = self.next_event();
            self.perform(time, event);
            events += 1;
            assert!(
                self.now < 60 * SECOND && events < 5_000_000,
                "no end: {:?}",
                self.ends()
            );
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }
}
