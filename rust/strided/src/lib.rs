//! Copy, reduce and map over arbitrary strides.
//!
//! Strides are counted in elements, have any sign, and zero repeats an element of an input. Every function writes
//! each element of its destination once and reads it only when `beta` says that it holds a value.

mod copy;
mod multiply;
mod nest;
mod streaming;
mod sums;

pub use copy::{copy, scale};
pub use multiply::multiply;
pub use nest::Nest;
pub use sums::Sums;
