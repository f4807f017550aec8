//! The product of a Hermitian matrix and a vector, from the lower triangle alone: each element is read once and used
//! twice.

use crate::field::Field;
use crate::qr::tall::parts;
use crate::wide::{Wide, kernel};

/// Columns that are read side by side.
const SIDE: usize = 4;

kernel! {
    /// `y += A x` for the part of `A` that columns `first..last` of its lower triangle and their mirror images make; the
    /// imaginary part of the diagonal is not read.
    ///
    /// # Safety
    /// `a` is of order `n`, column-major, `leading` apart; `x` and `y` hold `n` and share no element.
    pub(crate) unsafe fn hermitian_times<T, W>(
        a: *const T,
        n: usize,
        leading: usize,
        first: usize,
        last: usize,
        x: *const T,
        y: *mut T,
    ) {
        let mut j = first;
        while j + SIDE <= last {
            columns::<T, W, SIDE>(a, n, leading, j, x, y);
            j += SIDE;
        }
        while j < last {
            columns::<T, W, 1>(a, n, leading, j, x, y);
            j += 1;
        }
    }
}

/// # Safety
/// As `hermitian_times`, for `COLS` columns from `j` on.
#[inline(always)]
unsafe fn columns<T: Field, W: Wide<R = T::R>, const COLS: usize>(
    a: *const T,
    n: usize,
    leading: usize,
    j: usize,
    x: *const T,
    y: *mut T,
) {
    let parts = parts::<T>();
    // SAFETY: rows from j to n of the columns, of x and of y.
    unsafe {
        let mut own = [T::ZERO; COLS];
        for (c, own) in own.iter_mut().enumerate() {
            let column = a.add((j + c) * leading);
            let xc = *x.add(j + c);
            *own += treadle_core::Float::scale(xc, (*column.add(j + c)).re());
            for r in c + 1..COLS {
                let value = *column.add(j + r);
                *y.add(j + r) += value * xc;
                *own += value.conj_times(*x.add(j + r));
            }
        }
        let top = (j + COLS) * parts;
        let reals = n * parts;
        let column: [*const T::R; COLS] = std::array::from_fn(|c| a.add((j + c) * leading).cast::<T::R>());
        let (x_all, y_all) = (x.cast::<T::R>(), y.cast::<T::R>());
        let re: [W; COLS] = std::array::from_fn(|c| W::splat((*x.add(j + c)).re()));
        let im: [W; COLS] = std::array::from_fn(|c| W::splat((*x.add(j + c)).im()));
        let mut straight = [W::zero(); COLS];
        let mut crossed = [W::zero(); COLS];
        let one = <T::R as treadle_core::Element>::ONE;
        let signs = W::pairs(-one, one);
        macro_rules! step {
            ($at:expr, $count:expr) => {{
                let (at, count) = ($at, $count);
                let right = W::load_up_to(x_all.add(at), count);
                let turned = if T::IS_REAL { right } else { right.swap() };
                let mut sum = W::load_up_to(y_all.add(at), count);
                let mut aside = W::zero();
                for c in 0..COLS {
                    let value = W::load_up_to(column[c].add(at), count);
                    sum = value.fma(re[c], sum);
                    straight[c] = value.fma(right, straight[c]);
                    if !T::IS_REAL {
                        aside = value.fma(im[c], aside);
                        crossed[c] = value.fma(turned, crossed[c]);
                    }
                }
                if !T::IS_REAL {
                    sum = aside.swap().fma(signs, sum);
                }
                sum.store_up_to(y_all.add(at), count);
            }};
        }
        let mut at = top;
        // The matrix is aligned: up to the next whole register, so that no load crosses a line.
        let ahead = (column[0].add(at) as usize / size_of::<T::R>()) % W::LANES;
        if ahead != 0 && at < reals {
            let count = (W::LANES - ahead).min(reals - at);
            step!(at, count);
            at += count;
        }
        while at + W::LANES <= reals {
            step!(at, usize::MAX);
            at += W::LANES;
        }
        if at < reals {
            step!(at, reals - at);
        }
        for c in 0..COLS {
            let re = straight[c].sum();
            let sum = if T::IS_REAL {
                T::from_real(re)
            } else {
                let (even, odd) = crossed[c].sums();
                T::from_parts(re, even - odd)
            };
            *y.add(j + c) += own[c] + sum;
        }
    }
}
