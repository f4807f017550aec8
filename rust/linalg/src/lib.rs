//! Dense factorisations: our own QR and Hermitian eigendecomposition, the others over faer's sequential kernels.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed in the same pieces, so that bits do not depend on the width; items, and the pieces of large ones, are spread
//! over the team by the caller's batch policy. Inputs are checked for NaN and infinity, scaled by a power of two, and results of algorithms that
//! are known to fail silently are checked before they are returned.

mod cholesky;
pub mod cost;
mod crew;
mod deflate;
mod diagonal;
mod divide;
mod eigh;
mod failure;
mod fallbacks;
mod field;
mod gauge;
mod guard;
mod hermitian;
mod hermitian_vector;
mod householder;
mod jacobi;
mod matrices;
mod merge;
mod pivoting;
mod qr;
mod rank_revealing;
mod reflector_block;
mod run;
mod scaling;
mod secular;
mod shared;
mod side_by_side;
mod small_eigh;
mod small_qr;
mod solve;
mod svd;
mod tall;
mod transfer;
mod tridiagonal;
mod tridiagonal_values;
mod tridiagonal_vectors;
mod wide;
#[cfg(target_arch = "x86_64")]
mod wide_avx512;
mod workspace;

pub use cholesky::cholesky;
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use field::{Field, RealNumber};
pub use gauge::Gauge;
pub use hermitian::svd_hermitian;
pub use matrices::Matrices;
pub use qr::{QrMode, QrOut, qr};
pub use rank_revealing::{RankRevealingOut, RankTolerance, rank_revealing_qr};
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
