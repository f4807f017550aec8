//! The arithmetic of each element type, as numpy defines it.

use crate::{DType, Scalar};
use num_complex::{Complex32, Complex64};

/// numpy's `bool`: one byte, of which any but zero is true; results are zero or one. Addition is `or`, multiplication `and`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Bool(pub u8);

/// A type that arrays hold and contractions compute with.
///
/// `add` and `mul` are what numpy's are: integers wrap, `bool` is or/and, floats round once per operation.
pub trait Element: Copy + Send + Sync + PartialEq + std::fmt::Debug + 'static {
    /// The dtype of an array of these.
    const DTYPE: DType;
    /// The neutral element of `add`.
    const ZERO: Self;
    /// The neutral element of `mul`.
    const ONE: Self;

    /// Sum.
    #[must_use]
    fn add(self, other: Self) -> Self;
    /// Difference; of `bool`, for which numpy has none, `and not`.
    #[must_use]
    fn sub(self, other: Self) -> Self;
    /// Product.
    #[must_use]
    fn mul(self, other: Self) -> Self;
    /// Complex conjugate; itself for real types.
    #[must_use]
    fn conj(self) -> Self {
        self
    }
    /// The caller's number as an element; integers wrap.
    fn from_scalar(scalar: Scalar) -> Self;
}

/// The four floating types that linear algebra takes: `f32`, `f64` and their complex forms.
pub trait Float: Element {
    /// The type of singular values, eigenvalues of Hermitian matrices and norms.
    type Real: Float<Real = Self::Real> + PartialOrd;
    /// Distance from 1 to the next larger number of the real type.
    const EPSILON: f64;
    /// True when neither NaN nor infinite in any part.
    fn is_finite(self) -> bool;
    /// Largest magnitude among the parts; a cheap bound of the modulus within a factor of sqrt(2).
    fn max_abs(self) -> f64;
    /// This times a real power of two, exact unless it leaves the range.
    #[must_use]
    fn scale(self, factor: Self::Real) -> Self;
}

macro_rules! integers {
    ($($t:ty, $dtype:ident;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0;
            const ONE: Self = 1;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Int(v) => v as $t,
                    Scalar::Real(v) | Scalar::Complex(v, _) => v as $t,
                }
            }
        }
    )*};
}

integers! {
    u8, U8; i8, I8; u16, U16; i16, I16; u32, U32; i32, I32; u64, U64; i64, I64;
}

impl Element for Bool {
    const DTYPE: DType = DType::Bool;
    const ZERO: Self = Bool(0);
    const ONE: Self = Bool(1);
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Bool(u8::from((self.0 | other.0) != 0))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Bool(u8::from((self.0 != 0) & (other.0 == 0)))
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Bool(u8::from((self.0 != 0) & (other.0 != 0)))
    }
    fn from_scalar(scalar: Scalar) -> Self {
        Bool(u8::from(!scalar.is_zero()))
    }
}

macro_rules! reals {
    ($($t:ident, $dtype:ident;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Int(v) => v as $t,
                    Scalar::Real(v) | Scalar::Complex(v, _) => v as $t,
                }
            }
        }
        impl Float for $t {
            type Real = $t;
            const EPSILON: f64 = $t::EPSILON as f64;
            #[inline(always)]
            fn is_finite(self) -> bool { $t::is_finite(self) }
            #[inline(always)]
            fn max_abs(self) -> f64 { f64::from(self.abs()) }
            #[inline(always)]
            fn scale(self, factor: $t) -> Self { self * factor }
        }
    )*};
}

reals! { f32, F32; f64, F64; }

macro_rules! complexes {
    ($($t:ident, $real:ident, $dtype:ident;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
            const ZERO: Self = $t::new(0.0, 0.0);
            const ONE: Self = $t::new(1.0, 0.0);
            #[inline(always)]
            fn add(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn sub(self, other: Self) -> Self { self - other }
            #[inline(always)]
            fn mul(self, other: Self) -> Self { self * other }
            #[inline(always)]
            fn conj(self) -> Self { $t::new(self.re, -self.im) }
            fn from_scalar(scalar: Scalar) -> Self {
                match scalar {
                    Scalar::Int(v) => $t::new(v as $real, 0.0),
                    Scalar::Real(v) => $t::new(v as $real, 0.0),
                    Scalar::Complex(re, im) => $t::new(re as $real, im as $real),
                }
            }
        }
        impl Float for $t {
            type Real = $real;
            const EPSILON: f64 = $real::EPSILON as f64;
            #[inline(always)]
            fn is_finite(self) -> bool { self.re.is_finite() && self.im.is_finite() }
            #[inline(always)]
            fn max_abs(self) -> f64 { f64::from(self.re.abs().max(self.im.abs())) }
            #[inline(always)]
            fn scale(self, factor: $real) -> Self { $t::new(self.re * factor, self.im * factor) }
        }
    )*};
}

complexes! { Complex32, f32, C64; Complex64, f64, C128; }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_wrap_and_bool_is_or_and() {
        assert_eq!(Element::add(250u8, 10), 4);
        assert_eq!(Element::mul(i64::MAX, 2), -2);
        assert_eq!((Element::sub(1u8, 2), Element::sub(i8::MIN, 1)), (255, i8::MAX));
        assert_eq!(Bool(4).sub(Bool(2)), Bool(0));
        assert_eq!(Bool(1).add(Bool(1)), Bool(1));
        assert_eq!(Bool(1).mul(Bool(0)), Bool(0));
        assert_eq!(
            Bool(2).mul(Bool(4)),
            Bool(1),
            "a byte from elsewhere may be true in another bit"
        );
        assert_eq!(Bool(2).add(Bool(0)), Bool(1));
        assert_eq!(u8::from_scalar(Scalar::Int(257)), 1);
        assert_eq!(i64::from_scalar(Scalar::Int((1 << 62) + 1)), (1 << 62) + 1);
    }

    #[test]
    fn a_negative_zero_imaginary_part_is_conjugated() {
        let z = Complex64::new(1.0, 0.0).conj();
        assert!(z.im.is_sign_negative());
    }
}
