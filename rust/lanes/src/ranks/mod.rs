//! A map across ranks, as state machines that know no network and no clock.
//!
//! [`Root`] hands out items in order and decides how the map ends; [`Worker`] is every other rank. Both are told what
//! arrived and what time it is, and say what to send through a [`Transport`]. Payloads are handles that nobody here
//! looks into. [`Head`] is the part of a message that is looked into: a fixed header and two tables, checked in full
//! before anything is made from them.
//!
//! ```text
//! worker            root
//!   READY  ------->          lanes of the rank
//!          <-------  TASK    items, in increasing order of their indices
//!   RESULT ------->          what came of some of them
//!          <-------  STOP    nothing at or above an index starts any more (from a worker: nothing at all)
//!   FAULT  ------->          the map has to end: an interrupt, broken lanes, a message that cannot be read
//!   PING   <------>          still here
//!          <-------  END     everything has come back
//!   DRAIN  ------->          the lanes have ended; the worker's last message
//!          <-------  VERDICT what came of the map; the root's last message
//! ```

mod batching;
mod checksum;
mod desk;
mod frame;
mod ledger;
mod link;
mod message;
mod root;
mod transport;
mod worker;

pub use batching::{AUTO_ITEMS, Batching};
pub use desk::Desk;
pub use frame::{ATTACHED_FROM, FrameError, HEADER_BYTES, Head, INLINE_LIMIT, MAX_ENTRIES, Place, Segment};
pub use link::Liveness;
pub use message::{How, Kind, Message, NO_INDEX, Parcel};
pub use root::{Arrival, Breach, BreachKind, Judgement, OnFailure, Outcome, Root, RootOptions, Want};
pub use transport::Transport;
pub use worker::{Close, Order, Worker};
