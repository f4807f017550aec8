//! 512-bit registers.

use super::Vector;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use treadle_core::Element;

/// Eight doubles.
pub(crate) type F64 = __m512d;
/// Sixteen singles.
pub(crate) type F32 = __m512;

// SAFETY: the plain forms touch one register's worth of elements, the masked ones those of the mask.
unsafe impl Vector for F64 {
    type Real = f64;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX-512.
        unsafe { _mm512_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: eight elements are readable.
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f64, count: usize) -> Self {
        // SAFETY: the mask names `count` readable elements.
        unsafe { _mm512_maskz_loadu_pd(((1u32 << count) - 1) as __mmask8, from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: eight elements are writeable.
        unsafe { _mm512_storeu_pd(to, self) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, count: usize) {
        // SAFETY: the mask names `count` writeable elements.
        unsafe { _mm512_mask_storeu_pd(to, ((1u32 << count) - 1) as __mmask8, self) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512.
        unsafe { _mm512_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_pd(left, right, self) }
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fnmadd_pd(left, right, self) }
    }

    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
            let high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
            (
                _mm512_permutex2var_pd(self, low, other),
                _mm512_permutex2var_pd(self, high, other),
            )
        }
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let even = _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14);
            let odd = _mm512_setr_epi64(1, 3, 5, 7, 9, 11, 13, 15);
            (
                _mm512_permutex2var_pd(self, even, other),
                _mm512_permutex2var_pd(self, odd, other),
            )
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_permute_pd::<0x55>(self) }
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_movedup_pd(self) }
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_permute_pd::<0xff>(self) }
    }
}

// SAFETY: as above.
unsafe impl Vector for F32 {
    type Real = f32;
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX-512.
        unsafe { _mm512_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: sixteen elements are readable.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: the mask names `count` readable elements.
        unsafe { _mm512_maskz_loadu_ps(((1u32 << count) - 1) as __mmask16, from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: sixteen elements are writeable.
        unsafe { _mm512_storeu_ps(to, self) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: the mask names `count` writeable elements.
        unsafe { _mm512_mask_storeu_ps(to, ((1u32 << count) - 1) as __mmask16, self) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX-512.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fmadd_ps(left, right, self) }
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_fnmadd_ps(left, right, self) }
    }

    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            (
                _mm512_permutex2var_ps(self, low, other),
                _mm512_permutex2var_ps(self, high, other),
            )
        }
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
            (
                _mm512_permutex2var_ps(self, even, other),
                _mm512_permutex2var_ps(self, odd, other),
            )
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_permute_ps::<0b10_11_00_01>(self) }
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_moveldup_ps(self) }
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm512_movehdup_ps(self) }
    }
}

/// 64 bytes of integers of two, four or eight bytes, of either sign: wrapping arithmetic does not see it.
#[derive(Clone, Copy)]
pub(crate) struct Int<T>(__m512i, PhantomData<T>);

impl<T> Int<T> {
    #[inline(always)]
    fn of(register: __m512i) -> Self {
        Int(register, PhantomData)
    }
}

// SAFETY: as above.
unsafe impl<T: Element> Vector for Int<T> {
    type Real = T;
    const LANES: usize = 64 / size_of::<T>();

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has the instruction set; so for each below.
        unsafe { Int::of(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        // SAFETY: as above; the element is read as an integer of its own size.
        unsafe {
            let at = &raw const value;
            Int::of(match size_of::<T>() {
                2 => _mm512_set1_epi16(at.cast::<i16>().read()),
                4 => _mm512_set1_epi32(at.cast::<i32>().read()),
                _ => _mm512_set1_epi64(at.cast::<i64>().read()),
            })
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: a register's worth of elements is readable.
        unsafe { Int::of(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        // SAFETY: the masks name `count` readable elements.
        unsafe {
            Int::of(match size_of::<T>() {
                2 => _mm512_maskz_loadu_epi16(((1u64 << count) - 1) as __mmask32, from.cast()),
                4 => _mm512_maskz_loadu_epi32(((1u32 << count) - 1) as __mmask16, from.cast()),
                _ => _mm512_maskz_loadu_epi64(((1u32 << count) - 1) as __mmask8, from.cast()),
            })
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: a register's worth of elements is writeable.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        // SAFETY: the masks name `count` writeable elements.
        unsafe {
            match size_of::<T>() {
                2 => _mm512_mask_storeu_epi16(to.cast(), ((1u64 << count) - 1) as __mmask32, self.0),
                4 => _mm512_mask_storeu_epi32(to.cast(), ((1u32 << count) - 1) as __mmask16, self.0),
                _ => _mm512_mask_storeu_epi64(to.cast(), ((1u32 << count) - 1) as __mmask8, self.0),
            }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Int::of(match size_of::<T>() {
                2 => _mm512_add_epi16(self.0, other.0),
                4 => _mm512_add_epi32(self.0, other.0),
                _ => _mm512_add_epi64(self.0, other.0),
            })
        }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Int::of(match size_of::<T>() {
                2 => _mm512_mullo_epi16(self.0, other.0),
                4 => _mm512_mullo_epi32(self.0, other.0),
                _ => _mm512_mullo_epi64(self.0, other.0),
            })
        }
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { self.add(left.mul(right)) }
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            let product = left.mul(right);
            Int::of(match size_of::<T>() {
                2 => _mm512_sub_epi16(self.0, product.0),
                4 => _mm512_sub_epi32(self.0, product.0),
                _ => _mm512_sub_epi64(self.0, product.0),
            })
        }
    }

    // No complex number has integer parts.
    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        (self, other)
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        (self, other)
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        self
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        self
    }
}
