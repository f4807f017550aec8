//! Systems whose entries span more of the range than one power of two can bring to the middle: every row and column is
//! brought to entries of about 1 by a power of its own, and eliminated in the range of `f64`.

#![allow(clippy::needless_range_loop, reason = "one index for several arrays")]

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use crate::matrices::View;
use crate::scaling::{Scaling, exponent_above};

/// A matrix of the wide type, column-major.
struct Wide<T: Field> {
    rows: usize,
    data: Vec<T::Wide>,
}

impl<T: Field> Wide<T> {
    /// # Safety
    /// The view is readable.
    unsafe fn new(view: &View<T>) -> Result<Self, Failure> {
        let len = view.rows * view.cols;
        let mut data = Vec::new();
        data.try_reserve_exact(len).map_err(|_| Failure::OutOfMemory {
            bytes: len * size_of::<T::Wide>(),
        })?;
        for col in 0..view.cols {
            for row in 0..view.rows {
                // SAFETY: row and col are in range.
                let x = unsafe { view.at(row, col) };
                data.push(T::Wide::from_parts(x.re().to_f64(), x.im().to_f64()));
            }
        }
        Ok(Wide {
            rows: view.rows,
            data,
        })
    }

    fn at(&mut self, row: usize, col: usize) -> &mut T::Wide {
        &mut self.data[row + col * self.rows]
    }

    fn cols(&self) -> usize {
        self.data.len() / self.rows.max(1)
    }

    /// The exponent above the largest part of the entries of a row or a column; zero where all are zero.
    fn exponent(&mut self, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> i32 {
        let mut largest = 0.0f64;
        for col in cols {
            for row in rows.clone() {
                let x = *self.at(row, col);
                largest = largest.max(x.re().abs()).max(x.im().abs());
            }
        }
        if largest > 0.0 && largest.is_finite() {
            exponent_above(largest)
        } else {
            0
        }
    }

    fn scale(&mut self, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>, exponent: i32) {
        let scaling = Scaling::<f64>::by(exponent);
        for col in cols {
            for row in rows.clone() {
                *self.at(row, col) = scaling.apply(*self.at(row, col));
            }
        }
    }
}

/// The solution of `a x = b`, handed to `store(row, col, x)`.
///
/// # Safety
/// Both are readable; `a` is square with as many rows as `b`.
pub(crate) unsafe fn solve_scaled<T: Field>(
    a: &View<T>,
    b: &View<T>,
    mut store: impl FnMut(usize, usize, T),
) -> Result<(), Failure> {
    let (n, cols) = (a.rows, b.cols);
    // SAFETY: passed on.
    let (mut a, mut b) = unsafe { (Wide::new(a)?, Wide::new(b)?) };
    for row in 0..n {
        let exponent = a.exponent(row..row + 1, 0..n);
        a.scale(row..row + 1, 0..n, -exponent);
        b.scale(row..row + 1, 0..cols, -exponent);
    }
    let mut exponents = vec![0; n];
    for (col, exponent) in exponents.iter_mut().enumerate() {
        *exponent = a.exponent(0..n, col..col + 1);
        a.scale(0..n, col..col + 1, -*exponent);
    }
    let heights: Vec<i32> = (0..cols)
        .map(|col| {
            let exponent = b.exponent(0..n, col..col + 1);
            b.scale(0..n, col..col + 1, -exponent);
            exponent
        })
        .collect();
    eliminate(&mut a, &mut b)?;
    for col in 0..cols {
        for row in 0..n {
            let x = Scaling::<f64>::by(heights[col] - exponents[row]).apply(*b.at(row, col));
            store(row, col, T::from_parts(T::R::of(x.re()), T::R::of(x.im())));
        }
    }
    debug_assert!(b.cols() == cols || n == 0);
    Ok(())
}

/// Plain elimination with partial pivoting and divisions: `b` becomes the solution.
fn eliminate<T: Field>(a: &mut Wide<T>, b: &mut Wide<T>) -> Result<(), Failure> {
    let (n, cols) = (a.rows, b.cols());
    let zero = <T::Wide as treadle_core::Element>::ZERO;
    for k in 0..n {
        let mut pivot = k;
        let mut largest = -1.0;
        for i in k..n {
            let size = a.at(i, k).size();
            if size > largest {
                largest = size;
                pivot = i;
            }
        }
        let head = *a.at(pivot, k);
        if head == zero {
            return Err(Failure::Singular);
        }
        if pivot != k {
            (0..n).for_each(|j| a.data.swap(k + j * n, pivot + j * n));
            (0..cols).for_each(|j| b.data.swap(k + j * n, pivot + j * n));
        }
        for i in k + 1..n {
            let factor = a.at(i, k).quotient(head);
            *a.at(i, k) = factor;
        }
        for j in k + 1..n {
            let x = *a.at(k, j);
            if x != zero {
                for i in k + 1..n {
                    let step = *a.at(i, k) * x;
                    *a.at(i, j) -= step;
                }
            }
        }
        for j in 0..cols {
            let x = *b.at(k, j);
            if x != zero {
                for i in k + 1..n {
                    let step = *a.at(i, k) * x;
                    *b.at(i, j) -= step;
                }
            }
        }
    }
    for j in 0..cols {
        for k in (0..n).rev() {
            let x = b.at(k, j).quotient(*a.at(k, k));
            *b.at(k, j) = x;
            if x != zero {
                for i in 0..k {
                    let step = *a.at(i, k) * x;
                    *b.at(i, j) -= step;
                }
            }
        }
    }
    Ok(())
}
