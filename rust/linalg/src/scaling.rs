//! Scaling by a power of two: exact, and the reason why entries of 1e-300 or 1e300 are no special case further in.

use crate::field::{Field, RealNumber, power_of_two};
use treadle_core::Float;

/// A power of two, kept as two factors so that it covers denormal inputs too.
#[derive(Clone, Copy)]
pub(crate) struct Scaling<R> {
    first: R,
    second: Option<R>,
    exponent: i32,
}

impl<R: RealNumber> Scaling<R> {
    /// No change.
    pub(crate) fn none() -> Self {
        Self::by(0)
    }

    /// Times two to `exponent`.
    pub(crate) fn by(exponent: i32) -> Self {
        if exponent.abs() <= R::EXPONENT_LIMIT {
            return Scaling {
                first: R::of(power_of_two(exponent)),
                second: None,
                exponent,
            };
        }
        let half = exponent / 2;
        Scaling {
            first: R::of(power_of_two(half)),
            second: Some(R::of(power_of_two(exponent - half))),
            exponent,
        }
    }

    /// What brings a matrix whose largest entry is `max_abs` to entries of at most 1.
    pub(crate) fn to_unit(max_abs: f64) -> Self {
        if max_abs == 0.0 || !max_abs.is_finite() {
            return Self::none();
        }
        Self::by(-exponent_above(max_abs))
    }

    /// What undoes it.
    pub(crate) fn inverse(self) -> Self {
        Self::by(-self.exponent)
    }

    /// The exponent of the power.
    pub(crate) fn exponent(self) -> i32 {
        self.exponent
    }

    #[inline(always)]
    pub(crate) fn apply<T: Field<R = R>>(self, x: T) -> T {
        let x = Float::scale(x, self.first);
        match self.second {
            None => x,
            Some(second) => Float::scale(x, second),
        }
    }
}

/// The smallest `e` with `x <= 2^e`, for positive finite `x`.
pub(crate) fn exponent_above(x: f64) -> i32 {
    let (x, shift) = if x < f64::MIN_POSITIVE {
        (x * power_of_two(64), 64)
    } else {
        (x, 0)
    };
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    let exact = bits & ((1 << 52) - 1) == 0;
    exponent + i32::from(!exact) - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_of_powers_and_their_neighbours() {
        assert_eq!(exponent_above(1.0), 0);
        assert_eq!(exponent_above(1.5), 1);
        assert_eq!(exponent_above(0.5), -1);
        assert_eq!(exponent_above(f64::MAX), 1024);
        assert_eq!(exponent_above(5e-324), -1074);
        assert_eq!(exponent_above(f64::MIN_POSITIVE), -1022);
    }

    #[test]
    fn scaling_is_undone_exactly() {
        for x in [5e-324, 3e-310, 1e-300, 1e-50, 0.3, 1.0, 7e160, 1.7e308] {
            let scaling = Scaling::<f64>::to_unit(x);
            let y = scaling.apply(x);
            assert!((0.5..=1.0).contains(&y), "{x} became {y}");
            assert_eq!(scaling.inverse().apply(y), x);
        }
        for x in [1e-45f32, 1e-38, 1e-10, 1.0, 3e38] {
            let scaling = Scaling::<f32>::to_unit(f64::from(x));
            let y = scaling.apply(x);
            assert!((0.5..=1.0).contains(&y), "{x} became {y}");
            assert_eq!(scaling.inverse().apply(y), x);
        }
    }
}
