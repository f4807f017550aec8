//! Copies between row-major matrices and column-major panels of padded columns.

use crate::crew::Block;
use crate::field::Field;
use crate::vectorised::{Vectorised, vectorised};

/// Side of the squares in which elements are turned.
const SIDE: usize = 8;

/// Column-major memory with `leading` elements a column becomes a copy of the block, zero below it.
///
/// # Safety
/// The block is readable; `to` holds `cols` columns of `leading` elements.
pub(crate) unsafe fn columns_of_rows<T: Field>(from: Block<T>, to: *mut T, leading: usize) {
    // SAFETY: passed on.
    unsafe {
        vectorised(Turn {
            from,
            to: Block::columns(to, from.rows, from.cols, leading),
        })
    };
    for col in 0..from.cols {
        for row in from.rows..leading {
            // SAFETY: inside the column.
            unsafe { *to.add(col * leading + row) = T::ZERO };
        }
    }
}

/// The inverse of `columns_of_rows`.
///
/// # Safety
/// As there, with the block writeable.
pub(crate) unsafe fn rows_of_columns<T: Field>(from: *const T, leading: usize, to: Block<T>) {
    let from = Block::columns(from.cast_mut(), to.rows, to.cols, leading);
    // SAFETY: passed on.
    unsafe { vectorised(Turn { from, to }) };
}

/// `to = from`, square by square, so that both are read and written a few lines at a time.
///
/// # Safety
/// `from` is readable, `to` writeable, of one shape, and they share no element.
pub(crate) struct Turn<T> {
    pub(crate) from: Block<T>,
    pub(crate) to: Block<T>,
}

impl<T: Field> Vectorised for Turn<T> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<const FUSED: bool>(self) {
        let (from, to) = (self.from, self.to);
        // SAFETY: every row and column is in range.
        unsafe {
            if from.col_stride == 1 && to.row_stride == 1 {
                turn(
                    from.pointer,
                    from.row_stride,
                    to.pointer,
                    to.col_stride,
                    from.rows,
                    from.cols,
                );
            } else if from.row_stride == 1 && to.col_stride == 1 {
                turn(
                    from.pointer,
                    from.col_stride,
                    to.pointer,
                    to.row_stride,
                    from.cols,
                    from.rows,
                );
            } else if from.col_stride == 1 && to.col_stride == 1 {
                for row in 0..from.rows {
                    std::ptr::copy_nonoverlapping(from.at(row, 0), to.at(row, 0), from.cols);
                }
            } else if from.row_stride == 1 && to.row_stride == 1 {
                for col in 0..from.cols {
                    std::ptr::copy_nonoverlapping(from.at(0, col), to.at(0, col), from.rows);
                }
            } else {
                for row in 0..from.rows {
                    for col in 0..from.cols {
                        *to.at(row, col) = *from.at(row, col);
                    }
                }
            }
        }
    }
}

/// `to[row + col * to_step] = from[row * from_step + col]`.
///
/// # Safety
/// As `Turn`.
#[inline(always)]
unsafe fn turn<T: Field>(
    from: *const T,
    from_step: isize,
    to: *mut T,
    to_step: isize,
    rows: usize,
    cols: usize,
) {
    let mut row = 0;
    // SAFETY: every row and column is in range.
    unsafe {
        while row + SIDE <= rows {
            let source = from.offset(row as isize * from_step);
            let target = to.add(row);
            let mut col = 0;
            while col + SIDE <= cols {
                let mut square = [[T::ZERO; SIDE]; SIDE];
                for (i, line) in square.iter_mut().enumerate() {
                    for (j, x) in line.iter_mut().enumerate() {
                        *x = *source.offset(i as isize * from_step).add(col + j);
                    }
                }
                for j in 0..SIDE {
                    for (i, line) in square.iter().enumerate() {
                        *target.offset((col + j) as isize * to_step).add(i) = line[j];
                    }
                }
                col += SIDE;
            }
            while col < cols {
                for i in 0..SIDE {
                    *target.offset(col as isize * to_step).add(i) =
                        *source.offset(i as isize * from_step).add(col);
                }
                col += 1;
            }
            row += SIDE;
        }
        while row < rows {
            for col in 0..cols {
                *to.add(row).offset(col as isize * to_step) = *from.offset(row as isize * from_step).add(col);
            }
            row += 1;
        }
    }
}
