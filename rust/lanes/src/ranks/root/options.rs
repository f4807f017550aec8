//! What a map across ranks is asked for, and the words between the root and its host.

use crate::ranks::batching::Batching;
use crate::ranks::link::Liveness;
use crate::ranks::message::Parcel;

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
