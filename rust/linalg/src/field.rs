//! The four element types of linear algebra and the arithmetic that the factorisations need.

use faer::traits::ComplexField;
use num_complex::{Complex32, Complex64};
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub, SubAssign};
use treadle_core::Float;

mod sealed {
    pub trait Sealed {}
}

/// `f32`, `f64`, `Complex32` or `Complex64`: what `treadle_core` calls `Float`, seen by faer too.
pub trait Field:
    Float<Real = <Self as Field>::R>
    + ComplexField<Real = <Self as Field>::R>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + sealed::Sealed
{
    /// The type of singular values and eigenvalues.
    type R: RealNumber;

    /// A real number as an element.
    fn from_real(real: Self::R) -> Self;
    /// The real part.
    fn re(self) -> Self::R;
    /// The imaginary part; zero for real types.
    fn im(self) -> Self::R;
    /// An element from its parts; the imaginary one is dropped by real types.
    fn from_parts(re: Self::R, im: Self::R) -> Self;
    /// The quotient, without overflow or underflow on the way.
    #[must_use]
    fn quotient(self, divisor: Self) -> Self;

    /// The modulus, without overflow or underflow on the way.
    fn modulus(self) -> Self::R;

    /// The square of the modulus.
    fn modulus_squared(self) -> Self::R {
        self.re() * self.re() + self.im() * self.im()
    }

    /// The conjugate of `self` times `other`.
    #[must_use]
    fn conj_times(self, other: Self) -> Self;
}

/// `f32` or `f64`.
pub trait RealNumber: Field<R = Self> + PartialOrd + Div<Output = Self> + crate::wide::Registers {
    /// Bits of exponent range that a single power of two covers without leaving the normal numbers.
    const EXPONENT_LIMIT: i32;
    /// The smallest positive normal number.
    const TINY: Self;
    /// Not a number.
    const NAN: Self;
    /// Square root.
    #[must_use]
    fn root(self) -> Self;
    /// Absolute value.
    #[must_use]
    fn magnitude(self) -> Self;
    /// `self * factor + summand`, rounded once.
    #[must_use]
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// As `f64`.
    fn to_f64(self) -> f64;
    /// From `f64`, rounded.
    fn of(value: f64) -> Self;
}

/// Two raised to `exponent`, exact for every exponent of a normal `f64`; clamped outside.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    let biased = (exponent.clamp(-1022, 1023) + 1023) as u64;
    f64::from_bits(biased << 52)
}

macro_rules! real_field {
    ($t:ident, $limit:literal) => {
        impl sealed::Sealed for $t {}
        impl Field for $t {
            type R = $t;
            #[inline(always)]
            fn from_real(real: $t) -> $t {
                real
            }
            #[inline(always)]
            fn re(self) -> $t {
                self
            }
            #[inline(always)]
            fn im(self) -> $t {
                0.0
            }
            #[inline(always)]
            fn from_parts(re: $t, _im: $t) -> $t {
                re
            }
            #[inline(always)]
            fn quotient(self, divisor: $t) -> $t {
                self / divisor
            }
            #[inline(always)]
            fn modulus(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn modulus_squared(self) -> $t {
                self * self
            }
            #[inline(always)]
            fn conj_times(self, other: $t) -> $t {
                self * other
            }
        }
        impl RealNumber for $t {
            const EXPONENT_LIMIT: i32 = $limit;
            const TINY: $t = $t::MIN_POSITIVE;
            const NAN: $t = $t::NAN;
            #[inline(always)]
            fn root(self) -> $t {
                self.sqrt()
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn fused(self, factor: $t, summand: $t) -> $t {
                self.mul_add(factor, summand)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn of(value: f64) -> $t {
                value as $t
            }
        }
    };
}

real_field!(f32, 120);
real_field!(f64, 1000);

macro_rules! complex_field {
    ($t:ident, $real:ident) => {
        impl sealed::Sealed for $t {}
        impl Field for $t {
            type R = $real;
            #[inline(always)]
            fn from_real(real: $real) -> $t {
                $t::new(real, 0.0)
            }
            #[inline(always)]
            fn re(self) -> $real {
                self.re
            }
            #[inline(always)]
            fn im(self) -> $real {
                self.im
            }
            #[inline(always)]
            fn from_parts(re: $real, im: $real) -> $t {
                $t::new(re, im)
            }
            fn quotient(self, divisor: $t) -> $t {
                // Smith: divide by the larger part first, so that no square leaves the range.
                if divisor.re.abs() >= divisor.im.abs() {
                    let ratio = divisor.im / divisor.re;
                    let scale = divisor.re + divisor.im * ratio;
                    $t::new(
                        (self.re + self.im * ratio) / scale,
                        (self.im - self.re * ratio) / scale,
                    )
                } else {
                    let ratio = divisor.re / divisor.im;
                    let scale = divisor.re * ratio + divisor.im;
                    $t::new(
                        (self.re * ratio + self.im) / scale,
                        (self.im * ratio - self.re) / scale,
                    )
                }
            }
            #[inline(always)]
            fn modulus(self) -> $real {
                self.re.hypot(self.im)
            }
            #[inline(always)]
            fn conj_times(self, other: $t) -> $t {
                $t::new(
                    self.re * other.re + self.im * other.im,
                    self.re * other.im - self.im * other.re,
                )
            }
        }
    };
}

complex_field!(Complex32, f32);
complex_field!(Complex64, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_do_not_overflow_on_the_way() {
        let big = Complex64::new(1e300, 1e300);
        assert_eq!(big.quotient(big), Complex64::new(1.0, 0.0));
        let small = Complex64::new(1e-300, -1e-300);
        assert_eq!(small.quotient(small), Complex64::new(1.0, 0.0));
        assert_eq!(
            Complex64::new(1.0, 2.0).quotient(Complex64::new(0.0, 1.0)),
            Complex64::new(2.0, -1.0)
        );
    }

    #[test]
    fn powers_of_two_are_exact() {
        assert_eq!(power_of_two(0), 1.0);
        assert_eq!(power_of_two(-3), 0.125);
        assert_eq!(power_of_two(1023), 2f64.powi(1023));
        assert_eq!(power_of_two(-1022), f64::MIN_POSITIVE);
    }
}
