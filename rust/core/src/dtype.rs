//! The closed set of element types.

use std::fmt;

/// The kind of a dtype, in numpy's order of promotion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `bool`
    Bool,
    /// `uint8` to `uint64`
    Unsigned,
    /// `int8` to `int64`
    Signed,
    /// `float16`, `bfloat16`, `float32`, `float64`
    Float,
    /// `complex64`, `complex128`
    Complex,
}

macro_rules! dtypes {
    ($($variant:ident, $name:literal, $size:literal, $kind:ident;)*) => {
        /// An element type. Names are numpy's.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum DType {
            $(#[doc = $name] $variant,)*
        }

        impl DType {
            /// Every dtype, in the order of the enum.
            pub const ALL: &'static [DType] = &[$(DType::$variant),*];

            /// numpy's name.
            #[inline]
            pub const fn name(self) -> &'static str {
                match self { $(DType::$variant => $name,)* }
            }

            /// Bytes of one element.
            #[inline]
            pub const fn size(self) -> usize {
                match self { $(DType::$variant => $size,)* }
            }

            /// Bool, unsigned, signed, float or complex.
            #[inline]
            pub const fn kind(self) -> Kind {
                match self { $(DType::$variant => Kind::$kind,)* }
            }
        }
    };
}

dtypes! {
    Bool, "bool", 1, Bool;
    U8, "uint8", 1, Unsigned;
    I8, "int8", 1, Signed;
    U16, "uint16", 2, Unsigned;
    I16, "int16", 2, Signed;
    U32, "uint32", 4, Unsigned;
    I32, "int32", 4, Signed;
    U64, "uint64", 8, Unsigned;
    I64, "int64", 8, Signed;
    F16, "float16", 2, Float;
    BF16, "bfloat16", 2, Float;
    F32, "float32", 4, Float;
    F64, "float64", 8, Float;
    C64, "complex64", 8, Complex;
    C128, "complex128", 16, Complex;
}

impl DType {
    /// The dtype in which a contraction of this dtype accumulates: half precisions use `float32`, every other
    /// dtype itself.
    #[inline]
    pub const fn accumulator(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The dtype of the real part: `float32` for `complex64`, itself where there is no imaginary part.
    #[inline]
    pub const fn real(self) -> DType {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            other => other,
        }
    }

    /// True for `complex64` and `complex128`.
    #[inline]
    pub const fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The dtype that numpy promotes two dtypes to; `None` where it has none, and for `bfloat16` beside another dtype,
    /// which the package that has it decides.
    ///
    /// The smallest kind that both have, in the smallest size that holds both without loss, where there is one:
    /// `int64` beside `uint64` is `float64`, and so is a 32-bit integer beside a `float32`.
    pub fn promoted(self, other: DType) -> Option<DType> {
        if self == other {
            return Some(self);
        }
        if self == DType::BF16 || other == DType::BF16 {
            return None;
        }
        let (low, high) = if self.kind() <= other.kind() {
            (self, other)
        } else {
            (other, self)
        };
        Some(match (low.kind(), high.kind()) {
            (Kind::Bool, _) => high,
            (one, another) if one == another => {
                if low.size() >= high.size() {
                    low
                } else {
                    high
                }
            }
            (Kind::Unsigned, Kind::Signed) => match low.size().max(high.size() / 2) {
                1 => DType::I16,
                2 => DType::I32,
                4 => DType::I64,
                _ => DType::F64,
            },
            // The bits of the significand decide how wide a float must be.
            (Kind::Unsigned | Kind::Signed, _) => match (low.size(), high) {
                (1, _) => high,
                (2, DType::F16) => DType::F32,
                (2, _) => high,
                (_, DType::C64 | DType::C128) => DType::C128,
                _ => DType::F64,
            },
            _ => match (low, high) {
                (DType::F64, _) => DType::C128,
                _ => high,
            },
        })
    }

    /// The dtype of that numpy name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found_again() {
        for &dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(DType::ALL.len(), 15);
        assert_eq!(DType::from_name("longdouble"), None);
    }

    #[test]
    fn promotion_is_symmetric_and_loses_nothing() {
        for &one in DType::ALL {
            assert_eq!(one.promoted(one), Some(one));
            for &other in DType::ALL {
                let common = one.promoted(other);
                assert_eq!(common, other.promoted(one));
                if let Some(common) = common {
                    assert!(common.size() >= one.size() && common.kind() >= one.kind());
                    assert_eq!(common.promoted(one), Some(common));
                } else {
                    assert!(one != other && (one == DType::BF16 || other == DType::BF16));
                }
            }
        }
        for (one, other, common) in [
            (DType::I8, DType::U8, DType::I16),
            (DType::I32, DType::U8, DType::I32),
            (DType::U32, DType::I8, DType::I64),
            (DType::U64, DType::I8, DType::F64),
            (DType::Bool, DType::F16, DType::F16),
            (DType::U8, DType::F16, DType::F16),
            (DType::I16, DType::F16, DType::F32),
            (DType::I32, DType::F16, DType::F64),
            (DType::I32, DType::C64, DType::C128),
            (DType::U16, DType::C64, DType::C64),
            (DType::F64, DType::C64, DType::C128),
            (DType::F16, DType::C64, DType::C64),
            (DType::F16, DType::F32, DType::F32),
        ] {
            assert_eq!(one.promoted(other), Some(common), "{one} {other}");
        }
    }

    #[test]
    fn half_precision_accumulates_in_single() {
        assert_eq!(DType::F16.accumulator(), DType::F32);
        assert_eq!(DType::BF16.accumulator(), DType::F32);
        assert_eq!(DType::I8.accumulator(), DType::I8);
    }
}
