//! Dense factorisations on the caller's team: LU, Cholesky, QR, Schur, eigenvalues and singular values.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed in the same pieces, so that bits do not depend on the width; items, and the pieces of large ones, are spread
//! over the team by the caller's batch policy. Inputs are checked for NaN and infinity and scaled by a power of two, and
//! results of algorithms that are known to fail silently are checked before they are returned.

mod cholesky;
pub mod cost;
mod crew;
mod eig;
mod eigh;
mod failure;
mod fallbacks;
mod field;
mod gauge;
mod guard;
mod jacobi;
mod lu;
mod matrices;
mod prepared;
mod qr;
mod registers;
mod run;
mod scaling;
mod shared;
mod side_by_side;
mod svd;
mod transfer;
mod transpose;
mod triangular;
mod turned;
mod vectorised;
mod wide;
#[cfg(target_arch = "x86_64")]
mod wide_avx512;
mod workspace;

pub use cholesky::{cholesky, cholesky_as};
pub use eig::schur::{SchurOut, schur};
pub use eig::{EigOut, eig, unpack};
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use field::{Field, RealNumber};
pub use gauge::Gauge;
pub use lu::determinant::{det, slogdet};
pub use lu::factorize::{Permutation, lu, lu_factor};
pub use lu::full_pivoting::{FullPivLuOut, full_piv_lu, full_piv_lu_solve};
pub use lu::inverse::inv;
pub use lu::solve::solve;
pub use matrices::Matrices;
pub use prepared::{Form, PivotRows, cho_solve, lu_solve, solve_triangular};
pub use qr::rank_revealing::{RankRevealingOut, RankTolerance, rank_revealing_qr};
pub use qr::{QrMode, QrOut, qr};
pub use svd::hermitian::svd_hermitian;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
