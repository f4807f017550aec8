//! Blocked loops without intrinsics, for every element type: integers, `bool`, and any type under `isa="scalar"`.

use crate::{Isa, Product};
use std::mem::MaybeUninit;
use treadle_core::Element;

/// Columns of a block; its sums stay in registers and the L1 cache. Narrow results take narrow blocks.
const COLUMNS: usize = 64;
const NARROW: usize = 16;
/// Terms of a block; `DEPTH * COLUMNS` elements of `b` are packed on the stack.
const DEPTH: usize = 128;
/// Rows that share one read of `b`.
const ROWS: usize = 4;

/// `c = alpha * a * b + beta * c`.
///
/// # Safety
/// `a` and `b` are readable and `c` writeable at every offset of the product; `c` overlaps neither, and need not be
/// initialised when `beta` is zero. `isa` is available on this machine.
pub unsafe fn multiply<T: Element>(
    isa: Isa,
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    // SAFETY: passed on; the wrappers only compile the same loops for wider registers.
    unsafe {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => multiply_avx512(product, a, b, c, alpha, beta),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => multiply_avx2(product, a, b, c, alpha, beta),
            _ => choose(product, a, b, c, alpha, beta),
        }
    }
}

/// # Safety
/// As `multiply`, on a machine with AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn multiply_avx2<T: Element>(
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    // SAFETY: passed on.
    unsafe { choose(product, a, b, c, alpha, beta) };
}

/// # Safety
/// As `multiply`, on a machine with AVX-512.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2")]
unsafe fn multiply_avx512<T: Element>(
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    // SAFETY: passed on.
    unsafe { choose(product, a, b, c, alpha, beta) };
}

/// # Safety
/// As `multiply`.
#[inline(always)]
unsafe fn choose<T: Element>(product: &Product, a: *const T, b: *const T, c: *mut T, alpha: T, beta: T) {
    // SAFETY: passed on.
    unsafe {
        if product.n <= 2 * NARROW {
            blocks::<T, NARROW>(product, a, b, c, alpha, beta);
        } else {
            blocks::<T, COLUMNS>(product, a, b, c, alpha, beta);
        }
    }
}

/// # Safety
/// As `multiply`.
#[inline(always)]
unsafe fn blocks<T: Element, const COLUMNS: usize>(
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    let Product { m, n, k, .. } = *product;
    let left = |value: T| if product.a.conj { value.conj() } else { value };
    let right = |value: T| if product.b.conj { value.conj() } else { value };
    let mut packed = [const { MaybeUninit::<[T; COLUMNS]>::uninit() }; DEPTH];
    for column in (0..n).step_by(COLUMNS) {
        let width = COLUMNS.min(n - column);
        let mut term = 0;
        loop {
            let depth = DEPTH.min(k - term);
            // SAFETY: offsets of the product.
            let b = unsafe { b.offset(term as isize * product.b.row + column as isize * product.b.column) };
            for (p, line) in packed.iter_mut().enumerate().take(depth) {
                let line = line.write([T::ZERO; COLUMNS]);
                for (j, place) in line.iter_mut().enumerate().take(width) {
                    // SAFETY: an offset of the product.
                    *place = right(unsafe {
                        b.offset(p as isize * product.b.row + j as isize * product.b.column)
                            .read()
                    });
                }
            }
            // Later blocks of terms add to what the first one wrote.
            let beta = if term == 0 { beta } else { T::ONE };
            for row in (0..m).step_by(ROWS) {
                let rows = ROWS.min(m - row);
                let mut sums = [[T::ZERO; COLUMNS]; ROWS];
                for (p, line) in packed.iter().enumerate().take(depth) {
                    // SAFETY: the first `depth` lines were written above.
                    let line = unsafe { line.assume_init_ref() };
                    for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                        // SAFETY: an offset of the product.
                        let x = unsafe {
                            a.offset(
                                (row + r) as isize * product.a.row + (term + p) as isize * product.a.column,
                            )
                            .read()
                        };
                        let x = left(x);
                        for (sum, &y) in sums.iter_mut().zip(line) {
                            *sum = sum.add(x.mul(y));
                        }
                    }
                }
                for (r, sums) in sums.iter().enumerate().take(rows) {
                    for (j, &sum) in sums.iter().enumerate().take(width) {
                        let value = if alpha == T::ONE { sum } else { alpha.mul(sum) };
                        // SAFETY: an offset of the product, read only when `beta` says that it holds a value.
                        unsafe {
                            let place = c.offset(
                                (row + r) as isize * product.c.row + (column + j) as isize * product.c.column,
                            );
                            place.write(if beta == T::ZERO {
                                value
                            } else {
                                value.add(beta.mul(place.read()))
                            });
                        }
                    }
                }
            }
            term += depth;
            if term >= k {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;

    #[test]
    fn exact_at_edges_for_every_instruction_set() {
        for &isa in Isa::ALL.iter().filter(|isa| isa.is_available()) {
            for (m, n, k) in [(1, 1, 1), (3, 65, 129), (5, 64, 128), (4, 63, 300), (7, 130, 0)] {
                let a: Vec<i32> = (0..m * k).map(|v| v as i32 * 7919).collect();
                let b: Vec<i32> = (0..k * n).map(|v| v as i32 * 104_729).collect();
                let before: Vec<i32> = (0..m * n).map(|v| v as i32).collect();
                let product = Product {
                    m,
                    n,
                    k,
                    a: Matrix::new(1, m as isize),
                    b: Matrix::new(n as isize, 1),
                    c: Matrix::new(1, m as isize),
                };
                let mut c = before.clone();
                // SAFETY: the vectors hold every offset.
                unsafe { multiply(isa, &product, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), 3, 5) };
                for i in 0..m {
                    for j in 0..n {
                        let mut sum = 0i32;
                        for p in 0..k {
                            sum = sum.wrapping_add(a[i + p * m].wrapping_mul(b[p * n + j]));
                        }
                        let expected = sum.wrapping_mul(3).wrapping_add(5 * before[i + j * m]);
                        assert_eq!(c[i + j * m], expected, "{isa} {m} {n} {k}");
                    }
                }
            }
        }
    }
}
