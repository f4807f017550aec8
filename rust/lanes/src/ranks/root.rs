//! The root of a map across ranks: hands out items in order, takes back what came of them, and decides the end.

use std::collections::BTreeMap;

use super::batching::{Batching, Times};
use super::ledger::Ledger;
use super::link::{Link, Liveness, Rounds};
use super::message::{How, Kind, Message, NO_INDEX, Parcel};
use super::transport::Transport;

/// Items that each of the root's own lanes may have before it, when items are short: they travel nowhere.
const OWN_AHEAD: usize = 4;
/// Items for the root's own lanes wait for no longer than this.
const OWN_NANOS: f64 = 1e6;
/// What has not stopped.
const NEVER: u64 = u64::MAX;

/// What becomes of an item that failed with an ordinary exception.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// It ends the map.
    Raise,
    /// The failure is the result.
    Return,
    /// The host makes a result of it.
    Handle,
}

/// What a map is asked for.
#[derive(Clone, Copy, Debug)]
pub struct RootOptions {
    /// The root's rank.
    pub rank: usize,
    /// Ranks, the root among them.
    pub ranks: usize,
    /// The root's own lanes that take items; 0 where it only coordinates.
    pub lanes: usize,
    /// The size of a batch.
    pub batching: Batching,
    /// Whether each lane elsewhere gets a second batch ahead.
    pub prefetch: bool,
    /// What becomes of items that fail.
    pub on_failure: OnFailure,
    /// The time at which the map is over.
    pub deadline: Option<u64>,
    /// Whether results are taken while the map goes on, and what is read ahead of them is bounded.
    pub streams: bool,
    /// How many items may be read and not yet taken in a stream; none: enough for every lane, twice over.
    pub window: Option<u64>,
    /// How many items there are, if it is known.
    pub total: Option<u64>,
    /// Pings and silence.
    pub liveness: Liveness,
}

/// Room for so many items at a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The rank.
    pub rank: usize,
    /// At most so many.
    pub count: usize,
}

/// What came of an item, or a fault of a rank (then the index is [`NO_INDEX`]); the host looks into the payload and asks
/// [`Root::judge`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arrival<P> {
    /// Where from.
    pub rank: usize,
    /// Index, ending and payload.
    pub parcel: Parcel<P>,
}

/// What the host does with an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// [`Root::keep`] the value.
    Keep,
    /// [`Root::fail`] with the failure.
    Fail,
    /// [`Root::end_at_once`] with the failure.
    End,
    /// [`Root::keep`] the failure as the value.
    Return,
    /// Make a value of the failure and [`Root::keep`] it, or fail.
    Handle,
    /// It came too late, or was never started.
    Drop,
}

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

    // --- handing out ---

    /// The rank that is to get items next, and how many; none while no rank has room or nothing is to be handed out.
    pub fn want(&self) -> Option<Want> {
        if self.closed || self.phase != Phase::Running {
            return None;
        }
        let left = self.options.total.map(|total| total.saturating_sub(self.next));
        let batch = self.options.batching.size(&self.times, self.ledger.lanes(), left);
        let ahead = if self.options.prefetch { 2 } else { 1 };
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
        let lanes = self.ledger.lanes().saturating_mul(for_a_lane.max(OWN_AHEAD));
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

    // --- taking back ---

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

    // --- order ---

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

    // --- ranks that break away, and time ---

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

    fn estrange(&mut self, now: u64, from: usize, text: String, transport: &mut impl Transport<Payload = P>) {
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

    fn breaks(
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

    // --- the end ---

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
