//! Systems with factors that are there already: triangles, LU, Cholesky.

use crate::cost;
use crate::crew::{Block, Crew};
use crate::eigh::Triangle;
use crate::failure::Failure;
use crate::field::Field;
use crate::lu::has_zero_pivot;
use crate::lu::solve::{block_of, row_step};
use crate::matrices::{Matrices, Part, View};
use crate::run::{Batch, Target};
use crate::transpose::Turn;
use crate::triangular::{substitute, substitute_back};
use crate::vectorised::vectorised;
use crate::workspace::{need, take};
use treadle_contract::policy::BatchPolicy;
use treadle_core::{Error, ErrorCode, Result};
use treadle_team::Token;

/// Which form of a matrix is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// The matrix itself.
    Plain,
    /// Its transpose.
    Transposed,
    /// Its conjugate transpose.
    Adjoint,
}

impl Form {
    fn of<T: Field>(self, block: Block<T>) -> Block<T> {
        match self {
            Form::Plain => block,
            Form::Transposed => block.transposed(),
            Form::Adjoint => block.adjoint(),
        }
    }
}

/// What every one of these calls has in common.
struct Call<'a, 'b, T> {
    operation: &'static str,
    policy: BatchPolicy,
    factor: &'a Matrices<'b, T>,
    /// The triangle of the factor that is read.
    part: Part,
    /// Whether its diagonal is divided by.
    divides: bool,
    b: &'a Matrices<'b, T>,
    check_finite: bool,
}

impl<T: Field> Call<'_, '_, T> {
    /// Solves in a row-major copy of every right-hand side, which is then stored.
    ///
    /// # Safety
    /// Both operands are readable and have one batch shape; `out` has the shape of `b` and shares no memory with them.
    unsafe fn run(
        &self,
        token: &mut Token<'_>,
        out: *mut T,
        solve: impl Fn(usize, &mut Crew<'_>, Block<T>, Block<T>) -> Result<(), Failure> + Sync,
    ) -> Result<()> {
        let (factor, b) = (self.factor, self.b);
        if factor.batch_shape != b.batch_shape || factor.rows != b.rows || factor.rows != factor.cols {
            return Err(Error::new(
                ErrorCode::MatrixShape,
                format!(
                    "the factor has batch shape {:?} and matrices of {} by {}, b has {:?} and {} rows; broadcast them to \
                     one batch shape first",
                    factor.batch_shape, factor.rows, factor.cols, b.batch_shape, b.rows
                ),
            )
            .in_operation(self.operation));
        }
        let batch = Batch {
            operation: self.operation,
            count: b.count(),
            batched: !b.batch_shape.is_empty(),
            policy: self.policy,
        };
        let (n, cols) = (b.rows, b.cols);
        if self.check_finite {
            let item_ns = cost::check_finite(n, n);
            let no_scratch = faer::dyn_stack::StackReq::EMPTY;
            batch.each(token, item_ns, no_scratch, |index, _| {
                // SAFETY: passed on.
                if unsafe { self.holds_non_finite(&factor.item(index)) } {
                    return Err(Failure::NonFinite { operand: 0 });
                }
                Ok(())
            })?;
            // SAFETY: passed on.
            unsafe { batch.refuse_non_finite(token, 1, b, Part::All)? };
        }
        let item_ns = cost::substitute(n, cols, !T::IS_REAL);
        let out = Target(out);
        let step = if cols < 64 { cols } else { row_step::<T>(cols) };
        batch.each_with_crew(token, item_ns, need::<T>(n * step), |index, crew, stack| {
            let (x, _) = take::<T>(stack, n * step);
            let x = Block::rows(x, n, cols, step);
            let factor = block_of(&factor.item(index));
            // SAFETY: the scratch holds n by cols, and so does the output; every index is given out once.
            unsafe {
                if self.divides && has_zero_pivot(factor) {
                    return Err(Failure::Singular);
                }
                vectorised(Turn {
                    from: block_of(&b.item(index)),
                    to: x,
                });
                solve(index, crew, factor, x)?;
                vectorised(Turn {
                    from: x,
                    to: Block::rows(out.item(index, n * cols), n, cols, cols),
                });
            }
            Ok(())
        })
    }

    /// # Safety
    /// The view is readable.
    unsafe fn holds_non_finite(&self, view: &View<T>) -> bool {
        // SAFETY: passed on.
        unsafe {
            if self.part == Part::All {
                return view.has_non_finite(Part::All);
            }
            view.strict_triangle_has_non_finite(self.part == Part::Lower)
                || (self.divides && (0..view.rows).any(|i| !view.at(i, i).is_finite()))
        }
    }
}

/// The solution of `form(a) @ x = b` for triangles; nothing on the other side of the diagonal is read, nor the diagonal
/// itself with `unit`.
///
/// # Safety
/// `a` must be square with as many rows as `b`, both readable and broadcast to one batch shape. `out` must have the shape of
/// `b` and share no memory with them.
pub unsafe fn solve_triangular<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    a: &Matrices<'_, T>,
    b: &Matrices<'_, T>,
    triangle: Triangle,
    form: Form,
    unit: bool,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let lower = triangle == Triangle::Lower;
    let call = Call {
        operation: "solve_triangular",
        policy,
        factor: a,
        part: triangle.part(),
        divides: !unit,
        b,
        check_finite,
    };
    // SAFETY: passed on.
    unsafe {
        call.run(token, out, |_, crew, factor, x| {
            let factor = form.of(factor);
            if lower == (form == Form::Plain) {
                substitute(crew, factor, unit, x)
            } else {
                substitute_back(crew, factor, unit, x)
            }
        })
    }
}

/// The pivots of a batch, strided like the matrices.
#[derive(Clone, Copy, Debug)]
pub struct PivotRows<'a> {
    /// The first pivot of the first matrix.
    pub pointer: *const i64,
    /// Strides of the leading axes of the factors' batch shape.
    pub batch_strides: &'a [isize],
    /// From one pivot to the next.
    pub stride: isize,
}

// SAFETY: read only.
unsafe impl Sync for PivotRows<'_> {}

/// The solution of `form(a) @ x = b` with the factors that `lu_factor` returned. Every pivot is checked before anything is
/// written.
///
/// # Safety
/// `lu` must be square with as many rows as `b`, both readable and broadcast to one batch shape, and `pivots` readable in
/// that shape. `out` must have the shape of `b` and share no memory with them.
pub unsafe fn lu_solve<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    lu: &Matrices<'_, T>,
    pivots: PivotRows<'_>,
    b: &Matrices<'_, T>,
    form: Form,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let n = lu.rows;
    let pivots = &pivots;
    let rows_of = |index: usize| {
        let (mut rest, mut offset) = (index, 0isize);
        for (&length, &stride) in lu.batch_shape.iter().zip(pivots.batch_strides).rev() {
            offset += (rest % length) as isize * stride;
            rest /= length;
        }
        move |j: usize| {
            pivots
                .pointer
                .wrapping_offset(offset + j as isize * pivots.stride)
        }
    };
    for index in 0..lu.count() {
        let row = rows_of(index);
        for j in 0..n {
            // SAFETY: a pivot of the batch.
            let pivot = unsafe { *row(j) };
            if pivot < 0 || pivot >= n as i64 {
                return Err(Error::new(
                    ErrorCode::Argument,
                    format!(
                        "pivot {j} of item {index} is {pivot}, and the matrices have {n} rows; give piv as lu_factor \
                         returned it, counted from 0"
                    ),
                )
                .with("argument", "piv")
                .with("index", index)
                .in_operation("lu_solve"));
            }
        }
    }
    let call = Call {
        operation: "lu_solve",
        policy,
        factor: lu,
        part: Part::All,
        divides: true,
        b,
        check_finite,
    };
    // SAFETY: passed on; the pivots are rows.
    unsafe {
        call.run(token, out, |index, crew, factor, x| {
            let row = rows_of(index);
            let exchange = |j: usize| {
                let pivot = *row(j) as usize;
                if pivot != j {
                    std::ptr::swap_nonoverlapping(x.at(j, 0), x.at(pivot, 0), x.cols);
                }
            };
            if form == Form::Plain {
                (0..n).for_each(exchange);
                substitute(crew, factor, true, x)?;
                substitute_back(crew, factor, false, x)
            } else {
                let factor = form.of(factor);
                substitute(crew, factor, false, x)?;
                substitute_back(crew, factor, true, x)?;
                (0..n).rev().for_each(exchange);
                Ok(())
            }
        })
    }
}

/// The solution of `a @ x = b` with a Cholesky factor of `a`, of which one triangle is read.
///
/// # Safety
/// As `solve_triangular`.
pub unsafe fn cho_solve<T: Field>(
    token: &mut Token<'_>,
    policy: BatchPolicy,
    c: &Matrices<'_, T>,
    b: &Matrices<'_, T>,
    triangle: Triangle,
    check_finite: bool,
    out: *mut T,
) -> Result<()> {
    let call = Call {
        operation: "cho_solve",
        policy,
        factor: c,
        part: triangle.part(),
        divides: true,
        b,
        check_finite,
    };
    // SAFETY: passed on.
    unsafe {
        call.run(token, out, |_, crew, factor, x| {
            let lower = if triangle == Triangle::Lower {
                factor
            } else {
                factor.adjoint()
            };
            substitute(crew, lower, false, x)?;
            substitute_back(crew, lower.adjoint(), false, x)
        })
    }
}
