//! Timings of the singular value decomposition, run by hand:
//! `cargo test --release -p treadle-linalg svd_speed -- --ignored --nocapture`.

use super::dense::{Dense, Random};
use super::library;
use crate::{Field, Gauge, Matrices, SvdOut, fallbacks, svd, svdvals};
use std::sync::atomic::Ordering;
use std::time::Instant;
use treadle_contract::policy::BatchPolicy;
use treadle_team::{Pool, Token};

fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e6
        })
        .fold(f64::INFINITY, f64::min)
}

/// Microseconds of `svd` (full and reduced) and `svdvals`, an item.
fn row<T: Field>(token: &mut Token<'_>, count: usize, m: usize, n: usize, runs: usize) -> [f64; 3] {
    let mut random = Random::new(n as u64);
    let k = m.min(n);
    let data: Vec<T> = (0..count)
        .flat_map(|_| Dense::<T>::random(m, n, &mut random).data)
        .collect();
    let (shape, strides) = ([count], [(m * n) as isize]);
    let a = Matrices {
        batch_shape: &shape,
        batch_strides: &strides,
        ..Matrices::single(data.as_ptr(), (m, n), (n as isize, 1))
    };
    let (mut u, mut vh) = (vec![T::ZERO; count * m * m], vec![T::ZERO; count * n * n]);
    let mut s = vec![T::R::of_zero(); count * k];
    let out = SvdOut {
        u: u.as_mut_ptr(),
        s: s.as_mut_ptr(),
        vh: vh.as_mut_ptr(),
    };
    [true, false]
        .map(|full| {
            // SAFETY: the outputs are as large as the full factors.
            best(runs, || unsafe {
                svd(token, BatchPolicy::Auto, &a, full, Gauge::Raw, true, out).unwrap();
            }) / count as f64
        })
        .into_iter()
        .chain([
            // SAFETY: s holds the values.
            best(runs, || unsafe {
                svdvals(token, BatchPolicy::Auto, &a, true, s.as_mut_ptr()).unwrap();
            }) / count as f64,
        ])
        .collect::<Vec<_>>()
        .try_into()
        .unwrap()
}

trait Zero {
    fn of_zero() -> Self;
}

impl<R: crate::RealNumber> Zero for R {
    fn of_zero() -> R {
        R::of(0.0)
    }
}

#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr)]
fn svd_speed() {
    let mut pool = Pool::builder().threads(2).build().unwrap();
    let mut two = pool.token().unwrap();
    let mut one = Token::serial();
    let mut show = |name: &str,
                    count,
                    m,
                    n,
                    of: fn(&mut Token<'_>, usize, usize, usize, usize) -> [f64; 3]| {
        let runs = if m * n > 400 * 400 { 2 } else { 5 };
        let (x, y) = (of(&mut one, count, m, n, runs), of(&mut two, count, m, n, runs));
        eprintln!(
            "{name} {count}x{m}x{n}: full {:.2} reduced {:.2} values {:.2} us; two threads {:.2} {:.2} {:.2}",
            x[0], x[1], x[2], y[0], y[1], y[2]
        );
    };
    for (count, n) in [
        (10_000, 2),
        (10_000, 4),
        (2000, 8),
        (2000, 16),
        (200, 24),
        (200, 32),
        (100, 64),
        (10, 128),
    ] {
        show("f64", count, n, n, row::<f64>);
    }
    show("f64 one", 1, 4, 4, row::<f64>);
    show("f64", 1000, 60, 3, row::<f64>);
    for n in [256, 512, 1024] {
        show("f64", 1, n, n, row::<f64>);
    }
    for n in [64, 256, 512] {
        show("f32", 1, n, n, row::<f32>);
        show("c64", 1, n, n, row::<num_complex::Complex32>);
        show("c128", 1, n, n, row::<num_complex::Complex64>);
    }
    for (count, n) in [(2000, 4), (500, 16)] {
        show("f32", count, n, n, row::<f32>);
        show("c64", count, n, n, row::<num_complex::Complex32>);
        show("c128", count, n, n, row::<num_complex::Complex64>);
    }
}

/// How often the library of nasty matrices falls back.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr)]
fn svd_fallbacks() {
    fn all<T: Field>() {
        for n in [33, 64, 100, 128, 200, 256] {
            for (name, a) in library::square::<T>(n) {
                let before = [&fallbacks::DIVIDE_AND_CONQUER, &fallbacks::ITERATION]
                    .map(|x| x.load(Ordering::Relaxed));
                super::svd_of(&a, false, Gauge::Raw).unwrap();
                super::svdvals_of(&a).unwrap();
                let after = [&fallbacks::DIVIDE_AND_CONQUER, &fallbacks::ITERATION]
                    .map(|x| x.load(Ordering::Relaxed));
                if before != after {
                    eprintln!(
                        "{} {name} {n}: {before:?} to {after:?}",
                        std::any::type_name::<T>()
                    );
                }
            }
        }
    }
    all::<f64>();
    all::<f32>();
    all::<num_complex::Complex64>();
    all::<num_complex::Complex32>();
}
