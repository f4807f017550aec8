"""The slow road of contraction: dtypes, casts and overlap, settled before the core is called.

Calls with plain arrays of one dtype and builtin options never come here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays, _paths
from treadle._options import CASTINGS, ORDERS, flags, limit, option
from treadle._subscripts import Source, bind, split_arguments
from treadle.exceptions import ArgumentError, DTypeError

if TYPE_CHECKING:
    from treadle._native import CpuEngine

#: Runs the core on converted operands, into an array or into a new one.
Run = Callable[[list[npt.NDArray[Any]], npt.NDArray[Any] | None], Any]


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


def cast_operands(
    arrays: list[npt.NDArray[Any]], dtype: np.dtype[Any], casting: str, operation: str
) -> list[npt.NDArray[Any]]:
    """Convert operands to the dtype in which the core computes, refusing what `casting` forbids."""
    wide = np.dtype(np.float32) if _arrays.is_half(dtype) else dtype
    converted = []
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
        if array.dtype != dtype:
            # Stretched axes stay stretched: only what is stored is converted.
            array = _astype_stored(array, dtype)
        if wide != dtype:
            array = _astype_stored(array, wide)
        converted.append(_arrays.as_readable(array))
    return converted


def _astype_stored(array: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    stretched = [stride == 0 and size > 1 for stride, size in zip(array.strides, array.shape, strict=True)]
    if not any(stretched):
        return array.astype(dtype)
    stored = array[tuple(slice(0, 1) if s else slice(None) for s in stretched)].astype(dtype)
    return np.broadcast_to(stored, array.shape)


def in_dtype(result: Any, dtype: np.dtype[Any]) -> Any:
    """Bring the core's result into the result dtype, under the C name that numpy would give it."""
    if result.dtype.num == dtype.num:
        return result
    if result.dtype != dtype:
        return result.astype(dtype)
    # An int64 that is a `long long` beside one that is a `long`.
    return result.view(dtype)


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
    """Settle dtypes and `out`, run the core, and bring the result into the dtype that numpy would have."""
    result_dtype = (
        promote([array.dtype for array in arrays], operation) if dtype is None else dtype_of(dtype, operation)
    )
    _arrays.check_dtype(result_dtype, operation)
    operands = cast_operands(arrays, result_dtype, casting, operation)
    settings = (conj, alpha, beta, order, optimize, route, memory_limit)

    def run(operands: list[npt.NDArray[Any]], target: npt.NDArray[Any] | None) -> Any:
        return engine._contract(operation, source, operands, target, *settings)

    if out is not None and shape is None:
        shape = result_shape(engine, operation, source, operands)
    return into(
        run,
        operands,
        out,
        shape or (),
        arrays,
        result_dtype,
        out_casting or casting,
        operation,
        is_sum=not is_zero(beta),
    )


def into(
    run: Run,
    operands: list[npt.NDArray[Any]],
    out: Any,
    shape: tuple[int, ...],
    arrays: list[npt.NDArray[Any]],
    result_dtype: np.dtype[Any],
    casting: str,
    operation: str,
    *,
    is_sum: bool,
) -> Any:
    """Run the core into a new array, into `out`, or into an array between the two.

    Parameters
    ----------
    run : callable
        The core.
    operands : list of ndarray
        What the core reads.
    out : ndarray or None
        The caller's.
    shape : tuple of int
        Shape of the result, where there is an `out`.
    arrays : list of ndarray
        The arrays that the operands were made from, which `out` must not overlap.
    result_dtype : dtype
        Of the result.
    casting : str
        How the result may be converted to the dtype of `out`.
    operation : str
        For messages.
    is_sum : bool
        Whether `out` is read, for a `beta` that is not zero.
    """
    core_dtype = operands[0].dtype
    if out is None:
        return in_dtype(run(operands, None), result_dtype)
    out = _arrays.single_out(out)
    target = _arrays.check_out(out, shape, arrays, operation)
    if not np.can_cast(result_dtype, target.dtype, casting=casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"{operation}: the result has dtype {result_dtype} and out {target.dtype}, which the rule "
            f"{casting!r} does not convert; give an out of dtype {result_dtype}",
            operation=operation,
            expected=str(result_dtype),
            actual=str(target.dtype),
        )
    # A width change alone (int64 and int64 of another name) needs no detour.
    if target.dtype == core_dtype and _arrays.as_readable(target) is target:
        run(operands, target)
        return out
    detour = target.astype(core_dtype) if is_sum else np.empty(shape, core_dtype)
    run(operands, detour)
    np.copyto(target, detour if core_dtype == result_dtype else detour.astype(result_dtype), casting="unsafe")
    return out


def is_zero(value: Any) -> bool:
    """Tell whether a factor is zero, whatever it is."""
    try:
        return bool(value == 0)
    except Exception:
        return False


def result_shape(
    engine: CpuEngine, operation: str, source: Source, operands: list[npt.NDArray[Any]]
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
    if out is None and dtype is None and len(arrays) == 1 and _arrays.is_half(arrays[0].dtype):
        bits = _half_view(engine, source, arrays[0], (alpha, conj, route))
        if bits is not None:
            return bits
    path, cap = _paths.chosen(source, [array.shape for array in arrays], optimize, memory_limit, "einsum")
    most = limit(cap if memory_limit is None else memory_limit, "einsum")
    out = _arrays.single_out(out)
    if dtype is None and isinstance(out, np.ndarray) and any(array.dtype != out.dtype for array in arrays):
        # As numpy's einsum: a wider out is a wider accumulator. A narrower one is the casting rule's business.
        _arrays.check_dtype(out.dtype, "einsum")
        dtype = promote([*(array.dtype for array in arrays), out.dtype], "einsum")
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


def _half_view(
    engine: CpuEngine, source: Source, array: npt.NDArray[Any], options: tuple[Any, ...]
) -> npt.NDArray[Any] | None:
    """Take the view that a half-precision operand with nothing summed is; its bits need no arithmetic."""
    if any(option is not None for option in options):
        return None
    inputs, output, extents, _ = bind(source, [array.shape], "einsum")
    kept = all(label in output for label in inputs[0])
    if not kept or any(extents[label] != size for label, size in zip(inputs[0], array.shape, strict=True)):
        return None
    bits = engine._contract("einsum", source, [array.view(np.uint16)], None, None, 1, 0, "K", "auto", "auto", None)
    view: npt.NDArray[Any] = bits.view(array.dtype)
    return view
