//! Scheduling: lanes, their control, the queue, the order of results and the choice of the error.
//!
//! A lane is one scoped thread and one resource of the caller's (an engine, for treadle), lent to it for one run.
//! Nothing here outlives a run, and nothing here knows what a resource is.
#![forbid(unsafe_code)]

mod control;
mod cutoff;
mod feed;
mod lookahead;
mod order;
mod queue;
pub mod ranks;
mod report;
mod run;
mod started;

pub use control::LaneControl;
pub use cutoff::Cutoff;
pub use feed::{Feed, Taken};
pub use lookahead::{MOST_FOR_A_LANE, lookahead};
pub use order::{in_order, lowest};
pub use queue::IndexQueue;
pub use report::{End, Report, RunError};
pub use run::{Lane, LaneThreads, Panicked, STACK_BYTES};
pub use started::Started;
