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
mod determinant;
mod diagonal;
mod divide;
mod eig;
mod eig_fast;
mod eigenvectors;
mod eigh;
mod elimination;
mod factored;
mod factorize;
mod failure;
mod fallbacks;
mod field;
mod full_pivoting;
mod gauge;
mod guard;
mod hermitian;
mod hermitian_vector;
mod hessenberg;
mod householder;
mod inverse;
mod jacobi;
mod lanes;
mod lu;
mod matrices;
mod merge;
mod panel;
mod pivoting;
mod prepared;
mod qr;
mod qr_iteration;
mod rank_revealing;
mod reflection;
mod reflector_block;
mod registers;
mod run;
mod scaling;
mod schur;
mod secular;
mod shared;
mod side_by_side;
mod small;
mod small_eigh;
mod small_elimination;
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
mod transpose;
mod triangular;
mod tridiagonal;
mod tridiagonal_values;
mod tridiagonal_vectors;
mod vectorised;
mod wide;
#[cfg(target_arch = "x86_64")]
mod wide_avx512;
mod workspace;

pub use cholesky::{cholesky, cholesky_as};
pub use determinant::{det, slogdet};
pub use eig::{EigOut, eig, unpack};
pub use eigh::{EighOut, Triangle, eigh, eigvalsh};
pub use factorize::{Permutation, lu, lu_factor};
pub use field::{Field, RealNumber};
pub use full_pivoting::{FullPivLuOut, full_piv_lu, full_piv_lu_solve};
pub use gauge::Gauge;
pub use hermitian::svd_hermitian;
pub use inverse::inv;
pub use matrices::Matrices;
pub use prepared::{Form, PivotRows, cho_solve, lu_solve, solve_triangular};
pub use qr::{QrMode, QrOut, qr};
pub use rank_revealing::{RankRevealingOut, RankTolerance, rank_revealing_qr};
pub use schur::{SchurOut, schur};
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
