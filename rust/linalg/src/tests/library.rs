//! The library of nasty matrices, in the types of this crate.

use super::dense::Dense;
use crate::{Field, RealNumber};
use treadle_testkit::{nasty_matrices, nasty_scales};

/// Named square matrices of order `n`, entries of at most about 1.
pub(super) fn square<T: Field>(n: usize) -> Vec<(&'static str, Dense<T>)> {
    nasty_matrices(n, !T::IS_REAL)
        .into_iter()
        .map(|matrix| {
            let entry = |i: usize, j: usize| {
                let x = matrix.entries[i * n + j];
                T::from_parts(T::R::of(x.re), T::R::of(x.im))
            };
            (matrix.name, Dense::from_fn(n, n, entry))
        })
        .collect()
}

/// Powers by which the library is multiplied, within the range of the type.
pub(super) fn scales<T: Field>() -> &'static [f64] {
    nasty_scales(T::EPSILON > 1e-10)
}
