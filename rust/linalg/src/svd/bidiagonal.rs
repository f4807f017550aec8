//! Reduction to bidiagonal form, `A = Q B P^H` with `B` real and upper bidiagonal.
//!
//! Columns and rows are reflected in turn (Golub and Kahan 1965), a panel of them at a time (Dongarra, Sorensen and
//! Hammarling 1989): inside a panel the matrix stays as it is, `A - V Y^H - X U^H` stands for what it has become, and the
//! panel ends with one product of both pairs. The two products with the matrix that every column needs, `A^H v` and `A u`,
//! cannot share a pass, because `u` is known only after the first (combining them linearly loses accuracy where a row
//! cancels); each takes its panel corrections and the update of the next row or column along in the same section of the team.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::qr::householder::reflect_column as reflector;
use crate::svd::kernels::{combine, dots, quarter_turn};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::Isa;
use treadle_contract::policy::FAN_OUT_NS;
use treadle_core::Element;

/// Columns of a panel.
fn panel_width(n: usize) -> usize {
    if n <= 192 { 16 } else { 32 }
}

/// Rows or columns that a slot takes at least at a time. Each is summed by itself, so that bits do not depend on the cut.
const CHUNK: usize = 64;
/// Nanoseconds from which a section goes to the team: its workers are awake from the section before.
const SECTION_NS: f64 = 20_000.0;

/// Where the reflectors go, with their zeros and ones written out: column `j` of `left` is zero above row `j`, column `j` of
/// `right` above row `j + 1`.
#[derive(Clone, Copy)]
pub(crate) struct Reflectors<T> {
    /// `m` by `n`, without gaps.
    pub(crate) left: *mut T,
    /// The `n` factors of the left reflectors.
    pub(crate) left_tau: *mut T,
    /// `n` by `n - 1`, without gaps.
    pub(crate) right: *mut T,
    /// The `n - 1` factors of the right reflectors.
    pub(crate) right_tau: *mut T,
}

/// Scratch of `reduce`.
pub(crate) fn scratch<T: Field>(m: usize, n: usize) -> StackReq {
    let width = panel_width(n);
    StackReq::all_of(&[
        need::<T>(2 * width * m),
        need::<T>(2 * width * n),
        need::<T>(m),
        need::<T>(2 * width),
        need::<T>(2 * width),
        need::<T::R>(4 * m),
    ])
}

/// Memory that slots read and write without meeting.
struct Shared<T>(*mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: every chunk has its own rows or columns.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn at(&self, index: usize) -> *mut T {
        self.0.wrapping_add(index)
    }
}

/// Cuts `first..end` into chunks and runs `f(start, end)` for each.
fn sections<T: Field>(
    crew: &mut Crew<'_>,
    first: usize,
    end: usize,
    other: usize,
    f: impl Fn(usize, usize) + Sync,
) -> Result<(), Failure> {
    let nanoseconds = ((end - first) * other * size_of::<T>()) as f64 / 20.0;
    let budget = crew.token.budget();
    if nanoseconds < SECTION_NS || budget == 1 {
        f(first, end);
        return Ok(());
    }
    let share = (end - first).div_ceil(2 * budget).next_multiple_of(16).max(CHUNK);
    let count = (end - first).div_ceil(share);
    crew.chunks(count, nanoseconds * (FAN_OUT_NS / SECTION_NS), |chunk| {
        let start = first + chunk * share;
        f(start, (start + share).min(end));
    })
}

/// Reduces `a` (column-major without gaps, `m >= n >= 1`, overwritten): the diagonal to `d`, what is right of it to `e`.
///
/// # Safety
/// `a` is `m` by `n`, `d` holds `n` and `e` `n - 1` numbers; the reflectors' arrays are as large as said.
pub(crate) unsafe fn reduce<T: Field>(
    crew: &mut Crew<'_>,
    a: *mut T,
    m: usize,
    n: usize,
    d: &mut [T::R],
    e: &mut [T::R],
    keep: Option<Reflectors<T>>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let isa = Isa::detect();
    let width = panel_width(n);
    // Columns 2k and 2k + 1: v and x on the left, y and u on the right.
    let (left, stack) = take::<T>(stack, 2 * width * m);
    let (right, stack) = take::<T>(stack, 2 * width * n);
    let (turned, stack) = take::<T>(stack, m);
    let (inner, stack) = take::<T>(stack, 2 * width);
    let (row, stack) = take::<T>(stack, 2 * width);
    let (sums, _) = take::<T::R>(stack, 4 * m);
    let (a, left, right, sums) = (Shared(a), Shared(left), Shared(right), Shared(sums));
    // SAFETY: rows and columns below are those of the matrix and of the panels cut above; what is read was written
    // before: panels of rows from the panel's first on. In the sections every chunk writes to its own rows.
    unsafe {
        for first in (0..n).step_by(width) {
            let count = width.min(n - first);
            if crew.is_interrupted() {
                return Err(Failure::Interrupted);
            }
            for i in 0..count {
                let c = first + i;
                let v = left.at(2 * i * m);
                (first..c).for_each(|r| *v.add(r) = T::ZERO);
                std::ptr::copy_nonoverlapping(a.at(c * m + c), v.add(c), m - c);
                let tau = reflector(v.add(c), m - c);
                d[c] = (*v.add(c)).re();
                *v.add(c) = T::ONE;
                if let Some(keep) = keep {
                    *keep.left_tau.add(c) = tau;
                    let column = keep.left.add(c * m);
                    (0..c).for_each(|r| *column.add(r) = T::ZERO);
                    std::ptr::copy_nonoverlapping(v.add(c), column.add(c), m - c);
                }
                if c + 1 == n {
                    break;
                }
                quarter_turn(v.add(c), m - c, turned.add(c));
                dots(isa, m - c, 2 * i, left.at(c), m, v.add(c), turned.add(c), inner);
                (0..2 * i + 1).for_each(|k| *row.add(k) = (*left.at(c + k * m)).conj());
                let (y, u) = (right.at(2 * i * n), right.at((2 * i + 1) * n));
                (first..c + 1).for_each(|j| {
                    *y.add(j) = T::ZERO;
                    *u.add(j) = T::ZERO;
                });
                let (y, u, x) = (Shared(y), Shared(u), Shared(v));
                let (turned_at, inner_at, row_at) = (Shared(turned), Shared(inner), Shared(row));
                sections::<T>(crew, c + 1, n, m - c, |start, end| {
                    let cols = end - start;
                    let sums = sums.at(4 * start);
                    let panel = right.at(start);
                    dots(
                        isa,
                        m - c,
                        cols,
                        a.at(start * m + c),
                        m,
                        x.at(c),
                        turned_at.at(c),
                        y.at(start),
                    );
                    combine(isa, cols, 2 * i, panel, n, inner_at.at(0), sums, |j, off| {
                        let at = y.at(start + j);
                        *at = tau * (*at - off);
                    });
                    combine(isa, cols, 2 * i + 1, panel, n, row_at.at(0), sums, |j, off| {
                        *u.at(start + j) = (*a.at((start + j) * m + c)).conj() - off;
                    });
                })?;
                let u = u.at(0);
                let tau = reflector(u.add(c + 1), n - c - 1);
                e[c] = (*u.add(c + 1)).re();
                *u.add(c + 1) = T::ONE;
                if let Some(keep) = keep {
                    *keep.right_tau.add(c) = tau;
                    let column = keep.right.add(c * n);
                    (0..c + 1).for_each(|r| *column.add(r) = T::ZERO);
                    std::ptr::copy_nonoverlapping(u.add(c + 1), column.add(c + 1), n - c - 1);
                }
                if c + 1 == m {
                    break;
                }
                quarter_turn(u.add(c + 1), n - c - 1, turned.add(c + 1));
                dots(
                    isa,
                    n - c - 1,
                    2 * i + 1,
                    right.at(c + 1),
                    n,
                    u.add(c + 1),
                    turned.add(c + 1),
                    inner,
                );
                (0..2 * i + 2).for_each(|k| *row.add(k) = (*right.at(c + 1 + k * n)).conj());
                let x = left.at((2 * i + 1) * m);
                (first..c + 1).for_each(|r| *x.add(r) = T::ZERO);
                let (x, u) = (Shared(x), Shared(u));
                sections::<T>(crew, c + 1, m, n - c - 1, |start, end| {
                    let rows = end - start;
                    let sums = sums.at(4 * start);
                    let panel = left.at(start);
                    combine(
                        isa,
                        rows,
                        n - c - 1,
                        a.at((c + 1) * m + start),
                        m,
                        u.at(c + 1),
                        sums,
                        |r, sum| *x.at(start + r) = sum,
                    );
                    combine(isa, rows, 2 * i + 1, panel, m, inner_at.at(0), sums, |r, off| {
                        let at = x.at(start + r);
                        *at = tau * (*at - off);
                    });
                    if i + 1 < count {
                        combine(isa, rows, 2 * i + 2, panel, m, row_at.at(0), sums, |r, off| {
                            *a.at((c + 1) * m + start + r) -= off;
                        });
                    }
                })?;
            }
            let next = first + count;
            if next < n {
                let rest = Block::columns(a.at(0), m, n, m).part(next..m, next..n);
                crew.multiply(
                    -T::ONE,
                    Block::columns(left.at(0), m, 2 * count, m).part(next..m, 0..2 * count),
                    Block::columns(right.at(0), n, 2 * count, n)
                        .part(next..n, 0..2 * count)
                        .adjoint(),
                    <T as Element>::ONE,
                    rest,
                )?;
            }
        }
    }
    Ok(())
}
