//! Numbers of several matrices side by side, with the arithmetic of the small decompositions.

use crate::svd::kernels::fma;

/// One number of each of `W` matrices. What a lane holds depends on its own numbers only, and is the same bits in every type
/// with the same rounding of `mul_add`.
///
/// # Safety
/// `load` and `store` touch `W` numbers from their pointer on and nothing else.
pub(crate) unsafe trait Lanes: Copy {
    /// How many.
    const W: usize;
    /// The same number in every lane.
    ///
    /// # Safety
    /// The machine has the instruction set of the type; so for every method.
    unsafe fn splat(x: f64) -> Self;
    /// # Safety
    /// `W` numbers are readable.
    unsafe fn load(from: *const f64) -> Self;
    /// # Safety
    /// `W` numbers are writeable.
    unsafe fn store(self, to: *mut f64);
    /// # Safety
    /// As `splat`.
    unsafe fn add(self, other: Self) -> Self;
    /// # Safety
    /// As `splat`.
    unsafe fn sub(self, other: Self) -> Self;
    /// # Safety
    /// As `splat`.
    unsafe fn mul(self, other: Self) -> Self;
    /// # Safety
    /// As `splat`.
    unsafe fn div(self, other: Self) -> Self;
    /// `self * factor + summand`.
    ///
    /// # Safety
    /// As `splat`.
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self;
    /// # Safety
    /// As `splat`.
    unsafe fn root(self) -> Self;
    /// # Safety
    /// As `splat`.
    unsafe fn magnitude(self) -> Self;
    /// The lanes, by bits, that are greater than the other's.
    ///
    /// # Safety
    /// As `splat`.
    unsafe fn above(self, other: Self) -> u8;
    /// The lanes of the mask from `self`, the others from `other`.
    ///
    /// # Safety
    /// As `splat`.
    unsafe fn choose(self, mask: u8, other: Self) -> Self;
}

/// Plain arithmetic, `N` at once.
#[derive(Clone, Copy)]
pub(crate) struct Plain<const N: usize, const FUSED: bool>([f64; N]);

impl<const N: usize, const FUSED: bool> Plain<N, FUSED> {
    #[inline(always)]
    fn each(f: impl Fn(usize) -> f64) -> Self {
        let mut out = [0.0; N];
        for (l, out) in out.iter_mut().enumerate() {
            *out = f(l);
        }
        Plain(out)
    }
}

// SAFETY: loads and stores move arrays of N numbers.
unsafe impl<const N: usize, const FUSED: bool> Lanes for Plain<N, FUSED> {
    const W: usize = N;
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        Plain([x; N])
    }
    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the caller vouches for N numbers.
        Plain(unsafe { from.cast::<[f64; N]>().read() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the caller vouches for N numbers.
        unsafe { to.cast::<[f64; N]>().write(self.0) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self::each(|l| self.0[l] + other.0[l])
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        Self::each(|l| self.0[l] - other.0[l])
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Self::each(|l| self.0[l] * other.0[l])
    }
    #[inline(always)]
    unsafe fn div(self, other: Self) -> Self {
        Self::each(|l| self.0[l] / other.0[l])
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
        Self::each(|l| fma::<f64, FUSED>(self.0[l], factor.0[l], summand.0[l]))
    }
    #[inline(always)]
    unsafe fn root(self) -> Self {
        Self::each(|l| self.0[l].sqrt())
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        Self::each(|l| self.0[l].abs())
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> u8 {
        let pairs = self.0.iter().zip(&other.0).enumerate();
        pairs.fold(0, |mask, (l, (x, y))| mask | u8::from(x > y) << l)
    }
    #[inline(always)]
    unsafe fn choose(self, mask: u8, other: Self) -> Self {
        Self::each(|l| if mask >> l & 1 == 1 { self.0[l] } else { other.0[l] })
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::Eight;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    /// One register of AVX-512.
    #[derive(Clone, Copy)]
    pub(crate) struct Eight(__m512d);

    // SAFETY: loads and stores move one register.
    unsafe impl Lanes for Eight {
        const W: usize = 8;
        #[inline(always)]
        unsafe fn splat(x: f64) -> Self {
            // SAFETY: the machine has AVX-512, as the trait asks; so below.
            Eight(unsafe { _mm512_set1_pd(x) })
        }
        #[inline(always)]
        unsafe fn load(from: *const f64) -> Self {
            // SAFETY: eight numbers are readable.
            Eight(unsafe { _mm512_loadu_pd(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f64) {
            // SAFETY: eight numbers are writeable.
            unsafe { _mm512_storeu_pd(to, self.0) }
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_add_pd(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_sub_pd(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_mul_pd(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn div(self, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_div_pd(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul_add(self, factor: Self, summand: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_fmadd_pd(self.0, factor.0, summand.0) })
        }
        #[inline(always)]
        unsafe fn root(self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_sqrt_pd(self.0) })
        }
        #[inline(always)]
        unsafe fn magnitude(self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_abs_pd(self.0) })
        }
        #[inline(always)]
        unsafe fn above(self, other: Self) -> u8 {
            // SAFETY: as in `splat`.
            unsafe { _mm512_cmp_pd_mask::<_CMP_GT_OQ>(self.0, other.0) }
        }
        #[inline(always)]
        unsafe fn choose(self, mask: u8, other: Self) -> Self {
            // SAFETY: as in `splat`.
            Eight(unsafe { _mm512_mask_blend_pd(mask, other.0, self.0) })
        }
    }
}
