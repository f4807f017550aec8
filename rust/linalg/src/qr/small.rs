//! QR decomposition of small real matrices, several side by side, by Householder reflections.

use crate::field::RealNumber;
use crate::gauge::Gauge;
use crate::matrices::Matrices;
use crate::qr::householder::least_square;
use crate::qr::{QrMode, QrOut};
use crate::side_by_side::{Entries, MOST_LANES, Room, SMALL, together};
use crate::wide::{Wide, kernel};
use treadle_core::Element;

kernel! {
    /// Factors the `m` by `n` matrices in `a`: R takes their place. `q` becomes the first `cols` columns of Q. Where a lane of
    /// `least` ends below `least_square`, squares underflowed and the lane is not to be trusted.
    ///
    /// # Safety
    /// All sizes are at most `SMALL`; `T` is real.
    unsafe fn factor<T, W>(
        m: usize,
        n: usize,
        cols: usize,
        positive: bool,
        a: *mut Entries<'static, T::R>,
        q: *mut Entries<'static, T::R>,
        least: *mut [T::R; MOST_LANES],
    ) {
        let (a, q, least) = (&mut *a, &mut *q, &mut *least);
        let mut lane = 0;
        while lane < together::<T::R>() {
            let least = least[lane..].as_mut_ptr();
            match (m, n, cols) {
                (2, 2, 2) => reflect_all::<W>(2, 2, 2, positive, a, q, lane, least),
                (3, 3, 3) => reflect_all::<W>(3, 3, 3, positive, a, q, lane, least),
                (4, 4, 4) => reflect_all::<W>(4, 4, 4, positive, a, q, lane, least),
                _ => reflect_all::<W>(m, n, cols, positive, a, q, lane, least),
            }
            lane += W::LANES;
        }
    }
}

/// # Safety
/// As `factor`, from a `Task`, for the lanes of one register from `lane` on.
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "indices are rows and columns")]
unsafe fn reflect_all<W: Wide>(
    m: usize,
    n: usize,
    cols: usize,
    positive: bool,
    a: &mut Entries<'_, W::R>,
    q: &mut Entries<'_, W::R>,
    lane: usize,
    least: *mut W::R,
) {
    let k = m.min(n);
    // SAFETY: entries of matrices of these sizes; the register was chosen by the caller.
    unsafe {
        let zero = W::zero();
        let one = W::splat(<W::R as Element>::ONE);
        let mut x = [[zero; SMALL]; SMALL];
        let mut taus = [zero; SMALL];
        let mut signs = [one; SMALL];
        for (i, row) in x.iter_mut().enumerate().take(m) {
            for (j, entry) in row.iter_mut().enumerate().take(n) {
                *entry = W::load(a.entry(i * n + j, lane));
            }
        }
        let mut smallest = one;
        for j in 0..k {
            let head = x[j][j];
            let mut tail = zero;
            for row in x.iter().take(m).skip(j + 1) {
                tail = row[j].fma(row[j], tail);
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
            for row in x.iter_mut().take(m).skip(j + 1) {
                row[j] = row[j].mul(inverse);
            }
            x[j][j] = beta;
            taus[j] = tau;
            if positive {
                signs[j] = beta.where_less(zero, zero.sub(one), one);
            }
            for c in j + 1..n {
                let mut dot = x[j][c];
                for row in x.iter().take(m).skip(j + 1) {
                    dot = row[j].fma(row[c], dot);
                }
                let step = tau.mul(dot);
                x[j][c] = x[j][c].sub(step);
                for row in x.iter_mut().take(m).skip(j + 1) {
                    row[c] = row[j].fnma(step, row[c]);
                }
            }
        }
        for i in 0..k {
            for j in i..n {
                let entry = if positive { x[i][j].mul(signs[i]) } else { x[i][j] };
                entry.store(a.entry(i * n + j, lane));
            }
        }
        smallest.store(least);
        if cols == 0 {
            return;
        }
        let mut z = [[zero; SMALL]; SMALL];
        for (i, row) in z.iter_mut().enumerate().take(m) {
            if i < cols {
                row[i] = if i < k { signs[i] } else { one };
            }
        }
        for j in (0..k).rev() {
            for c in j..cols {
                let mut dot = z[j][c];
                for i in j + 1..m {
                    dot = x[i][j].fma(z[i][c], dot);
                }
                let step = taus[j].mul(dot);
                z[j][c] = z[j][c].sub(step);
                for i in j + 1..m {
                    z[i][c] = x[i][j].fnma(step, z[i][c]);
                }
            }
        }
        for (i, row) in z.iter().enumerate().take(m) {
            for (j, entry) in row.iter().enumerate().take(cols) {
                entry.store(q.entry(i * cols + j, lane));
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
    let mut least = [<R as Element>::ZERO; MOST_LANES];
    let limit = R::of(crate::field::power_of_two(R::EXPONENT_LIMIT / 10));
    let mut outside = [false; MOST_LANES];
    for (lane, outside) in outside.iter_mut().enumerate().take(count) {
        let view = matrices.item(first + lane);
        let mut inside = true;
        for row in 0..m {
            for col in 0..n {
                // SAFETY: an entry of the matrix.
                let x = unsafe { view.at(row, col) };
                a.set(row * n + col, lane, x);
                inside &= x.magnitude() <= limit;
            }
        }
        *outside = !inside;
    }
    let positive = gauge == Gauge::Canonical;
    // SAFETY: the sizes are small.
    unsafe {
        factor::<R>(
            m,
            n,
            cols,
            positive,
            (&raw mut a).cast(),
            (&raw mut q).cast(),
            &raw mut least,
        )
    };
    for lane in 0..count {
        let index = first + lane;
        let enough = least_square::<R>() * R::of(1.0 / <R as treadle_core::Float>::EPSILON);
        if outside[lane]
            || least[lane]
                .partial_cmp(&enough)
                .is_none_or(std::cmp::Ordering::is_lt)
        {
            general(index);
            continue;
        }
        // SAFETY: the outputs hold every item.
        unsafe {
            let to = out.r.wrapping_add(index * rows * n);
            for row in 0..rows {
                for col in 0..n {
                    let x = if row > col || row >= m.min(n) {
                        <R as Element>::ZERO
                    } else {
                        a.get(row * n + col, lane)
                    };
                    *to.add(row * n + col) = x;
                }
            }
            let to = out.q.wrapping_add(index * m * cols);
            for at in 0..m * cols {
                *to.add(at) = q.get(at, lane);
            }
        }
    }
}
