//! How a result joins what stands in its place.

use crate::Beta;
use treadle_core::Element;

impl Beta {
    /// What that factor is.
    #[inline]
    pub fn of<T: Element>(beta: T) -> Beta {
        if beta == T::ZERO {
            Beta::Zero
        } else if beta == T::ONE {
            Beta::One
        } else {
            Beta::Other
        }
    }
}

/// `place = alpha * value + beta * place`. A factor of one is no multiplication: one times `inf + 1j` has no imaginary
/// part.
#[derive(Clone, Copy, Debug)]
pub struct Update<T> {
    alpha: T,
    beta: T,
    scales: bool,
    mode: Beta,
}

impl<T: Element> Update<T> {
    /// With these factors.
    #[inline]
    pub fn new(alpha: T, beta: T) -> Self {
        Update {
            alpha,
            beta,
            scales: alpha != T::ONE,
            mode: Beta::of(beta),
        }
    }

    /// True when a value is written as it is.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.scales && self.mode == Beta::Zero
    }

    /// Puts the value in its place, which is read only when `beta` says that it holds one.
    ///
    /// # Safety
    /// The place is writeable, and initialised unless `beta` is zero.
    #[inline(always)]
    pub unsafe fn put(&self, place: *mut T, value: T) {
        let value = if self.scales { self.alpha.mul(value) } else { value };
        // SAFETY: the caller's word.
        unsafe {
            place.write(match self.mode {
                Beta::Zero => value,
                Beta::One => value.add(place.read()),
                Beta::Other => value.add(self.beta.mul(place.read())),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treadle_core::Complex64;

    #[test]
    fn a_factor_of_one_multiplies_nothing() {
        let (one, zero) = (Complex64::new(1.0, 0.0), Complex64::new(0.0, 0.0));
        let far = Complex64::new(f64::INFINITY, 1.0);
        let mut place = far;
        // SAFETY: one element.
        unsafe { Update::new(one, one).put(&mut place, Complex64::new(2.0, 3.0)) };
        assert_eq!(place, Complex64::new(f64::INFINITY, 4.0));
        place = Complex64::new(f64::NAN, f64::NAN);
        // SAFETY: as above.
        unsafe { Update::new(one, zero).put(&mut place, far) };
        assert_eq!(place, far);
        let mut number = 5i32;
        // SAFETY: as above.
        unsafe { Update::new(3, -2).put(&mut number, 7) };
        assert_eq!(number, 11);
        assert!(Update::new(1i8, 0).is_plain() && !Update::new(1i8, 1).is_plain());
        assert!(!Update::new(2i8, 0).is_plain());
    }
}
