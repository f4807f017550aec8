//! Results that need no arithmetic: views and numpy scalars.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use numpy::PY_ARRAY_API;
use numpy::npyffi::{NpyTypes, PyArrayObject, get_type_object, npy_intp};
use pyo3::ffi;
use pyo3::prelude::*;
use treadle_core::subscripts::{Bound as BoundSubscripts, Label};

use crate::convert::ArrayView;

/// A 0-d array becomes the numpy scalar.
pub(super) fn to_scalar(array: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    let py = array.py();
    // SAFETY: `array` is an ndarray of ours; PyArray_Return steals the reference and gives a new one.
    unsafe {
        let scalar = PY_ARRAY_API.PyArray_Return(py, array.into_ptr().cast::<PyArrayObject>());
        Bound::from_owned_ptr_or_err(py, scalar)
    }
}

/// True when one operand of that shape loses nothing: no label is summed and no axis stretches.
pub(super) fn is_view(bound: &BoundSubscripts, shape: &[usize]) -> bool {
    let labels: &[Label] = &bound.inputs[0];
    labels.iter().all(|label| bound.output.contains(label))
        && labels
            .iter()
            .zip(shape)
            .all(|(&label, &size)| bound.extents[label as usize] == size)
}

/// Shape and byte strides of the view that one operand with nothing summed is; `None` when something is summed or
/// an axis stretches.
pub(super) fn view_layout(
    bound: &BoundSubscripts,
    array: &ArrayView<'_>,
) -> Option<(Vec<usize>, Vec<isize>)> {
    if !is_view(bound, &array.sizes()) {
        return None;
    }
    let labels: &[Label] = &bound.inputs[0];
    let strides = bound
        .output
        .iter()
        .map(|wanted| {
            labels
                .iter()
                .zip(array.byte_strides())
                .filter(|(label, _)| *label == wanted)
                .map(|(_, s)| s)
                .sum()
        })
        .collect();
    Some((bound.output_shape(), strides))
}

/// A view of `base` that starts where it starts; one of no axes is a numpy scalar, as every result of no axes.
///
/// # Safety
/// Every element that `shape` and `strides` (bytes) reach is an element of `base`.
pub(super) unsafe fn new_view<'py>(
    base: &Bound<'py, PyAny>,
    array: &ArrayView<'_>,
    shape: &[usize],
    strides: &[isize],
) -> PyResult<Bound<'py, PyAny>> {
    let py = base.py();
    let mut dims: Vec<npy_intp> = shape.iter().map(|&size| size as npy_intp).collect();
    let mut steps: Vec<npy_intp> = strides.to_vec();
    // NPY_ARRAY_WRITEABLE, as far as the base is.
    let flags: c_int = if array.is_writeable() { 0x0400 } else { 0 };
    // SAFETY: the elements are the base's, which the view keeps alive; numpy steals the descriptor and the base.
    unsafe {
        let descr = (*base.as_ptr().cast::<PyArrayObject>()).fields.descr;
        ffi::Py_INCREF(descr.cast());
        let view = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr,
            dims.len() as c_int,
            dims.as_mut_ptr(),
            steps.as_mut_ptr(),
            array.data.cast::<c_void>(),
            flags,
            null_mut(),
        );
        let view = Bound::from_owned_ptr_or_err(py, view)?;
        let object = view.as_ptr().cast::<PyArrayObject>();
        if PY_ARRAY_API.PyArray_SetBaseObject(py, object, base.clone().into_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
        PY_ARRAY_API.PyArray_UpdateFlags(py, object, 0x0103);
        if shape.is_empty() {
            return to_scalar(view);
        }
        Ok(view)
    }
}
