//! A contraction becomes a plan; plans run on a token.
//!
//! `Plan::new` decides everything that sizes, strides and dtype decide: the order of steps, the route of each, its
//! tiles and its scratch. `Plan::execute` only runs it. No plan holds a pointer or a width, and the result has the
//! same bits at every width and under every batch policy.

mod ahead;
mod arena;
mod constants;
mod direct;
mod fold;
mod fused;
mod gemm;
mod greedy;
mod lower;
mod matmul;
mod optimal;
mod packed;
mod pair;
mod path;
mod plan;
pub mod policy;
mod prepared;
mod reference;
mod request;
mod route;
mod scratch;
mod slicing;
mod step;

pub use matmul::{matmul, matmul_2d, matmul_of};
pub use path::{OPTIMAL_OPERANDS, Optimize, Path, PathCost, StepCost, find_path, path_cost};
pub use plan::Plan;
pub use policy::{BatchPolicy, Decision, decide};
pub use prepared::Prepared;
pub use request::{OperandSpec, PlanRequest};
pub use route::Route;
pub use scratch::{HeapScratch, NoScratch, Scratch};
pub use treadle_kernels::{Isa, Matrix, Product, combine_columns, dot_columns, rotate_columns};
