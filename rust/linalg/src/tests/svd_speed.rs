//! Timings of the singular value decomposition, run by hand:
//! `cargo test --release -p treadle-linalg svd_speed -- --ignored --nocapture`.

use super::dense::{Dense, Random};
use crate::{Field, Gauge, Matrices, SvdOut, svd, svdvals};
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

type Row = fn(&mut Token<'_>, usize, usize, usize, usize) -> [f64; 3];

#[allow(clippy::print_stderr)]
fn show(cases: &[(&str, usize, usize, usize, Row)]) {
    let mut pool = Pool::builder().threads(2).build().unwrap();
    let mut two = pool.token().unwrap();
    for &(name, count, m, n, of) in cases {
        let runs = if m * n > 400 * 400 { 2 } else { 5 };
        let x = of(&mut Token::serial(), count, m, n, runs);
        let y = of(&mut two, count, m, n, runs);
        eprintln!(
            "{name} {count}x{m}x{n}: full {:.2} reduced {:.2} values {:.2} us; two threads {:.2} {:.2} {:.2}",
            x[0], x[1], x[2], y[0], y[1], y[2]
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn svd_speed_of_batches() {
    for (count, m, n) in [
        (10_000, 2, 2),
        (10_000, 4, 4),
        (2000, 8, 8),
        (1000, 16, 16),
        (100, 24, 24),
        (100, 32, 32),
        (30, 64, 64),
        (5, 128, 128),
        (1, 4, 4),
        (1, 16, 16),
        (1000, 60, 3),
    ] {
        show(&[("f64", count, m, n, row::<f64>)]);
    }
}

#[test]
#[ignore = "a measurement"]
fn svd_speed_of_types() {
    for (count, n) in [(2000, 4), (500, 16), (10, 64), (1, 256)] {
        show(&[
            ("f32", count, n, n, row::<f32>),
            ("c64", count, n, n, row::<num_complex::Complex32>),
            ("c128", count, n, n, row::<num_complex::Complex64>),
        ]);
    }
}

#[test]
#[ignore = "a measurement"]
fn svd_speed_of_large_ones() {
    for n in [256, 512, 1024] {
        show(&[("f64", 1, n, n, row::<f64>)]);
    }
}

#[test]
#[ignore = "a measurement"]
fn svd_speed_of_types_at_512() {
    show(&[
        ("f32", 1, 512, 512, row::<f32>),
        ("c64", 1, 512, 512, row::<num_complex::Complex32>),
        ("c128", 1, 512, 512, row::<num_complex::Complex64>),
    ]);
}
