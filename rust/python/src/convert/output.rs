//! New arrays: small ones from numpy's allocator, large ones from the engine's buffers.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use numpy::PY_ARRAY_API;
use numpy::npyffi::{PyArray_Descr, PyArrayObject, npy_intp};
use pyo3::exceptions::{PyMemoryError, PyTypeError};
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use treadle_core::{DType, Error, ErrorCode};
use treadle_engine::{Buffer, BufferPool};

use crate::convert::array::{array_type, type_num};
use crate::errors::raise;

/// From this size on memory comes from the engine's buffers: below, numpy's small-block cache is the cheapest.
const POOLED_BYTES: usize = 64 << 10;
/// numpy's bound on the number of axes.
const MAX_DIMS: usize = 64;
/// `NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE`.
const CARRAY_FLAGS: c_int = 0x0500;

/// Called when the last array over the memory dies, on whatever thread holds the interpreter then.
unsafe extern "C" fn give_back(capsule: *mut PyObject) {
    // SAFETY: the capsule was made in `keep_with` with this name and the address of a leaked `Box<Buffer>`; a
    // capsule's destructor runs once.
    unsafe {
        let buffer = ffi::PyCapsule_GetPointer(capsule, CAPSULE_NAME.as_ptr());
        if !buffer.is_null() {
            drop(Box::from_raw(buffer.cast::<Buffer>()));
        }
    }
}

const CAPSULE_NAME: &std::ffi::CStr = c"treadle.buffer";

#[cold]
fn too_large(py: Python<'_>, operation: &'static str, shape: &[usize], dtype: DType) -> PyErr {
    let sizes = shape
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    raise(
        py,
        Error::new(
            ErrorCode::SizeOverflow,
            format!("a result of shape ({sizes}) and dtype {dtype} has more bytes than any array can have"),
        )
        .in_operation(operation),
    )
}

/// What there is to know of arrays to be made, before the first is made.
pub(crate) struct Blank {
    operation: &'static str,
    number: c_int,
    shape: Box<[usize]>,
    /// In bytes; none for C order.
    strides: Option<Box<[npy_intp]>>,
    bytes: usize,
}

impl Blank {
    /// Arrays of that shape; `strides` in elements, C order without.
    pub(crate) fn new(
        py: Python<'_>,
        operation: &'static str,
        dtype: DType,
        shape: &[usize],
        strides: Option<&[isize]>,
    ) -> PyResult<Blank> {
        let measured = measure(py, operation, dtype, shape, strides)?;
        let size = dtype.size() as npy_intp;
        Ok(Blank {
            operation,
            number: measured.number,
            shape: shape.into(),
            strides: strides
                .filter(|_| !measured.is_dense)
                .map(|strides| strides.iter().map(|stride| stride * size).collect()),
            bytes: measured.bytes,
        })
    }

    /// An uninitialised array and its first element. The caller writes every element before anyone else can see it.
    #[inline]
    pub(crate) fn make<'py>(
        &self,
        py: Python<'py>,
        buffers: &BufferPool,
    ) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
        let strides = self
            .strides
            .as_ref()
            .map_or(null_mut(), |strides| strides.as_ptr().cast_mut());
        // SAFETY: measured by `new`; the strides are a permutation of dense ones, in bytes.
        unsafe {
            allocate(
                py,
                self.operation,
                self.number,
                &self.shape,
                strides,
                self.bytes,
                buffers,
            )
        }
    }
}

struct Measured {
    number: c_int,
    bytes: usize,
    /// True for C order.
    is_dense: bool,
}

#[inline]
fn measure(
    py: Python<'_>,
    operation: &'static str,
    dtype: DType,
    shape: &[usize],
    strides: Option<&[isize]>,
) -> PyResult<Measured> {
    let ndim = shape.len();
    if ndim > MAX_DIMS {
        return Err(too_many_axes(py, operation, ndim));
    }
    let Some(number) = type_num(dtype) else {
        return Err(PyTypeError::new_err(
            "a bfloat16 result comes from bfloat16 operands, or from a dtype that was given",
        ));
    };
    let mut bytes = Some(dtype.size());
    let mut dense = 1;
    let mut is_dense = true;
    for axis in (0..ndim).rev() {
        is_dense &= strides.is_none_or(|strides| strides[axis] == dense || shape[axis] == 1);
        dense = dense.wrapping_mul(shape[axis] as isize);
        bytes = bytes.and_then(|bytes| bytes.checked_mul(shape[axis]));
    }
    match bytes.filter(|&bytes| bytes <= isize::MAX as usize) {
        Some(bytes) => Ok(Measured {
            number,
            bytes,
            is_dense,
        }),
        None => Err(too_large(py, operation, shape, dtype)),
    }
}

#[cold]
fn too_many_axes(py: Python<'_>, operation: &'static str, ndim: usize) -> PyErr {
    raise(
        py,
        Error::new(
            ErrorCode::Shape,
            format!("the result has {ndim} axes and a numpy array at most {MAX_DIMS}; sum or reshape some"),
        )
        .in_operation(operation),
    )
}

/// An uninitialised array of that shape; `strides` in elements, C order without. Returns the array and its first
/// element.
///
/// The caller writes every element before anyone else can see the array.
#[inline]
pub(crate) fn new_array<'py>(
    py: Python<'py>,
    operation: &'static str,
    dtype: DType,
    shape: &[usize],
    strides: Option<&[isize]>,
    buffers: &BufferPool,
) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    let measured = measure(py, operation, dtype, shape, strides)?;
    // numpy lays out C order by itself, for less than it takes to check what we would say.
    let mut steps = [MaybeUninit::<npy_intp>::uninit(); MAX_DIMS];
    let steps = match strides {
        Some(strides) if !measured.is_dense => {
            for (step, &stride) in steps.iter_mut().zip(strides) {
                step.write(stride * dtype.size() as npy_intp);
            }
            steps.as_mut_ptr().cast::<npy_intp>()
        }
        _ => null_mut(),
    };
    // SAFETY: measured right here; the strides are a permutation of dense ones, in bytes.
    unsafe {
        allocate(
            py,
            operation,
            measured.number,
            shape,
            steps,
            measured.bytes,
            buffers,
        )
    }
}

/// # Safety
/// `number` is a dtype of numpy's own; `shape` has at most `MAX_DIMS` axes and `bytes` bytes in all, at most
/// `isize::MAX`; `strides` is null, or has one stride an axis that permute the dense ones.
#[inline]
unsafe fn allocate<'py>(
    py: Python<'py>,
    operation: &'static str,
    number: c_int,
    shape: &[usize],
    strides: *mut npy_intp,
    bytes: usize,
    buffers: &BufferPool,
) -> PyResult<(Bound<'py, PyAny>, *mut u8)> {
    let buffer = if bytes < POOLED_BYTES {
        None
    } else {
        Some(
            buffers
                .take(bytes)
                .map_err(|error| raise(py, error.in_operation(operation)))?,
        )
    };
    let data = buffer.as_ref().map_or(null_mut(), Buffer::as_ptr);
    // SAFETY: the interpreter is attached; `shape` and `strides` hold a value an axis, which numpy copies
    // (`npy_intp` is `isize`, and no size exceeds its maximum, for the bytes were counted); numpy steals the descriptor;
    // with `data` given, it is a block of at least `bytes` bytes, aligned for every dtype, and no element lies outside.
    // The block is tied to the array right below.
    unsafe {
        let descr: *mut PyArray_Descr = PY_ARRAY_API.PyArray_DescrFromType(py, number);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            array_type(py),
            descr,
            shape.len() as c_int,
            shape.as_ptr().cast_mut().cast::<npy_intp>(),
            strides,
            data.cast::<c_void>(),
            if data.is_null() { 0 } else { CARRAY_FLAGS },
            null_mut(),
        );
        let array =
            Bound::from_owned_ptr_or_err(py, array).map_err(|error| refused(py, operation, bytes, error))?;
        let fields = array.as_ptr().cast::<PyArrayObject>();
        if let Some(buffer) = buffer {
            keep_with(py, fields, buffer)?;
        }
        let data = (*fields).fields.data.cast::<u8>();
        Ok((array, data))
    }
}

/// numpy's own `MemoryError` as ours.
#[cold]
fn refused(py: Python<'_>, operation: &'static str, bytes: usize, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyMemoryError>(py) {
        return error;
    }
    let message = format!("the machine refused {bytes} bytes; free memory, or use smaller sizes");
    let refusal = Error::new(ErrorCode::OutOfMemory, message).with("bytes", bytes);
    raise(py, refusal.in_operation(operation))
}

/// Ties a block to the array over it.
///
/// # Safety
/// `array` is a new array over the block, without a base.
unsafe fn keep_with(py: Python<'_>, array: *mut PyArrayObject, buffer: Buffer) -> PyResult<()> {
    // SAFETY: the interpreter is attached; the capsule's destructor frees what it is given here.
    unsafe {
        let capsule = ffi::PyCapsule_New(
            Box::into_raw(Box::new(buffer)).cast::<c_void>(),
            CAPSULE_NAME.as_ptr(),
            Some(give_back),
        );
        if capsule.is_null() {
            return Err(PyErr::fetch(py));
        }
        // Steals the capsule.
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array, capsule) != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    Ok(())
}
