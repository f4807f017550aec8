//! The secular equation of divide and conquer: singular values and vectors of a broken arrow.
//!
//! The matrix has `z` for its first row and the ascending `d` on the diagonal below, `d[0] = 0`. Its singular values are
//! the roots of `1 + sum z[k]^2 / (d[k]^2 - s^2)`, one between every two neighbours of `d` and one above the last. A root is
//! kept as its distance `tau = s^2 - d[origin]^2` from the nearer pole, so that all `d[k]^2 - s^2` are known to a few units of
//! their last place; the vectors are then those of a matrix with a slightly different `z`, recomputed from the roots
//! (Gu and Eisenstat 1995; Loewner's formula), and orthogonal whatever the roots are. Steps interpolate both halves of the sum
//! by one pole each (Bunch, Nielsen and Sorensen 1978), inside a bracket that only shrinks.

use crate::field::RealNumber;
use crate::svd::kernels::fma;
use treadle_contract::Isa;
use treadle_core::Element;

/// Steps for one root; four are usual.
const STEPS: usize = 80;

/// Sums over the poles that run side by side.
const LANES: usize = 16;

/// Both halves of the sum and their derivatives.
struct Halves<R> {
    below: R,
    below_slope: R,
    above: R,
    above_slope: R,
}

/// `sum z^2 / (delta - tau)` and its derivative over a range of poles.
#[inline(always)]
fn half<R: RealNumber, const FUSED: bool>(z: &[R], delta: &[R], tau: R) -> (R, R) {
    let zero = <R as Element>::ZERO;
    let (mut sums, mut slopes) = ([zero; LANES], [zero; LANES]);
    let whole = z.len() - z.len() % LANES;
    let (z_whole, z_rest) = z.split_at(whole);
    let (delta_whole, delta_rest) = delta.split_at(whole);
    for (z, delta) in z_whole.chunks_exact(LANES).zip(delta_whole.chunks_exact(LANES)) {
        let terms = z.iter().zip(delta);
        for ((&z, &delta), (sum, slope)) in terms.zip(sums.iter_mut().zip(&mut slopes)) {
            let ratio = z / (delta - tau);
            *sum = fma::<R, FUSED>(z, ratio, *sum);
            *slope = fma::<R, FUSED>(ratio, ratio, *slope);
        }
    }
    for (l, (&z, &delta)) in z_rest.iter().zip(delta_rest).enumerate() {
        let ratio = z / (delta - tau);
        sums[l] = fma::<R, FUSED>(z, ratio, sums[l]);
        slopes[l] = fma::<R, FUSED>(ratio, ratio, slopes[l]);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            sums[l] += sums[l + width];
            slopes[l] += slopes[l + width];
        }
        width /= 2;
    }
    (sums[0], slopes[0])
}

#[inline(always)]
fn halves<R: RealNumber, const FUSED: bool>(z: &[R], delta: &[R], split: usize, tau: R) -> Halves<R> {
    let (below, below_slope) = half::<R, FUSED>(&z[..split], &delta[..split], tau);
    let (above, above_slope) = half::<R, FUSED>(&z[split..], &delta[split..], tau);
    Halves {
        below,
        below_slope,
        above,
        above_slope,
    }
}

/// The root of `c + p / (x - t) + q / (y - t)` between the poles, or above both (`last`), by the formula without
/// cancellation. `f` is the value at zero.
#[inline(always)]
fn two_poles<R: RealNumber>(c: R, x: R, p: R, y: R, q: R, f: R, last: bool) -> R {
    let zero = <R as Element>::ZERO;
    let two = R::of(2.0);
    let a = c * (x + y) + p + q;
    let b = x * (y * f);
    let square = a * a - R::of(4.0) * b * c;
    let root = if square > zero { square.root() } else { zero };
    match (last, a <= zero) {
        (false, true) => (a - root) / (two * c),
        (false, false) => two * b / (a + root),
        (true, true) => two * b / (a - root),
        (true, false) => (a + root) / (two * c),
    }
}

/// Root `i`: the singular value, and `d[k]^2 - s^2` for every pole in `gaps`.
#[inline(always)]
fn root_body<R: RealNumber, const FUSED: bool>(d: &[R], z: &[R], i: usize, gaps: &mut [R]) -> R {
    let zero = <R as Element>::ZERO;
    let (half_of, four) = (R::of(0.5), R::of(4.0));
    let k = d.len();
    let last = i + 1 == k;
    let total = z.iter().fold(zero, |sum, &x| sum + x * x);
    let mut origin = i;
    let shifted = |origin: usize, gaps: &mut [R]| {
        for (gap, &pole) in gaps.iter_mut().zip(d) {
            *gap = (pole - d[origin]) * (pole + d[origin]);
        }
    };
    shifted(origin, gaps);
    // Poles on either side of the root, and where the sum is split.
    let (near, far) = if last { (i - 1, i) } else { (i, i + 1) };
    let split = near + 1;
    let width = if last { total } else { gaps[i + 1] };
    let middle = width * half_of;
    let at = halves::<R, FUSED>(z, gaps, split, middle);
    let value = <R as Element>::ONE + at.below + at.above;
    let (mut low, mut high) = if value > zero {
        (zero, middle)
    } else {
        (middle, width)
    };
    let rest = value - z[near] * z[near] / (gaps[near] - middle) - z[far] * z[far] / (gaps[far] - middle);
    if !last && value <= zero {
        origin = i + 1;
        shifted(origin, gaps);
        (low, high) = (-middle, zero);
    }
    let mut tau = {
        // The two poles next to the root exactly, the rest as it is in the middle.
        let (x, y) = (gaps[near], gaps[far]);
        let (p, q) = (z[near] * z[near], z[far] * z[far]);
        let a = rest * (x + y) + p + q;
        let b = rest * x * y + p * y + q * x;
        let square = a * a - four * b * rest;
        let root = if square > zero { square.root() } else { zero };
        match (last, a <= zero) {
            (false, true) => (a - root) / (R::of(2.0) * rest),
            (false, false) => R::of(2.0) * b / (a + root),
            (true, true) => R::of(2.0) * b / (a - root),
            (true, false) => (a + root) / (R::of(2.0) * rest),
        }
    };
    let epsilon = R::of(R::EPSILON);
    for _ in 0..STEPS {
        if !(tau > low && tau < high) {
            tau = between(low, high);
            if !(tau > low && tau < high) {
                break;
            }
        }
        let at = halves::<R, FUSED>(z, gaps, split, tau);
        let value = <R as Element>::ONE + at.below + at.above;
        let slope = at.below_slope + at.above_slope;
        let rounding = four * (<R as Element>::ONE + at.below.magnitude() + at.above.magnitude())
            + tau.magnitude() * slope;
        if value.magnitude() <= epsilon * rounding {
            break;
        }
        if value < zero {
            low = tau;
        } else {
            high = tau;
        }
        let (x, y) = (gaps[near] - tau, gaps[far] - tau);
        // In this order nothing leaves the range: a gap can be as small as the cube of the rounding unit.
        let (p, q) = (x * (x * at.below_slope), y * (y * at.above_slope));
        let c = value - x * at.below_slope - y * at.above_slope;
        let step = two_poles(c, x, p, y, q, value, last);
        let next = tau + step;
        if next == tau {
            break;
        }
        tau = next;
    }
    for gap in gaps.iter_mut() {
        *gap -= tau;
    }
    let pole = d[origin];
    (pole * pole + tau).root()
}

/// A point inside a bracket whose ends have one sign: geometric where they are far apart.
fn between<R: RealNumber>(low: R, high: R) -> R {
    let zero = <R as Element>::ZERO;
    let half = R::of(0.5);
    let (small, large) = if low.magnitude() < high.magnitude() {
        (low, high)
    } else {
        (high, low)
    };
    if small == zero {
        return large * R::of(1.0 / 1024.0);
    }
    if large / small > R::of(16.0) {
        let mean = small.magnitude().root() * large.magnitude().root();
        return if large < zero { -mean } else { mean };
    }
    low * half + high * half
}

macro_rules! wider {
    ($name:ident, $features:literal) => {
        /// # Safety
        /// The machine has the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<R: RealNumber>(d: &[R], z: &[R], i: usize, gaps: &mut [R]) -> R {
            root_body::<R, true>(d, z, i, gaps)
        }
    };
}
wider!(root_avx512, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
wider!(root_avx2, "avx2,fma");

/// Root `i` of the secular equation: the singular value, and `d[k]^2 - s^2` for every pole in `gaps`.
///
/// `d` has at least two poles, not negative and each larger than the last; no `z` is zero.
pub(crate) fn root<R: RealNumber>(isa: Isa, d: &[R], z: &[R], i: usize, gaps: &mut [R]) -> R {
    match isa {
        // SAFETY: the machine has what the instruction set says.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { root_avx512(d, z, i, gaps) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { root_avx2(d, z, i, gaps) },
        _ => root_body::<R, false>(d, z, i, gaps),
    }
}

/// Root `i` where the first weight is zero: zero itself, whose left vector the gaps of this root give too, and the roots of
/// the other poles.
pub(crate) fn root_of_singular<R: RealNumber>(
    isa: Isa,
    poles: &[R],
    weights: &[R],
    i: usize,
    gaps: &mut [R],
) -> R {
    let zero = <R as Element>::ZERO;
    // Of no meaning: it divides a zero.
    gaps[0] = <R as Element>::ONE;
    let (poles, weights, gaps) = (&poles[1..], &weights[1..], &mut gaps[1..]);
    if i == 0 {
        for (gap, &pole) in gaps.iter_mut().zip(poles) {
            *gap = pole * pole;
        }
        return zero;
    }
    if let ([pole], [weight]) = (poles, weights) {
        gaps[0] = -(*weight * *weight);
        return (*pole * *pole - gaps[0]).root();
    }
    root(isa, poles, weights, i - 1, gaps)
}

/// The `z` in `rows` whose broken arrow has exactly these roots: `gaps` holds a column of `k` distances for each root.
pub(crate) fn loewner<R: RealNumber>(
    d: &[R],
    gaps: &[R],
    rows: std::ops::Range<usize>,
    z: &[R],
    out: &mut [R],
) {
    let zero = <R as Element>::ZERO;
    let k = d.len();
    let last = &gaps[(k - 1) * k..];
    for (out, row) in out.iter_mut().zip(rows.clone()) {
        *out = last[row];
    }
    for i in 0..k - 1 {
        let column = &gaps[i * k..(i + 1) * k];
        for (out, row) in out.iter_mut().zip(rows.clone()) {
            // A root and the pole beside it on the side of this row.
            let pole = if row > i { d[i] } else { d[i + 1] };
            *out *= column[row] / ((d[row] - pole) * (d[row] + pole));
        }
    }
    for (out, row) in out.iter_mut().zip(rows) {
        let value = out.magnitude().root();
        *out = if z[row] < zero { -value } else { value };
    }
}
