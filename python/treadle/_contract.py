"""The slow road of contraction: dtypes, casting rules and overlap, settled before the core is called.

Calls with plain arrays of one or two dtypes and builtin options never come here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays, _native, _paths
from treadle._options import CASTINGS, ORDERS, flags, limit, option
from treadle._subscripts import Source, split_arguments
from treadle.exceptions import ArgumentError, DTypeError

if TYPE_CHECKING:
    from treadle._native import CpuEngine


# --- dtypes ----------------------------------------------------------------------------------------------------


def dtype_of(dtype: Any, operation: str) -> np.dtype[Any]:
    """Read ``dtype=`` as numpy reads it."""
    try:
        read: np.dtype[Any] = np.dtype(dtype)
        return read
    except TypeError as error:
        raise DTypeError(
            f"{operation}: dtype is {dtype!r}, which is no dtype ({error})",
            operation=operation,
            expected=_arrays.SUPPORTED,
            actual=repr(dtype),
        ) from error


def promote(dtypes: Sequence[np.dtype[Any]], operation: str) -> np.dtype[Any]:
    """numpy's result dtype of dtypes, or a typed error where numpy has none."""
    first = dtypes[0]
    if all(dtype == first and dtype.num == first.num for dtype in dtypes[1:]):
        return first.newbyteorder("=")
    try:
        common: np.dtype[Any] = np.result_type(*dtypes)
        return common.newbyteorder("=")
    except TypeError as error:
        names = ", ".join(map(str, dtypes))
        raise DTypeError(
            f"{operation}: the dtypes {names} have no common dtype; convert one operand",
            operation=operation,
            expected="dtypes that promote",
            actual=names,
        ) from error


def check_casts(arrays: Sequence[npt.NDArray[Any]], dtype: np.dtype[Any], casting: str, operation: str) -> None:
    """Refuse operands that `casting` does not convert to the dtype of the result; the core converts the others."""
    for position, array in enumerate(arrays):
        if not np.can_cast(array.dtype, dtype, casting=casting):  # type: ignore[arg-type]
            raise DTypeError(
                f"{operation}: operand {position} has dtype {array.dtype} and cannot be converted to {dtype} by the rule "
                f"{casting!r}; convert it, or choose another casting",
                operation=operation,
                operand=position,
                expected=str(dtype),
                actual=str(array.dtype),
            )
        _warn_of_lost_parts(array.dtype, dtype)


def _warn_of_lost_parts(given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    """Warn as numpy does where imaginary parts are dropped."""
    if given.kind == "c" and wanted.kind not in "cb":
        warnings.warn(
            "Casting complex values to real discards the imaginary part",
            np.exceptions.ComplexWarning,
            stacklevel=_arrays.CALLERS,
        )


def converted(array: npt.NDArray[Any], dtype: np.dtype[Any], operation: str) -> npt.NDArray[Any]:
    """Convert in new memory, without a floating-point warning."""
    copy: npt.NDArray[Any] = _native._converted(operation, array, dtype)
    return copy


def in_dtype(result: Any, dtype: np.dtype[Any]) -> Any:
    """Give the core's result the C name that numpy would give it: an int64 may be a `long long` beside one that is a
    `long`.
    """
    return result if result.dtype.num == dtype.num or result.dtype != dtype else result.view(dtype)


# --- the call --------------------------------------------------------------------------------------------------


def contract(
    engine: CpuEngine,
    operation: str,
    source: Source,
    arrays: list[npt.NDArray[Any]],
    *,
    shape: tuple[int, ...] | None = None,
    out: Any = None,
    dtype: Any = None,
    casting: str = "safe",
    out_casting: str | None = None,
    order: str = "K",
    optimize: Any = "auto",
    alpha: Any = 1,
    beta: Any = 0,
    conj: Sequence[bool] | None = None,
    route: str = "auto",
    memory_limit: int | None = None,
) -> Any:
    """Settle dtypes and `out`, and run the core, which converts what has to be converted."""
    result_dtype = (
        promote([array.dtype for array in arrays], operation) if dtype is None else dtype_of(dtype, operation)
    )
    _arrays.check_dtype(result_dtype, operation)
    if out is None and len(arrays) == 1 and route == "auto" and is_plain(alpha, 1) and is_plain(beta, 0):
        is_conjugated = arrays[0].dtype.kind == "c" and conj is not None and any(conj)
        # As numpy's, whatever dtype was asked for.
        view = None if is_conjugated else engine._view(operation, source, arrays[0])
        if view is not None:
            return view
    check_casts(arrays, result_dtype, casting, operation)
    target = None
    if out is not None:
        if shape is None:
            shape = result_shape(engine, operation, source, arrays)
        target = checked_out(out, shape, arrays, result_dtype, out_casting or casting, operation)
    settings = (conj, alpha, beta, order, optimize, route, memory_limit)
    result = engine._contract(operation, source, arrays, target, result_dtype, *settings)
    return in_dtype(result, result_dtype) if out is None else _arrays.single_out(out)


def checked_out(
    out: Any,
    shape: tuple[int, ...],
    arrays: list[npt.NDArray[Any]],
    result_dtype: np.dtype[Any],
    casting: str,
    operation: str,
) -> npt.NDArray[Any]:
    """Take an output that the core may write: of that shape, apart from the arrays, and of a dtype that `casting` converts
    the result to.
    """
    target = _arrays.check_out(_arrays.single_out(out), shape, arrays, operation)
    if not np.can_cast(result_dtype, target.dtype, casting=casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"{operation}: the result has dtype {result_dtype} and out {target.dtype}, which the rule "
            f"{casting!r} does not convert; give an out of dtype {result_dtype}",
            operation=operation,
            expected=str(result_dtype),
            actual=str(target.dtype),
        )
    _warn_of_lost_parts(result_dtype, target.dtype)
    return target


def is_plain(factor: Any, value: int) -> bool:
    """Tell whether a factor is a number of Python's with that value."""
    return isinstance(factor, (int, float, complex)) and factor == value


def result_shape(
    engine: CpuEngine, operation: str, source: Source, operands: Sequence[npt.NDArray[Any]]
) -> tuple[int, ...]:
    """The shape that a contraction has, or its error."""
    return tuple(engine._result_shape(operation, source, [list(operand.shape) for operand in operands]))


def einsum(
    engine: CpuEngine,
    subscripts: Any,
    operands: tuple[Any, ...],
    *,
    out: Any = None,
    dtype: Any = None,
    casting: Any = None,
    order: Any = None,
    optimize: Any = None,
    alpha: Any = None,
    beta: Any = None,
    conj: Any = None,
    route: Any = None,
    memory_limit: Any = None,
) -> Any:
    """``engine.einsum`` with anything that is not plain."""
    source, values = split_arguments(subscripts, operands, "einsum")
    casting = option("casting", casting, "safe", CASTINGS, "einsum")
    order = option("order", order, "K", ORDERS, "einsum")
    arrays = [_arrays.as_operand(value, "einsum", position) for position, value in enumerate(values)]
    if route is not None and not isinstance(route, str):
        raise ArgumentError(f"einsum: route is {route!r}; give a str", operation="einsum", argument="route")
    path, cap = _paths.chosen(source, [array.shape for array in arrays], optimize, memory_limit, "einsum")
    most = limit(cap if memory_limit is None else memory_limit, "einsum")
    out = _arrays.single_out(out)
    if dtype is None and isinstance(out, np.ndarray) and any(array.dtype != out.dtype for array in arrays):
        # As numpy's einsum: a wider out is a wider accumulator. A narrower one is the casting rule's business.
        _arrays.check_dtype(out.dtype, "einsum")
        # The operands' own dtype comes first: what three dtypes promote to may depend on their order.
        dtype = promote([promote([array.dtype for array in arrays], "einsum"), out.dtype], "einsum")
    return contract(
        engine,
        "einsum",
        source,
        arrays,
        out=out,
        dtype=dtype,
        casting=casting,
        order=order,
        optimize=path,
        alpha=1 if alpha is None else alpha,
        beta=0 if beta is None else beta,
        conj=None if conj is None else flags(conj, len(arrays), "einsum"),
        route="auto" if route is None else route,
        memory_limit=most,
    )
