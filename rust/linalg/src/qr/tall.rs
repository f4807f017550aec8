//! Products of a few long columns: `V^H C` and `C += V S`, straight from column-major memory.
//!
//! They carry panels and blocks of reflectors, where a product with packing would copy as much as it computes. Sums
//! run over pieces of rows in a fixed order, so that the bits depend on the sizes alone.

use crate::field::Field;
use crate::wide::{Wide, kernel};

/// Rows of which a product with `V^H` makes one sum: four columns of them stay in the first cache.
const PIECE: usize = 512;

/// Reals in an element.
pub(crate) const fn parts<T: Field>() -> usize {
    if T::IS_REAL { 1 } else { 2 }
}

kernel! {
    /// `out = V^H C`, or `out += V^H C`: `V` has `p` columns, `C` has `q`, both `m` rows.
    ///
    /// # Safety
    /// Column-major, the columns of each `ld` apart; `out` shares no element with the others.
    pub(crate) unsafe fn adjoint_times<T, W>(
        m: usize,
        v: *const T,
        ld_v: usize,
        p: usize,
        c: *const T,
        ld_c: usize,
        q: usize,
        out: *mut T,
        ld_out: usize,
        add: bool,
    ) {
        adjoint_times_in::<T, W>(m, v, ld_v, p, c, ld_c, q, out, ld_out, add)
    }
}

/// # Safety
/// As `adjoint_times`, from a `Task`.
#[inline(always)]
pub(crate) unsafe fn adjoint_times_in<T: Field, W: Wide<R = T::R>>(
    m: usize,
    v: *const T,
    ld_v: usize,
    p: usize,
    c: *const T,
    ld_c: usize,
    q: usize,
    out: *mut T,
    ld_out: usize,
    add: bool,
) {
    let mut start = 0;
    let mut add = add;
    // SAFETY: every block is inside the matrices that the caller vouches for.
    unsafe {
        loop {
            let rows = PIECE.min(m - start);
            let (v, c) = (v.add(start), c.add(start));
            let mut j = 0;
            while j < q {
                let c = c.add(j * ld_c);
                let out = out.add(j * ld_out);
                if T::IS_REAL && q - j >= 4 {
                    strip::<T, W, 4, 4>(rows, v, ld_v, p, c, ld_c, out, ld_out, add);
                    j += 4;
                } else if q - j >= 2 {
                    strip::<T, W, 4, 2>(rows, v, ld_v, p, c, ld_c, out, ld_out, add);
                    j += 2;
                } else {
                    strip::<T, W, 8, 1>(rows, v, ld_v, p, c, ld_c, out, ld_out, add);
                    j += 1;
                }
            }
            start += rows;
            add = true;
            if start >= m {
                return;
            }
        }
    }
}

/// `Q` columns of `C` against all of `V`, `P` at a time.
///
/// # Safety
/// As `adjoint_times_in`.
#[inline(always)]
unsafe fn strip<T: Field, W: Wide<R = T::R>, const P: usize, const Q: usize>(
    rows: usize,
    v: *const T,
    ld_v: usize,
    p: usize,
    c: *const T,
    ld_c: usize,
    out: *mut T,
    ld_out: usize,
    add: bool,
) {
    let mut i = 0;
    // SAFETY: passed on.
    unsafe {
        while i < p {
            let v = v.add(i * ld_v);
            let out = out.add(i);
            match p - i {
                left if left >= P => {
                    sums::<T, W, P, Q>(rows, v, ld_v, c, ld_c, out, ld_out, add);
                    i += P;
                }
                left if left >= 4 => {
                    sums::<T, W, 4, Q>(rows, v, ld_v, c, ld_c, out, ld_out, add);
                    i += 4;
                }
                left if left >= 2 => {
                    sums::<T, W, 2, Q>(rows, v, ld_v, c, ld_c, out, ld_out, add);
                    i += 2;
                }
                _ => {
                    sums::<T, W, 1, Q>(rows, v, ld_v, c, ld_c, out, ld_out, add);
                    i += 1;
                }
            }
        }
    }
}

/// # Safety
/// As `strip`, for `P` columns of `V`.
#[inline(always)]
unsafe fn sums<T: Field, W: Wide<R = T::R>, const P: usize, const Q: usize>(
    rows: usize,
    v: *const T,
    ld_v: usize,
    c: *const T,
    ld_c: usize,
    out: *mut T,
    ld_out: usize,
    add: bool,
) {
    let parts = parts::<T>();
    let reals = rows * parts;
    // SAFETY: the loads stay within `rows` of each column, and `out` holds P by Q.
    unsafe {
        let mut straight = [[W::zero(); P]; Q];
        let mut crossed = [[W::zero(); P]; Q];
        let mut at = 0;
        macro_rules! step {
            ($load:expr) => {{
                let right: [W; Q] = std::array::from_fn(|j| $load(c.add(j * ld_c).cast::<T::R>().add(at)));
                let turned: [W; Q] = std::array::from_fn(|j| {
                    if T::IS_REAL {
                        right[j]
                    } else {
                        right[j].swap()
                    }
                });
                for i in 0..P {
                    let left = $load(v.add(i * ld_v).cast::<T::R>().add(at));
                    for j in 0..Q {
                        straight[j][i] = left.fma(right[j], straight[j][i]);
                        if !T::IS_REAL {
                            crossed[j][i] = left.fma(turned[j], crossed[j][i]);
                        }
                    }
                }
            }};
        }
        while at + W::LANES <= reals {
            step!(|from: *const T::R| W::load(from));
            at += W::LANES;
        }
        if at < reals {
            let count = reals - at;
            step!(|from: *const T::R| W::load_part(from, count));
        }
        let one = <T::R as treadle_core::Element>::ONE;
        let signs = W::pairs(one, -one);
        let put = |i: usize, j: usize, re: T::R, im: T::R| {
            let to = out.add(i + j * ld_out);
            let sum = T::from_parts(re, im);
            *to = if add { *to + sum } else { sum };
        };
        let aside = |crossed: W| if T::IS_REAL { crossed } else { crossed.mul(signs) };
        if P.is_multiple_of(4) {
            for j in 0..Q {
                for i in (0..P).step_by(4) {
                    let re = W::four_sums(std::array::from_fn(|l| straight[j][i + l]));
                    let im = if T::IS_REAL {
                        re
                    } else {
                        W::four_sums(std::array::from_fn(|l| aside(crossed[j][i + l])))
                    };
                    for l in 0..4 {
                        put(i + l, j, re[l], im[l]);
                    }
                }
            }
        } else if Q == 4 {
            for i in 0..P {
                let re = W::four_sums(std::array::from_fn(|l| straight[l % Q][i]));
                let im = if T::IS_REAL {
                    re
                } else {
                    W::four_sums(std::array::from_fn(|l| aside(crossed[l % Q][i])))
                };
                for l in 0..4 {
                    put(i, l, re[l], im[l]);
                }
            }
        } else {
            for j in 0..Q {
                for i in 0..P {
                    let re = straight[j][i].sum();
                    let im = if T::IS_REAL {
                        re
                    } else {
                        aside(crossed[j][i]).sum()
                    };
                    put(i, j, re, im);
                }
            }
        }
    }
}

kernel! {
    /// `C += V S`, or `C -= V S`: `V` is `m` by `p`, `S` is `p` by `q`.
    ///
    /// # Safety
    /// Column-major, the columns of each `ld` apart; `c` shares no element with the others.
    pub(crate) unsafe fn add_times<T, W>(
        m: usize,
        v: *const T,
        ld_v: usize,
        p: usize,
        s: *const T,
        ld_s: usize,
        c: *mut T,
        ld_c: usize,
        q: usize,
        subtract: bool,
    ) {
        if subtract {
            add_times_in::<T, W, true>(m, v, ld_v, p, s, ld_s, c, ld_c, q)
        } else {
            add_times_in::<T, W, false>(m, v, ld_v, p, s, ld_s, c, ld_c, q)
        }
    }
}

/// # Safety
/// As `add_times`, from a `Task`.
#[inline(always)]
pub(crate) unsafe fn add_times_in<T: Field, W: Wide<R = T::R>, const SUBTRACT: bool>(
    m: usize,
    v: *const T,
    ld_v: usize,
    p: usize,
    s: *const T,
    ld_s: usize,
    c: *mut T,
    ld_c: usize,
    q: usize,
) {
    let reals = m * parts::<T>();
    let (v, c) = (v.cast::<T::R>(), c.cast::<T::R>());
    let mut at = 0;
    // SAFETY: every block is inside the matrices that the caller vouches for.
    unsafe {
        macro_rules! columns {
            ($rows:literal, $wide:literal, $narrow:literal, $count:expr) => {{
                let (v, c) = (v.add(at), c.add(at));
                let mut j = 0;
                while j + $wide <= q {
                    block::<T, W, $rows, $wide, SUBTRACT>(
                        v,
                        ld_v,
                        p,
                        s.add(j * ld_s),
                        ld_s,
                        c,
                        ld_c,
                        j,
                        $count,
                    );
                    j += $wide;
                }
                while j + $narrow <= q {
                    block::<T, W, $rows, $narrow, SUBTRACT>(
                        v,
                        ld_v,
                        p,
                        s.add(j * ld_s),
                        ld_s,
                        c,
                        ld_c,
                        j,
                        $count,
                    );
                    j += $narrow;
                }
                while j < q {
                    block::<T, W, $rows, 1, SUBTRACT>(v, ld_v, p, s.add(j * ld_s), ld_s, c, ld_c, j, $count);
                    j += 1;
                }
            }};
        }
        if q == 1 {
            while at + 8 * W::LANES <= reals {
                block::<T, W, 8, 1, SUBTRACT>(v.add(at), ld_v, p, s, ld_s, c.add(at), ld_c, 0, usize::MAX);
                at += 8 * W::LANES;
            }
        }
        while at + 2 * W::LANES <= reals {
            columns!(2, 4, 2, usize::MAX);
            at += 2 * W::LANES;
        }
        while at < reals {
            let count = reals - at;
            columns!(1, 4, 2, count);
            at += W::LANES;
        }
    }
}

/// `ROWS` registers of rows by `Q` columns, of which `count` reals of the last register exist.
///
/// # Safety
/// As `add_times_in`.
#[inline(always)]
unsafe fn block<T: Field, W: Wide<R = T::R>, const ROWS: usize, const Q: usize, const SUBTRACT: bool>(
    v: *const T::R,
    ld_v: usize,
    p: usize,
    s: *const T,
    ld_s: usize,
    c: *mut T::R,
    ld_c: usize,
    first: usize,
    count: usize,
) {
    let parts = parts::<T>();
    let (step_v, step_c) = (ld_v * parts, ld_c * parts);
    // SAFETY: loads and stores stay within the rows and columns of the block.
    unsafe {
        let mut straight = [[W::zero(); ROWS]; Q];
        let mut crossed = [[W::zero(); ROWS]; Q];
        for l in 0..p {
            let column = v.add(l * step_v);
            let left: [W; ROWS] = std::array::from_fn(|r| W::load_up_to(column.add(r * W::LANES), count));
            for j in 0..Q {
                let x = *s.add(l + j * ld_s);
                let re = W::splat(x.re());
                for r in 0..ROWS {
                    straight[j][r] = left[r].fma(re, straight[j][r]);
                }
                if !T::IS_REAL {
                    let im = W::splat(x.im());
                    for r in 0..ROWS {
                        crossed[j][r] = left[r].fma(im, crossed[j][r]);
                    }
                }
            }
        }
        let one = <T::R as treadle_core::Element>::ONE;
        let signs = W::pairs(-one, one);
        for j in 0..Q {
            for r in 0..ROWS {
                let to = c.add((first + j) * step_c + r * W::LANES);
                let old = W::load_up_to(to, count);
                let sum = if T::IS_REAL {
                    straight[j][r]
                } else {
                    crossed[j][r].swap().fma(signs, straight[j][r])
                };
                let new = if SUBTRACT { old.sub(sum) } else { old.add(sum) };
                new.store_up_to(to, count);
            }
        }
    }
}

kernel! {
    /// The sum of the squared moduli, of pieces of `PIECE` elements.
    ///
    /// # Safety
    /// `x` holds `len` elements.
    pub(crate) unsafe fn squares<T, W>(x: *const T, len: usize) -> T::R {
        squares_in::<T, W>(x, len)
    }
}

/// # Safety
/// As `squares`, from a `Task`.
#[inline(always)]
pub(crate) unsafe fn squares_in<T: Field, W: Wide<R = T::R>>(x: *const T, len: usize) -> T::R {
    let mut total = <T::R as treadle_core::Element>::ZERO;
    for start in (0..len).step_by(PIECE) {
        let reals = PIECE.min(len - start) * parts::<T>();
        // SAFETY: inside the column.
        unsafe {
            let x = x.add(start).cast::<T::R>();
            let mut sums = [W::zero(); 4];
            let mut at = 0;
            while at + 4 * W::LANES <= reals {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let y = W::load(x.add(at + i * W::LANES));
                    *sum = y.fma(y, *sum);
                }
                at += 4 * W::LANES;
            }
            while at < reals {
                let y = W::load_up_to(x.add(at), reals - at);
                sums[0] = y.fma(y, sums[0]);
                at += W::LANES;
            }
            total += sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        }
    }
    total
}

kernel! {
    /// `x *= factor`.
    ///
    /// # Safety
    /// `x` holds `len` elements.
    pub(crate) unsafe fn scale<T, W>(x: *mut T, len: usize, factor: T) {
        scale_in::<T, W>(x, len, factor)
    }
}

/// # Safety
/// As `scale`, from a `Task`.
#[inline(always)]
pub(crate) unsafe fn scale_in<T: Field, W: Wide<R = T::R>>(x: *mut T, len: usize, factor: T) {
    let reals = len * parts::<T>();
    let x = x.cast::<T::R>();
    // SAFETY: inside the column.
    unsafe {
        let re = W::splat(factor.re());
        let im = W::pairs(-factor.im(), factor.im());
        let mut at = 0;
        while at < reals {
            let y = W::load_up_to(x.add(at), reals - at);
            let mut z = y.mul(re);
            if !T::IS_REAL {
                z = y.swap().fma(im, z);
            }
            z.store_up_to(x.add(at), reals - at);
            at += W::LANES;
        }
    }
}
