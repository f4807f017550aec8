"""What the functions that are built from others have in common: one lease for the whole call, and one name in errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
import numpy.typing as npt

from treadle import _arrays
from treadle.exceptions import DTypeError, MatrixShapeError, NonFiniteError, TreadleError

F = TypeVar("F", bound=Callable[..., Any])
Array = npt.NDArray[Any]


def operation(function: F) -> F:
    """Run a method as one operation: no other thread comes between its steps, and its errors bear its name."""
    name = function.__name__

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **options: Any) -> Any:
        try:
            with self._engine.lease(0):
                return function(self, *args, **options)
        except TreadleError as error:
            own(error, name)
            raise

    return cast("F", call)


def step(function: F) -> F:
    """Run a method that needs the engine once: its errors bear its name, and there is no lease to take."""
    name = function.__name__

    @functools.wraps(function)
    def call(self: Any, /, *args: Any, **options: Any) -> Any:
        try:
            return function(self, *args, **options)
        except TreadleError as error:
            own(error, name)
            raise

    return cast("F", call)


def own(error: TreadleError, name: str) -> None:
    """Put the name of the function that was called in the place of the step that failed."""
    if error.operation not in (None, name):
        text = str(error).removeprefix(f"{error.operation}: ")
        error.args = (f"{name}: {text}",)
        error.operation = name


#: numpy's own objects of the dtypes that factorisations compute in.
_PLAIN = {id(np.dtype(char)) for char in "fdFD"}


def is_plain(value: Any) -> TypeGuard[Array]:
    """Tell whether a value is an array that is read as it is."""
    return type(value) is np.ndarray and id(value.dtype) in _PLAIN and value.flags.aligned and value.flags.forc


def operand(value: Any, name: str, position: int = 0) -> Array:
    """An operand of factorisations: booleans and integers become float64, halves are refused."""
    if is_plain(value):
        return value
    array = _arrays.as_readable(value, name, position)
    if array.dtype.char in "fdFD":
        return array
    if _arrays.is_half(array.dtype):
        raise DTypeError(
            f"{name}: operand {position} has dtype {array.dtype.name}, and linear algebra computes in float32, float64, "
            "complex64 and complex128; convert it, for example with .astype('float32')",
            operation=name,
            operand=position,
            expected="float32, float64, complex64, complex128",
            actual=array.dtype.name,
        )
    return array.astype(np.float64)


def matrices(value: Any, name: str, position: int = 0) -> Array:
    """An operand with at least two axes."""
    array = operand(value, name, position)
    need_matrix(array, name, position)
    return array


def need_matrix(array: Array, name: str, position: int = 0) -> None:
    """Refuse what has fewer than two axes."""
    if array.ndim < 2:
        raise MatrixShapeError(
            f"{name}: operand {position} has shape {array.shape}; give a matrix or a stack of matrices, (..., M, N)",
            operation=name,
            operand=position,
        )


def need_square(array: Array, name: str, position: int = 0) -> None:
    """Refuse what holds no square matrices."""
    need_matrix(array, name, position)
    rows, columns = array.shape[-2:]
    if rows != columns:
        raise MatrixShapeError(
            f"{name}: operand {position} has matrices of {rows} by {columns}; give square ones, (..., M, M)",
            operation=name,
            operand=position,
        )


def refuse_non_finite(array: Array, name: str, position: int = 0, core: int = 2) -> None:
    """Refuse NaN and infinity, naming the first item that holds one; the last `core` axes are an item."""
    if array.dtype.kind not in "fcV" or array.size == 0:
        return
    with np.errstate(all="ignore"):
        # A sum is finite only when every term is, and costs less than looking at each.
        if np.isfinite(np.add.reduce(array, axis=None)):
            return
        finite = np.isfinite(array)
    if finite.all():
        return
    batch = array.ndim - core
    items = finite.reshape(*array.shape[:batch], -1).all(axis=-1).ravel() if batch > 0 else finite.all(keepdims=True)
    index = int(np.argmin(items)) if batch > 0 else 0
    subject = f"item {index} of the batch (flat, in C order)" if batch > 0 else "the array"
    raise NonFiniteError(
        f"{name}: operand {position}: {subject} holds NaN or infinity; remove it from the input, or pass check_finite=False",
        operation=name,
        operand=position,
        index=index,
    )


def adjoint(array: Array) -> Array:
    """Conjugate transposes; a view of real matrices."""
    transposed = array.swapaxes(-1, -2)
    return transposed.conj() if array.dtype.kind == "c" else transposed


@functools.cache
def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number."""
    return float(np.finfo(dtype).eps)


def in_range(linalg: Any, values: Array, array: Array) -> Array:
    """Singular values, of the matrices divided by 1024 where the largest is beyond the range; what is compared is relative."""
    if not np.isinf(values).any() or not np.isfinite(array).all():
        return values
    scaled: Array = linalg.svdvals(array * array.real.dtype.type(2.0**-10))
    return scaled
