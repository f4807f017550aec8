//! Columns of a matrix against a few vectors: inner products, combinations, rotations. One pass over memory.
//!
//! Every result has an order of summation that its length alone decides: neither the split of the columns (`dot_columns`) nor
//! that of the rows (`combine_columns`) changes a bit.

use crate::Isa;
use crate::simd::{Vector, plain};
use treadle_core::{DType, Element};

/// Columns that `dot_columns` reads together.
const DOTS: usize = 4;
/// Columns that `combine_columns` reads together.
const COMBINED: usize = 8;
/// Registers of sums for each column.
const SUMS: usize = 2;

/// `C` columns against `P` vectors.
///
/// # Safety
/// As `dot_columns`.
#[inline(always)]
unsafe fn dot_group<V: Vector, const P: usize, const C: usize>(
    len: usize,
    a: *const V::Real,
    leading: usize,
    x: [*const V::Real; P],
    out: *mut V::Real,
) where
    V::Real: Element,
{
    // SAFETY: registers within `len` numbers, the last one by its mask.
    unsafe {
        let mut sums = [[[V::zero(); SUMS]; P]; C];
        let mut i = 0;
        while i + SUMS * V::LANES <= len {
            for r in 0..SUMS {
                let at = i + r * V::LANES;
                let factors: [V; P] = std::array::from_fn(|p| V::load(x[p].add(at)));
                for (c, sums) in sums.iter_mut().enumerate() {
                    let column = V::load(a.add(c * leading + at));
                    for (p, sums) in sums.iter_mut().enumerate() {
                        sums[r] = sums[r].mul_add(column, factors[p]);
                    }
                }
            }
            i += SUMS * V::LANES;
        }
        let mut r = 0;
        while i < len {
            let count = V::LANES.min(len - i);
            let factors: [V; P] = std::array::from_fn(|p| V::load_first(x[p].add(i), count));
            for (c, sums) in sums.iter_mut().enumerate() {
                let column = V::load_first(a.add(c * leading + i), count);
                for (p, sums) in sums.iter_mut().enumerate() {
                    sums[r] = sums[r].mul_add(column, factors[p]);
                }
            }
            i += V::LANES;
            r += 1;
        }
        for (c, sums) in sums.iter().enumerate() {
            for (p, sums) in sums.iter().enumerate() {
                let mut lanes = [V::Real::ZERO; 64];
                sums[0].add(sums[1]).store(lanes.as_mut_ptr());
                let mut width = V::LANES / 2;
                while width > 0 {
                    for l in 0..width {
                        lanes[l] = lanes[l].add(lanes[l + width]);
                    }
                    width /= 2;
                }
                *out.add(c * P + p) = lanes[0];
            }
        }
    }
}

/// # Safety
/// As `dot_columns`.
#[inline(always)]
unsafe fn dots<V: Vector, const P: usize>(
    len: usize,
    cols: usize,
    a: *const V::Real,
    leading: usize,
    x: [*const V::Real; P],
    out: *mut V::Real,
) where
    V::Real: Element,
{
    let mut j = 0;
    // SAFETY: columns j.. of the caller's.
    unsafe {
        while j + DOTS <= cols {
            dot_group::<V, P, DOTS>(len, a.add(j * leading), leading, x, out.add(j * P));
            j += DOTS;
        }
        while j < cols {
            dot_group::<V, P, 1>(len, a.add(j * leading), leading, x, out.add(j * P));
            j += 1;
        }
    }
}

/// Adds multiples of `C` columns to the sums, or starts them.
///
/// # Safety
/// As `combine_columns`.
#[inline(always)]
unsafe fn combine_group<V: Vector, const P: usize, const C: usize>(
    rows: usize,
    a: *const V::Real,
    leading: usize,
    factors: *const V::Real,
    out: [*mut V::Real; P],
    first: bool,
) {
    // SAFETY: registers within `rows` numbers, the last one by its mask.
    unsafe {
        let by: [[V; P]; C] =
            std::array::from_fn(|c| std::array::from_fn(|p| V::splat(*factors.add(c * P + p))));
        let mut r = 0;
        while r + V::LANES <= rows {
            let mut sums: [V; P] =
                std::array::from_fn(|p| if first { V::zero() } else { V::load(out[p].add(r)) });
            for (c, by) in by.iter().enumerate() {
                let column = V::load(a.add(c * leading + r));
                for (sum, by) in sums.iter_mut().zip(by) {
                    *sum = sum.mul_add(column, *by);
                }
            }
            for (p, sum) in sums.into_iter().enumerate() {
                sum.store(out[p].add(r));
            }
            r += V::LANES;
        }
        if r < rows {
            let count = rows - r;
            let mut sums: [V; P] = std::array::from_fn(|p| {
                if first {
                    V::zero()
                } else {
                    V::load_first(out[p].add(r), count)
                }
            });
            for (c, by) in by.iter().enumerate() {
                let column = V::load_first(a.add(c * leading + r), count);
                for (sum, by) in sums.iter_mut().zip(by) {
                    *sum = sum.mul_add(column, *by);
                }
            }
            for (p, sum) in sums.into_iter().enumerate() {
                sum.store_first(out[p].add(r), count);
            }
        }
    }
}

/// # Safety
/// As `combine_columns`.
#[inline(always)]
unsafe fn combine<V: Vector, const P: usize>(
    rows: usize,
    cols: usize,
    a: *const V::Real,
    leading: usize,
    factors: *const V::Real,
    out: [*mut V::Real; P],
) where
    V::Real: Element,
{
    let mut j = 0;
    // SAFETY: columns j.. of the caller's.
    unsafe {
        if cols == 0 {
            for sums in out {
                (0..rows).for_each(|r| *sums.add(r) = V::Real::ZERO);
            }
        }
        while j + COMBINED <= cols {
            let (a, factors) = (a.add(j * leading), factors.add(j * P));
            combine_group::<V, P, COMBINED>(rows, a, leading, factors, out, j == 0);
            j += COMBINED;
        }
        while j + 2 <= cols {
            let (a, factors) = (a.add(j * leading), factors.add(j * P));
            combine_group::<V, P, 2>(rows, a, leading, factors, out, j == 0);
            j += 2;
        }
        if j < cols {
            let (a, factors) = (a.add(j * leading), factors.add(j * P));
            combine_group::<V, P, 1>(rows, a, leading, factors, out, j == 0);
        }
    }
}

/// # Safety
/// As `rotate_columns`.
#[inline(always)]
unsafe fn rotate<V: Vector>(len: usize, p: *mut V::Real, q: *mut V::Real, c: V::Real, s: V::Real) {
    // SAFETY: registers within `len` numbers, the last one by its mask.
    unsafe {
        let (c, s) = (V::splat(c), V::splat(s));
        let mut i = 0;
        while i + V::LANES <= len {
            let (x, y) = (V::load(p.add(i)), V::load(q.add(i)));
            s.mul(y).mul_add(c, x).store(p.add(i));
            c.mul(y).mul_sub(s, x).store(q.add(i));
            i += V::LANES;
        }
        if i < len {
            let count = len - i;
            let (x, y) = (V::load_first(p.add(i), count), V::load_first(q.add(i), count));
            s.mul(y).mul_add(c, x).store_first(p.add(i), count);
            c.mul(y).mul_sub(s, x).store_first(q.add(i), count);
        }
    }
}

/// The same function for every instruction set and both types.
macro_rules! for_each_machine {
    ($module:ident, $body:ident, [$($p:ident)?], ($($arg:ident: $kind:ty),*)) => {
        mod $module {
            use super::*;

            macro_rules! on {
                ($name:ident, $vector:ty, $features:literal) => {
                    /// # Safety
                    /// As the function that chooses among these, on a machine with the features.
                    #[target_feature(enable = $features)]
                    unsafe fn $name$(<const $p: usize>)?($($arg: $kind),*) {
                        // SAFETY: passed on.
                        unsafe { $body::<$vector, $($p)?>($($arg),*) }
                    }
                };
            }
            mod double {
                use super::*;
                type R = f64;
                #[cfg(target_arch = "x86_64")]
                on!(avx512, crate::simd::avx512::F64, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
                #[cfg(target_arch = "x86_64")]
                on!(avx2, crate::simd::avx2::F64, "avx2,fma");
                for_each_machine!(choose, $body, plain::Plain<f64, 4>, [$($p)?], ($($arg: $kind),*));
            }
            mod single {
                use super::*;
                type R = f32;
                #[cfg(target_arch = "x86_64")]
                on!(avx512, crate::simd::avx512::F32, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
                #[cfg(target_arch = "x86_64")]
                on!(avx2, crate::simd::avx2::F32, "avx2,fma");
                for_each_machine!(choose, $body, plain::Plain<f32, 4>, [$($p)?], ($($arg: $kind),*));
            }
            pub(super) use single::choose as singles;
            pub(super) use double::choose as doubles;
        }
    };
    (choose, $body:ident, $plain:ty, [$($p:ident)?], ($($arg:ident: $kind:ty),*)) => {
        /// # Safety
        /// As the public function.
        #[inline]
        pub(in super::super) unsafe fn choose$(<const $p: usize>)?(isa: Isa, $($arg: $kind),*) {
            // SAFETY: passed on.
            unsafe {
                match isa {
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    Isa::Avx2 => avx2($($arg),*),
                    _ => $body::<$plain, $($p)?>($($arg),*),
                }
            }
        }
    };
}
for_each_machine!(dots_on, dots, [P], (len: usize, cols: usize, a: *const R, leading: usize, x: [*const R; P], out: *mut R));
for_each_machine!(combine_on, combine, [P], (rows: usize, cols: usize, a: *const R, leading: usize, factors: *const R, out: [*mut R; P]));
for_each_machine!(rotate_on, rotate, [], (len: usize, p: *mut R, q: *mut R, c: R, s: R));

/// `out[j * P + p] = sum of a_j[i] x_p[i]` for every column `a_j` of `cols`.
///
/// # Panics
/// For an element type that is not `f32` or `f64`.
///
/// # Safety
/// `cols` columns of `len` numbers are readable, `leading` apart, and so are the vectors; `out` holds `cols * P`; the machine has
/// the instruction set.
#[inline]
pub unsafe fn dot_columns<R: Element, const P: usize>(
    isa: Isa,
    len: usize,
    cols: usize,
    a: *const R,
    leading: usize,
    x: [*const R; P],
    out: *mut R,
) {
    // SAFETY: passed on; the casts are to the type itself.
    unsafe {
        match R::DTYPE {
            DType::F64 => dots_on::doubles(
                isa,
                len,
                cols,
                a.cast(),
                leading,
                x.map(<*const R>::cast),
                out.cast(),
            ),
            DType::F32 => dots_on::singles(
                isa,
                len,
                cols,
                a.cast(),
                leading,
                x.map(<*const R>::cast),
                out.cast(),
            ),
            other => unreachable!("{other:?} has no columns of real numbers"),
        }
    }
}

/// `out[p][r] = sum of a_j[r] factors[j * P + p]` for every row.
///
/// # Panics
/// For an element type that is not `f32` or `f64`.
///
/// # Safety
/// `cols` columns of `rows` numbers are readable, `leading` apart; `factors` holds `cols * P`, each of `out` holds `rows`; the
/// machine has the instruction set.
#[inline]
pub unsafe fn combine_columns<R: Element, const P: usize>(
    isa: Isa,
    rows: usize,
    cols: usize,
    a: *const R,
    leading: usize,
    factors: *const R,
    out: [*mut R; P],
) {
    // SAFETY: passed on; the casts are to the type itself.
    unsafe {
        match R::DTYPE {
            DType::F64 => {
                let out = out.map(<*mut R>::cast);
                combine_on::doubles(isa, rows, cols, a.cast(), leading, factors.cast(), out);
            }
            DType::F32 => {
                let out = out.map(<*mut R>::cast);
                combine_on::singles(isa, rows, cols, a.cast(), leading, factors.cast(), out);
            }
            other => unreachable!("{other:?} has no columns of real numbers"),
        }
    }
}

/// Columns `p` and `q` become `c p + s q` and `c q - s p`.
///
/// # Panics
/// For an element type that is not `f32` or `f64`.
///
/// # Safety
/// Both hold `len` numbers and do not overlap; the machine has the instruction set.
#[inline]
pub unsafe fn rotate_columns<R: Element>(isa: Isa, len: usize, p: *mut R, q: *mut R, c: R, s: R) {
    let (c, s) = (&raw const c, &raw const s);
    // SAFETY: passed on; the casts are to the type itself.
    unsafe {
        match R::DTYPE {
            DType::F64 => {
                rotate_on::doubles(
                    isa,
                    len,
                    p.cast(),
                    q.cast(),
                    c.cast::<f64>().read(),
                    s.cast::<f64>().read(),
                );
            }
            DType::F32 => {
                rotate_on::singles(
                    isa,
                    len,
                    p.cast(),
                    q.cast(),
                    c.cast::<f32>().read(),
                    s.cast::<f32>().read(),
                );
            }
            other => unreachable!("{other:?} has no columns of real numbers"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETS: [Isa; 4] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Neon];

    #[test]
    fn integers_are_exact_at_every_length_and_split() {
        let mut ran = 0;
        for isa in SETS.into_iter().filter(|isa| isa.is_available()) {
            for len in [0usize, 1, 3, 7, 8, 9, 31, 40, 70] {
                for cols in [0usize, 1, 2, 5, 9, 19] {
                    let a: Vec<f64> = (0..(len + 3) * cols).map(|i| (i % 11) as f64 - 5.0).collect();
                    let x: Vec<f64> = (0..len).map(|i| (i % 5) as f64 - 2.0).collect();
                    let y: Vec<f64> = (0..len).map(|i| (i % 3) as f64).collect();
                    let leading = len + 3;
                    let mut out = vec![f64::NAN; 2 * cols];
                    let by: Vec<f64> = (0..2 * cols).map(|i| (i % 7) as f64 - 3.0).collect();
                    let (mut one, mut two) = (vec![f64::NAN; len], vec![f64::NAN; len]);
                    // SAFETY: the arrays are as large as said.
                    unsafe {
                        let vectors = [x.as_ptr(), y.as_ptr()];
                        dot_columns(isa, len, cols, a.as_ptr(), leading, vectors, out.as_mut_ptr());
                        let sums = [one.as_mut_ptr(), two.as_mut_ptr()];
                        combine_columns(isa, len, cols, a.as_ptr(), leading, by.as_ptr(), sums);
                    }
                    for j in 0..cols {
                        for (p, vector) in [&x, &y].into_iter().enumerate() {
                            let sum: f64 = (0..len).map(|i| a[j * leading + i] * vector[i]).sum();
                            assert_eq!(out[2 * j + p], sum, "{isa:?} {len} {cols}");
                        }
                    }
                    for (p, sums) in [&one, &two].into_iter().enumerate() {
                        for (r, found) in sums.iter().enumerate() {
                            let sum: f64 = (0..cols).map(|j| a[j * leading + r] * by[2 * j + p]).sum();
                            assert_eq!(*found, sum, "{isa:?} {len} {cols}");
                        }
                    }
                    ran += 1;
                }
                let (mut p, mut q) = (vec![0f32; len], vec![0f32; len]);
                for i in 0..len {
                    (p[i], q[i]) = (i as f32, 2.0 - i as f32);
                }
                // SAFETY: two arrays of len numbers.
                unsafe { rotate_columns(isa, len, p.as_mut_ptr(), q.as_mut_ptr(), 3.0, -2.0) };
                for i in 0..len {
                    let (x, y) = (i as f32, 2.0 - i as f32);
                    assert_eq!((p[i], q[i]), (3.0 * x - 2.0 * y, 3.0 * y + 2.0 * x));
                }
            }
        }
        assert!(ran >= 54);
    }
}
