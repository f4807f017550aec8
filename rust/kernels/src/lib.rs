//! Instruction sets and the small kernels that need no packing.
//!
//! A product here is `c = a * b` with `a` of `m x k`, `b` of `k x n` and `c` of `m x n`, each with a row and a column
//! stride in elements, of any sign.

mod combine;
mod dot;
mod isa;
pub mod plain;
mod shape;
pub mod small;
mod vector;

pub use combine::{COLUMNS, combine_rows};
pub use dot::{dot, dot_conj};
pub use isa::Isa;
pub use shape::{Matrix, Product};
