//! Balancing before the eigenvalues of a general matrix: a permutation that isolates eigenvalues, and a diagonal scaling
//! by powers of two that makes rows and columns alike.
//!
//! Permutation and scaling after Parlett and Reinsch (Numer. Math. 13, 1969), with Euclidean norms that count the diagonal
//! as James, Langou and Lowery (arXiv:1401.5766) showed to be safe. Both are similarities and exact.

use crate::field::{Field, RealNumber, power_of_two};
use std::ops::Range;
use treadle_core::Float;

/// Sweeps of the scaling at most; two or three are usual.
const SWEEPS: usize = 30;
/// A row and column are scaled when the sum of their norms falls below this part of what it was.
const GAIN: f64 = 0.95;

/// A row or column that has its place already.
const PLACED: usize = usize::MAX;

/// Finds eigenvalues that stand alone, and returns the rows and columns that are left. `order[i]` becomes the row and column
/// of `a` that belongs at place `i`: the matrix in that order is upper triangular outside of what is left.
///
/// `order` and `entries` hold `n`; `a` is column-major.
pub(crate) fn isolate<T: Field>(
    a: &[T],
    n: usize,
    order: &mut [usize],
    entries: &mut [usize],
) -> Range<usize> {
    (0..n).for_each(|i| order[i] = i);
    // Without a zero there is nothing to isolate.
    if n > 1 && !a.contains(&T::ZERO) {
        return 0..n;
    }
    let is_entry = |i: usize, j: usize| i != j && a[i + j * n] != T::ZERO;
    entries.fill(0);
    for j in 0..n {
        (0..n).for_each(|i| entries[i] += usize::from(is_entry(i, j)));
    }
    // Rows without an entry among those that are left go to the bottom.
    let mut high = n;
    while let Some(alone) = entries.iter().rposition(|&count| count == 0) {
        high -= 1;
        order[high] = alone;
        entries[alone] = PLACED;
        for (i, count) in entries.iter_mut().enumerate() {
            if *count != PLACED && is_entry(i, alone) {
                *count -= 1;
            }
        }
    }
    // Columns without one go to the top.
    for j in 0..n {
        if entries[j] != PLACED {
            entries[j] = (0..n).filter(|&i| entries[i] != PLACED && is_entry(i, j)).count();
        }
    }
    let mut low = 0;
    while let Some(alone) = entries.iter().position(|&count| count == 0) {
        order[low] = alone;
        low += 1;
        entries[alone] = PLACED;
        for (j, count) in entries.iter_mut().enumerate() {
            if *count != PLACED && is_entry(alone, j) {
                *count -= 1;
            }
        }
    }
    let mut place = low;
    for (i, &count) in entries.iter().enumerate() {
        if count != PLACED {
            order[place] = i;
            place += 1;
        }
    }
    debug_assert_eq!(place, high);
    low..high
}

/// Copies `a` into `to` with rows and columns in the given order.
pub(crate) fn permute<T: Field>(a: &[T], n: usize, order: &[usize], to: &mut [T]) {
    for (j, &col) in order.iter().enumerate() {
        let from = &a[col * n..(col + 1) * n];
        for (x, &row) in to[j * n..(j + 1) * n].iter_mut().zip(order) {
            *x = from[row];
        }
    }
}

/// Scales the active rows and columns: entry (i, j) becomes `2^(exponents[j] - exponents[i])` times what it was.
/// `squares` holds `2 n`.
pub(crate) fn scale<T: Field>(
    a: &mut [T],
    n: usize,
    active: Range<usize>,
    exponents: &mut [i32],
    squares: &mut [f64],
) {
    exponents.fill(0);
    let (rows, cols) = squares.split_at_mut(n);
    rows.fill(0.0);
    cols.fill(0.0);
    for j in active.clone() {
        let column = &a[j * n..(j + 1) * n];
        for i in active.clone() {
            let square = column[i].modulus_squared().to_f64();
            rows[i] += square;
            cols[j] += square;
        }
    }
    let limit = T::R::EXPONENT_LIMIT / 4;
    let exponent_of = |row: f64, col: f64, so_far: i32| -> i32 {
        // A row or column of zeros, or one whose squares left the range, stays as it is.
        if !(row > 0.0 && col > 0.0) {
            return 0;
        }
        let exponent = (0.25 * (row / col).log2()).round();
        let exponent = (exponent as i32).clamp(-limit - so_far, limit - so_far);
        let factor = power_of_two(exponent);
        let (row, col) = (row.sqrt(), col.sqrt());
        if col * factor + row / factor < GAIN * (row + col) {
            exponent
        } else {
            0
        }
    };
    if active.clone().all(|i| exponent_of(rows[i], cols[i], 0) == 0) {
        return;
    }
    for _ in 0..SWEEPS {
        let mut changed = false;
        for i in active.clone() {
            let (mut row, mut col) = (0.0, 0.0);
            for j in active.clone() {
                row += a[i + j * n].modulus_squared().to_f64();
                col += a[j + i * n].modulus_squared().to_f64();
            }
            let exponent = exponent_of(row, col, exponents[i]);
            if exponent == 0 {
                continue;
            }
            changed = true;
            exponents[i] += exponent;
            let (up, down) = (
                T::R::of(power_of_two(exponent)),
                T::R::of(power_of_two(-exponent)),
            );
            for x in &mut a[i * n..(i + 1) * n] {
                *x = Float::scale(*x, up);
            }
            for j in 0..n {
                a[i + j * n] = Float::scale(a[i + j * n], down);
            }
        }
        if !changed {
            return;
        }
    }
}

/// Takes the balancing back in the rows of a vector of the balanced matrix: `to` becomes a vector of the original one.
pub(crate) fn restore<T: Field>(from: &[T], order: &[usize], exponents: &[i32], to: &mut [T]) {
    for ((&x, &row), &exponent) in from.iter().zip(order).zip(exponents) {
        to[row] = if exponent == 0 {
            x
        } else {
            Float::scale(x, T::R::of(power_of_two(exponent)))
        };
    }
}
