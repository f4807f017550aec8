//! Larger matrices, where reductions and merges work in chunks, and spectra that are hard for divide and conquer.

use super::batches::at_widths;
use super::dense::{Dense, Random, rounding};
use super::{eigh_of, eigvalsh_of, for_each_type, qr_of};
use crate::*;
use std::sync::atomic::Ordering;
use treadle_contract::policy::BatchPolicy;
use treadle_team::Token;

/// A symmetric tridiagonal matrix with this diagonal and these neighbours.
fn tridiagonal<T: Field>(n: usize, d: impl Fn(usize) -> f64, e: impl Fn(usize) -> f64) -> Dense<T> {
    Dense::real(n, n, |i, j| match i.abs_diff(j) {
        0 => d(i),
        1 => e(i.min(j)),
        _ => 0.0,
    })
}

/// Values, vectors and values alone agree with the matrix and with each other.
fn check<T: Field>(name: &str, a: &Dense<T>) -> Vec<T::R> {
    let n = a.rows;
    let what = format!("{name} {n} {}", std::any::type_name::<T>());
    let before = fallbacks::DIVIDE_AND_CONQUER.load(Ordering::Relaxed);
    let (w, v) = eigh_of(a, Triangle::Lower, Gauge::Raw).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(
        fallbacks::DIVIDE_AND_CONQUER.load(Ordering::Relaxed),
        before,
        "{what}: fell back"
    );
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
        "{what}: off by {:e}",
        v.skewness()
    );
    assert!(w.windows(2).all(|x| x[0] <= x[1]), "{what}: not ascending");
    let alone = eigvalsh_of(a, Triangle::Lower).unwrap();
    for (x, y) in w.iter().zip(&alone) {
        let off = (x.to_f64() - y.to_f64()).abs();
        assert!(
            off <= bound * a.norm() + floor,
            "{what}: {off:e} between the values"
        );
    }
    w
}

/// What breaks divide and conquer when deflation or the secular equation is careless.
fn hard_spectra<T: Field>(n: usize) {
    let middle = (n - 1) as f64 / 2.0;
    check::<T>(
        "Wilkinson",
        &tridiagonal(n, |i| (i as f64 - middle).abs(), |_| 1.0),
    );
    for glue in [1e-3, 1e-8, 1e-14] {
        let glued = |i: usize| if i % 21 == 20 { glue } else { 1.0 };
        check::<T>(
            "glued Wilkinson",
            &tridiagonal(n, |i| ((i % 21) as f64 - 10.0).abs(), glued),
        );
    }
    check::<T>("second difference", &tridiagonal(n, |_| 2.0, |_| -1.0));
    check::<T>("zero diagonal", &tridiagonal(n, |_| 0.0, |_| 1.0));
    check::<T>(
        "Clement",
        &tridiagonal(n, |_| 0.0, |i| (((i + 1) * (n - 1 - i)) as f64).sqrt()),
    );
    check::<T>(
        "graded up",
        &tridiagonal(
            n,
            |i| 2f64.powi(i as i32 - n as i32),
            |i| 2f64.powi(i as i32 - n as i32),
        ),
    );
    check::<T>(
        "graded down",
        &tridiagonal(n, |i| 2f64.powi(-(i as i32)), |i| 2f64.powi(-(i as i32))),
    );
    check::<T>(
        "equal and weak",
        &tridiagonal(n, |_| 1.0, |i| if i % 2 == 0 { 1e-9 } else { 1e-5 }),
    );
    check::<T>(
        "arrow",
        &Dense::real(n, n, |i, j| {
            if i == j {
                1.0 + (i % 4) as f64
            } else if i == 0 || j == 0 {
                0.1
            } else {
                0.0
            }
        }),
    );
    check::<T>(
        "one and noise",
        &Dense::real(
            n,
            n,
            |i, j| if i == j { 1.0 } else { 1e-14 * ((i * j) % 7) as f64 },
        ),
    );
    let mut random = Random::new(n as u64 + 3);
    let x = Dense::<T>::random(n, n, &mut random).hermitian();
    let block = |i: usize, j: usize| (i < n / 3) == (j < n / 3);
    check(
        "blocks of different size",
        &Dense::from_fn(n, n, |i, j| {
            let factor = if !block(i, j) {
                0.0
            } else if i < n / 3 {
                1.0
            } else {
                1e-25
            };
            treadle_core::Float::scale(x.at(i, j), T::R::of(factor))
        }),
    );
    check(
        "zero block",
        &Dense::from_fn(n, n, |i, j| {
            if i < n / 2 && j < n / 2 {
                x.at(i, j)
            } else {
                T::ZERO
            }
        }),
    );
    let q = Dense::<T>::orthonormal(n, n, &mut random);
    let with = |f: &dyn Fn(usize) -> f64| {
        let values: Vec<_> = (0..n).map(|i| T::R::of(f(i))).collect();
        q.with_columns(&values).times(&q.adjoint()).hermitian()
    };
    check("two clusters", &with(&|i| if i < n / 2 { -1.0 } else { 1.0 }));
    check(
        "clusters of ten",
        &with(&|i| (i / 10) as f64 + 1e-13 * (i % 10) as f64),
    );
    check(
        "quarter rank",
        &with(&|i| if i % 4 == 0 { (i + 1) as f64 } else { 0.0 }),
    );
    check("geometric", &with(&|i| 0.5f64.powi(i as i32)));
    check("all but one", &with(&|i| if i == 0 { 1.0 } else { 1e-12 }));
    if T::EPSILON < 1e-10 {
        for scale in [1e-50, 1e-300, 1e300, 1e-310] {
            check("scaled", &x.scaled(scale));
        }
    }
}

#[test]
fn spectra_that_are_hard_for_divide_and_conquer() {
    for n in [33, 64, 105, 231] {
        hard_spectra::<f64>(n);
    }
    hard_spectra::<f32>(105);
    hard_spectra::<num_complex::Complex64>(105);
    hard_spectra::<num_complex::Complex32>(70);
}

#[test]
fn the_matrix_that_faer_gets_wrong() {
    let mut random = Random::new(160);
    let a = Dense::<f64>::random(160, 160, &mut random).hermitian();
    let right = check("unscaled", &a);
    let small = check("times 1e-50", &a.scaled(1e-50));
    for (x, y) in right.iter().zip(&small) {
        assert!((x - y * 1e50).abs() <= 1e-13 * a.norm());
    }
}

#[test]
fn values_alone_to_a_few_units_of_the_norm() {
    // Second difference: known values. Reduced first, as it is not tridiagonal after an orthogonal transformation by reflectors.
    let n = 400;
    let right = |k: usize| 2.0 - 2.0 * (std::f64::consts::PI * (k + 1) as f64 / (n + 1) as f64).cos();
    let mut random = Random::new(4);
    let mut a = tridiagonal::<f64>(n, |_| 2.0, |_| -1.0);
    for _ in 0..3 {
        // A reflection from both sides keeps the values.
        let v: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let squares: f64 = v.iter().map(|x| x * x).sum();
        let p: Vec<f64> = (0..n)
            .map(|i| 2.0 / squares * (0..n).map(|j| a.at(i, j) * v[j]).sum::<f64>())
            .collect();
        let share = 1.0 / squares * (0..n).map(|i| p[i] * v[i]).sum::<f64>();
        let w: Vec<f64> = (0..n).map(|i| p[i] - share * v[i]).collect();
        a = Dense::from_fn(n, n, |i, j| a.at(i, j) - v[i] * w[j] - w[i] * v[j]);
    }
    for (k, x) in eigvalsh_of(&a, Triangle::Lower).unwrap().iter().enumerate() {
        assert!(
            (x - right(k)).abs() <= 60.0 * f64::EPSILON * 4.0,
            "{k}: {x} for {}",
            right(k)
        );
    }
}

fn equal_bits<T: Field>(n: usize) {
    let mut random = Random::new(n as u64);
    let a = Dense::<T>::random(n, n, &mut random).hermitian();
    let (w, v) = eigh_of(&a, Triangle::Lower, Gauge::Raw).unwrap();
    let alone = eigvalsh_of(&a, Triangle::Lower).unwrap();
    let (q, r) = qr_of(&a, QrMode::Reduced, Gauge::Raw).unwrap();
    at_widths(&[2, 3, 8], |width, token| {
        let mut w2 = vec![T::R::NAN; n];
        let mut alone2 = w2.clone();
        let mut v2 = Dense::<T>::poisoned(n, n);
        let (mut q2, mut r2) = (v2.clone(), v2.clone());
        // SAFETY: the outputs have the shapes that are asked for.
        unsafe {
            let out = EighOut {
                w: w2.as_mut_ptr(),
                v: v2.data.as_mut_ptr(),
            };
            eigh(
                token,
                BatchPolicy::Inner,
                &a.view(),
                Triangle::Lower,
                Gauge::Raw,
                true,
                out,
            )
            .unwrap();
            eigvalsh(
                token,
                BatchPolicy::Auto,
                &a.view(),
                Triangle::Lower,
                true,
                alone2.as_mut_ptr(),
            )
            .unwrap();
            let out = QrOut {
                q: q2.data.as_mut_ptr(),
                r: r2.data.as_mut_ptr(),
            };
            qr(
                token,
                BatchPolicy::Auto,
                &a.view(),
                QrMode::Reduced,
                Gauge::Raw,
                true,
                out,
            )
            .unwrap();
        }
        assert!(
            w2 == w && v2 == v && alone2 == alone,
            "{n}: eigh at width {width}"
        );
        assert!(q2 == q && r2 == r, "{n}: qr at width {width}");
    });
}

#[test]
fn the_same_bits_at_every_width() {
    equal_bits::<f64>(420);
    equal_bits::<f32>(300);
    equal_bits::<num_complex::Complex64>(230);
    equal_bits::<num_complex::Complex32>(130);
}

fn side_by_side<T: Field>() {
    // Matrices of every kind in one batch: each item has the bits that it has alone.
    let mut random = Random::new(21);
    for n in 1..=17 {
        let mut items: Vec<Dense<T>> = super::library::square::<T>(n)
            .into_iter()
            .map(|(_, a)| a.hermitian())
            .collect();
        items.push(Dense::<T>::random(n, n, &mut random).hermitian().scaled(1e-30));
        items.push(Dense::<T>::random(n, n, &mut random).hermitian());
        let count = items.len();
        let data: Vec<T> = items.iter().flat_map(|a| a.data.clone()).collect();
        let (shape, strides) = ([count], [(n * n) as isize]);
        let a = super::batches::of(&data, n, &shape, &strides);
        for gauge in [Gauge::Raw, Gauge::Canonical] {
            let nan = T::from_parts(T::R::NAN, T::R::NAN);
            let mut w = vec![T::R::NAN; count * n];
            let (mut v, mut q, mut r) = (
                vec![nan; count * n * n],
                vec![nan; count * n * n],
                vec![nan; count * n * n],
            );
            let token = &mut Token::serial();
            // SAFETY: the outputs have the shapes that are asked for.
            unsafe {
                let out = EighOut {
                    w: w.as_mut_ptr(),
                    v: v.as_mut_ptr(),
                };
                eigh(token, BatchPolicy::Auto, &a, Triangle::Upper, gauge, true, out).unwrap();
                let out = QrOut {
                    q: q.as_mut_ptr(),
                    r: r.as_mut_ptr(),
                };
                qr(token, BatchPolicy::Auto, &a, QrMode::Complete, gauge, true, out).unwrap();
            }
            for (i, one) in items.iter().enumerate() {
                let (w1, v1) = eigh_of(one, Triangle::Upper, gauge).unwrap();
                let (q1, r1) = qr_of(one, QrMode::Complete, gauge).unwrap();
                let part = i * n * n..(i + 1) * n * n;
                assert!(
                    w1 == w[i * n..(i + 1) * n] && v1.data == v[part.clone()],
                    "eigh {n}, item {i}"
                );
                assert!(
                    q1.data == q[part.clone()] && r1.data == r[part],
                    "qr {n}, item {i}"
                );
            }
        }
    }
}

#[test]
fn items_of_a_batch_have_the_bits_that_they_have_alone() {
    for_each_type!(side_by_side);
}
