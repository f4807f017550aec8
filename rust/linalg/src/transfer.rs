//! Between the caller's memory and ours: copies of whole matrices, in strips that the slots of a crew share out.

use crate::crew::Crew;
use crate::failure::Failure;
use crate::field::Field;
use crate::matrices::View;
use crate::qr::householder::spread;
use crate::scaling::Scaling;
use crate::shared::Shared;

/// Rows or columns of a strip.
const STRIP: usize = 32;
/// Side of the tiles in which a matrix is copied against its storage order.
const TILE: usize = 16;
/// Nanoseconds for an element.
const ELEMENT_NS: f64 = 1.0;

/// Copies a matrix, scaled, into column-major memory.
///
/// # Safety
/// As `View::load`.
pub(crate) unsafe fn load<T: Field>(
    crew: Option<&mut Crew<'_>>,
    view: &View<T>,
    scaling: Scaling<T::R>,
    to: *mut T,
    leading: usize,
) -> Result<(), Failure> {
    let to = Shared(to);
    let from = Shared(view.pointer.cast_mut());
    let (rows, cols) = (view.rows, view.cols);
    let (row_stride, col_stride) = (view.row_stride, view.col_stride);
    spread(
        crew,
        cols.div_ceil(STRIP),
        ELEMENT_NS * (rows * cols) as f64,
        |chunk| {
            let first = chunk * STRIP;
            let part = View {
                pointer: from
                    .at(0)
                    .wrapping_offset(first as isize * col_stride)
                    .cast_const(),
                rows,
                cols: STRIP.min(cols - first),
                row_stride,
                col_stride,
            };
            // SAFETY: each chunk has columns of its own.
            unsafe { part.load(scaling, to.at(first * leading), leading) };
        },
    )
}

/// Copies column-major memory (`rows` by `cols`, `leading` apart) to row-major memory of `cols` columns; `map` takes row, column
/// and entry.
///
/// # Safety
/// Both must be as large as said and not overlap.
pub(crate) unsafe fn store<T: Field>(
    crew: Option<&mut Crew<'_>>,
    from: *const T,
    leading: usize,
    rows: usize,
    cols: usize,
    to: *mut T,
    map: impl Fn(usize, usize, T) -> T + Sync,
) -> Result<(), Failure> {
    let (from, to) = (Shared(from.cast_mut()), Shared(to));
    spread(
        crew,
        rows.div_ceil(STRIP),
        ELEMENT_NS * (rows * cols) as f64,
        |chunk| {
            let end = ((chunk + 1) * STRIP).min(rows);
            for row0 in (chunk * STRIP..end).step_by(TILE) {
                for col0 in (0..cols).step_by(TILE) {
                    for row in row0..(row0 + TILE).min(end) {
                        for col in col0..(col0 + TILE).min(cols) {
                            // SAFETY: row and col are in range of both, and each chunk has rows of its own.
                            unsafe {
                                *to.at(row * cols + col) = map(row, col, *from.at(row + col * leading))
                            };
                        }
                    }
                }
            }
        },
    )
}
