//! Products of complex numbers that stay in pairs: two registers of sums, put together once at the end.
//!
//! For `(r + i I)(x + y I)` one register sums `(r x, i x)` and the other `(r y, i y)`; the product is the first plus the
//! second with its lanes exchanged and signs set, so that nothing is taken apart on the way.

use crate::simd::Vector;
use treadle_core::Element;

/// The signs that put the two sums together, for factors that are conjugated or not.
#[derive(Clone, Copy)]
pub(crate) struct Signs<V> {
    straight: V,
    crossed: V,
}

impl<V: Vector> Signs<V>
where
    V::Real: Element,
{
    /// # Safety
    /// The machine has the instruction set; so for `join`.
    #[inline(always)]
    pub(crate) unsafe fn new(conj: [bool; 2]) -> Self {
        let one = V::Real::ONE;
        let sign = |minus: bool| if minus { V::Real::ZERO.sub(one) } else { one };
        let pairs = |even: bool, odd: bool| {
            let lanes: [V::Real; 64] =
                std::array::from_fn(|lane| sign(if lane.is_multiple_of(2) { even } else { odd }));
            // SAFETY: no register has more lanes.
            unsafe { V::load(lanes.as_ptr()) }
        };
        Signs {
            straight: pairs(false, conj[0]),
            crossed: pairs(conj[0] == conj[1], conj[1]),
        }
    }

    /// The products' sum, of `(r x, i x)` and `(r y, i y)`.
    ///
    /// # Safety
    /// As `new`.
    #[inline(always)]
    pub(crate) unsafe fn join(&self, straight: V, crossed: V) -> V {
        // SAFETY: passed on.
        unsafe {
            straight
                .mul(self.straight)
                .mul_add(crossed.swap_pairs(), self.crossed)
        }
    }
}

/// True when an element is a pair of what the register holds.
#[inline(always)]
pub(crate) const fn is_pair<T, V: Vector>() -> bool {
    size_of::<T>() > size_of::<V::Real>()
}
