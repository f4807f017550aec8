//! A number that came from the caller (`alpha`, `beta`), before it has a dtype.

use crate::DType;

/// `alpha` or `beta` as the caller wrote it. Integers stay exact until the element type is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scalar {
    /// An integer; wraps when the element type is narrower.
    Int(i128),
    /// A real number.
    Real(f64),
    /// A complex number.
    Complex(f64, f64),
}

impl Scalar {
    /// One.
    pub const ONE: Scalar = Scalar::Int(1);
    /// Zero.
    pub const ZERO: Scalar = Scalar::Int(0);

    /// True for a zero of any form.
    #[inline]
    pub fn is_zero(self) -> bool {
        match self {
            Scalar::Int(v) => v == 0,
            Scalar::Real(v) => v == 0.0,
            Scalar::Complex(re, im) => re == 0.0 && im == 0.0,
        }
    }

    /// True for a one of any form.
    #[inline]
    pub fn is_one(self) -> bool {
        match self {
            Scalar::Int(v) => v == 1,
            Scalar::Real(v) => v == 1.0,
            Scalar::Complex(re, im) => re == 1.0 && im == 0.0,
        }
    }

    /// True when an array of this dtype can be multiplied by it without changing dtype.
    pub fn fits(self, dtype: DType) -> bool {
        use crate::Kind;
        match (self, dtype.kind()) {
            (Scalar::Int(v), Kind::Bool) => v == 0 || v == 1,
            (Scalar::Int(_), _) => true,
            (Scalar::Real(_), Kind::Float | Kind::Complex) => true,
            (Scalar::Complex(..), Kind::Complex) => true,
            _ => false,
        }
    }
}
