//! Reading an ndarray: type, dtype, pointer, shape and strides, each once.

use std::ffi::{c_int, c_long};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicI32, Ordering};

use numpy::npyffi::{NpyTypes, PyArray_Descr, PyArrayObject, PyArrayObject_fields, get_type_object};
use pyo3::ffi::{Py_TYPE, PyTypeObject};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use treadle_core::DType;

/// numpy's `NPY_ARRAY_ALIGNED` and `NPY_ARRAY_WRITEABLE`.
const ALIGNED: c_int = 0x0100;
const WRITEABLE: c_int = 0x0400;
/// numpy's `NPY_ARRAY_C_CONTIGUOUS` and `NPY_ARRAY_F_CONTIGUOUS`.
const C_CONTIGUOUS: c_int = 0x0001;
const CONTIGUOUS: c_int = 0x0003;

struct ArrayType(*mut PyTypeObject);
// SAFETY: the address of a static type object; it is compared, never followed.
unsafe impl Send for ArrayType {}
// SAFETY: as above.
unsafe impl Sync for ArrayType {}

/// The type object of `numpy.ndarray`.
#[inline]
pub(super) fn array_type(py: Python<'_>) -> *mut PyTypeObject {
    static ARRAY_TYPE: PyOnceLock<ArrayType> = PyOnceLock::new();
    ARRAY_TYPE
        .get_or_init(py, || {
            // SAFETY: the interpreter is attached and numpy's table is loaded on first use.
            ArrayType(unsafe { get_type_object(py, NpyTypes::PyArray_Type) })
        })
        .0
}

/// A plain ndarray whose elements can be read where they lie: native byte order, aligned, strides that are whole
/// elements.
#[derive(Clone, Copy)]
pub(crate) struct ArrayView<'a> {
    /// The element type.
    pub(crate) dtype: DType,
    /// The first element.
    pub(crate) data: *mut u8,
    /// Sizes, never negative.
    shape: *const isize,
    /// Strides in bytes.
    strides: *const isize,
    ndim: usize,
    flags: c_int,
    array: PhantomData<&'a ()>,
}

/// True where C's `long` has 64 bits; there `int64` is `long`, elsewhere `long` is `int32` and `long long` is `int64`.
const LONG_IS_64: bool = size_of::<c_long>() == 8;

/// numpy's type number as our dtype, for the numbers that numpy's own names have: an `int64` of another C name takes
/// the slow road, where the result gets that name too.
#[inline]
fn dtype_of(type_num: c_int) -> Option<DType> {
    Some(match type_num {
        12 => DType::F64,
        11 => DType::F32,
        15 => DType::C128,
        14 => DType::C64,
        0 => DType::Bool,
        1 => DType::I8,
        2 => DType::U8,
        3 => DType::I16,
        4 => DType::U16,
        5 if LONG_IS_64 => DType::I32,
        6 if LONG_IS_64 => DType::U32,
        7 if LONG_IS_64 => DType::I64,
        7 => DType::I32,
        8 if LONG_IS_64 => DType::U64,
        8 => DType::U32,
        9 if !LONG_IS_64 => DType::I64,
        10 if !LONG_IS_64 => DType::U64,
        23 => DType::F16,
        _ => return extension(type_num),
    })
}

/// numpy's number of the `bfloat16` that the package ml_dtypes brings, once an array of it has been seen.
static BFLOAT16: AtomicI32 = AtomicI32::new(-1);
/// The numbers of dtypes that are not numpy's own begin here.
const FIRST_EXTENSION: c_int = 256;

#[cold]
fn extension(type_num: c_int) -> Option<DType> {
    (type_num >= FIRST_EXTENSION && type_num == BFLOAT16.load(Ordering::Relaxed)).then_some(DType::BF16)
}

/// As `dtype_of`, for the second C names of 32 and 64 bits.
#[cold]
fn dtype_of_second_name(type_num: c_int) -> Option<DType> {
    Some(match type_num {
        5 => DType::I32,
        6 => DType::U32,
        9 => DType::I64,
        10 => DType::U64,
        _ => return None,
    })
}

/// The dtype of a numpy dtype object, under whichever C name; learns `bfloat16` by its name.
pub(crate) fn dtype_of_object(object: &Bound<'_, PyAny>) -> Option<DType> {
    // SAFETY: `object` is alive; only what is a dtype is read as one, whose first fields are the same in numpy 1 and 2.
    let number = unsafe {
        let dtype_type = get_type_object(object.py(), NpyTypes::PyArrayDescr_Type);
        if pyo3::ffi::PyObject_TypeCheck(object.as_ptr(), dtype_type) == 0 {
            return None;
        }
        (*object.as_ptr().cast::<PyArray_Descr>()).fields.type_num
    };
    if number >= FIRST_EXTENSION && BFLOAT16.load(Ordering::Relaxed) < 0 {
        let is_bfloat16 = object
            .getattr("name")
            .is_ok_and(|name| name.eq("bfloat16").unwrap_or(false));
        if is_bfloat16 {
            BFLOAT16.store(number, Ordering::Relaxed);
        }
    }
    dtype_of(number).or_else(|| dtype_of_second_name(number))
}

/// numpy's type number of our dtype; `None` for a bfloat16 of which no array has been seen.
pub(crate) fn type_num(dtype: DType) -> Option<c_int> {
    Some(match dtype {
        DType::Bool => 0,
        DType::I8 => 1,
        DType::U8 => 2,
        DType::I16 => 3,
        DType::U16 => 4,
        DType::I32 if LONG_IS_64 => 5,
        DType::I32 => 7,
        DType::U32 if LONG_IS_64 => 6,
        DType::U32 => 8,
        DType::I64 if LONG_IS_64 => 7,
        DType::I64 => 9,
        DType::U64 if LONG_IS_64 => 8,
        DType::U64 => 10,
        DType::F16 => 23,
        DType::F32 => 11,
        DType::F64 => 12,
        DType::C64 => 14,
        DType::C128 => 15,
        DType::BF16 => return Some(BFLOAT16.load(Ordering::Relaxed)).filter(|&number| number >= 0),
    })
}

/// Reads `object` when it is exactly an ndarray that can be used in place; anything else is the slow path's.
#[inline(always)]
pub(crate) fn exact_array<'a>(object: &'a Bound<'_, PyAny>) -> Option<ArrayView<'a>> {
    exact_array_of(object.as_borrowed())
}

/// As [`exact_array`], for an object that something else holds.
#[inline(always)]
pub(crate) fn exact_array_of<'a>(object: Borrowed<'a, '_, PyAny>) -> Option<ArrayView<'a>> {
    read(object, dtype_of)
}

/// An ndarray as it lies in memory, with elements that may have to be converted before anything reads them.
#[derive(Clone, Copy)]
pub(crate) struct Stored<'a> {
    /// Strides of it may be no whole elements.
    pub(crate) array: ArrayView<'a>,
    /// True for the other byte order.
    pub(crate) is_swapped: bool,
    /// True for native byte order, alignment and strides of whole elements.
    pub(crate) is_plain: bool,
}

impl<'a> Stored<'a> {
    /// An array that can be read in place.
    #[inline]
    pub(crate) fn plain(array: ArrayView<'a>) -> Self {
        Stored {
            array,
            is_swapped: false,
            is_plain: true,
        }
    }

    /// Reads `object` when it is exactly an ndarray of a dtype that treadle has, in whatever byte order and alignment.
    pub(crate) fn read(object: Borrowed<'a, '_, PyAny>) -> Option<Self> {
        let pointer = object.as_ptr();
        // SAFETY: `object` is a live object.
        if unsafe { Py_TYPE(pointer) } != array_type(object.py()) {
            return None;
        }
        // SAFETY: as in `read`.
        let (fields, descr, byteorder) = unsafe {
            let fields = &(*pointer.cast::<PyArrayObject>()).fields;
            let byteorder = (*fields.descr).fields.byteorder as u8;
            (
                fields,
                Bound::from_borrowed_ptr(object.py(), fields.descr.cast()),
                byteorder,
            )
        };
        let dtype = dtype_of_object(&descr)?;
        let is_swapped = byteorder
            == if cfg!(target_endian = "little") {
                b'>'
            } else {
                b'<'
            };
        let array = ArrayView::of(dtype, fields);
        let is_plain = !is_swapped && fields.flags & ALIGNED != 0 && array.has_whole_strides();
        Some(Stored {
            array,
            is_swapped,
            is_plain,
        })
    }
}

#[inline(always)]
fn read<'a>(
    object: Borrowed<'a, '_, PyAny>,
    dtype_of: impl FnOnce(c_int) -> Option<DType>,
) -> Option<ArrayView<'a>> {
    let pointer = object.as_ptr();
    // SAFETY: `object` is a live object.
    if unsafe { Py_TYPE(pointer) } != array_type(object.py()) {
        return None;
    }
    // SAFETY: the type is exactly ndarray, whose struct starts with these fields in numpy 1 and 2; `descr` is
    // never null, and its first fields are the same in both.
    let (fields, byteorder, number) = unsafe {
        let fields = &(*pointer.cast::<PyArrayObject>()).fields;
        let descr = &(*fields.descr).fields;
        (fields, descr.byteorder as u8, descr.type_num)
    };
    let dtype = dtype_of(number)?;
    if !(byteorder == b'=' || byteorder == b'|') || fields.flags & ALIGNED == 0 {
        return None;
    }
    let view = ArrayView::of(dtype, fields);
    view.has_whole_strides().then_some(view)
}

impl<'a> ArrayView<'a> {
    #[inline(always)]
    fn of(dtype: DType, fields: &PyArrayObject_fields) -> Self {
        ArrayView {
            dtype,
            data: fields.data.cast(),
            shape: fields.dimensions.cast_const().cast(),
            strides: fields.strides.cast_const().cast(),
            ndim: fields.nd as usize,
            flags: fields.flags,
            array: PhantomData,
        }
    }

    /// True when every stride is a whole number of elements.
    #[inline(always)]
    fn has_whole_strides(&self) -> bool {
        let low_bits = self.dtype.size() as isize - 1;
        self.byte_strides().iter().all(|stride| stride & low_bits == 0)
    }

    /// Axes.
    #[inline]
    pub(crate) fn ndim(&self) -> usize {
        self.ndim
    }

    /// The sizes, as numpy stores them.
    #[inline]
    pub(crate) fn shape(&self) -> &'a [isize] {
        if self.ndim == 0 {
            return &[];
        }
        // SAFETY: numpy keeps `ndim` sizes at this address for as long as the array lives, and `'a` borrows it.
        unsafe { std::slice::from_raw_parts(self.shape, self.ndim) }
    }

    /// The strides in bytes.
    #[inline]
    pub(crate) fn byte_strides(&self) -> &'a [isize] {
        if self.ndim == 0 {
            return &[];
        }
        // SAFETY: as for `shape`.
        unsafe { std::slice::from_raw_parts(self.strides, self.ndim) }
    }

    /// Size of one axis.
    #[inline]
    pub(crate) fn size(&self, axis: usize) -> usize {
        self.shape()[axis] as usize
    }

    /// Stride of one axis in elements.
    #[inline]
    pub(crate) fn stride(&self, axis: usize) -> isize {
        self.byte_strides()[axis] >> self.dtype.size().trailing_zeros()
    }

    /// The sizes as the core wants them.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        self.shape().iter().map(|&size| size as usize).collect()
    }

    /// The strides in elements.
    pub(crate) fn strides(&self) -> Vec<isize> {
        (0..self.ndim).map(|axis| self.stride(axis)).collect()
    }

    /// Whether numpy lets it be written.
    #[inline]
    pub(crate) fn is_writeable(&self) -> bool {
        self.flags & WRITEABLE != 0
    }

    /// All elements in C order along one axis, if they stand so that one stride reaches them; `room` holds size and
    /// stride of that axis.
    pub(crate) fn flat<'b>(&'b self, room: &'b mut [isize; 2]) -> Option<ArrayView<'b>> {
        if self.ndim != 1 && self.flags & C_CONTIGUOUS == 0 {
            return None;
        }
        // The sizes of an existing array have a product that fits.
        *room = match (self.shape(), self.byte_strides()) {
            ([size], [stride]) => [*size, *stride],
            (shape, _) => [shape.iter().product(), self.dtype.size() as isize],
        };
        let mut flat: ArrayView<'b> = *self;
        flat.shape = &raw const room[0];
        flat.strides = &raw const room[1];
        flat.ndim = 1;
        Some(flat)
    }

    /// The first byte of the elements and the byte behind the last; equal when there is none.
    pub(crate) fn byte_bounds(&self) -> (usize, usize) {
        let (mut low, mut high) = (self.data as usize, self.data as usize);
        for (&size, &stride) in self.shape().iter().zip(self.byte_strides()) {
            if size == 0 {
                return (self.data as usize, self.data as usize);
            }
            let reach = (size - 1).wrapping_mul(stride);
            if reach < 0 {
                low = low.wrapping_add_signed(reach);
            } else {
                high = high.wrapping_add_signed(reach);
            }
        }
        (low, high + self.dtype.size())
    }

    /// True when the elements certainly lie apart: each stride steps over everything inside it. A dense array is.
    pub(crate) fn is_certainly_injective(&self) -> bool {
        if self.flags & CONTIGUOUS != 0 {
            return true;
        }
        let mut axes: Vec<(usize, usize)> = self
            .shape()
            .iter()
            .zip(self.byte_strides())
            .filter(|(size, _)| **size > 1)
            .map(|(&size, &stride)| (stride.unsigned_abs(), size as usize))
            .collect();
        axes.sort_unstable();
        let mut extent = self.dtype.size();
        for (stride, size) in axes {
            if stride < extent {
                return false;
            }
            extent = extent.saturating_add(stride.saturating_mul(size - 1));
        }
        true
    }
}
