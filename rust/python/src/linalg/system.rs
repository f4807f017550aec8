//! A matrix (or its factors) and right-hand sides, of one dtype and broadcast to one batch shape.

use pyo3::prelude::*;
use treadle_core::{DType, Error, ErrorCode};

use super::operand::{Stack, as_type, common, floating, shape_text, view_of};
use crate::door::Address;
use crate::errors::raise;

/// The shape to which two batches broadcast.
pub(super) fn broadcast(
    py: Python<'_>,
    a: &[usize],
    b: &[usize],
    operation: &'static str,
) -> PyResult<Vec<usize>> {
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
                Err(raise(py, error.with_operand(1).in_operation(operation)))
            }
        })
        .collect()
}

/// What a call of that kind computes with.
pub(super) struct System<'py> {
    pub(super) dtype: DType,
    pub(super) a: Stack,
    pub(super) b: Stack,
    /// The right-hand side is one vector for all, and so are the results.
    vector: bool,
    _arrays: [Bound<'py, PyAny>; 2],
}

impl<'py> System<'py> {
    pub(super) fn read(
        a: &Bound<'py, PyAny>,
        b: &Bound<'py, PyAny>,
        operation: &'static str,
    ) -> PyResult<Self> {
        let py = a.py();
        let mut a_array = floating(a, operation, 0)?;
        let mut b_array = floating(b, operation, 1)?;
        let dtype = common(view_of(&a_array)?.dtype, view_of(&b_array)?.dtype);
        for array in [&mut a_array, &mut b_array] {
            if view_of(array)?.dtype != dtype {
                *array = as_type(array, dtype)?;
            }
        }
        let a = Stack::of(py, &view_of(&a_array)?, operation, 0)?.square(py, operation, 0)?;
        let b_view = view_of(&b_array)?;
        let vector = b_view.ndim() == 1;
        let b = if vector {
            Stack::of_vector(&b_view)
        } else {
            Stack::of(py, &b_view, operation, 1)?
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
            return Err(raise(py, error.with_operand(1).in_operation(operation)));
        }
        let batch = broadcast(py, &a.batch, &b.batch, operation)?;
        Ok(System {
            dtype,
            a: a.broadcast(&batch),
            b: b.broadcast(&batch),
            vector,
            _arrays: [a_array, b_array],
        })
    }

    /// The shape of the solution.
    pub(super) fn shape(&self) -> Vec<usize> {
        if self.vector {
            self.b.shape_with(&[self.b.rows])
        } else {
            self.b.shape_with(&[self.b.rows, self.b.cols])
        }
    }
}

/// Rows of integers, `(..., N)`, that go with a batch of matrices.
pub(super) struct Rows<'py> {
    pub(super) batch_strides: Vec<isize>,
    pub(super) stride: isize,
    pub(super) data: Address<u8>,
    _array: Bound<'py, PyAny>,
}

impl<'py> Rows<'py> {
    /// Reads `piv`, which must have `order` entries for each matrix of `batch`, to which its leading axes broadcast.
    pub(super) fn read(
        object: &Bound<'py, PyAny>,
        order: usize,
        batch: &[usize],
        operation: &'static str,
    ) -> PyResult<Self> {
        let py = object.py();
        let numpy = PyModule::import(py, "numpy")?;
        let given = numpy.call_method1("asarray", (object,))?;
        let kind = given.getattr("dtype")?.getattr("kind")?.extract::<String>()?;
        // Where there are none, their type says nothing.
        let some = given.getattr("size")?.extract::<usize>()? > 0;
        if some && kind != "i" && kind != "u" {
            let name = given.getattr("dtype")?.str()?.to_string();
            let error = Error::new(
                ErrorCode::DType,
                format!("piv has dtype {name}; give the integers that lu_factor returned"),
            )
            .with("expected", "an integer")
            .with("actual", name);
            return Err(raise(py, error.in_operation(operation)));
        }
        let array = if some {
            given.call_method1("astype", ("int64",))?
        } else {
            numpy.call_method1("empty", (given.getattr("shape")?, "int64"))?
        };
        let view = view_of(&array)?;
        let (sizes, strides) = (view.sizes(), view.strides());
        let refuse = || {
            let error = Error::new(
                ErrorCode::MatrixShape,
                format!(
                    "piv has shape {}; give {order} pivots for each matrix of the batch {}, as lu_factor returned them",
                    shape_text(&sizes),
                    shape_text(batch)
                ),
            );
            raise(py, error.with("argument", "piv").in_operation(operation))
        };
        let Some((&last, lead)) = sizes.split_last() else {
            return Err(refuse());
        };
        if last != order || lead.len() > batch.len() {
            return Err(refuse());
        }
        let missing = batch.len() - lead.len();
        let mut batch_strides = vec![0; batch.len()];
        for (axis, &length) in lead.iter().enumerate() {
            if length == batch[missing + axis] {
                batch_strides[missing + axis] = strides[axis];
            } else if length != 1 {
                return Err(refuse());
            }
        }
        Ok(Rows {
            batch_strides,
            stride: strides[lead.len()],
            data: Address(view.data),
            _array: array,
        })
    }
}
