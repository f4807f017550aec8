"""Products with numpy's names, each one contraction."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays, _native
from treadle._axes import Arrangement, normalised
from treadle._contract import contract
from treadle._options import CASTINGS, ORDERS, option
from treadle._subscripts import Source
from treadle.exceptions import ArgumentError, BroadcastError, MatrixShapeError, ShapeError, UnsupportedError

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


#: Axes of a numpy array.
_MOST_AXES = 64
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


def _check_gufunc(operation: str, subok: Any, signature: Any) -> None:
    """Refuse the options of numpy's ufuncs that choose a class or a loop."""
    if not (subok is None or (isinstance(subok, (bool, np.bool_)) and not subok)):
        raise UnsupportedError(
            f"{operation}: subok is {subok!r}, and results are plain arrays; leave it out", operation=operation
        )
    if signature is not None:
        raise UnsupportedError(
            f"{operation}: signature is {signature!r}, and there are no loops to choose; give dtype=",
            operation=operation,
        )


def _gufunc(
    engine: CpuEngine,
    operation: str,
    left: npt.NDArray[Any],
    right: npt.NDArray[Any],
    out: Any,
    cores: tuple[list[int], list[int], list[int]],
    arrangement: Arrangement,
    *,
    conj: list[bool] | None = None,
    dtype: Any = None,
    casting: Any = None,
    order: Any = None,
    subok: Any = None,
    signature: Any = None,
    **unknown: Any,
) -> Any:
    """A product that numpy has as a generalised ufunc, whose rule for casts is "same_kind"."""
    for name in unknown:
        raise TypeError(f"{operation}() got an unexpected keyword argument {name!r}")
    _check_gufunc(operation, subok, signature)
    _no_scalar(operation, left, 0, len(cores[0]))
    _no_scalar(operation, right, 1, len(cores[1]))
    left, right = arrangement.operand(left, 0), arrangement.operand(right, 1)
    batch = max(left.ndim - len(cores[0]), right.ndim - len(cores[1]))
    arrangement.check_result(batch)
    target = None
    if out is not None:
        target = arrangement.out(out, arrangement.batch_of(out, batch))
        left = _stretched(left, right, target, cores)
    result = _product(
        engine,
        operation,
        left,
        right,
        cores,
        out=target,
        conj=conj,
        dtype=dtype,
        casting=option("casting", casting, "same_kind", CASTINGS, operation),
        order=option("order", order, "K", ORDERS, operation),
    )
    return arrangement.result(result) if out is None else _arrays.single_out(out)


def _stretched(
    left: npt.NDArray[Any], right: npt.NDArray[Any], out: Any, cores: tuple[list[int], list[int], list[int]]
) -> npt.NDArray[Any]:
    """The first operand with the batch axes of an `out` to which the result broadcasts, as numpy's ufuncs allow."""
    if not isinstance(out, np.ndarray) or out.ndim < len(cores[2]):
        return left
    wanted = out.shape[: out.ndim - len(cores[2])]
    left_core = left.shape[left.ndim - len(cores[0]) :]
    leads = left.shape[: left.ndim - len(cores[0])], right.shape[: right.ndim - len(cores[1])]
    try:
        if np.broadcast_shapes(*leads) == wanted or np.broadcast_shapes(*leads, wanted) != wanted:
            return left
    except ValueError:
        # Whoever binds the labels, or checks the output, says what does not fit.
        return left
    return np.broadcast_to(left, wanted + left_core)


def matmul(engine: CpuEngine, a: Any, b: Any, out: Any = None, *, axes: Any = None, **options: Any) -> Any:
    """``engine.matmul`` with anything that is not two plain matrices."""
    left, right = _arrays.as_operand(a, "matmul", 0), _arrays.as_operand(b, "matmul", 1)
    _no_scalar("matmul", left, 0, 1)
    _no_scalar("matmul", right, 1, 1)
    a_core = [_K] if left.ndim == 1 else [_M, _K]
    b_core = [_K] if right.ndim == 1 else [_K, _N]
    out_core = [label for label in (_M, _N) if label in a_core + b_core]
    arrangement = Arrangement.read("matmul", (len(a_core), len(b_core), len(out_core)), axes)
    return _gufunc(engine, "matmul", left, right, out, (a_core, b_core, out_core), arrangement, **options)


def dot(engine: CpuEngine, a: Any, b: Any, out: Any = None) -> Any:
    """``engine.dot`` with anything that is not two plain matrices."""
    return _dot(engine, "dot", *_arrays.as_pair(a, b, "dot"), out)


def _dot(engine: CpuEngine, operation: str, left: npt.NDArray[Any], right: npt.NDArray[Any], out: Any) -> Any:
    if left.ndim == 0 or right.ndim == 0:
        # numpy multiplies then, by its ufunc.
        return _outer_of(engine, operation, left, right, out, "same_kind")
    axis = -1 if right.ndim == 1 else -2
    return tensordot(engine, left, right, ((-1,), (axis,)), operation=operation, out=out)


def _outer_of(
    engine: CpuEngine, operation: str, a: npt.NDArray[Any], b: npt.NDArray[Any], out: Any, casting: str = "safe"
) -> Any:
    left, right = _labels(a.ndim, 0), _labels(b.ndim, a.ndim)
    source = _source([left, right], left + right, {})
    return contract(engine, operation, source, [a, b], out=out, out_casting=casting)


def inner(engine: CpuEngine, a: Any, b: Any) -> Any:
    """``engine.inner``."""
    left, right = _arrays.as_pair(a, b, "inner")
    if left.ndim == 0 or right.ndim == 0:
        return _outer_of(engine, "inner", left, right, None)
    return tensordot(engine, left, right, ((-1,), (-1,)), operation="inner")


def outer(engine: CpuEngine, a: Any, b: Any, out: Any = None) -> Any:
    """``engine.outer``: both operands are flattened."""
    left, right = _arrays.as_operand(a, "outer", 0), _arrays.as_operand(b, "outer", 1)
    shape = (left.size, right.size)
    out = _arrays.single_out(out)
    if out is None and left.ndim + right.ndim <= _MOST_AXES and shape != (1, 1):
        # All axes of both in C order are the flattened ones, without a copy.
        source = _source(
            [_labels(left.ndim, 0), _labels(right.ndim, left.ndim)], _labels(left.ndim + right.ndim, 0), {}
        )
        result: npt.NDArray[Any] = contract(engine, "outer", source, [left, right], order="C")
        return result.reshape(shape)
    left, right = left.reshape(-1), right.reshape(-1)
    # numpy's is a ufunc, whose result broadcasts to out and whose rule for out is "same_kind".
    if isinstance(out, np.ndarray) and out.shape != shape and _broadcasts(shape, out.shape):
        axes = _labels(out.ndim, 0)
        factors = [np.broadcast_to(left[:, None], out.shape), np.broadcast_to(right[None, :], out.shape)]
        return contract(engine, "outer", _source([axes, axes], axes, {}), factors, out=out, out_casting="same_kind")
    return _outer_of(engine, "outer", left, right, out, "same_kind")


def _broadcasts(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def vdot(engine: CpuEngine, a: Any, b: Any) -> Any:
    """``engine.vdot``: both operands are flattened, the first is conjugated."""
    left, right = _arrays.as_pair(a, b, "vdot")
    if left.size != right.size:
        raise _mismatch("vdot", "the number of elements", left.size, right.size, (left.shape, right.shape))
    if left.shape != right.shape:
        left, right = left.reshape(-1), right.reshape(-1)
    axes = _labels(left.ndim, 0)
    return contract(engine, "vdot", _source([axes, axes], [], {}), [left, right], conj=[True, False])


def vecdot(
    engine: CpuEngine,
    a: Any,
    b: Any,
    out: Any = None,
    *,
    axes: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    **options: Any,
) -> Any:
    """``engine.vecdot``: the first operand is conjugated."""
    left, right = _arrays.as_operand(a, "vecdot", 0), _arrays.as_operand(b, "vecdot", 1)
    arrangement = Arrangement.read("vecdot", (1, 1, 0), axes, axis, keepdims)
    cores: tuple[list[int], list[int], list[int]] = ([_K], [_K], [])
    return _gufunc(engine, "vecdot", left, right, out, cores, arrangement, conj=[True, False], **options)


def matvec(engine: CpuEngine, a: Any, b: Any, out: Any = None, *, axes: Any = None, **options: Any) -> Any:
    """``engine.matvec``."""
    left, right = _arrays.as_operand(a, "matvec", 0), _arrays.as_operand(b, "matvec", 1)
    arrangement = Arrangement.read("matvec", (2, 1, 1), axes)
    return _gufunc(engine, "matvec", left, right, out, ([_M, _K], [_K], [_M]), arrangement, **options)


def vecmat(engine: CpuEngine, a: Any, b: Any, out: Any = None, *, axes: Any = None, **options: Any) -> Any:
    """``engine.vecmat``: the vector is conjugated, as numpy's."""
    left, right = _arrays.as_operand(a, "vecmat", 0), _arrays.as_operand(b, "vecmat", 1)
    arrangement = Arrangement.read("vecmat", (1, 2, 1), axes)
    cores = ([_K], [_K, _N], [_N])
    return _gufunc(engine, "vecmat", left, right, out, cores, arrangement, conj=[True, False], **options)


def _is_index(value: Any) -> bool:
    # Arrays have __index__ whatever their size.
    return hasattr(value, "__index__") and getattr(value, "ndim", 0) == 0


def _axis_list(axes: Any) -> list[int]:
    return [operator.index(axes)] if _is_index(axes) else [operator.index(axis) for axis in axes]


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
    a_axes = normalised(a_axes, left.ndim, 0, operation)
    b_axes = normalised(b_axes, right.ndim, 1, operation)
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
    return _product(
        engine,
        "gemm",
        a,
        b,
        cores,
        out=out,
        alpha=1 if alpha is None else alpha,
        beta=0 if beta is None else beta,
        conj=[trans_a == "C", trans_b == "C"],
    )


def multi_dot(engine: CpuEngine, arrays: Any, out: Any) -> Any:
    """``engine.multi_dot``: the cheapest order of a chain, found exactly."""
    given = list(arrays)
    values = [_arrays.as_operand(value, "multi_dot", position) for position, value in enumerate(given)]
    if len(values) < 2:
        raise ShapeError(f"multi_dot: {len(values)} arrays were given; at least two are needed", operation="multi_dot")
    if len(values) == 2:
        # There is no order to choose, and numpy's is then a dot, of whatever has as many axes as it has.
        return _dot(engine, "multi_dot", *_arrays.as_pair(given[0], given[1], "multi_dot"), out)
    last = len(values) - 1
    inputs = []
    for position, array in enumerate(values):
        vector = array.ndim == 1 and position in (0, last)
        if array.ndim != 2 and not vector:
            raise MatrixShapeError(
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
    path = _native._chain_path([sizes.get(label, 1) for label in range(last + 2)])
    return contract(engine, "multi_dot", _source(inputs, output, {}), values, out=out, optimize=path)
