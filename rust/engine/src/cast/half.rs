//! Half precisions to single precision and back.

use treadle_core::DType;
use treadle_core::half::{bf16_from_f32, f16_from_f32, f16_from_f64, f32_from_bf16, f32_from_f16};

use super::Row;

/// From a half precision to `float32`.
pub(super) fn widen(from: DType) -> Row {
    match from {
        DType::BF16 => map::<u16, f32, { BF16 }>,
        #[cfg(target_arch = "x86_64")]
        _ if f16c::is_there() => f16c::widen,
        _ => map::<u16, f32, { F16 }>,
    }
}

/// From `float32`, or `float64` for `float16` alone, to a half precision.
pub(super) fn round(from: DType, to: DType) -> Row {
    match (from, to) {
        (_, DType::BF16) => map::<f32, u16, { BF16 }>,
        (DType::F64, _) => map::<f64, u16, { F16 }>,
        #[cfg(target_arch = "x86_64")]
        _ if f16c::is_there() => f16c::round,
        _ => map::<f32, u16, { F16 }>,
    }
}

const F16: bool = false;
const BF16: bool = true;

/// One conversion; `IS_BRAIN` for `bfloat16`.
trait Into<T, const IS_BRAIN: bool>: Copy {
    fn converted(self) -> T;
}

impl Into<f32, F16> for u16 {
    #[inline(always)]
    fn converted(self) -> f32 {
        f32_from_f16(self)
    }
}

impl Into<f32, BF16> for u16 {
    #[inline(always)]
    fn converted(self) -> f32 {
        f32_from_bf16(self)
    }
}

impl Into<u16, F16> for f32 {
    #[inline(always)]
    fn converted(self) -> u16 {
        f16_from_f32(self)
    }
}

impl Into<u16, BF16> for f32 {
    #[inline(always)]
    fn converted(self) -> u16 {
        bf16_from_f32(self)
    }
}

impl Into<u16, F16> for f64 {
    #[inline(always)]
    fn converted(self) -> u16 {
        f16_from_f64(self)
    }
}

/// # Safety
/// As [`Row`], from `S` to `T`.
unsafe fn map<S: Into<T, IS_BRAIN>, T, const IS_BRAIN: bool>(
    n: usize,
    from: *const u8,
    from_stride: isize,
    to: *mut u8,
    to_stride: isize,
) {
    if from_stride == size_of::<S>() as isize && to_stride == size_of::<T>() as isize {
        for at in 0..n {
            // SAFETY: dense elements, by the caller's contract.
            unsafe {
                let value = from.cast::<S>().add(at).read_unaligned();
                to.cast::<T>().add(at).write_unaligned(value.converted());
            }
        }
        return;
    }
    for at in 0..n as isize {
        // SAFETY: the elements at `at`, by the caller's contract.
        unsafe {
            let value = from.offset(at * from_stride).cast::<S>().read_unaligned();
            to.offset(at * to_stride)
                .cast::<T>()
                .write_unaligned(value.converted());
        }
    }
}

/// Eight at a time, by the processor's own instruction.
#[cfg(target_arch = "x86_64")]
mod f16c {
    use super::{F16, map};
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps, _mm256_cvtps_ph,
        _mm256_loadu_ps, _mm256_storeu_ps,
    };

    const LANES: usize = 8;

    pub(super) fn is_there() -> bool {
        std::arch::is_x86_feature_detected!("f16c") && std::arch::is_x86_feature_detected!("avx")
    }

    /// # Safety
    /// As [`super::Row`], from `float16` to `float32`; the processor has F16C.
    pub(super) unsafe fn widen(n: usize, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize) {
        let mut done = 0;
        if from_stride == 2 && to_stride == 4 {
            done = n / LANES * LANES;
            // SAFETY: that many dense elements; `is_there` said so before this function was chosen.
            unsafe { widen_dense(done, from.cast(), to.cast()) };
        }
        let at = done as isize;
        // SAFETY: what is left, by the caller's contract.
        unsafe {
            map::<u16, f32, { F16 }>(
                n - done,
                from.offset(at * from_stride),
                from_stride,
                to.offset(at * to_stride),
                to_stride,
            );
        }
    }

    /// # Safety
    /// As [`super::Row`], from `float32` to `float16`; the processor has F16C.
    pub(super) unsafe fn round(n: usize, from: *const u8, from_stride: isize, to: *mut u8, to_stride: isize) {
        let mut done = 0;
        if from_stride == 4 && to_stride == 2 {
            done = n / LANES * LANES;
            // SAFETY: that many dense elements; `is_there` said so before this function was chosen.
            unsafe { round_dense(done, from.cast(), to.cast()) };
        }
        let at = done as isize;
        // SAFETY: what is left, by the caller's contract.
        unsafe {
            map::<f32, u16, { F16 }>(
                n - done,
                from.offset(at * from_stride),
                from_stride,
                to.offset(at * to_stride),
                to_stride,
            );
        }
    }

    /// # Safety
    /// `n` is a multiple of eight, and both sides have that many elements.
    #[target_feature(enable = "avx,f16c")]
    unsafe fn widen_dense(n: usize, from: *const u16, to: *mut f32) {
        for at in (0..n).step_by(LANES) {
            // SAFETY: eight elements at `at`, in loads and stores that need no alignment.
            unsafe {
                let halves = _mm_loadu_si128(from.add(at).cast());
                _mm256_storeu_ps(to.add(at), _mm256_cvtph_ps(halves));
            }
        }
    }

    /// # Safety
    /// `n` is a multiple of eight, and both sides have that many elements.
    #[target_feature(enable = "avx,f16c")]
    unsafe fn round_dense(n: usize, from: *const f32, to: *mut u16) {
        for at in (0..n).step_by(LANES) {
            // SAFETY: eight elements at `at`, in loads and stores that need no alignment.
            unsafe {
                let values = _mm256_loadu_ps(from.add(at));
                let halves = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(values);
                _mm_storeu_si128(to.add(at).cast(), halves);
            }
        }
    }
}
