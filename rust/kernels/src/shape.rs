//! What a product of two matrices looks like in memory.

/// Row stride and column stride, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Matrix {
    /// From one row to the next.
    pub row: isize,
    /// From one column to the next.
    pub column: isize,
    /// Read conjugated; of no meaning for a result.
    pub conj: bool,
}

impl Matrix {
    /// A matrix with these strides.
    #[inline]
    pub const fn new(row: isize, column: isize) -> Self {
        Matrix {
            row,
            column,
            conj: false,
        }
    }

    /// The same memory with rows and columns exchanged.
    #[inline]
    #[must_use]
    pub const fn transposed(self) -> Self {
        Matrix {
            row: self.column,
            column: self.row,
            conj: self.conj,
        }
    }
}

/// Extents and strides of `c = a * b`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Product {
    /// Rows of `a` and `c`.
    pub m: usize,
    /// Columns of `b` and `c`.
    pub n: usize,
    /// Columns of `a`, rows of `b`.
    pub k: usize,
    /// The left factor.
    pub a: Matrix,
    /// The right factor.
    pub b: Matrix,
    /// The result.
    pub c: Matrix,
}

impl Product {
    /// The same product as `transposed(c) = transposed(b) * transposed(a)`; the pointers change places too.
    #[inline]
    #[must_use]
    pub const fn transposed(self) -> Self {
        Product {
            m: self.n,
            n: self.m,
            k: self.k,
            a: self.b.transposed(),
            b: self.a.transposed(),
            c: self.c.transposed(),
        }
    }

    /// Multiplications, as a float so that it cannot wrap.
    #[inline]
    pub fn multiplications(&self) -> f64 {
        self.m as f64 * self.n as f64 * self.k as f64
    }
}
