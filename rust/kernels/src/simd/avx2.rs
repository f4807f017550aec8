//! 256-bit registers with fused multiply-add.

use super::Vector;
use std::arch::x86_64::*;
use std::marker::PhantomData;
use treadle_core::Element;

/// Four doubles.
pub(crate) type F64 = __m256d;
/// Eight singles.
pub(crate) type F32 = __m256;

// SAFETY: the plain forms touch one register's worth of elements, the others those that are counted.
unsafe impl Vector for F64 {
    type Real = f64;
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX2.
        unsafe { _mm256_setzero_pd() }
    }

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: four elements are readable.
        unsafe { _mm256_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f64, count: usize) -> Self {
        // SAFETY: the mask names `count` readable elements.
        unsafe {
            let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
            _mm256_maskload_pd(from, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), lanes))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: four elements are writeable.
        unsafe { _mm256_storeu_pd(to, self) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, count: usize) {
        // Masked stores are slow on some machines; a part goes through the stack.
        let mut lanes = [0.0; 4];
        // SAFETY: the array holds a register, and `count` elements are writeable.
        unsafe {
            self.store(lanes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        unsafe { _mm256_add_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        // SAFETY: the machine has FMA.
        unsafe { _mm256_fmadd_pd(left, right, self) }
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_fnmadd_pd(left, right, self) }
    }

    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: the machine has AVX2.
        unsafe {
            let (low, high) = (_mm256_unpacklo_pd(self, other), _mm256_unpackhi_pd(self, other));
            (
                _mm256_permute2f128_pd::<0x20>(low, high),
                _mm256_permute2f128_pd::<0x31>(low, high),
            )
        }
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let (low, high) = (
                _mm256_permute2f128_pd::<0x20>(self, other),
                _mm256_permute2f128_pd::<0x31>(self, other),
            );
            (_mm256_unpacklo_pd(low, high), _mm256_unpackhi_pd(low, high))
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_permute_pd::<0b0101>(self) }
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_movedup_pd(self) }
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_permute_pd::<0b1111>(self) }
    }
}

// SAFETY: as above.
unsafe impl Vector for F32 {
    type Real = f32;
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has AVX2.
        unsafe { _mm256_setzero_ps() }
    }

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: eight elements are readable.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: the mask names `count` readable elements.
        unsafe {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: eight elements are writeable.
        unsafe { _mm256_storeu_ps(to, self) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        let mut lanes = [0.0; 8];
        // SAFETY: the array holds a register, and `count` elements are writeable.
        unsafe {
            self.store(lanes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the machine has AVX2.
        unsafe { _mm256_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        // SAFETY: the machine has FMA.
        unsafe { _mm256_fmadd_ps(left, right, self) }
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_fnmadd_ps(left, right, self) }
    }

    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        // SAFETY: the machine has AVX2.
        unsafe {
            let (low, high) = (_mm256_unpacklo_ps(self, other), _mm256_unpackhi_ps(self, other));
            (
                _mm256_permute2f128_ps::<0x20>(low, high),
                _mm256_permute2f128_ps::<0x31>(low, high),
            )
        }
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        // SAFETY: as above.
        unsafe {
            let (low, high) = (
                _mm256_permute2f128_ps::<0x20>(self, other),
                _mm256_permute2f128_ps::<0x31>(self, other),
            );
            (
                _mm256_shuffle_ps::<0b10_00_10_00>(low, high),
                _mm256_shuffle_ps::<0b11_01_11_01>(low, high),
            )
        }
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_permute_ps::<0b10_11_00_01>(self) }
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_moveldup_ps(self) }
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        // SAFETY: as above.
        unsafe { _mm256_movehdup_ps(self) }
    }
}

/// 32 bytes of integers of two, four or eight bytes, of either sign: wrapping arithmetic does not see it.
#[derive(Clone, Copy)]
pub(crate) struct Int<T>(__m256i, PhantomData<T>);

impl<T> Int<T> {
    #[inline(always)]
    fn of(register: __m256i) -> Self {
        Int(register, PhantomData)
    }
}

// SAFETY: as above.
unsafe impl<T: Element> Vector for Int<T> {
    type Real = T;
    const LANES: usize = 32 / size_of::<T>();

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the machine has the instruction set; so for each below.
        unsafe { Int::of(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        // SAFETY: as above; the element is read as an integer of its own size.
        unsafe {
            let at = &raw const value;
            Int::of(match size_of::<T>() {
                2 => _mm256_set1_epi16(at.cast::<i16>().read()),
                4 => _mm256_set1_epi32(at.cast::<i32>().read()),
                _ => _mm256_set1_epi64x(at.cast::<i64>().read()),
            })
        }
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: a register's worth of elements is readable.
        unsafe { Int::of(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        let mut lanes = [0u8; 32];
        // SAFETY: `count` elements are readable, and the array holds a register.
        unsafe {
            std::ptr::copy_nonoverlapping(from.cast::<u8>(), lanes.as_mut_ptr(), count * size_of::<T>());
            Int::of(_mm256_loadu_si256(lanes.as_ptr().cast()))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: a register's worth of elements is writeable.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        let mut lanes = [0u8; 32];
        // SAFETY: the array holds a register, and `count` elements are writeable.
        unsafe {
            _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.0);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), to.cast::<u8>(), count * size_of::<T>());
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Int::of(match size_of::<T>() {
                2 => _mm256_add_epi16(self.0, other.0),
                4 => _mm256_add_epi32(self.0, other.0),
                _ => _mm256_add_epi64(self.0, other.0),
            })
        }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as above.
        unsafe {
            Int::of(match size_of::<T>() {
                2 => _mm256_mullo_epi16(self.0, other.0),
                4 => _mm256_mullo_epi32(self.0, other.0),
                _ => mul_64(self.0, other.0),
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
                2 => _mm256_sub_epi16(self.0, product.0),
                4 => _mm256_sub_epi32(self.0, product.0),
                _ => _mm256_sub_epi64(self.0, product.0),
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

/// Low halves of the products of 64-bit integers, from products of their halves.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn mul_64(left: __m256i, right: __m256i) -> __m256i {
    // SAFETY: as above.
    unsafe {
        let low = _mm256_mul_epu32(left, right);
        let crossed = _mm256_add_epi64(
            _mm256_mul_epu32(_mm256_srli_epi64::<32>(left), right),
            _mm256_mul_epu32(left, _mm256_srli_epi64::<32>(right)),
        );
        _mm256_add_epi64(low, _mm256_slli_epi64::<32>(crossed))
    }
}
