//! Inner products and products of a matrix and a vector: bound by memory, so that each element is read once and nothing
//! is packed.

use crate::packed::Arrays;
use treadle_core::Element;
use treadle_kernels::{Beta, COLUMNS, Kernel, Product, TOGETHER, Update, combine_rows, dot_rows};

/// Elements of the matrix under one claim, about.
const CLAIM: usize = 1 << 16;
/// Terms from which a column-major matrix is read in long pieces of columns instead of tiles.
const LONG: usize = 16;
/// Rows of a column-major matrix that are summed side by side: a page of doubles.
const WIDE: usize = 512;
/// Terms of a running sum before blocks are joined in pairs.
const BLOCK: usize = 256;
/// Levels of that tree; the last one takes what more there is.
const LEVELS: usize = 20;

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
    kernel: &'static Kernel,
    /// Rows under one claim.
    claim: usize,
}

impl MatVec {
    /// `None` when it is no product of a matrix and a vector, or one that tiles serve better.
    pub(crate) fn new(kernel: &'static Kernel, product: Product) -> Option<MatVec> {
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
            Reading::Rows => TOGETHER,
            Reading::Columns => WIDE,
        };
        Some(MatVec {
            product,
            reading,
            kernel,
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
            let beta = match arrays.mode {
                Beta::Zero => T::ZERO,
                Beta::One => T::ONE,
                Beta::Other => arrays.beta.cast::<T>().read(),
            };
            let update = Update::new(arrays.alpha.cast::<T>().read(), beta);
            let put = |row: usize, sum: T| update.put(c.offset(row as isize * product.c.row), sum);
            let real = self.kernel.has_vector_kernels();
            match self.reading {
                Reading::Rows if real && product.a.column == 1 && (product.b.row == 1 || product.k == 1) => {
                    for first in (0..rows).step_by(TOGETHER) {
                        let count = TOGETHER.min(rows - first);
                        let mut sums = [T::ZERO; TOGETHER];
                        let from: [*const u8; TOGETHER] = std::array::from_fn(|at| {
                            let row = first + at.min(count - 1);
                            a.offset(row as isize * product.a.row).cast()
                        });
                        self.kernel
                            .inner(product.k, &from[..count], x.cast(), sums.as_mut_ptr().cast());
                        for (at, &sum) in sums.iter().enumerate().take(count) {
                            put(first + at, sum);
                        }
                    }
                }
                Reading::Columns if real => {
                    let mut sums = [T::ZERO; WIDE];
                    for first in (0..rows).step_by(WIDE) {
                        let width = WIDE.min(rows - first);
                        self.columns(width, x, a.add(first), &mut sums);
                        for (at, &sum) in sums.iter().enumerate().take(width) {
                            put(first + at, sum);
                        }
                    }
                }
                Reading::Rows => {
                    dot_rows(
                        self.kernel.isa,
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
                            self.kernel.isa,
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

    /// The sums of a block of rows, blocks of terms joined in pairs.
    ///
    /// # Safety
    /// As `piece`, for `width` rows from `a` on.
    unsafe fn columns<T: Element>(&self, width: usize, x: *const T, a: *const T, sums: &mut [T; WIDE]) {
        let product = &self.product;
        let block = |first: usize, sums: &mut [T; WIDE]| {
            sums.fill(T::ZERO);
            // SAFETY: terms of the product.
            unsafe {
                self.kernel.add_rows(
                    BLOCK.min(product.k - first),
                    width,
                    x.offset(first as isize * product.b.row).cast(),
                    product.b.row,
                    a.offset(first as isize * product.a.column).cast(),
                    product.a.column,
                    sums.as_mut_ptr().cast(),
                );
            }
        };
        if product.k <= BLOCK {
            block(0, sums);
            return;
        }
        let join = |earlier: &[T; WIDE], sums: &mut [T; WIDE]| {
            for (sum, earlier) in sums.iter_mut().zip(earlier).take(width) {
                *sum = earlier.add(*sum);
            }
        };
        let mut waiting = [[T::ZERO; WIDE]; LEVELS];
        let mut count = 0usize;
        for first in (0..product.k).step_by(BLOCK) {
            block(first, sums);
            let level = (count.trailing_ones() as usize).min(LEVELS - 1);
            for earlier in &waiting[..level] {
                join(earlier, sums);
            }
            if level == LEVELS - 1 && count >> level > 0 {
                join(&waiting[level], sums);
            }
            waiting[level] = *sums;
            count += 1;
        }
        let held = |level: &usize| count >> level & 1 == 1 || (*level == LEVELS - 1 && count >> level > 0);
        let mut rest = (0..LEVELS).filter(held);
        if let Some(level) = rest.next() {
            *sums = waiting[level];
        }
        rest.for_each(|level| join(&waiting[level], sums));
    }
}
