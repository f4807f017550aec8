//! Batches of small matrices, eight of them side by side.

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::lu::small_elimination::{Cell, CholeskyAll, EliminateAll, ORDER, SIDE, SIDES, get, put, room};
use crate::matrices::{Matrices, View};
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::ops::Range;

/// Whether systems of that order are solved side by side.
pub(crate) fn is_small(order: usize, sides: usize) -> bool {
    (1..=ORDER).contains(&order) && sides <= SIDES
}

/// Scratch of the functions below.
pub(crate) fn scratch<T: Field>(order: usize, sides: usize) -> StackReq {
    need::<Cell<T>>(order * (order + sides))
}

/// One group of lanes after elimination.
pub(crate) struct Group<'a, T: Field> {
    room: &'a [Cell<T>],
    cols: usize,
    pivots: &'a [[T::R; SIDE]; ORDER],
}

impl<T: Field> Group<'_, T> {
    /// An entry of a lane's matrix.
    #[inline(always)]
    pub(crate) fn at(&self, lane: usize, row: usize, col: usize) -> T {
        get::<T>(self.room, row * self.cols + col, lane)
    }

    /// The row with which row `k` of a lane was exchanged.
    #[inline(always)]
    pub(crate) fn pivot(&self, lane: usize, k: usize) -> usize {
        self.pivots[k][lane].to_f64() as usize
    }
}

/// Puts a matrix into the columns of its lane from `first` on.
///
/// # Safety
/// The view is readable.
#[inline(always)]
unsafe fn load<T: Field>(room: &mut [Cell<T>], lane: usize, view: &View<T>, cols: usize, first: usize) {
    for row in 0..view.rows {
        for col in 0..view.cols {
            // SAFETY: row and col are in range.
            put(room, row * cols + first + col, lane, unsafe { view.at(row, col) });
        }
    }
}

/// Eliminates the matrices of a range, with the right-hand sides of `b` when there are any. `finish(index, lane, group)` takes
/// the result of a lane, `single(index, scratch)` does a matrix that needs more.
///
/// # Safety
/// The matrices are readable, square and small.
pub(crate) unsafe fn eliminate<T: Field>(
    range: Range<usize>,
    a: &Matrices<'_, T>,
    b: Option<&Matrices<'_, T>>,
    stack: &mut MemStack,
    finish: impl Fn(usize, usize, &Group<'_, T>),
    single: impl Fn(usize, &mut MemStack) -> Result<(), Failure>,
) -> Result<(), (usize, Failure)> {
    let n = a.rows;
    let sides = b.map_or(0, |b| b.cols);
    let cols = n + sides;
    let (cells, stack) = take::<Cell<T>>(stack, n * cols);
    // SAFETY: the cells are nobody else's.
    let room = unsafe { room::<T>(cells, n * cols) };
    let mut pivots = [[T::R::of(0.0); SIDE]; ORDER];
    for start in range.clone().step_by(SIDE) {
        let count = SIDE.min(range.end - start);
        for lane in 0..SIDE {
            // Lanes without a matrix repeat the first one.
            let index = if lane < count { start + lane } else { start };
            // SAFETY: passed on.
            unsafe {
                load(room, lane, &a.item(index), cols, 0);
                if let Some(b) = b {
                    load(room, lane, &b.item(index), cols, n);
                }
            }
        }
        // SAFETY: the machine has the instructions that are chosen.
        let sound = unsafe {
            vectorised(EliminateAll::<T> {
                room,
                n,
                cols,
                pivots: &mut pivots,
                substitute: sides > 0,
            })
        };
        let group = Group {
            room,
            cols,
            pivots: &pivots,
        };
        for (lane, sound) in sound.into_iter().enumerate().take(count) {
            let index = start + lane;
            if sound {
                finish(index, lane, &group);
            } else {
                single(index, stack).map_err(|failure| (index, failure))?;
            }
        }
    }
    Ok(())
}

/// Cholesky factors of a range, from the lower triangles or the upper ones; `finish` and `single` as above.
///
/// # Safety
/// As `eliminate`.
pub(crate) unsafe fn cholesky<T: Field>(
    range: Range<usize>,
    a: &Matrices<'_, T>,
    upper: bool,
    stack: &mut MemStack,
    finish: impl Fn(usize, usize, &Group<'_, T>),
    single: impl Fn(usize, &mut MemStack) -> Result<(), Failure>,
) -> Result<(), (usize, Failure)> {
    let n = a.rows;
    let (cells, stack) = take::<Cell<T>>(stack, n * n);
    // SAFETY: the cells are nobody else's.
    let room = unsafe { room::<T>(cells, n * n) };
    let pivots = [[T::R::of(0.0); SIDE]; ORDER];
    for start in range.clone().step_by(SIDE) {
        let count = SIDE.min(range.end - start);
        for lane in 0..SIDE {
            let view = a.item(if lane < count { start + lane } else { start });
            // The upper factor of a is the adjoint of the lower one of its adjoint.
            for row in 0..n {
                for col in 0..=row {
                    // SAFETY: an entry of the triangle that counts.
                    let x = unsafe {
                        if upper {
                            view.at(col, row).conj()
                        } else {
                            view.at(row, col)
                        }
                    };
                    let x = if row == col { T::from_real(x.re()) } else { x };
                    put(room, row * n + col, lane, x);
                }
            }
        }
        // SAFETY: the machine has the instructions that are chosen.
        let sound = unsafe { vectorised(CholeskyAll::<T> { room, n }) };
        let group = Group {
            room,
            cols: n,
            pivots: &pivots,
        };
        for (lane, sound) in sound.into_iter().enumerate().take(count) {
            let index = start + lane;
            if sound {
                finish(index, lane, &group);
            } else {
                single(index, stack).map_err(|failure| (index, failure))?;
            }
        }
    }
    Ok(())
}
