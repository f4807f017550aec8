//! One matrix, factored in scratch memory: in one panel where it is small, by halves on the team where it is not.

use crate::crew::{Block, Crew};
use crate::failure::Failure;
use crate::field::Field;
use crate::lu;
use crate::lu::panel::{Eliminate, leading, multipliers_len};
use crate::lu::solve::{PANEL_ORDER, block_of, rescale, row_step};
use crate::matrices::View;
use crate::scaling::Scaling;
use crate::transpose::{Turn, columns_of_rows};
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use faer::dyn_stack::{MemStack, StackReq};

/// The factors of `P a = L U`, packed, and the rows that were exchanged.
pub(crate) struct Factored<T> {
    pub(crate) packed: Block<T>,
    pub(crate) pivots: *mut usize,
}

impl<T: Field> Factored<T> {
    /// Whether a matrix of that shape needs no crew.
    pub(crate) fn is_panel(rows: usize, cols: usize) -> bool {
        rows <= PANEL_ORDER && cols <= PANEL_ORDER
    }

    pub(crate) fn scratch(rows: usize, cols: usize) -> StackReq {
        let steps = rows.min(cols);
        if Self::is_panel(rows, cols) {
            StackReq::all_of(&[
                need::<T>(leading(rows) * cols),
                need::<usize>(steps),
                need::<T>(multipliers_len(rows)),
            ])
        } else {
            StackReq::all_of(&[
                need::<T>(rows * row_step::<T>(cols)),
                need::<usize>(steps),
                lu::scratch::<T>(rows),
            ])
        }
    }

    /// Factors a copy of the view, times a power of two. What is left of the scratch comes back.
    ///
    /// # Safety
    /// The view is readable; `stack` has the scratch of its shape, and a crew is there unless it is a panel.
    pub(crate) unsafe fn new<'s>(
        crew: Option<&mut Crew<'_>>,
        view: &View<T>,
        scaling: Scaling<T::R>,
        stack: &'s mut MemStack,
    ) -> Result<(Self, &'s mut MemStack), Failure> {
        let (rows, cols) = (view.rows, view.cols);
        let steps = rows.min(cols);
        // SAFETY: the arrays have the sizes that are asked for.
        unsafe {
            match crew {
                None => {
                    let lead = leading(rows);
                    let (a, stack) = take::<T>(stack, lead * cols);
                    let (pivots, stack) = take::<usize>(stack, steps);
                    let (multipliers, stack) = take::<T>(stack, multipliers_len(rows));
                    columns_of_rows(block_of(view), a, lead);
                    let packed = Block::columns(a, rows, cols, lead);
                    rescale(packed, scaling);
                    vectorised(Eliminate {
                        a,
                        rows,
                        cols,
                        steps,
                        pivots,
                        multipliers,
                    });
                    Ok((Factored { packed, pivots }, stack))
                }
                Some(crew) => {
                    let step = row_step::<T>(cols);
                    let (a, stack) = take::<T>(stack, rows * step);
                    let (pivots, stack) = take::<usize>(stack, steps);
                    let packed = Block::rows(a, rows, cols, step);
                    vectorised(Turn {
                        from: block_of(view),
                        to: packed,
                    });
                    rescale(packed, scaling);
                    lu::factor(crew, packed, steps, pivots, stack)?;
                    Ok((Factored { packed, pivots }, stack))
                }
            }
        }
    }
}
