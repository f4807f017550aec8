//! Packing of several panels at once, where neighbours in memory belong to different panels.
//!
//! Such is a factor whose rows are ordered as the result wants them: the innermost loop steps over whole rows of the
//! factor, and the next one over its elements. Packed panel by panel, every element is a cache line of its own; here a
//! square of neighbours is read as it stands and turned, each of its lines into another panel.

use crate::pack::{SQUARE, read, turn};
use treadle_core::Element;

/// Squares of the same rows that have their turn together: they often follow each other in memory.
const ABREAST: usize = 8;

/// Panels to fill, all of the same width.
#[derive(Clone, Copy, Debug)]
pub struct Group<'p> {
    /// The factor; offsets count from here.
    pub from: *const u8,
    /// Offsets of the rows or columns of all panels, in elements.
    pub across: &'p [isize],
    /// Offsets of the terms, in elements.
    pub along: &'p [isize],
    /// Neighbours in memory are probably so many rows or columns apart; a multiple of four.
    pub jump: usize,
    /// Conjugate on the way.
    pub conj: bool,
    /// Rows or columns of a panel; a multiple of four that divides the length of `across`.
    pub width: usize,
    /// Elements from one panel to the next.
    pub step: usize,
    /// Room for `along.len() * width` elements of each panel.
    pub to: *mut u8,
}

impl Group<'_> {
    /// Rows or columns that hold whole squares.
    #[inline]
    pub const fn square(jump: usize) -> usize {
        SQUARE * jump
    }
}

/// # Safety
/// Every sum of an offset across and one along is readable, and every panel has its room.
#[inline(always)]
pub(crate) unsafe fn pack_group<T: Element, const AVX: bool>(group: &Group<'_>) {
    // SAFETY: passed on.
    unsafe {
        match group.conj {
            false => fill::<T, false, AVX>(group),
            true => fill::<T, true, AVX>(group),
        }
    }
}

/// # Safety
/// As `pack_group`.
#[inline(always)]
unsafe fn fill<T: Element, const CONJ: bool, const AVX: bool>(group: &Group<'_>) {
    let (from, to) = (group.from.cast::<T>(), group.to.cast::<T>());
    let Group {
        across,
        along,
        jump,
        width,
        step,
        ..
    } = *group;
    debug_assert!(jump.is_multiple_of(SQUARE) && width.is_multiple_of(SQUARE));
    debug_assert!(across.len().is_multiple_of(width));
    let place = |row: usize| to.wrapping_add(row / width * step + row % width);
    // SAFETY: offsets within the factor and places within the panels; four rows from a multiple of four on are of one
    // panel.
    unsafe {
        let four = |row: usize| {
            let to = place(row);
            for (p, &term) in along.iter().enumerate() {
                for i in 0..SQUARE {
                    to.add(p * width + i)
                        .write(read::<T, CONJ>(from.offset(across[row + i] + term)));
                }
            }
        };
        let block = SQUARE * jump;
        let whole = across.len() / block * block;
        for row in (0..jump).step_by(SQUARE) {
            let mut squares = [([from; SQUARE], [to; SQUARE]); ABREAST];
            let mut count = 0;
            for first in (row..whole).step_by(block) {
                let rows = [first, first + jump, first + 2 * jump, first + 3 * jump];
                let neighbours = (0..SQUARE)
                    .all(|i| (1..SQUARE).all(|s| across[rows[s] + i] == across[first + i] + s as isize));
                if neighbours {
                    squares[count] = (
                        [0, 1, 2, 3].map(|i| from.offset(across[first + i])),
                        rows.map(place),
                    );
                    count += 1;
                } else {
                    rows.into_iter().for_each(four);
                }
                if count < ABREAST && first + block < whole {
                    continue;
                }
                for (p, &term) in along.iter().enumerate() {
                    for (from, to) in &squares[..count] {
                        turn::<T, CONJ, AVX>(
                            from.map(|from| from.offset(term)),
                            to.map(|to| to.add(p * width)),
                        );
                    }
                }
                count = 0;
            }
        }
        (whole..across.len()).step_by(SQUARE).for_each(four);
    }
}
