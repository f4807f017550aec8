//! Products whose factors the micro-kernel reads where they stand: small ones, for which packing costs more than it
//! saves.

use crate::packed::Arrays;
use std::ops::Range;
use treadle_core::DType;
use treadle_kernels::{Caches, Factor, Kernel, Product, Tile};

/// Terms that a running sum may have.
const TERMS: usize = 512;
/// Columns so few, in tiles, that no panel of rows would be read often enough.
const NARROW: usize = 2;
/// Steps of this many bytes meet in one set of a first-level cache, of which few ways are left for more.
const PAGE: usize = 4096;
const WAYS: usize = 16;
/// Multiplications from which panels serve `bool` better.
const BOOL: f64 = 2.0e6;
/// Multiplications under one claim, about.
const CLAIM: f64 = 3.0e5;
/// Rows of the widest kernel.
const MOST: usize = 128;

/// Offsets of rows that stand next to each other.
static NEIGHBOURS: [isize; MOST] = {
    let mut offsets = [0; MOST];
    let mut at = 0;
    while at < MOST {
        offsets[at] = at as isize;
        at += 1;
    }
    offsets
};

/// One product over single axes, decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    kernel: &'static Kernel,
    product: Product,
    /// The result fits no near cache.
    far: bool,
    /// Tiles of rows and of columns under one claim.
    claim: (usize, usize),
}

impl Direct {
    /// `None` when it should be packed.
    pub(crate) fn new(kernel: &'static Kernel, product: Product) -> Option<Direct> {
        let Product { m, n, k, .. } = product;
        if (kernel.dtype == DType::Bool && product.multiplications() > BOOL)
            || (product.a.row != 1 && m > 1)
            || k > TERMS
            || kernel.mr > MOST
        {
            return None;
        }
        let size = kernel.dtype.size();
        let (rows, columns) = (m.div_ceil(kernel.mr), n.div_ceil(kernel.nr));
        // Panels that are read once or twice need no copy, wherever they stand.
        if columns > NARROW {
            let fits = m.saturating_mul(k).saturating_mul(size) <= Caches::detect().l2 / 4 * 3;
            let gathers = product.b.row.unsigned_abs().min(product.b.column.unsigned_abs()) > 1 && k > 1;
            let collides = |step: isize, count: usize, width: usize| {
                let step = step.unsigned_abs() * size;
                step.is_multiple_of(PAGE) && count > WAYS && width * size < step / 2
            };
            let right_step = if product.b.row == 1 {
                product.b.column
            } else {
                product.b.row
            };
            let right_count = if product.b.row == 1 { kernel.nr } else { k };
            if !fits
                || (gathers && rows > NARROW)
                || collides(product.a.column, k, m)
                || (rows > NARROW && collides(right_step, right_count, 0))
            {
                return None;
            }
        }
        let wanted = (product.multiplications() / CLAIM) as usize;
        let (mut height, mut width) = (rows, columns);
        while rows.div_ceil(height) * columns.div_ceil(width) < wanted && height * width > 1 {
            // All rows stay in the second-level cache, so columns are divided first.
            if width > NARROW || height == 1 {
                width = width.div_ceil(2);
            } else {
                height = height.div_ceil(2);
            }
        }
        Some(Direct {
            kernel,
            product,
            far: m.saturating_mul(n).saturating_mul(size) > Caches::detect().l2,
            claim: (height, width),
        })
    }

    pub(crate) fn kernel(&self) -> &'static Kernel {
        self.kernel
    }

    fn grid(&self) -> (usize, usize) {
        let rows = self.product.m.div_ceil(self.kernel.mr);
        let columns = self.product.n.div_ceil(self.kernel.nr);
        (rows.div_ceil(self.claim.0), columns.div_ceil(self.claim.1))
    }

    /// Pieces that may be computed at once.
    pub(crate) fn pieces(&self) -> usize {
        let (rows, columns) = self.grid();
        rows * columns
    }

    /// One piece of `c = alpha * a * b + beta * c`.
    ///
    /// # Safety
    /// The arrays are readable, and the result writeable, at every offset of the product, as elements of the kernel's
    /// dtype; the result overlaps neither factor, and holds values unless the mode is `Zero`. Nobody else computes the
    /// piece. The machine has the kernel's instruction set.
    pub(crate) unsafe fn piece(&self, piece: usize, arrays: &Arrays) {
        let (rows, _) = self.grid();
        let (i, j) = (piece % rows * self.claim.0, piece / rows * self.claim.1);
        let height = self.product.m.div_ceil(self.kernel.mr).min(i + self.claim.0);
        let width = self.product.n.div_ceil(self.kernel.nr).min(j + self.claim.1);
        // SAFETY: passed on.
        unsafe { self.tiles(i..height, j..width, arrays) };
    }

    /// # Safety
    /// As `piece`.
    unsafe fn tiles(&self, left: Range<usize>, right: Range<usize>, arrays: &Arrays) {
        let (kernel, product) = (self.kernel, &self.product);
        let (mr, nr, size) = (kernel.mr, kernel.nr, kernel.dtype.size() as isize);
        let unit = product.c.row == 1 || product.m == 1;
        let mut scattered = [0isize; MOST];
        let mut columns = [0isize; 16];
        for j in right {
            let width = nr.min(product.n - j * nr);
            for (at, column) in columns.iter_mut().enumerate().take(width) {
                *column = (j * nr + at) as isize * product.c.column;
            }
            for i in left.clone() {
                let height = mr.min(product.m - i * mr);
                let first = (i * mr) as isize;
                if !unit {
                    for (at, row) in scattered.iter_mut().enumerate().take(height) {
                        *row = at as isize * product.c.row;
                    }
                }
                let rows = if unit { &NEIGHBOURS } else { &scattered };
                // SAFETY: offsets of the product; the caller vouches for its arrays.
                unsafe {
                    kernel.direct(&Tile {
                        k: product.k,
                        a: Factor {
                            at: arrays.a.offset(first * product.a.row * size),
                            term: product.a.column,
                            column: 0,
                            conj: product.a.conj,
                        },
                        b: Factor {
                            at: arrays.b.offset((j * nr) as isize * product.b.column * size),
                            term: product.b.row,
                            column: product.b.column,
                            conj: product.b.conj,
                        },
                        c: arrays.c.offset(first * product.c.row * size),
                        rows: &rows[..height],
                        unit,
                        far: self.far,
                        columns: &columns[..width],
                        alpha: arrays.alpha,
                        mode: arrays.mode,
                        beta: arrays.beta,
                    });
                }
            }
        }
    }
}
