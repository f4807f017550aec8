//! Hermitian eigendecomposition.

use super::dense::{Dense, Random, rounding};
use super::{eigh_of, eigvalsh_of, for_each_type, library, sizes};
use crate::{Field, Gauge, RealNumber, Triangle};

fn check<T: Field>(name: &str, a: &Dense<T>, gauge: Gauge) -> Vec<T::R> {
    let n = a.rows;
    let what = format!("{name} {n} {}", std::any::type_name::<T>());
    let (w, v) = eigh_of(a, Triangle::Lower, gauge).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(w.windows(2).all(|x| x[0] <= x[1]), "{what}: not ascending");
    let bound = rounding::<T>(n, n);
    let floor = T::R::TINY.to_f64() * T::EPSILON * (n * n) as f64;
    let off = v.with_columns(&w).times(&v.adjoint()).distance(a);
    assert!(
        off <= bound * a.norm() + floor,
        "{what}: residual {off:e} of {:e}",
        a.norm()
    );
    assert!(
        v.skewness() <= bound * (n as f64).sqrt(),
        "{what}: vectors are off by {:e}",
        v.skewness()
    );
    let values = eigvalsh_of(a, Triangle::Upper).unwrap();
    for (x, y) in w.iter().zip(&values) {
        assert!(
            (x.to_f64() - y.to_f64()).abs() <= bound * a.norm() + floor,
            "{what}: eigvalsh differs"
        );
    }
    w
}

fn random_orders<T: Field>() {
    let mut random = Random::new(12);
    for n in sizes() {
        let a = Dense::<T>::random(n, n, &mut random).hermitian();
        check("random", &a, Gauge::Raw);
    }
}

#[test]
fn random_matrices_of_every_order() {
    for_each_type!(random_orders);
}

fn library_at<T: Field>(orders: &[usize]) {
    for &n in orders {
        for (name, a) in library::square::<T>(n) {
            check(name, &a.hermitian(), Gauge::Raw);
        }
        // The library's singular values as eigenvalues, both signs.
        let mut random = Random::new(n as u64);
        let q = Dense::<T>::orthonormal(n, n, &mut random);
        for (name, rank) in [
            ("half rank", n.div_ceil(2)),
            ("quarter rank", n.div_ceil(4)),
            ("rank 1", 1),
        ] {
            let values: Vec<_> = (0..n)
                .map(|i| {
                    let x = if i < rank { (i + 1) as f64 } else { 0.0 };
                    T::R::of(if i % 2 == 0 { x } else { -x })
                })
                .collect();
            check(
                name,
                &q.with_columns(&values).times(&q.adjoint()).hermitian(),
                Gauge::Raw,
            );
        }
    }
}

#[test]
fn the_library_in_f64() {
    library_at::<f64>(&[1, 2, 3, 5, 17, 33, 64, 127, 128, 130, 160, 256]);
}

#[test]
fn the_library_in_the_other_types() {
    library_at::<f32>(&[1, 2, 5, 33, 64, 128, 160, 256]);
    library_at::<num_complex::Complex64>(&[1, 2, 5, 33, 64, 128, 160]);
    library_at::<num_complex::Complex32>(&[2, 33, 128, 160]);
}

fn scaled<T: Field>() {
    for n in [3, 20, 100, 160] {
        let mut random = Random::new(n as u64);
        let a = Dense::<T>::random(n, n, &mut random).hermitian();
        for &scale in library::scales::<T>() {
            check(&format!("times {scale:e}"), &a.scaled(scale), Gauge::Raw);
        }
    }
}

#[test]
fn tiny_huge_and_denormal_entries() {
    for_each_type!(scaled);
}

#[test]
fn diagonal_matrices_are_exact() {
    for n in 1..=130usize {
        let a = Dense::<f64>::diagonal(n, n, |i| (n - i) as f64);
        let (w, v) = eigh_of(&a, Triangle::Lower, Gauge::Raw).unwrap();
        let expected: Vec<f64> = (1..=n).map(|i| i as f64).collect();
        assert_eq!(w, expected);
        assert_eq!(v.with_columns(&w).times(&v.adjoint()), a);
        assert_eq!(eigvalsh_of(&a, Triangle::Lower).unwrap(), expected);
    }
}

#[test]
fn permuting_rows_and_columns_changes_nothing() {
    for n in (31..=34).chain(63..=66).chain(127..=130) {
        let mut random = Random::new(n as u64);
        let a = Dense::<f64>::random(n, n, &mut random).hermitian();
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, random.below(i + 1));
        }
        let b = Dense::from_fn(n, n, |i, j| a.at(order[i], order[j]));
        let (x, y) = (check("given", &a, Gauge::Raw), check("permuted", &b, Gauge::Raw));
        for (x, y) in x.iter().zip(&y) {
            assert!((x - y).abs() <= 1e-13 * a.norm());
        }
    }
}

#[test]
fn three_interleaved_copies() {
    let n = 20;
    let base = Dense::<f64>::real(n, n, |i, j| ((i * j) % 7) as f64 - ((i + j) % 5) as f64);
    let copies = Dense::from_fn(3 * n, 3 * n, |i, j| {
        if i % 3 == j % 3 {
            base.at(i / 3, j / 3)
        } else {
            0.0
        }
    });
    let blocks = Dense::from_fn(3 * n, 3 * n, |i, j| {
        if i / n == j / n {
            base.at(i % n, j % n)
        } else {
            0.0
        }
    });
    let one = check("one", &base, Gauge::Raw);
    for a in [copies, blocks] {
        let three = check("three", &a, Gauge::Raw);
        for (i, x) in three.iter().enumerate() {
            assert!((x - one[i / 3]).abs() <= 1e-13 * a.norm());
        }
    }
}

#[test]
fn one_triangle_is_read() {
    fn half<T: Field>() {
        let mut random = Random::new(9);
        let a = Dense::<T>::random(12, 12, &mut random).hermitian();
        let nan = T::from_parts(T::R::NAN, T::R::NAN);
        let (expected, _) = eigh_of(&a, Triangle::Lower, Gauge::Raw).unwrap();
        for (triangle, lower) in [(Triangle::Lower, true), (Triangle::Upper, false)] {
            let spoiled = Dense::from_fn(12, 12, |i, j| {
                if i == j {
                    T::from_parts(a.at(i, i).re(), T::R::NAN)
                } else if (i > j) == lower {
                    a.at(i, j)
                } else {
                    nan
                }
            });
            let (w, v) = eigh_of(&spoiled, triangle, Gauge::Raw).unwrap();
            assert_eq!(w, expected);
            assert!(v.with_columns(&w).times(&v.adjoint()).distance(&a) <= rounding::<T>(12, 12) * a.norm());
        }
    }
    for_each_type!(half);
}

#[test]
fn the_canonical_gauge() {
    fn canonical<T: Field>() {
        let mut random = Random::new(31);
        for n in [1, 4, 9, 130] {
            let a = Dense::<T>::random(n, n, &mut random).hermitian();
            check("canonical", &a, Gauge::Canonical);
            let (_, v) = eigh_of(&a, Triangle::Lower, Gauge::Canonical).unwrap();
            for j in 0..n {
                let largest = (0..n)
                    .max_by(|&x, &y| v.at(x, j).modulus().partial_cmp(&v.at(y, j).modulus()).unwrap())
                    .unwrap();
                let x = v.at(largest, j);
                let near = x.im().to_f64().abs() <= 8.0 * T::EPSILON && x.re() > T::R::of(0.0);
                assert!(near, "{n}: column {j} has {x:?}");
            }
        }
    }
    for_each_type!(canonical);
}

#[test]
fn the_last_resort_is_right_too() {
    fn by_jacobi<T: Field>() {
        for n in [1, 2, 7, 40] {
            for (name, a) in library::square::<T>(n) {
                let a = a.hermitian();
                let columns = a.transposed();
                let mut w = vec![T::R::of(0.0); n];
                let mut v = Dense::<T>::poisoned(n, n);
                let mut memory = faer::dyn_stack::MemBuffer::new(crate::jacobi::eigh_scratch::<T>(n));
                // SAFETY: all matrices are n by n, column-major.
                unsafe {
                    crate::jacobi::eigh(
                        columns.data.as_ptr(),
                        n,
                        &mut w,
                        v.data.as_mut_ptr(),
                        faer::dyn_stack::MemStack::new(&mut memory),
                    )
                }
                .unwrap_or_else(|failure| panic!("{name} {n}: {failure:?}"));
                let v = v.transposed();
                let off = v.with_columns(&w).times(&v.adjoint()).distance(&a);
                assert!(off <= rounding::<T>(n, n) * a.norm(), "{name} {n}: {off:e}");
            }
        }
    }
    by_jacobi::<f64>();
    by_jacobi::<num_complex::Complex64>();
    by_jacobi::<f32>();
}

/// The probe takes right factors and refuses a wrong value, a wrong vector and a vector that is not of length one.
fn probed<T: Field>() {
    use crate::crew::{Block, Crew, Panels};
    use crate::eigh::probe::Probe;
    use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
    let n = 150;
    let mut random = Random::new(23);
    let x = Dense::<T>::random(n, n, &mut random);
    let a = Dense::<T>::from_fn(n, n, |i, j| {
        treadle_core::Float::scale(x.at(i, j) + x.at(j, i).conj(), T::R::of(0.125))
    });
    let (w, v) = eigh_of(&a, Triangle::Lower, Gauge::Raw).unwrap();
    let mut memory = MemBuffer::new(StackReq::all_of(&[
        Probe::<T>::kept(n, true),
        Probe::<T>::scratch(n),
    ]));
    let mut crew = Crew {
        token: treadle_team::Token::serial(),
        panels: Panels::default(),
    };
    // Column-major, of which the lower triangle is read.
    let columns: Vec<T> = (0..n * n).map(|at| a.at(at % n, at / n)).collect();
    // SAFETY: arrays of n by n; the scratch is the probe's.
    unsafe {
        let (probe, stack) = Probe::new(columns.as_ptr(), n, n, true, MemStack::new(&mut memory));
        let mut holds = |w: &[T::R], v: &Dense<T>| {
            let mut v = v.clone();
            let block = Block::rows(v.data.as_mut_ptr(), n, n, n);
            probe.holds(&mut crew, w, block, &mut *stack).unwrap()
        };
        assert!(holds(&w, &v));
        assert!(probe.values_hold(&w));
        let far = T::R::of(1e5 * T::EPSILON);
        let mut wrong = w.clone();
        wrong[n - 1] = wrong[n - 1] + wrong[n - 1] * far;
        assert!(!holds(&wrong, &v));
        assert!(!probe.values_hold(&wrong));
        let mut wrong = v.clone();
        wrong.data[70] += T::from_real(far);
        assert!(!holds(&w, &wrong));
        let mut wrong = v.clone();
        (0..n).for_each(|i| wrong.data[i * n + 3] = T::ZERO);
        assert!(!holds(&w, &wrong));
        let mut wrong = w.clone();
        wrong.swap(0, 1);
        assert!(!holds(&wrong, &v));
        wrong[0] = T::R::NAN;
        assert!(!probe.values_hold(&wrong));
    }
}

#[test]
fn the_probe_tells_right_factors_from_wrong_ones() {
    for_each_type!(probed);
}
