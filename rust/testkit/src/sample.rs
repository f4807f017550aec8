//! Test values of each element type.

use crate::Random;
use treadle_core::{Bool, Complex32, Complex64, Element};

/// Element types with test values.
pub trait Sample: Element {
    /// What memory holds that must not be read: NaN, or a conspicuous number.
    fn poison() -> Self;
    /// A small integer, so that sums and products are exact.
    fn small(random: &mut Random) -> Self;
    /// A value with all its bits in use.
    fn rough(random: &mut Random) -> Self;
    /// Equal bit for bit, NaN included.
    fn same_bits(self, other: Self) -> bool;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Sample for $t {
            fn poison() -> Self {
                0x5A as $t
            }
            fn small(random: &mut Random) -> Self {
                random.between(-4, 4) as $t
            }
            fn rough(random: &mut Random) -> Self {
                random.bits() as $t
            }
            fn same_bits(self, other: Self) -> bool {
                self == other
            }
        }
    )*};
}
integers!(u8, i8, u16, i16, u32, i32, u64, i64);

impl Sample for Bool {
    fn poison() -> Self {
        Bool(1)
    }
    fn small(random: &mut Random) -> Self {
        Bool(u8::from(random.once_in(3)))
    }
    fn rough(random: &mut Random) -> Self {
        Self::small(random)
    }
    fn same_bits(self, other: Self) -> bool {
        self == other
    }
}

macro_rules! reals {
    ($($t:ident),*) => {$(
        impl Sample for $t {
            fn poison() -> Self {
                $t::NAN
            }
            fn small(random: &mut Random) -> Self {
                random.between(-4, 4) as $t
            }
            fn rough(random: &mut Random) -> Self {
                (random.unit() * 2.0 - 1.0) as $t
            }
            fn same_bits(self, other: Self) -> bool {
                self.to_bits() == other.to_bits()
            }
        }
    )*};
}
reals!(f32, f64);

macro_rules! complexes {
    ($($t:ident, $real:ident;)*) => {$(
        impl Sample for $t {
            fn poison() -> Self {
                $t::new($real::NAN, $real::NAN)
            }
            fn small(random: &mut Random) -> Self {
                $t::new($real::small(random), $real::small(random))
            }
            fn rough(random: &mut Random) -> Self {
                $t::new($real::rough(random), $real::rough(random))
            }
            fn same_bits(self, other: Self) -> bool {
                self.re.same_bits(other.re) && self.im.same_bits(other.im)
            }
        }
    )*};
}
complexes! { Complex32, f32; Complex64, f64; }
