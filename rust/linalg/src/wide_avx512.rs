//! The registers of AVX-512.

use crate::side_by_side::MOST_LANES;
use crate::wide::Wide;
use std::arch::x86_64::*;

macro_rules! avx512_register {
    (
        $v:ident, $r:ident, $half:ident, $lanes:literal, $mask:ident, $swap:literal,
        $zero:ident $splat:ident $load:ident $load_part:ident $store:ident $store_part:ident
        $add:ident $sub:ident $mul:ident $div:ident $fma:ident $fnma:ident $permute:ident
        $root:ident $abs:ident $less:ident $blend:ident $four:ident $turn:ident
    ) => {
        impl Wide for $v {
            type R = $r;
            const LANES: usize = $lanes;
            #[inline(always)]
            unsafe fn zero() -> Self {
                // SAFETY: the caller has the instruction set; so below.
                unsafe { $zero() }
            }
            #[inline(always)]
            unsafe fn splat(x: $r) -> Self {
                // SAFETY: as above.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $r) -> Self {
                // SAFETY: as above, and the caller vouches for the reals.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $r, count: usize) -> Self {
                // SAFETY: as above; the mask keeps to `count` reals.
                unsafe { $load_part(((1u32 << count) - 1) as $mask, from) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $r) {
                // SAFETY: as above, and the caller vouches for the reals.
                unsafe { $store(to, self) }
            }
            #[inline(always)]
            unsafe fn store_part(self, to: *mut $r, count: usize) {
                // SAFETY: as above; the mask keeps to `count` reals.
                unsafe { $store_part(to, ((1u32 << count) - 1) as $mask, self) }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $add(self, other) }
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $sub(self, other) }
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $mul(self, other) }
            }
            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $div(self, other) }
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fma(self, factor, other) }
            }
            #[inline(always)]
            unsafe fn fnma(self, factor: Self, other: Self) -> Self {
                // SAFETY: as above.
                unsafe { $fnma(self, factor, other) }
            }
            #[inline(always)]
            unsafe fn swap(self) -> Self {
                // SAFETY: as above.
                unsafe { $permute::<$swap>(self, self) }
            }
            #[inline(always)]
            unsafe fn sums(self) -> ($r, $r) {
                // SAFETY: a register is an array of its lanes.
                let mut lanes: [$r; $lanes] = unsafe { std::mem::transmute(self) };
                let mut width = $lanes / 2;
                while width > 1 {
                    for i in 0..width {
                        lanes[i] += lanes[i + width];
                    }
                    width /= 2;
                }
                (lanes[0], lanes[1])
            }
            #[inline(always)]
            unsafe fn four_sums(registers: [Self; 4]) -> [$r; 4] {
                // SAFETY: as above.
                unsafe { $four(registers) }
            }
            #[inline(always)]
            unsafe fn root(self) -> Self {
                // SAFETY: as above.
                unsafe { $root(self) }
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                // SAFETY: as above.
                unsafe { $abs(self) }
            }
            #[inline(always)]
            unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
                // SAFETY: as above.
                unsafe { $blend($less::<_CMP_LT_OQ>(self, other), no, yes) }
            }
            #[inline(always)]
            unsafe fn any_less(self, other: Self) -> bool {
                // SAFETY: as above.
                unsafe { $less::<_CMP_LT_OQ>(self, other) != 0 }
            }
            #[inline(always)]
            unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
                // SAFETY: as above.
                unsafe { $blend($less::<_CMP_EQ_OQ>(self, other), no, yes) }
            }
            #[inline(always)]
            unsafe fn turn(square: &mut [Self; MOST_LANES]) {
                // SAFETY: as above.
                unsafe { $turn(square) }
            }
            #[inline(always)]
            unsafe fn pairs(even: $r, odd: $r) -> Self {
                let lanes: [$r; $lanes] = std::array::from_fn(|i| if i % 2 == 0 { even } else { odd });
                // SAFETY: a register is an array of its lanes.
                unsafe { std::mem::transmute(lanes) }
            }
        }
    };
}

/// The four lanes of 128 bits added up in two halves, in the first of which the sums end.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn four_sums_f64([a, b, c, d]: [__m512d; 4]) -> [f64; 4] {
    // Pairs (a, b) and (c, d), then lanes of two pairs.
    let first = _mm512_add_pd(_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    let second = _mm512_add_pd(_mm512_unpacklo_pd(c, d), _mm512_unpackhi_pd(c, d));
    let halves = _mm512_add_pd(
        _mm512_shuffle_f64x2::<0b10_00_10_00>(first, second),
        _mm512_shuffle_f64x2::<0b11_01_11_01>(first, second),
    );
    let whole = _mm512_add_pd(
        _mm512_shuffle_f64x2::<0b10_00_10_00>(halves, halves),
        _mm512_shuffle_f64x2::<0b11_01_11_01>(halves, halves),
    );
    // SAFETY: a register is an array of its lanes.
    unsafe { std::mem::transmute(_mm512_castpd512_pd256(whole)) }
}

/// As `four_sums_f64`.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn four_sums_f32([a, b, c, d]: [__m512; 4]) -> [f32; 4] {
    let first = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
    let second = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
    // Each 128 bits hold a part of all four.
    let parts = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(first, second)),
        _mm512_castpd_ps(_mm512_unpackhi_pd(first, second)),
    );
    let halves = _mm512_add_ps(parts, _mm512_shuffle_f32x4::<0b01_00_11_10>(parts, parts));
    let whole = _mm512_add_ps(halves, _mm512_shuffle_f32x4::<0b10_11_00_01>(halves, halves));
    // SAFETY: a register is an array of its lanes.
    unsafe { std::mem::transmute(_mm512_castps512_ps128(whole)) }
}

/// Lanes of 128 bits of four registers turned as a square.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn turn_quarters([a, b, c, d]: [__m512d; 4]) -> [__m512d; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let (ab_even, ab_odd) = (
        _mm512_shuffle_f64x2::<EVEN>(a, b),
        _mm512_shuffle_f64x2::<ODD>(a, b),
    );
    let (cd_even, cd_odd) = (
        _mm512_shuffle_f64x2::<EVEN>(c, d),
        _mm512_shuffle_f64x2::<ODD>(c, d),
    );
    [
        _mm512_shuffle_f64x2::<EVEN>(ab_even, cd_even),
        _mm512_shuffle_f64x2::<EVEN>(ab_odd, cd_odd),
        _mm512_shuffle_f64x2::<ODD>(ab_even, cd_even),
        _mm512_shuffle_f64x2::<ODD>(ab_odd, cd_odd),
    ]
}

/// Eight registers turned.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn turn_f64(square: &mut [__m512d; MOST_LANES]) {
    let [a, b, c, d, e, f, g, h, ..] = *square;
    let even = turn_quarters([
        _mm512_unpacklo_pd(a, b),
        _mm512_unpacklo_pd(c, d),
        _mm512_unpacklo_pd(e, f),
        _mm512_unpacklo_pd(g, h),
    ]);
    let odd = turn_quarters([
        _mm512_unpackhi_pd(a, b),
        _mm512_unpackhi_pd(c, d),
        _mm512_unpackhi_pd(e, f),
        _mm512_unpackhi_pd(g, h),
    ]);
    for i in 0..4 {
        square[2 * i] = even[i];
        square[2 * i + 1] = odd[i];
    }
}

/// Sixteen registers turned.
///
/// # Safety
/// The machine has AVX-512.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
#[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
fn turn_f32(square: &mut [__m512; MOST_LANES]) {
    let mut columns = [[_mm512_setzero_pd(); 4]; 4];
    for group in 0..4 {
        let (a, b) = (square[4 * group], square[4 * group + 1]);
        let (c, d) = (square[4 * group + 2], square[4 * group + 3]);
        let ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
        let cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
        let ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
        let cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
        columns[0][group] = _mm512_unpacklo_pd(ab_low, cd_low);
        columns[1][group] = _mm512_unpackhi_pd(ab_low, cd_low);
        columns[2][group] = _mm512_unpacklo_pd(ab_high, cd_high);
        columns[3][group] = _mm512_unpackhi_pd(ab_high, cd_high);
    }
    for column in 0..4 {
        let quarters = turn_quarters(columns[column]);
        for quarter in 0..4 {
            square[4 * quarter + column] = _mm512_castpd_ps(quarters[quarter]);
        }
    }
}

avx512_register!(
    __m512d, f64, __m256d, 8, __mmask8, 0b0101_0101,
    _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_maskz_loadu_pd _mm512_storeu_pd
    _mm512_mask_storeu_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_fmadd_pd
    _mm512_fnmadd_pd _mm512_shuffle_pd
    _mm512_sqrt_pd _mm512_abs_pd _mm512_cmp_pd_mask _mm512_mask_blend_pd four_sums_f64 turn_f64
);
avx512_register!(
    __m512, f32, __m256, 16, __mmask16, 0b1011_0001,
    _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_maskz_loadu_ps _mm512_storeu_ps
    _mm512_mask_storeu_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fmadd_ps
    _mm512_fnmadd_ps _mm512_shuffle_ps
    _mm512_sqrt_ps _mm512_abs_ps _mm512_cmp_ps_mask _mm512_mask_blend_ps four_sums_f32 turn_f32
);
