//! Singular values alone of a real bidiagonal matrix: the differential quotient-difference algorithm with shifts.
//!
//! Fernando and Parlett, Accurate singular values and differential qd algorithms (1994). The squares of the entries are
//! transformed by one division and no subtraction but that of the shift, so that every value keeps its own relative accuracy as
//! long as no `d` turns negative, that is, as long as the shifts together stay below the smallest value of the block. The shift
//! tried is the smaller eigenvalue of the last two rows, which may be too large; if only the last `d` turns negative, the shift
//! plus that `d` is a lower bound (the last pivot falls at least as fast as the shift grows) and mostly a very good one.
//! Arithmetic is in double precision for every type.

use crate::failure::Failure;

/// Passes from one question whether to stop to the next.
const ASK: usize = 256;
/// Passes in units of the order. Three are usual.
const PASSES: usize = 40;

/// What one pass found.
struct Pass {
    /// The smallest `d` but for the last, and the last.
    others: f64,
    last: f64,
}

/// The transform of the rows `q`, `e` by the shift, into `to_q`, `to_e`.
#[inline]
fn pass(q: &[f64], e: &[f64], to_q: &mut [f64], to_e: &mut [f64], shift: f64) -> Pass {
    let last = q.len() - 1;
    let mut d = q[0] - shift;
    let mut others = f64::INFINITY;
    let rows = q[1..]
        .iter()
        .zip(&e[..last])
        .zip(to_q[..last].iter_mut().zip(&mut to_e[..last]));
    for ((&next, &beside), (to_q, to_e)) in rows {
        // A comparison that is false for NaN leaves it to the check of the last one.
        others = if d < others { d } else { others };
        let sum = d + beside;
        let ratio = next / sum;
        *to_q = sum;
        *to_e = beside * ratio;
        d = d * ratio - shift;
    }
    to_q[last] = d;
    Pass { others, last: d }
}

/// The smaller eigenvalue of two rows.
fn smaller(q: f64, e: f64, next: f64) -> f64 {
    q * (next / larger(q, e, next))
}

/// The larger eigenvalue of two rows.
fn larger(q: f64, e: f64, next: f64) -> f64 {
    let difference = (q - next) + e;
    let root = (difference * difference + 4.0 * e * next).sqrt();
    0.5 * ((q + next) + e + root)
}

/// A sum with the rounding error of its additions.
#[derive(Clone, Copy)]
struct Total {
    sum: f64,
    lost: f64,
}

impl Total {
    fn plus(self, x: f64) -> Self {
        let x = x + self.lost;
        let sum = self.sum + x;
        Total {
            sum,
            lost: (self.sum - sum) + x,
        }
    }

    fn value(self, x: f64) -> f64 {
        self.sum + (x + self.lost)
    }
}

/// The squares of the singular values of the bidiagonal matrix with squared diagonal `q` and squared off-diagonal `e` (as long
/// as `q`, the last entry unused), unordered, in `q`; whether it came to an end. `other_q` and `other_e` are as long.
pub(crate) fn squares(
    q: &mut [f64],
    e: &mut [f64],
    other_q: &mut [f64],
    other_e: &mut [f64],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<bool, Failure> {
    let n = q.len();
    // Blocks still to do, and the shift that they carry: the last one first.
    let mut blocks = vec![(0, n, Total { sum: 0.0, lost: 0.0 })];
    let mut budget = PASSES * n + 100;
    while let Some((mut low, mut high, mut total)) = blocks.pop() {
        // The smallest values found in the last pass: none yet.
        let mut found: Option<Pass> = None;
        'block: while high > low {
            let length = high - low;
            let (q, e) = (&mut q[low..high], &mut e[low..high]);
            if length == 1 {
                q[0] = total.value(q[0]);
                break;
            }
            // What is negligible: an entry that moves no value by more than a few units of its last place.
            let tolerance = 8.0 * f64::EPSILON;
            let limit = tolerance * tolerance;
            let negligible = |e: f64, above: f64, below: f64| {
                e <= limit * (total.sum + if above < below { above } else { below })
            };
            let end = length - 1;
            if negligible(e[end - 1], q[end - 1], q[end]) {
                q[end] = total.value(q[end]);
                high -= 1;
                found = None;
                continue;
            }
            if length == 2 {
                let first = larger(q[0], e[0], q[1]);
                let second = q[0] * (q[1] / first);
                q[0] = total.value(first);
                q[1] = total.value(second);
                break;
            }
            if let Some(split) = (0..end - 1).rev().find(|&i| negligible(e[i], q[i], q[i + 1])) {
                blocks.push((low, low + split + 1, total));
                low += split + 1;
                found = None;
                continue;
            }
            // Small values belong to the end.
            if q[0] * 1.5 < q[end] {
                q.reverse();
                e[..end].reverse();
                found = None;
            }
            let (to_q, to_e) = (&mut other_q[..length], &mut other_e[..length]);
            let mut shift = match &found {
                None => 0.0,
                Some(pass) if pass.last <= pass.others => {
                    let guess = smaller(q[end - 1], e[end - 1], q[end]);
                    if guess < pass.last { guess } else { pass.last }
                }
                Some(pass) => 0.25 * pass.others.min(pass.last),
            };
            let mut tries = 0;
            loop {
                if budget == 0 {
                    return Ok(false);
                }
                budget -= 1;
                if budget.is_multiple_of(ASK) && interrupted() {
                    return Err(Failure::Interrupted);
                }
                let done = pass(q, e, to_q, to_e, shift);
                if done.others >= 0.0 && done.last >= 0.0 && done.last.is_finite() {
                    q.copy_from_slice(to_q);
                    e[..end].copy_from_slice(&to_e[..end]);
                    total = total.plus(shift);
                    found = Some(done);
                    continue 'block;
                }
                if shift == 0.0 || done.last.is_nan() && tries > 3 {
                    return Ok(false);
                }
                tries += 1;
                let bound = (shift + done.last) * (1.0 - 2.0 * f64::EPSILON);
                shift = if tries > 4 {
                    0.0
                } else if done.others >= 0.0 && bound > 0.0 {
                    bound
                } else {
                    shift * 0.25
                };
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the bidiagonal matrix with these entries, descending.
    fn values(d: &[f64], e: &[f64]) -> Vec<f64> {
        let n = d.len();
        let mut q: Vec<f64> = d.iter().map(|x| x * x).collect();
        let mut off: Vec<f64> = e.iter().map(|x| x * x).chain([0.0]).collect();
        let (mut other_q, mut other_e) = (vec![0.0; n], vec![0.0; n]);
        assert!(squares(&mut q, &mut off, &mut other_q, &mut other_e, &mut || false).unwrap());
        q.sort_by(|x, y| y.total_cmp(x));
        q.into_iter().map(f64::sqrt).collect()
    }

    #[test]
    fn values_that_are_known_in_closed_form() {
        // Ones on both diagonals: 2 cos(k pi / (2 n + 1)).
        for n in [1usize, 2, 3, 10, 50, 301] {
            let found = values(&vec![1.0; n], &vec![1.0; n - 1]);
            for (k, value) in found.iter().enumerate() {
                let expected = 2.0 * ((k + 1) as f64 * std::f64::consts::PI / (2 * n + 1) as f64).cos();
                assert!(
                    (value - expected).abs() <= (8 + n) as f64 * f64::EPSILON * expected,
                    "{n} {k}: {value} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn small_values_keep_their_relative_accuracy() {
        // A product of two by two blocks, far apart in size: [[a, a], [0, a]] has a (1 + sqrt 5) / 2 and a (sqrt 5 - 1) / 2.
        let golden = (1.0 + 5f64.sqrt()) / 2.0;
        let (mut d, mut e, mut expected) = (vec![], vec![], vec![]);
        for power in 0..12 {
            let a = 10f64.powi(-5 * power);
            d.extend([a, a]);
            e.extend([a, 0.0]);
            expected.extend([a * golden, a / golden]);
        }
        e.pop();
        for (found, expected) in values(&d, &e).iter().zip(expected) {
            assert!(
                (found / expected - 1.0).abs() < 1e-14,
                "{found:e} instead of {expected:e}"
            );
        }
    }

    #[test]
    fn zeros_on_the_diagonal_are_exact() {
        // The rows are (1, 1, 0, 0), (0, 0, 1, 0), (0, 0, 1, 1) and zero: the first stands alone.
        let found = values(&[1.0, 0.0, 1.0, 0.0], &[1.0, 1.0, 1.0]);
        let golden = (1.0 + 5f64.sqrt()) / 2.0;
        for (found, expected) in found.iter().zip([golden, 2f64.sqrt(), 1.0 / golden]) {
            assert!((found - expected).abs() < 1e-15, "{found} instead of {expected}");
        }
        assert_eq!(found[3], 0.0);
    }

    #[test]
    fn whoever_wants_to_stop_is_heard() {
        let n = 400;
        let (mut q, mut off) = (vec![1.0; n], vec![0.7; n]);
        let (mut other_q, mut other_e) = (vec![0.0; n], vec![0.0; n]);
        let mut asked = 0;
        let done = squares(&mut q, &mut off, &mut other_q, &mut other_e, &mut || {
            asked += 1;
            asked == 2
        });
        assert_eq!(done, Err(Failure::Interrupted));
    }
}
