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

    /// `self - left * right`, rounded once where `FUSED` says that the machine can.
    #[must_use]
    fn minus_product<const FUSED: bool>(self, left: Self, right: Self) -> Self;

    /// The sum of the magnitudes of the parts: what pivots are compared by, as in LAPACK.
    #[must_use]
    fn size(self) -> Self::R;

    /// What complete pivots are compared by: the magnitude of a real number, the square of a modulus.
    #[must_use]
    fn square_size(self) -> Self::R;
    /// Below this `square_size` may have lost bits to underflow.
    #[must_use]
    fn square_floor() -> Self::R;
    /// Above this `square_size` has left the range.
    #[must_use]
    fn square_ceiling() -> Self::R;

    /// The type of the same kind with the range of `f64`.
    type Wide: Field<R = f64>;

    /// A divisor, made ready for many dividends.
    type Divisor: Copy + Send + Sync;
    /// Makes it ready.
    fn divisor(self) -> Self::Divisor;
    /// The quotient, without overflow or underflow on the way; a number by itself is exactly one.
    #[must_use]
    fn over(self, divisor: Self::Divisor) -> Self;
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
    /// An unsigned integer of the same width.
    type Bits: Copy + Ord + Default + Send + Sync;
    /// The bits of infinity: those of magnitudes that are finite are less.
    const INFINITE_BITS: Self::Bits;
    /// The bits of the magnitude. They are ordered as magnitudes are, and above them stand those of NaN.
    fn magnitude_bits(self) -> Self::Bits;
    /// What has these bits.
    fn from_bits(bits: Self::Bits) -> Self;
}

/// Two raised to `exponent`, exact for every exponent of a normal `f64`; clamped outside.
pub(crate) fn power_of_two(exponent: i32) -> f64 {
    let biased = (exponent.clamp(-1022, 1023) + 1023) as u64;
    f64::from_bits(biased << 52)
}

macro_rules! real_field {
    ($t:ident, $bits:ident, $limit:literal) => {
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
            #[inline(always)]
            fn minus_product<const FUSED: bool>(self, left: $t, right: $t) -> $t {
                if FUSED {
                    (-left).mul_add(right, self)
                } else {
                    self - left * right
                }
            }
            #[inline(always)]
            fn size(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn square_size(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn square_floor() -> $t {
                0.0
            }
            #[inline(always)]
            fn square_ceiling() -> $t {
                $t::MAX
            }
            type Wide = f64;
            type Divisor = $t;
            #[inline(always)]
            fn divisor(self) -> $t {
                self
            }
            #[inline(always)]
            fn over(self, divisor: $t) -> $t {
                self / divisor
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
            type Bits = $bits;
            const INFINITE_BITS: $bits = $t::INFINITY.to_bits();
            #[inline(always)]
            fn magnitude_bits(self) -> $bits {
                self.abs().to_bits()
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> $t {
                $t::from_bits(bits)
            }
        }
    };
}

real_field!(f32, u32, 120);
real_field!(f64, u64, 1000);

/// A complex divisor: its conjugate and the square of its modulus after scaling to about 1, and the factor of that.
#[derive(Clone, Copy, Debug)]
pub struct ComplexDivisor<R> {
    re: R,
    im: R,
    squared: R,
    factor: R,
}

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
            #[inline(always)]
            fn minus_product<const FUSED: bool>(self, left: $t, right: $t) -> $t {
                if FUSED {
                    $t::new(
                        left.im
                            .mul_add(right.im, (-left.re).mul_add(right.re, self.re)),
                        (-left.im).mul_add(right.re, (-left.re).mul_add(right.im, self.im)),
                    )
                } else {
                    $t::new(
                        self.re - left.re * right.re + left.im * right.im,
                        self.im - left.re * right.im - left.im * right.re,
                    )
                }
            }
            #[inline(always)]
            fn size(self) -> $real {
                self.re.abs() + self.im.abs()
            }
            #[inline(always)]
            fn square_size(self) -> $real {
                self.re * self.re + self.im * self.im
            }
            #[inline(always)]
            fn square_floor() -> $real {
                $real::MIN_POSITIVE / $real::EPSILON
            }
            #[inline(always)]
            fn square_ceiling() -> $real {
                $real::MAX
            }
            type Wide = Complex64;
            type Divisor = ComplexDivisor<$real>;
            fn divisor(self) -> ComplexDivisor<$real> {
                let largest = f64::from(self.re.abs().max(self.im.abs()));
                let limit = $real::EXPONENT_LIMIT;
                let exponent = if largest == 0.0 || !largest.is_finite() {
                    0
                } else {
                    crate::scaling::exponent_above(largest).clamp(-limit, limit)
                };
                let factor = power_of_two(-exponent) as $real;
                let (re, im) = (self.re * factor, self.im * factor);
                ComplexDivisor {
                    re,
                    im,
                    squared: re * re + im * im,
                    factor,
                }
            }
            #[inline(always)]
            fn over(self, divisor: ComplexDivisor<$real>) -> $t {
                let (re, im) = (self.re * divisor.factor, self.im * divisor.factor);
                $t::new(
                    (re * divisor.re + im * divisor.im) / divisor.squared,
                    (im * divisor.re - re * divisor.im) / divisor.squared,
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
