//! Small matrices side by side: one in each lane of the vectors, so that elimination runs without a shuffle or a branch.
//!
//! A lane whose matrix needs more than the plain algorithm (a pivot of zero, entries or results near the ends of the range)
//! is not finished here: the caller gives it to the code for single matrices. What happens in a lane does not depend on its
//! neighbours, so that a matrix has the same result alone and in any batch.

#![allow(clippy::needless_range_loop, reason = "one index for several arrays")]

use crate::field::{Field, RealNumber};
use crate::vectorised::Vectorised;
use treadle_core::Element;

/// Matrices at once.
pub(crate) const SIDE: usize = 8;
/// The largest order.
pub(crate) const ORDER: usize = 8;
/// The most right-hand sides.
pub(crate) const SIDES: usize = 8;
/// Elements of one entry: a real part, and for complex numbers an imaginary one, of every lane.
const PLANES: usize = 2;

/// One entry of every lane, in memory.
pub(crate) type Cell<T> = [[<T as Field>::R; SIDE]; PLANES];

/// Entries of every lane, all zero, from uninitialised memory.
///
/// # Safety
/// `cells` holds `len` cells that nothing else uses for as long as the slice lives.
pub(crate) unsafe fn room<'a, T: Field>(cells: *mut Cell<T>, len: usize) -> &'a mut [Cell<T>] {
    // SAFETY: every cell is written before the slice is made.
    unsafe {
        for at in 0..len {
            cells.add(at).write([[<T::R as Element>::ZERO; SIDE]; PLANES]);
        }
        std::slice::from_raw_parts_mut(cells, len)
    }
}

/// One entry of every lane.
#[derive(Clone, Copy)]
struct Entry<T: Field> {
    re: [T::R; SIDE],
    im: [T::R; SIDE],
}

/// Divisors of every lane.
struct Divisors<T: Field>([T::Divisor; SIDE]);

impl<T: Field> Entry<T> {
    #[inline(always)]
    fn load(from: &Cell<T>) -> Self {
        Entry {
            re: from[0],
            im: if T::IS_REAL {
                [<T::R as Element>::ZERO; SIDE]
            } else {
                from[1]
            },
        }
    }

    #[inline(always)]
    fn store(self, to: &mut Cell<T>) {
        to[0] = self.re;
        if !T::IS_REAL {
            to[1] = self.im;
        }
    }

    #[inline(always)]
    fn size(self) -> [T::R; SIDE] {
        std::array::from_fn(|lane| {
            if T::IS_REAL {
                self.re[lane].magnitude()
            } else {
                self.re[lane].magnitude() + self.im[lane].magnitude()
            }
        })
    }

    /// `self - left * right`.
    #[inline(always)]
    fn minus_product<const FUSED: bool>(mut self, left: Self, right: Self) -> Self {
        for lane in 0..SIDE {
            self.re[lane] = self.re[lane].minus_product::<FUSED>(left.re[lane], right.re[lane]);
        }
        if !T::IS_REAL {
            for lane in 0..SIDE {
                self.re[lane] = self.re[lane].minus_product::<FUSED>(-left.im[lane], right.im[lane]);
            }
            for lane in 0..SIDE {
                self.im[lane] = self.im[lane].minus_product::<FUSED>(left.re[lane], right.im[lane]);
            }
            for lane in 0..SIDE {
                self.im[lane] = self.im[lane].minus_product::<FUSED>(left.im[lane], right.re[lane]);
            }
        }
        self
    }

    #[inline(always)]
    fn at(self, lane: usize) -> T {
        T::from_parts(self.re[lane], self.im[lane])
    }

    /// Where `which` is `index`, the entries are exchanged.
    #[inline(always)]
    fn exchange(self, other: Self, which: &[T::R; SIDE], index: T::R) -> (Self, Self) {
        let pick = |x: [T::R; SIDE], y: [T::R; SIDE]| {
            let mut chosen = x;
            for lane in 0..SIDE {
                chosen[lane] = if which[lane] == index { y[lane] } else { x[lane] };
            }
            chosen
        };
        if T::IS_REAL {
            let one = Entry {
                re: pick(self.re, other.re),
                im: self.im,
            };
            let two = Entry {
                re: pick(other.re, self.re),
                im: self.im,
            };
            return (one, two);
        }
        let one = Entry {
            re: pick(self.re, other.re),
            im: pick(self.im, other.im),
        };
        let two = Entry {
            re: pick(other.re, self.re),
            im: pick(other.im, self.im),
        };
        (one, two)
    }

    /// The quotient in every lane.
    #[inline(always)]
    fn over(self, divisors: &Divisors<T>) -> Self {
        let mut quotient = self;
        for lane in 0..SIDE {
            let x = self.at(lane).over(divisors.0[lane]);
            quotient.re[lane] = x.re();
            quotient.im[lane] = x.im();
        }
        quotient
    }

    #[inline(always)]
    fn divisors(self) -> Divisors<T> {
        Divisors(std::array::from_fn(|lane| {
            let x = self.at(lane);
            if x == T::ZERO { T::ONE } else { x }.divisor()
        }))
    }

    /// Takes the lanes out of `sound` whose entry is not an ordinary number of the middle of the range, nor zero where that
    /// is allowed.
    #[inline(always)]
    fn check(self, sound: &mut [bool; SIDE], zero: bool) {
        let high = T::R::of(crate::field::power_of_two(T::R::EXPONENT_LIMIT / 2));
        let low = T::R::of(crate::field::power_of_two(-T::R::EXPONENT_LIMIT / 2));
        let nothing = <T::R as Element>::ZERO;
        let size = self.size();
        for lane in 0..SIDE {
            sound[lane] &= (size[lane] >= low && size[lane] <= high) | (zero && size[lane] == nothing);
        }
    }
}

/// `P a = L U` for `n` rows and `cols` columns, of which the first `n` are eliminated, in every lane of `room`, row after row.
///
/// # Safety
/// Only the instructions of `Vectorised`.
pub(crate) struct EliminateAll<'a, T: Field> {
    pub(crate) room: &'a mut [Cell<T>],
    pub(crate) n: usize,
    pub(crate) cols: usize,
    /// The row of each pivot, as a number, in every lane.
    pub(crate) pivots: &'a mut [[T::R; SIDE]; ORDER],
    /// Substitute for the right-hand sides afterwards.
    pub(crate) substitute: bool,
}

impl<T: Field> Vectorised for EliminateAll<'_, T> {
    /// The lanes that are finished.
    type Out = [bool; SIDE];

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) -> [bool; SIDE] {
        let (n, cols) = (self.n.min(ORDER), self.cols.min(ORDER + SIDES));
        let room = &mut self.room[..n * cols];
        let mut sound = [true; SIDE];
        for entry in room.iter().take(n * cols) {
            Entry::<T>::load(entry).check(&mut sound, true);
        }
        for k in 0..n {
            let mut best = Entry::<T>::load(&room[k * cols + k]).size();
            let mut which = [T::R::of(k as f64); SIDE];
            for i in k + 1..n {
                let size = Entry::<T>::load(&room[i * cols + k]).size();
                let index = T::R::of(i as f64);
                for lane in 0..SIDE {
                    which[lane] = if size[lane] > best[lane] {
                        index
                    } else {
                        which[lane]
                    };
                    best[lane] = if size[lane] > best[lane] {
                        size[lane]
                    } else {
                        best[lane]
                    };
                }
            }
            self.pivots[k] = which;
            for i in k + 1..n {
                let index = T::R::of(i as f64);
                for col in 0..cols {
                    let (top, row) = Entry::<T>::load(&room[k * cols + col]).exchange(
                        Entry::load(&room[i * cols + col]),
                        &which,
                        index,
                    );
                    top.store(&mut room[k * cols + col]);
                    row.store(&mut room[i * cols + col]);
                }
            }
            let pivot = Entry::<T>::load(&room[k * cols + k]);
            pivot.check(&mut sound, false);
            let divisors = pivot.divisors();
            for i in k + 1..n {
                let factor = Entry::<T>::load(&room[i * cols + k]).over(&divisors);
                factor.store(&mut room[i * cols + k]);
                for col in k + 1..cols {
                    let x = Entry::<T>::load(&room[i * cols + col])
                        .minus_product::<FUSED>(factor, Entry::load(&room[k * cols + col]));
                    x.store(&mut room[i * cols + col]);
                }
            }
        }
        if !self.substitute {
            return sound;
        }
        for k in (0..n).rev() {
            let divisors = Entry::<T>::load(&room[k * cols + k]).divisors();
            for col in n..cols {
                let x = Entry::<T>::load(&room[k * cols + col]).over(&divisors);
                x.check(&mut sound, true);
                x.store(&mut room[k * cols + col]);
                for i in 0..k {
                    let y = Entry::<T>::load(&room[i * cols + col])
                        .minus_product::<FUSED>(Entry::load(&room[i * cols + k]), x);
                    y.store(&mut room[i * cols + col]);
                }
            }
        }
        sound
    }
}

/// `a = l l^H` in the lower triangle of every lane of `room`, row after row.
///
/// # Safety
/// Only the instructions of `Vectorised`.
pub(crate) struct CholeskyAll<'a, T: Field> {
    pub(crate) room: &'a mut [Cell<T>],
    pub(crate) n: usize,
}

impl<T: Field> Vectorised for CholeskyAll<'_, T> {
    /// The lanes that are finished.
    type Out = [bool; SIDE];

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) -> [bool; SIDE] {
        let n = self.n.min(ORDER);
        let room = &mut self.room[..n * n];
        let mut sound = [true; SIDE];
        let zero = <T::R as Element>::ZERO;
        for k in 0..n {
            let pivot = Entry::<T>::load(&room[k * n + k]);
            for lane in 0..SIDE {
                sound[lane] &= pivot.re[lane] > zero;
            }
            let mut root = pivot;
            for lane in 0..SIDE {
                root.re[lane] = pivot.re[lane].root();
                root.im[lane] = zero;
            }
            root.check(&mut sound, false);
            root.store(&mut room[k * n + k]);
            let divisors = root.divisors();
            for i in k + 1..n {
                Entry::<T>::load(&room[i * n + k])
                    .over(&divisors)
                    .store(&mut room[i * n + k]);
            }
            for i in k + 1..n {
                let left = Entry::<T>::load(&room[i * n + k]);
                for j in k + 1..=i {
                    let mut right = Entry::<T>::load(&room[j * n + k]);
                    for lane in 0..SIDE {
                        right.im[lane] = -right.im[lane];
                    }
                    let x = Entry::<T>::load(&room[i * n + j]).minus_product::<FUSED>(left, right);
                    x.store(&mut room[i * n + j]);
                }
            }
        }
        sound
    }
}

/// Puts a number into one lane.
#[inline(always)]
pub(crate) fn put<T: Field>(room: &mut [Cell<T>], at: usize, lane: usize, x: T) {
    room[at][0][lane] = x.re();
    if !T::IS_REAL {
        room[at][1][lane] = x.im();
    }
}

/// The number in one lane.
#[inline(always)]
pub(crate) fn get<T: Field>(room: &[Cell<T>], at: usize, lane: usize) -> T {
    if T::IS_REAL {
        T::from_real(room[at][0][lane])
    } else {
        T::from_parts(room[at][0][lane], room[at][1][lane])
    }
}
