//! Eigendecomposition of small real symmetric matrices, several side by side, by cyclic Jacobi rotations (Rutishauser 1966).

use crate::eigh::{EighOut, Triangle};
use crate::field::RealNumber;
use crate::gauge::{Gauge, fix_column};
use crate::matrices::{Matrices, fill_nan};
use crate::scaling::Scaling;
use crate::side_by_side::{Entries, MOST_LANES, Room, SMALL, together};
use crate::wide::{Wide, kernel};
use treadle_core::{Element, Float};

/// Sweeps over all pairs; five are usual.
const SWEEPS: usize = 30;

kernel! {
    /// Makes the matrices in `a` (lower triangles, entries at most 1) diagonal; `v` becomes the products of the rotations, or is
    /// left alone when `vectors` is false.
    ///
    /// # Safety
    /// `a` and `v` go to `Entries` of matrices of order `n`, at most `SMALL`; `T` is real.
    unsafe fn diagonalise<T, W>(n: usize, a: *mut Entries<'static, T::R>, v: *mut Entries<'static, T::R>, vectors: bool) {
        let (a, v) = (&mut *a, &mut *v);
        let mut lane = 0;
        while lane < together::<T::R>() {
            match (n, vectors) {
                (2, true) => Symmetric::<W>::diagonalise(2, a, v, lane, true),
                (3, true) => Symmetric::<W>::diagonalise(3, a, v, lane, true),
                (4, true) => Symmetric::<W>::diagonalise(4, a, v, lane, true),
                _ => Symmetric::<W>::diagonalise(n, a, v, lane, vectors),
            }
            lane += W::LANES;
        }
    }
}

/// One register of matrices and of the vectors so far.
struct Symmetric<W> {
    /// The lower triangle.
    m: [[W; SMALL]; SMALL],
    z: [[W; SMALL]; SMALL],
    negligible: W,
}

impl<W: Wide> Symmetric<W> {
    /// # Safety
    /// As the kernel, from a `Task`, for the lanes of one register from `lane` on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
    unsafe fn diagonalise(
        n: usize,
        a: &mut Entries<'_, W::R>,
        v: &mut Entries<'_, W::R>,
        lane: usize,
        vectors: bool,
    ) {
        // SAFETY: entries of matrices of order n; the register was chosen by the caller.
        unsafe {
            let zero = W::zero();
            let mut all = Symmetric {
                m: [[zero; SMALL]; SMALL],
                z: [[zero; SMALL]; SMALL],
                // Entries are at most 1, and the largest is a half or more.
                negligible: W::splat(W::R::of(<W::R as Float>::EPSILON / 8.0)),
            };
            for i in 0..n {
                for j in 0..=i {
                    all.m[i][j] = W::load(a.entry(i * n + j, lane));
                }
                all.z[i][i] = W::splat(<W::R as Element>::ONE);
            }
            for _ in 0..SWEEPS {
                let mut largest = zero;
                for i in 1..n {
                    for j in 0..i {
                        let size = all.m[i][j].abs();
                        largest = largest.where_less(size, size, largest);
                    }
                }
                if !all.negligible.any_less(largest) {
                    break;
                }
                all.sweep(n, vectors);
            }
            for i in 0..n {
                all.m[i][i].store(a.entry(i * n + i, lane));
                if vectors {
                    for j in 0..n {
                        all.z[i][j].store(v.entry(i * n + j, lane));
                    }
                }
            }
        }
    }

    /// All pairs, in rounds of disjoint ones, so that rotations need not wait for each other.
    ///
    /// # Safety
    /// As `diagonalise`.
    #[inline(always)]
    unsafe fn sweep(&mut self, n: usize, vectors: bool) {
        // SAFETY: passed on.
        unsafe {
            match n {
                2 => self.rotate(2, 0, 1, vectors),
                3 => {
                    self.rotate(3, 0, 1, vectors);
                    self.rotate(3, 0, 2, vectors);
                    self.rotate(3, 1, 2, vectors);
                }
                4 => {
                    self.rotate(4, 0, 1, vectors);
                    self.rotate(4, 2, 3, vectors);
                    self.rotate(4, 0, 2, vectors);
                    self.rotate(4, 1, 3, vectors);
                    self.rotate(4, 0, 3, vectors);
                    self.rotate(4, 1, 2, vectors);
                }
                _ => {
                    let even = n + n % 2;
                    for round in 0..even - 1 {
                        for k in 0..even / 2 {
                            let x = if k == 0 {
                                even - 1
                            } else {
                                (round + k) % (even - 1)
                            };
                            let y = (round + even - 1 - k) % (even - 1);
                            if x.max(y) < n {
                                self.rotate(n, x.min(y), x.max(y), vectors);
                            }
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
    #[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
    unsafe fn rotate(&mut self, n: usize, p: usize, q: usize, vectors: bool) {
        // SAFETY: passed on.
        unsafe {
            let zero = W::zero();
            let one = W::splat(<W::R as Element>::ONE);
            let (m, z) = (&mut self.m, &mut self.z);
            let off = m[q][p];
            let (app, aqq) = (m[p][p], m[q][q]);
            let h = aqq.sub(app);
            let double = off.add(off);
            let r = h.fma(h, double.mul(double)).root();
            let signed = h.where_less(zero, zero.sub(r), r);
            let t = double.div(h.add(signed));
            let t = self.negligible.where_less(off.abs(), t, zero);
            let c = one.div(t.fma(t, one).root());
            let s = c.mul(t);
            m[p][p] = t.fnma(off, app);
            m[q][q] = t.fma(off, aqq);
            m[q][p] = self.negligible.where_less(off.abs(), zero, off);
            for i in 0..n {
                if i == p || i == q {
                    continue;
                }
                let (ip, iq) = ((i.max(p), i.min(p)), (i.max(q), i.min(q)));
                let (x, y) = (m[ip.0][ip.1], m[iq.0][iq.1]);
                m[ip.0][ip.1] = s.fnma(y, c.mul(x));
                m[iq.0][iq.1] = s.fma(x, c.mul(y));
            }
            if vectors {
                for row in z.iter_mut().take(n) {
                    let (x, y) = (row[p], row[q]);
                    row[p] = s.fnma(y, c.mul(x));
                    row[q] = s.fma(x, c.mul(y));
                }
            }
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
    // SAFETY: the order is small.
    unsafe { diagonalise::<R>(n, (&raw mut a).cast(), (&raw mut v).cast(), vectors) };
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
                    *z.add(row * n + col) = v.get(row * n + from, lane);
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
