//! Inner products with several sums in a fixed order.

use treadle_core::Element;

/// Interleaved sums; enough to hide the latency of an addition.
const SUMS: usize = 16;
/// Terms before the tree joins blocks in pairs.
const BLOCK: usize = 2048;

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

/// # Safety
/// As `dot`.
unsafe fn tree<T: Element>(
    length: usize,
    a: *const T,
    a_step: isize,
    b: *const T,
    b_step: isize,
    product: &impl Fn(T, T) -> T,
) -> T {
    if length > BLOCK {
        let half = (length / 2).next_multiple_of(BLOCK);
        if half < length {
            // SAFETY: both halves are within the whole.
            unsafe {
                let left = tree(half, a, a_step, b, b_step, product);
                let (a, b) = (a.offset(half as isize * a_step), b.offset(half as isize * b_step));
                return left.add(tree(length - half, a, a_step, b, b_step, product));
            }
        }
    }
    // SAFETY: passed on; unit steps are constants so that the loop vectorises.
    unsafe {
        if a_step == 1 && b_step == 1 {
            block(length, |at| product(a.add(at).read(), b.add(at).read()))
        } else {
            block(length, |at| {
                product(
                    a.offset(at as isize * a_step).read(),
                    b.offset(at as isize * b_step).read(),
                )
            })
        }
    }
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
        let b: Vec<i64> = (0..9000).map(|v| v * 7 % 19 - 9).collect();
        for length in [0usize, 1, 15, 16, 17, 2047, 2049, 4096, 4100] {
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
