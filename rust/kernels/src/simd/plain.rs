//! An array as a register: for integers, `bool` and `isa="scalar"`. The compiler makes vectors of it as far as the
//! instruction set of the function around it goes.

use super::Vector;
use treadle_core::Element;

/// `N` lanes of an element type, with its own arithmetic: integers wrap, `bool` is or/and.
#[derive(Clone, Copy)]
pub(crate) struct Plain<T, const N: usize>([T; N]);

// SAFETY: the loops touch `N` or `count` elements.
unsafe impl<T: Element, const N: usize> Vector for Plain<T, N> {
    type Real = T;
    const LANES: usize = N;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Plain([T::ZERO; N])
    }

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Plain([value; N])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        // SAFETY: `N` elements are readable.
        Plain(unsafe { from.cast::<[T; N]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        let mut lanes = [T::ZERO; N];
        // SAFETY: `count` elements are readable.
        unsafe { std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count) };
        Plain(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        // SAFETY: `N` elements are writeable.
        unsafe { to.cast::<[T; N]>().write_unaligned(self.0) };
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        // SAFETY: `count` elements are writeable.
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to, count) };
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane].add(other.0[lane])))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane].mul(other.0[lane])))
    }

    #[inline(always)]
    unsafe fn mul_add(self, left: Self, right: Self) -> Self {
        Plain(std::array::from_fn(|lane| {
            self.0[lane].add(left.0[lane].mul(right.0[lane]))
        }))
    }

    #[inline(always)]
    unsafe fn mul_sub(self, left: Self, right: Self) -> Self {
        Plain(std::array::from_fn(|lane| {
            self.0[lane].sub(left.0[lane].mul(right.0[lane]))
        }))
    }

    #[inline(always)]
    unsafe fn interleave(self, other: Self) -> (Self, Self) {
        let lane = |at: usize| {
            if at.is_multiple_of(2) {
                self.0[at / 2]
            } else {
                other.0[at / 2]
            }
        };
        (
            Plain(std::array::from_fn(lane)),
            Plain(std::array::from_fn(|at| lane(at + N))),
        )
    }

    #[inline(always)]
    unsafe fn deinterleave(self, other: Self) -> (Self, Self) {
        let lane = |at: usize| if at < N { self.0[at] } else { other.0[at - N] };
        (
            Plain(std::array::from_fn(|at| lane(2 * at))),
            Plain(std::array::from_fn(|at| lane(2 * at + 1))),
        )
    }

    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane ^ 1]))
    }

    #[inline(always)]
    unsafe fn even_pairs(self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane & !1]))
    }

    #[inline(always)]
    unsafe fn odd_pairs(self) -> Self {
        Plain(std::array::from_fn(|lane| self.0[lane | 1]))
    }
}
