//! The singular value decomposition of larger matrices: divide and conquer, widths, known values, no way but the first.

use super::batches::at_widths;
use super::dense::{Dense, Random, rounding};
use super::{for_each_type, library, svd_of, svdvals_of};
use crate::{Field, Gauge, RealNumber, SvdOut, fallbacks, svd, svdvals};
use num_complex::{Complex32, Complex64};
use treadle_contract::policy::BatchPolicy;

/// Residual, orthogonality and order; the values.
fn holds<T: Field>(what: &str, a: &Dense<T>, full: bool) -> Vec<f64> {
    let (m, n) = (a.rows, a.cols);
    let k = m.min(n);
    let what = format!("{what} {m}x{n} full={full} {}", std::any::type_name::<T>());
    let found = svd_of(a, full, Gauge::Raw).unwrap_or_else(|error| panic!("{what}: {error}"));
    let bound = rounding::<T>(m, n);
    let rebuilt = found
        .u
        .first_cols(k)
        .with_columns(&found.s)
        .times(&found.vh.first_rows(k));
    let off = rebuilt.distance(a);
    assert!(
        off <= bound * a.norm(),
        "{what}: residual {off:e} of {:e}",
        a.norm()
    );
    for factor in [&found.u, &found.vh.adjoint()] {
        let skew = factor.skewness();
        assert!(
            skew <= bound * (factor.cols as f64).sqrt(),
            "{what}: off by {skew:e}"
        );
    }
    assert!(
        found.s.windows(2).all(|w| w[0] >= w[1]) && found.s[k - 1] >= T::R::of(0.0),
        "{what}"
    );
    let s: Vec<f64> = found.s.iter().map(|x| x.to_f64()).collect();
    let alone = svdvals_of(a).unwrap();
    for (i, (x, y)) in s.iter().zip(&alone).enumerate() {
        let off = (x - y.to_f64()).abs();
        assert!(
            off <= 6.0 * (k as f64).sqrt() * T::EPSILON * s[0],
            "{what}: value {i} is off by {off:e}"
        );
    }
    s
}

#[test]
fn ordinary_and_nasty_matrices_take_the_first_way() {
    fn all<T: Field>(orders: &[usize]) {
        for &n in orders {
            for (name, a) in library::square::<T>(n) {
                let before = fallbacks::SVD.get();
                holds(name, &a, false);
                let after = fallbacks::SVD.get();
                assert_eq!(
                    before,
                    after,
                    "{name} {n} {} fell back",
                    std::any::type_name::<T>()
                );
            }
        }
    }
    all::<f64>(&[33, 48, 65, 100, 161]);
    all::<f32>(&[34, 130]);
    all::<Complex64>(&[33, 97]);
    all::<Complex32>(&[66]);
}

#[test]
fn ranks_of_every_size_leave_the_values_they_have() {
    for n in [20usize, 40, 64, 96, 128] {
        let mut random = Random::new(n as u64);
        let left = Dense::<f64>::orthonormal(n, n, &mut random);
        let right = Dense::<f64>::orthonormal(n, n, &mut random);
        for rank in [1, 2, n / 4, n / 2, n - 1, n] {
            let values: Vec<f64> = (0..n)
                .map(|i| if i < rank { (rank - i) as f64 } else { 0.0 })
                .collect();
            let a = left.with_columns(&values).times(&right.adjoint());
            let s = holds("rank", &a, false);
            for (found, expected) in s.iter().zip(&values) {
                let off = (found - expected).abs();
                assert!(
                    off <= 4.0 * (n as f64).sqrt() * f64::EPSILON * values[0],
                    "{n} {rank}: {off:e}"
                );
            }
        }
    }
}

#[test]
fn values_in_closed_form() {
    // Differences: 2 sin(k pi / 2n), and zero once; ones below and on the diagonal: 1 / (2 sin((2k - 1) pi / (4n + 2))).
    for n in [17usize, 40, 130, 300] {
        let pi = std::f64::consts::PI;
        let differences = Dense::<f64>::real(n, n, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Equal if i + 1 < n => 1.0,
            std::cmp::Ordering::Less if i + 1 == j => -1.0,
            _ => 0.0,
        });
        let ladder = Dense::<f64>::real(n, n, |i, j| if j <= i { 1.0 } else { 0.0 });
        let expected = |k: usize| 2.0 * ((n - 1 - k) as f64 * pi / (2 * n) as f64).sin();
        for (k, found) in holds("differences", &differences, false).iter().enumerate() {
            assert!((found - expected(k)).abs() <= 1e-14, "{n} {k}: {found}");
        }
        let expected = |k: usize| 0.5 / ((2 * k + 1) as f64 * pi / (4 * n + 2) as f64).sin();
        for (k, found) in holds("ladder", &ladder, false).iter().enumerate() {
            assert!(
                (found - expected(k)).abs() <= 4e-15 * expected(0),
                "{n} {k}: {found}"
            );
        }
    }
}

#[test]
fn blocks_of_zeros_among_phases() {
    // A complex matrix with zero blocks on which an iteration is known to stall, and its kind at other sizes.
    for n in [4usize, 8, 16, 40, 64] {
        let a = Dense::<Complex64>::from_fn(2 * n, 2 * n, |i, j| {
            if (i < n) == (j < n) {
                Complex64::new(0.0, 0.0)
            } else {
                Complex64::from_polar(1.0, (i * j % 8) as f64 * std::f64::consts::FRAC_PI_4)
            }
        });
        holds("zero blocks", &a, true);
    }
}

#[test]
fn vandermonde_and_shapes_around_the_blocks() {
    for n in [12usize, 33, 70] {
        let a = Dense::<f64>::real(n, n, |i, j| (i as f64 / n as f64).powi(j as i32));
        holds("vandermonde", &a, true);
    }
    let mut random = Random::new(9);
    for (m, n) in [
        (33, 32),
        (66, 64),
        (65, 17),
        (17, 16),
        (200, 33),
        (129, 128),
        (34, 18),
        (1, 40),
        (40, 1),
    ] {
        for full in [false, true] {
            holds("random", &Dense::<f64>::random(m, n, &mut random), full);
            holds("random", &Dense::<Complex64>::random(n, m, &mut random), full);
        }
    }
}

#[test]
fn bits_do_not_depend_on_the_width() {
    fn equal<T: Field>() {
        let mut random = Random::new(21);
        for (m, n) in [(330, 330), (400, 190), (60, 700)] {
            let a = Dense::<T>::random(m, n, &mut random);
            let k = m.min(n);
            let mut first: Option<(Vec<T>, Vec<T>, Vec<T::R>, Vec<T::R>)> = None;
            at_widths(&[1, 2, 3, 8], |width, token| {
                let nan = T::from_parts(T::R::NAN, T::R::NAN);
                let (mut u, mut vh) = (vec![nan; m * k], vec![nan; k * n]);
                let (mut s, mut values) = (vec![T::R::NAN; k], vec![T::R::NAN; k]);
                let out = SvdOut {
                    u: u.as_mut_ptr(),
                    s: s.as_mut_ptr(),
                    vh: vh.as_mut_ptr(),
                };
                // SAFETY: the outputs have the shapes of the reduced factors.
                unsafe {
                    svd(token, BatchPolicy::Auto, &a.view(), false, Gauge::Raw, true, out).unwrap();
                    svdvals(token, BatchPolicy::Inner, &a.view(), true, values.as_mut_ptr()).unwrap();
                }
                let found = (u, vh, s, values);
                match &first {
                    None => first = Some(found),
                    Some(expected) => assert!(*expected == found, "{m}x{n}: other bits at width {width}"),
                }
            });
        }
    }
    for_each_type!(equal);
}

/// Where the matrix has exact zeros among its singular values, what is found there is rounding, with vectors as without.
fn zeros_stay_small<T: Field>() {
    let mut random = Random::new(41);
    for (n, rank) in [
        (33, 10),
        (50, 25),
        (100, 1),
        (100, 50),
        (100, 99),
        (200, 100),
        (256, 128),
    ] {
        let left = Dense::<T>::random(n, rank, &mut random);
        let right = Dense::<T>::random(rank, n, &mut random);
        let a = left.times(&right);
        let s = svd_of(&a, false, Gauge::Raw).unwrap().s;
        let largest = s[0].to_f64();
        // The product itself is rounded: its own values there are of order one rounding.
        for (i, x) in s[rank..].iter().enumerate() {
            let x = x.to_f64() / (largest * T::EPSILON);
            assert!(
                x <= 3.5,
                "{} {n} rank {rank}: value {} is {x} roundings",
                std::any::type_name::<T>(),
                rank + i
            );
        }
    }
}

#[test]
fn zeros_among_the_values_stay_small_beside_vectors() {
    for_each_type!(zeros_stay_small);
}

/// Halves that both have zeros, and a middle row that is outside of neither.
#[test]
fn a_middle_row_of_zeros_gives_the_value_zero() {
    for n in [65usize, 130] {
        let a = Dense::<f64>::real(n, n, |i, j| {
            if i == n / 2 || (i + 1 != j && i != j) {
                0.0
            } else {
                1.0 + (i % 3) as f64
            }
        });
        let s = holds("middle row of zeros", &a, false);
        assert!(s[n - 1] <= 4.0 * f64::EPSILON * s[0], "{:e}", s[n - 1]);
    }
}
