"""The slow road of contraction: labels, casts, options and overlap, settled before the core is called.

Calls with plain arrays of one dtype and no options never come here.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays
from treadle.exceptions import ArgumentError, DTypeError, PathError, SubscriptsError

if TYPE_CHECKING:
    from treadle._native import CpuEngine

#: Numbered labels of one operand or of the output; None is an ellipsis.
Terms = list[int | None]
#: Subscripts: text, or the lists of the operands, that of the output if it was written, and a name for each number.
Source = str | tuple[list[Terms], Terms | None, list[str]]

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
ORDERS = ("K", "C", "F", "A")


def option(name: str, value: Any, default: Any, valid: tuple[Any, ...], operation: str) -> Any:
    if value is None:
        return default
    if name == "order" and isinstance(value, str):
        value = value.upper()
    if not isinstance(value, str) or value not in valid:
        listed = ", ".join(repr(v) for v in valid)
        raise ArgumentError(f"{operation}: {name} is {value!r}; valid are {listed}", operation=operation, argument=name)
    return value


# --- subscripts ------------------------------------------------------------------------------------------------


def _is_terms(value: Any) -> bool:
    return isinstance(value, (list, tuple, range)) or (type(value) is np.ndarray and value.ndim == 1)


def interleaved(arguments: tuple[Any, ...], operation: str) -> tuple[Source, list[Any]]:
    """Take ``(a, [0, 1], b, [1, 2], [0, 2])`` apart into numbered labels and operands.

    Labels are numbered in numpy's order for an implicit output: sorted when they can be, else as they appear.
    """
    count, explicit = divmod(len(arguments), 2)
    lists = list(arguments[1 : 2 * count : 2]) + ([arguments[-1]] if explicit else [])
    operands = list(arguments[0 : 2 * count : 2])
    if not operands:
        raise SubscriptsError(f"{operation}: no operand was given; at least one is needed", operation=operation)
    for position, labels in enumerate(lists):
        if not _is_terms(labels):
            raise DTypeError(
                f"{operation}: label list {position} is a {type(labels).__name__}; in the form {operation}(a, [0, 1], ...) "
                "operands and label lists alternate, and subscripts are a str otherwise",
                operation=operation,
                operand=position if position < count else None,
                expected="a list of labels",
                actual=type(labels).__name__,
            )
    seen: dict[Hashable, None] = {}
    for labels in lists:
        for label in labels:
            if label is Ellipsis:
                continue
            try:
                seen.setdefault(label)
            except TypeError:
                raise SubscriptsError(
                    f"{operation}: label {label!r} is a {type(label).__name__}, which has no hash; use hashable labels",
                    operation=operation,
                ) from None
    try:
        order = sorted(seen)  # type: ignore[type-var]
    except TypeError:
        order = list(seen)
    numbers = {label: number for number, label in enumerate(order)}
    terms = [[None if label is Ellipsis else numbers[label] for label in labels] for labels in lists]
    names = [str(label) for label in order]
    return (terms[:count], terms[count] if explicit else None, names), operands


def split_arguments(subscripts: Any, operands: tuple[Any, ...], operation: str) -> tuple[Source, list[Any]]:
    """Tell the string form from the interleaved form."""
    if isinstance(subscripts, str):
        if not operands:
            raise SubscriptsError(f"{operation}: no operand was given; at least one is needed", operation=operation)
        return subscripts, list(operands)
    if isinstance(subscripts, bytes):
        raise DTypeError(
            f"{operation}: subscripts are bytes; give a str", operation=operation, expected="str", actual="bytes"
        )
    return interleaved((subscripts, *operands), operation)


# --- dtypes ----------------------------------------------------------------------------------------------------


def _dtype_of(dtype: Any, operation: str) -> np.dtype[Any]:
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


def promote(arrays: list[npt.NDArray[Any]], operation: str) -> np.dtype[Any]:
    """numpy's result dtype of arrays, or a typed error where numpy has none."""
    first = arrays[0].dtype
    if all(array.dtype == first for array in arrays[1:]):
        return first.newbyteorder("=")
    try:
        common: np.dtype[Any] = np.result_type(*(array.dtype for array in arrays))
        return common.newbyteorder("=")
    except TypeError as error:
        names = ", ".join(str(array.dtype) for array in arrays)
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
    result_dtype = promote(arrays, operation) if dtype is None else _dtype_of(dtype, operation)
    _arrays.check_dtype(result_dtype, operation)
    operands = cast_operands(arrays, result_dtype, casting, operation)
    core_dtype = operands[0].dtype
    settings = (conj, alpha, beta, order, optimize, route, memory_limit)
    if out is None:
        result = engine._contract(operation, source, operands, None, *settings)
        return result if core_dtype == result_dtype else result.astype(result_dtype)
    if shape is None:
        shape = result_shape(engine, operation, source, operands)
    out = _arrays.single_out(out)
    target = _arrays.check_out(out, shape, arrays, operation)
    if not np.can_cast(result_dtype, target.dtype, casting=out_casting or casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"{operation}: the result has dtype {result_dtype} and out {target.dtype}, which the rule "
            f"{out_casting or casting!r} does not convert; give an out of dtype {result_dtype}",
            operation=operation,
            expected=str(result_dtype),
            actual=str(target.dtype),
        )
    # A width change alone (int64 and int64 of another name) needs no detour.
    if target.dtype == core_dtype and _arrays.as_readable(target) is target:
        engine._contract(operation, source, operands, target, *settings)
        return out
    accumulates = not _is_zero(beta)
    detour = target.astype(core_dtype) if accumulates else np.empty(shape, core_dtype)
    engine._contract(operation, source, operands, detour, *settings)
    np.copyto(target, detour if core_dtype == result_dtype else detour.astype(result_dtype), casting="unsafe")
    return out


def _is_zero(value: Any) -> bool:
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
    path, cap = _optimize(source, arrays, optimize, memory_limit, "einsum")
    limit = _limit(cap if memory_limit is None else memory_limit)
    out = _arrays.single_out(out)
    if dtype is None and isinstance(out, np.ndarray) and any(array.dtype != out.dtype for array in arrays):
        # As numpy's einsum: a wider out is a wider accumulator. A narrower one is the casting rule's business.
        _arrays.check_dtype(out.dtype, "einsum")
        dtype = promote([*arrays, out], "einsum")
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
        conj=None if conj is None else _flags(conj, len(arrays)),
        route="auto" if route is None else route,
        memory_limit=limit,
    )


def _half_view(
    engine: CpuEngine, source: Source, array: npt.NDArray[Any], options: tuple[Any, ...]
) -> npt.NDArray[Any] | None:
    """Take the view that a half-precision operand with nothing summed is; its bits need no arithmetic."""
    if any(option is not None for option in options):
        return None
    inputs, output, extents, _ = _bind(source, [array.shape], "einsum")
    kept = all(label in output for label in inputs[0])
    if not kept or any(extents[label] != size for label, size in zip(inputs[0], array.shape, strict=True)):
        return None
    bits = engine._contract("einsum", source, [array.view(np.uint16)], None, None, 1, 0, "K", "auto", "auto", None)
    view: npt.NDArray[Any] = bits.view(array.dtype)
    return view


def _flags(conj: Any, count: int) -> list[bool]:
    if isinstance(conj, (bool, np.bool_)):
        raise ArgumentError(
            f"einsum: conj is {conj}; give one flag for each of the {count} operands", operation="einsum"
        )
    try:
        flags = [bool(flag) for flag in conj]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"einsum: conj is {conj!r}; give one bool for each of the {count} operands", operation="einsum"
        ) from None
    if len(flags) != count:
        raise ArgumentError(
            f"einsum: conj has {len(flags)} flags for {count} operands; give one an operand", operation="einsum"
        )
    return flags


def _limit(memory_limit: Any) -> int | None:
    if memory_limit is None:
        return None
    try:
        limit = int(memory_limit) if isinstance(memory_limit, float) else operator.index(memory_limit)
    except (TypeError, ValueError, OverflowError):
        limit = -1
    if limit < 0:
        raise ArgumentError(
            f"einsum: memory_limit is {memory_limit!r}; valid are numbers of elements from 0 on, or None",
            operation="einsum",
            argument="memory_limit",
        )
    # No array has as many elements as the core can count.
    return min(limit, sys.maxsize)


def _optimize(
    source: Source,
    arrays: list[npt.NDArray[Any]],
    optimize: Any,
    memory_limit: Any,
    operation: str,
) -> tuple[Any, Any]:
    """Bring ``optimize=`` into one of the core's forms, with the memory limit that numpy's tuple carries.

    The forms are a name, a bool, or a list of lists of positions.
    """
    if optimize is None:
        return "auto", None
    if isinstance(optimize, (bool, np.bool_)):
        return bool(optimize), None
    if isinstance(optimize, str):
        return optimize, None
    if callable(optimize):
        # With one or two operands there is nothing to find.
        return (_path_by(optimize, source, arrays, memory_limit, operation) if len(arrays) > 2 else "auto"), None
    try:
        steps = list(optimize)
    except TypeError:
        raise ArgumentError(
            f"{operation}: optimize is a {type(optimize).__name__}; valid are 'auto', 'greedy', 'optimal', True, False, "
            "a path or a callable",
            operation=operation,
        ) from None
    if len(steps) == 2 and isinstance(steps[0], str) and steps[0] != "einsum_path":
        # numpy's ("greedy", limit): the limit bounds intermediates, in elements; -1 is none.
        cap = steps[1]
        if not isinstance(cap, (int, float, np.integer, np.floating)) and cap is not None:
            raise ArgumentError(
                f"{operation}: the limit beside {steps[0]!r} is {cap!r}; give a number of elements", operation=operation
            )
        return steps[0], None if cap is None or cap == -1 else cap
    if steps and isinstance(steps[0], str):
        if steps[0] != "einsum_path":
            raise PathError(
                f"{operation}: a path begins with {steps[0]!r}; numpy's begin with 'einsum_path'", operation=operation
            )
        steps = steps[1:]
    return _checked_path(steps, operation), None


def _checked_path(steps: list[Any], operation: str) -> list[list[int]]:
    path = []
    for number, step in enumerate(steps):
        try:
            positions = [operator.index(position) for position in step]
        except TypeError:
            raise PathError(
                f"{operation}: step {number} of the path is {step!r}; a step is a tuple of operand positions",
                operation=operation,
                step=number,
            ) from None
        if any(not 0 <= position < 1 << 32 for position in positions):
            raise PathError(
                f"{operation}: step {number} of the path, {tuple(positions)}, has a position out of range; they count from 0",
                operation=operation,
                step=number,
            )
        path.append(positions)
    return path


def _path_by(
    optimizer: Callable[..., Any],
    source: Source,
    arrays: list[npt.NDArray[Any]],
    memory_limit: Any,
    operation: str,
) -> Any:
    """Ask an optimizer of opt_einsum's kind: ``optimizer(inputs, output, size_dict, memory_limit)``."""
    inputs, output, sizes = bound_labels(source, arrays, operation)
    steps = optimizer([frozenset(terms) for terms in inputs], frozenset(output), sizes, memory_limit)
    try:
        listed = list(steps)
    except TypeError:
        raise PathError(
            f"{operation}: the optimizer gave a {type(steps).__name__}; a path is a sequence of steps",
            operation=operation,
        ) from None
    return _checked_path(listed, operation)


def bound_labels(
    source: Source, arrays: list[npt.NDArray[Any]], operation: str
) -> tuple[list[tuple[str, ...]], tuple[str, ...], dict[str, int]]:
    """Labels of every axis as text, with their sizes; axes under ``...`` get names of their own."""
    inputs, output, extents, names = _bind(source, [array.shape for array in arrays], operation)
    unique = [f"{name}:{number}" for number, name in enumerate(names)]
    return (
        [tuple(unique[label] for label in labels) for labels in inputs],
        tuple(unique[label] for label in output),
        {unique[label]: extent for label, extent in enumerate(extents)},
    )


def _bind(
    source: Source, shapes: list[tuple[int, ...]], operation: str
) -> tuple[list[list[int]], list[int], list[int], list[str]]:
    from treadle import _native

    return _native._bind_subscripts(operation, source, [list(shape) for shape in shapes])


def einsum_path(engine: CpuEngine, subscripts: Any, operands: tuple[Any, ...], optimize: Any) -> tuple[list[Any], str]:
    """``engine.einsum_path``: numpy's path list, and a report."""
    source, values = split_arguments(subscripts, operands, "einsum_path")
    arrays = [_arrays.as_array(value, "einsum_path", position) for position, value in enumerate(values)]
    chosen, _ = _optimize(source, arrays, optimize, None, "einsum_path")
    positions, naive, flops, largest = engine._find_path(source, [list(array.shape) for array in arrays], chosen)
    steps = [tuple(step) for step in positions]
    report = "\n".join(
        [
            f"        Operands:  {len(arrays)}",
            f"           Steps:  {len(steps)}",
            f"  Naive FLOP count:  {naive:.3e}",
            f"  Path FLOP count:  {flops:.3e}",
            f"        Speed-up:  {naive / max(flops, 1.0):.3f}",
            f"  Largest result:  {largest:.3e} elements",
            *(f"  step {number}: operands {step}" for number, step in enumerate(steps)),
        ]
    )
    return ["einsum_path", *steps], report
