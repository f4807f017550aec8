//! Blocks of reflectors applied on the team, with products alone.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// Reflectors of a block.
const BLOCK: usize = 64;

/// Scratch of `apply` on matrices of at most `cols` columns.
pub(crate) fn scratch<T: Field>(cols: usize) -> StackReq {
    StackReq::all_of(&[
        need::<T>(BLOCK * BLOCK),
        need::<T>(BLOCK * BLOCK),
        need::<T>(BLOCK * cols),
        need::<T>(BLOCK * cols),
    ])
}

/// `c = H_0 H_1 ... H_(count-1) c` with `H_j = I - tau_j v_j v_j^H`, where `v_j` is column `j` of `v` and zero above row
/// `j + shift`.
///
/// # Safety
/// `v` holds `count` columns of as many rows as `c`; `tau` holds `count` factors; `c` shares no element with them.
pub(crate) unsafe fn apply<T: Field>(
    crew: &mut Crew<'_>,
    v: Block<T>,
    shift: usize,
    tau: *const T,
    c: Block<T>,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let (rows, count, cols) = (v.rows, v.cols, c.cols);
    if cols == 0 {
        return Ok(());
    }
    let (gram, stack) = take::<T>(stack, BLOCK * BLOCK);
    let (factor, stack) = take::<T>(stack, BLOCK * BLOCK);
    let (inner, stack) = take::<T>(stack, BLOCK * cols);
    let (scaled, _) = take::<T>(stack, BLOCK * cols);
    for first in (0..count).step_by(BLOCK).rev() {
        let width = BLOCK.min(count - first);
        let from = first + shift;
        let block = v.part(from..rows, first..first + width);
        let target = c.part(from..rows, 0..cols);
        let square = |pointer| Block::columns(pointer, width, width, width);
        // Both in the order of the storage of c, so that the products read whole lines.
        let between = |pointer| {
            if c.row_stride == 1 {
                Block::columns(pointer, width, cols, width)
            } else {
                Block::columns(pointer, cols, width, cols).transposed()
            }
        };
        let (inner, scaled) = (between(inner), between(scaled));
        // SAFETY: parts of the caller's matrices and of the scratch cut above.
        unsafe {
            crew.multiply(T::ONE, block.adjoint(), block, T::ZERO, square(gram))?;
            compact(square(gram), tau.add(first), square(factor));
            crew.multiply(T::ONE, block.adjoint(), target, T::ZERO, inner)?;
            crew.multiply(T::ONE, square(factor), inner, T::ZERO, scaled)?;
            crew.multiply(-T::ONE, block, scaled, T::ONE, target)?;
        }
    }
    Ok(())
}

/// The upper triangular `T` with `H_0 H_1 ... = I - V T V^H` (Schreiber and Van Loan 1989), from `gram = V^H V`.
///
/// # Safety
/// Both are square of one order, `tau` holds as many factors.
unsafe fn compact<T: Field>(gram: Block<T>, tau: *const T, to: Block<T>) {
    for j in 0..to.cols {
        // SAFETY: row and column below the order.
        unsafe {
            let tau = *tau.add(j);
            for i in 0..j {
                let mut sum = T::ZERO;
                for k in i..j {
                    sum += *to.at(i, k) * *gram.at(k, j);
                }
                *to.at(i, j) = -(tau * sum);
            }
            *to.at(j, j) = tau;
            for i in j + 1..to.rows {
                *to.at(i, j) = T::ZERO;
            }
        }
    }
}
