//! 128-bit registers of aarch64.

use super::Vector;
use std::arch::aarch64::*;

/// Two doubles.
pub(crate) type F64 = float64x2_t;
/// Four singles.
pub(crate) type F32 = float32x4_t;

macro_rules! vector {
    ($vector:ty, $real:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add:ident, $mul:ident,
     $fma:ident, $fms:ident, $zip1:ident, $zip2:ident, $uzp1:ident, $uzp2:ident,
     $swap:expr, $even:expr, $odd:expr) => {
        // SAFETY: the plain forms touch one register's worth of elements, the others those that are counted.
        unsafe impl Vector for $vector {
            type Real = $real;
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: every aarch64 has these instructions; so for each below.
                unsafe { $splat(0.0) }
            }

            #[inline(always)]
            unsafe fn splat(value: $real) -> Self {
                // SAFETY: as above.
                unsafe { $splat(value) }
            }

            #[inline(always)]
            unsafe fn load(from: *const $real) -> Self {
                // SAFETY: a register's worth of elements is readable.
                unsafe { $load(from) }
            }

            #[inline(always)]
            unsafe fn load_first(from: *const $real, count: usize) -> Self {
                let mut lanes = [0.0; $lanes];
                // SAFETY: `count` elements are readable, and the array holds a register.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
                    $load(lanes.as_ptr())
                }
            }

            #[inline(always)]
            unsafe fn store(self, to: *mut $real) {
                // SAFETY: a register's worth of elements is writeable.
                unsafe { $store(to, self) };
            }

            #[inline(always)]
            unsafe fn store_first(self, to: *mut $real, count: usize) {
                let mut lanes = [0.0; $lanes];
                // SAFETY: the array holds a register, and `count` elements are writeable.
                unsafe {
                    $store(lanes.as_mut_ptr(), self);
                    std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
                }
            }

            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, other) }
            }

            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $mul(self, other) }
            }

            #[inline(always)]
            unsafe fn mul_add(self, left: Self, right: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fma(self, left, right) }
            }

            #[inline(always)]
            unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fms(self, left, right) }
            }

            #[inline(always)]
            unsafe fn interleave(self, other: Self) -> (Self, Self) {
                // SAFETY: as above.
                unsafe { ($zip1(self, other), $zip2(self, other)) }
            }

            #[inline(always)]
            unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
                // SAFETY: as above.
                unsafe { ($uzp1(self, other), $uzp2(self, other)) }
            }

            #[inline(always)]
            unsafe fn swap_pairs(self) -> Self {
                // SAFETY: as above.
                unsafe { $swap(self) }
            }

            #[inline(always)]
            unsafe fn even_pairs(self) -> Self {
                // SAFETY: as above.
                unsafe { $even(self) }
            }

            #[inline(always)]
            unsafe fn odd_pairs(self) -> Self {
                // SAFETY: as above.
                unsafe { $odd(self) }
            }
        }
    };
}

vector! {
    F64, f64, 2, vdupq_n_f64, vld1q_f64, vst1q_f64, vaddq_f64, vmulq_f64, vfmaq_f64, vfmsq_f64,
    vzip1q_f64, vzip2q_f64, vuzp1q_f64, vuzp2q_f64,
    |x| vextq_f64::<1>(x, x), vdupq_laneq_f64::<0>, vdupq_laneq_f64::<1>
}
vector! {
    F32, f32, 4, vdupq_n_f32, vld1q_f32, vst1q_f32, vaddq_f32, vmulq_f32, vfmaq_f32, vfmsq_f32,
    vzip1q_f32, vzip2q_f32, vuzp1q_f32, vuzp2q_f32,
    |x| vrev64q_f32(x), |x| vtrn1q_f32(x, x), |x| vtrn2q_f32(x, x)
}
