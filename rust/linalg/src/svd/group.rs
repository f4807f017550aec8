//! Batches of small matrices, a group of lanes at a time.

use crate::cost;
use crate::crew::{Block, Crew, Panels};
use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::{Matrices, Part};
use crate::qr::householder;
use crate::run::Batch;
use crate::scaling::Scaling;
use crate::svd::call::{Call, Place};
use crate::svd::large::Vectors;
use crate::svd::small::{self as small, Group, LANES, ORDER};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use std::sync::atomic::{AtomicUsize, Ordering};
use treadle_core::{Element, Result};
use treadle_team::Token;

/// Rows up to which the matrices of a group wait in memory for their triangles to be decomposed together.
const GROUPED_ROWS: usize = 512;
/// Items from which a group is decomposed side by side.
const SIDE_BY_SIDE: usize = 3;

/// Decomposes every item of a batch of matrices with at most `ORDER` rows or columns.
///
/// # Safety
/// As `svd::svd`.
pub(crate) unsafe fn run<T: Field>(
    batch: &Batch<'_>,
    token: &mut Token<'_>,
    a: &Matrices<'_, T>,
    call: &Call<T>,
) -> Result<()> {
    let tall = call.tall;
    let share = if tall.m <= GROUPED_ROWS {
        LANES.min(batch.count.max(1))
    } else {
        1
    };
    let groups = Batch {
        count: batch.count.div_ceil(share),
        ..*batch
    };
    let vectors = tall.vectors != Vectors::None;
    let item_ns = cost::svd(a.rows, a.cols, vectors, !T::IS_REAL) * share as f64;
    let stopped = AtomicUsize::new(usize::MAX);
    let memory = AtomicUsize::new(0);
    groups.each(token, item_ns, scratch(call, share), |group, stack| {
        let items = group * share..((group + 1) * share).min(batch.count);
        let first = items.start;
        if first > stopped.load(Ordering::Relaxed) {
            return Ok(());
        }
        // SAFETY: every group is given out once, so that no two items write to the same place.
        if let Err((index, failure)) = unsafe { decompose(a, call, items, stack) } {
            if let Failure::OutOfMemory { bytes } = failure {
                memory.store(bytes, Ordering::Relaxed);
            }
            stopped.fetch_min(index, Ordering::Relaxed);
        }
        Ok(())
    })?;
    match (stopped.into_inner(), memory.into_inner()) {
        (usize::MAX, _) => Ok(()),
        (index, 0) => Err(Failure::NotConverged.into_error(batch.operation, index, batch.batched)),
        (index, bytes) => {
            Err(Failure::OutOfMemory { bytes }.into_error(batch.operation, index, batch.batched))
        }
    }
}

/// Real numbers that stand for one element.
const fn parts<T: Field>() -> usize {
    if T::IS_REAL { 1 } else { 2 }
}

fn scratch<T: Field>(call: &Call<T>, share: usize) -> StackReq {
    let tall = call.tall;
    let (m, n) = (tall.m, tall.n);
    let numbers = small::numbers(n, parts::<T>(), LANES);
    let square = m == n;
    StackReq::all_of(&[
        need::<f64>(numbers),
        need::<f64>(numbers),
        need::<f64>(n * LANES),
        if square {
            StackReq::EMPTY
        } else {
            StackReq::all_of(&[
                need::<T>(share * m * n),
                need::<T>(share * householder::factor_len(n)),
                need::<T>(m * tall.left_cols()),
                householder::scratch::<T>(n.max(tall.left_cols())),
            ])
        },
    ])
}

/// Scratch of one group, after QR of its items when they are not square.
struct Room<T> {
    a: *mut f64,
    v: *mut f64,
    s: *mut f64,
    /// `m * n` an item, its blocks of `T`, and one left factor.
    qr: *mut T,
    t: *mut T,
    left: *mut T,
}

/// Decomposes the items of one group; the first one that fails.
///
/// # Safety
/// As `run`.
unsafe fn decompose<T: Field>(
    matrices: &Matrices<'_, T>,
    call: &Call<T>,
    items: std::ops::Range<usize>,
    stack: &mut MemStack,
) -> std::result::Result<(), (usize, Failure)> {
    let tall = call.tall;
    let (m, n) = (tall.m, tall.n);
    let share = items.len();
    let parts = parts::<T>();
    let numbers = small::numbers(n, parts, LANES);
    let (a, stack) = take::<f64>(stack, numbers);
    let (v, stack) = take::<f64>(stack, numbers);
    let (s, stack) = take::<f64>(stack, n * LANES);
    let square = m == n;
    let (qr, stack) = take::<T>(stack, if square { 0 } else { share * m * n });
    let (t, stack) = take::<T>(
        stack,
        if square {
            0
        } else {
            share * householder::factor_len(n)
        },
    );
    let (left, stack) = take::<T>(stack, if square { 0 } else { m * tall.left_cols() });
    let room = Room { a, v, s, qr, t, left };
    let width = if share >= SIDE_BY_SIDE { LANES } else { 1 };
    for first in (0..share).step_by(width) {
        let lanes = width.min(share - first);
        let mut scalings = [Scaling::<T::R>::none(); LANES];
        let mut refused = [false; LANES];
        let mut diagonals = [None; LANES];
        // SAFETY: the items of the group; the room is as large as `scratch` says.
        unsafe {
            if lanes < width {
                (0..small::numbers(n, parts, width)).for_each(|i| *a.add(i) = 0.0);
            }
            let slots = scalings.iter_mut().zip(&mut refused).enumerate().take(lanes);
            for (lane, (kept, refused)) in slots {
                let index = items.start + first + lane;
                let view = matrices.item(index);
                *refused = call.refuse(&view, &call.place(index));
                if !*refused {
                    *kept = Scaling::to_unit(view.max_abs(Part::All));
                }
                let scaling = *kept;
                let view = if tall.wide { view.transposed() } else { view };
                let mut diagonal = true;
                let mut to = |row: usize, col: usize, x: T| {
                    diagonal &= row == col || x == T::ZERO;
                    let at = a.add((col * n + row) * parts * width + lane);
                    *at = x.re().to_f64();
                    if parts == 2 {
                        *at.add(width) = x.im().to_f64();
                    }
                };
                if *refused {
                    for col in 0..n {
                        (0..n).for_each(|row| to(row, col, T::ZERO));
                    }
                } else if square {
                    for col in 0..n {
                        for row in 0..n {
                            to(row, col, scaling.apply(view.at(row, col)));
                        }
                    }
                } else {
                    let tall = qr.add((first + lane) * m * n);
                    let t = t.add((first + lane) * householder::factor_len(n));
                    view.load(scaling, tall, m);
                    householder::factor(tall, m, n, m, t, stack);
                    for col in 0..n {
                        for row in 0..n {
                            to(
                                row,
                                col,
                                if row <= col {
                                    *tall.add(row + col * m)
                                } else {
                                    T::ZERO
                                },
                            );
                        }
                    }
                }
                if diagonal {
                    let mut entries = [[0.0; 2]; ORDER];
                    for (j, entry) in entries.iter_mut().enumerate().take(n) {
                        let at = a.add((j * n + j) * parts * width + lane);
                        *entry = [*at, if parts == 2 { *at.add(width) } else { 0.0 }];
                    }
                    diagonals[lane] = Some(entries);
                }
            }
            let kept = if tall.vectors == Vectors::None {
                0
            } else {
                small::numbers(n, parts, width)
            };
            let mut group = Group {
                n,
                a: std::slice::from_raw_parts_mut(a, small::numbers(n, parts, width)),
                v: {
                    (0..kept).for_each(|i| *v.add(i) = 0.0);
                    std::slice::from_raw_parts_mut(v, kept)
                },
                s: {
                    (0..n * width).for_each(|i| *s.add(i) = 0.0);
                    std::slice::from_raw_parts_mut(s, n * width)
                },
                tolerance: tolerance::<T>(n),
            };
            let done = match (width, parts) {
                (1, 1) => small::decompose::<1, 1>(&mut group),
                (1, _) => small::decompose::<1, 2>(&mut group),
                (_, 1) => small::decompose::<LANES, 1>(&mut group),
                _ => small::decompose::<LANES, 2>(&mut group),
            };
            for lane in (0..lanes).filter(|&lane| !refused[lane]) {
                let index = items.start + first + lane;
                if done.is_err() {
                    one_by_one(matrices, call, index).map_err(|failure| (index, failure))?;
                    continue;
                }
                if let Some(entries) = &diagonals[lane] {
                    exact(&room, entries, n, parts, width, lane, kept > 0);
                }
                let place = call.place(index);
                store(call, &room, first, lane, width, &place, stack);
                call.finish(&place, scalings[lane]);
            }
        }
    }
    Ok(())
}

/// A lane whose matrix is diagonal gets its exact factors, whatever the range of its entries.
///
/// # Safety
/// The room is a group of `width` lanes, with right vectors if said.
unsafe fn exact<T>(
    room: &Room<T>,
    entries: &[[f64; 2]; ORDER],
    n: usize,
    parts: usize,
    width: usize,
    lane: usize,
    vectors: bool,
) {
    for (j, &[re, im]) in entries.iter().enumerate().take(n) {
        let modulus = if parts == 1 { re.abs() } else { re.hypot(im) };
        let phase = if modulus == 0.0 {
            [1.0, 0.0]
        } else {
            [re / modulus, im / modulus]
        };
        // SAFETY: column j of the lane.
        unsafe {
            *room.s.add(j * width + lane) = modulus;
            for i in 0..if vectors { n * parts } else { 0 } {
                let (row, part) = (i / parts, i % parts);
                let at = (j * n * parts + i) * width + lane;
                *room.a.add(at) = if row == j { phase[part] } else { 0.0 };
                *room.v.add(at) = if row == j && part == 0 { 1.0 } else { 0.0 };
            }
        }
    }
}

/// Off-diagonal cosines up to this are rounding.
fn tolerance<T: Field>(n: usize) -> f64 {
    if T::EPSILON > 1e-10 {
        return T::EPSILON / 64.0;
    }
    f64::EPSILON * (n as f64).sqrt().max(2.0)
}

/// The item by the algorithm for large ones.
///
/// # Safety
/// As `run`.
#[cold]
unsafe fn one_by_one<T: Field>(
    matrices: &Matrices<'_, T>,
    call: &Call<T>,
    index: usize,
) -> std::result::Result<(), Failure> {
    crate::fallbacks::count_svd();
    let request = StackReq::all_of(&[need::<T::R>(call.tall.n), call.tall.scratch::<T>()]);
    let bytes = request.layout().map_or(usize::MAX, |layout| layout.size());
    let mut memory = MemBuffer::try_new(request).map_err(|_| Failure::OutOfMemory { bytes })?;
    let mut crew = Crew {
        token: Token::serial(),
        panels: Panels::default(),
    };
    // SAFETY: passed on.
    unsafe { call.large(matrices.item(index), index, &mut crew, MemStack::new(&mut memory)) }
}

/// One lane of a group to its place, sorted.
///
/// # Safety
/// The group is decomposed; the place is the item's.
unsafe fn store<T: Field>(
    call: &Call<T>,
    room: &Room<T>,
    first: usize,
    lane: usize,
    width: usize,
    place: &Place<T>,
    stack: &mut MemStack,
) {
    let tall = call.tall;
    let (m, n) = (tall.m, tall.n);
    let parts = parts::<T>();
    // SAFETY: every index is inside the group, the room or the outputs.
    unsafe {
        let value = |j: usize| *room.s.add(j * width + lane);
        let mut order = [0usize; ORDER];
        for j in 0..n {
            let mut at = j;
            while at > 0 && value(order[at - 1]) < value(j) {
                order[at] = order[at - 1];
                at -= 1;
            }
            order[at] = j;
        }
        for (k, &j) in order[..n].iter().enumerate() {
            *place.s.add(k) = T::R::of(value(j));
        }
        if tall.vectors == Vectors::None {
            return;
        }
        complete(room.a.add(lane), n, parts, width);
        let entry = |from: *const f64, row: usize, col: usize| {
            let at = from.add((col * n + row) * parts * width + lane);
            let im = if parts == 2 { *at.add(width) } else { 0.0 };
            T::from_parts(T::R::of(*at), T::R::of(im))
        };
        let right = place.factors.right;
        for (k, &j) in order[..n].iter().enumerate() {
            for row in 0..n {
                *right.at(row, k) = entry(room.v, row, j);
            }
        }
        let left = place.factors.left;
        if m == n {
            for row in 0..n {
                for (k, &j) in order[..n].iter().enumerate() {
                    *left.at(row, k) = entry(room.a, row, j);
                }
            }
            return;
        }
        let cols = tall.left_cols();
        let columns = Block::columns(room.left, m, cols, m);
        for k in 0..cols {
            let from = order.get(k).copied().unwrap_or(0);
            for row in 0..m {
                *columns.at(row, k) = if k < n && row < n {
                    entry(room.a, row, from)
                } else if k == row {
                    <T as Element>::ONE
                } else {
                    <T as Element>::ZERO
                };
            }
        }
        let item = first + lane;
        let qr = room.qr.add(item * m * n);
        let t = room.t.add(item * householder::factor_len(n));
        householder::apply(qr, m, n, m, t, false, room.left, cols, m, stack);
        for row in 0..m {
            for k in 0..cols {
                *left.at(row, k) = *columns.at(row, k);
            }
        }
    }
}

/// Columns that are zero become what completes the others to an orthonormal basis.
///
/// # Safety
/// `a` is one lane of a group, `width` numbers apart.
unsafe fn complete(a: *mut f64, n: usize, parts: usize, width: usize) {
    // SAFETY: rows, columns and parts of the lane.
    unsafe {
        let at = |row: usize, col: usize, part: usize| a.add(((col * n + row) * parts + part) * width);
        let squares = |col: usize| -> f64 {
            (0..n * parts)
                .map(|i| *at(i / parts, col, i % parts))
                .map(|x| x * x)
                .sum()
        };
        for col in 0..n {
            if squares(col) > 0.5 {
                continue;
            }
            // The unit vector that the others leave most of.
            let (mut best, mut most) = (0, -1.0);
            for row in 0..n {
                let taken: f64 = (0..n * parts)
                    .map(|i| *at(row, i / parts, i % parts))
                    .map(|x| x * x)
                    .sum();
                if 1.0 - taken > most {
                    (best, most) = (row, 1.0 - taken);
                }
            }
            *at(best, col, 0) = 1.0;
            for _ in 0..2 {
                for other in (0..n).filter(|&other| other != col && squares(other) > 0.5) {
                    let mut dot = [0.0; 2];
                    for row in 0..n {
                        let (x, y) = (*at(row, other, 0), *at(row, col, 0));
                        dot[0] += x * y;
                        if parts == 2 {
                            let (xi, yi) = (*at(row, other, 1), *at(row, col, 1));
                            dot[0] += xi * yi;
                            dot[1] += x * yi - xi * y;
                        }
                    }
                    for row in 0..n {
                        let x = *at(row, other, 0);
                        if parts == 2 {
                            let xi = *at(row, other, 1);
                            *at(row, col, 0) -= dot[0] * x - dot[1] * xi;
                            *at(row, col, 1) -= dot[0] * xi + dot[1] * x;
                        } else {
                            *at(row, col, 0) -= dot[0] * x;
                        }
                    }
                }
                let norm = squares(col).sqrt();
                for i in 0..n * parts {
                    *at(i / parts, col, i % parts) /= norm;
                }
            }
        }
    }
}
