//! Vector registers of real numbers, and the choice among them at run time.
//!
//! Complex arrays are read as pairs of reals: a product with a complex number is two products with reals, of which one has
//! its pairs swapped.

use crate::field::RealNumber;
use treadle_contract::Isa;

/// One register.
///
/// # Safety
/// Functions may be called only where the instruction set of the register is there, that is from `Task::run`.
pub trait Wide: Copy {
    /// What a lane holds.
    type R: RealNumber;
    /// Reals in a register; even.
    const LANES: usize;

    /// Zeros.
    unsafe fn zero() -> Self;
    /// `x` in every lane.
    unsafe fn splat(x: Self::R) -> Self;
    /// `LANES` reals.
    unsafe fn load(from: *const Self::R) -> Self;
    /// The first `count < LANES` reals, zeros in the other lanes.
    unsafe fn load_part(from: *const Self::R, count: usize) -> Self;
    /// All lanes.
    unsafe fn store(self, to: *mut Self::R);
    /// The first `count < LANES` lanes.
    unsafe fn store_part(self, to: *mut Self::R, count: usize);
    /// Sum.
    unsafe fn add(self, other: Self) -> Self;
    /// Difference.
    unsafe fn sub(self, other: Self) -> Self;
    /// Product.
    unsafe fn mul(self, other: Self) -> Self;
    /// Quotient.
    unsafe fn div(self, other: Self) -> Self;
    /// `self * factor + other`, rounded once where the machine can.
    unsafe fn fma(self, factor: Self, other: Self) -> Self;
    /// `other - self * factor`.
    unsafe fn fnma(self, factor: Self, other: Self) -> Self;
    /// The two lanes of each pair exchanged.
    unsafe fn swap(self) -> Self;
    /// The sums of the even and of the odd lanes.
    unsafe fn sums(self) -> (Self::R, Self::R);
    /// `even` in the even lanes, `odd` in the odd ones.
    unsafe fn pairs(even: Self::R, odd: Self::R) -> Self;

    /// The sums of the lanes of four registers; cheaper together than one by one.
    #[inline(always)]
    unsafe fn four_sums(registers: [Self; 4]) -> [Self::R; 4] {
        // SAFETY: passed on.
        registers.map(|register| unsafe { register.sum() })
    }
    /// Square root.
    unsafe fn root(self) -> Self;
    /// Absolute value.
    unsafe fn abs(self) -> Self;
    /// Lane by lane, `yes` where `self < other`, else `no`.
    unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self;
    /// Whether `self < other` in any lane.
    unsafe fn any_less(self, other: Self) -> bool;

    /// The sum of all lanes.
    #[inline(always)]
    unsafe fn sum(self) -> Self::R {
        // SAFETY: passed on.
        let (even, odd) = unsafe { self.sums() };
        even + odd
    }

    /// `min(count, LANES)` reals.
    #[inline(always)]
    unsafe fn load_up_to(from: *const Self::R, count: usize) -> Self {
        // SAFETY: passed on.
        unsafe {
            if count >= Self::LANES {
                Self::load(from)
            } else {
                Self::load_part(from, count)
            }
        }
    }

    /// `min(count, LANES)` lanes.
    #[inline(always)]
    unsafe fn store_up_to(self, to: *mut Self::R, count: usize) {
        // SAFETY: passed on.
        unsafe {
            if count >= Self::LANES {
                self.store(to);
            } else {
                self.store_part(to, count);
            }
        }
    }
}

/// Work that is compiled once for each kind of register.
pub trait Task<R: RealNumber> {
    /// What it returns.
    type Out;
    /// Does it.
    ///
    /// # Safety
    /// The machine has the instruction set of `W`; implementations are inlined into a function that is compiled for it.
    unsafe fn run<W: Wide<R = R>>(self) -> Self::Out;
}

/// Real types with registers.
pub trait Registers: Sized {
    /// Runs a task with the widest register of this machine.
    fn dispatch<K: Task<Self>>(task: K) -> K::Out
    where
        Self: RealNumber;
}

/// A register where there are no intrinsics for it: an array, which the compiler makes registers of.
#[derive(Clone, Copy)]
pub(crate) struct Array<R, const N: usize, const FUSED: bool>([R; N]);

macro_rules! array_register {
    ($r:ident) => {
        impl<const N: usize, const FUSED: bool> Wide for Array<$r, N, FUSED> {
            type R = $r;
            const LANES: usize = N;
            #[inline(always)]
            unsafe fn zero() -> Self {
                Array([0.0; N])
            }
            #[inline(always)]
            unsafe fn splat(x: $r) -> Self {
                Array([x; N])
            }
            #[inline(always)]
            unsafe fn load(from: *const $r) -> Self {
                // SAFETY: the caller vouches for N reals.
                Array(unsafe { from.cast::<[$r; N]>().read_unaligned() })
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $r, count: usize) -> Self {
                let mut lanes = [0.0; N];
                for (i, lane) in lanes.iter_mut().enumerate().take(count) {
                    // SAFETY: the caller vouches for `count` reals.
                    *lane = unsafe { *from.add(i) };
                }
                Array(lanes)
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $r) {
                // SAFETY: the caller vouches for N reals.
                unsafe { to.cast::<[$r; N]>().write_unaligned(self.0) };
            }
            #[inline(always)]
            unsafe fn store_part(self, to: *mut $r, count: usize) {
                for (i, lane) in self.0.iter().enumerate().take(count) {
                    // SAFETY: the caller vouches for `count` reals.
                    unsafe { *to.add(i) = *lane };
                }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                Array(std::array::from_fn(|i| self.0[i] + other.0[i]))
            }
            #[inline(always)]
            unsafe fn sub(self, other: Self) -> Self {
                Array(std::array::from_fn(|i| self.0[i] - other.0[i]))
            }
            #[inline(always)]
            unsafe fn mul(self, other: Self) -> Self {
                Array(std::array::from_fn(|i| self.0[i] * other.0[i]))
            }
            #[inline(always)]
            unsafe fn div(self, other: Self) -> Self {
                Array(std::array::from_fn(|i| self.0[i] / other.0[i]))
            }
            #[inline(always)]
            unsafe fn fma(self, factor: Self, other: Self) -> Self {
                Array(std::array::from_fn(|i| {
                    if FUSED {
                        self.0[i].mul_add(factor.0[i], other.0[i])
                    } else {
                        self.0[i] * factor.0[i] + other.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn fnma(self, factor: Self, other: Self) -> Self {
                Array(std::array::from_fn(|i| {
                    if FUSED {
                        (-self.0[i]).mul_add(factor.0[i], other.0[i])
                    } else {
                        other.0[i] - self.0[i] * factor.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn swap(self) -> Self {
                Array(std::array::from_fn(|i| self.0[i ^ 1]))
            }
            #[inline(always)]
            unsafe fn sums(self) -> ($r, $r) {
                let mut lanes = self.0;
                let mut width = N / 2;
                while width > 1 {
                    for i in 0..width {
                        lanes[i] += lanes[i + width];
                    }
                    width /= 2;
                }
                (lanes[0], lanes[1])
            }
            #[inline(always)]
            unsafe fn root(self) -> Self {
                Array(std::array::from_fn(|i| self.0[i].sqrt()))
            }
            #[inline(always)]
            unsafe fn abs(self) -> Self {
                Array(std::array::from_fn(|i| self.0[i].abs()))
            }
            #[inline(always)]
            unsafe fn where_less(self, other: Self, yes: Self, no: Self) -> Self {
                Array(std::array::from_fn(|i| {
                    if self.0[i] < other.0[i] {
                        yes.0[i]
                    } else {
                        no.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn any_less(self, other: Self) -> bool {
                let mut any = false;
                for i in 0..N {
                    any |= self.0[i] < other.0[i];
                }
                any
            }
            #[inline(always)]
            unsafe fn pairs(even: $r, odd: $r) -> Self {
                Array(std::array::from_fn(|i| if i % 2 == 0 { even } else { odd }))
            }
        }
    };
}

array_register!(f32);
array_register!(f64);

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Wide;
    use std::arch::x86_64::*;

    macro_rules! avx512_register {
        (
            $v:ident, $r:ident, $half:ident, $lanes:literal, $mask:ident, $swap:literal,
            $zero:ident $splat:ident $load:ident $load_part:ident $store:ident $store_part:ident
            $add:ident $sub:ident $mul:ident $div:ident $fma:ident $fnma:ident $permute:ident
            $root:ident $abs:ident $less:ident $blend:ident $four:ident
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

    avx512_register!(
        __m512d, f64, __m256d, 8, __mmask8, 0b0101_0101,
        _mm512_setzero_pd _mm512_set1_pd _mm512_loadu_pd _mm512_maskz_loadu_pd _mm512_storeu_pd
        _mm512_mask_storeu_pd _mm512_add_pd _mm512_sub_pd _mm512_mul_pd _mm512_div_pd _mm512_fmadd_pd
        _mm512_fnmadd_pd _mm512_shuffle_pd
        _mm512_sqrt_pd _mm512_abs_pd _mm512_cmp_pd_mask _mm512_mask_blend_pd four_sums_f64
    );
    avx512_register!(
        __m512, f32, __m256, 16, __mmask16, 0b1011_0001,
        _mm512_setzero_ps _mm512_set1_ps _mm512_loadu_ps _mm512_maskz_loadu_ps _mm512_storeu_ps
        _mm512_mask_storeu_ps _mm512_add_ps _mm512_sub_ps _mm512_mul_ps _mm512_div_ps _mm512_fmadd_ps
        _mm512_fnmadd_ps _mm512_shuffle_ps
        _mm512_sqrt_ps _mm512_abs_ps _mm512_cmp_ps_mask _mm512_mask_blend_ps four_sums_f32
    );
}

macro_rules! registers {
    ($r:ident, $wide:ident, $half:literal) => {
        impl Registers for $r {
            #[inline(always)]
            fn dispatch<K: Task<$r>>(task: K) -> K::Out {
                #[cfg(target_arch = "x86_64")]
                {
                    /// # Safety
                    /// The machine has AVX-512.
                    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
                    unsafe fn avx512<K: Task<$r>>(task: K) -> K::Out {
                        // SAFETY: this function is compiled for it.
                        unsafe { task.run::<std::arch::x86_64::$wide>() }
                    }
                    /// # Safety
                    /// The machine has AVX2.
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2<K: Task<$r>>(task: K) -> K::Out {
                        // SAFETY: this function is compiled for it.
                        unsafe { task.run::<Array<$r, $half, true>>() }
                    }
                    match Isa::detect() {
                        // SAFETY: detected.
                        Isa::Avx512 => return unsafe { avx512(task) },
                        // SAFETY: detected.
                        Isa::Avx2 => return unsafe { avx2(task) },
                        _ => {}
                    }
                }
                // SAFETY: arrays ask for nothing.
                unsafe {
                    if cfg!(target_arch = "aarch64") {
                        task.run::<Array<$r, $half, true>>()
                    } else {
                        task.run::<Array<$r, $half, false>>()
                    }
                }
            }
        }
    };
}

registers!(f64, __m512d, 4);
registers!(f32, __m512, 8);

/// Defines a function whose body is compiled for each register: `W` in the body is the register, `T` the element.
macro_rules! kernel {
    (
        $(#[$meta:meta])*
        $vis:vis unsafe fn $name:ident<$t:ident, $w:ident>($($arg:ident: $ty:ty),* $(,)?) $(-> $out:ty)? $body:block
    ) => {
        $(#[$meta])*
        #[inline]
        $vis unsafe fn $name<$t: $crate::field::Field>($($arg: $ty),*) $(-> $out)? {
            struct Call<$t: $crate::field::Field> {
                $($arg: $ty,)*
                element: std::marker::PhantomData<$t>,
            }
            impl<$t: $crate::field::Field> $crate::wide::Task<$t::R> for Call<$t> {
                type Out = $crate::wide::kernel!(@out $($out)?);
                #[inline(always)]
                unsafe fn run<$w: $crate::wide::Wide<R = $t::R>>(self) -> Self::Out {
                    let Call { $($arg,)* element: _ } = self;
                    // SAFETY: the caller of the function vouches for its arguments, and of `run` for the register.
                    unsafe { $body }
                }
            }
            <$t::R as $crate::wide::Registers>::dispatch(Call::<$t> {
                $($arg,)*
                element: std::marker::PhantomData,
            })
        }
    };
    (@out) => { () };
    (@out $out:ty) => { $out };
}
pub(crate) use kernel;
