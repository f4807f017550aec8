//! Batched matrix products, cut into tiles that depend on the problem alone.

use crate::policy::{self, BatchPolicy};
use std::sync::atomic::{AtomicBool, Ordering};
use treadle_core::{Bool, Complex32, Complex64, DType, Element, Error, Result};
use treadle_kernels::{COLUMNS, Isa, Matrix, Product, combine_rows, dot_conj, plain, small};
use treadle_strided::Nest;
use treadle_team::{Interrupted, Token};

/// An element type that matrix products are computed with.
pub(crate) trait MatrixElement: Element {
    /// `c = alpha * a * b + beta * c`, sequential.
    ///
    /// # Safety
    /// `a` and `b` are readable and `c` writeable at every offset of the product; `c` overlaps neither, and need not
    /// be initialised when `beta` is zero.
    unsafe fn product(
        isa: Isa,
        product: &Product,
        a: *const Self,
        b: *const Self,
        c: *mut Self,
        alpha: Self,
        beta: Self,
    );
}

macro_rules! plain_elements {
    ($($t:ty),*) => {$(
        impl MatrixElement for $t {
            unsafe fn product(
                isa: Isa,
                product: &Product,
                a: *const Self,
                b: *const Self,
                c: *mut Self,
                alpha: Self,
                beta: Self,
            ) {
                // SAFETY: passed on.
                unsafe { plain::multiply(isa, product, a, b, c, alpha, beta) };
            }
        }
    )*};
}
plain_elements!(Bool, u8, i8, u16, i16, u32, i32, u64, i64);

macro_rules! float_elements {
    ($($t:ty),*) => {$(
        impl MatrixElement for $t {
            unsafe fn product(
                isa: Isa,
                product: &Product,
                a: *const Self,
                b: *const Self,
                c: *mut Self,
                alpha: Self,
                beta: Self,
            ) {
                // SAFETY: passed on.
                unsafe {
                    if product.m == 1 && product.n == 1 {
                        inner(product, a, b, c, alpha, beta);
                    } else if let Some((product, x, rows)) = tall(product, a, b) {
                        combination(&product, x, rows, c, alpha, beta);
                    } else if isa == Isa::Scalar {
                        plain::multiply(isa, product, a, b, c, alpha, beta);
                    } else {
                        library::<$t>(product, a, b, c, alpha, beta);
                    }
                }
            }
        }
    )*};
}
float_elements!(f32, f64, Complex32, Complex64);

/// One inner product.
///
/// # Safety
/// As `MatrixElement::product`, with one row and one column.
unsafe fn inner<T: Element>(product: &Product, a: *const T, b: *const T, c: *mut T, alpha: T, beta: T) {
    // SAFETY: the row of `a` and the column of `b` are readable, `c` is one element, read only when it holds a value.
    unsafe {
        let conj = [product.a.conj, product.b.conj];
        let sum = dot_conj(product.k, a, product.a.column, b, product.b.row, conj);
        let sum = if alpha == T::ONE { sum } else { alpha.mul(sum) };
        c.write(if beta == T::ZERO {
            sum
        } else {
            sum.add(beta.mul(c.read()))
        });
    }
}

/// More terms than this in one running sum would cost accuracy.
const RUNNING_SUM: usize = 512;

/// A long row times a matrix of contiguous rows, or the transpose of that as one.
fn tall<T>(product: &Product, a: *const T, b: *const T) -> Option<(Product, *const T, *const T)> {
    if product.k <= RUNNING_SUM {
        None
    } else if product.m == 1 && product.b.column == 1 {
        Some((*product, a, b))
    } else if product.n == 1 && product.a.row == 1 {
        Some((product.transposed(), b, a))
    } else {
        None
    }
}

/// One row times a matrix of contiguous rows.
///
/// # Safety
/// As `MatrixElement::product`, with one row and `b.column` of one.
unsafe fn combination<T: Element>(
    product: &Product,
    x: *const T,
    rows: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    let conj = [product.a.conj, product.b.conj];
    let mut sums = [T::ZERO; COLUMNS];
    for first in (0..product.n).step_by(COLUMNS) {
        let columns = COLUMNS.min(product.n - first);
        // SAFETY: these columns of the matrix and of the result, which is read only when it holds values.
        unsafe {
            let rows = rows.add(first);
            combine_rows(
                product.k,
                columns,
                x,
                product.a.column,
                rows,
                product.b.row,
                conj,
                &mut sums,
            );
            for (j, &sum) in sums.iter().enumerate().take(columns) {
                let target = c.offset((first + j) as isize * product.c.column);
                let sum = if alpha == T::ONE { sum } else { alpha.mul(sum) };
                target.write(if beta == T::ZERO {
                    sum
                } else {
                    sum.add(beta.mul(target.read()))
                });
            }
        }
    }
}

/// One sequential call into faer.
///
/// # Safety
/// As `MatrixElement::product`.
unsafe fn library<T: Element + faer::traits::ComplexField>(
    product: &Product,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
) {
    use faer::linalg::matmul::matmul_with_conj;
    use faer::{Accum, Conj, MatMut, MatRef, Par};
    let Product { m, n, k, .. } = *product;
    let conj = |matrix: Matrix| if matrix.conj { Conj::Yes } else { Conj::No };
    // SAFETY: extents and strides describe readable operands and a writeable result without overlap.
    let (left, right, mut result) = unsafe {
        (
            MatRef::from_raw_parts(a, m, k, product.a.row, product.a.column),
            MatRef::from_raw_parts(b, k, n, product.b.row, product.b.column),
            MatMut::from_raw_parts_mut(c, m, n, product.c.row, product.c.column),
        )
    };
    let accumulate = if beta == <T as Element>::ZERO {
        Accum::Replace
    } else {
        if beta != <T as Element>::ONE {
            let nest = Nest::new([(m, [product.c.row]), (n, [product.c.column])]);
            // SAFETY: the result's own elements, which hold values because `beta` is not zero.
            unsafe { treadle_strided::scale(&nest, c, beta) };
        }
        Accum::Add
    };
    matmul_with_conj(
        result.as_mut(),
        accumulate,
        left,
        conj(product.a),
        right,
        conj(product.b),
        alpha,
        Par::Seq,
    );
}

/// Rows and columns of one tile. The grid depends on the extents alone, never on the width, so that the bits of a
/// result do not either.
///
/// The number of tiles is a power of two, so that two, four and eight threads end together. Each tile packs its own
/// operands: 128 x 256 to 256 x 256 cost one to two percent against one call for the whole at 256 to 1024 (AVX-512),
/// and up to seven from 1024 on, where the panels of a tile leave the caches; so large products have larger tiles.
fn tile(m: usize, n: usize, k: usize) -> (usize, usize) {
    /// Below this many multiplications a product is one tile.
    const WHOLE: f64 = 2.0e6;
    /// From here on there are at least eight.
    const EIGHT: f64 = 2.0 * 256.0 * 256.0 * 256.0;
    /// From here on there are at least sixteen.
    const SIXTEEN: f64 = 1536.0 * 1536.0 * 1536.0;
    /// Elements of the result in one tile, at most.
    const AREA: f64 = 512.0 * 512.0;
    /// A shorter side is not cut in two.
    const SHORT: usize = 192;
    let work = m as f64 * n as f64 * k as f64;
    if work <= WHOLE {
        return (m, n);
    }
    let least = match work {
        work if work < EIGHT => 4.0,
        work if work < SIXTEEN => 8.0,
        _ => 16.0,
    };
    let wanted = (m as f64 * n as f64 / AREA).max(least);
    let (mut rows, mut columns, mut parts) = (m, n, 1.0);
    while parts < wanted && rows.max(columns) >= SHORT {
        let side = if rows >= columns { &mut rows } else { &mut columns };
        // Whole vectors, so that only the last tile has a ragged edge.
        *side = side.div_ceil(2).next_multiple_of(8);
        parts *= 2.0;
    }
    (rows, columns)
}

/// A batch of products of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Gemm {
    product: Product,
    /// Loops over the items: strides of `c`, `a` and `b`.
    batch: Nest<3>,
    items: usize,
    /// Rows and columns of a tile, and how many tiles stand beside and below each other.
    tile: (usize, usize),
    grid: (usize, usize),
    /// `a` and `b` have changed places.
    swapped: bool,
    small: Option<small::Erased>,
    pub(crate) isa: Isa,
    item_ns: f64,
}

impl Gemm {
    pub(crate) fn new<T: Element>(isa: Isa, product: Product, batch: Nest<3>) -> Gemm {
        Gemm::of(T::DTYPE, isa, product, batch)
    }

    pub(crate) fn of(dtype: DType, isa: Isa, product: Product, batch: Nest<3>) -> Gemm {
        // faer is quickest on a column-major result.
        let swapped = product.c.column == 1 && product.c.row != 1 && !(product.m == 1 && product.n == 1);
        let (product, batch) = if swapped {
            let axes = batch
                .axes()
                .iter()
                .map(|&(extent, [c, a, b])| (extent, [c, b, a]))
                .collect::<Vec<_>>();
            (product.transposed(), Nest::new(axes))
        } else {
            (product, batch)
        };
        let Product { m, n, k, .. } = product;
        let tile = tile(m, n, k);
        Gemm {
            product,
            items: batch.iterations(),
            batch,
            tile,
            grid: (m.div_ceil(tile.0.max(1)), n.div_ceil(tile.1.max(1))),
            swapped,
            small: small::erased(dtype, isa, &product),
            isa,
            item_ns: product_ns(dtype, isa, m, n, k),
        }
    }

    /// The product of one item, as the caller's `a` and `b` see it.
    pub(crate) fn shape(&self) -> Product {
        if self.swapped {
            self.product.transposed()
        } else {
            self.product
        }
    }

    pub(crate) fn items(&self) -> usize {
        self.items
    }

    pub(crate) fn grid(&self) -> (usize, usize) {
        self.grid
    }

    pub(crate) fn tile_shape(&self) -> (usize, usize) {
        self.tile
    }

    pub(crate) fn estimate_ns(&self) -> f64 {
        self.items as f64 * self.item_ns
    }

    pub(crate) fn retained_bytes(&self) -> usize {
        self.batch.axes().len() * 32
    }

    /// `c = alpha * a * b + beta * c` for every item.
    ///
    /// # Safety
    /// As `MatrixElement::product`, for every item; no element of `c` belongs to two items.
    pub(crate) unsafe fn run<T: MatrixElement>(
        &self,
        token: &mut Token<'_>,
        policy: BatchPolicy,
        a: *const T,
        b: *const T,
        c: *mut T,
        alpha: T,
        beta: T,
    ) -> Result<()> {
        let (a, b) = if self.swapped { (b, a) } else { (a, b) };
        let job = Job {
            gemm: self,
            a,
            b,
            c,
            alpha,
            beta,
        };
        let per_item = self.grid.0 * self.grid.1;
        let total = self.items * per_item;
        // SAFETY: each tile is claimed once, and tiles do not overlap.
        let tile = |at: usize| unsafe { job.tile(at / per_item, at % per_item) };
        if total == 1 && policy != BatchPolicy::Inner {
            tile(0);
            return Ok(());
        }
        let tile_ns = (self.item_ns / per_item as f64).max(1.0);
        // Tiny tiles are claimed in runs of about the work that pays for a slot.
        let run_length = |tiles: usize| ((policy::SLOT_NS / tile_ns) as usize).clamp(1, tiles.max(1));
        let run = |token: &mut Token<'_>, first: usize, tiles: usize| -> Result<(), Interrupted> {
            let length = run_length(tiles);
            token.chunks(tiles.div_ceil(length), |chunk| {
                for at in chunk * length..tiles.min((chunk + 1) * length) {
                    tile(first + at);
                }
            })
        };
        let budget = token.budget();
        match policy {
            BatchPolicy::Auto => {
                let slots = policy::worthwhile_slots(self.estimate_ns(), budget);
                run(&mut token.narrowed(slots), 0, total)?;
            }
            BatchPolicy::Sequential => run(&mut token.narrowed(1), 0, total)?,
            BatchPolicy::Outer => {
                let length = run_length(total)
                    .div_ceil(per_item)
                    .min(self.items.div_ceil(budget));
                token.chunks(self.items.div_ceil(length), |chunk| {
                    for at in chunk * length * per_item..total.min((chunk + 1) * length * per_item) {
                        tile(at);
                    }
                })?;
            }
            BatchPolicy::Inner => {
                for item in 0..self.items {
                    run(token, item * per_item, per_item)?;
                }
            }
            BatchPolicy::Split(lanes) => {
                policy.check(budget)?;
                let stopped = AtomicBool::new(false);
                token.fork(lanes, |lane, mut child| {
                    let (from, to) = (self.items * lane / lanes, self.items * (lane + 1) / lanes);
                    for item in from..to {
                        if run(&mut child, item * per_item, per_item).is_err() {
                            stopped.store(true, Ordering::Relaxed);
                            return;
                        }
                    }
                })?;
                if stopped.into_inner() {
                    return Err(Error::from(Interrupted));
                }
            }
        }
        Ok(())
    }
}

/// A batch with its pointers.
struct Job<'g, T> {
    gemm: &'g Gemm,
    a: *const T,
    b: *const T,
    c: *mut T,
    alpha: T,
    beta: T,
}

// SAFETY: threads share the pointers, read the operands, and write tiles that do not overlap.
unsafe impl<T: Sync> Sync for Job<'_, T> {}

impl<T: MatrixElement> Job<'_, T> {
    /// # Safety
    /// As `Gemm::run`; no other thread runs the same tile.
    #[inline]
    unsafe fn tile(&self, item: usize, tile: usize) {
        let gemm = self.gemm;
        let [mut c_at, mut a_at, mut b_at] = [0isize; 3];
        let mut rest = item;
        for &(extent, [c, a, b]) in gemm.batch.axes().iter().rev() {
            let at = (rest % extent) as isize;
            rest /= extent;
            c_at += at * c;
            a_at += at * a;
            b_at += at * b;
        }
        // SAFETY: offsets of the batch.
        let (a, b, c) = unsafe { (self.a.offset(a_at), self.b.offset(b_at), self.c.offset(c_at)) };
        if let Some(kernel) = &gemm.small
            && self.alpha == T::ONE
            && self.beta == T::ZERO
        {
            // SAFETY: the kernel was made for this product and this dtype.
            unsafe { kernel.run(a.cast(), b.cast(), c.cast()) };
            return;
        }
        let product = &gemm.product;
        let (row, column) = (tile % gemm.grid.0 * gemm.tile.0, tile / gemm.grid.0 * gemm.tile.1);
        let part = Product {
            m: gemm.tile.0.min(product.m - row),
            n: gemm.tile.1.min(product.n - column),
            ..*product
        };
        let (row, column) = (row as isize, column as isize);
        // SAFETY: the tile's corner and extents are within the product.
        unsafe {
            T::product(
                gemm.isa,
                &part,
                a.offset(row * product.a.row),
                b.offset(column * product.b.column),
                c.offset(row * product.c.row + column * product.c.column),
                self.alpha,
                self.beta,
            );
        }
    }
}

/// Serial nanoseconds of one product, roughly: arithmetic with ragged edges, plus reading and writing.
pub(crate) fn product_ns(dtype: DType, isa: Isa, m: usize, n: usize, k: usize) -> f64 {
    let vector: f64 = match isa {
        Isa::Avx512 => 1.0,
        Isa::Avx2 => 0.5,
        Isa::Neon => 0.4,
        Isa::Scalar => 0.05,
    };
    let rate = match dtype {
        DType::F32 => 60.0 * vector,
        DType::F64 => 30.0 * vector,
        DType::C64 => 15.0 * vector,
        DType::C128 => 7.5 * vector,
        DType::U8 | DType::I8 | DType::Bool => 10.0 * vector.max(0.2),
        _ => 2.5 * vector.max(0.2),
    };
    let padded = |extent: usize| extent.next_multiple_of(8) as f64;
    let (m_f, n_f, k_f) = (m as f64, n as f64, k as f64);
    let size = dtype.size() as f64;
    if m == 1 || n == 1 {
        return 15.0 + m_f * n_f * k_f * size * 0.1;
    }
    15.0 + padded(m) * padded(n) * k_f / rate + (m_f * k_f + k_f * n_f + m_f * n_f) * size * 0.03
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_and_balance() {
        for (m, n, k) in [
            (256, 256, 256),
            (320, 320, 320),
            (512, 512, 512),
            (1024, 1024, 1024),
            (2048, 2048, 2048),
        ] {
            let (rows, columns) = tile(m, n, k);
            let tiles = m.div_ceil(rows) * n.div_ceil(columns);
            if m * n * k >= 2 * 256 * 256 * 256 {
                assert!(tiles >= 8, "{m}: {rows} x {columns}");
            }
        }
        assert_eq!(tile(100, 100, 100), (100, 100));
        for (m, n, k) in [
            (1, 100_000, 1000),
            (100_000, 1, 1000),
            (7, 100_000, 64),
            (5000, 30, 200),
        ] {
            let (rows, columns) = tile(m, n, k);
            assert!(rows >= 1 && rows <= m.max(96) && columns >= 1);
            assert!(
                m.div_ceil(rows) * n.div_ceil(columns) >= 2,
                "{m} {n}: {rows} x {columns}"
            );
        }
    }
}
