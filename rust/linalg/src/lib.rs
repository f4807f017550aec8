//! Dense factorisations over faer's sequential kernels.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed by the same sequential code, so that bits do not depend on the width; items are spread over the team by the
//! caller's batch policy. Inputs are checked for NaN and infinity, scaled by a power of two, and results of algorithms that
//! are known to fail silently are checked before they are returned.

mod balance;
mod cholesky;
mod column_loops;
pub mod cost;
mod crew;
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
mod hessenberg;
mod householder;
mod jacobi;
mod matrices;
mod qr;
mod qr_iteration;
mod reflection;
mod run;
mod scaling;
mod schur;
mod solve;
mod standard_block;
mod svd;
mod workspace;

pub use cholesky::cholesky;
pub use eig::{EigOut, eig, unpack};
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use field::{Field, RealNumber};
pub use gauge::Gauge;
pub use hermitian::svd_hermitian;
pub use matrices::Matrices;
pub use qr::{QrMode, QrOut, qr};
pub use schur::{SchurOut, schur};
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
