"""Products with numpy's names, each one contraction."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays
from treadle._contract import CASTINGS, ORDERS, Source, contract, option
from treadle.exceptions import ArgumentError, AxisError, BroadcastError, ShapeError

if TYPE_CHECKING:
    from treadle._native import CpuEngine


def _labels(count: int, start: int) -> list[int]:
    return list(range(start, start + count))


def _source(inputs: list[list[int]], output: list[int], names: dict[int, str]) -> Source:
    count = 1 + max((label for labels in inputs for label in labels), default=-1)
    return ([list(labels) for labels in inputs], list(output), [names.get(n, f"axis{n}") for n in range(count)])


def _mismatch(operation: str, what: str, left: int, right: int, shapes: tuple[Any, Any]) -> BroadcastError:
    return BroadcastError(
        f"{operation}: {what} is {left} in operand 0 and {right} in operand 1 (shapes {shapes[0]} and {shapes[1]}); "
        "make them equal",
        operation=operation,
        operand=1,
        expected=left,
        actual=right,
    )


def _no_scalar(operation: str, array: npt.NDArray[Any], position: int, need: int) -> None:
    if array.ndim < need:
        raise ShapeError(
            f"{operation}: operand {position} has {array.ndim} axes and needs at least {need}; reshape it, or multiply "
            "scalars with *",
            operation=operation,
            operand=position,
            expected=need,
            actual=array.ndim,
        )


def _batched(
    operation: str,
    a: npt.NDArray[Any],
    b: npt.NDArray[Any],
    a_core: list[int],
    b_core: list[int],
    out_core: list[int],
    names: dict[int, str],
) -> Source:
    """Subscripts whose leading axes broadcast, in numpy's manner; labels 0 to 2 are the core's."""
    a_lead, b_lead = a.shape[: a.ndim - len(a_core)], b.shape[: b.ndim - len(b_core)]
    rank = max(len(a_lead), len(b_lead))
    # Counted from the right, so that batch axes align there.
    batch = _labels(rank, 3)
    for axis in range(1, min(len(a_lead), len(b_lead)) + 1):
        one, other = a_lead[-axis], b_lead[-axis]
        if one != other and 1 not in (one, other):
            raise _mismatch(operation, f"batch axis {-axis}", one, other, (a.shape, b.shape))
    return _source(
        [batch[rank - len(a_lead) :] + a_core, batch[rank - len(b_lead) :] + b_core], batch + out_core, names
    )


_M, _K, _N = 0, 1, 2
_NAMES = {_M: "M", _K: "K", _N: "N"}


def _product(
    engine: CpuEngine,
    operation: str,
    a: Any,
    b: Any,
    cores: tuple[list[int], list[int], list[int]],
    *,
    out: Any = None,
    conj: list[bool] | None = None,
    **options: Any,
) -> Any:
    left, right = _arrays.as_operand(a, operation, 0), _arrays.as_operand(b, operation, 1)
    a_core, b_core, out_core = cores
    _no_scalar(operation, left, 0, len(a_core))
    _no_scalar(operation, right, 1, len(b_core))
    sizes = dict(zip(a_core, left.shape[left.ndim - len(a_core) :], strict=True))
    for label, size in zip(b_core, right.shape[right.ndim - len(b_core) :], strict=True):
        if sizes.setdefault(label, size) != size:
            raise _mismatch(
                operation, f"the contracted axis {_NAMES[label]}", sizes[label], size, (left.shape, right.shape)
            )
    source = _batched(operation, left, right, a_core, b_core, out_core, _NAMES)
    return contract(engine, operation, source, [left, right], out=out, conj=conj, **options)


def matmul(engine: CpuEngine, a: Any, b: Any, out: Any, dtype: Any, casting: Any, order: Any) -> Any:
    """``engine.matmul`` with anything that is not two plain matrices."""
    left, right = _arrays.as_operand(a, "matmul", 0), _arrays.as_operand(b, "matmul", 1)
    _no_scalar("matmul", left, 0, 1)
    _no_scalar("matmul", right, 1, 1)
    a_core = [_K] if left.ndim == 1 else [_M, _K]
    b_core = [_K] if right.ndim == 1 else [_K, _N]
    casting = option("casting", casting, "same_kind", CASTINGS, "matmul")
    return _product(
        engine,
        "matmul",
        left,
        right,
        (a_core, b_core, [label for label in (_M, _N) if label in a_core + b_core]),
        out=out,
        dtype=dtype,
        casting=casting,
        order=option("order", order, "K", ORDERS, "matmul"),
    )


def dot(engine: CpuEngine, a: Any, b: Any, out: Any) -> Any:
    """``engine.dot`` with anything that is not two plain matrices."""
    left, right = _arrays.as_operand(a, "dot", 0), _arrays.as_operand(b, "dot", 1)
    if left.ndim == 0 or right.ndim == 0:
        return _outer_of(engine, "dot", left, right, out)
    axis = -1 if right.ndim == 1 else -2
    return tensordot(engine, left, right, ((-1,), (axis,)), operation="dot", out=out)


def _outer_of(
    engine: CpuEngine, operation: str, a: npt.NDArray[Any], b: npt.NDArray[Any], out: Any, casting: str = "safe"
) -> Any:
    left, right = _labels(a.ndim, 0), _labels(b.ndim, a.ndim)
    source = _source([left, right], left + right, {})
    return contract(engine, operation, source, [a, b], out=out, out_casting=casting)


def inner(engine: CpuEngine, a: Any, b: Any) -> Any:
    """``engine.inner``."""
    left, right = _arrays.as_operand(a, "inner", 0), _arrays.as_operand(b, "inner", 1)
    if left.ndim == 0 or right.ndim == 0:
        return _outer_of(engine, "inner", left, right, None)
    return tensordot(engine, left, right, ((-1,), (-1,)), operation="inner")


def outer(engine: CpuEngine, a: Any, b: Any, out: Any = None) -> Any:
    """``engine.outer``: both operands are flattened."""
    left, right = _arrays.as_operand(a, "outer", 0).reshape(-1), _arrays.as_operand(b, "outer", 1).reshape(-1)
    # numpy's is a ufunc, and a ufunc's rule for out is "same_kind".
    return _outer_of(engine, "outer", left, right, out, "same_kind")


def vdot(engine: CpuEngine, a: Any, b: Any) -> Any:
    """``engine.vdot``: both operands are flattened, the first is conjugated."""
    left, right = _arrays.as_operand(a, "vdot", 0).reshape(-1), _arrays.as_operand(b, "vdot", 1).reshape(-1)
    if left.size != right.size:
        raise _mismatch("vdot", "the number of elements", left.size, right.size, (left.shape, right.shape))
    return contract(engine, "vdot", _source([[0], [0]], [], {}), [left, right], conj=[True, False])


def _ufunc(
    engine: CpuEngine, operation: str, a: Any, b: Any, cores: tuple[list[int], list[int], list[int]], **options: Any
) -> Any:
    """A product that numpy has as a ufunc, whose rule for casts is "same_kind"."""
    return _product(engine, operation, a, b, cores, casting="same_kind", **options)


def vecdot(engine: CpuEngine, a: Any, b: Any, **options: Any) -> Any:
    """``engine.vecdot``: the first operand is conjugated."""
    return _ufunc(engine, "vecdot", a, b, ([_K], [_K], []), conj=[True, False], **options)


def matvec(engine: CpuEngine, a: Any, b: Any, **options: Any) -> Any:
    """``engine.matvec``."""
    return _ufunc(engine, "matvec", a, b, ([_M, _K], [_K], [_M]), **options)


def vecmat(engine: CpuEngine, a: Any, b: Any, **options: Any) -> Any:
    """``engine.vecmat``: the vector is conjugated, as numpy's."""
    return _ufunc(engine, "vecmat", a, b, ([_K], [_K, _N], [_N]), conj=[True, False], **options)


def _is_index(value: Any) -> bool:
    # Arrays have __index__ whatever their size.
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _axis_list(axes: Any) -> list[int]:
    return [operator.index(axes)] if _is_index(axes) else [operator.index(axis) for axis in axes]


def _normalised_axes(axes: list[int], array: npt.NDArray[Any], operand: int, operation: str) -> list[int]:
    normal = []
    for axis in axes:
        if not -array.ndim <= axis < array.ndim:
            raise AxisError(
                f"{operation}: axis {axis} is out of range for operand {operand} with {array.ndim} axes",
                operation=operation,
                operand=operand,
                axis=axis,
                ndim=array.ndim,
            )
        normal.append(axis % array.ndim)
    for axis in normal:
        if normal.count(axis) > 1:
            raise AxisError(
                f"{operation}: axis {axis} of operand {operand} is a duplicate; each axis may be contracted once",
                operation=operation,
                operand=operand,
                axis=axis,
                ndim=array.ndim,
            )
    return normal


def tensordot(
    engine: CpuEngine, a: Any, b: Any, axes: Any = 2, *, operation: str = "tensordot", out: Any = None
) -> Any:
    """``engine.tensordot``."""
    left, right = _arrays.as_operand(a, operation, 0), _arrays.as_operand(b, operation, 1)
    try:
        if _is_index(axes):
            count = operator.index(axes)
            if count < 0:
                raise ArgumentError(f"{operation}: axes is {count}; valid are 0 and above", operation=operation)
            for position, array in enumerate((left, right)):
                if count > array.ndim:
                    raise ShapeError(
                        f"{operation}: axes is {count} and operand {position} has {array.ndim} axes; contract fewer",
                        operation=operation,
                        operand=position,
                        expected=count,
                        actual=array.ndim,
                    )
            a_axes, b_axes = list(range(left.ndim - count, left.ndim)), list(range(count))
        else:
            one, other = axes
            a_axes, b_axes = _axis_list(one), _axis_list(other)
    except (TypeError, ValueError) as error:
        if isinstance(error, (ArgumentError, ShapeError)):
            raise
        raise ArgumentError(
            f"{operation}: axes is {axes!r}; give an int, or one sequence of axes for each operand", operation=operation
        ) from None
    if len(a_axes) != len(b_axes):
        raise ShapeError(
            f"{operation}: {len(a_axes)} axes of operand 0 are paired with {len(b_axes)} of operand 1; give as many",
            operation=operation,
            expected=len(a_axes),
            actual=len(b_axes),
        )
    a_axes = _normalised_axes(a_axes, left, 0, operation)
    b_axes = _normalised_axes(b_axes, right, 1, operation)
    for one_axis, other_axis in zip(a_axes, b_axes, strict=True):
        if left.shape[one_axis] != right.shape[other_axis]:
            raise _mismatch(
                operation,
                f"the contracted pair of axes ({one_axis}, {other_axis})",
                left.shape[one_axis],
                right.shape[other_axis],
                (left.shape, right.shape),
            )
    a_labels = _labels(left.ndim, 0)
    b_labels = _labels(right.ndim, left.ndim)
    for one_axis, other_axis in zip(a_axes, b_axes, strict=True):
        b_labels[other_axis] = a_labels[one_axis]
    output = [label for axis, label in enumerate(a_labels) if axis not in a_axes]
    output += [label for axis, label in enumerate(b_labels) if axis not in b_axes]
    names = {label: f"axis {label} of operand 0" for label in a_labels}
    return contract(engine, operation, _source([a_labels, b_labels], output, names), [left, right], out=out)


def kron(engine: CpuEngine, a: Any, b: Any) -> Any:
    """``engine.kron``."""
    left, right = _arrays.as_operand(a, "kron", 0), _arrays.as_operand(b, "kron", 1)
    rank = max(left.ndim, right.ndim)
    left, right = (x.reshape((1,) * (rank - x.ndim) + x.shape) for x in (left, right))
    shape = tuple(one * other for one, other in zip(left.shape, right.shape, strict=True))
    # Axes of length one change nothing but the number of axes, of which numpy has 64.
    evens = [2 * axis for axis, size in enumerate(left.shape) if size != 1]
    odds = [2 * axis + 1 for axis, size in enumerate(right.shape) if size != 1]
    left, right = (x.reshape([size for size in x.shape if size != 1]) for x in (left, right))
    result = contract(engine, "kron", _source([evens, odds], sorted(evens + odds), {}), [left, right], order="C")
    return result if rank == 0 else np.asarray(result).reshape(shape)


def gemm(engine: CpuEngine, a: Any, b: Any, alpha: Any, beta: Any, out: Any, trans_a: Any, trans_b: Any) -> Any:
    """``engine.gemm``: leading axes are batch axes."""
    valid = ("N", "T", "C")
    trans_a = option("trans_a", trans_a, "N", valid, "gemm")
    trans_b = option("trans_b", trans_b, "N", valid, "gemm")
    cores = ([_M, _K] if trans_a == "N" else [_K, _M], [_K, _N] if trans_b == "N" else [_N, _K], [_M, _N])
    return _product(engine, "gemm", a, b, cores, out=out, alpha=alpha, beta=beta, conj=[trans_a == "C", trans_b == "C"])


def multi_dot(engine: CpuEngine, arrays: Any, out: Any) -> Any:
    """``engine.multi_dot``: the cheapest order of a chain, found exactly."""
    values = [_arrays.as_operand(value, "multi_dot", position) for position, value in enumerate(arrays)]
    if len(values) < 2:
        raise ShapeError(f"multi_dot: {len(values)} arrays were given; at least two are needed", operation="multi_dot")
    last = len(values) - 1
    inputs = []
    for position, array in enumerate(values):
        vector = array.ndim == 1 and position in (0, last)
        if array.ndim != 2 and not vector:
            raise ShapeError(
                f"multi_dot: operand {position} has {array.ndim} axes; all are matrices, and the first and the last may be "
                "vectors",
                operation="multi_dot",
                operand=position,
                expected=2,
                actual=array.ndim,
            )
        labels = [position, position + 1]
        inputs.append(labels[1:] if vector and position == 0 else labels[:1] if vector else labels)
    sizes: dict[int, int] = {}
    for position, (labels, array) in enumerate(zip(inputs, values, strict=True)):
        for label, size in zip(labels, array.shape, strict=True):
            if sizes.setdefault(label, size) != size:
                raise _mismatch(
                    "multi_dot",
                    f"the axis between operands {position - 1} and {position}",
                    sizes[label],
                    size,
                    (values[position - 1].shape, array.shape),
                )
    output = [label for label in (0, last + 1) if label in sizes and (label != 0 or values[0].ndim == 2)]
    if values[last].ndim == 1:
        output = [label for label in output if label != last + 1]
    path = _chain_path([sizes.get(label, 1) for label in range(last + 2)])
    return contract(engine, "multi_dot", _source(inputs, output, {}), values, out=out, optimize=path)


def _chain_path(sizes: list[int]) -> list[list[int]]:
    """The cheapest bracketing of a chain of matrices, as a path (Cormen et al., Introduction to Algorithms, 15.2)."""
    count = len(sizes) - 1
    cost = [[0] * count for _ in range(count)]
    cut = [[0] * count for _ in range(count)]
    for span in range(1, count):
        for first in range(count - span):
            last = first + span
            best = math.inf
            for split in range(first, last):
                total = cost[first][split] + cost[split + 1][last] + sizes[first] * sizes[split + 1] * sizes[last + 1]
                if total < best:
                    best, cut[first][last] = total, split
            cost[first][last] = int(best)
    live = list(range(count))
    path: list[list[int]] = []
    fresh = count

    def reduce(first: int, last: int) -> int:
        nonlocal fresh
        if first == last:
            return first
        one = reduce(first, cut[first][last])
        other = reduce(cut[first][last] + 1, last)
        path.append(sorted((live.index(one), live.index(other))))
        live.remove(one)
        live.remove(other)
        live.append(fresh)
        fresh += 1
        return fresh - 1

    reduce(0, count - 1)
    return path
