//! Batches of small matrices, as many side by side as a register has lanes.

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::lu::small_elimination::{self as lanes, ORDER, SIDES, Seen, Systems, number_of};
use crate::matrices::Matrices;
use crate::side_by_side::together;
use crate::turned::{load, room_of, store};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use std::ops::Range;
use treadle_core::Element;

/// Order up to which Cholesky factors are computed side by side.
const CHOLESKY_ORDER: usize = 24;

/// Whether Cholesky factors of that many matrices of that order are computed side by side; the bits are the same alone.
pub(crate) fn is_small_cholesky(order: usize, count: usize) -> bool {
    (1..=CHOLESKY_ORDER).contains(&order) && (count > 1 || order < ALONE_ORDER)
}

/// Order from which a matrix without company is quicker alone.
const ALONE_ORDER: usize = 10;

/// Whether systems of that order are solved side by side.
pub(crate) fn is_small(order: usize, sides: usize) -> bool {
    (1..=ORDER).contains(&order) && sides <= SIDES
}

/// As `is_small` where the code for single matrices, which does the same operations in the same order, gives the same bits.
pub(crate) fn is_quicker_together(order: usize, sides: usize, count: usize) -> bool {
    is_small(order, sides) && (count > 1 || order < ALONE_ORDER)
}

/// Scratch of the functions below.
pub(crate) fn scratch<T: Field>(order: usize, sides: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T::R>(room_of::<T>(order * (order + sides))),
        need::<T::R>((order + 2) * together::<T::R>()),
    ])
}

/// One group of lanes after elimination.
pub(crate) struct Group<T: Field> {
    systems: Systems<T::R>,
    determinants: *const T::R,
}

impl<T: Field> Group<T> {
    /// An entry of a lane's matrix.
    #[inline(always)]
    pub(crate) fn at(&self, lane: usize, row: usize, col: usize) -> T {
        debug_assert!(row < self.systems.n && col < self.systems.n);
        // SAFETY: a group is made of cells that live longer, and callers name rows and columns of it.
        unsafe { number_of::<T>(self.systems.a, row * self.systems.n + col, lane) }
    }

    /// The row with which row `k` of a lane was exchanged.
    #[inline(always)]
    pub(crate) fn pivot(&self, lane: usize, k: usize) -> usize {
        debug_assert!(k < self.systems.n);
        // SAFETY: as above.
        unsafe { (*self.systems.pivots.add(k * together::<T::R>() + lane)).to_f64() as usize }
    }

    /// The product of a lane's pivots, with the sign of its permutation; it may have left the range.
    #[inline(always)]
    pub(crate) fn determinant(&self, lane: usize) -> T {
        // SAFETY: as above.
        unsafe { number_of::<T>(self.determinants, 0, lane) }
    }
}

/// What comes behind the matrices.
#[derive(Clone, Copy)]
pub(crate) enum Sides<'a, T> {
    /// Nothing: the factors are wanted.
    Factors,
    /// Nothing: the upper factors and the determinants are wanted.
    Determinants,
    /// Right-hand sides.
    Of(&'a Matrices<'a, T>),
    /// The identity.
    Identity,
}

/// The identity in every lane.
///
/// # Safety
/// `cells` has room for matrices of order `n`.
unsafe fn identity<T: Field>(n: usize, cells: *mut T::R) {
    let width = together::<T::R>();
    // SAFETY: passed on.
    unsafe {
        std::slice::from_raw_parts_mut(cells, room_of::<T>(n * n)).fill(<T::R as Element>::ZERO);
        for i in 0..n {
            let diagonal = cells.add(room_of::<T>(i * n + i));
            std::slice::from_raw_parts_mut(diagonal, width).fill(T::R::of(1.0));
        }
    }
}

/// Eliminates the matrices of a range with what comes behind them. The solutions, when there are
/// right-hand sides, go to `out(index)`; `finish(index, lane, group)` takes the result of a lane, `single(index, scratch)` does
/// a matrix that needs more.
///
/// # Safety
/// The matrices are readable, square and small; the places take a solution.
pub(crate) unsafe fn eliminate<T: Field>(
    range: Range<usize>,
    a: &Matrices<'_, T>,
    sides: Sides<'_, T>,
    stack: &mut MemStack,
    out: impl Fn(usize) -> *mut T,
    finish: impl Fn(usize, usize, &Group<T>),
    single: impl Fn(usize, &mut MemStack) -> Result<(), Failure>,
) -> Result<(), (usize, Failure)> {
    let n = a.rows;
    let cols = match sides {
        Sides::Factors | Sides::Determinants => 0,
        Sides::Of(b) => b.cols,
        Sides::Identity => n,
    };
    let width = together::<T::R>();
    let (cells, stack) = take::<T::R>(stack, room_of::<T>(n * (n + cols)));
    let (pivots, stack) = take::<T::R>(stack, (n + 2) * width);
    let determinants = pivots.wrapping_add(n * width);
    let systems = Systems {
        a: cells,
        n,
        b: cells.wrapping_add(room_of::<T>(n * n)),
        sides: cols,
        pivots,
        lower: matches!(sides, Sides::Factors),
    };
    for start in range.clone().step_by(width) {
        let count = width.min(range.end - start);
        // SAFETY: the cells hold that many matrices, and the places are the caller's.
        let seen = unsafe {
            load(a, start, count, systems.a);
            match sides {
                Sides::Of(b) if cols > 0 => load(b, start, count, systems.b),
                Sides::Identity => identity::<T>(n, systems.b),
                _ => {}
            }
            let seen = lanes::eliminate::<T>(systems);
            if matches!(sides, Sides::Determinants) {
                lanes::determinants::<T>(systems, determinants);
            }
            if cols > 0 {
                store(systems.b, n * cols, count, |lane| out(start + lane));
            }
            seen
        };
        let group = Group {
            systems,
            determinants,
        };
        each_lane(
            start,
            count,
            &seen,
            |index, lane| finish(index, lane, &group),
            |index| single(index, stack),
        )?;
    }
    Ok(())
}

/// Hands every lane to one of the two.
fn each_lane<R: RealNumber>(
    start: usize,
    count: usize,
    seen: &Seen<R>,
    sound: impl Fn(usize, usize),
    mut single: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<(), (usize, Failure)> {
    for lane in 0..count {
        let index = start + lane;
        if seen.is_sound(lane) {
            sound(index, lane);
        } else {
            single(index).map_err(|failure| (index, failure))?;
        }
    }
    Ok(())
}

/// Cholesky factors of a range, from the lower triangles or the upper ones, each to its place; `single(index)` does a matrix that
/// needs more.
///
/// # Safety
/// The matrices are readable and square, the places take one each.
pub(crate) unsafe fn cholesky<T: Field>(
    range: Range<usize>,
    a: &Matrices<'_, T>,
    upper: bool,
    stack: &mut MemStack,
    out: impl Fn(usize) -> *mut T,
    single: impl Fn(usize) -> Result<(), Failure>,
) -> Result<(), (usize, Failure)> {
    let n = a.rows;
    let width = together::<T::R>();
    let (cells, _) = take::<T::R>(stack, room_of::<T>(n * n));
    for start in range.clone().step_by(width) {
        let count = width.min(range.end - start);
        // SAFETY: the cells hold that many matrices, and the places are the caller's.
        let seen = unsafe {
            load(a, start, count, cells);
            let seen = lanes::cholesky::<T>(cells, n, upper);
            store(cells, n * n, count, |lane| out(start + lane));
            seen
        };
        each_lane(start, count, &seen, |_, _| {}, &single)?;
    }
    Ok(())
}
