//! A vector times a matrix whose rows are contiguous, summed in a fixed tree.
//!
//! Adding one row after the other is one running sum a column, whose error grows with the number of rows; here
//! blocks of rows are summed and the blocks joined in pairs, as in numpy's pairwise sums.

use crate::Isa;
use treadle_core::Element;

/// Columns that are summed side by side.
pub const COLUMNS: usize = 64;
/// Rows before the tree joins blocks in pairs.
const BLOCK: usize = 256;
/// Levels of the tree; the last one takes what more there is.
const LEVELS: usize = 20;

/// `out[j] = sum(x[k] * rows[k, j])` for `columns <= COLUMNS` contiguous columns; the rest of `out` is untouched.
///
/// # Safety
/// `x` is readable at `terms` steps of `x_step`, `rows` at `columns` elements from each of `terms` steps of `row_step`;
/// the machine has the instruction set.
pub unsafe fn combine_rows<T: Element>(
    isa: Isa,
    terms: usize,
    columns: usize,
    x: *const T,
    x_step: isize,
    rows: *const T,
    row_step: isize,
    conj: [bool; 2],
    out: &mut [T; COLUMNS],
) {
    debug_assert!(columns <= COLUMNS, "a block of columns");
    let block = |first: usize, sums: &mut [T; COLUMNS]| {
        let count = BLOCK.min(terms - first);
        // SAFETY: rows of the whole; the wrappers only compile the same loop for wider registers.
        unsafe {
            let x = x.offset(first as isize * x_step);
            let rows = rows.offset(first as isize * row_step);
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => sum_avx512(count, columns, x, x_step, rows, row_step, conj, sums),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => sum_avx2(count, columns, x, x_step, rows, row_step, conj, sums),
                _ => sum(count, columns, x, x_step, rows, row_step, conj, sums),
            }
        }
    };
    let mut sums = [T::ZERO; COLUMNS];
    if terms > BLOCK {
        // Blocks are joined in pairs: where the count of blocks has a one, the sums of so many blocks wait.
        let mut waiting = [[T::ZERO; COLUMNS]; LEVELS];
        let mut count = 0usize;
        for first in (0..terms).step_by(BLOCK) {
            block(first, &mut sums);
            let level = (count.trailing_ones() as usize).min(LEVELS - 1);
            for earlier in &waiting[..level] {
                join(earlier, &mut sums);
            }
            if level == LEVELS - 1 && count >> level > 0 {
                join(&waiting[level], &mut sums);
            }
            waiting[level] = sums;
            count += 1;
        }
        let mut rest = (0..LEVELS)
            .filter(|&level| count >> level & 1 == 1 || (level == LEVELS - 1 && count >> level > 0));
        sums = rest.next().map_or([T::ZERO; COLUMNS], |level| waiting[level]);
        rest.for_each(|level| join(&waiting[level], &mut sums));
    } else {
        block(0, &mut sums);
    }
    out[..columns].copy_from_slice(&sums[..columns]);
}

/// Adds the sums of earlier blocks to those of later ones.
fn join<T: Element>(earlier: &[T; COLUMNS], sums: &mut [T; COLUMNS]) {
    for (sum, earlier) in sums.iter_mut().zip(earlier) {
        *sum = earlier.add(*sum);
    }
}

macro_rules! wider {
    ($name:ident, $features:literal) => {
        /// # Safety
        /// As `sum`, on a machine with the features.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<T: Element>(
            terms: usize,
            columns: usize,
            x: *const T,
            x_step: isize,
            rows: *const T,
            row_step: isize,
            conj: [bool; 2],
            sums: &mut [T; COLUMNS],
        ) {
            // SAFETY: passed on.
            unsafe { sum(terms, columns, x, x_step, rows, row_step, conj, sums) };
        }
    };
}
wider!(sum_avx512, "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma");
wider!(sum_avx2, "avx2,fma");

/// One block, row after row.
///
/// # Safety
/// As `combine_rows`.
#[inline(always)]
unsafe fn sum<T: Element>(
    terms: usize,
    columns: usize,
    x: *const T,
    x_step: isize,
    rows: *const T,
    row_step: isize,
    conj: [bool; 2],
    out: &mut [T; COLUMNS],
) {
    let mut sums = [T::ZERO; COLUMNS];
    for k in 0..terms as isize {
        // SAFETY: within the rows and the vector, by the caller's word.
        unsafe {
            let factor = x.offset(k * x_step).read();
            let factor = if conj[0] { factor.conj() } else { factor };
            let row = rows.offset(k * row_step);
            if columns == COLUMNS && !conj[1] {
                // The common case with a constant length, so that the sums stay in registers.
                for (j, sum) in sums.iter_mut().enumerate() {
                    *sum = sum.add(factor.mul(row.add(j).read()));
                }
            } else {
                for (j, sum) in sums.iter_mut().enumerate().take(columns) {
                    let value = row.add(j).read();
                    *sum = sum.add(factor.mul(if conj[1] { value.conj() } else { value }));
                }
            }
        }
    }
    *out = sums;
}

#[cfg(test)]
mod tests {
    use super::*;
    use treadle_core::{Complex64, DType};

    #[test]
    fn exact_at_every_length_and_width() {
        assert_eq!(<i64 as Element>::DTYPE, DType::I64);
        for terms in [0usize, 1, 255, 256, 257, 600, 1025] {
            for columns in [1usize, 3, 63, 64] {
                let x: Vec<i64> = (0..terms as i64).map(|v| v % 7 - 3).collect();
                let rows: Vec<i64> = (0..(terms * 70) as i64).map(|v| v % 11 - 5).collect();
                let mut out = [99; COLUMNS];
                // SAFETY: rows of 70 hold 64 columns.
                unsafe {
                    combine_rows(
                        Isa::detect(),
                        terms,
                        columns,
                        x.as_ptr(),
                        1,
                        rows.as_ptr(),
                        70,
                        [false; 2],
                        &mut out,
                    )
                };
                for (j, &sum) in out.iter().enumerate() {
                    let expected = if j < columns {
                        (0..terms).map(|k| x[k] * rows[70 * k + j]).sum()
                    } else {
                        99
                    };
                    assert_eq!(sum, expected, "{terms} terms, {columns} columns, column {j}");
                }
            }
        }
    }

    #[test]
    fn many_equal_terms_lose_nothing() {
        let x = vec![1.0f32; 2_000_000];
        let rows = vec![0.1f32; 2_000_000];
        let mut out = [0.0; COLUMNS];
        // SAFETY: one column, and steps of one.
        unsafe {
            combine_rows(
                Isa::detect(),
                x.len(),
                1,
                x.as_ptr(),
                1,
                rows.as_ptr(),
                1,
                [false; 2],
                &mut out,
            )
        };
        let error = (f64::from(out[0]) - 2.0e6 * f64::from(0.1f32)).abs() / 2.0e5;
        // A block of 256 terms and a tree of 13 levels: at most 270 roundings of half an ulp.
        assert!(
            error < 270.0 * f64::from(f32::EPSILON) / 2.0,
            "relative error {error}"
        );
    }

    #[test]
    fn each_side_is_conjugated_alone() {
        let (x, rows) = ([Complex64::new(1.0, 2.0)], [Complex64::new(3.0, -5.0); COLUMNS]);
        for conj in [[false, false], [true, false], [false, true], [true, true]] {
            let a = if conj[0] { x[0].conj() } else { x[0] };
            let b = if conj[1] { rows[0].conj() } else { rows[0] };
            let mut out = [Complex64::new(0.0, 0.0); COLUMNS];
            // SAFETY: one row of all columns.
            unsafe {
                combine_rows(
                    Isa::detect(),
                    1,
                    COLUMNS,
                    x.as_ptr(),
                    1,
                    rows.as_ptr(),
                    0,
                    conj,
                    &mut out,
                )
            };
            assert_eq!(out, [a * b; COLUMNS]);
        }
    }
}
