//! What ranks say to each other.

/// No item: the index of a payload that belongs to none.
pub const NO_INDEX: u64 = u64::MAX;

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// A worker takes items from now on; the value is the number of its lanes.
    Ready = 0,
    /// Items for a worker.
    Task = 1,
    /// What came of items.
    Result = 2,
    /// Nothing at or above the value starts any more.
    Stop = 3,
    /// Everything has come back; the lanes may end.
    End = 4,
    /// The lanes have ended. The last message of a worker.
    Drain = 5,
    /// What came of the map. The last message of the root.
    Verdict = 6,
    /// The map has to end at once; the value has [`Message::ALIVE`] and [`Message::UNREADABLE`].
    Fault = 7,
    /// The sender is still here.
    Ping = 8,
}

impl Kind {
    /// Every kind, in the order of the bytes that stand for them.
    pub const ALL: [Kind; 9] = [
        Kind::Ready,
        Kind::Task,
        Kind::Result,
        Kind::Stop,
        Kind::End,
        Kind::Drain,
        Kind::Verdict,
        Kind::Fault,
        Kind::Ping,
    ];

    /// The kind that a byte stands for.
    pub fn of(byte: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(byte)).copied()
    }
}

/// How an item ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum How {
    /// With a value.
    Done = 0,
    /// With an ordinary exception.
    Failed = 1,
    /// With an exception that ends the map under every option.
    Fatal = 2,
    /// It, or its value, cannot travel.
    Wire = 3,
    /// It was not started: the map was stopped below it.
    Skipped = 4,
}

impl How {
    /// Every one, in the order of the bytes that stand for them.
    pub const ALL: [How; 5] = [How::Done, How::Failed, How::Fatal, How::Wire, How::Skipped];

    /// The ending that a byte stands for.
    pub fn of(byte: u8) -> Option<How> {
        How::ALL.get(usize::from(byte)).copied()
    }
}

/// One item on its way, or what came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parcel<P> {
    /// The item's index, or [`NO_INDEX`].
    pub index: u64,
    /// How it ended; `Done` for an item on its way out.
    pub how: How,
    /// How long it took.
    pub nanos: u64,
    /// The item, the value or the failure; none for what was skipped.
    pub payload: Option<P>,
}

impl<P> Parcel<P> {
    /// An item on its way out.
    pub fn task(index: u64, payload: P) -> Self {
        Parcel {
            index,
            how: How::Done,
            nanos: 0,
            payload: Some(payload),
        }
    }
}

/// A message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<P> {
    /// What it is about.
    pub kind: Kind,
    /// What the kind says that it is.
    pub value: u64,
    /// Items, or the one payload of a fault or a verdict.
    pub parcels: Vec<Parcel<P>>,
}

impl<P> Message<P> {
    /// In the value of a fault: the lanes of the sender go on, and its items come back.
    pub const ALIVE: u64 = 1;
    /// In the value of a fault: the sender could not read a message.
    pub const UNREADABLE: u64 = 2;
    /// The value of a verdict without an error.
    pub const FINE: u64 = 0;
    /// The value of a verdict that is an error.
    pub const ERROR: u64 = 1;
    /// More lanes than any rank has.
    pub const MAX_LANES: u64 = 1 << 20;

    /// A message without payload.
    pub fn bare(kind: Kind, value: u64) -> Self {
        Message {
            kind,
            value,
            parcels: Vec::new(),
        }
    }

    /// A message with one payload that belongs to no item.
    pub fn with(kind: Kind, value: u64, payload: P) -> Self {
        Message {
            kind,
            value,
            parcels: vec![Parcel::task(NO_INDEX, payload)],
        }
    }
}
