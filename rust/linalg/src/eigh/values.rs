//! Eigenvalues of a real symmetric tridiagonal matrix, without vectors and without square roots: the form of the QL
//! iteration by Pal, Walker and Kahan (Parlett, The Symmetric Eigenvalue Problem, section 8.15).

use crate::failure::Failure;

/// Sweeps for each eigenvalue; two are usual.
const SWEEPS: usize = 60;

/// The eigenvalues, ascending, in `d`; `e` holds what is below the diagonal, and is used up. Entries are at most about 1 in
/// magnitude, or far from the ends of the range.
pub(crate) fn eigenvalues(
    d: &mut [f64],
    e: &mut [f64],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let n = d.len();
    let norm = d.iter().chain(e.iter()).fold(0.0f64, |m, x| m.max(x.abs()));
    // What is neglected must not add up to more than the rounding of one sweep.
    let floor = (f64::EPSILON * norm / 64.0).powi(2);
    for x in e.iter_mut() {
        *x *= *x;
    }
    let negligible = |d: &[f64], e: &[f64], i: usize| {
        e[i] <= floor || e[i] <= f64::EPSILON * f64::EPSILON / 4.0 * (d[i] * d[i + 1]).abs()
    };
    let mut first = 0;
    while first < n {
        let mut last = first;
        while last + 1 < n && !negligible(d, e, last) {
            last += 1;
        }
        // The iteration converges at the top, best when the small entries are there.
        if d[last].abs() < d[first].abs() {
            d[first..=last].reverse();
            e[first..last].reverse();
        }
        let mut budget = SWEEPS * (last - first + 1);
        let mut top = first;
        while top < last {
            let mut end = top;
            while end < last && !negligible(d, e, end) {
                end += 1;
            }
            if end < last {
                e[end] = 0.0;
            }
            if end == top {
                top += 1;
                continue;
            }
            if budget == 0 {
                return Err(Failure::NotConverged);
            }
            budget -= 1;
            if budget.is_multiple_of(256) && interrupted() {
                return Err(Failure::Interrupted);
            }
            if end == top + 1 {
                let (a, b) = two(d[top], e[top].sqrt(), d[top + 1]);
                (d[top], d[top + 1]) = (a, b);
                e[top] = 0.0;
                top += 2;
                continue;
            }
            sweep(&mut d[top..=end], &mut e[top..end]);
        }
        first = last + 1;
    }
    d.sort_unstable_by(f64::total_cmp);
    Ok(())
}

/// The eigenvalues of `[[a, b], [b, c]]`.
fn two(a: f64, b: f64, c: f64) -> (f64, f64) {
    let (sum, difference) = (a + c, (a - c).abs());
    let root = difference.hypot(2.0 * b);
    if root == 0.0 {
        return (a, c);
    }
    let (large, small) = if a.abs() > c.abs() { (a, c) } else { (c, a) };
    let far = if sum < 0.0 {
        0.5 * (sum - root)
    } else {
        0.5 * (sum + root)
    };
    if sum == 0.0 {
        return (-0.5 * root, 0.5 * root);
    }
    (far, large / far * small - b / far * b)
}

/// One sweep with Wilkinson's shift; `e` holds squares.
fn sweep(d: &mut [f64], e: &mut [f64]) {
    let last = d.len() - 1;
    let root = e[0].sqrt();
    let half = (d[1] - d[0]) / (2.0 * root);
    let shift = d[0] - root / (half + half.hypot(1.0).copysign(half));
    let (mut c, mut s) = (1.0f64, 0.0f64);
    let mut gamma = d[last] - shift;
    let mut p = gamma * gamma;
    for i in (0..last).rev() {
        let square = e[i];
        let r = p + square;
        if i + 1 < last {
            e[i + 1] = s * r;
        }
        let (before, gamma_before) = (c, gamma);
        // The quotients do not wait for each other.
        c = p / r;
        s = square / r;
        let back = r / p;
        let value = d[i];
        gamma = c * (value - shift) - s * gamma_before;
        d[i + 1] = gamma_before + (value - gamma);
        p = if c == 0.0 || !back.is_finite() {
            before * square
        } else {
            gamma * gamma * back
        };
    }
    e[0] = s * p;
    d[0] = shift + gamma;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_spectra() {
        for n in [1usize, 2, 3, 10, 101, 1000] {
            let mut d = vec![2.0; n];
            let mut e = vec![-1.0; n.saturating_sub(1)];
            eigenvalues(&mut d, &mut e, &mut || false).unwrap();
            for (k, &x) in d.iter().enumerate() {
                let angle = std::f64::consts::PI * (k + 1) as f64 / (n + 1) as f64;
                let right = 2.0 - 2.0 * angle.cos();
                assert!(
                    (x - right).abs() <= 40.0 * f64::EPSILON,
                    "{n}: {k}: {x} for {right}"
                );
            }
        }
    }

    #[test]
    fn zeros_and_diagonals() {
        let mut d = vec![0.0; 9];
        eigenvalues(&mut d, &mut [0.0; 8], &mut || false).unwrap();
        assert_eq!(d, [0.0; 9]);
        let mut d = vec![3.0, -1.0, 2.0];
        eigenvalues(&mut d, &mut [0.0, 0.0], &mut || false).unwrap();
        assert_eq!(d, [-1.0, 2.0, 3.0]);
        // A zero diagonal: eigenvalues in pairs.
        let mut d = vec![0.0; 4];
        eigenvalues(&mut d, &mut [1.0, 1.0, 1.0], &mut || false).unwrap();
        let golden = (1.0 + 5f64.sqrt()) / 2.0;
        for (x, y) in d.iter().zip([-golden, 1.0 / -golden, 1.0 / golden, golden]) {
            assert!((x - y).abs() < 4.0 * f64::EPSILON, "{x} {y}");
        }
    }
}
