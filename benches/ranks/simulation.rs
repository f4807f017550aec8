//! The real scheduler of a map across ranks on a fake network, with thousands of ranks: how well the lanes are used, and
//! how busy the root is.
//!
//! ```text
//! cargo bench -p treadle-lanes --bench ranks -- [ranks ...] [ms=item time] [items=for each lane]
//! ```
//!
//! Time is virtual. The root is one server: a message costs it `MESSAGE`, each item in it `ITEM`, in both directions,
//! as was measured of the Python host over mpi4py (docs/explanation/ranks.md); while it is busy, messages wait. Workers
//! cost nothing. "possible" is what lanes reach that take the next item in no time (list scheduling, Graham 1969).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::process::ExitCode;

use treadle_lanes::ranks::{
    Batching, How, Judgement, Liveness, Message, OnFailure, Order, Parcel, Root, RootOptions, Transport,
    Worker,
};
use treadle_testkit::{Network, Random};

const MICRO: u64 = 1_000;
const MILLI: u64 = 1_000_000;
/// One way between two ranks, with the sleep of the one that waits.
const LATENCY: u64 = 150 * MICRO;
/// What a message costs the root.
const MESSAGE: u64 = 15 * MICRO;
/// What an item in a message costs the root.
const ITEM: u64 = 3 * MICRO / 2;

type Flight = (u64, Message<()>);

struct Port<'a> {
    network: &'a mut Network<Flight>,
    now: u64,
    rank: usize,
    /// What sending costs, and who pays.
    cost: u64,
}

impl Transport for Port<'_> {
    type Payload = ();

    fn send(&mut self, to: usize, sequence: u64, message: Message<()>) {
        if self.rank == 0 {
            self.cost += MESSAGE + ITEM * message.parcels.len() as u64;
        }
        self.network
            .send(self.now + self.cost, self.rank, to, (sequence, message));
    }
}

#[derive(Clone, Copy)]
enum Times {
    Constant,
    Lognormal,
    HeavyTail,
}

impl Times {
    /// The time of an item, with that mean: constant; lognormal with sigma 0.5; Pareto with exponent 1.5, cut at 100 means.
    fn draw(self, random: &mut Random, mean: f64) -> u64 {
        let time = match self {
            Times::Constant => mean,
            Times::Lognormal => {
                let (u, v) = (random.unit().max(1e-300), random.unit());
                let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
                mean * (0.5 * normal - 0.125).exp()
            }
            Times::HeavyTail => {
                let scale = mean / 3.0;
                (scale * (1.0 - random.unit()).powf(-1.0 / 1.5)).min(100.0 * mean)
            }
        };
        (time as u64).max(1)
    }
}

struct Outcome {
    efficiency: f64,
    possible: f64,
    load: f64,
    batch: f64,
}

struct Simulation {
    root: Root<()>,
    workers: Vec<Worker<()>>,
    queues: Vec<VecDeque<u64>>,
    network: Network<Flight>,
    lanes: BinaryHeap<Reverse<(u64, usize, u64)>>,
    idle: Vec<bool>,
    times: Vec<u64>,
    read: u64,
    /// Until when the root is busy, and for how long it was.
    free: u64,
    busy: u64,
    tasks: u64,
}

impl Simulation {
    fn new(ranks: usize, times: Vec<u64>, batching: Batching, prefetch: bool) -> Self {
        let liveness = Liveness::default();
        let options = RootOptions {
            rank: 0,
            ranks,
            lanes: 0,
            batching,
            prefetch,
            on_failure: OnFailure::Raise,
            deadline: None,
            streams: false,
            window: None,
            total: Some(times.len() as u64),
            liveness,
        };
        Simulation {
            root: Root::new(0, options),
            workers: (0..ranks).map(|_| Worker::new(0, 0, liveness)).collect(),
            queues: vec![VecDeque::new(); ranks],
            network: Network::new(ranks, LATENCY),
            lanes: BinaryHeap::new(),
            idle: vec![true; ranks],
            times,
            read: 0,
            free: 0,
            busy: 0,
            tasks: 0,
        }
    }

    fn with_root<R>(&mut self, act: impl FnOnce(&mut Root<()>, &mut Port<'_>) -> R) -> R {
        let mut port = Port {
            network: &mut self.network,
            now: self.free,
            rank: 0,
            cost: 0,
        };
        let value = act(&mut self.root, &mut port);
        self.busy += port.cost;
        self.free += port.cost;
        value
    }

    fn with_worker<R>(
        &mut self,
        now: u64,
        rank: usize,
        act: impl FnOnce(&mut Worker<()>, &mut Port<'_>) -> R,
    ) -> R {
        let mut port = Port {
            network: &mut self.network,
            now,
            rank,
            cost: 0,
        };
        act(&mut self.workers[rank], &mut port)
    }

    fn start(&mut self, now: u64, rank: usize) {
        if self.idle[rank]
            && let Some(index) = self.queues[rank].pop_front()
        {
            self.idle[rank] = false;
            self.lanes
                .push(Reverse((now + self.times[index as usize], rank, index)));
        }
    }

    fn hand_out(&mut self) {
        while let Some(want) = self.root.want() {
            let until = (self.read + want.count as u64).min(self.times.len() as u64);
            if self.read == until {
                self.root.close();
                break;
            }
            let items = (self.read..until).map(|index| Parcel::task(index, ())).collect();
            self.read = until;
            self.tasks += 1;
            let now = self.free;
            self.with_root(|root, port| root.give(now, want.rank, items, port));
        }
    }

    /// Runs to the end; returns how long it took.
    fn run(&mut self) -> u64 {
        for rank in 1..self.workers.len() {
            self.with_worker(0, rank, |worker, port| worker.ready(0, 1, port));
        }
        let mut now = 0;
        while !self.root.is_settled() {
            let arrival = self.network.earliest();
            let finish = self.lanes.peek().map(|Reverse((time, _, _))| *time);
            match (arrival, finish) {
                (Some((due, pair)), finish) if finish.is_none_or(|time| due <= time) => {
                    now = due;
                    self.arrive(due, pair);
                }
                (_, Some(time)) => {
                    now = time;
                    let Some(Reverse((_, rank, index))) = self.lanes.pop() else {
                        break;
                    };
                    let nanos = self.times[index as usize];
                    let parcel = Parcel {
                        index,
                        how: How::Done,
                        nanos,
                        payload: Some(()),
                    };
                    self.with_worker(time, rank, |worker, port| {
                        worker.ended(parcel, 100);
                        worker.flush(time, port)
                    });
                    self.idle[rank] = true;
                    self.start(time, rank);
                }
                (_, None) => break,
            }
        }
        now
    }

    fn arrive(&mut self, due: u64, pair: (usize, usize)) {
        let Some((sequence, message)) = self.network.deliver(pair) else {
            return;
        };
        if pair.1 != 0 {
            let rank = pair.1;
            let order = self.with_worker(due, rank, |worker, port| {
                worker.receive(due, sequence, message, port)
            });
            if let Order::Run(tasks) = order {
                self.queues[rank].extend(tasks.iter().map(|task| task.index));
                self.start(due, rank);
            }
            return;
        }
        // The root takes one message after the other.
        let cost = MESSAGE + ITEM * message.parcels.len() as u64;
        self.free = self.free.max(due) + cost;
        self.busy += cost;
        let now = self.free;
        let arrivals = self.with_root(|root, port| root.receive(now, pair.0, sequence, message, port));
        for arrival in arrivals {
            if self.root.judge(arrival.parcel.index, arrival.parcel.how) == Judgement::Keep {
                self.root.keep(arrival.parcel.index, ());
            }
        }
        while self.root.take().is_some() {}
        self.hand_out();
    }
}

/// How long lanes take to which handing out costs nothing.
fn list_schedule(items: &[u64], lanes: usize) -> u64 {
    let mut free: BinaryHeap<Reverse<u64>> = (0..lanes).map(|_| Reverse(0)).collect();
    let mut last = 0;
    for item in items {
        if let Some(mut first) = free.peek_mut() {
            first.0 += item;
            last = last.max(first.0);
        }
    }
    last
}

fn simulate(
    ranks: usize,
    each: usize,
    mean: u64,
    times: Times,
    batching: Batching,
    prefetch: bool,
) -> Outcome {
    // A root that only coordinates, and one lane for each other rank.
    let (mut random, lanes) = (Random::new(7), ranks - 1);
    let items: Vec<u64> = (0..lanes * each)
        .map(|_| times.draw(&mut random, mean as f64))
        .collect();
    let work: u64 = items.iter().sum();
    let count = items.len();
    let bound = list_schedule(&items, lanes);
    let mut simulation = Simulation::new(ranks, items, batching, prefetch);
    let took = simulation.run();
    let efficiency = |took: u64| work as f64 / (took as f64 * lanes as f64);
    Outcome {
        efficiency: efficiency(took),
        possible: efficiency(bound),
        load: simulation.busy as f64 / took as f64,
        batch: count as f64 / simulation.tasks as f64,
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        words
            .iter()
            .find_map(|word| word.strip_prefix(name)?.parse().ok())
    };
    let mut sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (only, each) = (option("ms="), option("items=").unwrap_or(100));
    if sizes.is_empty() {
        sizes = vec![64, 512, 4096];
    }
    let mut table = String::from(
        "| ranks | item | times | batch_size | prefetch | efficiency | possible | root busy | items a message |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for ranks in sizes {
        for mean in [5, 50, 500] {
            if only.is_some_and(|only| only != mean) {
                continue;
            }
            let mean = mean as u64 * MILLI;
            for (name, times) in [
                ("constant", Times::Constant),
                ("lognormal", Times::Lognormal),
                ("heavy tail", Times::HeavyTail),
            ] {
                for (batch, batching) in [("1", Batching::Fixed(1)), ("auto", Batching::Auto)] {
                    for prefetch in [false, true] {
                        let outcome = simulate(ranks, each, mean, times, batching, prefetch);
                        table += &format!(
                            "| {ranks} | {} ms | {name} | {batch} | {prefetch} | {:.1} % | {:.1} % | {:.0} % | {:.1} |\n",
                            mean / MILLI,
                            100.0 * outcome.efficiency,
                            100.0 * outcome.possible,
                            100.0 * outcome.load,
                            outcome.batch
                        );
                    }
                }
            }
        }
    }
    use std::io::Write;
    match std::io::stdout().write_all(table.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
