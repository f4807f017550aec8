//! The thread team: pools that the caller holds, tokens that carry a budget of slots, and fork/join sections.
//!
//! ```
//! use std::sync::atomic::{AtomicUsize, Ordering};
//! use treadle_team::Pool;
//!
//! let mut pool = Pool::builder().threads(2).build()?;
//! let sum = AtomicUsize::new(0);
//! pool.token()?.chunks(10, |i| {
//!     sum.fetch_add(i, Ordering::Relaxed);
//! })?;
//! assert_eq!(sum.into_inner(), 45);
//! # Ok::<(), treadle_core::Error>(())
//! ```

pub mod affinity;
mod barrier;
mod broadcast;
mod builder;
mod chunks;
pub mod fork;
mod interrupted;
mod mailbox;
mod panics;
mod parts;
mod pool;
mod section;
mod sync;
mod token;
mod waiting;
mod worker;

pub use broadcast::Member;
pub use builder::{PoolBuilder, allowed_width};
pub use interrupted::Interrupted;
pub use pool::{Pool, PoolStats};
pub use token::Token;
pub use worker::{PoolId, current_worker};
