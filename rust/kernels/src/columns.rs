//! Sums side by side: rows are added up, each column a sum of its own.

use crate::pairs::{Signs, is_pair};
use crate::simd::Vector;
use treadle_core::Element;

/// What each row is multiplied with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Right {
    /// Nothing.
    Absent,
    /// A number.
    Number,
    /// A row, element by element.
    Row,
}

/// Rows to be added to sums.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// How many rows.
    pub terms: usize,
    /// Elements of a row, which stand next to each other.
    pub width: usize,
    /// The first row.
    pub rows: *const u8,
    /// From one row to the next, in elements.
    pub row_step: isize,
    /// What `other` is.
    pub right: Right,
    /// The first number, or the first of the other rows; not read without one.
    pub other: *const u8,
    /// From one of them to the next, in elements.
    pub other_step: isize,
    /// Rows and others are read conjugated; of products alone.
    pub conj: [bool; 2],
    /// As many sums as a row has elements.
    pub sums: *mut u8,
}

/// Rows that are added in one pass over the sums.
const PASS: usize = 8;

/// Adds rows to the sums, one after another. `T` is what the register holds, or a pair of it.
///
/// # Safety
/// The machine has the instruction set; every row and what it is multiplied with are readable, and the sums writeable.
#[inline(always)]
pub(crate) unsafe fn columns<T, V>(work: &Columns)
where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    // SAFETY: passed on.
    unsafe {
        match work.right {
            Right::Absent => passes::<T, V, 0>(work),
            Right::Number => passes::<T, V, 1>(work),
            Right::Row => passes::<T, V, 2>(work),
        }
    }
}

/// # Safety
/// As `columns`; `RIGHT` is 0 for no factor, 1 for a number and 2 for a row.
#[inline(always)]
unsafe fn passes<T, V, const RIGHT: u8>(work: &Columns)
where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    // SAFETY: passed on.
    unsafe {
        let signs = if is_pair::<T, V>() && RIGHT > 0 {
            Some(Signs::<V>::new(work.conj))
        } else {
            None
        };
        let mut first = 0;
        while first + PASS <= work.terms {
            pass::<T, V, PASS, RIGHT>(work, &signs, first);
            first += PASS;
        }
        while first < work.terms {
            pass::<T, V, 1, RIGHT>(work, &signs, first);
            first += 1;
        }
    }
}

/// # Safety
/// As `passes`, for the rows from `first` on.
#[inline(always)]
unsafe fn pass<T, V, const P: usize, const RIGHT: u8>(work: &Columns, signs: &Option<Signs<V>>, first: usize)
where
    T: Element,
    V: Vector,
    V::Real: Element,
{
    let pairs = is_pair::<T, V>();
    // SAFETY: elements of the rows, of what they are multiplied with, and of the sums.
    unsafe {
        let place = |from: *const u8, step: isize, i: usize| {
            from.cast::<T>()
                .wrapping_offset((first + i) as isize * step)
                .cast::<V::Real>()
        };
        let rows: [*const V::Real; P] = std::array::from_fn(|i| place(work.rows, work.row_step, i));
        let others: [*const V::Real; P] = std::array::from_fn(|i| place(work.other, work.other_step, i));
        let (mut re, mut im) = ([V::zero(); P], [V::zero(); P]);
        if RIGHT == 1 {
            for i in 0..P {
                re[i] = V::splat(others[i].read());
                if pairs {
                    im[i] = V::splat(others[i].add(1).read());
                }
            }
        }
        let sums = work.sums.cast::<V::Real>();
        let width = work.width * (size_of::<T>() / size_of::<V::Real>());
        // A macro, so that it is compiled for the instruction set of the function around it.
        macro_rules! register {
            (|$from:ident| $load:expr) => {{
                let $from: *const V::Real = sums;
                let mut sum: V = $load;
                match signs {
                    None => {
                        for i in 0..P {
                            let $from = rows[i];
                            let left = $load;
                            sum = match RIGHT {
                                0 => sum.add(left),
                                1 => sum.mul_add(left, re[i]),
                                _ => {
                                    let $from = others[i];
                                    sum.mul_add(left, $load)
                                }
                            };
                        }
                    }
                    Some(signs) => {
                        let (mut straight, mut crossed) = (V::zero(), V::zero());
                        for i in 0..P {
                            let $from = rows[i];
                            let left = $load;
                            let (re, im) = if RIGHT == 1 {
                                (re[i], im[i])
                            } else {
                                let $from = others[i];
                                let right = $load;
                                (right.even_pairs(), right.odd_pairs())
                            };
                            straight = straight.mul_add(left, re);
                            crossed = crossed.mul_add(left, im);
                        }
                        sum = sum.add(signs.join(straight, crossed));
                    }
                }
                sum
            }};
        }
        let mut at = 0;
        while at + V::LANES <= width {
            register!(|from| V::load(from.add(at))).store(sums.add(at));
            at += V::LANES;
        }
        if at < width {
            let count = width - at;
            register!(|from| V::load_first(from.add(at), count)).store_first(sums.add(at), count);
        }
    }
}
