//! Implicit QR iteration on a real upper bidiagonal matrix.
//!
//! Demmel and Kahan, Accurate singular values of bidiagonal matrices (1990): a sweep without shift where the smallest value
//! would be lost to rounding, with the usual shift elsewhere; entries are called zero by criteria that keep every singular
//! value to a few units of its own last place. A block is swept towards its smaller end: upwards is downwards on the block
//! turned around, with left and right exchanged.

use crate::failure::Failure;
use crate::field::RealNumber;
use treadle_contract::{Isa, rotate_columns};
use treadle_core::Element;

/// Sweeps from one question whether to stop to the next.
const ASK: usize = 32;
/// Steps of all sweeps together, in units of the square of the order. Two are usual.
const STEPS: usize = 12;

/// Vectors that follow the rotations: columns of `left` and `right`, column-major.
#[derive(Clone, Copy)]
pub(crate) struct Vectors<R> {
    pub(crate) left: *mut R,
    pub(crate) left_rows: usize,
    pub(crate) left_leading: usize,
    pub(crate) right: *mut R,
    pub(crate) right_rows: usize,
    pub(crate) right_leading: usize,
}

impl<R: RealNumber> Vectors<R> {
    /// Columns `p` and `q` of one side become `c p + s q` and `c q - s p`.
    ///
    /// # Safety
    /// Both columns exist.
    #[inline(always)]
    pub(crate) unsafe fn turn(&self, isa: Isa, right: bool, p: usize, q: usize, c: R, s: R) {
        let (base, rows, leading) = if right {
            (self.right, self.right_rows, self.right_leading)
        } else {
            (self.left, self.left_rows, self.left_leading)
        };
        // SAFETY: passed on.
        unsafe { rotate_columns(isa, rows, base.add(p * leading), base.add(q * leading), c, s) }
    }
}

/// Cosine, sine and length with `c f + s g = r` and `c g - s f = 0`.
#[inline(always)]
pub(crate) fn givens<R: RealNumber>(f: R, g: R) -> (R, R, R) {
    let (zero, one) = (<R as Element>::ZERO, <R as Element>::ONE);
    if g == zero {
        return (one, zero, f);
    }
    if f == zero {
        return (zero, one, g);
    }
    let squares = f * f + g * g;
    let safe = R::TINY / (R::of(R::EPSILON) * R::of(R::EPSILON));
    if squares >= safe && treadle_core::Float::is_finite(squares) {
        let r = if f < zero { -squares.root() } else { squares.root() };
        return (f / r, g / r, r);
    }
    givens_far(f, g)
}

/// `givens` where the squares leave the range.
#[cold]
fn givens_far<R: RealNumber>(f: R, g: R) -> (R, R, R) {
    let largest = if f.magnitude() > g.magnitude() { f } else { g }.magnitude();
    let (x, y) = (f / largest, g / largest);
    let root = (x * x + y * y).root();
    let r = if f < <R as Element>::ZERO { -root } else { root };
    (x / r, y / r, r * largest)
}

/// The smaller singular value of `[[f, g], [0, h]]`.
fn smaller_of_two<R: RealNumber>(f: R, g: R, h: R) -> R {
    let (zero, one) = (<R as Element>::ZERO, <R as Element>::ONE);
    let (fa, ga, ha) = (f.magnitude(), g.magnitude(), h.magnitude());
    let (low, high) = if fa < ha { (fa, ha) } else { (ha, fa) };
    if low == zero {
        return zero;
    }
    let ratio = one + low / high;
    let gap = (high - low) / high;
    if ga < high {
        let off = (ga / high) * (ga / high);
        let c = R::of(2.0) / ((ratio * ratio + off).root() + (gap * gap + off).root());
        return low * c;
    }
    let small = high / ga;
    if small == zero {
        return (low * high) / ga;
    }
    let (p, q) = (ratio * small, gap * small);
    let c = one / ((one + p * p).root() + (one + q * q).root());
    let value = low * c * small;
    value + value
}

/// The entries of one block, seen from the end where its sweeps start.
struct Seen {
    low: usize,
    high: usize,
    upwards: bool,
}

impl Seen {
    /// Row or column `i` of the block, in the whole.
    #[inline(always)]
    fn diagonal(&self, i: usize) -> usize {
        if self.upwards { self.high - i } else { self.low + i }
    }

    /// What joins `i` and `i + 1`.
    #[inline(always)]
    fn beside(&self, i: usize) -> usize {
        if self.upwards {
            self.high - i - 1
        } else {
            self.low + i
        }
    }
}

/// Singular values of the bidiagonal matrix with the diagonal `d` and `e` right of it: on return `d` holds them, unordered
/// and not negative, and the columns of `vectors` have followed.
///
/// # Safety
/// The columns `0..d.len()` of `vectors` exist.
pub(crate) unsafe fn iterate<R: RealNumber>(
    d: &mut [R],
    e: &mut [R],
    vectors: Option<Vectors<R>>,
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let isa = Isa::detect();
    let zero = <R as Element>::ZERO;
    let n = d.len();
    let turn = |right: bool, p: usize, q: usize, c: R, s: R| {
        if let Some(vectors) = &vectors {
            // SAFETY: p and q are below n.
            unsafe { vectors.turn(isa, right, p, q, c, s) };
        }
    };
    let epsilon = R::of(R::EPSILON);
    let tolerance = R::of((R::EPSILON.powf(-0.125)).clamp(10.0, 100.0)) * epsilon;
    let threshold = absolute_threshold(d, e, tolerance);
    let mut budget = STEPS * n * n + 60 * n;
    let mut sweeps = 0usize;
    let mut high = n.saturating_sub(1);
    // The block that the last sweep ran on, and its direction: kept while the block shrinks only.
    let mut last = (usize::MAX, usize::MAX);
    let mut upwards = false;
    while high > 0 {
        // The block that ends at `high`.
        let mut low = high;
        let mut largest = d[high].magnitude();
        if d[high].magnitude() <= threshold {
            d[high] = zero;
        }
        let mut split = false;
        while low > 0 {
            let beside = e[low - 1].magnitude();
            if beside <= threshold {
                e[low - 1] = zero;
                split = true;
                break;
            }
            low -= 1;
            if d[low].magnitude() <= threshold {
                d[low] = zero;
            }
            let here = d[low].magnitude();
            largest = if here > largest { here } else { largest };
            largest = if beside > largest { beside } else { largest };
        }
        if split && low == high {
            high -= 1;
            continue;
        }
        if last.0 > high || last.1 < low {
            upwards = d[low].magnitude() < d[high].magnitude();
        }
        last = (low, high);
        let seen = Seen { low, high, upwards };
        let end = high - low;
        // What is zero beside its neighbours.
        let (d_end, e_end) = (d[seen.diagonal(end)], e[seen.beside(end - 1)]);
        if e_end.magnitude() <= tolerance * d_end.magnitude() {
            e[seen.beside(end - 1)] = zero;
            continue;
        }
        let mut smallest = d[seen.diagonal(0)].magnitude();
        let mut bound = smallest;
        let mut found = false;
        for i in 0..end {
            let beside = e[seen.beside(i)].magnitude();
            if beside <= tolerance * bound {
                e[seen.beside(i)] = zero;
                found = true;
                break;
            }
            bound = d[seen.diagonal(i + 1)].magnitude() * (bound / (bound + beside));
            smallest = if bound < smallest { bound } else { smallest };
        }
        if found {
            continue;
        }
        if budget < end {
            return Err(Failure::NotConverged);
        }
        budget -= end;
        sweeps += 1;
        if sweeps.is_multiple_of(ASK) && interrupted() {
            return Err(Failure::Interrupted);
        }
        let start = d[seen.diagonal(0)];
        let relative = R::of(n as f64) * tolerance * (smallest / largest);
        let limit = R::of(R::EPSILON.max(0.01 * tolerance.to_f64()));
        let mut shift = zero;
        if relative > limit {
            shift = smaller_of_two(
                d[seen.diagonal(end - 1)],
                e[seen.beside(end - 1)],
                d[seen.diagonal(end)],
            );
            let ratio = shift / start.magnitude();
            if ratio * ratio < epsilon {
                shift = zero;
            }
        }
        if shift == zero {
            sweep_without_shift(d, e, &seen, turn);
        } else {
            sweep(d, e, &seen, shift, turn);
        }
    }
    for (j, value) in d.iter_mut().enumerate() {
        if *value < zero {
            *value = -*value;
            if let Some(vectors) = &vectors {
                for row in 0..vectors.right_rows {
                    // SAFETY: column j exists.
                    unsafe {
                        let at = vectors.right.add(row + j * vectors.right_leading);
                        *at = -*at;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Entries up to this are zero for every singular value: a multiple of a lower bound of the smallest one.
fn absolute_threshold<R: RealNumber>(d: &[R], e: &[R], tolerance: R) -> R {
    let zero = <R as Element>::ZERO;
    let n = d.len();
    let mut bound = d.first().map_or(zero, |x| x.magnitude());
    let mut smallest = bound;
    for (next, beside) in d.iter().skip(1).zip(e) {
        if bound == zero {
            smallest = zero;
            break;
        }
        bound = next.magnitude() * (bound / (bound + beside.magnitude()));
        smallest = if bound < smallest { bound } else { smallest };
    }
    let relative = tolerance * (smallest / R::of((n.max(1) as f64).sqrt()));
    let floor = R::TINY * R::of((STEPS * n * n) as f64);
    if relative > floor { relative } else { floor }
}

/// One sweep with the shift zero: no subtraction, hence no loss in the small values.
fn sweep_without_shift<R: RealNumber>(
    d: &mut [R],
    e: &mut [R],
    seen: &Seen,
    mut turn: impl FnMut(bool, usize, usize, R, R),
) {
    let end = seen.high - seen.low;
    let first_side = !seen.upwards;
    let (mut c, mut old_c) = (<R as Element>::ONE, <R as Element>::ONE);
    let mut old_s = <R as Element>::ZERO;
    for i in 0..end {
        let (p, q) = (seen.diagonal(i), seen.diagonal(i + 1));
        let (cosine, sine, r) = givens(d[p] * c, e[seen.beside(i)]);
        c = cosine;
        if i > 0 {
            e[seen.beside(i - 1)] = old_s * r;
        }
        let (cosine, other_sine, value) = givens(old_c * r, d[q] * sine);
        (old_c, old_s) = (cosine, other_sine);
        d[p] = value;
        turn(first_side, p, q, c, sine);
        turn(!first_side, p, q, old_c, old_s);
    }
    let last = seen.diagonal(end);
    let h = d[last] * c;
    d[last] = h * old_c;
    e[seen.beside(end - 1)] = h * old_s;
}

/// One sweep with a shift.
fn sweep<R: RealNumber>(
    d: &mut [R],
    e: &mut [R],
    seen: &Seen,
    shift: R,
    mut turn: impl FnMut(bool, usize, usize, R, R),
) {
    let (zero, one) = (<R as Element>::ZERO, <R as Element>::ONE);
    let end = seen.high - seen.low;
    let first_side = !seen.upwards;
    let start = d[seen.diagonal(0)];
    let sign = if start < zero { -one } else { one };
    let mut f = (start.magnitude() - shift) * (sign + shift / start);
    let mut g = e[seen.beside(0)];
    for i in 0..end {
        let (p, q) = (seen.diagonal(i), seen.diagonal(i + 1));
        let here = seen.beside(i);
        let (c, s, r) = givens(f, g);
        if i > 0 {
            e[seen.beside(i - 1)] = r;
        }
        f = c * d[p] + s * e[here];
        let beside = c * e[here] - s * d[p];
        g = s * d[q];
        let next = c * d[q];
        turn(first_side, p, q, c, s);
        let (c, s, r) = givens(f, g);
        d[p] = r;
        f = c * beside + s * next;
        d[q] = c * next - s * beside;
        if i + 1 < end {
            let at = seen.beside(i + 1);
            g = s * e[at];
            e[at] = c * e[at];
        }
        turn(!first_side, p, q, c, s);
    }
    e[seen.beside(end - 1)] = f;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_wants_to_stop_is_heard() {
        let n = 300;
        let (mut d, mut e) = (vec![1.0f64; n], vec![0.7f64; n - 1]);
        let mut asked = 0;
        let mut stop = || {
            asked += 1;
            asked == 2
        };
        // SAFETY: no vectors follow.
        let done = unsafe { iterate(&mut d, &mut e, None, &mut stop) };
        assert_eq!(done, Err(Failure::Interrupted));
    }
}
