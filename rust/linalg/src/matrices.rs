//! Batches of matrices as the caller holds them: a pointer, two matrix strides and the strides of the leading axes.

use crate::field::{Field, RealNumber};
use crate::scaling::Scaling;
use crate::vectorised::{Vectorised, vectorised};
use treadle_core::Float;

/// A batch of matrices with any strides (in elements; negative and zero ones allowed), leading axes first.
#[derive(Clone, Copy, Debug)]
pub struct Matrices<'a, T> {
    /// The first entry of the first matrix.
    pub pointer: *const T,
    /// Rows of each matrix.
    pub rows: usize,
    /// Columns of each matrix.
    pub cols: usize,
    /// Elements from one row to the next.
    pub row_stride: isize,
    /// Elements from one column to the next.
    pub col_stride: isize,
    /// Lengths of the leading axes; empty for a single matrix.
    pub batch_shape: &'a [usize],
    /// Strides of the leading axes.
    pub batch_strides: &'a [isize],
}

// SAFETY: the type only describes memory; the functions that read through it are unsafe and ask the caller that no
// one writes to it meanwhile.
unsafe impl<T: Sync> Sync for Matrices<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Send for Matrices<'_, T> {}

impl<'a, T: Field> Matrices<'a, T> {
    /// One matrix.
    pub fn single(pointer: *const T, shape: (usize, usize), strides: (isize, isize)) -> Self {
        Matrices {
            pointer,
            rows: shape.0,
            cols: shape.1,
            row_stride: strides.0,
            col_stride: strides.1,
            batch_shape: &[],
            batch_strides: &[],
        }
    }

    /// The same matrices.
    ///
    /// # Safety
    /// `T` is real.
    pub(crate) unsafe fn as_real(&self) -> Matrices<'a, T::R> {
        Matrices {
            pointer: self.pointer.cast(),
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
            batch_shape: self.batch_shape,
            batch_strides: self.batch_strides,
        }
    }

    /// How many matrices.
    pub fn count(&self) -> usize {
        self.batch_shape.iter().product()
    }

    /// How many elements there are, when they stand in one line without gaps or repetitions, in whatever order.
    pub(crate) fn dense_len(&self) -> Option<usize> {
        let len = self.count() * self.rows * self.cols;
        let mut expected = len as isize;
        for (&length, &stride) in self.batch_shape.iter().zip(self.batch_strides) {
            if length != 1 {
                expected /= (length as isize).max(1);
                if stride != expected {
                    return None;
                }
            }
        }
        let (rows, cols) = (self.rows as isize, self.cols as isize);
        let by_rows = (self.col_stride == 1 || cols == 1) && (self.row_stride == cols || rows == 1);
        let by_cols = (self.row_stride == 1 || rows == 1) && (self.col_stride == rows || cols == 1);
        (by_rows || by_cols).then_some(len)
    }

    /// The matrix at `index`, flat in C order over the leading axes.
    #[inline]
    pub(crate) fn item(&self, index: usize) -> View<T> {
        let mut rest = index;
        let mut offset = 0isize;
        if let [stride] = *self.batch_strides {
            return self.at_offset((index as isize).wrapping_mul(stride));
        }
        for (&length, &stride) in self.batch_shape.iter().zip(self.batch_strides).rev() {
            offset = offset.wrapping_add((rest % length) as isize * stride);
            rest /= length;
        }
        self.at_offset(offset)
    }

    fn at_offset(&self, offset: isize) -> View<T> {
        View {
            pointer: self.pointer.wrapping_offset(offset),
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
        }
    }
}

/// Which entries of a matrix count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    All,
    Lower,
    Upper,
}

/// One matrix of a batch.
#[derive(Clone, Copy)]
pub(crate) struct View<T> {
    pub(crate) pointer: *const T,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) row_stride: isize,
    pub(crate) col_stride: isize,
}

/// The bits of the largest magnitude among the parts of elements that stand next to each other.
///
/// # Safety
/// That many elements are readable.
struct Largest<T>(*const T, usize);

impl<T: Field> Vectorised for Largest<T> {
    type Out = <T::R as RealNumber>::Bits;

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) -> Self::Out {
        let parts = if T::IS_REAL { self.1 } else { 2 * self.1 };
        let from = self.0.cast::<T::R>();
        let mut lanes = [Self::Out::default(); 32];
        let whole = parts / 32 * 32;
        // SAFETY: complex numbers are pairs of real ones.
        unsafe {
            for block in (0..whole).step_by(32) {
                for (lane, largest) in lanes.iter_mut().enumerate() {
                    let bits = (*from.add(block + lane)).magnitude_bits();
                    *largest = if bits > *largest { bits } else { *largest };
                }
            }
            for i in whole..parts {
                lanes[0] = lanes[0].max((*from.add(i)).magnitude_bits());
            }
        }
        lanes.into_iter().max().unwrap_or_default()
    }
}

/// Side of the tiles in which a matrix is copied against its storage order.
const TILE: usize = 16;

impl<T: Field> View<T> {
    /// The transpose, without conjugation.
    pub(crate) fn transposed(self) -> Self {
        View {
            pointer: self.pointer,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
        }
    }

    /// # Safety
    /// The entry must exist and be readable.
    #[inline(always)]
    pub(crate) unsafe fn at(&self, row: usize, col: usize) -> T {
        // SAFETY: the caller names an entry of the matrix.
        unsafe {
            *self
                .pointer
                .offset(row as isize * self.row_stride + col as isize * self.col_stride)
        }
    }

    /// Calls `f` with every entry that counts, the shorter stride innermost.
    ///
    /// # Safety
    /// Every entry of `part` must be readable.
    unsafe fn for_each(&self, part: Part, mut f: impl FnMut(T)) {
        let (view, part) = if self.col_stride.unsigned_abs() < self.row_stride.unsigned_abs() {
            let flipped = match part {
                Part::All => Part::All,
                Part::Lower => Part::Upper,
                Part::Upper => Part::Lower,
            };
            (self.transposed(), flipped)
        } else {
            (*self, part)
        };
        for col in 0..view.cols {
            let rows = match part {
                Part::All => 0..view.rows,
                Part::Lower => col.min(view.rows)..view.rows,
                Part::Upper => 0..view.rows.min(col + 1),
            };
            for row in rows {
                // SAFETY: row and col are in range, and the caller vouches for the entries.
                f(unsafe { view.at(row, col) });
            }
        }
    }

    /// Whether an entry that counts is NaN or infinite. On a triangle of a Hermitian matrix the imaginary parts of the
    /// diagonal do not count.
    ///
    /// # Safety
    /// Every entry of `part` must be readable.
    pub(crate) unsafe fn has_non_finite(&self, part: Part) -> bool {
        if part == Part::All {
            // SAFETY: passed on.
            return unsafe { self.largest_bits() } >= T::R::INFINITE_BITS;
        }
        // SAFETY: the diagonal belongs to both triangles.
        unsafe {
            (0..self.rows).any(|i| !self.at(i, i).re().is_finite())
                || self.strict_triangle_has_non_finite(part == Part::Lower)
        }
    }

    /// Whether an entry below the diagonal, or above it, is NaN or infinite.
    ///
    /// # Safety
    /// Those entries must be readable.
    pub(crate) unsafe fn strict_triangle_has_non_finite(&self, lower: bool) -> bool {
        // By rows, or by the columns of the other triangle: whichever stand next to each other.
        let (view, lower) = if self.col_stride == 1 || self.row_stride != 1 {
            (*self, lower)
        } else {
            (self.transposed(), !lower)
        };
        (0..view.rows).any(|row| {
            let cols = if lower {
                0..row.min(view.cols)
            } else {
                (row + 1).min(view.cols)..view.cols
            };
            let side = View {
                pointer: view
                    .pointer
                    .wrapping_offset(row as isize * view.row_stride + cols.start as isize * view.col_stride),
                rows: 1,
                cols: cols.len(),
                ..view
            };
            // SAFETY: entries of the triangle.
            unsafe { side.largest_bits() >= T::R::INFINITE_BITS }
        })
    }

    /// The bits of the largest magnitude among the parts of all entries; those of NaN stand above all.
    ///
    /// # Safety
    /// Every entry must be readable.
    pub(crate) unsafe fn largest_bits(&self) -> <T::R as RealNumber>::Bits {
        let (lines, len, step) = if self.col_stride == 1 || self.cols <= 1 {
            (self.rows, self.cols, self.row_stride)
        } else if self.row_stride == 1 || self.rows <= 1 {
            (self.cols, self.rows, self.col_stride)
        } else {
            let mut largest = Default::default();
            // SAFETY: passed on.
            unsafe {
                self.for_each(Part::All, |x| {
                    largest = x.re().magnitude_bits().max(x.im().magnitude_bits()).max(largest);
                });
            }
            return largest;
        };
        if step == len as isize {
            // SAFETY: one line of all entries.
            return unsafe { vectorised(Largest(self.pointer, lines * len)) };
        }
        (0..lines)
            // SAFETY: a line of the matrix.
            .map(|line| unsafe { vectorised(Largest(self.pointer.offset(line as isize * step), len)) })
            .max()
            .unwrap_or_default()
    }

    /// The largest magnitude among the parts of the entries that count.
    ///
    /// # Safety
    /// Every entry of `part` must be readable.
    pub(crate) unsafe fn max_abs(&self, part: Part) -> f64 {
        if part == Part::All {
            // SAFETY: passed on.
            return <T::R as RealNumber>::from_bits(unsafe { self.largest_bits() }).to_f64();
        }
        let mut largest = <T as Field>::R::of(0.0);
        // SAFETY: passed on.
        unsafe {
            self.for_each(part, |x| {
                let a = x.re().magnitude();
                let b = x.im().magnitude();
                let a = if b > a { b } else { a };
                if a > largest {
                    largest = a;
                }
            });
        }
        largest.to_f64()
    }

    /// As `max_abs` for a triangle of a Hermitian matrix, of whose diagonal the imaginary part does not count.
    ///
    /// # Safety
    /// As `max_abs`.
    pub(crate) unsafe fn max_abs_hermitian(&self, part: Part) -> f64 {
        if T::IS_REAL {
            // SAFETY: passed on.
            return unsafe { self.max_abs(part) };
        }
        let mut largest = 0.0f64;
        for row in 0..self.rows {
            let cols = if part == Part::Lower {
                0..row
            } else {
                row + 1..self.cols
            };
            // SAFETY: entries of the triangle, and the diagonal.
            unsafe {
                largest = largest.max(self.at(row, row).re().magnitude().to_f64());
                for col in cols {
                    let x = self.at(row, col);
                    largest = largest
                        .max(x.re().magnitude().to_f64())
                        .max(x.im().magnitude().to_f64());
                }
            }
        }
        largest
    }

    /// The smallest magnitude among the parts that are not zero; infinite when there is none.
    ///
    /// # Safety
    /// Every entry must be readable.
    pub(crate) unsafe fn min_abs(&self) -> f64 {
        let mut smallest = f64::INFINITY;
        // SAFETY: passed on.
        unsafe {
            self.for_each(Part::All, |x| {
                for part in [x.re().magnitude().to_f64(), x.im().magnitude().to_f64()] {
                    if part != 0.0 && part < smallest {
                        smallest = part;
                    }
                }
            });
        }
        smallest
    }

    /// Copies the matrix, scaled, into column-major memory.
    ///
    /// # Safety
    /// Every entry must be readable; `to` must hold `cols` columns of `rows` entries, `leading` apart.
    pub(crate) unsafe fn load(&self, scaling: Scaling<<T as Field>::R>, to: *mut T, leading: usize) {
        let entry = |row: usize, col: usize| {
            // SAFETY: row and col are in range in every loop below.
            unsafe { *to.add(row + col * leading) = scaling.apply(self.at(row, col)) }
        };
        if self.row_stride.unsigned_abs() <= self.col_stride.unsigned_abs() {
            for col in 0..self.cols {
                for row in 0..self.rows {
                    entry(row, col);
                }
            }
            return;
        }
        for col0 in (0..self.cols).step_by(TILE) {
            let cols = col0..(col0 + TILE).min(self.cols);
            for row0 in (0..self.rows).step_by(TILE) {
                for col in cols.clone() {
                    for row in row0..(row0 + TILE).min(self.rows) {
                        entry(row, col);
                    }
                }
            }
        }
    }

    /// Copies one triangle of a Hermitian matrix into the lower triangle of column-major memory, scaled, with a real
    /// diagonal; the upper one is conjugated on the way.
    ///
    /// # Safety
    /// As `load`, for the entries of the triangle.
    pub(crate) unsafe fn load_hermitian(
        &self,
        upper: bool,
        scaling: Scaling<<T as Field>::R>,
        to: *mut T,
        leading: usize,
    ) {
        let n = self.rows;
        for col0 in (0..n).step_by(TILE) {
            for row0 in (col0..n).step_by(TILE) {
                for col in col0..(col0 + TILE).min(n) {
                    for row in row0.max(col)..(row0 + TILE).min(n) {
                        // SAFETY: (row, col) is in the lower triangle, so its mirror is in the upper one.
                        let x = unsafe {
                            if upper {
                                self.at(col, row).conj()
                            } else {
                                self.at(row, col)
                            }
                        };
                        let x = if row == col { T::from_real(x.re()) } else { x };
                        // SAFETY: inside the target.
                        unsafe { *to.add(row + col * leading) = scaling.apply(x) };
                    }
                }
            }
        }
    }
}

/// Copies column-major memory (`rows` by `cols`, `leading` apart) to row-major memory of `width` columns.
///
/// # Safety
/// Both must be as large as said and not overlap.
pub(crate) unsafe fn store_rows<T: Field>(
    from: *const T,
    leading: usize,
    rows: usize,
    cols: usize,
    to: *mut T,
    width: usize,
    map: impl Fn(usize, T) -> T,
) {
    for row0 in (0..rows).step_by(TILE) {
        for col0 in (0..cols).step_by(TILE) {
            for row in row0..(row0 + TILE).min(rows) {
                for col in col0..(col0 + TILE).min(cols) {
                    // SAFETY: row and col are in range of both.
                    unsafe { *to.add(row * width + col) = map(col, *from.add(row + col * leading)) };
                }
            }
        }
    }
}

/// Every entry off the diagonal is exactly zero.
///
/// # Safety
/// `a` is `m` by `n`, column-major without gaps.
pub(crate) unsafe fn is_diagonal<T: Field>(a: *const T, m: usize, n: usize) -> bool {
    (0..n).all(|col| {
        (0..m).all(|row| {
            // SAFETY: row and col are in range.
            row == col || unsafe { *a.add(row + col * m) } == T::ZERO
        })
    })
}

/// Writes NaN to `len` elements.
///
/// # Safety
/// `to` holds `len` elements.
pub(crate) unsafe fn fill_nan<T: Field>(to: *mut T, len: usize) {
    for i in 0..len {
        // SAFETY: i < len.
        unsafe { *to.add(i) = T::from_parts(T::R::NAN, T::R::NAN) };
    }
}
