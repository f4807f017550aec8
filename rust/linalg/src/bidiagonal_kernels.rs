//! The matrix-vector products of the bidiagonal reduction, compiled for wide registers.
//!
//! Complex columns are read as twice as many real numbers: `a^H x` is two real products of the same column, with `x` and
//! with `x` turned by a quarter (`quarter_turn`), and `a u` two real multiples of it. Nothing is shuffled that way, and a
//! column is loaded once for both.
//!
//! Every result has a fixed order of summation that depends on its length alone: neither the split of the columns
//! (`dots`) nor that of the rows (`combine`) changes a bit.

use crate::field::{Field, RealNumber};
use treadle_contract::Isa;
use treadle_core::Element;

/// Columns that are read together by `combine`.
const TOGETHER: usize = 8;

#[inline(always)]
pub(crate) fn fma<R: RealNumber, const FUSED: bool>(a: R, b: R, c: R) -> R {
    if FUSED { a.fused(b, c) } else { a * b + c }
}

/// `C` columns against `P` vectors.
#[inline(always)]
unsafe fn dot_group<R: RealNumber, const FUSED: bool, const P: usize, const L: usize, const C: usize>(
    len: usize,
    a: *const R,
    leading: usize,
    x: [*const R; P],
    out: *mut R,
) {
    let zero = <R as Element>::ZERO;
    let mut sums = [[[zero; L]; P]; C];
    let whole = len - len % L;
    let mut i = 0;
    // SAFETY: i + l < len, and the caller vouches for C columns and P vectors of len numbers.
    unsafe {
        while i < whole {
            for (c, sums) in sums.iter_mut().enumerate() {
                for (p, sums) in sums.iter_mut().enumerate() {
                    for (l, sum) in sums.iter_mut().enumerate() {
                        *sum = fma::<R, FUSED>(*a.add(c * leading + i + l), *x[p].add(i + l), *sum);
                    }
                }
            }
            i += L;
        }
        for (c, sums) in sums.iter_mut().enumerate() {
            for (p, sums) in sums.iter_mut().enumerate() {
                for (l, sum) in sums.iter_mut().enumerate().take(len - whole) {
                    *sum = fma::<R, FUSED>(*a.add(c * leading + whole + l), *x[p].add(whole + l), *sum);
                }
            }
        }
        for (c, sums) in sums.iter_mut().enumerate() {
            for (p, sums) in sums.iter_mut().enumerate() {
                let mut width = L / 2;
                while width > 0 {
                    for l in 0..width {
                        sums[l] = sums[l] + sums[l + width];
                    }
                    width /= 2;
                }
                *out.add(c * P + p) = sums[0];
            }
        }
    }
}

#[inline(always)]
unsafe fn dots_body<R: RealNumber, const FUSED: bool, const P: usize, const L: usize>(
    len: usize,
    cols: usize,
    a: *const R,
    leading: usize,
    x: [*const R; P],
    out: *mut R,
) {
    let mut j = 0;
    // SAFETY: columns j.. of the caller's.
    unsafe {
        while j + 4 <= cols {
            dot_group::<R, FUSED, P, L, 4>(len, a.add(j * leading), leading, x, out.add(j * P));
            j += 4;
        }
        while j < cols {
            dot_group::<R, FUSED, P, L, 1>(len, a.add(j * leading), leading, x, out.add(j * P));
            j += 1;
        }
    }
}

/// Adds `C` multiples of columns to the sums, or starts them.
#[inline(always)]
unsafe fn combine_group<R: RealNumber, const FUSED: bool, const P: usize, const L: usize, const C: usize>(
    rows: usize,
    a: *const R,
    leading: usize,
    factors: *const R,
    out: [*mut R; P],
    first: bool,
) {
    let zero = <R as Element>::ZERO;
    let mut by = [[zero; P]; C];
    // SAFETY: the caller vouches for C columns, C * P factors and P sums of `rows` numbers.
    unsafe {
        for (c, by) in by.iter_mut().enumerate() {
            for (p, by) in by.iter_mut().enumerate() {
                *by = *factors.add(c * P + p);
            }
        }
        let mut r = 0;
        while r + L <= rows {
            for p in 0..P {
                let mut sums = [zero; L];
                if !first {
                    for (l, sum) in sums.iter_mut().enumerate() {
                        *sum = *out[p].add(r + l);
                    }
                }
                for (c, by) in by.iter().enumerate() {
                    for (l, sum) in sums.iter_mut().enumerate() {
                        *sum = fma::<R, FUSED>(*a.add(c * leading + r + l), by[p], *sum);
                    }
                }
                for (l, sum) in sums.iter().enumerate() {
                    *out[p].add(r + l) = *sum;
                }
            }
            r += L;
        }
        while r < rows {
            for p in 0..P {
                let mut sum = if first { zero } else { *out[p].add(r) };
                for (c, by) in by.iter().enumerate() {
                    sum = fma::<R, FUSED>(*a.add(c * leading + r), by[p], sum);
                }
                *out[p].add(r) = sum;
            }
            r += 1;
        }
    }
}

#[inline(always)]
unsafe fn combine_body<R: RealNumber, const FUSED: bool, const P: usize, const L: usize>(
    rows: usize,
    cols: usize,
    a: *const R,
    leading: usize,
    factors: *const R,
    out: [*mut R; P],
) {
    let mut j = 0;
    // SAFETY: columns j.. of the caller's.
    unsafe {
        if cols == 0 {
            for sums in out {
                for r in 0..rows {
                    *sums.add(r) = <R as Element>::ZERO;
                }
            }
        }
        while j + TOGETHER <= cols {
            combine_group::<R, FUSED, P, L, TOGETHER>(
                rows,
                a.add(j * leading),
                leading,
                factors.add(j * P),
                out,
                j == 0,
            );
            j += TOGETHER;
        }
        while j + 2 <= cols {
            combine_group::<R, FUSED, P, L, 2>(
                rows,
                a.add(j * leading),
                leading,
                factors.add(j * P),
                out,
                j == 0,
            );
            j += 2;
        }
        if j < cols {
            combine_group::<R, FUSED, P, L, 1>(
                rows,
                a.add(j * leading),
                leading,
                factors.add(j * P),
                out,
                j == 0,
            );
        }
    }
}

/// Columns `p` and `q` become `c p + s q` and `c q - s p`.
#[inline(always)]
unsafe fn rotate_body<R: RealNumber, const FUSED: bool, const L: usize>(
    len: usize,
    p: *mut R,
    q: *mut R,
    c: R,
    s: R,
) {
    let one = |i: usize| {
        // SAFETY: i < len, and the caller vouches for both columns.
        unsafe {
            let (x, y) = (*p.add(i), *q.add(i));
            *p.add(i) = fma::<R, FUSED>(c, x, s * y);
            *q.add(i) = fma::<R, FUSED>(c, y, -(s * x));
        }
    };
    let mut i = 0;
    while i + L <= len {
        let zero = <R as Element>::ZERO;
        let (mut x, mut y) = ([zero; L], [zero; L]);
        // SAFETY: i + l < len.
        unsafe {
            for l in 0..L {
                x[l] = *p.add(i + l);
                y[l] = *q.add(i + l);
            }
            for l in 0..L {
                *p.add(i + l) = fma::<R, FUSED>(c, x[l], s * y[l]);
            }
            for l in 0..L {
                *q.add(i + l) = fma::<R, FUSED>(c, y[l], -(s * x[l]));
            }
        }
        i += L;
    }
    (i..len).for_each(one);
}

macro_rules! wider {
    ($name:ident, $body:ident, [$($p:ident)?], $features:literal, ($($arg:ident: $kind:ty),*)) => {
        /// # Safety
        /// As the function that chooses among these, on a machine with the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<R: RealNumber, $(const $p: usize,)? const L: usize>($($arg: $kind),*) {
            // SAFETY: passed on.
            unsafe { $body::<R, true, $($p,)? L>($($arg),*) }
        }
    };
}
wider!(dots_avx512, dots_body, [P], "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", (len: usize, cols: usize, a: *const R, leading: usize, x: [*const R; P], out: *mut R));
wider!(dots_avx2, dots_body, [P], "avx2,fma", (len: usize, cols: usize, a: *const R, leading: usize, x: [*const R; P], out: *mut R));
wider!(combine_avx512, combine_body, [P], "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", (rows: usize, cols: usize, a: *const R, leading: usize, factors: *const R, out: [*mut R; P]));
wider!(combine_avx2, combine_body, [P], "avx2,fma", (rows: usize, cols: usize, a: *const R, leading: usize, factors: *const R, out: [*mut R; P]));
wider!(rotate_avx512, rotate_body, [], "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma", (len: usize, p: *mut R, q: *mut R, c: R, s: R));
wider!(rotate_avx2, rotate_body, [], "avx2,fma", (len: usize, p: *mut R, q: *mut R, c: R, s: R));

/// As `dots`, on real numbers.
///
/// # Safety
/// `cols` columns of `len` numbers are readable, `leading` apart, and so are the vectors; `out` holds `cols * P`.
#[inline]
unsafe fn real_dots<R: RealNumber, const P: usize, const L: usize>(
    isa: Isa,
    len: usize,
    cols: usize,
    a: *const R,
    leading: usize,
    x: [*const R; P],
    out: *mut R,
) {
    // SAFETY: passed on.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => dots_avx512::<R, P, L>(len, cols, a, leading, x, out),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => dots_avx2::<R, P, L>(len, cols, a, leading, x, out),
            _ => dots_body::<R, false, P, L>(len, cols, a, leading, x, out),
        }
    }
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
    let wide = size_of::<T::R>() == 4;
    let (a, x, turned, out) = (a.cast::<T::R>(), x.cast::<T::R>(), turned.cast(), out.cast());
    // SAFETY: a complex number is two real ones.
    unsafe {
        match (T::IS_REAL, wide) {
            (true, false) => real_dots::<T::R, 1, 16>(isa, len, cols, a, leading, [x], out),
            (true, true) => real_dots::<T::R, 1, 32>(isa, len, cols, a, leading, [x], out),
            (false, false) => {
                real_dots::<T::R, 2, 8>(isa, 2 * len, cols, a, 2 * leading, [x, turned], out);
            }
            (false, true) => {
                real_dots::<T::R, 2, 16>(isa, 2 * len, cols, a, 2 * leading, [x, turned], out);
            }
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
            match (isa, size_of::<T::R>() == 4) {
                #[cfg(target_arch = "x86_64")]
                (Isa::Avx512, false) => {
                    combine_avx512::<T::R, 1, 16>(rows, cols, a, leading, factors, [sums]);
                }
                #[cfg(target_arch = "x86_64")]
                (Isa::Avx512, true) => {
                    combine_avx512::<T::R, 1, 32>(rows, cols, a, leading, factors, [sums]);
                }
                #[cfg(target_arch = "x86_64")]
                (Isa::Avx2, _) => combine_avx2::<T::R, 1, 16>(rows, cols, a, leading, factors, [sums]),
                _ => combine_body::<T::R, false, 1, 16>(rows, cols, a, leading, factors, [sums]),
            }
            for r in 0..rows {
                put(r, T::from_real(*sums.add(r)));
            }
            return;
        }
        let (rows2, leading2) = (2 * rows, 2 * leading);
        let both = [sums, sums.add(rows2)];
        match (isa, size_of::<T::R>() == 4) {
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, false) => {
                combine_avx512::<T::R, 2, 16>(rows2, cols, a, leading2, factors, both);
            }
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx512, true) => {
                combine_avx512::<T::R, 2, 32>(rows2, cols, a, leading2, factors, both);
            }
            #[cfg(target_arch = "x86_64")]
            (Isa::Avx2, _) => combine_avx2::<T::R, 2, 16>(rows2, cols, a, leading2, factors, both),
            _ => combine_body::<T::R, false, 2, 16>(rows2, cols, a, leading2, factors, both),
        }
        for r in 0..rows {
            // Multiples by the real parts, and by the imaginary ones.
            let (re, im) = (both[0].add(2 * r), both[1].add(2 * r));
            put(r, T::from_parts(*re - *im.add(1), *re.add(1) + *im));
        }
    }
}

/// Columns `p` and `q` become `c p + s q` and `c q - s p`.
///
/// # Safety
/// Both hold `len` numbers and differ; the machine has the instruction set.
#[inline]
pub(crate) unsafe fn rotate<R: RealNumber>(isa: Isa, len: usize, p: *mut R, q: *mut R, c: R, s: R) {
    // SAFETY: passed on.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => rotate_avx512::<R, 16>(len, p, q, c, s),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => rotate_avx2::<R, 8>(len, p, q, c, s),
            _ => rotate_body::<R, false, 4>(len, p, q, c, s),
        }
    }
}
