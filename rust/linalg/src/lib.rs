//! Dense factorisations: our own QR and Hermitian eigendecomposition, the others over faer's sequential kernels.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed in the same pieces, so that bits do not depend on the width; items, and the pieces of large ones, are spread
//! over the team by the caller's batch policy. Inputs are checked for NaN and infinity, scaled by a power of two, and results of algorithms that
//! are known to fail silently are checked before they are returned.

mod balance;
mod bidiagonal;
mod bidiagonal_divide;
mod bidiagonal_iteration;
mod bidiagonal_kernels;
mod bidiagonal_qd;
mod bidiagonal_reflectors;
mod bidiagonal_secular;
mod cholesky;
mod column_loops;
pub mod cost;
mod crew;
mod deflate;
mod diagonal;
mod divide;
mod eig;
mod eig_fast;
mod eigenvectors;
mod eigh;
mod failure;
mod fallbacks;
mod field;
mod gauge;
mod guard;
mod hermitian;
mod hermitian_vector;
mod hessenberg;
mod householder;
mod jacobi;
mod lanes;
mod matrices;
mod merge;
mod pivoting;
mod qr;
mod qr_iteration;
mod rank_revealing;
mod reflection;
mod reflector_block;
mod run;
mod scaling;
mod schur;
mod secular;
mod shared;
mod side_by_side;
mod small_eigh;
mod small_qr;
mod solve;
mod standard_block;
mod svd;
mod svd_call;
mod svd_group;
mod svd_large;
mod svd_small;
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
pub use eig::{EigOut, eig, unpack};
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use field::{Field, RealNumber};
pub use gauge::Gauge;
pub use hermitian::svd_hermitian;
pub use matrices::Matrices;
pub use qr::{QrMode, QrOut, qr};
pub use rank_revealing::{RankRevealingOut, RankTolerance, rank_revealing_qr};
pub use schur::{SchurOut, schur};
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
