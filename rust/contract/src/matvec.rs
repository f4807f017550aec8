//! Inner products and products of a matrix and a vector: bound by memory, so that each element is read once and nothing
//! is packed.

use crate::packed::Arrays;
use treadle_core::Element;
use treadle_kernels::{Beta, COLUMNS, Isa, Product, combine_rows, dot_rows};

/// Elements of the matrix under one claim, about.
const CLAIM: usize = 1 << 16;
/// Terms from which a column-major matrix is read in long pieces of columns instead of tiles.
const LONG: usize = 16;

/// How the matrix lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// Row by row, an inner product each.
    Rows,
    /// Column by column, each added to a block of the result.
    Columns,
}

/// A product with one column, decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatVec {
    product: Product,
    reading: Reading,
    isa: Isa,
    /// Rows under one claim.
    claim: usize,
}

impl MatVec {
    /// `None` when it is no product of a matrix and a vector, or one that tiles serve better.
    pub(crate) fn new(isa: Isa, product: Product) -> Option<MatVec> {
        let Product { m, n, k, .. } = product;
        if n != 1 {
            return None;
        }
        let reading = if m == 1 || product.a.column.unsigned_abs() <= product.a.row.unsigned_abs() {
            Reading::Rows
        } else if product.a.row == 1 && k >= LONG {
            Reading::Columns
        } else if product.a.row == 1 {
            return None;
        } else {
            Reading::Rows
        };
        let unit = match reading {
            Reading::Rows => 4,
            Reading::Columns => COLUMNS,
        };
        Some(MatVec {
            product,
            reading,
            isa,
            claim: (CLAIM / k.max(1)).max(1).next_multiple_of(unit),
        })
    }

    /// Pieces that may be computed at once.
    pub(crate) fn pieces(&self) -> usize {
        self.product.m.div_ceil(self.claim)
    }

    /// One piece of `c = alpha * a * b + beta * c`.
    ///
    /// # Safety
    /// As `Direct::piece`, with elements of `T`.
    pub(crate) unsafe fn piece<T: Element>(&self, piece: usize, arrays: &Arrays) {
        let product = &self.product;
        let first = piece * self.claim;
        let rows = self.claim.min(product.m - first);
        let conj = [product.a.conj, product.b.conj];
        // SAFETY: rows of the product; the caller vouches for its arrays.
        unsafe {
            let a = arrays.a.cast::<T>().offset(first as isize * product.a.row);
            let x = arrays.b.cast::<T>();
            let c = arrays.c.cast::<T>().offset(first as isize * product.c.row);
            let (alpha, beta) = (
                arrays.alpha.cast::<T>().read(),
                match arrays.mode {
                    Beta::Zero => T::ZERO,
                    Beta::One => T::ONE,
                    Beta::Other => arrays.beta.cast::<T>().read(),
                },
            );
            let put = |row: usize, sum: T| {
                let to = c.offset(row as isize * product.c.row);
                let sum = if alpha == T::ONE { sum } else { alpha.mul(sum) };
                to.write(match arrays.mode {
                    Beta::Zero => sum,
                    _ => sum.add(beta.mul(to.read())),
                });
            };
            match self.reading {
                Reading::Rows => {
                    dot_rows(
                        self.isa,
                        [rows, product.k],
                        a,
                        [product.a.row, product.a.column],
                        x,
                        product.b.row,
                        conj,
                        put,
                    );
                }
                Reading::Columns => {
                    let mut sums = [T::ZERO; COLUMNS];
                    for from in (0..rows).step_by(COLUMNS) {
                        let width = COLUMNS.min(rows - from);
                        combine_rows(
                            self.isa,
                            product.k,
                            width,
                            x,
                            product.b.row,
                            a.add(from),
                            product.a.column,
                            [conj[1], conj[0]],
                            &mut sums,
                        );
                        for (at, &sum) in sums.iter().enumerate().take(width) {
                            put(from + at, sum);
                        }
                    }
                }
            }
        }
    }
}
