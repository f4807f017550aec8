//! QR decomposition of small real matrices, several side by side, by Householder reflections.

#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    reason = "NaN is to count as what is too large"
)]

use crate::field::RealNumber;
use crate::gauge::Gauge;
use crate::matrices::Matrices;
use crate::qr::householder::least_square;
use crate::qr::{QrMode, QrOut};
use crate::side_by_side::{MOST_LANES, Room, SMALL, together};
use crate::turned;
use crate::wide::{Wide, kernel};
use treadle_core::Element;

/// Columns to which a reflection is applied at once.
const BLOCK: usize = 4;

kernel! {
    /// Factors the `m` by `n` matrices in `a`: R takes their place. `q`, an identity on entry, becomes the first `cols` columns
    /// of Q. Where a lane of `least` ends below `least_square`, squares underflowed and the lane is not to be trusted.
    ///
    /// # Safety
    /// All sizes are at most `SMALL`; `a` and `q` go to `Entries` of these sizes, `least` to a number for each lane; `T` is real.
    unsafe fn factor<T, W>(
        m: usize,
        n: usize,
        cols: usize,
        positive: bool,
        a: *mut T::R,
        q: *mut T::R,
        least: *mut T::R,
    ) {
        for lane in (0..together::<T::R>()).step_by(W::LANES) {
            let (a, q, least) = (a.add(lane), q.add(lane), least.add(lane));
            match (m, n, cols) {
                (2, 2, 2) => in_registers::<W, 2>(positive, a, q, least),
                (3, 3, 3) => in_registers::<W, 3>(positive, a, q, least),
                (4, 4, 4) => in_registers::<W, 4>(positive, a, q, least),
                _ => {
                    let step = together::<T::R>();
                    let columns = Columns::<W> { x: a, n, z: q, cols, step };
                    columns.reflect_all(m, positive, least);
                }
            }
        }
    }
}

/// `Columns::reflect_all` for matrices that the registers hold.
///
/// # Safety
/// As `factor`, from a `Task`, for matrices of order `N`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
unsafe fn in_registers<W: Wide, const N: usize>(
    positive: bool,
    a: *mut W::R,
    q: *mut W::R,
    least: *mut W::R,
) {
    let step = together::<W::R>();
    // SAFETY: entries of matrices of order N, and arrays of as many registers.
    unsafe {
        let mut x = [[W::zero(); N]; N];
        let mut z = [[W::zero(); N]; N];
        for i in 0..N {
            for j in 0..N {
                x[i][j] = W::load(a.add((i * N + j) * step));
            }
            z[i][i] = W::splat(<W::R as Element>::ONE);
        }
        let columns = Columns::<W> {
            x: x.as_mut_ptr().cast(),
            n: N,
            z: z.as_mut_ptr().cast(),
            cols: N,
            step: W::LANES,
        };
        columns.reflect_all(N, positive, least);
        for i in 0..N {
            for j in 0..N {
                x[i][j].store(a.add((i * N + j) * step));
                z[i][j].store(q.add((i * N + j) * step));
            }
        }
    }
}

/// The matrices of one register and their Q, row after row, entries `step` numbers apart.
struct Columns<W: Wide> {
    x: *mut W::R,
    n: usize,
    z: *mut W::R,
    cols: usize,
    step: usize,
}

impl<W: Wide> Columns<W> {
    #[inline(always)]
    fn x(&self, row: usize, col: usize) -> *mut W::R {
        self.x.wrapping_add((row * self.n + col) * self.step)
    }

    #[inline(always)]
    fn z(&self, row: usize, col: usize) -> *mut W::R {
        self.z.wrapping_add((row * self.cols + col) * self.step)
    }

    /// # Safety
    /// As `factor`, from a `Task`; `z` is an identity.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
    unsafe fn reflect_all(&self, m: usize, positive: bool, least: *mut W::R) {
        let (n, cols) = (self.n, self.cols);
        let k = m.min(n);
        // SAFETY: rows and columns of matrices of these sizes.
        unsafe {
            let zero = W::zero();
            let one = W::splat(<W::R as Element>::ONE);
            let mut taus = [zero; SMALL];
            let mut signs = [one; SMALL];
            let mut smallest = one;
            for j in 0..k {
                let head = W::load(self.x(j, j));
                let mut tail = zero;
                for i in j + 1..m {
                    let x = W::load(self.x(i, j));
                    tail = x.fma(x, tail);
                }
                let all = head.fma(head, tail);
                smallest = all.where_less(smallest, all, smallest);
                let norm = all.root();
                let beta = head.where_less(zero, norm, zero.sub(norm));
                let difference = head.sub(beta);
                // A column of which nothing is left below the diagonal stays as it is.
                let idle = zero.where_less(tail, zero, one);
                let tau = beta.sub(head).div(beta);
                let tau = zero.where_less(tail, tau, zero);
                let inverse = one.div(difference);
                let inverse = zero.where_less(tail, inverse, zero);
                let beta = zero.where_less(idle, head, beta);
                for i in j + 1..m {
                    W::load(self.x(i, j)).mul(inverse).store(self.x(i, j));
                }
                beta.store(self.x(j, j));
                taus[j] = tau;
                if positive {
                    signs[j] = beta.where_less(zero, zero.sub(one), one);
                }
                let mut c = j + 1;
                while c + BLOCK <= n {
                    self.reflect::<BLOCK>(m, j, tau, self.x(j, c), n);
                    c += BLOCK;
                }
                while c < n {
                    self.reflect::<1>(m, j, tau, self.x(j, c), n);
                    c += 1;
                }
            }
            smallest.store(least);
            for i in 0..k.min(cols) {
                signs[i].store(self.z(i, i));
            }
            for j in (0..k).rev() {
                let mut c = j;
                while c + BLOCK <= cols {
                    self.reflect::<BLOCK>(m, j, taus[j], self.z(j, c), cols);
                    c += BLOCK;
                }
                while c < cols {
                    self.reflect::<1>(m, j, taus[j], self.z(j, c), cols);
                    c += 1;
                }
            }
            if positive {
                for i in 0..k {
                    for j in i..n {
                        W::load(self.x(i, j)).mul(signs[i]).store(self.x(i, j));
                    }
                }
            }
        }
    }

    /// Applies reflection `j` to `COLS` columns, which begin at `top` in row `j` of a matrix of `width` columns.
    ///
    /// # Safety
    /// As `reflect_all`; the columns are not column `j` of `x`.
    #[inline(always)]
    unsafe fn reflect<const COLS: usize>(&self, m: usize, j: usize, tau: W, top: *mut W::R, width: usize) {
        // SAFETY: rows from j on of these columns.
        unsafe {
            let at = |i: usize, c: usize| top.wrapping_add(((i - j) * width + c) * self.step);
            let mut dot = [tau; COLS];
            for (c, dot) in dot.iter_mut().enumerate() {
                *dot = W::load(at(j, c));
            }
            for i in j + 1..m {
                let v = W::load(self.x(i, j));
                for (c, dot) in dot.iter_mut().enumerate() {
                    *dot = v.fma(W::load(at(i, c)), *dot);
                }
            }
            for (c, dot) in dot.iter_mut().enumerate() {
                *dot = tau.mul(*dot);
                W::load(at(j, c)).sub(*dot).store(at(j, c));
            }
            for i in j + 1..m {
                let v = W::load(self.x(i, j));
                for (c, &step) in dot.iter().enumerate() {
                    v.fnma(step, W::load(at(i, c))).store(at(i, c));
                }
            }
        }
    }
}

/// Items `first..first + count` of a batch. A matrix that is not for this path (entries near the ends of the range, columns that
/// vanish, entries that are not finite) is given to `general`.
///
/// # Safety
/// As `qr`; the matrices are real, `SMALL` by `SMALL` at most; `count` is at most the number of lanes.
pub(crate) unsafe fn items<R: RealNumber>(
    matrices: &Matrices<'_, R>,
    first: usize,
    count: usize,
    mode: QrMode,
    gauge: Gauge,
    out: QrOut<R>,
    mut general: impl FnMut(usize),
) {
    let (m, n) = (matrices.rows, matrices.cols);
    let (cols, rows) = crate::qr::sizes(m, n, mode);
    let (mut room, mut room_of_q) = (Room::<R>::new(), Room::<R>::new());
    let mut a = room.zeros(m * n);
    let mut q = room_of_q.zeros(m * cols);
    for i in 0..m.min(cols) {
        for lane in 0..together::<R>() {
            q.set(i * cols + i, lane, <R as Element>::ONE);
        }
    }
    let mut least = [<R as Element>::ZERO; MOST_LANES];
    let limit = R::of(crate::field::power_of_two(R::EXPONENT_LIMIT / 10));
    let mut outside = [false; MOST_LANES];
    // SAFETY: the matrices are readable, and the room takes them.
    unsafe { turned::load(matrices, first, count, a.start()) };
    for at in 0..m * n {
        for (lane, outside) in outside.iter_mut().enumerate().take(together::<R>()) {
            // NaN is outside too.
            *outside |= !(a.get(at, lane).magnitude() <= limit);
        }
    }
    let positive = gauge == Gauge::Canonical;
    // SAFETY: the sizes are small.
    unsafe { factor::<R>(m, n, cols, positive, a.start(), q.start(), least.as_mut_ptr()) };
    let zero = <R as Element>::ZERO;
    for row in 0..rows {
        for col in 0..row.min(n) {
            (0..together::<R>()).for_each(|lane| a.set(row * n + col, lane, zero));
        }
    }
    // SAFETY: the outputs hold every item.
    unsafe {
        turned::store(a.start(), rows * n, count, |lane| {
            out.r.wrapping_add((first + lane) * rows * n)
        });
        turned::store(q.start(), m * cols, count, |lane| {
            out.q.wrapping_add((first + lane) * m * cols)
        });
    }
    let enough = least_square::<R>() * R::of(1.0 / <R as treadle_core::Float>::EPSILON);
    for lane in 0..count {
        if outside[lane]
            || least[lane]
                .partial_cmp(&enough)
                .is_none_or(std::cmp::Ordering::is_lt)
        {
            general(first + lane);
        }
    }
}
