//! `CpuEngine`: a thread team, a plan cache, a buffer pool and a batch policy in one value that the caller holds.
//!
//! Rust code owns an engine and borrows it mutably for an operation. Code that shares one between threads, as
//! the Python binding does, holds an [`EngineCell`], which refuses a second operation at once.

mod blocks;
mod buffer_pool;
mod cast;
mod cell;
mod engine;
mod plan_cache;
mod recent;

pub use blocks::{Block, Blocks, Footprint, Part};
pub use buffer_pool::{ALIGNMENT, Buffer, BufferPool, BufferStats};
pub use cast::{Cast, Form};
pub use cell::{EngineCell, Entered, State};
pub use engine::{CpuEngine, EngineOptions, PROVIDER_ID, Parts, build_pool};
pub use plan_cache::{CacheKey, CacheStats, DEFAULT_CAPACITY, DEFAULT_MAX_BYTES, PlanCache};
pub use recent::BorrowedPlan;
