//! The secular equation `1 + rho sum z_j^2 / (d_j - x) = 0` of a diagonal matrix plus a matrix of rank one.
//!
//! Each root is sought relative to the nearer of the two poles beside it, by rational interpolation of the sums to its left and
//! to its right (the "middle way" of Li, LAPACK working note 89), kept in a bracket. What is returned are the
//! differences `d_j - x`, which have small relative errors even where `x` and `d_j` agree in all digits; from them the `z` is
//! computed of which the roots are exact (Gu and Eisenstat 1995), and eigenvectors of that matrix are orthogonal.

use crate::wide::kernel;

/// Steps for one root; five are many.
const STEPS: usize = 100;

/// The sums on both sides of a root, and their derivatives.
#[derive(Clone, Copy)]
struct Sums {
    left: f64,
    left_slope: f64,
    right: f64,
    right_slope: f64,
}

kernel! {
    /// `sum z_j^2 / (delta_j - tau)` and its derivative by `tau`, for the first `split` terms and for the others.
    ///
    /// # Safety
    /// `z` and `delta` hold `len` reals of type `T`, which is `f64`.
    unsafe fn sums<T, W>(z: *const T, delta: *const T, len: usize, split: usize, tau: T) -> [T::R; 4] {
        let (z, delta) = (z.cast::<T::R>(), delta.cast::<T::R>());
        let tau = W::splat(tau.re());
        let mut out = [tau.sum(); 4];
        for (side, range) in [0..split, split..len].into_iter().enumerate() {
            let (mut value, mut slope) = (W::zero(), W::zero());
            let mut j = range.start;
            while j + W::LANES <= range.end {
                let weight = W::load(z.add(j));
                let term = weight.div(W::load(delta.add(j)).sub(tau));
                value = weight.fma(term, value);
                slope = term.fma(term, slope);
                j += W::LANES;
            }
            if j < range.end {
                let count = range.end - j;
                let weight = W::load_part(z.add(j), count);
                // Lanes that are not there have weight zero and must not divide by zero.
                let mut spare = W::load_part(delta.add(j), count).sub(tau);
                let one = <T::R as treadle_core::Element>::ONE;
                let mut lanes = [one; 16];
                spare.store(lanes.as_mut_ptr());
                for lane in &mut lanes[count..] {
                    *lane = one;
                }
                spare = W::load(lanes.as_ptr());
                let term = weight.div(spare);
                value = weight.fma(term, value);
                slope = term.fma(term, slope);
            }
            out[2 * side] = value.sum();
            out[2 * side + 1] = slope.sum();
        }
        out
    }
}

kernel! {
    /// `delta_j -= tau`.
    ///
    /// # Safety
    /// `delta` holds `len` reals of type `T`, which is `f64`.
    unsafe fn shift<T, W>(delta: *mut T, len: usize, tau: T) {
        let delta = delta.cast::<T::R>();
        let tau = W::splat(tau.re());
        let mut j = 0;
        while j < len {
            W::load_up_to(delta.add(j), len - j).sub(tau).store_up_to(delta.add(j), len - j);
            j += W::LANES;
        }
    }
}

/// A matrix `diag(d) + rho z z^T`: `d` ascending without equal entries, no zero in `z`, `rho` positive.
#[derive(Clone, Copy)]
pub(crate) struct Secular<'a> {
    pub(crate) d: &'a [f64],
    pub(crate) z: &'a [f64],
    pub(crate) rho: f64,
}

impl Secular<'_> {
    fn sums(&self, delta: &[f64], split: usize, tau: f64) -> Sums {
        // SAFETY: both arrays are that long.
        let [left, left_slope, right, right_slope] =
            unsafe { sums::<f64>(self.z.as_ptr(), delta.as_ptr(), delta.len(), split, tau) };
        Sums {
            left,
            left_slope,
            right,
            right_slope,
        }
    }

    fn origin_at(&self, delta: &mut [f64], origin: f64) {
        for (delta, d) in delta.iter_mut().zip(self.d) {
            *delta = d - origin;
        }
    }

    /// Eigenvalue `i`; `delta` becomes `d_j` minus it. `None` when the iteration does not settle, as with NaN.
    pub(crate) fn root(&self, i: usize, delta: &mut [f64]) -> Option<f64> {
        let (d, z) = (self.d, self.z);
        let count = d.len();
        let inverse = 1.0 / self.rho;
        if count == 1 {
            let step = self.rho * z[0] * z[0];
            delta[0] = -step;
            return Some(d[0] + step);
        }
        let last = i + 1 == count;
        // The two poles that the interpolation has.
        let (p, q) = if last { (i - 1, i) } else { (i, i + 1) };
        let split = p + 1;
        let gap = d[q] - d[p];
        let (zp, zq) = (z[p] * z[p], z[q] * z[q]);
        // The sign in the middle of the interval says which pole is nearer.
        let first = if last { q } else { p };
        self.origin_at(delta, d[first]);
        let width = if last {
            self.rho * z.iter().map(|x| x * x).sum::<f64>() * (1.0 + 1e-14)
        } else {
            gap
        };
        let middle = 0.5 * width;
        let at = self.sums(delta, split, middle);
        let value = inverse + at.left + at.right;
        let rest = value - zp / (delta[p] - middle) - zq / (delta[q] - middle);
        let origin = if last || value >= 0.0 { first } else { q };
        let (mut low, mut high) = match (last, value >= 0.0) {
            (_, true) => (0.0, middle),
            (true, false) => (middle, width),
            (false, false) => (-middle, 0.0),
        };
        if origin != first {
            self.origin_at(delta, d[origin]);
        }
        // With the other terms as they are in the middle, a quadratic equation is left.
        let (dp, dq) = (delta[p], delta[q]);
        let a = (dp + dq) * rest + zp + zq;
        let b = rest * dp * dq + zp * dq + zq * dp;
        let mut tau = quadratic(rest, a, b, last).unwrap_or(f64::NAN);
        if !(tau > low && tau < high) {
            tau = 0.5 * (low + high);
        }
        for step in 0..STEPS {
            let at = self.sums(delta, split, tau);
            let value = inverse + at.left + at.right;
            let slope = at.left_slope + at.right_slope;
            let rounding = 8.0 * (at.left.abs() + at.right.abs()) + inverse + tau.abs() * slope;
            if value.abs() <= f64::EPSILON * rounding {
                return Some(self.settle(delta, origin, tau));
            }
            if value < 0.0 {
                low = tau;
            } else if value > 0.0 {
                high = tau;
            } else {
                return None;
            }
            let (dp, dq) = (delta[p] - tau, delta[q] - tau);
            let c = value - dp * at.left_slope - dq * at.right_slope;
            let a = (dp + dq) * value - dp * dq * slope;
            let b = dp * dq * value;
            let mut eta = quadratic(c, a, b, last).unwrap_or(f64::NAN);
            // The function grows: a step to the wrong side is replaced by Newton's.
            if value * eta >= 0.0 || eta.is_nan() {
                eta = -value / slope;
            }
            let mut next = tau + eta;
            if !(next > low && next < high) || step > STEPS / 2 {
                // Halfway; by magnitude where the bracket spans many.
                let (least, most) = (low.abs().min(high.abs()), low.abs().max(high.abs()));
                next = if least > 0.0 && most > 16.0 * least {
                    (least * most).sqrt().copysign(low + high)
                } else {
                    0.5 * (low + high)
                };
            }
            if next == tau || !(next > low && next < high) {
                return Some(self.settle(delta, origin, tau));
            }
            tau = next;
        }
        None
    }

    fn settle(&self, delta: &mut [f64], origin: usize, tau: f64) -> f64 {
        // SAFETY: the slice is that long.
        unsafe { shift::<f64>(delta.as_mut_ptr(), delta.len(), tau) };
        self.d[origin] + tau
    }
}

/// The root of `c x^2 - a x + b` that an increasing function between two poles has, or the one right of both.
fn quadratic(c: f64, a: f64, b: f64, right_of_both: bool) -> Option<f64> {
    let root = (a * a - 4.0 * b * c).abs().sqrt();
    if right_of_both {
        if c <= 0.0 {
            return None;
        }
        return Some(if a >= 0.0 {
            (a + root) / (2.0 * c)
        } else {
            2.0 * b / (a - root)
        });
    }
    Some(if a > 0.0 {
        2.0 * b / (a + root)
    } else if c != 0.0 {
        (a - root) / (2.0 * c)
    } else {
        b / a
    })
}

kernel! {
    /// Multiplies `product_j` by `(d_j - x_i) / (d_j - d_i)` for the roots `x_i` of all columns, `i` other than `j`, and by `d_j - x_j`;
    /// for rows `first..last`.
    ///
    /// # Safety
    /// `deltas` has `count` columns of `count`, `d` and `product` hold `count` reals of type `T`, which is `f64`.
    unsafe fn interlace<T, W>(
        deltas: *const T,
        d: *const T,
        product: *mut T,
        count: usize,
        first: usize,
        last: usize,
    ) {
        let (deltas, d, product) = (deltas.cast::<T::R>(), d.cast::<T::R>(), product.cast::<T::R>());
        let one = <T::R as treadle_core::Element>::ONE;
        let mut j = first;
        while j < last {
            let lanes = W::LANES.min(last - j);
            let own = W::load_up_to(d.add(j), lanes);
            let mut all = W::splat(one);
            for i in 0..count {
                let delta = W::load_up_to(deltas.add(i * count + j), lanes);
                let mut difference = own.sub(W::splat(*d.add(i)));
                if i >= j && i < j + W::LANES {
                    let mut spare = [one; 16];
                    difference.store(spare.as_mut_ptr());
                    spare[i - j] = one;
                    difference = W::load(spare.as_ptr());
                }
                all = all.mul(delta.div(difference));
            }
            all.store_up_to(product.add(j), lanes);
            j += W::LANES;
        }
    }
}

/// `z` of the matrix of which the computed roots are exact, up to the factor `1 / rho`, for rows `first..last`.
///
/// # Safety
/// `deltas` has `d.len()` columns of as many; `z` and `out` hold as many; nothing else touches the rows of `out`.
pub(crate) unsafe fn consistent(
    deltas: *const f64,
    d: &[f64],
    z: &[f64],
    first: usize,
    last: usize,
    out: *mut f64,
) {
    // SAFETY: passed on.
    unsafe {
        interlace::<f64>(deltas, d.as_ptr(), out, d.len(), first, last);
        for (j, &sign) in z.iter().enumerate().take(last).skip(first) {
            let x = (*out.add(j)).abs().sqrt();
            *out.add(j) = x.copysign(sign);
        }
    }
}

kernel! {
    /// `delta_j = z_j / delta_j`; returns the sum of the squares.
    ///
    /// # Safety
    /// Both hold `len` reals of type `T`, which is `f64`.
    pub(crate) unsafe fn quotients<T, W>(z: *const T, delta: *mut T, len: usize) -> T::R {
        let (z, delta) = (z.cast::<T::R>(), delta.cast::<T::R>());
        let mut total = W::zero();
        let mut j = 0;
        while j + W::LANES <= len {
            let x = W::load(z.add(j)).div(W::load(delta.add(j)));
            x.store(delta.add(j));
            total = x.fma(x, total);
            j += W::LANES;
        }
        let mut sum = total.sum();
        while j < len {
            let x = *z.add(j) / *delta.add(j);
            *delta.add(j) = x;
            sum += x * x;
            j += 1;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roots and differences of one matrix, checked by the identities that they fulfil.
    fn check(name: &str, d: &[f64], z: &[f64], rho: f64) {
        let count = d.len();
        let problem = Secular { d, z, rho };
        let mut deltas = vec![f64::NAN; count * count];
        let mut roots = Vec::new();
        for i in 0..count {
            let delta = &mut deltas[i * count..(i + 1) * count];
            let root = problem
                .root(i, delta)
                .unwrap_or_else(|| panic!("{name}: root {i}"));
            assert!(delta[i] < 0.0, "{name}: root {i} is not right of its pole");
            assert!(
                i + 1 == count || delta[i + 1] > 0.0,
                "{name}: root {i} is not left of the next"
            );
            roots.push(root);
        }
        let norm: f64 = z.iter().map(|x| x * x).sum();
        let trace: f64 = d.iter().sum::<f64>() + rho * norm;
        let scale = d.iter().fold(rho * norm, |m, x| m.max(x.abs()));
        let bound = 4.0 * f64::EPSILON * count as f64 * scale;
        assert!(
            (roots.iter().sum::<f64>() - trace).abs() <= bound,
            "{name}: trace"
        );
        // The z that belongs to the roots is the one that was given, to rounding, and its vectors are orthogonal.
        let mut again = vec![f64::NAN; count];
        // SAFETY: count columns of count.
        unsafe { consistent(deltas.as_ptr(), d, z, 0, count, again.as_mut_ptr()) };
        let total: f64 = again.iter().map(|x| x * x).sum();
        for j in 0..count {
            let x = again[j] / rho.sqrt();
            let off = (x - z[j]).abs() / norm.sqrt();
            assert!(
                off <= 100.0 * f64::EPSILON * count as f64,
                "{name}: z {j}: {x:e} for {:e}",
                z[j]
            );
        }
        assert!(total.is_finite());
        for delta in deltas.chunks_mut(count) {
            // SAFETY: as long as they are.
            let squares = unsafe { quotients::<f64>(again.as_ptr(), delta.as_mut_ptr(), count) };
            let norm = squares.sqrt();
            delta.iter_mut().for_each(|x| *x /= norm);
        }
        for i in 0..count {
            for j in 0..i {
                let dot: f64 = (0..count)
                    .map(|k| deltas[i * count + k] * deltas[j * count + k])
                    .sum();
                assert!(
                    dot.abs() <= 4.0 * f64::EPSILON * count as f64,
                    "{name}: vectors {i} and {j}: {dot:e}"
                );
            }
        }
    }

    #[test]
    fn poles_near_far_and_graded() {
        for count in [1, 2, 3, 7, 8, 9, 17, 40] {
            let even: Vec<f64> = (0..count).map(|i| i as f64).collect();
            let ones = vec![1.0 / (count as f64).sqrt(); count];
            check("even", &even, &ones, 1.0);
            check("weak", &even, &ones, 1e-12);
            check("strong", &even, &ones, 1e12);
            let close: Vec<f64> = (0..count).map(|i| 1.0 + 1e-13 * i as f64).collect();
            check("close", &close, &ones, 0.5);
            let graded: Vec<f64> = (0..count)
                .map(|i| 10f64.powf(-16.0 + 16.0 * i as f64 / count as f64))
                .collect();
            check("graded", &graded, &ones, 0.3);
            let tiny: Vec<f64> = (0..count)
                .map(|i| 10f64.powf(-14.0 * (i % 3) as f64 / 2.0))
                .collect();
            check("weights of every size", &even, &tiny, 1.0);
        }
    }
}
