//! `solve`.

use pyo3::prelude::*;
use treadle_core::{Error, ErrorCode};
use treadle_linalg::cost;

use super::operand::{Stack, as_type, common, floating, shape_text, view_of};
use super::run::Call;
use super::{Linalg, with_field};
use crate::errors::raise;

/// The shape to which two batches broadcast.
fn broadcast(py: Python<'_>, a: &[usize], b: &[usize]) -> PyResult<Vec<usize>> {
    let length = a.len().max(b.len());
    let axis = |shape: &[usize], i: usize| (i + shape.len()).checked_sub(length).map_or(1, |own| shape[own]);
    (0..length)
        .map(|i| match (axis(a, i), axis(b, i)) {
            (x, y) if x == y => Ok(x),
            (1, y) => Ok(y),
            (x, 1) => Ok(x),
            (x, y) => {
                let error = Error::new(
                    ErrorCode::Broadcast,
                    format!(
                        "operand 0 has batch axes {} and operand 1 {}, which do not broadcast ({x} and {y}); make the \
                         lengths equal or one of them 1",
                        shape_text(a),
                        shape_text(b)
                    ),
                );
                Err(raise(py, error.with_operand(1).in_operation("solve")))
            }
        })
        .collect()
}

#[pymethods]
impl Linalg {
    /// Solution `x` of ``a @ x = b``.
    ///
    /// Parameters
    /// ----------
    /// a : array_like
    ///     ``(..., M, M)``.
    /// b : array_like
    ///     ``(M,)``, one vector for all, or ``(..., M, K)``, whose leading axes broadcast with those of `a`.
    /// check_finite : bool, default True
    ///     Refuse NaN and infinity.
    ///
    /// Returns
    /// -------
    /// ndarray
    ///     ``(..., M)`` for a vector, else ``(..., M, K)``.
    ///
    /// Raises
    /// ------
    /// MatrixShapeError, BroadcastError
    ///     For matrices that are not square, or sizes that do not fit.
    /// NonFiniteError, SingularMatrixError
    ///     With ``.index``, the lowest failing item of the batch. Singular means a pivot that is exactly zero: nearly
    ///     singular matrices are solved.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np, treadle as td
    /// >>> td.CpuEngine.serial().linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    /// array([1. , 0.5])
    #[pyo3(signature = (a, b, *, check_finite = true))]
    fn solve<'py>(
        &self,
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        check_finite: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = a.py();
        let mut a_array = floating(a, "solve", 0)?;
        let mut b_array = floating(b, "solve", 1)?;
        let dtype = common(view_of(&a_array)?.dtype, view_of(&b_array)?.dtype);
        for array in [&mut a_array, &mut b_array] {
            if view_of(array)?.dtype != dtype {
                *array = as_type(array, dtype)?;
            }
        }
        let a = Stack::of(py, &view_of(&a_array)?, "solve", 0)?.square(py, "solve", 0)?;
        let b_view = view_of(&b_array)?;
        let vector = b_view.ndim() == 1;
        let b = if vector {
            Stack::of_vector(&b_view)
        } else {
            Stack::of(py, &b_view, "solve", 1)?
        };
        if a.rows != b.rows {
            let error = Error::new(
                ErrorCode::MatrixShape,
                format!(
                    "operand 0 has matrices of {} by {} and operand 1 has {} rows (shape {}; only a one-dimensional b is a \
                     vector); make them equal",
                    a.rows,
                    a.cols,
                    b.rows,
                    shape_text(&b_view.sizes())
                ),
            );
            return Err(raise(py, error.with_operand(1).in_operation("solve")));
        }
        let batch = broadcast(py, &a.batch, &b.batch)?;
        let (a, b) = (a.broadcast(&batch), b.broadcast(&batch));
        let (n, sides) = (b.rows, b.cols);
        let call = Call::enter(py, self, "solve")?;
        let shape = if vector {
            b.shape_with(&[n])
        } else {
            b.shape_with(&[n, sides])
        };
        let (x, data) = call.new_array(dtype, &shape)?;
        let nanoseconds = a.count() * cost::solve(n, sides, dtype.is_complex());
        call.run(nanoseconds, |token, policy| {
            with_field!(dtype, T => {
                let (a, b) = (a.matrices::<T>(), b.matrices::<T>());
                // SAFETY: the arrays are alive for the whole call; the output is new and has the broadcast shape of b.
                unsafe { treadle_linalg::solve(token, policy, &a, &b, check_finite, data.get().cast::<T>()) }
            })
        })?;
        Ok(x)
    }
}
