//! Cholesky factorisation.

use super::dense::{Dense, Random, is_zero, rounding};
use super::{cholesky_of, for_each_type, sizes};
use crate::{Field, RealNumber, Triangle};
use treadle_core::{Detail, ErrorCode};

fn positive<T: Field>(n: usize, random: &mut Random) -> Dense<T> {
    let x = Dense::<T>::random(n, n, random);
    let product = x.times(&x.adjoint()).hermitian();
    let shift = Dense::<T>::diagonal(n, n, |_| n as f64);
    Dense::from_fn(n, n, |i, j| product.at(i, j) + shift.at(i, j))
}

fn check<T: Field>(a: &Dense<T>, read: &Dense<T>, triangle: Triangle) {
    let n = a.rows;
    let factor = cholesky_of(read, triangle).unwrap();
    let lower = if triangle == Triangle::Lower {
        factor
    } else {
        factor.adjoint()
    };
    for i in 0..n {
        assert!(lower.at(i, i).re() > T::R::of(0.0) && lower.at(i, i).im() == T::R::of(0.0));
        assert!((i + 1..n).all(|j| is_zero(lower.at(i, j))));
    }
    let off = lower.times(&lower.adjoint()).distance(a);
    assert!(
        off <= rounding::<T>(n, n) * a.norm(),
        "{n} {}: {off:e}",
        std::any::type_name::<T>()
    );
}

fn random_orders<T: Field>() {
    let mut random = Random::new(21);
    for n in sizes() {
        let a = positive::<T>(n, &mut random);
        check(&a, &a, Triangle::Lower);
        check(&a, &a, Triangle::Upper);
        let nan = T::from_parts(T::R::NAN, T::R::NAN);
        check(
            &a,
            &Dense::from_fn(n, n, |i, j| if i >= j { a.at(i, j) } else { nan }),
            Triangle::Lower,
        );
        check(
            &a,
            &Dense::from_fn(n, n, |i, j| if i <= j { a.at(i, j) } else { nan }),
            Triangle::Upper,
        );
    }
}

#[test]
fn random_matrices_of_every_order() {
    for_each_type!(random_orders);
}

fn scaled<T: Field>() {
    let mut random = Random::new(22);
    let scales: &[f64] = if T::EPSILON > 1e-10 {
        &[1e-30, 1e30]
    } else {
        &[1e-300, 1e-50, 1e160, 1e300]
    };
    for n in [1, 5, 70] {
        let a = positive::<T>(n, &mut random);
        for &scale in scales {
            let a = a.scaled(scale);
            check(&a, &a, Triangle::Lower);
        }
    }
}

#[test]
fn tiny_and_huge_entries() {
    for_each_type!(scaled);
    for entry in [5e-324, 1e-310, 1e308] {
        let a = Dense::<f64>::diagonal(3, 3, |_| entry);
        let l = cholesky_of(&a, Triangle::Lower).unwrap();
        assert!(
            (l.at(2, 2) - entry.sqrt()).abs() <= 1e-15 * entry.sqrt(),
            "{entry:e}"
        );
    }
    let mixed: Dense<f64> = Dense {
        rows: 2,
        cols: 2,
        data: vec![1e300, 0.0, 0.0, 1e-300],
    };
    let l = cholesky_of(&mixed, Triangle::Lower).unwrap();
    assert!((l.at(1, 1) - 1e-150).abs() < 1e-165);
}

#[test]
fn indefinite_matrices_name_the_minor() {
    fn indefinite<T: Field>() {
        let cases = [
            ("arange", Dense::<T>::real(3, 3, |i, j| (3 * i + j) as f64), 1),
            ("zero", Dense::<T>::zeros(4, 4), 1),
            ("minus identity", Dense::<T>::diagonal(2, 2, |_| -1.0), 1),
            (
                "one negative",
                Dense::<T>::diagonal(200, 200, |i| if i == 150 { -1.0 } else { 1.0 }),
                151,
            ),
            ("rank one", Dense::<T>::real(3, 3, |_, _| 1.0), 2),
        ];
        for (name, a, minor) in cases {
            let error = cholesky_of(&a, Triangle::Lower).expect_err(name);
            assert_eq!(error.code(), ErrorCode::NotPositiveDefinite, "{name}");
            assert_eq!(error.detail("minor"), Some(&Detail::Int(minor)), "{name}");
        }
    }
    for_each_type!(indefinite);
}

#[test]
fn integers_are_factored_exactly() {
    let a = Dense {
        rows: 3,
        cols: 3,
        data: vec![4.0, 12.0, -16.0, 12.0, 37.0, -43.0, -16.0, -43.0, 98.0],
    };
    let l = cholesky_of(&a, Triangle::Lower).unwrap();
    assert_eq!(l.data, [2.0, 0.0, 0.0, 6.0, 1.0, 0.0, -8.0, 5.0, 3.0]);
    assert_eq!(cholesky_of(&a, Triangle::Upper).unwrap(), l.adjoint());
    assert!(
        cholesky_of(&Dense::<f64>::zeros(0, 0), Triangle::Lower)
            .unwrap()
            .data
            .is_empty()
    );
}
