//! Eigendecomposition of small real symmetric matrices, several side by side, by cyclic Jacobi rotations (Rutishauser 1966).

use crate::eigh::{EighOut, Triangle};
use crate::field::RealNumber;
use crate::gauge::{Gauge, fix_column};
use crate::matrices::{Matrices, fill_nan};
use crate::scaling::Scaling;
use crate::side_by_side::{MOST_LANES, Room, SMALL, together};
use crate::wide::{Wide, kernel};
use treadle_core::{Element, Float};

/// Sweeps over all pairs; five are usual.
const SWEEPS: usize = 30;

/// Order up to which this is faster than a tridiagonal reduction where the values alone are wanted.
pub(crate) const VALUES_ORDER: usize = 8;
/// Items of a group up to which each is computed alone, where that is worth it: their order is above `ALONE_ORDER`.
const ALONE: usize = 3;
/// As said there.
const ALONE_ORDER: usize = 8;

kernel! {
    /// Makes the matrices in `a` (lower triangles, entries at most 1) diagonal; `v`, an identity on entry, becomes the products of
    /// the rotations, a vector in each row, or is left alone when `vectors` is false.
    ///
    /// # Safety
    /// `a` and `v` go to `Entries` of matrices of order `n`, at most `SMALL`; `T` is real.
    unsafe fn diagonalise<T, W>(n: usize, a: *mut T::R, v: *mut T::R, vectors: bool) {
        for lane in (0..together::<T::R>()).step_by(W::LANES) {
            let (a, v) = (a.add(lane), v.add(lane));
            match (n, vectors) {
                (2, true) => in_registers::<W, 2>(a, v),
                (3, true) => in_registers::<W, 3>(a, v),
                (4, true) => in_registers::<W, 4>(a, v),
                _ => {
                    let step = together::<T::R>();
                    Symmetric::<W> { m: a, z: v, n, step, vectors }.diagonalise();
                }
            }
        }
    }
}

/// `Symmetric::diagonalise` for matrices that the registers hold.
///
/// # Safety
/// As the kernel, from a `Task`, for matrices of order `N`.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
unsafe fn in_registers<W: Wide, const N: usize>(a: *mut W::R, v: *mut W::R) {
    let step = together::<W::R>();
    // SAFETY: entries of matrices of order N, and arrays of as many registers.
    unsafe {
        let mut m = [[W::zero(); N]; N];
        let mut z = [[W::zero(); N]; N];
        for i in 0..N {
            for j in 0..=i {
                m[i][j] = W::load(a.add((i * N + j) * step));
            }
            z[i][i] = W::splat(<W::R as Element>::ONE);
        }
        let symmetric = Symmetric::<W> {
            m: m.as_mut_ptr().cast(),
            z: z.as_mut_ptr().cast(),
            n: N,
            step: W::LANES,
            vectors: true,
        };
        symmetric.diagonalise();
        for i in 0..N {
            m[i][i].store(a.add((i * N + i) * step));
            for j in 0..N {
                z[i][j].store(v.add((i * N + j) * step));
            }
        }
    }
}

/// Entries up to this are rounding: entries are at most 1, and the largest is a half or more.
fn negligible<R: RealNumber>() -> R {
    R::of(<R as Float>::EPSILON / 8.0)
}

/// One rotation in every lane.
struct Angle<W> {
    c: W,
    s: W,
    /// The diagonal entries after it.
    app: W,
    aqq: W,
}

impl<W: Wide> Angle<W> {
    /// What makes `off` zero, and stands still where that is negligible.
    ///
    /// # Safety
    /// From a `Task`.
    #[inline(always)]
    unsafe fn new(app: W, aqq: W, off: W) -> Self {
        // SAFETY: passed on.
        unsafe {
            let zero = W::zero();
            let one = W::splat(<W::R as Element>::ONE);
            let h = aqq.sub(app);
            let double = off.add(off);
            let r = h.fma(h, double.mul(double)).root();
            let signed = h.where_less(zero, zero.sub(r), r);
            let t = double.div(h.add(signed));
            let t = W::splat(negligible()).where_less(off.abs(), t, zero);
            let c = one.div(t.fma(t, one).root());
            Angle {
                c,
                s: c.mul(t),
                app: t.fnma(off, app),
                aqq: t.fma(off, aqq),
            }
        }
    }
}

/// The pairs of a round, disjoint, so that rotations need not wait for each other; `n - 1` rounds of an even order are all pairs,
/// and `n` of an odd one.
#[inline(always)]
fn pairs(n: usize, round: usize) -> impl Iterator<Item = (usize, usize)> {
    let even = n + n % 2;
    let wrap = move |x: usize| if x >= even - 1 { x + 1 - even } else { x };
    (0..even / 2)
        .map(move |k| {
            let x = if k == 0 { even - 1 } else { wrap(round + k) };
            let y = wrap(round + even - 1 - k);
            (x.min(y), x.max(y))
        })
        .filter(move |&(_, q)| q < n)
}

/// One register of matrices and of the vectors so far, row after row, entries `step` numbers apart.
struct Symmetric<W: Wide> {
    /// The lower triangle.
    m: *mut W::R,
    /// A vector in each row.
    z: *mut W::R,
    n: usize,
    step: usize,
    vectors: bool,
}

impl<W: Wide> Symmetric<W> {
    /// An entry of the lower triangle.
    #[inline(always)]
    fn m(&self, row: usize, col: usize) -> *mut W::R {
        self.m.wrapping_add((row * self.n + col) * self.step)
    }

    /// # Safety
    /// As the kernel, from a `Task`.
    #[inline(always)]
    unsafe fn diagonalise(&self) {
        let n = self.n;
        // SAFETY: entries of matrices of order n.
        unsafe {
            let zero = W::zero();
            for _ in 0..SWEEPS {
                let mut largest = zero;
                for i in 1..n {
                    for j in 0..i {
                        let size = W::load(self.m(i, j)).abs();
                        largest = largest.where_less(size, size, largest);
                    }
                }
                if !W::splat(negligible()).any_less(largest) {
                    break;
                }
                self.sweep();
            }
            // Lanes that stand still may change the sign of a zero, or be passed over: here it becomes the same.
            for i in 0..n {
                zero.add(W::load(self.m(i, i))).store(self.m(i, i));
            }
            if self.vectors {
                for i in 0..n * n {
                    let z = self.z.add(i * self.step);
                    zero.add(W::load(z)).store(z);
                }
            }
        }
    }

    /// All pairs.
    ///
    /// # Safety
    /// As `diagonalise`.
    #[inline(always)]
    unsafe fn sweep(&self) {
        // SAFETY: passed on.
        unsafe {
            match self.n {
                2 => self.rotate(0, 1),
                3 => {
                    self.rotate(0, 1);
                    self.rotate(0, 2);
                    self.rotate(1, 2);
                }
                4 => {
                    self.rotate(0, 1);
                    self.rotate(2, 3);
                    self.rotate(0, 2);
                    self.rotate(1, 3);
                    self.rotate(0, 3);
                    self.rotate(1, 2);
                }
                n => {
                    for round in 0..n + n % 2 - 1 {
                        for (p, q) in pairs(n, round) {
                            self.rotate(p, q);
                        }
                    }
                }
            }
        }
    }

    /// Makes entry `(q, p)` zero, `p < q`, in the lanes where it is not negligible.
    ///
    /// # Safety
    /// As `diagonalise`.
    #[inline(always)]
    unsafe fn rotate(&self, p: usize, q: usize) {
        let n = self.n;
        // SAFETY: entries of matrices of order n.
        unsafe {
            let off = W::load(self.m(q, p));
            let limit = W::splat(negligible());
            // Where registers hold all, branches cost more than they save.
            if n > 4 && !limit.any_less(off.abs()) {
                return;
            }
            let angle = Angle::new(W::load(self.m(p, p)), W::load(self.m(q, q)), off);
            angle.app.store(self.m(p, p));
            angle.aqq.store(self.m(q, q));
            limit.where_less(off.abs(), W::zero(), off).store(self.m(q, p));
            let (c, s) = (angle.c, angle.s);
            for i in 0..p {
                turn(self.m(p, i), self.m(q, i), c, s);
            }
            for i in p + 1..q {
                turn(self.m(i, p), self.m(q, i), c, s);
            }
            for i in q + 1..n {
                turn(self.m(i, p), self.m(i, q), c, s);
            }
            if self.vectors {
                let (x, y) = (self.z.add(p * n * self.step), self.z.add(q * n * self.step));
                for i in 0..n {
                    turn(x.add(i * self.step), y.add(i * self.step), c, s);
                }
            }
        }
    }
}

/// Rotates one register of each of two lines.
///
/// # Safety
/// The registers are writeable; from a `Task`.
#[inline(always)]
unsafe fn turn<W: Wide>(x: *mut W::R, y: *mut W::R, c: W, s: W) {
    // SAFETY: passed on.
    unsafe {
        let (old_x, old_y) = (W::load(x), W::load(y));
        s.fnma(old_y, c.mul(old_x)).store(x);
        s.fma(old_x, c.mul(old_y)).store(y);
    }
}

kernel! {
    /// As `diagonalise` for one matrix, of which both triangles are there, with registers along its rows: the same operations
    /// on every entry, and so the same bits.
    ///
    /// # Safety
    /// `m` and `v` hold `n` by `n`, with `n` between 5 and `SMALL`; `T` is real.
    unsafe fn diagonalise_alone<T, W>(n: usize, m: *mut T::R, z: *mut T::R, vectors: bool) {
        let zero = <T::R as Element>::ZERO;
        let limit = negligible::<T::R>();
        for _ in 0..SWEEPS {
            let lower = |i: usize| std::slice::from_raw_parts(m.add(i * n), i);
            if !(1..n).any(|i| lower(i).iter().any(|x| x.magnitude() > limit)) {
                break;
            }
            for round in 0..n + n % 2 - 1 {
                let mut app = [zero; MOST_LANES];
                let (mut aqq, mut off, mut c, mut s) = (app, app, app, app);
                for (k, (p, q)) in pairs(n, round).enumerate() {
                    (app[k], aqq[k], off[k]) = (*m.add(p * n + p), *m.add(q * n + q), *m.add(q * n + p));
                }
                for k in (0..SMALL / 2).step_by(W::LANES) {
                    let (p, q) = (app[k..].as_mut_ptr(), aqq[k..].as_mut_ptr());
                    let angle = Angle::<W>::new(W::load(p), W::load(q), W::load(off[k..].as_ptr()));
                    angle.app.store(p);
                    angle.aqq.store(q);
                    angle.c.store(c[k..].as_mut_ptr());
                    angle.s.store(s[k..].as_mut_ptr());
                }
                for (k, (p, q)) in pairs(n, round).enumerate() {
                    if off[k].magnitude() <= limit {
                        continue;
                    }
                    let (x, y) = (m.add(p * n), m.add(q * n));
                    turn_lines::<W>(n, x, y, c[k], s[k]);
                    (*x.add(p), *y.add(q), *x.add(q), *y.add(p)) = (app[k], aqq[k], zero, zero);
                    for i in 0..n {
                        *m.add(i * n + p) = *x.add(i);
                        *m.add(i * n + q) = *y.add(i);
                    }
                    if vectors {
                        turn_lines::<W>(n, z.add(p * n), z.add(q * n), c[k], s[k]);
                    }
                }
            }
        }
        for i in 0..n {
            *m.add(i * n + i) += zero;
        }
        if vectors {
            (0..n * n).for_each(|i| *z.add(i) += zero);
        }
    }
}

/// Rotates two lines of `n` numbers.
///
/// # Safety
/// The lines are writeable; from a `Task`.
#[inline(always)]
unsafe fn turn_lines<W: Wide>(n: usize, x: *mut W::R, y: *mut W::R, c: W::R, s: W::R) {
    // SAFETY: passed on.
    unsafe {
        let (c, s) = (W::splat(c), W::splat(s));
        for i in (0..n).step_by(W::LANES) {
            let count = n - i;
            let (old_x, old_y) = (W::load_up_to(x.add(i), count), W::load_up_to(y.add(i), count));
            s.fnma(old_y, c.mul(old_x)).store_up_to(x.add(i), count);
            s.fma(old_x, c.mul(old_y)).store_up_to(y.add(i), count);
        }
    }
}

/// Items `first..first + count` of a batch, from the caller's matrices to their places in the outputs.
///
/// # Safety
/// As `eigh`; the matrices are real, of order `SMALL` at most; `count` is at most the number of lanes.
pub(crate) unsafe fn items<R: RealNumber>(
    matrices: &Matrices<'_, R>,
    first: usize,
    count: usize,
    triangle: Triangle,
    gauge: Gauge,
    check_finite: bool,
    out: EighOut<R>,
) {
    let n = matrices.rows;
    let vectors = !out.v.is_null();
    let (mut room, mut room_of_vectors) = (Room::<R>::new(), Room::<R>::new());
    let mut a = room.zeros(n * n);
    let mut v = room_of_vectors.zeros(n * n);
    let alone = n > ALONE_ORDER && count <= ALONE;
    let mut back = [Scaling::none(); MOST_LANES];
    for (lane, back) in back.iter_mut().enumerate().take(count) {
        let view = matrices.item(first + lane);
        let view = if triangle == Triangle::Upper {
            view.transposed()
        } else {
            view
        };
        let mut largest = <R as Element>::ZERO;
        for row in 0..n {
            for col in 0..=row {
                // SAFETY: an entry of the triangle.
                let x = unsafe { view.at(row, col) };
                a.set(row * n + col, lane, x);
                let size = x.magnitude();
                if size > largest {
                    largest = size;
                }
            }
        }
        let scaling = Scaling::to_unit(largest.to_f64());
        if scaling.exponent() != 0 {
            for at in 0..n * n {
                a.set(at, lane, scaling.apply(a.get(at, lane)));
            }
        }
        *back = scaling.inverse();
    }
    if vectors {
        for i in 0..n {
            for lane in 0..together::<R>() {
                v.set(i * n + i, lane, <R as Element>::ONE);
            }
        }
    }
    if alone {
        let (mut m, mut z) = (
            [<R as Element>::ZERO; SMALL * SMALL],
            [<R as Element>::ZERO; SMALL * SMALL],
        );
        for lane in 0..count {
            for row in 0..n {
                for col in 0..n {
                    m[row * n + col] = a.get(row.max(col) * n + row.min(col), lane);
                    z[row * n + col] = v.get(row * n + col, lane);
                }
            }
            // SAFETY: the order is small, and not too small.
            unsafe { diagonalise_alone::<R>(n, m.as_mut_ptr(), z.as_mut_ptr(), vectors) };
            for at in 0..n * n {
                a.set(at, lane, m[at]);
                v.set(at, lane, z[at]);
            }
        }
    } else {
        // SAFETY: the order is small.
        unsafe { diagonalise::<R>(n, a.start(), v.start(), vectors) };
    }
    for (lane, back) in back.iter().enumerate().take(count) {
        let index = first + lane;
        // SAFETY: the outputs hold every item.
        unsafe {
            let w = out.w.wrapping_add(index * n);
            let z = out.v.wrapping_add(index * n * n);
            if !check_finite && matrices.item(index).has_non_finite(triangle.part()) {
                fill_nan(w, n);
                if vectors {
                    fill_nan(z, n * n);
                }
                continue;
            }
            let mut order = [0; SMALL];
            let mut values = [<R as Element>::ZERO; SMALL];
            for i in 0..n {
                let value = a.get(i * n + i, lane);
                let mut at = i;
                while at > 0 && value < values[at - 1] {
                    (values[at], order[at]) = (values[at - 1], order[at - 1]);
                    at -= 1;
                }
                (values[at], order[at]) = (value, i);
            }
            for (i, value) in values.iter().enumerate().take(n) {
                *w.add(i) = back.apply(*value);
            }
            if !vectors {
                continue;
            }
            for row in 0..n {
                for (col, &from) in order.iter().enumerate().take(n) {
                    *z.add(row * n + col) = v.get(from * n + row, lane);
                }
            }
            if gauge == Gauge::Canonical {
                for col in 0..n {
                    fix_column(z.add(col), n, n);
                }
            }
        }
    }
}
