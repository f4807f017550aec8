//! Matrices of a batch put side by side and taken out again: registers of consecutive numbers of each matrix become
//! registers of the same number of all matrices, and back.

use crate::field::Field;
use crate::matrices::Matrices;
use crate::side_by_side::{MOST_LANES, together};
use crate::wide::kernel;

/// Reals of one element.
pub(crate) const fn parts<T: Field>() -> usize {
    if T::IS_REAL { 1 } else { 2 }
}

/// Reals that `len` elements side by side take.
pub(crate) const fn room_of<T: Field>(len: usize) -> usize {
    len * parts::<T>() * together::<T::R>()
}

kernel! {
    /// Element `i` of line `lane` becomes cell `i * step` of that lane.
    ///
    /// # Safety
    /// There is a line for each lane, of `len` elements; `cells` has room for all of them.
    unsafe fn turn_in<T, W>(lines: *const [*const T; MOST_LANES], len: usize, cells: *mut T::R, step: usize) {
        let (width, parts) = (together::<T::R>(), parts::<T>());
        for lane in (0..width).step_by(W::LANES) {
            for first in (0..len * parts).step_by(W::LANES) {
                let count = W::LANES.min(len * parts - first);
                let mut square = [W::zero(); MOST_LANES];
                for (i, register) in square.iter_mut().enumerate().take(W::LANES) {
                    *register = W::load_up_to((*lines)[lane + i].cast::<T::R>().add(first), count);
                }
                W::turn(&mut square);
                for (i, register) in square.iter().enumerate().take(count) {
                    let at = first + i;
                    let cell = at / parts * step * parts + at % parts;
                    register.store(cells.add(cell * width + lane));
                }
            }
        }
    }
}

kernel! {
    /// The first `len` cells of each of the first `count` lanes become elements of its line.
    ///
    /// # Safety
    /// As `turn_in`, with lines that are written.
    unsafe fn turn_out<T, W>(cells: *const T::R, len: usize, lines: *const [*mut T; MOST_LANES], count: usize) {
        let (width, parts) = (together::<T::R>(), parts::<T>());
        for lane in (0..count).step_by(W::LANES) {
            let lanes = W::LANES.min(count - lane);
            for first in (0..len * parts).step_by(W::LANES) {
                let reals = W::LANES.min(len * parts - first);
                let mut square = [W::zero(); MOST_LANES];
                for (i, register) in square.iter_mut().enumerate().take(reals) {
                    *register = W::load(cells.add((first + i) * width + lane));
                }
                W::turn(&mut square);
                for (i, register) in square.iter().enumerate().take(lanes) {
                    register.store_up_to((*lines)[lane + i].cast::<T::R>().add(first), reals);
                }
            }
        }
    }
}

/// Puts `count` matrices from `start` on side by side, entry after entry by rows; lanes without a matrix repeat the first one.
///
/// # Safety
/// The matrices are readable, at most as many as there are lanes, and `cells` has `room_of` a matrix.
pub(crate) unsafe fn load<T: Field>(
    matrices: &Matrices<'_, T>,
    start: usize,
    count: usize,
    cells: *mut T::R,
) {
    let (rows, cols) = (matrices.rows, matrices.cols);
    let mut starts = [matrices.item(start).pointer; MOST_LANES];
    for (lane, pointer) in starts.iter_mut().enumerate().take(count).skip(1) {
        *pointer = matrices.item(start + lane).pointer;
    }
    let (row_step, col_step) = (matrices.row_stride, matrices.col_stride);
    let line = |lines: &[*const T; MOST_LANES], len: usize, first: usize, step: usize| {
        // SAFETY: entries of each matrix, inside the cells.
        unsafe { turn_in::<T>(lines, len, cells.add(room_of::<T>(first)), step) };
    };
    let shifted = |offset: isize| starts.map(|pointer| pointer.wrapping_offset(offset));
    if col_step == 1 || cols == 1 {
        if row_step == cols as isize || rows == 1 {
            return line(&starts, rows * cols, 0, 1);
        }
        if cols > 1 {
            for row in 0..rows {
                line(&shifted(row as isize * row_step), cols, row * cols, 1);
            }
            return;
        }
    }
    if row_step == 1 {
        for col in 0..cols {
            line(&shifted(col as isize * col_step), rows, col, cols);
        }
        return;
    }
    for row in 0..rows {
        for col in 0..cols {
            let offset = row as isize * row_step + col as isize * col_step;
            for (lane, pointer) in starts.iter().enumerate().take(together::<T::R>()) {
                // SAFETY: an entry of the matrix, and its cell.
                unsafe {
                    let x = *pointer.offset(offset);
                    let cell = cells.add(room_of::<T>(row * cols + col) + lane);
                    *cell = x.re();
                    if !T::IS_REAL {
                        *cell.add(together::<T::R>()) = x.im();
                    }
                }
            }
        }
    }
}

/// Takes `count` matrices of `len` entries out again, to where `to(lane)` begins, without gaps.
///
/// # Safety
/// `cells` holds them; every place has room for `len` entries.
pub(crate) unsafe fn store<T: Field>(
    cells: *const T::R,
    len: usize,
    count: usize,
    to: impl Fn(usize) -> *mut T,
) {
    let mut lines = [to(0); MOST_LANES];
    for (lane, line) in lines.iter_mut().enumerate().take(count).skip(1) {
        *line = to(lane);
    }
    // SAFETY: passed on.
    unsafe { turn_out::<T>(cells, len, &raw const lines, count) };
}
