//! What a user calls a matrix, as a strided batch of one of the four floating types.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use treadle_core::{DType, Error, ErrorCode};
use treadle_linalg::Matrices;

use crate::convert::{ArrayView, exact_array};
use crate::door::Address;
use crate::errors::raise;

/// True for the four types that factorisations compute in.
#[inline]
fn is_field(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::C128 | DType::C64)
}

/// The array behind `object`, of a floating type: itself when it can be read in place, else a copy (foreign byte order,
/// misaligned, lists) or, for booleans and integers, float64.
pub(super) fn floating<'py>(
    object: &Bound<'py, PyAny>,
    operation: &'static str,
    operand: usize,
) -> PyResult<Bound<'py, PyAny>> {
    if exact_array(object).is_some_and(|view| is_field(view.dtype)) {
        return Ok(object.clone());
    }
    let py = object.py();
    static ARRAYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let arrays = ARRAYS
        .get_or_try_init(py, || PyModule::import(py, "treadle._arrays").map(Bound::unbind))?
        .bind(py);
    let array = arrays
        .getattr(intern!(py, "as_readable"))?
        .call1((object, operation, operand))?;
    match exact_array(&array).map(|view| view.dtype) {
        Some(dtype) if is_field(dtype) => Ok(array),
        Some(DType::F16) | None => {
            let name = array.getattr("dtype")?.getattr("name")?.extract::<String>()?;
            let error = Error::new(
                ErrorCode::DType,
                format!(
                    "operand {operand} has dtype {name}, and linear algebra computes in float32, float64, complex64 and \
                     complex128; convert it, for example with .astype('float32')"
                ),
            )
            .with_operand(operand)
            .with("expected", "float32, float64, complex64, complex128")
            .with("actual", name);
            Err(raise(py, error.in_operation(operation)))
        }
        Some(_) => as_type(&array, DType::F64),
    }
}

/// A copy in another type.
pub(super) fn as_type<'py>(array: &Bound<'py, PyAny>, dtype: DType) -> PyResult<Bound<'py, PyAny>> {
    array.call_method1(intern!(array.py(), "astype"), (dtype.name(),))
}

/// The type in which two floating operands meet.
pub(super) fn common(a: DType, b: DType) -> DType {
    let complex = a.is_complex() || b.is_complex();
    let single = |dtype| matches!(dtype, DType::F32 | DType::C64);
    match (complex, single(a) && single(b)) {
        (false, true) => DType::F32,
        (false, false) => DType::F64,
        (true, true) => DType::C64,
        (true, false) => DType::C128,
    }
}

/// The type of norms and values.
pub(super) fn real_of(dtype: DType) -> DType {
    match dtype {
        DType::C64 => DType::F32,
        DType::C128 => DType::F64,
        other => other,
    }
}

/// A strided batch of matrices that crosses into a detached section.
pub(super) struct Stack {
    pub(super) dtype: DType,
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) batch: Vec<usize>,
    row_stride: isize,
    col_stride: isize,
    batch_strides: Vec<isize>,
    data: Address<u8>,
}

impl Stack {
    /// The last two axes are the matrix.
    pub(super) fn of(
        py: Python<'_>,
        view: &ArrayView<'_>,
        operation: &'static str,
        operand: usize,
    ) -> PyResult<Self> {
        let ndim = view.ndim();
        if ndim < 2 {
            let error = Error::new(
                ErrorCode::MatrixShape,
                format!(
                    "operand {operand} has shape {}; give a matrix or a stack of matrices, (..., M, N)",
                    shape_text(&view.sizes())
                ),
            );
            return Err(raise(py, error.with_operand(operand).in_operation(operation)));
        }
        let (mut batch, mut batch_strides) = (view.sizes(), view.strides());
        batch.truncate(ndim - 2);
        batch_strides.truncate(ndim - 2);
        Ok(Stack {
            dtype: view.dtype,
            rows: view.size(ndim - 2),
            cols: view.size(ndim - 1),
            batch,
            row_stride: view.stride(ndim - 2),
            col_stride: view.stride(ndim - 1),
            batch_strides,
            data: Address(view.data),
        })
    }

    /// A single vector as a matrix of one column.
    pub(super) fn of_vector(view: &ArrayView<'_>) -> Self {
        Stack {
            dtype: view.dtype,
            rows: view.size(0),
            cols: 1,
            batch: Vec::new(),
            row_stride: view.stride(0),
            col_stride: 1,
            batch_strides: Vec::new(),
            data: Address(view.data),
        }
    }

    /// Refuses matrices that are not square.
    pub(super) fn square(self, py: Python<'_>, operation: &'static str, operand: usize) -> PyResult<Self> {
        if self.rows == self.cols {
            return Ok(self);
        }
        let error = Error::new(
            ErrorCode::MatrixShape,
            format!(
                "operand {operand} has matrices of {} by {}; give square ones, (..., M, M)",
                self.rows, self.cols
            ),
        );
        Err(raise(py, error.with_operand(operand).in_operation(operation)))
    }

    /// How many matrices.
    pub(super) fn count(&self) -> f64 {
        self.batch.iter().map(|&length| length as f64).product()
    }

    /// The batch repeated to `shape`, of which it is a part.
    pub(super) fn broadcast(mut self, shape: &[usize]) -> Self {
        let missing = shape.len() - self.batch.len();
        let strides = shape
            .iter()
            .enumerate()
            .map(|(axis, &length)| match axis.checked_sub(missing) {
                Some(own) if self.batch[own] == length => self.batch_strides[own],
                _ => 0,
            })
            .collect();
        self.batch_strides = strides;
        self.batch = shape.to_vec();
        self
    }

    /// As the core takes it; `T` is the element type of `dtype`.
    pub(super) fn matrices<T>(&self) -> Matrices<'_, T> {
        Matrices {
            pointer: self.data.get().cast_const().cast(),
            rows: self.rows,
            cols: self.cols,
            row_stride: self.row_stride,
            col_stride: self.col_stride,
            batch_shape: &self.batch,
            batch_strides: &self.batch_strides,
        }
    }

    /// The batch shape followed by `rest`.
    pub(super) fn shape_with(&self, rest: &[usize]) -> Vec<usize> {
        self.batch.iter().chain(rest).copied().collect()
    }
}

/// A shape as Python writes it.
pub(super) fn shape_text(shape: &[usize]) -> String {
    match shape {
        [one] => format!("({one},)"),
        _ => format!(
            "({})",
            shape
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

/// Reads one operand: the array that keeps it alive, and its matrices.
pub(super) fn stack<'py>(
    object: &Bound<'py, PyAny>,
    operation: &'static str,
    operand: usize,
) -> PyResult<(Bound<'py, PyAny>, Stack)> {
    let array = floating(object, operation, operand)?;
    let stack = Stack::of(object.py(), &view_of(&array)?, operation, operand)?;
    Ok((array, stack))
}

/// The array that `floating` returned, read.
pub(super) fn view_of<'a>(array: &'a Bound<'_, PyAny>) -> PyResult<ArrayView<'a>> {
    exact_array(array).ok_or_else(|| {
        pyo3::exceptions::PyTypeError::new_err("the operand cannot be read in place after conversion")
    })
}
