//! Inner products with several sums in a fixed order.

use crate::Isa;
use treadle_core::Element;

/// Interleaved sums; enough to hide the latency of an addition.
const SUMS: usize = 16;
/// Terms before the tree joins blocks in pairs.
const BLOCK: usize = 2048;
/// Levels of the tree: more than any memory holds.
const LEVELS: usize = 54;

/// `sum(a[i] * b[i])`.
///
/// # Safety
/// Both are readable at `length` steps of their stride.
#[inline]
pub unsafe fn dot<T: Element>(length: usize, a: *const T, a_step: isize, b: *const T, b_step: isize) -> T {
    // SAFETY: passed on.
    unsafe { tree(length, a, a_step, b, b_step, &|x: T, y: T| x.mul(y)) }
}

/// As `dot`, each factor conjugated if asked.
///
/// # Safety
/// As `dot`.
#[inline(always)]
pub unsafe fn dot_conj<T: Element>(
    length: usize,
    a: *const T,
    a_step: isize,
    b: *const T,
    b_step: isize,
    conj: [bool; 2],
) -> T {
    // SAFETY: passed on.
    unsafe {
        match conj {
            [false, false] => tree(length, a, a_step, b, b_step, &|x: T, y: T| x.mul(y)),
            [true, false] => tree(length, a, a_step, b, b_step, &|x: T, y: T| x.conj().mul(y)),
            [false, true] => tree(length, a, a_step, b, b_step, &|x: T, y: T| x.mul(y.conj())),
            [true, true] => tree(length, a, a_step, b, b_step, &|x: T, y: T| x.mul(y).conj()),
        }
    }
}

/// The inner product of `x` with each of `rows` rows of `k` terms; `put` takes a row's number and its sum.
///
/// # Safety
/// The matrix `a` is readable at `extents` steps of `a_steps`, rows first, and `x` at `k` steps of `x_step`; the machine
/// has the instruction set.
pub unsafe fn dot_rows<T: Element>(
    isa: Isa,
    extents: [usize; 2],
    a: *const T,
    a_steps: [isize; 2],
    x: *const T,
    x_step: isize,
    conj: [bool; 2],
    put: impl Fn(usize, T),
) {
    // SAFETY: passed on; the wrappers only compile the same loops for wider registers.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => dot_rows_avx512(extents, a, a_steps, x, x_step, conj, put),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => dot_rows_avx2(extents, a, a_steps, x, x_step, conj, put),
            _ => each_row(extents, a, a_steps, x, x_step, conj, put),
        }
    }
}

macro_rules! wider {
    ($name:ident, $features:literal) => {
        /// # Safety
        /// As `dot_rows`, on a machine with the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Element>(
            extents: [usize; 2],
            a: *const T,
            a_steps: [isize; 2],
            x: *const T,
            x_step: isize,
            conj: [bool; 2],
            put: impl Fn(usize, T),
        ) {
            // SAFETY: passed on.
            unsafe { each_row(extents, a, a_steps, x, x_step, conj, put) };
        }
    };
}
wider!(dot_rows_avx512, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
wider!(dot_rows_avx2, "avx2,fma");

/// # Safety
/// As `dot_rows`.
#[inline(always)]
unsafe fn each_row<T: Element>(
    [rows, k]: [usize; 2],
    a: *const T,
    a_steps: [isize; 2],
    x: *const T,
    x_step: isize,
    conj: [bool; 2],
    put: impl Fn(usize, T),
) {
    for row in 0..rows {
        // SAFETY: a row of the matrix.
        let sum = unsafe {
            dot_conj(
                k,
                a.offset(row as isize * a_steps[0]),
                a_steps[1],
                x,
                x_step,
                conj,
            )
        };
        put(row, sum);
    }
}

/// # Safety
/// As `dot`.
#[inline(always)]
unsafe fn tree<T: Element>(
    length: usize,
    a: *const T,
    a_step: isize,
    b: *const T,
    b_step: isize,
    product: &impl Fn(T, T) -> T,
) -> T {
    // SAFETY: each block is within the whole.
    let part = |first: usize, count: usize| unsafe {
        let (a, b) = (
            a.offset(first as isize * a_step),
            b.offset(first as isize * b_step),
        );
        // Unit steps are constants so that the loop vectorises.
        if a_step == 1 && b_step == 1 {
            block(count, |at| product(a.add(at).read(), b.add(at).read()))
        } else {
            block(count, |at| {
                product(
                    a.offset(at as isize * a_step).read(),
                    b.offset(at as isize * b_step).read(),
                )
            })
        }
    };
    if length <= BLOCK {
        return part(0, length);
    }
    // Blocks are joined in pairs: where the count of blocks has a one, the sum of so many blocks waits.
    let mut waiting = [T::ZERO; LEVELS];
    let mut count = 0usize;
    for first in (0..length).step_by(BLOCK) {
        let mut sum = part(first, BLOCK.min(length - first));
        let level = count.trailing_ones() as usize;
        for earlier in &waiting[..level] {
            sum = earlier.add(sum);
        }
        waiting[level] = sum;
        count += 1;
    }
    let mut rest = (0..LEVELS).filter(|level| count >> level & 1 == 1);
    let first = rest.next().map_or(T::ZERO, |level| waiting[level]);
    rest.fold(first, |sum, level| waiting[level].add(sum))
}

#[inline(always)]
fn block<T: Element>(length: usize, term: impl Fn(usize) -> T) -> T {
    let mut sums = [T::ZERO; SUMS];
    let whole = length - length % SUMS;
    let mut at = 0;
    while at < whole {
        for (slot, sum) in sums.iter_mut().enumerate() {
            *sum = sum.add(term(at + slot));
        }
        at += SUMS;
    }
    for (slot, sum) in sums.iter_mut().enumerate().take(length - whole) {
        *sum = sum.add(term(whole + slot));
    }
    let mut width = SUMS / 2;
    while width > 0 {
        for slot in 0..width {
            sums[slot] = sums[slot].add(sums[slot + width]);
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use treadle_core::Complex64;

    #[test]
    fn exact_at_every_length_and_sign() {
        let a: Vec<i64> = (0..9000).map(|v| v * 31 % 17 - 8).collect();
        let b: Vec<i64> = (0..18000).map(|v| v * 7 % 19 - 9).collect();
        for length in [0usize, 1, 15, 16, 17, 2047, 2049, 4096, 4100, 8191] {
            let forward: i64 = (0..length).map(|i| a[i] * b[i]).sum();
            let strided: i64 = (0..length)
                .map(|i| a[length.saturating_sub(1) - i] * b[2 * i])
                .sum();
            // SAFETY: all offsets are within the vectors.
            unsafe {
                assert_eq!(dot(length, a.as_ptr(), 1, b.as_ptr(), 1), forward);
                let last = a.as_ptr().add(length.saturating_sub(1));
                assert_eq!(dot(length, last, -1, b.as_ptr(), 2), strided);
            }
        }
    }

    #[test]
    fn each_side_is_conjugated_alone() {
        let (a, b) = ([Complex64::new(1.0, 2.0)], [Complex64::new(3.0, -5.0)]);
        for conj in [[false, false], [true, false], [false, true], [true, true]] {
            let x = if conj[0] { a[0].conj() } else { a[0] };
            let y = if conj[1] { b[0].conj() } else { b[0] };
            // SAFETY: one element each.
            assert_eq!(unsafe { dot_conj(1, a.as_ptr(), 1, b.as_ptr(), 1, conj) }, x * y);
        }
    }
}
