//! Loops that are long enough, as in `worker.py`.

use std::time::Instant;

const LEAST_SECONDS: f64 = 0.04;

/// Seconds that a call takes.
pub(crate) fn timed(call: &mut dyn FnMut()) -> f64 {
    let mut count = 1_u64;
    loop {
        let start = Instant::now();
        for _ in 0..count {
            call();
        }
        let seconds = start.elapsed().as_secs_f64();
        if seconds >= LEAST_SECONDS {
            return seconds / count as f64;
        }
        count = (2 * count).max((1.2 * count as f64 * LEAST_SECONDS / seconds.max(1e-7)) as u64);
    }
}

/// Seconds of one call.
pub(crate) fn once(call: impl FnOnce()) -> f64 {
    let start = Instant::now();
    call();
    start.elapsed().as_secs_f64()
}
