//! Timings, run by hand: `cargo test --release -p treadle-linalg speed -- --ignored --nocapture`.

use super::dense::{Dense, Random};
use super::{cholesky_of, eigh_of, library, qr_of, solve_of, svd_of, svdvals_of};
use crate::{Field, Gauge, QrMode, Triangle, fallbacks};
use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Instant;

fn best(runs: usize, mut f: impl FnMut()) -> f64 {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_secs_f64() * 1e3
        })
        .fold(f64::INFINITY, f64::min)
}

fn row<T: Field>(n: usize) -> String {
    let mut random = Random::new(n as u64);
    let a = Dense::<T>::random(n, n, &mut random);
    let b = Dense::<T>::random(n, 1, &mut random);
    let h = a.hermitian();
    let shift = Dense::<T>::diagonal(n, n, |_| 10.0 * n as f64);
    let positive = Dense::from_fn(n, n, |i, j| h.at(i, j) + shift.at(i, j));
    let runs = if n > 300 {
        3
    } else if n > 32 {
        7
    } else {
        200
    };
    format!(
        "{n:5} svd {:9.4} svdvals {:9.4} eigh {:9.4} qr {:9.4} solve {:9.4} cholesky {:9.4}",
        best(runs, || drop(black_box(svd_of(&a, false, Gauge::Raw)))),
        best(runs, || drop(black_box(svdvals_of(&a)))),
        best(runs, || drop(black_box(eigh_of(&h, Triangle::Lower, Gauge::Raw)))),
        best(runs, || drop(black_box(qr_of(&a, QrMode::Reduced, Gauge::Raw)))),
        best(runs, || drop(black_box(solve_of(&a, &b)))),
        best(runs, || drop(black_box(cholesky_of(&positive, Triangle::Lower)))),
    )
}

#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr)]
fn speed() {
    for n in [2, 4, 8, 16, 32, 64, 127, 128, 256, 512] {
        eprintln!("f64 ms {}", row::<f64>(n));
    }
    for n in [4, 64, 256] {
        eprintln!("c128 ms {}", row::<num_complex::Complex64>(n));
    }
    for n in [128, 200, 256] {
        for (name, a) in library::square::<f64>(n) {
            let before = [
                fallbacks::DIVIDE_AND_CONQUER.load(Ordering::Relaxed),
                fallbacks::ITERATION.load(Ordering::Relaxed),
                fallbacks::LAST_RESORT.load(Ordering::Relaxed),
            ];
            let svd = best(1, || drop(svd_of(&a, false, Gauge::Raw)));
            let after = fallbacks::DIVIDE_AND_CONQUER.load(Ordering::Relaxed);
            let eigh = best(1, || drop(eigh_of(&a.hermitian(), Triangle::Lower, Gauge::Raw)));
            eprintln!(
                "{n} {name:20} svd {svd:8.2} ms, eigh {eigh:8.2} ms; fell back: svd {} eigh {} iteration {} last {}",
                after - before[0],
                fallbacks::DIVIDE_AND_CONQUER.load(Ordering::Relaxed) - after,
                fallbacks::ITERATION.load(Ordering::Relaxed) - before[1],
                fallbacks::LAST_RESORT.load(Ordering::Relaxed) - before[2],
            );
        }
    }
}

/// What divide and conquer and the QR iteration cost, and how well their factors hold.
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stderr)]
fn thresholds() {
    fn one<T: Field>(n: usize) {
        use faer::{Auto, Mat, Par};
        let mut random = Random::new(n as u64);
        let a = Dense::<T>::random(n, n, &mut random);
        let a = Mat::from_fn(n, n, |i, j| a.at(i, j));
        for threshold in [16, 32, 64, 128, usize::MAX] {
            let mut params = <faer::linalg::svd::SvdParams as Auto<T>>::auto();
            params.recursion_threshold = threshold;
            let need = faer::linalg::svd::svd_scratch::<T>(
                n,
                n,
                faer::linalg::svd::ComputeSvdVectors::Thin,
                faer::linalg::svd::ComputeSvdVectors::Thin,
                Par::Seq,
                params.into(),
            );
            let mut memory = faer::dyn_stack::MemBuffer::new(need);
            let (mut u, mut v) = (Mat::<T>::zeros(n, n), Mat::<T>::zeros(n, n));
            let mut s = faer::diag::Diag::<T>::zeros(n);
            let time = best(3, || {
                faer::linalg::svd::svd(
                    a.as_ref(),
                    s.as_mut(),
                    Some(u.as_mut()),
                    Some(v.as_mut()),
                    Par::Seq,
                    faer::dyn_stack::MemStack::new(&mut memory),
                    params.into(),
                )
                .unwrap();
            });
            let dense = |x: &Mat<T>| Dense::from_fn(n, n, |i, j| x[(i, j)]);
            let (ud, vd) = (dense(&u), dense(&v));
            let values: Vec<_> = (0..n).map(|i| s.column_vector()[i].re()).collect();
            let unit = (n as f64).sqrt() * T::EPSILON;
            let ad = dense(&a);
            let off = ud.with_columns(&values).times(&vd.adjoint()).distance(&ad) / (unit * ad.norm());
            let skew = ud.skewness().max(vd.skewness()) / (unit * (n as f64).sqrt());
            eprintln!(
                "{n:4} {:20} threshold {threshold:20}: {time:9.4} ms, residual {off:.2}, skew {skew:.2}",
                std::any::type_name::<T>()
            );
        }
    }
    for n in [16, 32, 64, 100, 128, 160, 200, 256, 300, 400, 512] {
        one::<f64>(n);
    }
    for n in [64, 256] {
        one::<f32>(n);
        one::<num_complex::Complex64>(n);
    }
}
