//! Eigenvalues and eigenvectors of a small real symmetric tridiagonal matrix by the implicit QL iteration (Dubrulle, Martin and
//! Wilkinson 1968).
//!
//! The rotations of a sweep are kept and applied to the vectors in one pass: a column that two rotations share stays in
//! a register between them.

use crate::failure::Failure;
use crate::field::RealNumber;
use crate::wide::{Wide, kernel};

/// Sweeps for each eigenvalue; two are usual.
const SWEEPS: usize = 60;
/// Registers of rows that go through the rotations together.
const ROWS: usize = 4;

/// A cosine and a sine in the type of the vectors.
#[derive(Clone, Copy)]
pub(crate) struct Rotation<R> {
    pub(crate) c: R,
    pub(crate) s: R,
}

kernel! {
    /// Applies rotations to the columns of `z` from the last pair to the first: rotation `i` mixes columns `i` and `i + 1`.
    ///
    /// # Safety
    /// `z` has `count + 1` columns of `rows` reals of type `T`, `leading` apart.
    unsafe fn rotate_all<T, W>(z: *mut T, rows: usize, leading: usize, turns: *const Rotation<T::R>, count: usize) {
        let z = z.cast::<T::R>();
        let mut at = 0;
        while at + ROWS * W::LANES <= rows {
            rotate_rows::<W, ROWS>(z.add(at), usize::MAX, leading, turns, count);
            at += ROWS * W::LANES;
        }
        while at < rows {
            rotate_rows::<W, 1>(z.add(at), rows - at, leading, turns, count);
            at += W::LANES;
        }
    }
}

/// # Safety
/// As `rotate_all`, for so many registers of rows, of which the last has `left` reals.
#[inline(always)]
unsafe fn rotate_rows<W: Wide, const N: usize>(
    z: *mut W::R,
    left: usize,
    leading: usize,
    turns: *const Rotation<W::R>,
    count: usize,
) {
    // SAFETY: rows and columns of z.
    unsafe {
        let mut carried: [W; N] =
            std::array::from_fn(|r| W::load_up_to(z.add(count * leading + r * W::LANES), left));
        for i in (0..count).rev() {
            let Rotation { c, s } = *turns.add(i);
            let (c, s) = (W::splat(c), W::splat(s));
            for (r, right) in carried.iter_mut().enumerate() {
                let column = z.add(i * leading + r * W::LANES);
                let value = W::load_up_to(column, left);
                value
                    .mul(s)
                    .add(right.mul(c))
                    .store_up_to(column.add(leading), left);
                *right = value.mul(c).sub(right.mul(s));
            }
        }
        for (r, value) in carried.iter().enumerate() {
            value.store_up_to(z.add(r * W::LANES), left);
        }
    }
}

/// The length of a vector; the parts are at most about 1.
fn length(x: f64, y: f64) -> f64 {
    let squares = x * x + y * y;
    if squares > 1e-280 {
        squares.sqrt()
    } else {
        x.hypot(y)
    }
}

/// The eigenvalues of `d`, `e` in `d`, in no order; `z` is multiplied by the eigenvectors from the right. `e` has the length of `d`, and its
/// last entry is not used. `turns` holds as many.
///
/// # Safety
/// `z` has `d.len()` columns of `rows` reals, `leading` apart.
pub(crate) unsafe fn multiply_by_eigenvectors<R: RealNumber>(
    d: &mut [f64],
    e: &mut [f64],
    z: *mut R,
    rows: usize,
    leading: usize,
    turns: &mut [Rotation<R>],
    interrupted: &mut dyn FnMut() -> bool,
) -> Result<(), Failure> {
    let n = d.len();
    let norm = d.iter().chain(&e[..n - 1]).fold(0.0f64, |m, x| m.max(x.abs()));
    let floor = f64::EPSILON * norm / 64.0;
    let mut budget = SWEEPS * n;
    for top in 0..n {
        loop {
            let mut end = top;
            while end + 1 < n {
                let size = e[end].abs();
                if size <= floor || size <= f64::EPSILON / 2.0 * (d[end].abs().min(d[end + 1].abs())) {
                    break;
                }
                end += 1;
            }
            if end == top {
                break;
            }
            if budget == 0 {
                return Err(Failure::NotConverged);
            }
            budget -= 1;
            if budget.is_multiple_of(16) && interrupted() {
                return Err(Failure::Interrupted);
            }
            let half = (d[top + 1] - d[top]) / (2.0 * e[top]);
            let mut g = d[end] - d[top] + e[top] / (half + half.hypot(1.0).copysign(half));
            let (mut s, mut c, mut p) = (1.0f64, 1.0f64, 0.0f64);
            let mut first = top;
            for i in (top..end).rev() {
                let f = s * e[i];
                let b = c * e[i];
                let r = length(f, g);
                e[i + 1] = r;
                if r == 0.0 {
                    // The matrix has come apart.
                    d[i + 1] -= p;
                    first = i + 1;
                    break;
                }
                let inverse = 1.0 / r;
                s = f * inverse;
                c = g * inverse;
                g = d[i + 1] - p;
                let t = (d[i] - g) * s + 2.0 * c * b;
                p = s * t;
                d[i + 1] = g + p;
                g = c * t - b;
                turns[i] = Rotation {
                    c: R::of(c),
                    s: R::of(s),
                };
            }
            // SAFETY: columns of z.
            unsafe {
                rotate_all::<R>(
                    z.add(first * leading),
                    rows,
                    leading,
                    turns.as_ptr().add(first),
                    end - first,
                );
            }
            if first == top {
                d[top] -= p;
                e[top] = g;
            }
            e[end] = 0.0;
        }
    }
    Ok(())
}
