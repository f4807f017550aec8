//! Elementary reflections `H = I - tau v v^H`, `v[0] = 1`, and what they do to rows and columns.

use crate::field::{Field, RealNumber};
use crate::qr::householder::sum_of_squares;
use crate::scaling::Scaling;
use treadle_core::{Element, Float};

/// Turns `x` into the `v` of the reflection with `H^H x = beta e_0`. Returns `beta` and `tau`.
pub(crate) fn reflection<T: Field>(x: &mut [T]) -> (T::R, T) {
    let zero = <T::R as Element>::ZERO;
    let one = <T::R as Element>::ONE;
    // Squares below this lost bits to underflow: the vector is lifted first.
    let safe = T::R::TINY / (T::R::of(T::EPSILON) * T::R::of(T::EPSILON));
    // SAFETY: the slices are as long as said.
    let squares_of = |x: &[T]| unsafe { sum_of_squares(x[1..].as_ptr(), x.len() - 1) };
    let mut squares = squares_of(x);
    let mut lift = Scaling::none();
    if squares + x[0].modulus_squared() < safe {
        lift = Scaling::to_unit(x.iter().map(|x| Float::max_abs(*x)).fold(0.0, f64::max));
        for entry in x.iter_mut() {
            *entry = lift.apply(*entry);
        }
        squares = squares_of(x);
    }
    let alpha = x[0];
    if squares == zero && alpha.im() == zero {
        x[1..].fill(T::ZERO);
        x[0] = T::ONE;
        return (lift.inverse().apply(alpha.re()), T::ZERO);
    }
    let norm = (squares + alpha.modulus_squared()).root();
    let beta = if alpha.re() < zero { norm } else { -norm };
    let tau = T::from_parts((beta - alpha.re()) / beta, -alpha.im() / beta);
    let inverse = T::from_real(one).quotient(alpha - T::from_real(beta));
    for entry in &mut x[1..] {
        *entry *= inverse;
    }
    x[0] = T::ONE;
    (lift.inverse().apply(beta), tau)
}

/// `c = H^H c` for `c` as long as `v`.
#[inline(always)]
pub(crate) fn from_left<T: Field>(v: &[T], tau: T, c: &mut [T]) {
    let mut sum = c[0];
    for (&v, &c) in v[1..].iter().zip(&c[1..]) {
        sum += v.conj_times(c);
    }
    let step = tau.conj() * sum;
    c[0] -= step;
    for (&v, c) in v[1..].iter().zip(&mut c[1..]) {
        *c -= step * v;
    }
}

/// `c = H^H c` for two entries, `v` being the second of the reflector.
#[inline(always)]
pub(crate) fn from_left_2<T: Field>(v: T, tau: T, c: &mut [T]) {
    let Some(c) = c.first_chunk_mut::<2>() else { return };
    let step = tau.conj() * (c[0] + v.conj_times(c[1]));
    c[0] -= step;
    c[1] -= step * v;
}

/// `c = H^H c` for three entries, `v` being the last two of the reflector.
#[inline(always)]
pub(crate) fn from_left_3<T: Field>(v: [T; 2], tau: T, c: &mut [T]) {
    let Some(c) = c.first_chunk_mut::<3>() else { return };
    let step = tau.conj() * (c[0] + v[0].conj_times(c[1]) + v[1].conj_times(c[2]));
    c[0] -= step;
    c[1] -= step * v[0];
    c[2] -= step * v[1];
}

/// Columns `first` to `first + 2` of column-major memory, rows `rows` of each.
#[inline(always)]
pub(crate) fn two_columns<T>(
    a: &mut [T],
    leading: usize,
    first: usize,
    rows: std::ops::Range<usize>,
) -> (&mut [T], &mut [T]) {
    let (x, y) = a[first * leading..(first + 2) * leading].split_at_mut(leading);
    (&mut x[rows.clone()], &mut y[rows])
}

/// Columns `first` to `first + 3`.
#[inline(always)]
pub(crate) fn three_columns<T>(
    a: &mut [T],
    leading: usize,
    first: usize,
    rows: std::ops::Range<usize>,
) -> (&mut [T], &mut [T], &mut [T]) {
    let (x, rest) = a[first * leading..(first + 3) * leading].split_at_mut(leading);
    let (y, z) = rest.split_at_mut(leading);
    (&mut x[rows.clone()], &mut y[rows.clone()], &mut z[rows])
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex64;

    #[test]
    fn a_vector_becomes_its_norm_on_the_axis() {
        for scale in [1.0, 1e-200, 1e-310] {
            let mut v: [f64; 3] = [3.0 * scale, 4.0 * scale, 12.0 * scale];
            let x = v;
            let (beta, tau) = reflection(&mut v);
            let mut c = x.map(|x| x / scale);
            from_left(&v, tau, &mut c);
            assert!((beta / scale + 13.0).abs() < 1e-6, "{scale}: {beta}");
            assert!((c[0] + 13.0).abs() < 1e-6 && c[1].abs() < 1e-6 && c[2].abs() < 1e-6);
        }
        let x = [Complex64::new(1.0, 2.0), Complex64::new(-2.0, 4.0)];
        let mut v = x;
        let (beta, tau) = reflection(&mut v);
        let mut c = x;
        from_left(&v, tau, &mut c);
        assert!((c[0] - beta).norm() < 1e-14 && c[1].norm() < 1e-14);
        assert!((beta.abs() - 5.0).abs() < 1e-14);
    }
}
