//! Linear systems.

use super::dense::{Dense, Random, rounding};
use super::{for_each_type, library, sizes, solve_of};
use crate::{Field, RealNumber};
use treadle_core::{Detail, ErrorCode};

/// The residual is small beside |a| |x|.
fn check<T: Field>(name: &str, a: &Dense<T>, b: &Dense<T>) {
    let what = format!("{name} {} {}", a.rows, std::any::type_name::<T>());
    let x = solve_of(a, b).unwrap_or_else(|error| panic!("{what}: {error}"));
    let off = a.times(&x).distance(b);
    let bound = rounding::<T>(a.rows, a.rows) * (a.norm() * x.norm() + b.norm());
    assert!(off <= bound, "{what}: residual {off:e}, bound {bound:e}");
}

fn random_orders<T: Field>() {
    let mut random = Random::new(21);
    for n in sizes() {
        let a = Dense::<T>::random(n, n, &mut random);
        for cols in [1, 3, n] {
            check("random", &a, &Dense::random(n, cols, &mut random));
        }
    }
}

#[test]
fn random_systems_of_every_order() {
    for_each_type!(random_orders);
}

#[test]
fn regular_matrices_of_the_library() {
    fn library_at<T: Field>() {
        for n in [2, 17, 64, 130] {
            let mut random = Random::new(1);
            let b = Dense::<T>::random(n, 2, &mut random);
            for (name, a) in library::square::<T>(n) {
                if [
                    "identity",
                    "kahan",
                    "jordan",
                    "random",
                    "clustered",
                    "identity and noise",
                ]
                .contains(&name)
                {
                    check(name, &a, &b);
                }
            }
        }
    }
    for_each_type!(library_at);
}

fn scaled<T: Field>() {
    let mut random = Random::new(2);
    for n in [1, 3, 40] {
        let a = Dense::<T>::random(n, n, &mut random);
        let x = Dense::<T>::random(n, 2, &mut random);
        for &scale in library::scales::<T>() {
            let a = a.scaled(scale);
            let b = a.times(&x);
            let found = solve_of(&a, &b).unwrap();
            let loss = if scale < 1e-305 || T::EPSILON > 1e-10 && scale < 1e-37 {
                1e-2
            } else {
                1e4 * T::EPSILON
            };
            assert!(
                found.distance(&x) <= loss * x.norm(),
                "{n} times {scale:e}: {:e}",
                found.distance(&x)
            );
        }
    }
}

#[test]
fn tiny_huge_and_denormal_entries() {
    for_each_type!(scaled);
}

#[test]
fn tiny_pivots_are_no_singularity() {
    let tiny = 2f64.powi(-600);
    let a = Dense {
        rows: 2,
        cols: 2,
        data: vec![1.0, 1.0, 0.0, tiny],
    };
    let b = Dense {
        rows: 2,
        cols: 1,
        data: vec![3.0, tiny * 2.0],
    };
    assert_eq!(solve_of(&a, &b).unwrap().data, [1.0, 2.0]);
    for pivots in [
        (-1030, 0),
        (996, -996),
        (1020, -1020),
        (1023, -1070),
        (0, -1060),
        (-1060, -1000),
    ] {
        let power = |exponent: i32| 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
        let (p, q) = (power(pivots.0), power(pivots.1));
        let a = Dense {
            rows: 2,
            cols: 2,
            data: vec![p, 0.0, 0.0, q],
        };
        let b = Dense {
            rows: 2,
            cols: 1,
            data: vec![3.0 * (p / 4.0), 2.0 * q],
        };
        assert_eq!(solve_of(&a, &b).unwrap().data, [0.75, 2.0], "{pivots:?}");
    }
}

#[test]
fn integers_are_solved_exactly() {
    let a = Dense {
        rows: 2,
        cols: 2,
        data: vec![2.0, 1.0, 1.0, 1.0],
    };
    let b = Dense {
        rows: 2,
        cols: 1,
        data: vec![5.0, 3.0],
    };
    assert_eq!(solve_of(&a, &b).unwrap().data, [2.0, 1.0]);
}

#[test]
fn an_exact_zero_pivot_is_singular() {
    fn singular<T: Field>() {
        let cases: [(&str, usize, &[f64]); 5] = [
            ("last row twice", 2, &[0.0, 1.0, 0.0, 1.0]),
            ("zero", 3, &[0.0; 9]),
            ("zero first column", 2, &[0.0, 1.0, 0.0, 2.0]),
            ("rank one", 2, &[1.0, 2.0, 2.0, 4.0]),
            ("a multiple", 3, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0]),
        ];
        for (name, n, entries) in cases {
            let a = Dense::<T>::real(n, n, |i, j| entries[i * n + j]);
            let b = Dense::<T>::real(n, 1, |_, _| 1.0);
            let error = solve_of(&a, &b).expect_err(name);
            assert_eq!(error.code(), ErrorCode::SingularMatrix, "{name}");
            assert_eq!(error.detail("index"), Some(&Detail::Int(0)));
            assert!(
                error.to_string().starts_with("solve: the matrix is singular"),
                "{error}"
            );
        }
        let zero = solve_of(
            &Dense::<T>::zeros(150, 150),
            &Dense::<T>::real(150, 1, |_, _| 1.0),
        );
        assert_eq!(zero.unwrap_err().code(), ErrorCode::SingularMatrix);
    }
    for_each_type!(singular);
}

#[test]
fn a_nearly_singular_matrix_is_solved() {
    let a = Dense {
        rows: 2,
        cols: 2,
        data: vec![1.0, 1.0, 1.0, 1.0 + 2.0 * f64::EPSILON],
    };
    let b = Dense {
        rows: 2,
        cols: 1,
        data: vec![2.0, 2.0 + 2.0 * f64::EPSILON],
    };
    assert_eq!(solve_of(&a, &b).unwrap().data, [1.0, 1.0]);
}

#[test]
fn empty_systems() {
    let none = Dense::<f64>::zeros(0, 0);
    assert!(solve_of(&none, &Dense::zeros(0, 3)).unwrap().data.is_empty());
    let a = Dense::<f64>::identity(3);
    assert!(solve_of(&a, &Dense::zeros(3, 0)).unwrap().data.is_empty());
    let _ = <f64 as RealNumber>::TINY;
}
