//! The slots of the team that one item may use, and what it does with them: products, and loops over chunks.

use crate::failure::Failure;
use crate::field::{Field, RealNumber};
use std::alloc::Layout;
use treadle_contract::policy::{BatchPolicy, worthwhile_slots};
use treadle_contract::{Isa, Matrix, Product, Scratch, matmul_of};
use treadle_core::{Error, ErrorCode, Result, Scalar};
use treadle_team::Token;

/// Memory for the panels of products, kept from one product to the next.
pub(crate) struct Panels {
    memory: *mut u8,
    layout: Layout,
}

impl Default for Panels {
    fn default() -> Self {
        Panels {
            memory: std::ptr::null_mut(),
            layout: Layout::new::<()>(),
        }
    }
}

impl Drop for Panels {
    fn drop(&mut self) {
        if !self.memory.is_null() {
            // SAFETY: allocated below with this layout.
            unsafe { std::alloc::dealloc(self.memory, self.layout) };
        }
    }
}

// SAFETY: the memory is owned, aligned to 64 and as large as asked. One product asks once, and the next one may have the
// same memory, because the product it was lent to has returned.
unsafe impl Scratch for Panels {
    fn take(&mut self, bytes: usize) -> Result<*mut u8> {
        if bytes > self.layout.size() {
            let refused = || {
                Error::new(
                    ErrorCode::OutOfMemory,
                    format!("{bytes} bytes for the panels of a product were refused by the system"),
                )
                .with("bytes", bytes)
            };
            let layout = Layout::from_size_align(bytes, 64).map_err(|_| refused())?;
            // SAFETY: more than zero bytes.
            let memory = unsafe { std::alloc::alloc(layout) };
            if memory.is_null() {
                return Err(refused());
            }
            *self = Panels { memory, layout };
        }
        Ok(self.memory)
    }
}

/// A matrix in memory that the caller vouches for: where it is, how large, and its strides in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block<T> {
    pub(crate) pointer: *mut T,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
    /// Read conjugated as a factor of a product; of no meaning elsewhere.
    pub(crate) conj: bool,
}

// SAFETY: the type only describes memory; whoever reads or writes through it vouches that threads do not collide.
unsafe impl<T: Sync> Sync for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Block<T> {}

impl<T: Field> Block<T> {
    /// Column-major, columns `leading` apart.
    pub(crate) fn columns(pointer: *mut T, rows: usize, cols: usize, leading: usize) -> Self {
        Block {
            pointer,
            rows,
            cols,
            row_stride: 1,
            col_stride: leading as isize,
            conj: false,
        }
    }

    /// Rows `rows` and columns `cols` of it.
    pub(crate) fn part(self, rows: std::ops::Range<usize>, cols: std::ops::Range<usize>) -> Self {
        debug_assert!(rows.start <= rows.end && rows.end <= self.rows);
        debug_assert!(cols.start <= cols.end && cols.end <= self.cols);
        Block {
            pointer: self.at(rows.start, cols.start),
            rows: rows.end - rows.start,
            cols: cols.end - cols.start,
            ..self
        }
    }

    /// Rows and columns exchanged.
    #[allow(dead_code)]
    pub(crate) fn transposed(self) -> Self {
        Block {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// The conjugate transpose, as a factor.
    #[allow(dead_code)]
    pub(crate) fn adjoint(self) -> Self {
        Block {
            conj: !self.conj && !T::IS_REAL,
            ..self.transposed()
        }
    }

    /// Its rows, columns or both from the last to the first.
    pub(crate) fn reversed(self, rows: bool, cols: bool) -> Self {
        let pointer = self.at(
            if rows { self.rows.saturating_sub(1) } else { 0 },
            if cols { self.cols.saturating_sub(1) } else { 0 },
        );
        Block {
            pointer,
            row_stride: if rows { -self.row_stride } else { self.row_stride },
            col_stride: if cols { -self.col_stride } else { self.col_stride },
            ..self
        }
    }

    /// Row-major, rows `leading` apart.
    pub(crate) fn rows(pointer: *mut T, rows: usize, cols: usize, leading: usize) -> Self {
        Block {
            pointer,
            rows,
            cols,
            row_stride: leading as isize,
            col_stride: 1,
            conj: false,
        }
    }

    /// Where an entry is.
    #[inline(always)]
    pub(crate) fn at(self, row: usize, col: usize) -> *mut T {
        self.pointer
            .wrapping_offset(row as isize * self.row_stride + col as isize * self.col_stride)
    }

    fn matrix(self) -> Matrix {
        Matrix {
            row: self.row_stride,
            column: self.col_stride,
            conj: self.conj,
        }
    }
}

/// The slots of one item. Results do not depend on how many there are.
pub(crate) struct Crew<'a> {
    pub(crate) token: Token<'a>,
    pub(crate) panels: Panels,
}

impl Crew<'_> {
    /// `c = alpha a b + beta c`; with `beta` zero `c` is not read.
    ///
    /// # Safety
    /// `a` and `b` are readable, `c` is writeable and shares no element with them or itself.
    pub(crate) unsafe fn multiply<T: Field>(
        &mut self,
        alpha: T,
        a: Block<T>,
        b: Block<T>,
        beta: T,
        c: Block<T>,
    ) -> Result<(), Failure> {
        debug_assert!(a.rows == c.rows && b.cols == c.cols && a.cols == b.rows && !c.conj);
        let product = Product {
            m: c.rows,
            n: c.cols,
            k: a.cols,
            a: a.matrix(),
            b: b.matrix(),
            c: c.matrix(),
        };
        // SAFETY: passed on.
        let done = unsafe {
            matmul_of::<T>(
                Isa::detect(),
                &mut self.token,
                BatchPolicy::Auto,
                &mut self.panels,
                &product,
                a.pointer,
                b.pointer,
                c.pointer,
                scalar(alpha),
                scalar(beta),
            )
        };
        done.map_err(|error| match error.code() {
            ErrorCode::Interrupted => Failure::Interrupted,
            _ => Failure::OutOfMemory {
                bytes: self.panels.layout.size(),
            },
        })
    }

    /// Runs `f(chunk)` for every chunk, on as many slots as `total_ns` serial nanoseconds pay for. Chunks must be a
    /// function of the problem alone, so that bits do not depend on the width.
    pub(crate) fn chunks(
        &mut self,
        count: usize,
        total_ns: f64,
        f: impl Fn(usize) + Sync,
    ) -> Result<(), Failure> {
        let slots = worthwhile_slots(total_ns, self.token.budget());
        self.token
            .narrowed(slots)
            .chunks(count, f)
            .map_err(|_| Failure::Interrupted)
    }

    /// As `chunks`, in the middle of long work, when the other slots are still awake: a tenth of the work pays.
    pub(crate) fn hot_chunks(
        &mut self,
        count: usize,
        total_ns: f64,
        f: impl Fn(usize) + Sync,
    ) -> Result<(), Failure> {
        self.chunks(count, 10.0 * total_ns, f)
    }

    /// Whether the caller wants to stop. Long serial stretches ask now and then.
    pub(crate) fn is_interrupted(&mut self) -> bool {
        self.token.narrowed(1).chunks(1, |_| {}).is_err()
    }
}

fn scalar<T: Field>(value: T) -> Scalar {
    Scalar::Complex(value.re().to_f64(), value.im().to_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_complex::Complex64;
    use treadle_team::Pool;

    #[test]
    fn products_of_parts_and_adjoints_are_exact() {
        let mut pool = Pool::builder().threads(2).build().unwrap();
        let mut token = pool.token().unwrap();
        let (m, k, n) = (70, 65, 90);
        let mut a: Vec<Complex64> = (0..k * m)
            .map(|i| Complex64::new((i % 7) as f64, (i % 5) as f64))
            .collect();
        let mut b: Vec<Complex64> = (0..k * n)
            .map(|i| Complex64::new((i % 3) as f64 - 1.0, (i % 4) as f64))
            .collect();
        let mut c = vec![Complex64::new(1.0, 0.0); m * n];
        let block = Block::columns(a.as_mut_ptr(), k, m, k);
        let right = Block::columns(b.as_mut_ptr(), k, n, k);
        let result = Block::columns(c.as_mut_ptr(), m, n, m);
        let mut crew = Crew {
            token: token.reborrow(),
            panels: Panels::default(),
        };
        let two = Complex64::new(2.0, 0.0);
        // SAFETY: three arrays of their own.
        unsafe {
            crew.multiply(
                two,
                block.adjoint().part(0..m, 3..k),
                right.part(3..k, 0..n),
                two,
                result,
            )
            .unwrap();
        }
        for i in 0..m {
            for j in 0..n {
                let sum: Complex64 = (3..k).map(|l| a[l + i * k].conj() * b[l + j * k]).sum();
                assert_eq!(c[i + j * m], two * sum + two, "{i} {j}");
            }
        }
        assert!(!crew.is_interrupted());
        let stop = || true;
        let mut stopped = Crew {
            token: token.with_poll(&stop),
            panels: Panels::default(),
        };
        assert!(stopped.is_interrupted());
    }
}
