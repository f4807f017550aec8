//! Serial engines run on the caller's stack, which may be small.

use super::dense::{Dense, Random};
use super::{cholesky_of, eigh_of, qr_of, solve_of, svd_of, svdvals_of};
use crate::{Field, Gauge, QrMode, Triangle};

fn on_small_stack(bytes: usize, f: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .stack_size(bytes)
            .spawn_scoped(scope, f)
            .unwrap()
            .join()
            .unwrap();
    });
}

fn everything<T: Field>(n: usize) {
    let mut random = Random::new(n as u64);
    let a = Dense::<T>::random(n, n, &mut random);
    let h = a.hermitian();
    let positive = {
        let shift = Dense::<T>::diagonal(n, n, |_| 10.0 * n as f64);
        Dense::from_fn(n, n, |i, j| h.at(i, j) + shift.at(i, j))
    };
    on_small_stack(256 << 10, || {
        svd_of(&a, false, Gauge::Raw).unwrap();
        svdvals_of(&a).unwrap();
        eigh_of(&h, Triangle::Lower, Gauge::Raw).unwrap();
        qr_of(&a, QrMode::Complete, Gauge::Raw).unwrap();
        solve_of(&a, &h).unwrap();
        cholesky_of(&positive, Triangle::Lower).unwrap();
    });
}

#[test]
fn a_stack_of_256_kib_is_enough() {
    everything::<f64>(500);
    everything::<f32>(300);
    everything::<num_complex::Complex64>(300);
    everything::<num_complex::Complex32>(200);
}
