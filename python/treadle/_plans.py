"""Plans: what they are made from, how they travel, and calls with operands that are not plain."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays, _native, _paths
from treadle._contract import check_casts, checked_out, converted, dtype_of, in_dtype, promote
from treadle._options import CASTINGS, ORDERS, flags, limit, option
from treadle._subscripts import Source, split_arguments, text_of
from treadle.exceptions import ArgumentError, DTypeError, EngineError, ShapeError, SizeOverflowError, SubscriptsError

if TYPE_CHECKING:
    from treadle._native import CpuEngine, Plan

Shape = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a plan is made from; it pickles.

    Parameters
    ----------
    source : str or tuple
        The subscripts, in one of the core's two forms.
    subscripts : str
        The same for a reader.
    shapes : tuple of tuple of int
        Of all operands.
    strides : tuple of tuple of int
        Bytes between the elements that the core reads.
    dtypes : tuple of dtype
        Of all operands, as a call brings them.
    dtype : dtype
        Of the result.
    constants : mapping of int to ndarray
        The operands that the plan holds, by position, in the core's dtype.
    casting, order, route : str
        As in ``einsum``.
    optimize : str, bool or list of list of int
        A path, or how one is found.
    memory_limit : int or None
        As in ``einsum``.
    conj : list of bool
        One flag an operand.
    """

    source: Source
    subscripts: str
    shapes: tuple[Shape, ...]
    strides: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]
    dtype: np.dtype[Any]
    constants: Mapping[int, npt.NDArray[Any]]
    casting: str
    order: str
    optimize: Any
    route: str
    memory_limit: int | None
    conj: list[bool]

    @property
    def free(self) -> list[int]:
        """Positions of the operands that a call brings."""
        return [position for position in range(len(self.shapes)) if position not in self.constants]

    @property
    def free_shapes(self) -> tuple[Shape, ...]:
        """Shapes of the operands that a call brings."""
        return tuple(self.shapes[position] for position in self.free)

    @property
    def core_dtype(self) -> np.dtype[Any]:
        """The dtype in which the core computes."""
        return _core_dtype(self.dtype)


def _core_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    # np.dtype of a name is numpy's own, whatever C name the operands' dtype has.
    return np.dtype("float32") if _arrays.is_half(dtype) else np.dtype(dtype.name)


def _has_own_name(dtype: np.dtype[Any]) -> bool:
    """Tell whether a dtype goes by the C name that numpy gives to its name."""
    return dtype.num >= 256 or np.dtype(dtype.name).num == dtype.num


def _build(engine: CpuEngine | None, recipe: Recipe) -> Plan:
    dtypes = [*recipe.dtypes, recipe.dtype]
    return _native._plan(
        engine,
        recipe,
        recipe.source,
        dtypes,
        [(list(shape), list(strides)) for shape, strides in zip(recipe.shapes, _own_strides(recipe), strict=True)],
        dict(recipe.constants),
        recipe.conj,
        recipe.order,
        recipe.optimize,
        recipe.route,
        recipe.memory_limit,
        all(_has_own_name(dtype) for dtype in dtypes),
    )


def _own_strides(recipe: Recipe) -> list[tuple[int, ...]]:
    """The strides planned for; a constant's are those that it has now, which a pickle may have changed."""
    core = recipe.core_dtype
    return [
        _strides(recipe.constants[position], core) if position in recipe.constants else strides
        for position, strides in enumerate(recipe.strides)
    ]


def without_engine(recipe: Recipe) -> Plan:
    """Plan anew, for no engine; what unpickling calls."""
    return _build(None, recipe)


def bind(engine: CpuEngine, plan: Plan) -> Plan:
    """Give an engine a plan that was made elsewhere."""
    bound = plan._bound_to(engine)
    return _build(engine, settled(plan._recipe, plan._steps)) if bound is None else bound


def settled(recipe: Recipe, steps: list[list[int]]) -> Recipe:
    """The recipe with the path that was found, so that what is made from it takes the same steps."""
    if isinstance(recipe.source, str) and "(" in recipe.source:
        # The order stands in the subscripts.
        return recipe
    return replace(recipe, optimize=steps)


# --- making a plan ---------------------------------------------------------------------------------------------


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and all(hasattr(size, "__index__") and np.ndim(size) == 0 for size in value)


def _shape(value: tuple[Any, ...], position: int) -> Shape:
    sizes = tuple(operator.index(size) for size in value)
    for size in sizes:
        if size < 0:
            raise ShapeError(
                f"plan: the shape {sizes} of operand {position} has a negative size; sizes count from 0",
                operation="plan",
                operand=position,
                actual=sizes,
            )
    return sizes


def _check_size(shape: Shape, dtype: np.dtype[Any], position: int) -> None:
    if 0 not in shape and (math.prod(shape) * dtype.itemsize > sys.maxsize or len(shape) > 64):
        raise SizeOverflowError(
            f"plan: operand {position} of shape {shape} and dtype {dtype} is larger than any array can be",
            operation="plan",
            operand=position,
            actual=shape,
        )


def _c_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    strides = []
    step = itemsize
    for size in reversed(shape):
        # An axis of a shape without elements may be of any size, and its stride is never used.
        strides.append(min(step, sys.maxsize - sys.maxsize % itemsize))
        step *= max(size, 1)
    return tuple(reversed(strides))


def _f_strides(shape: Shape, itemsize: int) -> tuple[int, ...]:
    return _c_strides(shape[::-1], itemsize)[::-1]


def _strides(operand: npt.NDArray[Any] | Shape, dtype: np.dtype[Any]) -> tuple[int, ...]:
    """The strides that the core will see: an array's own, and those of a conversion, or of C order."""
    if isinstance(operand, tuple):
        return _c_strides(operand, dtype.itemsize)
    if operand.dtype == dtype:
        return operand.strides
    if operand.flags.f_contiguous and not operand.flags.c_contiguous:
        return _f_strides(operand.shape, dtype.itemsize)
    return _c_strides(operand.shape, dtype.itemsize)


def _positions(constants: Any, count: int) -> list[int]:
    if constants is None:
        return []
    try:
        positions = [operator.index(position) for position in constants]
    except TypeError:
        raise ArgumentError(
            f"plan: constants is {constants!r}; give a list of operand positions",
            operation="plan",
            argument="constants",
        ) from None
    for position in positions:
        if not 0 <= position < count:
            raise ArgumentError(
                f"plan: constants names operand {position}; valid are 0 to {count - 1}",
                operation="plan",
                argument="constants",
            )
        if positions.count(position) > 1:
            raise ArgumentError(
                f"plan: constants names operand {position} twice; name it once", operation="plan", argument="constants"
            )
    if len(positions) == count:
        raise ArgumentError(
            "plan: constants names every operand, which leaves a call nothing to bring; use einsum",
            operation="plan",
            argument="constants",
        )
    return sorted(positions)


def make(
    engine: CpuEngine,
    subscripts: Any,
    operands: tuple[Any, ...],
    *,
    dtype: Any,
    casting: Any,
    constants: Any,
    optimize: Any,
    route: Any,
    memory_limit: Any,
    order: Any,
    conj: Any,
) -> Plan:
    """``engine.plan`` of subscripts."""
    source, values = split_arguments(subscripts, operands, "plan")
    held = _positions(constants, len(values))
    wanted = None if dtype is None else dtype_of(dtype, "plan")
    read: list[npt.NDArray[Any] | Shape] = []
    for position, value in enumerate(values):
        if _is_shape(value):
            if position in held:
                raise ArgumentError(
                    f"plan: operand {position} is a constant and was given as the shape {value}; give the array",
                    operation="plan",
                    operand=position,
                    argument="constants",
                )
            read.append(_shape(value, position))
        else:
            read.append(_arrays.as_operand(value, "plan", position))
    unsaid = np.dtype(np.float64) if wanted is None else wanted
    # Byte order is no part of what a plan is made for.
    dtypes = tuple(unsaid if isinstance(operand, tuple) else operand.dtype.newbyteorder("=") for operand in read)
    if wanted is None:
        wanted = promote(dtypes, "plan")
    _arrays.check_dtype(wanted, "plan")
    casting = option("casting", casting, "safe", CASTINGS, "plan")
    shapes = tuple(operand if isinstance(operand, tuple) else operand.shape for operand in read)
    core = _core_dtype(wanted)
    for position, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
        _check_size(shape, max((core, dtype), key=lambda one: one.itemsize), position)
        check_cast(dtype, wanted, casting, position)
    path, cap = _paths.chosen(source, list(shapes), optimize, memory_limit, "plan")
    if route is not None and not isinstance(route, str):
        raise ArgumentError(f"plan: route is {route!r}; give a str", operation="plan", argument="route")
    copies = {position: _copy(read[position], wanted, casting) for position in held}
    return _build(
        engine,
        Recipe(
            source=source,
            subscripts=text_of(source),
            shapes=shapes,
            strides=tuple(_strides(copies.get(position, operand), core) for position, operand in enumerate(read)),
            dtypes=dtypes,
            dtype=wanted,
            constants=copies,
            casting=casting,
            order=option("order", order, "K", ORDERS, "plan"),
            optimize=path,
            route="auto" if route is None else route,
            memory_limit=limit(cap if memory_limit is None else memory_limit, "plan"),
            conj=[False] * len(values) if conj is None else flags(conj, len(values), "plan"),
        ),
    )


def check_cast(given: np.dtype[Any], wanted: np.dtype[Any], casting: str, position: int) -> None:
    """Refuse a conversion that `casting` forbids, when the plan is made."""
    if not np.can_cast(given, wanted, casting=casting):  # type: ignore[arg-type]
        raise DTypeError(
            f"plan: operand {position} has dtype {given} and cannot be converted to {wanted} by the rule {casting!r}; "
            "convert it, or choose another casting",
            operation="plan",
            operand=position,
            expected=str(wanted),
            actual=str(given),
        )


def _copy(operand: npt.NDArray[Any] | Shape, wanted: np.dtype[Any], casting: str) -> npt.NDArray[Any]:
    """A constant that nobody else can write, in the core's dtype."""
    array = np.asarray(operand)
    check_casts([array], wanted, casting, "plan")
    if array.dtype != wanted and _arrays.is_half(wanted):
        array = converted(array, wanted, "plan")
    copy = converted(array, _core_dtype(wanted), "plan")
    copy.flags.writeable = False
    return copy


# --- running a plan --------------------------------------------------------------------------------------------


def call(plan: Plan, operands: tuple[Any, ...], out: Any, alpha: Any, beta: Any) -> Any:
    """``plan(*operands)`` with anything that is not plain."""
    recipe: Recipe = plan._recipe
    if plan.engine is None:
        raise EngineError(
            "plan: this plan belongs to no engine, for it came out of a pickle; engine.plan(plan) gives one that does",
            operation="plan",
        )
    free = recipe.free
    if len(operands) != len(free):
        held = f", and holds {len(recipe.constants)}" if recipe.constants else ""
        raise SubscriptsError(
            f"plan: {len(operands)} operands were given; the plan {recipe.subscripts!r} takes {len(free)}{held}",
            operation="plan",
            expected=len(free),
            actual=len(operands),
        )
    arrays = [_arrays.as_operand(value, "plan", place) for place, value in enumerate(operands)]
    for place, (position, array) in enumerate(zip(free, arrays, strict=True)):
        if array.shape != recipe.shapes[position]:
            raise ShapeError(
                f"plan: operand {place} has shape {array.shape} and was planned with {recipe.shapes[position]}; "
                "make a plan for the new shape",
                operation="plan",
                operand=place,
                expected=recipe.shapes[position],
                actual=array.shape,
            )
        if array.dtype.newbyteorder("=") != recipe.dtypes[position]:
            raise DTypeError(
                f"plan: operand {place} has dtype {array.dtype} and was planned with {recipe.dtypes[position]}; "
                "convert it, or make a plan for the new dtype",
                operation="plan",
                operand=place,
                expected=str(recipe.dtypes[position]),
                actual=str(array.dtype),
            )
    target = None
    if out is not None:
        target = checked_out(out, plan.shape, arrays, recipe.dtype, recipe.casting, "plan")
    result = plan._run(arrays, target, 1 if alpha is None else alpha, 0 if beta is None else beta)
    return in_dtype(result, recipe.dtype) if out is None else _arrays.single_out(out)
