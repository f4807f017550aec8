"""What counts as an array, and what has to be copied before the core can read it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treadle.exceptions import AliasingError, DTypeError, PerformanceWarning, ShapeError

#: Kinds of dtype that treadle computes with; ``bfloat16`` of ml_dtypes comes on top.
SUPPORTED = "bool, (u)int8 to (u)int64, float16, float32, float64, bfloat16, complex64, complex128"
_NATIVE_CHARS = frozenset("?bBhHiIlLqQefdFD")
#: Frames between a warning and the caller of an engine's method, for most methods.
CALLERS = 4
#: DLPack's number of the CPU, and of memory that the CPU can read as its own.
_DLPACK_HOST = {1: "CPU", 3: "CUDA host memory", 11: "ROCm host memory"}
_DLPACK_NAMES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed memory", 15: "WebGPU"}


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype is the bfloat16 of ml_dtypes, without importing it."""
    # numpy's own dtypes have smaller numbers, and a name costs more than the rest of the call.
    return dtype.num >= 256 and dtype.name == "bfloat16"


def is_half(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype accumulates in float32."""
    return dtype.char == "e" or is_bfloat16(dtype)


def check_dtype(dtype: np.dtype[Any], operation: str, operand: int | None = None) -> None:
    """Refuse a dtype that treadle does not compute with.

    Raises
    ------
    DTypeError
        With ``.actual`` (what was given) and ``.expected`` (what is taken).
    """
    if dtype.char in _NATIVE_CHARS or is_bfloat16(dtype):
        return
    where = "the dtype" if operand is None else f"operand {operand}"
    remedy = {
        "O": "convert it, for example with .astype(float)",
        "S": "convert it to numbers, for example to float64",
        "U": "convert it to numbers, for example to float64",
        "V": "take the fields apart",
        "M": "convert it, for example with .astype('int64')",
        "m": "convert it, for example with .astype('int64')",
        "f": "convert it to float64",
        "c": "convert it to complex128",
    }.get(dtype.kind, "convert it to float64")
    raise DTypeError(
        f"{operation}: {where} has dtype {dtype.name}, and treadle computes with {SUPPORTED}; {remedy}",
        operation=operation,
        operand=operand,
        expected=SUPPORTED,
        actual=dtype.name,
    )


def _no_array(value: object, operation: str, operand: int, why: str) -> DTypeError:
    kind = type(value).__name__
    return DTypeError(
        f"{operation}: operand {operand} is a {kind}, {why}; give an array of {SUPPORTED}",
        operation=operation,
        operand=operand,
        expected="an array",
        actual=kind,
    )


def _from_dlpack(value: Any, operation: str, operand: int) -> npt.NDArray[Any]:
    device = getattr(value, "__dlpack_device__", None)
    if device is not None:
        try:
            kind, number = (int(part) for part in device())
        except (TypeError, ValueError) as error:
            raise _no_array(value, operation, operand, f"whose __dlpack_device__ names no device ({error})") from error
        if kind not in _DLPACK_HOST:
            name = _DLPACK_NAMES.get(kind, f"DLPack device type {kind}")
            raise _no_array(
                value, operation, operand, f"on device {name}:{number}, and nothing is transferred silently"
            )
    try:
        array: npt.NDArray[Any] = np.from_dlpack(value)
    except (RuntimeError, TypeError, ValueError, BufferError) as error:
        try:
            # Producers from before the newer keywords take `stream` alone.
            array = np.from_dlpack(_PlainProducer(value))
        except (RuntimeError, TypeError, ValueError, BufferError):
            raise _no_array(value, operation, operand, f"and numpy cannot read its DLPack ({error})") from error
    return array


class _PlainProducer:
    """Calls ``__dlpack__`` without the keywords that older producers do not know."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __dlpack__(self, **_newer: Any) -> Any:
        return self._value.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def as_array(value: Any, operation: str, operand: int) -> npt.NDArray[Any]:
    """Read a value as numpy reads it, without a copy where numpy needs none.

    Parameters
    ----------
    value : array_like
        An ndarray, anything with the buffer protocol, ``__array_interface__`` or a CPU ``__dlpack__``, or nested
        sequences of numbers.
    operation : str
        For the message.
    operand : int
        For the message.

    Returns
    -------
    ndarray
        Exactly ``numpy.ndarray``, of a dtype that treadle computes with.

    Raises
    ------
    DTypeError
        For what is no array, an array on a device, a masked array, or a dtype that is not taken.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise _no_array(value, operation, operand, "whose mask would be lost; fill it first with .filled(...)")
    if isinstance(value, np.ndarray):
        array = value.view(np.ndarray) if type(value) is not np.ndarray else value
    elif isinstance(value, (bool, int, float, complex, np.generic)) or _is_sequence(value):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError) as error:
            raise _no_array(value, operation, operand, f"which is no array ({error})") from error
        except OverflowError as error:
            raise _no_array(value, operation, operand, f"with a number that no dtype holds ({error})") from error
    elif hasattr(value, "__array_interface__") or hasattr(value, "__array_struct__") or _has_buffer(value):
        try:
            array = np.asarray(value)
        except Exception as error:
            raise _no_array(value, operation, operand, f"which numpy cannot read ({error})") from error
        array = array.view(np.ndarray)
    elif hasattr(value, "__dlpack__"):
        array = _from_dlpack(value, operation, operand)
    else:
        raise _no_array(value, operation, operand, "which is no array")
    check_dtype(array.dtype, operation, operand)
    return array


def as_pair(a: Any, b: Any, operation: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Read two operands; a second one without numbers has the dtype of the first, as in numpy's ``dot``."""
    left, right = as_operand(a, operation, 0), as_operand(b, operation, 1)
    if right.size == 0 and _is_typeless(b):
        right = right.astype(left.dtype)
    return left, right


def _is_typeless(value: object) -> bool:
    """Tell whether a value is a sequence with nothing in it that has a dtype."""
    return _is_sequence(value) and all(_is_typeless(item) for item in value)  # type: ignore[attr-defined]


def _is_sequence(value: object) -> bool:
    """Tell whether numpy reads a value item by item: a list, a tuple, a range, and whatever else is a sequence."""
    if isinstance(value, (list, tuple)):
        return True
    return (
        isinstance(value, Sequence)
        and not isinstance(value, (str, bytes, bytearray, memoryview))
        and not any(hasattr(value, name) for name in ("__array_interface__", "__array_struct__", "__dlpack__"))
        and not _has_buffer(value)
    )


def _has_buffer(value: object) -> bool:
    try:
        memoryview(value).release()  # type: ignore[arg-type]
    except (TypeError, BufferError, ValueError):
        return False
    return True


def as_operand(value: Any, operation: str, operand: int) -> npt.NDArray[Any]:
    """Read a value as an array, and say so where a large one cannot be read where it lies.

    That is: foreign byte order, misaligned elements, strides that are no whole number of elements. The core converts
    those on the way. Anything else comes back as it is, or as a view whose dtype is numpy's own object.
    """
    array = as_array(value, operation, operand)
    dtype = array.dtype
    native = dtype.isnative
    if native and array.flags.aligned and all(stride % dtype.itemsize == 0 for stride in array.strides):
        # '<f8' where it is native is another object than 'f8', and the core compares objects.
        plain = dtype if dtype.num >= 256 else np.dtype(dtype.char)
        return array if plain is dtype else array.view(plain)
    if array.nbytes >= 1 << 20:
        reason = "its byte order is foreign" if not native else "its elements are not aligned"
        warnings.warn(
            f"an operand of shape {array.shape} is copied because {reason}", PerformanceWarning, stacklevel=CALLERS
        )
    return array


def as_readable(value: Any, operation: str, operand: int) -> npt.NDArray[Any]:
    """Read a value as an array that lies as linear algebra reads it: what `as_operand` warns of is copied."""
    array = as_operand(value, operation, operand)
    dtype = array.dtype
    if dtype.isnative and array.flags.aligned and all(stride % dtype.itemsize == 0 for stride in array.strides):
        return array
    return array.astype(dtype.newbyteorder("="), order="K", copy=True)


def _overlaps_itself(array: npt.NDArray[Any]) -> bool:
    """Tell whether two indices of an array are one element, exactly."""
    if array.size > 0 and any(st == 0 and n > 1 for st, n in zip(array.strides, array.shape, strict=True)):
        return True
    extent = array.itemsize
    crossing = False
    for stride, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        crossing = crossing or stride < extent
        extent += stride * (size - 1)
    if not crossing or array.size < 2:
        return False
    offsets = np.zeros((), dtype=np.int64)
    for stride, size in zip(array.strides, array.shape, strict=True):
        offsets = np.add.outer(offsets, np.arange(size, dtype=np.int64) * stride)
    ordered = np.sort(offsets, axis=None)
    return bool(np.any(np.diff(ordered) < array.itemsize))


def single_out(out: Any) -> Any:
    """Take `out` from the tuple of one that numpy's ufuncs accept."""
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def check_out(
    out: Any,
    shape: tuple[int, ...],
    operands: list[npt.NDArray[Any]],
    operation: str,
) -> npt.NDArray[Any]:
    """Refuse an ``out`` that cannot take a result, before anything is written.

    Parameters
    ----------
    out : ndarray
        What the caller gave.
    shape : tuple of int
        Shape of the result.
    operands : list of ndarray
        The arrays that are read.
    operation : str
        For the message.

    Returns
    -------
    ndarray
        `out`, as exactly ``numpy.ndarray``.

    Raises
    ------
    DTypeError
        If it is no array.
    ShapeError
        If its shape is not the result's.
    AliasingError
        If it is not writeable, shares an element with an operand, or overlaps itself.
    """
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise DTypeError(
            f"{operation}: out is a {type(out).__name__}; give a numpy array of shape {shape}",
            operation=operation,
            expected="ndarray",
            actual=type(out).__name__,
        )
    check_dtype(out.dtype, operation)
    if out.shape != shape:
        raise ShapeError(
            f"{operation}: out has shape {out.shape} and the result {shape}; give an array of the result's shape",
            operation=operation,
            expected=shape,
            actual=out.shape,
        )
    if not out.flags.writeable:
        raise AliasingError(f"{operation}: out is not writeable; give an array that is", operation=operation)
    if _overlaps_itself(out):
        raise AliasingError(
            f"{operation}: out overlaps itself (strides {out.strides}); give an array whose elements lie apart",
            operation=operation,
        )
    for position, array in enumerate(operands):
        if shares_element(out, array):
            raise AliasingError(
                f"{operation}: out shares memory with operand {position}; give another array, or copy the operand",
                operation=operation,
                operand=position,
            )
    return out.view(np.ndarray)


def shares_element(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    """Tell whether two arrays have an element in common; a search that grows too long counts as yes."""
    if not np.may_share_memory(one, other):
        return False
    try:
        return bool(np.shares_memory(one, other, max_work=100_000))  # type: ignore[arg-type]
    except (np.exceptions.TooHardError, OverflowError):
        return True
