//! QR decomposition with column pivoting.

use super::batches::at_widths;
use super::dense::{Dense, Random, is_zero, rounding};
use super::qr::nearly_dependent;
use super::{for_each_type, library, sizes, svdvals_of};
use crate::{Field, Gauge, RankRevealingOut, RankTolerance, RealNumber, rank_revealing_qr};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{ErrorCode, Result};
use treadle_team::Token;

pub(super) struct Found<T: Field> {
    pub(super) q: Dense<T>,
    pub(super) r: Dense<T>,
    pub(super) perm: Vec<i64>,
    pub(super) rank: i64,
}

pub(super) fn found<T: Field>(
    token: &mut Token<'_>,
    a: &Dense<T>,
    tolerance: RankTolerance,
    gauge: Gauge,
    check_finite: bool,
) -> Result<Found<T>> {
    let k = a.rows.min(a.cols);
    let mut q = Dense::<T>::poisoned(a.rows, k);
    let mut r = Dense::<T>::poisoned(k, a.cols);
    let mut perm = vec![-7; a.cols];
    let mut rank = -7;
    let out = RankRevealingOut {
        q: q.data.as_mut_ptr(),
        r: r.data.as_mut_ptr(),
        perm: perm.as_mut_ptr(),
        rank: &raw mut rank,
    };
    // SAFETY: the outputs have the shapes that are asked for.
    unsafe {
        rank_revealing_qr(
            token,
            BatchPolicy::Auto,
            &a.view(),
            tolerance,
            gauge,
            check_finite,
            out,
        )?
    };
    Ok(Found { q, r, perm, rank })
}

fn with<T: Field>(a: &Dense<T>, relative: f64, absolute: f64) -> Result<Found<T>> {
    let tolerance = RankTolerance::new(relative, absolute)?;
    found(&mut Token::serial(), a, tolerance, Gauge::Raw, true)
}

fn check<T: Field>(name: &str, a: &Dense<T>, gauge: Gauge) -> Found<T> {
    let (m, n) = (a.rows, a.cols);
    let what = format!("{name} {m}x{n} {gauge:?} {}", std::any::type_name::<T>());
    let all = found(&mut Token::serial(), a, RankTolerance::default(), gauge, true)
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut seen = all.perm.clone();
    seen.sort_unstable();
    assert_eq!(seen, (0..n as i64).collect::<Vec<_>>(), "{what}: no permutation");
    let moved = Dense::from_fn(m, n, |i, j| a.at(i, all.perm[j] as usize));
    let bound = rounding::<T>(m, n);
    let floor = T::R::TINY.to_f64() * T::EPSILON * (m * n) as f64;
    let off = all.q.times(&all.r).distance(&moved);
    assert!(
        off <= bound * a.norm() + floor,
        "{what}: residual {off:e} of {:e}",
        a.norm()
    );
    assert!(
        all.q.skewness() <= bound * (all.q.cols as f64).sqrt(),
        "{what}: Q is off by {:e}",
        all.q.skewness()
    );
    let entry = |i: usize| all.r.at(i, i).modulus().to_f64();
    for i in 0..all.r.rows {
        for j in 0..n.min(i) {
            assert!(is_zero(all.r.at(i, j)), "{what}: R is not triangular");
        }
        if gauge == Gauge::Canonical {
            assert!(
                all.r.at(i, i).re() >= T::R::of(0.0),
                "{what}: R[{i}, {i}] is negative"
            );
        }
        // Each pivot is the longest of what was left, so that no later column is longer than it.
        for j in i + 1..n {
            let length: f64 = (i..all.r.rows.min(j + 1))
                .map(|row| all.r.at(row, j).modulus().to_f64() / entry(0).max(f64::MIN_POSITIVE))
                .map(|x| x * x)
                .sum();
            let pivot = entry(i) / entry(0).max(f64::MIN_POSITIVE);
            // Norms are downdated down to the square root of eps of what they were.
            assert!(
                length.sqrt() <= pivot * (1.0 + 100.0 * T::EPSILON.sqrt()) + bound,
                "{what}: column {j} is longer than pivot {i}"
            );
        }
    }
    all
}

fn everything<T: Field>() {
    let mut random = Random::new(8);
    for n in sizes().filter(|n| n % 3 == 1 || *n < 10) {
        for (m, n) in [(n, n), (n + 5, n), (n, n + 9), (3 * n, n)] {
            let a = Dense::<T>::random(m, n, &mut random);
            assert_eq!(check("random", &a, Gauge::Raw).rank as usize, m.min(n));
            check("random", &a, Gauge::Canonical);
        }
    }
    for n in [1, 2, 5, 17, 33, 64, 100] {
        for (name, a) in library::square::<T>(n) {
            check(name, &a, Gauge::Canonical);
        }
    }
    for &scale in library::scales::<T>() {
        let a = Dense::<T>::random(40, 33, &mut random);
        check("scaled", &a.scaled(scale), Gauge::Raw);
    }
}

#[test]
fn factors_of_every_shape_and_of_the_library() {
    for_each_type!(everything);
}

#[test]
fn ranks_by_tolerance() {
    let mut random = Random::new(5);
    for (n, rank) in [(8, 3), (60, 20), (130, 64)] {
        let left = Dense::<f64>::orthonormal(n, n, &mut random);
        let right = Dense::<f64>::orthonormal(n, n, &mut random);
        let values: Vec<f64> = (0..n)
            .map(|i| if i < rank { 1.0 + i as f64 } else { 0.0 })
            .collect();
        let a = left.with_columns(&values).times(&right.adjoint());
        assert_eq!(with(&a, 1e-10, 0.0).unwrap().rank, rank as i64);
        assert_eq!(with(&a, 0.0, 1e-9).unwrap().rank, rank as i64);
    }
    let a = Dense::<f64>::diagonal(4, 4, |i| [1.0, 8.0, 0.0, 4.0][i]);
    assert_eq!(with(&a, 0.0, 0.0).unwrap().rank, 3);
    assert_eq!(with(&a, 0.0, 0.0).unwrap().perm, [1, 3, 0, 2]);
    assert_eq!(with(&a, 0.5, 0.0).unwrap().rank, 1);
    assert_eq!(with(&a, 0.49, 0.0).unwrap().rank, 2);
    assert_eq!(with(&a, 0.0, 1.0).unwrap().rank, 2);
    assert_eq!(with(&a, 0.0, 100.0).unwrap().rank, 0);
    // A threshold that overflows leaves nothing.
    assert_eq!(with(&a, f64::MAX, 0.0).unwrap().rank, 0);
}

#[test]
fn a_zero_matrix_is_left_alone() {
    for (m, n) in [(3, 5), (5, 3), (4, 4)] {
        let all = with(&Dense::<f64>::zeros(m, n), 0.0, 0.0).unwrap();
        let k = m.min(n);
        assert_eq!(all.q, Dense::from_fn(m, k, |i, j| if i == j { 1.0 } else { 0.0 }));
        assert_eq!(all.r, Dense::zeros(k, n));
        assert_eq!(all.perm, (0..n as i64).collect::<Vec<_>>());
        assert_eq!(all.rank, 0);
    }
    for (m, n) in [(0, 3), (3, 0)] {
        let all = with(&Dense::<f64>::zeros(m, n), 0.0, 0.0).unwrap();
        assert_eq!((all.perm, all.rank), ((0..n as i64).collect(), 0));
    }
}

#[test]
fn equal_columns_keep_their_order() {
    let all = with(&Dense::<f64>::real(4, 6, |_, _| 1.0), 1e-12, 0.0).unwrap();
    assert_eq!((all.perm[0], all.rank), (0, 1));
}

#[test]
fn nearly_dependent_columns_are_kept() {
    for (m, ratio) in [(100, 4.0618e-12), (1000, 1.2903e-12), (8192, 4.5103e-13)] {
        let a = nearly_dependent(m);
        let all = check("nearly dependent", &a, Gauge::Raw);
        assert_eq!(all.rank, 3);
        let s = svdvals_of(&all.r).unwrap();
        let found = s[2] / s[0];
        assert!(
            (found - ratio).abs() < 4e-15,
            "m={m}: {found:e} instead of {ratio:e}"
        );
    }
}

#[test]
fn kahan_is_not_pivoted_into_a_rank() {
    // All columns have the same length to rounding: no pivot is needed, and the small singular value does not show.
    let n = 90;
    let (s, c) = (0.95f64, (1.0 - 0.95f64 * 0.95).sqrt());
    let a = Dense::<f64>::real(n, n, |i, j| match i.cmp(&j) {
        std::cmp::Ordering::Equal => s.powi(i as i32) * (1.0 - 1e-12 * i as f64),
        std::cmp::Ordering::Less => -c * s.powi(i as i32),
        std::cmp::Ordering::Greater => 0.0,
    });
    let all = check("kahan", &a, Gauge::Canonical);
    assert_eq!(all.rank, n as i64);
}

#[test]
fn what_is_no_tolerance_is_refused() {
    for (relative, absolute) in [(-1.0, 0.0), (0.0, -1e-300), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
        let error = RankTolerance::new(relative, absolute).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Argument);
        assert!(error.message().contains("tol must be finite"), "{error}");
    }
}

#[test]
fn numbers_out_of_range() {
    let a = Dense::<f64>::real(4, 4, |_, _| 1.7e308);
    let error = with(&a, 0.0, 0.0).map(|_| ()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::NonFinite);
    assert!(error.message().contains("diagonal of R"), "{error}");
    let mut a = Dense::<f64>::real(3, 3, |i, j| (i + j) as f64);
    a.data[4] = f64::NAN;
    assert_eq!(
        with(&a, 0.0, 0.0).map(|_| ()).unwrap_err().code(),
        ErrorCode::NonFinite
    );
    let all = found(
        &mut Token::serial(),
        &a,
        RankTolerance::default(),
        Gauge::Raw,
        false,
    )
    .unwrap();
    assert!(all.q.data.iter().chain(&all.r.data).all(|x| x.is_nan()));
    assert_eq!((all.perm, all.rank), (vec![0, 1, 2], 0));
}

#[test]
fn the_same_bits_at_every_width() {
    let mut random = Random::new(77);
    for (m, n) in [(300, 260), (90, 400)] {
        let a = Dense::<f64>::random(m, n, &mut random);
        let alone = with(&a, 1e-3, 0.0).unwrap();
        at_widths(&[2, 3, 8], |width, token| {
            let tolerance = RankTolerance::new(1e-3, 0.0).unwrap();
            let all = found(token, &a, tolerance, Gauge::Raw, true).unwrap();
            assert!(
                (all.q, all.r, all.perm, all.rank)
                    == (alone.q.clone(), alone.r.clone(), alone.perm.clone(), alone.rank),
                "width {width}"
            );
        });
    }
}
