//! Instruction sets and the small kernels that need no packing.
//!
//! A product here is `c = a * b` with `a` of `m x k`, `b` of `k x n` and `c` of `m x n`, each with a row and a column
//! stride in elements, of any sign.

#[cfg(target_arch = "x86_64")]
mod bits;
mod blocks;
mod caches;
mod column_major;
mod columns;
mod group;
mod inner;
mod isa;
mod microkernel;
mod pack;
mod pairs;
mod shape;
mod simd;
pub mod small;
mod table;
mod update;
mod vector;

pub use blocks::Blocks;
pub use caches::Caches;
pub use column_major::{combine_columns, dot_columns, rotate_columns};
pub use columns::{Columns, Right};
pub use group::Group;
pub use isa::Isa;
pub use microkernel::{Beta, Factor, Tile};
pub use pack::Panel;
pub use shape::{Matrix, Product};
pub use table::{Kernel, TOGETHER};
pub use update::Update;
