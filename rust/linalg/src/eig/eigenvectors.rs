//! Eigenvectors of (quasi-)triangular matrices, by substitution.
//!
//! Each vector solves `(T - lambda) x = 0` from the bottom up. Divisors smaller than rounding allows are replaced by
//! `eps |T|`, which is a change of `T` within its own rounding, and a vector that grows too large is scaled down by a power
//! of two, so that defective matrices give finite vectors.

use crate::eig::column_loops::add_multiple;
use crate::field::{Field, RealNumber, power_of_two};
use treadle_core::{Element, Float};

/// A complex number of two real parts, for real matrices with complex eigenvalues.
#[derive(Clone, Copy)]
struct Parts<R> {
    re: R,
    im: R,
}

impl<R: RealNumber> Parts<R> {
    fn minus_product(self, a: R, x: Self) -> Self {
        Parts {
            re: self.re - a * x.re,
            im: self.im - a * x.im,
        }
    }

    fn times(self, other: Self) -> Self {
        Parts {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }

    fn minus(self, other: Self) -> Self {
        Parts {
            re: self.re - other.re,
            im: self.im - other.im,
        }
    }

    fn size(self) -> R {
        self.re.magnitude() + self.im.magnitude()
    }

    /// Smith's quotient, by a divisor of at least `least`.
    fn over(self, divisor: Self, least: R) -> Self {
        let divisor = if divisor.size() < least {
            Parts {
                re: least,
                im: <R as Element>::ZERO,
            }
        } else {
            divisor
        };
        if divisor.re.magnitude() >= divisor.im.magnitude() {
            let ratio = divisor.im / divisor.re;
            let scale = divisor.re + divisor.im * ratio;
            Parts {
                re: (self.re + self.im * ratio) / scale,
                im: (self.im - self.re * ratio) / scale,
            }
        } else {
            let ratio = divisor.re / divisor.im;
            let scale = divisor.re * ratio + divisor.im;
            Parts {
                re: (self.re * ratio + self.im) / scale,
                im: (self.im * ratio - self.re) / scale,
            }
        }
    }
}

/// Solves `[m_00 m_01; m_10 m_11] x = r` by elimination with the largest entry as the pivot.
fn solve_two<R: RealNumber>(mut m: [[Parts<R>; 2]; 2], mut r: [Parts<R>; 2], least: R) -> [Parts<R>; 2] {
    let mut pivot = (0, 0);
    for i in 0..2 {
        for j in 0..2 {
            if m[i][j].size() > m[pivot.0][pivot.1].size() {
                pivot = (i, j);
            }
        }
    }
    if pivot.0 == 1 {
        m.swap(0, 1);
        r.swap(0, 1);
    }
    if pivot.1 == 1 {
        m[0].swap(0, 1);
        m[1].swap(0, 1);
    }
    let factor = m[1][0].over(m[0][0], least);
    let second = r[1]
        .minus(factor.times(r[0]))
        .over(m[1][1].minus(factor.times(m[0][1])), least);
    let first = r[0].minus(m[0][1].times(second)).over(m[0][0], least);
    if pivot.1 == 1 {
        [second, first]
    } else {
        [first, second]
    }
}

/// Half the exponent range: vectors that grow beyond are scaled down.
fn large<R: RealNumber>() -> R {
    R::of(power_of_two(R::EXPONENT_LIMIT / 2))
}

/// Divisors are replaced by this when they are smaller.
fn least_divisor<T: Field>(t: &[T], n: usize) -> T::R {
    let mut norm = T::R::TINY;
    for j in 0..n {
        for &x in &t[j * n..j * n + (j + 2).min(n)] {
            let size = x.re().magnitude() + x.im().magnitude();
            if size > norm {
                norm = size;
            }
        }
    }
    let least = norm * T::R::of(T::EPSILON);
    let tiny = T::R::TINY / T::R::of(T::EPSILON);
    if least > tiny { least } else { tiny }
}

/// Vectors of the quasi-triangular `t` into the columns of `x`: of a complex pair the real and the imaginary part, for the
/// eigenvalue with the positive imaginary part.
pub(crate) fn of_real<R: RealNumber>(t: &[R], n: usize, re: &[R], im: &[R], x: &mut [R]) {
    let (zero, one) = (<R as Element>::ZERO, <R as Element>::ONE);
    let least = least_divisor(t, n);
    let mut k = n;
    while k > 0 {
        k -= 1;
        if im[k] == zero {
            let column = &mut x[k * n..(k + 1) * n];
            column[k + 1..].fill(zero);
            column[k] = one;
            for (x, &t) in column[..k].iter_mut().zip(&t[k * n..]) {
                *x = -t;
            }
            real_vector(t, n, k, re[k], least, column);
            continue;
        }
        k -= 1;
        let (b, c) = (t[k + (k + 1) * n], t[k + 1 + k * n]);
        let (first, second) = if b.magnitude() >= c.magnitude() {
            (one, im[k] / b)
        } else {
            (-im[k] / c, one)
        };
        let (left, right) = x[k * n..(k + 2) * n].split_at_mut(n);
        left[k..].fill(zero);
        right[k..].fill(zero);
        left[k] = first;
        right[k + 1] = second;
        for i in 0..k {
            left[i] = -(t[i + k * n] * first);
            right[i] = -(t[i + (k + 1) * n] * second);
        }
        let lambda = Parts { re: re[k], im: im[k] };
        complex_vector(t, n, k, lambda, least, left, right);
    }
}

/// Scales a vector down when its last entry became too large.
fn keep_small<T: Field>(size: T::R, columns: [&mut [T]; 2]) {
    if size > large::<T::R>() {
        let down = T::R::of(power_of_two(-T::R::EXPONENT_LIMIT / 2));
        for column in columns {
            for x in column {
                *x = Float::scale(*x, down);
            }
        }
    }
}

/// Entries above `k` of the vector of a real eigenvalue; the column holds the right side there.
fn real_vector<R: RealNumber>(t: &[R], n: usize, k: usize, lambda: R, least: R, column: &mut [R]) {
    let zero = <R as Element>::ZERO;
    let real = |re: R| Parts { re, im: zero };
    let mut j = k;
    while j > 0 {
        j -= 1;
        if j > 0 && t[j + (j - 1) * n] != zero {
            let i = j - 1;
            let m = [
                [real(t[i + i * n] - lambda), real(t[i + j * n])],
                [real(t[j + i * n]), real(t[j + j * n] - lambda)],
            ];
            let [first, second] = solve_two(m, [real(column[i]), real(column[j])], least);
            (column[i], column[j]) = (first.re, second.re);
            keep_small(first.size() + second.size(), [column, &mut []]);
            let (one, two) = (column[i], column[j]);
            let (t_one, t_two) = (&t[i * n..], &t[j * n..]);
            for ((x, &a), &b) in column[..i].iter_mut().zip(t_one).zip(t_two) {
                *x -= a * one + b * two;
            }
            j = i;
        } else {
            let x = real(column[j]).over(real(t[j + j * n] - lambda), least);
            column[j] = x.re;
            keep_small(x.size(), [column, &mut []]);
            let x = column[j];
            if x != zero {
                add_multiple(-x, &t[j * n..j * n + j], &mut column[..j]);
            }
        }
    }
}

/// As `real_vector`, for the vector with real part `left` and imaginary part `right`.
fn complex_vector<R: RealNumber>(
    t: &[R],
    n: usize,
    k: usize,
    lambda: Parts<R>,
    least: R,
    left: &mut [R],
    right: &mut [R],
) {
    let zero = <R as Element>::ZERO;
    let shifted = |x: R| Parts {
        re: x - lambda.re,
        im: -lambda.im,
    };
    let real = |re: R| Parts { re, im: zero };
    let mut j = k;
    while j > 0 {
        j -= 1;
        let own = |i: usize, left: &[R], right: &[R]| Parts {
            re: left[i],
            im: right[i],
        };
        if j > 0 && t[j + (j - 1) * n] != zero {
            let i = j - 1;
            let m = [
                [shifted(t[i + i * n]), real(t[i + j * n])],
                [real(t[j + i * n]), shifted(t[j + j * n])],
            ];
            let [first, second] = solve_two(m, [own(i, left, right), own(j, left, right)], least);
            (left[i], right[i], left[j], right[j]) = (first.re, first.im, second.re, second.im);
            keep_small(first.size() + second.size(), [left, right]);
            let (first, second) = (own(i, left, right), own(j, left, right));
            for l in 0..i {
                let x = own(l, left, right)
                    .minus_product(t[l + i * n], first)
                    .minus_product(t[l + j * n], second);
                (left[l], right[l]) = (x.re, x.im);
            }
            j = i;
        } else {
            let x = own(j, left, right).over(shifted(t[j + j * n]), least);
            (left[j], right[j]) = (x.re, x.im);
            keep_small(x.size(), [left, right]);
            let x = own(j, left, right);
            add_multiple(-x.re, &t[j * n..j * n + j], &mut left[..j]);
            add_multiple(-x.im, &t[j * n..j * n + j], &mut right[..j]);
        }
    }
}

/// Vectors of the triangular `t` into the columns of `x`.
pub(crate) fn of_triangular<T: Field>(t: &[T], n: usize, x: &mut [T]) {
    let least = least_divisor(t, n);
    for k in (0..n).rev() {
        let lambda = t[k + k * n];
        let column = &mut x[k * n..(k + 1) * n];
        column[k + 1..].fill(T::ZERO);
        column[k] = T::ONE;
        for (x, &t) in column[..k].iter_mut().zip(&t[k * n..]) {
            *x = -t;
        }
        for j in (0..k).rev() {
            let divisor = t[j + j * n] - lambda;
            let small = divisor.re().magnitude() + divisor.im().magnitude() < least;
            let x = column[j].quotient(if small { T::from_real(least) } else { divisor });
            column[j] = x;
            keep_small(x.re().magnitude() + x.im().magnitude(), [column, &mut []]);
            let x = column[j];
            if x != T::ZERO {
                add_multiple(-x, &t[j * n..j * n + j], &mut column[..j]);
            }
        }
    }
}

/// The largest magnitude of the parts of a vector becomes about 1, exactly.
fn to_unit<T: Field>(columns: [&mut [T]; 2]) {
    let largest = columns
        .iter()
        .flat_map(|column| column.iter())
        .map(|x| Float::max_abs(*x))
        .fold(0.0, f64::max);
    let scaling = crate::scaling::Scaling::<T::R>::to_unit(largest);
    for column in columns {
        for x in column {
            *x = scaling.apply(*x);
        }
    }
}

/// Makes a vector of length one, its first largest entry real.
pub(crate) fn normalise<T: Field>(column: &mut [T]) {
    to_unit([column, &mut []]);
    let zero = <T::R as Element>::ZERO;
    let mut sum = zero;
    let mut largest = zero;
    let mut at = 0;
    for (i, &x) in column.iter().enumerate() {
        let square = x.modulus_squared();
        sum += square;
        if square > largest {
            (largest, at) = (square, i);
        }
    }
    if sum == zero {
        return;
    }
    let one = <T::R as Element>::ONE;
    let factor = if T::IS_REAL {
        T::from_real(one / sum.root())
    } else {
        Float::scale(column[at].conj(), one / (sum.root() * largest.root()))
    };
    for x in column.iter_mut() {
        *x *= factor;
    }
    column[at] = T::from_real(column[at].re());
}

/// As `normalise`, for a vector of two real columns.
pub(crate) fn normalise_parts<R: RealNumber>(left: &mut [R], right: &mut [R]) {
    let zero = <R as Element>::ZERO;
    to_unit([left, right]);
    let (mut sum, mut largest, mut at) = (zero, zero, 0);
    for (i, (&x, &y)) in left.iter().zip(right.iter()).enumerate() {
        let square = x * x + y * y;
        sum += square;
        if square > largest {
            (largest, at) = (square, i);
        }
    }
    if sum == zero {
        return;
    }
    let scale = <R as Element>::ONE / (sum.root() * largest.root());
    let (re, im) = (left[at] * scale, -right[at] * scale);
    for (x, y) in left.iter_mut().zip(right.iter_mut()) {
        (*x, *y) = (*x * re - *y * im, *x * im + *y * re);
    }
    right[at] = zero;
}
