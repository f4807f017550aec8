//! Running sums: pieces of work for the slots of a team, the rows of each, and parts of long sums.

use super::scattered::{self, Lanes};
use super::tree::{Room, Tree, WAITING, across};
use super::{CLAIM, COPIED, SCATTERED, Sums, TILE, Way};
use std::ops::Range;
use treadle_core::Element;
use treadle_kernels::{Columns, Right, TOGETHER, Update};
use treadle_team::{Interrupted, Token};

/// Bytes of the sums of parts that are computed at once.
const PARTS: usize = 256 << 10;
/// Parts that are computed at once, and parts of a result that one slot computes alone.
const AT_ONCE: usize = 64;

/// Bytes of few sums, whose memory costs nothing to have.
const FEW: usize = 2 << 10;
/// Bytes of a group of sums of any type.
const CELLS: usize = if TILE > SCATTERED * 16 {
    TILE
} else {
    SCATTERED * 16
};

/// The arrays of one run.
#[derive(Clone, Copy)]
struct Arrays<T> {
    to: *mut T,
    a: *const T,
    b: *const T,
}

// SAFETY: threads share the factors, and write results that do not overlap.
unsafe impl<T: Sync> Sync for Arrays<T> {}

/// Memory that threads share; each writes its own place.
struct Places<T>(*mut T);

// SAFETY: as above.
unsafe impl<T: Send> Sync for Places<T> {}

impl<T> Places<T> {
    fn at(&self, at: usize) -> *mut T {
        self.0.wrapping_add(at)
    }
}

impl Sums {
    /// `destination = alpha * sum(a * b) + beta * destination`, on at most `slots` slots of the token; without a second
    /// factor `b` is not read.
    ///
    /// # Errors
    /// When the token's poll said stop; results are unspecified then.
    ///
    /// # Safety
    /// The factors are readable and the destination writeable at every offset of the loops, as elements of the kernel's
    /// dtype; the destination overlaps no factor and holds values unless `beta` is zero. The machine has the kernel's
    /// instruction set.
    pub unsafe fn run<T: Element>(
        &self,
        token: &mut Token<'_>,
        slots: usize,
        destination: *mut T,
        a: *const T,
        b: *const T,
        alpha: T,
        beta: T,
    ) -> Result<(), Interrupted> {
        debug_assert_eq!(T::DTYPE, self.kernel.dtype, "the kernel's dtype");
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let [to_at, a_at, b_at] = self.start;
        let arrays = Arrays {
            to: destination.wrapping_offset(to_at),
            a: a.wrapping_offset(a_at),
            b: b.wrapping_offset(b_at),
        };
        let update = Update::new(alpha, beta);
        let tiles = self.tile.0.div_ceil(self.width);
        let tasks = self.kept.iter().map(|(extent, _)| *extent).product::<usize>() * tiles;
        let parts = self.terms.div_ceil(self.part).max(1);
        if parts > AT_ONCE || (parts > 1 && tasks < 4) {
            for task in 0..tasks {
                // SAFETY: every task once.
                unsafe { self.in_parts(token, slots, parts, &self.task(&arrays, task), &update)? };
            }
            return Ok(());
        }
        let work = self.terms.saturating_mul(self.width * self.piece).max(1);
        let run = (CLAIM / work).max(1);
        let several = |tasks: Range<usize>| {
            for task in tasks {
                // SAFETY: every task once.
                unsafe { self.whole(parts, &self.task(&arrays, task), &update) };
            }
        };
        if tasks <= run {
            several(0..tasks);
            return Ok(());
        }
        token.narrowed(slots).chunks(tasks.div_ceil(run), |chunk| {
            several(chunk * run..tasks.min((chunk + 1) * run));
        })
    }

    /// Where a task's results and factors begin, and how many results it has.
    fn task<T>(&self, arrays: &Arrays<T>, task: usize) -> (Arrays<T>, usize) {
        let tiles = self.tile.0.div_ceil(self.width);
        let (mut rest, first) = if tiles == 1 {
            (task, 0)
        } else {
            (task / tiles, task % tiles * self.width)
        };
        let mut at = self.tile.1.map(|stride| stride * first as isize);
        for &(extent, strides) in self.kept.iter().rev() {
            let index = (rest % extent) as isize;
            rest /= extent;
            for (at, stride) in at.iter_mut().zip(strides) {
                *at += index * stride;
            }
        }
        let arrays = Arrays {
            to: arrays.to.wrapping_offset(at[0]),
            a: arrays.a.wrapping_offset(at[1]),
            b: arrays.b.wrapping_offset(at[2]),
        };
        (arrays, self.width.min(self.tile.0 - first))
    }

    /// # Safety
    /// As `run`, for a task that nobody else has.
    unsafe fn whole<T: Element>(&self, parts: usize, task: &(Arrays<T>, usize), update: &Update<T>) {
        // SAFETY: the rooms hold the cells of a task.
        unsafe {
            if parts == 1 && self.terms <= self.block && self.cells(task.1) * size_of::<T>() <= FEW {
                let mut room = Room::<FEW>::new();
                let sums = room.start::<T>();
                self.rows(0..self.terms, task, sums);
                self.gather(task.1, sums);
                self.put(task, sums, update);
            } else {
                self.large(parts, task, update);
            }
        }
    }

    /// # Safety
    /// As `whole`.
    #[inline(never)]
    unsafe fn large<T: Element>(&self, parts: usize, task: &(Arrays<T>, usize), update: &Update<T>) {
        let mut room = Room::<CELLS>::new();
        let sums = room.start::<T>();
        // SAFETY: the room holds the cells of a task.
        unsafe {
            if parts > 1 {
                self.all_parts(parts, task, sums);
            } else {
                self.part(0, task, sums);
            }
            self.put(task, sums, update);
        }
    }

    /// # Safety
    /// As `run`, for a task that nobody else has.
    #[inline(never)]
    unsafe fn all_parts<T: Element>(&self, parts: usize, task: &(Arrays<T>, usize), sums: *mut T) {
        let mut waiting = Room::<WAITING>::new();
        let mut tree = Tree::new(&mut waiting, task.1);
        // SAFETY: as `whole`.
        unsafe {
            for part in 0..parts {
                self.part(part, task, sums);
                tree.push(sums);
            }
            tree.finish(sums);
        }
    }

    /// A result, or a tile of them, whose parts are computed by all slots.
    ///
    /// # Safety
    /// As `run`, for a task that nobody else has.
    #[inline(never)]
    unsafe fn in_parts<T: Element>(
        &self,
        token: &mut Token<'_>,
        slots: usize,
        parts: usize,
        task: &(Arrays<T>, usize),
        update: &Update<T>,
    ) -> Result<(), Interrupted> {
        let cells = task.1;
        let at_once = (PARTS / (cells * size_of::<T>()).max(1)).clamp(1, AT_ONCE);
        let (mut room, mut waiting) = (Room::<PARTS>::new(), Room::<WAITING>::new());
        let places = Places(room.start::<T>());
        let mut tree = Tree::new(&mut waiting, cells);
        for first in (0..parts).step_by(at_once) {
            let count = at_once.min(parts - first);
            token.narrowed(slots).chunks(count, |part| {
                let mut room = Room::<CELLS>::new();
                let sums = room.start::<T>();
                // SAFETY: each part has a place of its own.
                unsafe {
                    self.part(first + part, task, sums);
                    std::ptr::copy_nonoverlapping(sums, places.at(part * cells), cells);
                }
            })?;
            for part in 0..count {
                // SAFETY: the places hold the sums of the parts.
                unsafe { tree.push(places.at(part * cells)) };
            }
        }
        // SAFETY: as above.
        unsafe {
            tree.finish(places.at(0));
            self.put(task, places.at(0), update);
        }
        Ok(())
    }

    /// # Safety
    /// As `run`; `sums` has room for the cells of a task.
    unsafe fn part<T: Element>(&self, part: usize, task: &(Arrays<T>, usize), sums: *mut T) {
        let rows = part * self.part..self.terms.min((part + 1) * self.part);
        // SAFETY: passed on.
        unsafe {
            if rows.len() > self.block {
                self.blocks(rows, task, sums);
            } else {
                self.rows(rows, task, sums);
                self.gather(task.1, sums);
            }
        }
    }

    /// # Safety
    /// As `part`.
    #[inline(never)]
    unsafe fn blocks<T: Element>(&self, rows: Range<usize>, task: &(Arrays<T>, usize), sums: *mut T) {
        let mut waiting = Room::<WAITING>::new();
        let mut tree = Tree::new(&mut waiting, self.cells(task.1));
        // SAFETY: passed on.
        unsafe {
            for first in rows.clone().step_by(self.block) {
                self.rows(first..rows.end.min(first + self.block), task, sums);
                tree.push(sums);
            }
            tree.finish(sums);
            self.gather(task.1, sums);
        }
    }

    /// Sums that a task of so many results adds to.
    fn cells(&self, results: usize) -> usize {
        match self.way {
            Way::Scattered if self.lanes.0 > 1 => self.piece,
            _ => results,
        }
    }

    /// Lanes of one result become one sum.
    ///
    /// # Safety
    /// `sums` holds the cells of a task.
    unsafe fn gather<T: Element>(&self, results: usize, sums: *mut T) {
        let cells = self.cells(results);
        if cells != results {
            // SAFETY: the caller's word.
            unsafe { sums.write(across(sums, cells)) };
        }
    }

    /// # Safety
    /// As `run`; `sums` holds the results of the task.
    unsafe fn put<T: Element>(&self, task: &(Arrays<T>, usize), sums: *const T, update: &Update<T>) {
        let (arrays, results) = task;
        let conj = self.factors == 1 && self.conj[0];
        for at in 0..*results {
            // SAFETY: a result of the task.
            unsafe {
                let sum = sums.add(at).read();
                let place = arrays.to.offset(at as isize * self.tile.1[0]);
                update.put(place, if conj { sum.conj() } else { sum });
            }
        }
    }

    /// The sums of some rows, one after another.
    ///
    /// # Safety
    /// As `part`.
    unsafe fn rows<T: Element>(&self, rows: Range<usize>, task: &(Arrays<T>, usize), sums: *mut T) {
        let (arrays, results) = task;
        for at in 0..self.cells(*results) {
            // SAFETY: a cell of the task.
            unsafe { sums.add(at).write(T::ZERO) };
        }
        let of_piece = self.rows.iter().map(|(extent, _)| *extent).product::<usize>();
        let (inner, steps) = self.rows.last().copied().unwrap_or((1, [0, 0]));
        let outer = &self.rows[..self.rows.len().saturating_sub(1)];
        let mut at = rows.start;
        while at < rows.end {
            // The run of rows that row `at` belongs to.
            let (piece, row) = if of_piece == self.terms {
                (0, at)
            } else {
                (at / of_piece, at % of_piece)
            };
            let (mut rest, column) = if outer.is_empty() {
                (0, row)
            } else {
                (row / inner, row % inner)
            };
            let lane = piece * self.piece;
            let mut a = column as isize * steps[0] + lane as isize * self.lanes.1[0];
            let mut b = column as isize * steps[1] + lane as isize * self.lanes.1[1];
            for &(extent, [left, right]) in outer.iter().rev() {
                let index = (rest % extent) as isize;
                rest /= extent;
                a += index * left;
                b += index * right;
            }
            let count = (inner - column).min(rows.end - at);
            let (a, b) = (arrays.a.wrapping_offset(a), arrays.b.wrapping_offset(b));
            let lanes = self.piece.min(self.lanes.0 - lane);
            // SAFETY: rows of the loops.
            unsafe { self.run_of_rows(count, lanes, *results, a, b, steps, sums) };
            at += count;
        }
    }

    /// Adds rows that are equally far apart.
    ///
    /// # Safety
    /// As `part`; both pointers stand at the first row.
    #[inline]
    unsafe fn run_of_rows<T: Element>(
        &self,
        count: usize,
        lanes: usize,
        results: usize,
        a: *const T,
        b: *const T,
        steps: [isize; 2],
        sums: *mut T,
    ) {
        let [_, a_tile, b_tile] = self.tile.1;
        match self.way {
            // SAFETY: rows of the left factor stand next to each other along the lanes.
            Way::Columns(right) => unsafe {
                self.kernel.columns(&Columns {
                    terms: count,
                    width: results,
                    rows: a.cast(),
                    row_step: steps[0],
                    right,
                    other: b.cast(),
                    other_step: steps[1],
                    conj: if right == Right::Absent {
                        [false; 2]
                    } else {
                        self.conj
                    },
                    sums: sums.cast(),
                });
            },
            Way::Scattered => {
                let (width, a_lane, b_lane) = if self.lanes.0 > 1 {
                    (lanes, self.lanes.1[0], self.lanes.1[1])
                } else {
                    (results, a_tile, b_tile)
                };
                let work = Lanes {
                    width,
                    rows: count,
                    a,
                    a_steps: [a_lane, steps[0]],
                    b,
                    b_steps: [b_lane, steps[1]],
                    conj: if self.factors == 1 { [false; 2] } else { self.conj },
                };
                // SAFETY: passed on.
                unsafe { scattered::add(self.kernel.isa, self.factors == 2, &work, sums) };
            }
            // SAFETY: passed on.
            Way::Copied => unsafe { self.copied(count, lanes, results, a, b, steps, sums) },
            Way::Across => {
                let together = if self.factors == 2 && b_tile == 0 {
                    TOGETHER
                } else {
                    1
                };
                for row in 0..count as isize {
                    let (a, b) = (
                        a.wrapping_offset(row * steps[0]),
                        b.wrapping_offset(row * steps[1]),
                    );
                    for first in (0..results).step_by(together) {
                        let of = |at: usize| (first + at) as isize;
                        let group = together.min(results - first);
                        let from: [*const u8; TOGETHER] =
                            std::array::from_fn(|at| a.wrapping_offset(of(at) * a_tile).cast());
                        let mut found = [T::ZERO; TOGETHER];
                        // SAFETY: inner products of the loops, and sums of the task.
                        unsafe {
                            if self.factors == 2 {
                                let b = b.wrapping_offset(of(0) * b_tile).cast();
                                self.kernel.inner(
                                    lanes,
                                    &from[..group],
                                    b,
                                    self.conj,
                                    found.as_mut_ptr().cast(),
                                );
                            } else {
                                self.kernel.total(lanes, from[0], found.as_mut_ptr().cast());
                            }
                            for (at, found) in found.into_iter().enumerate().take(group) {
                                let place = sums.add(first + at);
                                place.write(place.read().add(found));
                            }
                        }
                    }
                }
            }
        }
    }

    /// As `run_of_rows`, with terms of the right factor that stand apart: each row of them is copied for all results.
    ///
    /// # Safety
    /// As `run_of_rows`.
    #[inline(never)]
    unsafe fn copied<T: Element>(
        &self,
        count: usize,
        lanes: usize,
        results: usize,
        a: *const T,
        b: *const T,
        steps: [isize; 2],
        sums: *mut T,
    ) {
        let [_, a_tile, _] = self.tile.1;
        let mut near = [T::ZERO; COPIED];
        for row in 0..count as isize {
            let (a, b) = (
                a.wrapping_offset(row * steps[0]),
                b.wrapping_offset(row * steps[1]),
            );
            // SAFETY: terms of the loops, which are no more than a piece.
            unsafe {
                for (lane, near) in near.iter_mut().enumerate().take(lanes) {
                    *near = b.offset(lane as isize * self.lanes.1[1]).read();
                }
            }
            for first in (0..results).step_by(TOGETHER) {
                let group = TOGETHER.min(results - first);
                let from: [*const u8; TOGETHER] =
                    std::array::from_fn(|at| a.wrapping_offset((first + at) as isize * a_tile).cast());
                let mut found = [T::ZERO; TOGETHER];
                // SAFETY: inner products of the loops, and sums of the task.
                unsafe {
                    self.kernel.inner(
                        lanes,
                        &from[..group],
                        near.as_ptr().cast(),
                        self.conj,
                        found.as_mut_ptr().cast(),
                    );
                    for (at, found) in found.into_iter().enumerate().take(group) {
                        let place = sums.add(first + at);
                        place.write(place.read().add(found));
                    }
                }
            }
        }
    }
}
