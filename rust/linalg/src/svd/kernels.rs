//! The matrix-vector products of the bidiagonal reduction, compiled for wide registers.
//!
//! Complex columns are read as twice as many real numbers: `a^H x` is two real products of the same column, with `x` and
//! with `x` turned by a quarter (`quarter_turn`), and `a u` two real multiples of it. Nothing is shuffled that way, and a
//! column is loaded once for both.
//!
//! Every result has a fixed order of summation that depends on its length alone: neither the split of the columns
//! (`dots`) nor that of the rows (`combine`) changes a bit.

use crate::field::{Field, RealNumber};
use treadle_contract::{Isa, combine_columns, dot_columns};

#[inline(always)]
pub(crate) fn fma<R: RealNumber, const FUSED: bool>(a: R, b: R, c: R) -> R {
    if FUSED { a.fused(b, c) } else { a * b + c }
}

/// `out[j] = a_j^H x` for each of `cols` columns; `turned` is `quarter_turn` of `x` where the type is complex.
///
/// # Safety
/// `cols` columns of `len` elements are readable, `leading` apart; `x` (and `turned`) hold `len`, `out` holds `cols`; the
/// machine has the instruction set.
pub(crate) unsafe fn dots<T: Field>(
    isa: Isa,
    len: usize,
    cols: usize,
    a: *const T,
    leading: usize,
    x: *const T,
    turned: *const T,
    out: *mut T,
) {
    let (a, x, turned, out) = (a.cast::<T::R>(), x.cast::<T::R>(), turned.cast(), out.cast());
    // SAFETY: a complex number is two real ones.
    unsafe {
        if T::IS_REAL {
            dot_columns(isa, len, cols, a, leading, [x], out);
        } else {
            dot_columns(isa, 2 * len, cols, a, 2 * leading, [x, turned], out);
        }
    }
}

/// What `dots` reads beside `x`: the real product of a column with it is the imaginary part of `a^H x`.
///
/// # Safety
/// Both hold `len` elements.
pub(crate) unsafe fn quarter_turn<T: Field>(x: *const T, len: usize, to: *mut T) {
    if T::IS_REAL {
        return;
    }
    for i in 0..len {
        // SAFETY: i < len.
        unsafe {
            let value = *x.add(i);
            *to.add(i) = T::from_parts(value.im(), -value.re());
        }
    }
}

/// Calls `put(r, sum of a[r, j] factors[j])` for every row.
///
/// # Safety
/// `cols` columns of `rows` elements are readable, `leading` apart; `factors` holds `cols`; `sums` has room for
/// `2 * rows` real numbers (twice that where the type is complex) that no other thread uses; the machine has the
/// instruction set.
pub(crate) unsafe fn combine<T: Field>(
    isa: Isa,
    rows: usize,
    cols: usize,
    a: *const T,
    leading: usize,
    factors: *const T,
    sums: *mut T::R,
    mut put: impl FnMut(usize, T),
) {
    let (a, factors) = (a.cast::<T::R>(), factors.cast::<T::R>());
    // SAFETY: a complex number is two real ones.
    unsafe {
        if T::IS_REAL {
            combine_columns(isa, rows, cols, a, leading, factors, [sums]);
            for r in 0..rows {
                put(r, T::from_real(*sums.add(r)));
            }
            return;
        }
        let both = [sums, sums.add(2 * rows)];
        combine_columns(isa, 2 * rows, cols, a, 2 * leading, factors, both);
        for r in 0..rows {
            // Multiples by the real parts, and by the imaginary ones.
            let (re, im) = (both[0].add(2 * r), both[1].add(2 * r));
            put(r, T::from_parts(*re - *im.add(1), *re.add(1) + *im));
        }
    }
}
