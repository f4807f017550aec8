//! Matrices that have broken decompositions, with the reason why they are here.

use super::dense::{Dense, Random};
use crate::{Field, RealNumber};

/// Named square matrices of order `n`, entries of at most about 1.
pub(super) fn square<T: Field>(n: usize) -> Vec<(&'static str, Dense<T>)> {
    let mut random = Random::new(n as u64 + 77);
    let mut list = vec![
        ("zero", Dense::zeros(n, n)),
        ("identity", Dense::identity(n)),
        ("ones", Dense::real(n, n, |_, _| 1.0)),
        ("hilbert", Dense::real(n, n, |i, j| 1.0 / (i + j + 1) as f64)),
        // Kahan: triangular, every row smaller by a constant factor; QR with pivoting fails to see its rank.
        ("kahan", {
            let (s, c) = (0.95f64, (1.0 - 0.95f64 * 0.95).sqrt());
            Dense::real(n, n, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Equal => s.powi(i as i32),
                std::cmp::Ordering::Less => -c * s.powi(i as i32),
                std::cmp::Ordering::Greater => 0.0,
            })
        }),
        (
            "jordan",
            Dense::real(n, n, |i, j| if i == j || i + 1 == j { 1.0 } else { 0.0 }),
        ),
        (
            "nilpotent",
            Dense::real(n, n, |i, j| if i + 1 == j { 1.0 } else { 0.0 }),
        ),
        ("random", Dense::random(n, n, &mut random)),
        ("graded rows", {
            let x = Dense::<T>::random(n, n, &mut random);
            Dense::from_fn(n, n, |i, j| {
                treadle_core::Float::scale(x.at(i, j), T::R::of(10f64.powf(-16.0 * i as f64 / n as f64)))
            })
        }),
        ("graded columns", {
            let x = Dense::<T>::random(n, n, &mut random);
            Dense::from_fn(n, n, |i, j| {
                treadle_core::Float::scale(x.at(i, j), T::R::of(10f64.powf(-16.0 * j as f64 / n as f64)))
            })
        }),
        // Zero blocks: QR iterations stall on the zeros of the bidiagonal.
        ("zero blocks", {
            let x = Dense::<T>::random(n, n, &mut random);
            Dense::from_fn(n, n, |i, j| {
                if i < n / 2 && j < n / 2 {
                    x.at(i, j)
                } else {
                    T::ZERO
                }
            })
        }),
        ("block diagonal", {
            let x = Dense::<T>::random(n, n, &mut random);
            Dense::from_fn(n, n, |i, j| {
                if (i < n / 2) == (j < n / 2) {
                    x.at(i, j)
                } else {
                    T::ZERO
                }
            })
        }),
        ("sparse", {
            let x = Dense::<T>::random(n, n, &mut random);
            Dense::from_fn(
                n,
                n,
                |i, j| if random.below(8) == 0 { x.at(i, j) } else { T::ZERO },
            )
        }),
        ("identity and noise", {
            let x = Dense::<T>::random(n, n, &mut random);
            let eye = Dense::<T>::identity(n);
            Dense::from_fn(n, n, |i, j| {
                eye.at(i, j) + treadle_core::Float::scale(x.at(i, j), T::R::of(1e-21))
            })
        }),
    ];
    let left = Dense::<T>::orthonormal(n, n, &mut random);
    let right = Dense::<T>::orthonormal(n, n, &mut random);
    let with_values = |f: &dyn Fn(usize) -> f64| {
        let values: Vec<_> = (0..n).map(|i| T::R::of(f(i))).collect();
        left.with_columns(&values).times(&right.adjoint())
    };
    // Rank-deficient: where divide and conquer is silently wrong.
    for (name, rank) in [
        ("rank 1", 1),
        ("quarter rank", n.div_ceil(4)),
        ("half rank", n.div_ceil(2)),
        ("rank n-1", n - 1),
    ] {
        list.push((
            name,
            with_values(&|i| {
                if i < rank {
                    (i + 1) as f64 / rank as f64
                } else {
                    0.0
                }
            }),
        ));
    }
    list.push((
        "clustered",
        with_values(&|i| 1.0 + (i % 3) as f64 + 1e-15 * i as f64),
    ));
    list.push((
        "two clusters",
        with_values(&|i| if i % 2 == 0 { 1.0 } else { 1e-9 }),
    ));
    list.push((
        "geometric",
        with_values(&|i| 10f64.powf(-12.0 * i as f64 / n as f64)),
    ));
    list.push(("steep", with_values(&|i| 10f64.powf(-40.0 * i as f64 / n as f64))));
    list.push(("one large", with_values(&|i| if i == 0 { 1.0 } else { 1e-14 })));
    list
}

/// Powers by which the library is multiplied, within the range of the type.
pub(super) fn scales<T: Field>() -> &'static [f64] {
    if T::EPSILON > 1e-10 {
        &[1e-42, 1e-30, 1e25]
    } else {
        &[1e-310, 1e-300, 1e-50, 1e100, 1e160, 1e300]
    }
}
