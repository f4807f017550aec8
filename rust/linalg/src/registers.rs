//! Several elements at once, in arrays that the compiler keeps in vector registers.

use crate::field::Field;

/// `N` elements.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<T, const N: usize>(pub(crate) [T; N]);

impl<T: Field, const N: usize> Lanes<T, N> {
    /// # Safety
    /// `N` elements are readable.
    #[inline(always)]
    pub(crate) unsafe fn load(from: *const T) -> Self {
        // SAFETY: passed on.
        Lanes(unsafe { from.cast::<[T; N]>().read() })
    }

    /// # Safety
    /// `N` elements are writeable.
    #[inline(always)]
    pub(crate) unsafe fn store(self, to: *mut T) {
        // SAFETY: passed on.
        unsafe { to.cast::<[T; N]>().write(self.0) }
    }

    /// `self - left * right` with one number on the right.
    #[inline(always)]
    pub(crate) fn minus_product<const FUSED: bool>(mut self, left: Self, right: T) -> Self {
        for lane in 0..N {
            self.0[lane] = self.0[lane].minus_product::<FUSED>(left.0[lane], right);
        }
        self
    }

    /// Each lane divided.
    #[inline(always)]
    pub(crate) fn over(mut self, divisor: T::Divisor) -> Self {
        for lane in 0..N {
            self.0[lane] = self.0[lane].over(divisor);
        }
        self
    }

    /// Each part of each lane divided.
    #[inline(always)]
    pub(crate) fn over_real(mut self, divisor: T::R) -> Self {
        for lane in 0..N {
            let x = self.0[lane];
            self.0[lane] = T::from_parts(x.re() / divisor, x.im() / divisor);
        }
        self
    }
}
