//! Dense factorisations over faer's sequential kernels.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed by the same sequential code, so that bits do not depend on the width; items are spread over the team by the
//! caller's batch policy. Inputs are checked for NaN and infinity, scaled by a power of two, and results of algorithms that
//! are known to fail silently are checked before they are returned.

mod bidiagonal;
mod bidiagonal_divide;
mod bidiagonal_iteration;
mod bidiagonal_kernels;
mod bidiagonal_qd;
mod bidiagonal_reflectors;
mod bidiagonal_secular;
mod cholesky;
pub mod cost;
mod crew;
mod eigh;
mod failure;
mod fallbacks;
mod field;
mod gauge;
mod guard;
mod hermitian;
mod householder;
mod jacobi;
mod lanes;
mod matrices;
mod qr;
mod run;
mod scaling;
mod solve;
mod svd;
mod svd_call;
mod svd_group;
mod svd_large;
mod svd_small;
mod workspace;

pub use cholesky::cholesky;
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use field::{Field, RealNumber};
pub use gauge::Gauge;
pub use hermitian::svd_hermitian;
pub use matrices::Matrices;
pub use qr::{QrMode, QrOut, qr};
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
