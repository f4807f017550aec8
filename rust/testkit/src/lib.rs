//! For tests: random cases, exact references, bounds from sizes, poisoned buffers.
//!
//! Nothing here shares code with what it tests beyond the words of `treadle-core`.

mod bounds;
mod case;
mod nasty;
mod network;
mod product;
mod random;
mod reference;
mod sample;
mod strided;

pub use bounds::{gamma, sum_bound};
pub use case::{Case, Limits};
pub use nasty::{NastyMatrix, nasty_matrices, nasty_scales};
pub use network::{Fault, Network};
pub use product::Size;
pub use random::Random;
pub use reference::contract;
pub use sample::Sample;
pub use strided::{Layout, Strided};
