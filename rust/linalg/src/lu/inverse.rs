//! Inverses by LU: the lower factor is inverted by halves, the upper one is substituted, and the columns go back to where
//! the rows came from.

use crate::cost;
use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::lu::elimination::solve_scaled;
use crate::lu::factored::Factored;
use crate::lu::solve::{
    PANEL_ORDER, Reach, all_finite, may_underflow, reach_of, rescale, row_step, solve_as,
};
use crate::lu::{has_zero_pivot, order_of};
use crate::matrices::{Matrices, Part, View, fill_nan};
use crate::run::{Batch, Target};
use crate::triangular::{LEAF, substitute, substitute_back};
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};
use treadle_contract::policy::BatchPolicy;
use treadle_core::Result;
use treadle_team::Token;

/// Rows of the result that one slot puts in place at a time.
const ROWS: usize = 32;

/// The identity as a view of a line of zeros with a one in the middle.
struct Identity<T> {
    line: Vec<T>,
    order: usize,
}

impl<T: Field> Identity<T> {
    fn new(order: usize) -> Self {
        let mut line = vec![T::ZERO; (2 * order).max(2) - 1];
        if order > 0 {
            line[order - 1] = T::ONE;
        }
        Identity { line, order }
    }

    fn repeated<'a>(&'a self, batch_shape: &'a [usize], zeros: &'a [isize]) -> Matrices<'a, T> {
        Matrices {
            pointer: self.line.as_ptr().wrapping_add(self.order.max(1) - 1),
            rows: self.order,
            cols: self.order,
            row_stride: -1,
            col_stride: 1,
            batch_shape,
            batch_strides: zeros,
        }
    }
}

/// The inverse of a unit lower triangle; `to` is zero above the diagonal blocks.
///
/// # Safety
/// `l` is readable, `to` writeable and row-major, of one order, and they share no element.
unsafe fn invert_unit_lower<T: Field>(crew: &mut Crew<'_>, l: Block<T>, to: Block<T>) -> Result<(), Failure> {
    let n = l.rows;
    // SAFETY: the quarters share no element.
    unsafe {
        if n <= LEAF {
            for i in 0..n {
                *to.at(i, i) = T::ONE;
            }
            return substitute(crew, l, true, to);
        }
        let half = (n / 2).next_multiple_of(LEAF);
        let (corner, below) = (to.part(0..half, 0..half), to.part(half..n, 0..half));
        let last = l.part(half..n, half..n);
        invert_unit_lower(crew, l.part(0..half, 0..half), corner)?;
        invert_unit_lower(crew, last, to.part(half..n, half..n))?;
        crew.multiply(-T::ONE, l.part(half..n, 0..half), corner, T::ZERO, below)?;
        substitute(crew, last, true, below)
    }
}

/// # Safety
/// As `inv`; the scratch is that of `scratch`.
unsafe fn item<T: Field>(
    crew: &mut Crew<'_>,
    view: View<T>,
    identity: &View<T>,
    out: *mut T,
    stack: &mut MemStack,
) -> Result<(), Failure> {
    let n = view.rows;
    let to = Block::rows(out, n, n, n);
    // SAFETY: the output holds n by n, and so does the part of the scratch.
    unsafe {
        let step = row_step::<T>(n);
        let (inverse, stack) = take::<T>(stack, n * step);
        let (order, stack) = take::<usize>(stack, n);
        let inverse = Block::rows(inverse, n, n, step);
        let reach = reach_of(&view);
        if matches!(reach, Reach::NonFinite) {
            fill_nan(out, n * n);
            return Ok(());
        }
        if let Reach::Kept(scaling) = reach {
            let (factored, _) = Factored::new(Some(crew), &view, scaling, stack)?;
            let packed = factored.packed;
            if has_zero_pivot(packed) {
                if all_finite(packed) && !may_underflow(&view) {
                    return Err(Failure::Singular);
                }
            } else {
                std::slice::from_raw_parts_mut(inverse.pointer, n * step).fill(T::ZERO);
                invert_unit_lower(crew, packed, inverse)?;
                substitute_back(crew, packed, false, inverse)?;
                rescale(inverse, scaling);
                if all_finite(inverse) {
                    order_of(factored.pivots, n, order, n);
                    let order = Target(order);
                    let nanoseconds = (n * n) as f64;
                    crew.chunks(n.div_ceil(ROWS), nanoseconds, |chunk| {
                        for row in chunk * ROWS..((chunk + 1) * ROWS).min(n) {
                            for col in 0..n {
                                *to.at(row, *order.item(col, 1)) = *inverse.at(row, col);
                            }
                        }
                    })?;
                    return Ok(());
                }
            }
        }
        solve_scaled(&view, identity, |row, col, x| *to.at(row, col) = x)
    }
}

/// The inverse of every matrix.
///
/// # Safety
/// The matrices must be square and readable. `out` must have the shape of `a` and share no memory with it.
pub unsafe fn inv<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let n = a.rows;
    let identity = Identity::<T>::new(n);
    let zeros = vec![0; a.batch_shape.len()];
    if n <= PANEL_ORDER {
        let b = identity.repeated(a.batch_shape, &zeros);
        // SAFETY: passed on; the identity lives until the call returns.
        return unsafe { solve_as("inv", token, policy, a, (&b, true), check_finite, out) };
    }
    let batch = Batch {
        operation: "inv",
        count: a.count(),
        batched: !a.batch_shape.is_empty(),
        policy,
    };
    if check_finite {
        // SAFETY: passed on.
        unsafe { batch.refuse_non_finite(token, 0, a, Part::All)? };
    }
    let scratch = StackReq::all_of(&[
        need::<T>(n * row_step::<T>(n)),
        need::<usize>(n),
        Factored::<T>::scratch(n, n),
    ]);
    let identity = identity.repeated(&[], &[]);
    let out = Target(out);
    batch.each_with_crew(token, cost::inv(n, !T::IS_REAL), scratch, |index, crew, stack| {
        // SAFETY: every index is given out once.
        unsafe {
            item(
                crew,
                a.item(index),
                &identity.item(0),
                out.item(index, n * n),
                stack,
            )
        }
    })
}
