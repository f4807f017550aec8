//! Chains of small bulges, chased through windows on the diagonal: what they do to the rest of the matrix is one product a
//! window (Braman, Byers and Mathias, The multishift QR algorithm, part I, SIAM J. Matrix Anal. Appl. 23, 2002).

use crate::crew::{Block, Crew};
use crate::eig::column_loops::{from_right_2, from_right_3};
use crate::eig::reflection::{from_left_2, from_left_3, reflection, three_columns, two_columns};
use crate::failure::Failure;
use crate::field::Field;
use crate::workspace::{need, slice};
use faer::dyn_stack::{MemStack, StackReq};
use std::ops::Range;

/// Bulges of a chain, at most.
pub(crate) const MOST: usize = 16;
/// Rows of a window, at most: a chain of bulges of three rows, and as many steps.
pub(crate) const WINDOW: usize = 6 * MOST + 4;
/// Order from which chains pay.
const FROM: usize = 96;
/// Order of an active block that is brought to Schur form in a window of its own.
const ALONE: usize = 64;

/// Whether the iteration works in windows.
pub(crate) fn is_blocked(n: usize) -> bool {
    n >= FROM
}

/// Bulges of a chain in an active block of that order. More would need longer blocks to be quick, and shifts get lost in
/// long chains.
fn chain(order: usize) -> usize {
    match order {
        0..150 => 5,
        150..300 => 8,
        300..600 => 12,
        _ => MOST,
    }
}

/// Memory for a window and what was done in it.
pub(crate) struct Room<'a, T> {
    window: &'a mut [T],
    done: &'a mut [T],
    strip: &'a mut [T],
}

/// Scratch of `Room::cut`.
pub(crate) fn scratch<T>(n: usize) -> StackReq {
    if !is_blocked(n) {
        return StackReq::EMPTY;
    }
    StackReq::all_of(&[
        need::<T>(WINDOW * (WINDOW + 1)),
        need::<T>(WINDOW * WINDOW),
        need::<T>(n * WINDOW),
    ])
}

impl<'a, T: Field> Room<'a, T> {
    /// From scratch, for matrices of that order; nothing where windows do not pay.
    pub(crate) fn cut(stack: &'a mut MemStack, n: usize) -> Option<Self> {
        if !is_blocked(n) {
            return None;
        }
        let (window, stack) = slice(stack, WINDOW * (WINDOW + 1), T::ZERO);
        let (done, stack) = slice(stack, WINDOW * WINDOW, T::ZERO);
        let (strip, _) = slice(stack, n * WINDOW, T::ZERO);
        Some(Room { window, done, strip })
    }

    /// The same memory as another type's.
    pub(crate) fn map<U>(self, map: impl Fn(&'a mut [T]) -> &'a mut [U]) -> Room<'a, U> {
        Room {
            window: map(self.window),
            done: map(self.done),
            strip: map(self.strip),
        }
    }

    /// Square memory of that order, at most `WINDOW`.
    pub(crate) fn square(&mut self, order: usize) -> &mut [T] {
        &mut self.window[..order * order]
    }

    /// The same, and a second one.
    pub(crate) fn squares(&mut self, order: usize) -> (&mut [T], &mut [T]) {
        (&mut self.window[..order * order], &mut self.done[..order * order])
    }
}

/// What starts a bulge.
pub(crate) trait Bulge<T> {
    /// Rows that it takes.
    const SPAN: usize;

    /// A multiple of the first column of the polynomial in the matrix whose upper left corner begins at `corner`.
    fn first(&self, corner: &[T], leading: usize) -> [T; 3];
}

/// The matrix, and what takes part from the right.
pub(crate) struct Whole<'a, T> {
    pub(crate) h: &'a mut [T],
    pub(crate) z: Option<&'a mut [T]>,
    pub(crate) n: usize,
    /// Rows above and columns behind a window that its product reaches.
    pub(crate) reach: Range<usize>,
}

/// Whether an active block of that order is brought to Schur form in one window.
pub(crate) fn is_alone(order: usize) -> bool {
    order <= ALONE
}

/// How many bulges go through an active block of that order together.
pub(crate) fn bulges(order: usize) -> usize {
    chain(order).min(order / 6)
}

/// Chases a chain of bulges from the first to the last of the rows `active`.
pub(crate) fn sweep<T: Field, B: Bulge<T>>(
    whole: &mut Whole<'_, T>,
    active: Range<usize>,
    bulges: &[Option<B>],
    room: &mut Room<'_, T>,
    crew: &mut Crew<'_>,
) -> Result<(), Failure> {
    let n = whole.n;
    let (start, top) = (active.start, active.end - 1);
    let behind = B::SPAN * (bulges.len() - 1);
    let steps = top - start + behind;
    let together = WINDOW - 1 - behind - B::SPAN;
    let together = together.min(B::SPAN * bulges.len());
    for from in (0..steps).step_by(together) {
        let to = (from + together).min(steps);
        let low = start + from.saturating_sub(behind);
        let high = (start + to - 1 + B::SPAN).min(top);
        let width = high + 1 - low;
        // The column on the left of the window has the bulge that comes in last.
        let left = low - usize::from(low > start);
        let window = &mut room.window[..width * (high + 1 - left)];
        for (column, col) in window.chunks_exact_mut(width).zip(left..) {
            column.copy_from_slice(&whole.h[low + col * n..low + col * n + width]);
        }
        let done = &mut room.done[..width * width];
        done.fill(T::ZERO);
        done.iter_mut().step_by(width + 1).for_each(|x| *x = T::ONE);
        let mut local = Local {
            window,
            done,
            low,
            left,
            width,
        };
        for step in from..to {
            for (at, bulge) in bulges.iter().flatten().enumerate() {
                let Some(ahead) = step.checked_sub(B::SPAN * at) else {
                    break;
                };
                let row = start + ahead;
                if row < top {
                    local.advance(row, row == start, B::SPAN.min(top + 1 - row), bulge);
                }
            }
        }
        for (column, col) in local.window.chunks_exact(width).zip(left..) {
            whole.h[low + col * n..low + col * n + width].copy_from_slice(column);
        }
        apply(whole, low..high + 1, room.done, room.strip, crew)?;
    }
    Ok(())
}

/// A window while bulges go through it.
struct Local<'a, T> {
    window: &'a mut [T],
    done: &'a mut [T],
    low: usize,
    left: usize,
    width: usize,
}

impl<T: Field> Local<'_, T> {
    /// One reflection of `len` rows from `row` on.
    fn advance<B: Bulge<T>>(&mut self, row: usize, is_first: bool, len: usize, bulge: &B) {
        let (width, at) = (self.width, row - self.low);
        let column = row - self.left;
        let mut v = [T::ZERO; 3];
        if is_first {
            v = bulge.first(&self.window[at + column * width..], width);
        } else {
            let before = at + (column - 1) * width;
            v[..len].copy_from_slice(&self.window[before..before + len]);
        }
        let (beta, tau) = reflection(&mut v[..len]);
        if !is_first {
            let before = at + (column - 1) * width;
            self.window[before] = T::from_real(beta);
            self.window[before + 1..before + len].fill(T::ZERO);
        }
        if tau == T::ZERO {
            return;
        }
        let rows = 0..(at + len + 1).min(width);
        let behind = self.window[column * width..].chunks_exact_mut(width);
        if len == 3 {
            behind.for_each(|column| from_left_3([v[1], v[2]], tau, &mut column[at..]));
            let (x, y, z) = three_columns(self.window, width, column, rows);
            from_right_3([v[1], v[2]], tau, x, y, z);
            let (x, y, z) = three_columns(self.done, width, at, 0..width);
            from_right_3([v[1], v[2]], tau, x, y, z);
        } else {
            behind.for_each(|column| from_left_2(v[1], tau, &mut column[at..]));
            let (x, y) = two_columns(self.window, width, column, rows);
            from_right_2(v[1], tau, x, y);
            let (x, y) = two_columns(self.done, width, at, 0..width);
            from_right_2(v[1], tau, x, y);
        }
    }
}

/// Applies what was done to the rows and columns `window` to the rest of the matrix and to the basis. `strip` holds `n`
/// columns of a window.
fn apply<T: Field>(
    whole: &mut Whole<'_, T>,
    window: Range<usize>,
    done: &mut [T],
    strip: &mut [T],
    crew: &mut Crew<'_>,
) -> Result<(), Failure> {
    let n = whole.n;
    let width = window.len();
    let unitary = Block::columns(done.as_mut_ptr(), width, width, width);
    let h = Block::columns(whole.h.as_mut_ptr(), n, n, n);
    let mut columns = |target: Block<T>| -> Result<(), Failure> {
        if target.rows == 0 {
            return Ok(());
        }
        let to = Block::columns(strip.as_mut_ptr(), target.rows, width, target.rows);
        // SAFETY: the strip has room for all rows of a window's columns; it, the matrix and `done` are apart.
        unsafe {
            crew.multiply(T::ONE, target, unitary, T::ZERO, to)?;
            copy(to, target);
        }
        Ok(())
    };
    columns(h.part(whole.reach.start..window.start, window.clone()))?;
    if let Some(z) = &mut whole.z {
        columns(Block::columns(z.as_mut_ptr(), n, n, n).part(0..n, window.clone()))?;
    }
    let behind = h.part(window.clone(), window.end..whole.reach.end);
    if behind.cols > 0 {
        let to = Block::columns(strip.as_mut_ptr(), width, behind.cols, width);
        // SAFETY: as above.
        unsafe {
            crew.multiply(T::ONE, unitary.adjoint(), behind, T::ZERO, to)?;
            copy(to, behind);
        }
    }
    Ok(())
}

/// # Safety
/// Both are column-major and of one shape, and share no element.
unsafe fn copy<T: Field>(from: Block<T>, to: Block<T>) {
    for col in 0..from.cols {
        // SAFETY: a column of each.
        unsafe { std::ptr::copy_nonoverlapping(from.at(0, col), to.at(0, col), from.rows) };
    }
}

/// Copies the active block `rows` of `h` to dense memory of its own, with an identity beside it.
pub(crate) fn load<T: Field>(h: &[T], n: usize, rows: Range<usize>, room: &mut Room<'_, T>) {
    let order = rows.len();
    let (block, done) = room.squares(order);
    for (column, col) in block.chunks_exact_mut(order).zip(rows.clone()) {
        column.copy_from_slice(&h[rows.start + col * n..rows.end + col * n]);
    }
    done.fill(T::ZERO);
    done.iter_mut().step_by(order + 1).for_each(|x| *x = T::ONE);
}

/// Puts a block that was worked on where it came from, and applies what was done to the rest.
pub(crate) fn store<T: Field>(
    whole: &mut Whole<'_, T>,
    rows: Range<usize>,
    room: &mut Room<'_, T>,
    crew: &mut Crew<'_>,
) -> Result<(), Failure> {
    let (n, order) = (whole.n, rows.len());
    for (column, col) in room.window[..order * order].chunks_exact(order).zip(rows.clone()) {
        whole.h[rows.start + col * n..rows.end + col * n].copy_from_slice(column);
    }
    apply(whole, rows, room.done, room.strip, crew)
}
