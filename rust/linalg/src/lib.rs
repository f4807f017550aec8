//! Dense factorisations over faer's sequential kernels.
//!
//! Every function takes a strided batch of matrices (`Matrices`) and writes C-contiguous results. One item is always
//! computed by the same sequential code, so that bits do not depend on the width; items are spread over the team by the
//! caller's batch policy. Inputs are checked for NaN and infinity, scaled by a power of two, and results of algorithms that
//! are known to fail silently are checked before they are returned.

mod cholesky;
pub mod cost;
mod crew;
mod determinant;
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
mod householder;
mod inverse;
mod jacobi;
mod lanes;
mod lu;
mod matrices;
mod panel;
mod prepared;
mod qr;
mod run;
mod scaling;
mod side_by_side;
mod small;
mod solve;
mod svd;
mod transpose;
mod triangular;
mod vectorised;
mod workspace;

pub use cholesky::{cholesky, cholesky_as};
pub use determinant::{det, slogdet};
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
pub use solve::solve;
pub use svd::{SvdOut, svd, svdvals};

#[cfg(test)]
mod tests;
