//! One trait over the vector registers of each instruction set, so that every micro-kernel is written once.

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod plain;

/// A vector register of real numbers.
///
/// # Safety
/// `load` and `store` touch `LANES` elements from their pointer on and nothing else; `load_first` and `store_first`
/// only the first `count`, which is at most `LANES`.
pub(crate) unsafe trait Vector: Copy {
    /// What a lane holds.
    type Real: Copy + 'static;
    /// Lanes of the register.
    const LANES: usize;

    /// Zero in every lane.
    ///
    /// # Safety
    /// The machine has the instruction set; so for every method below.
    unsafe fn zero() -> Self;
    /// The same number in every lane.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn splat(value: Self::Real) -> Self;
    /// Consecutive elements.
    ///
    /// # Safety
    /// `LANES` elements are readable.
    unsafe fn load(from: *const Self::Real) -> Self;
    /// Consecutive elements, zero behind them.
    ///
    /// # Safety
    /// `count` elements are readable.
    unsafe fn load_first(from: *const Self::Real, count: usize) -> Self;
    /// Writes every lane.
    ///
    /// # Safety
    /// `LANES` elements are writeable.
    unsafe fn store(self, to: *mut Self::Real);
    /// Writes the first lanes.
    ///
    /// # Safety
    /// `count` elements are writeable.
    unsafe fn store_first(self, to: *mut Self::Real, count: usize);
    /// `self + other`.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn add(self, other: Self) -> Self;
    /// `self * other`.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn mul(self, other: Self) -> Self;
    /// `self + left * right`, rounded once where the machine can.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn mul_add(self, left: Self, right: Self) -> Self;
    /// `self - left * right`, rounded once where the machine can.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self;
    /// `(self[0], other[0], self[1], ...)`: real and imaginary parts become complex numbers.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn interleave(self, other: Self) -> (Self, Self);
    /// The inverse of `interleave`.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn deinterleave(self, other: Self) -> (Self, Self);
    /// The two lanes of every pair exchanged.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn swap_pairs(self) -> Self;
    /// The first lane of every pair in both.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn even_pairs(self) -> Self;
    /// The second lane of every pair in both.
    ///
    /// # Safety
    /// As `zero`.
    unsafe fn odd_pairs(self) -> Self;
}
