//! The QR iteration on a Hessenberg matrix, one bulge at a time: double shifts of real matrices, single shifts of complex ones.
//!
//! Francis (Computer Journal 4, 1961); deflation by the criterion of Ahues and Tisseur (LAPACK Working Note 122, 1997); the
//! standard form of a block of two as described by Bai and Demmel (Linear Algebra Appl. 186, 1993). Entries are at most
//! about 1 on entry.

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::reflection::{
    from_left_2, from_left_3, from_right_2, from_right_3, reflection, three_columns, two_columns,
};
use std::ops::Range;
use treadle_core::Element;

/// Iterations for an eigenvalue, on average, before the matrix is given up.
const ITERATIONS: usize = 30;
/// Iterations without deflation after which shifts are made up.
const EXCEPTIONAL: usize = 10;

/// What the iteration works on.
pub(crate) struct Iteration<'a, T: Field> {
    /// The Hessenberg matrix, column-major; becomes (quasi-)triangular.
    pub(crate) h: &'a mut [T],
    pub(crate) n: usize,
    /// Whether the whole of `h` is wanted, or the eigenvalues alone.
    pub(crate) whole: bool,
    /// Rows of `h` whose columns are updated when the whole is wanted, and columns whose rows are.
    pub(crate) z: Option<&'a mut [T]>,
}

/// One norm of the parts.
fn size<T: Field>(x: T) -> T::R {
    x.re().magnitude() + x.im().magnitude()
}

/// A block of two in standard form: its entries, and the rotation `[c s; -s c]` that brought it there.
pub(crate) struct Standard<R> {
    pub(crate) a: R,
    pub(crate) b: R,
    pub(crate) c: R,
    pub(crate) d: R,
    pub(crate) cosine: R,
    pub(crate) sine: R,
}

/// Rotates a real block so that it is triangular, or has equal diagonal entries and a pair of complex eigenvalues.
pub(crate) fn standardise<R: RealNumber>(a: R, b: R, c: R, d: R) -> Standard<R> {
    let (zero, one, half) = (<R as Element>::ZERO, <R as Element>::ONE, R::of(0.5));
    let sign = |x: R| if x < zero { -one } else { one };
    let as_is = Standard {
        a,
        b,
        c,
        d,
        cosine: one,
        sine: zero,
    };
    if c == zero {
        return as_is;
    }
    if b == zero {
        return Standard {
            a: d,
            b: -c,
            c: zero,
            d: a,
            cosine: zero,
            sine: one,
        };
    }
    if a == d && sign(b) != sign(c) {
        return as_is;
    }
    let p = half * (a - d);
    let (larger, smaller) = if b.magnitude() > c.magnitude() {
        (b.magnitude(), c.magnitude())
    } else {
        (c.magnitude(), b.magnitude())
    };
    let smaller = smaller * sign(b) * sign(c);
    let scale = if p.magnitude() > larger {
        p.magnitude()
    } else {
        larger
    };
    let discriminant = p / scale * p + larger / scale * smaller;
    // Real eigenvalues that are well apart.
    if discriminant >= R::of(4.0 * R::EPSILON) * scale {
        let root = scale.root() * discriminant.root();
        let z = p + if p < zero { -root } else { root };
        let length = Field::modulus(c).max_with(z.magnitude());
        let tau = length * ((c / length) * (c / length) + (z / length) * (z / length)).root();
        return Standard {
            a: d + z,
            b: b - c,
            c: zero,
            d: d - larger / z * smaller,
            cosine: z / tau,
            sine: c / tau,
        };
    }
    // Complex, or nearly equal: equal diagonal entries first.
    let sigma = b + c;
    let difference = a - d;
    let length = sigma.magnitude().max_with(difference.magnitude());
    if length == zero {
        // b = -c and a = d up to underflow: it is standard already.
        return as_is;
    }
    let tau =
        length * ((sigma / length) * (sigma / length) + (difference / length) * (difference / length)).root();
    let cosine = (half * (one + sigma.magnitude() / tau)).root();
    let sine = -(p / (tau * cosine)) * sign(sigma);
    let (aa, bb) = (a * cosine + b * sine, b * cosine - a * sine);
    let (cc, dd) = (c * cosine + d * sine, d * cosine - c * sine);
    let (a, b) = (aa * cosine + cc * sine, bb * cosine + dd * sine);
    let (c, d) = (cc * cosine - aa * sine, dd * cosine - bb * sine);
    let mean = half * (a + d);
    let equal = Standard {
        a: mean,
        b,
        c,
        d: mean,
        cosine,
        sine,
    };
    if c == zero {
        return Standard { a, d, ..equal };
    }
    if b == zero {
        return Standard {
            b: -c,
            c: zero,
            cosine: -sine,
            sine: cosine,
            ..equal
        };
    }
    if sign(b) != sign(c) {
        return equal;
    }
    // Real eigenvalues after all.
    let (root_b, root_c) = (b.magnitude().root(), c.magnitude().root());
    let p = sign(c) * root_b * root_c;
    let tau = one / (b + c).magnitude().root();
    let (cosine_2, sine_2) = (root_b * tau, root_c * tau);
    Standard {
        a: mean + p,
        b: b - c,
        c: zero,
        d: mean - p,
        cosine: cosine * cosine_2 - sine * sine_2,
        sine: cosine * sine_2 + sine * cosine_2,
    }
}

/// The larger of two.
trait Larger {
    fn max_with(self, other: Self) -> Self;
}

impl<R: RealNumber> Larger for R {
    fn max_with(self, other: R) -> R {
        if other > self { other } else { self }
    }
}

/// The eigenvalues of a real block of two, as pairs of parts.
pub(crate) fn pair_of<R: RealNumber>(block: &Standard<R>) -> [(R, R); 2] {
    let zero = <R as Element>::ZERO;
    if block.c == zero {
        return [(block.a, zero), (block.d, zero)];
    }
    let im = block.b.magnitude().root() * block.c.magnitude().root();
    [(block.a, im), (block.d, -im)]
}

impl<T: Field> Iteration<'_, T> {
    fn at(&self, row: usize, col: usize) -> T {
        self.h[row + col * self.n]
    }

    /// Sets subdiagonal entries of `low..=top` to zero where they may be, from the bottom up; returns the start of the
    /// last block that does not split.
    pub(crate) fn split(&mut self, low: usize, top: usize) -> usize {
        let n = self.n;
        let zero = <T::R as Element>::ZERO;
        let eps = T::R::of(T::EPSILON);
        let small = T::R::TINY / eps * T::R::of(n as f64);
        let mut start = top;
        while start > low {
            let below = size(self.at(start, start - 1));
            if below <= small {
                break;
            }
            let mut around = size(self.at(start - 1, start - 1)) + size(self.at(start, start));
            if around == zero {
                if start >= low + 2 {
                    around += size(self.at(start - 1, start - 2));
                }
                if start < top {
                    around += size(self.at(start + 1, start));
                }
            }
            if below <= eps * around {
                let above = size(self.at(start - 1, start));
                let (large, little) = if below > above {
                    (below, above)
                } else {
                    (above, below)
                };
                let last = size(self.at(start, start));
                let gap = size(self.at(start - 1, start - 1) - self.at(start, start));
                let (most, least) = if last > gap { (last, gap) } else { (gap, last) };
                let sum = most + large;
                if little * (large / sum) <= small.max_with(eps * (least * (most / sum))) {
                    break;
                }
            }
            start -= 1;
        }
        if start > low {
            self.h[start + (start - 1) * n] = T::ZERO;
        }
        start
    }

    /// Columns from the left, rows to the right, that an update reaches.
    fn reach(&self, start: usize, top: usize) -> (usize, usize) {
        if self.whole { (0, self.n) } else { (start, top + 1) }
    }
}

impl<R: RealNumber> Iteration<'_, R> {
    /// Real matrices: `h` becomes quasi-triangular with blocks of two in standard form.
    pub(crate) fn run_real(
        &mut self,
        active: Range<usize>,
        re: &mut [R],
        im: &mut [R],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let n = self.n;
        let zero = <R as Element>::ZERO;
        let low = active.start;
        let mut end = active.end;
        let mut left = ITERATIONS * active.len().max(10);
        let mut stalled = 0;
        while end > low {
            let top = end - 1;
            let start = self.split(low, top);
            if start == top {
                (re[top], im[top]) = (self.at(top, top), zero);
                end -= 1;
                stalled = 0;
                continue;
            }
            if start + 1 == top {
                self.finish_pair(start, re, im);
                end -= 2;
                stalled = 0;
                continue;
            }
            if left == 0 {
                return Err(Failure::NotConverged);
            }
            if n >= 64 && interrupted() {
                return Err(Failure::Interrupted);
            }
            left -= 1;
            stalled += 1;
            let (mut a, mut b, mut c, mut d) = (
                self.at(top - 1, top - 1),
                self.at(top - 1, top),
                self.at(top, top - 1),
                self.at(top, top),
            );
            if stalled % EXCEPTIONAL == 0 {
                // Shifts of the size of what does not vanish, at one end or the other.
                let at_end = stalled % (2 * EXCEPTIONAL) != 0;
                let (sum, corner) = if at_end {
                    (c.magnitude() + self.at(top - 1, top - 2).magnitude(), d)
                } else {
                    (
                        self.at(start + 1, start).magnitude() + self.at(start + 2, start + 1).magnitude(),
                        self.at(start, start),
                    )
                };
                a = R::of(0.75) * sum + corner;
                (b, c, d) = (R::of(-0.4375) * sum, sum, a);
            }
            let mut shifts = pair_of(&standardise(a, b, c, d));
            if shifts[0].1 == zero {
                let corner = self.at(top, top);
                let nearer = if (shifts[0].0 - corner).magnitude() <= (shifts[1].0 - corner).magnitude() {
                    0
                } else {
                    1
                };
                shifts = [shifts[nearer]; 2];
            }
            self.double_shift(start, top, shifts);
        }
        Ok(())
    }

    /// Rotates the block at `start` into standard form and takes its eigenvalues.
    pub(crate) fn finish_pair(&mut self, start: usize, re: &mut [R], im: &mut [R]) {
        let n = self.n;
        let top = start + 1;
        let block = standardise(
            self.at(start, start),
            self.at(start, top),
            self.at(top, start),
            self.at(top, top),
        );
        let [(re_0, im_0), (re_1, im_1)] = pair_of(&block);
        (re[start], im[start], re[top], im[top]) = (re_0, im_0, re_1, im_1);
        let (cosine, sine) = (block.cosine, block.sine);
        if self.whole {
            for column in self.h[(top + 1) * n..].chunks_exact_mut(n) {
                let (x, y) = (column[start], column[top]);
                column[start] = cosine * x + sine * y;
                column[top] = cosine * y - sine * x;
            }
            rotate_columns(self.h, n, start, 0..start, cosine, sine);
            if let Some(z) = &mut self.z {
                rotate_columns(z, n, start, 0..n, cosine, sine);
            }
        }
        self.h[start + start * n] = block.a;
        self.h[start + top * n] = block.b;
        self.h[top + start * n] = block.c;
        self.h[top + top * n] = block.d;
    }

    /// One bulge of a pair of shifts, chased from `start` to `top`.
    fn double_shift(&mut self, start: usize, top: usize, shifts: [(R, R); 2]) {
        let n = self.n;
        let (left, right) = self.reach(start, top);
        let mut v = self.first_column(start, shifts);
        for k in start..top {
            let len = 3.min(top - k + 1);
            let (v, tau) = {
                if k > start {
                    v[..len].copy_from_slice(&self.h[k + (k - 1) * n..k + (k - 1) * n + len]);
                }
                let (beta, tau) = reflection(&mut v[..len]);
                if k > start {
                    self.h[k + (k - 1) * n] = beta;
                    self.h[k + 1 + (k - 1) * n..k + (k - 1) * n + len].fill(<R as Element>::ZERO);
                }
                (v, tau)
            };
            if tau == <R as Element>::ZERO {
                continue;
            }
            let rows = left..(k + len + 1).min(top + 1);
            if len == 3 {
                for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                    from_left_3([v[1], v[2]], tau, &mut column[k..]);
                }
                let (x, y, w) = three_columns(self.h, n, k, rows);
                from_right_3([v[1], v[2]], tau, x, y, w);
                if let Some(z) = &mut self.z {
                    let (x, y, w) = three_columns(z, n, k, 0..n);
                    from_right_3([v[1], v[2]], tau, x, y, w);
                }
            } else {
                for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                    from_left_2(v[1], tau, &mut column[k..]);
                }
                let (x, y) = two_columns(self.h, n, k, rows);
                from_right_2(v[1], tau, x, y);
                if let Some(z) = &mut self.z {
                    let (x, y) = two_columns(z, n, k, 0..n);
                    from_right_2(v[1], tau, x, y);
                }
            }
        }
    }

    /// A multiple of the first column of `(H - s_0)(H - s_1)`, from `start` on.
    pub(crate) fn first_column(&self, start: usize, shifts: [(R, R); 2]) -> [R; 3] {
        let zero = <R as Element>::ZERO;
        let [(re_0, im_0), (re_1, im_1)] = shifts;
        let (a, b) = (self.at(start, start), self.at(start, start + 1));
        let (c, d) = (self.at(start + 1, start), self.at(start + 1, start + 1));
        let below = self.at(start + 2, start + 1);
        let scale = (a - re_1).magnitude() + im_1.magnitude() + c.magnitude();
        if scale == zero {
            return [zero; 3];
        }
        let c_part = c / scale;
        let mut v = [
            c_part * b + (a - re_0) * ((a - re_1) / scale) - im_0 * (im_1 / scale),
            c_part * (a + d - re_0 - re_1),
            c_part * below,
        ];
        let sum = v[0].magnitude() + v[1].magnitude() + v[2].magnitude();
        if sum > zero {
            v = v.map(|x| x / sum);
        }
        v
    }
}

/// `[x y] = [x y] [c -s; s c]` on two columns.
fn rotate_columns<R: RealNumber>(
    a: &mut [R],
    n: usize,
    first: usize,
    rows: Range<usize>,
    cosine: R,
    sine: R,
) {
    let (x, y) = two_columns(a, n, first, rows);
    for (x, y) in x.iter_mut().zip(y) {
        (*x, *y) = (cosine * *x + sine * *y, cosine * *y - sine * *x);
    }
}

impl<T: Field> Iteration<'_, T> {
    /// Complex matrices: `h` becomes triangular.
    pub(crate) fn run_complex(
        &mut self,
        active: Range<usize>,
        w: &mut [T],
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(), Failure> {
        let low = active.start;
        let mut end = active.end;
        let mut left = ITERATIONS * active.len().max(10);
        let mut stalled = 0;
        while end > low {
            let top = end - 1;
            let start = self.split(low, top);
            if start == top {
                w[top] = self.at(top, top);
                end -= 1;
                stalled = 0;
                continue;
            }
            if left == 0 {
                return Err(Failure::NotConverged);
            }
            if self.n >= 64 && interrupted() {
                return Err(Failure::Interrupted);
            }
            left -= 1;
            stalled += 1;
            let shift = if stalled % (2 * EXCEPTIONAL) == 0 {
                self.at(start, start) + T::from_real(T::R::of(0.75) * size(self.at(start + 1, start)))
            } else if stalled % EXCEPTIONAL == 0 {
                self.at(top, top) + T::from_real(T::R::of(0.75) * size(self.at(top, top - 1)))
            } else {
                self.nearer_eigenvalue(top)
            };
            self.single_shift(start, top, shift);
        }
        Ok(())
    }

    /// The eigenvalue of the last block of two that is nearer to its last entry.
    fn nearer_eigenvalue(&self, top: usize) -> T {
        let (a, b) = (self.at(top - 1, top - 1), self.at(top - 1, top));
        let (c, d) = (self.at(top, top - 1), self.at(top, top));
        let half = T::R::of(0.5);
        let p = (a - d).scaled(half);
        // Divided by their size, so that no square leaves the range.
        let scale = size(p).max_with(size(b)).max_with(size(c));
        if scale == <T::R as Element>::ZERO {
            return d;
        }
        let unit = |x: T| T::from_parts(x.re() / scale, x.im() / scale);
        let (p, product) = (unit(p), unit(b) * unit(c));
        let root = square_root(p * p + product);
        // The sign that does not cancel in p + root.
        let sum = if (p.conj() * root).re() < <T::R as Element>::ZERO {
            p - root
        } else {
            p + root
        };
        if sum == T::ZERO {
            d
        } else {
            d - product.quotient(sum).scaled(scale)
        }
    }

    /// One bulge of a single shift, chased from `start` to `top`.
    fn single_shift(&mut self, start: usize, top: usize, shift: T) {
        let n = self.n;
        let (left, right) = self.reach(start, top);
        let mut v = [self.at(start, start) - shift, self.at(start + 1, start)];
        for k in start..top {
            if k > start {
                v.copy_from_slice(&self.h[k + (k - 1) * n..k + (k - 1) * n + 2]);
            }
            let (beta, tau) = reflection(&mut v);
            if k > start {
                self.h[k + (k - 1) * n] = T::from_real(beta);
                self.h[k + 1 + (k - 1) * n] = T::ZERO;
            }
            if tau == T::ZERO {
                continue;
            }
            for column in self.h[k * n..right * n].chunks_exact_mut(n) {
                from_left_2(v[1], tau, &mut column[k..]);
            }
            let (x, y) = two_columns(self.h, n, k, left..(k + 3).min(top + 1));
            from_right_2(v[1], tau, x, y);
            if let Some(z) = &mut self.z {
                let (x, y) = two_columns(z, n, k, 0..n);
                from_right_2(v[1], tau, x, y);
            }
        }
    }
}

/// The square root with a real part that is not negative.
fn square_root<T: Field>(x: T) -> T {
    let zero = <T::R as Element>::ZERO;
    let half = T::R::of(0.5);
    let modulus = x.modulus();
    if modulus == zero {
        return T::ZERO;
    }
    let re = (half * (modulus + x.re().magnitude())).root();
    let im = half * x.im().magnitude() / re;
    let (re, im) = if x.re() < zero { (im, re) } else { (re, im) };
    T::from_parts(re, if x.im() < zero { -im } else { im })
}

/// A product with a real number.
trait Scaled: Field {
    fn scaled(self, factor: Self::R) -> Self {
        treadle_core::Float::scale(self, factor)
    }
}

impl<T: Field> Scaled for T {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_two_become_standard_and_keep_their_eigenvalues() {
        let values = [0.0, 1.0, -1.0, 3.0, 1e-9, -1e-200, 0.5];
        for a in values {
            for b in values {
                for c in values {
                    for d in values {
                        let s = standardise::<f64>(a, b, c, d);
                        assert!(
                            s.c == 0.0 || (s.a == s.d && s.b * s.c <= 0.0 && s.b != 0.0),
                            "{a} {b} {c} {d}"
                        );
                        assert!((s.cosine * s.cosine + s.sine * s.sine - 1.0).abs() < 1e-14);
                        // [a b; c d] = G^T S G with G = [cos sin; -sin cos].
                        let (x, y) = (s.cosine, s.sine);
                        let back = [
                            x * (s.a * x - s.b * y) - y * (s.c * x - s.d * y),
                            x * (s.a * y + s.b * x) - y * (s.c * y + s.d * x),
                            y * (s.a * x - s.b * y) + x * (s.c * x - s.d * y),
                            y * (s.a * y + s.b * x) + x * (s.c * y + s.d * x),
                        ];
                        for (got, want) in back.into_iter().zip([a, b, c, d]) {
                            assert!((got - want).abs() < 2e-14, "{a} {b} {c} {d}: {back:?}");
                        }
                    }
                }
            }
        }
    }
}
