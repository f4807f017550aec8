//! Vector registers of real numbers, and the choice among them at run time.
//!
//! Complex arrays are read as pairs of reals: a product with a complex number is two products with reals, of which one has
//! its pairs swapped.

use crate::field::RealNumber;
use crate::side_by_side::MOST_LANES;
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
    /// Lane by lane, `yes` where `self == other`, else `no`.
    unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self;
    /// Turns the square of the first `LANES` registers: register `i` becomes lane `i` of each.
    unsafe fn turn(square: &mut [Self; MOST_LANES]);

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
            unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
                Array(std::array::from_fn(|i| {
                    if self.0[i] == other.0[i] {
                        yes.0[i]
                    } else {
                        no.0[i]
                    }
                }))
            }
            #[inline(always)]
            unsafe fn turn(square: &mut [Self; MOST_LANES]) {
                let lines = *square;
                for i in 0..N {
                    square[i] = Array(std::array::from_fn(|j| lines[j].0[i]));
                }
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
