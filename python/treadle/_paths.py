"""Orders of contraction: what ``optimize=`` means, and what other packages know about it."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import _arrays
from treadle._subscripts import Source, bind, split_arguments
from treadle.exceptions import ArgumentError, PathError

if TYPE_CHECKING:
    from treadle._native import CpuEngine

#: Networks of more operands than this are not shown to opt_einsum: its greedy search is no better than ours, and slow.
NEIGHBOUR_OPERANDS = 256
_found: dict[str, Callable[..., Any] | None] = {}


def _neighbour() -> Callable[..., Any] | None:
    """opt_einsum's ``auto``, imported when a network first asks for it."""
    if "opt_einsum" not in _found:
        try:
            from opt_einsum.paths import auto
        except ImportError:
            auto = None
        _found["opt_einsum"] = auto
    return _found["opt_einsum"]


def path_of_neighbour(inputs: list[list[int]], output: list[int], extents: list[int]) -> list[list[int]] | None:
    """opt_einsum's path for a network, or nothing where opt_einsum is not installed.

    Its ``auto`` draws no random numbers, so that a network has one path.
    """
    search = _neighbour() if len(inputs) <= NEIGHBOUR_OPERANDS else None
    if search is None:
        return None
    steps = search([frozenset(labels) for labels in inputs], frozenset(output), dict(enumerate(extents)))
    return [[int(position) for position in step] for step in steps]


def chosen(
    source: Source,
    shapes: list[tuple[int, ...]],
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
        return (_path_by(optimize, source, shapes, memory_limit, operation) if len(shapes) > 2 else "auto"), None
    if hasattr(optimize, "get_path"):
        # A tree of cotengra's.
        optimize = optimize.get_path()
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


def _takes(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError:
        return False
    except ValueError:
        # A builtin without a signature.
        return True
    return True


def _path_by(
    optimizer: Callable[..., Any],
    source: Source,
    shapes: list[tuple[int, ...]],
    memory_limit: Any,
    operation: str,
) -> Any:
    """Ask an optimizer: ``optimizer(inputs, output, size_dict, memory_limit)``, or without the last as some of cotengra's."""
    inputs, output, sizes = bound_labels(source, shapes, operation)
    arguments: tuple[Any, ...] = ([frozenset(terms) for terms in inputs], frozenset(output), sizes, memory_limit)
    steps = optimizer(*(arguments if _takes(optimizer, arguments) else arguments[:3]))
    try:
        listed = list(steps)
    except TypeError:
        raise PathError(
            f"{operation}: the optimizer gave a {type(steps).__name__}; a path is a sequence of steps",
            operation=operation,
        ) from None
    return _checked_path(listed, operation)


def bound_labels(
    source: Source, shapes: list[tuple[int, ...]], operation: str
) -> tuple[list[tuple[str, ...]], tuple[str, ...], dict[str, int]]:
    """Labels of every axis as text, with their sizes; axes under ``...`` get names of their own."""
    inputs, output, extents, names = bind(source, shapes, operation)
    unique = [f"{name}:{number}" for number, name in enumerate(names)]
    return (
        [tuple(unique[label] for label in labels) for labels in inputs],
        tuple(unique[label] for label in output),
        {unique[label]: extent for label, extent in enumerate(extents)},
    )


def einsum_path(engine: CpuEngine, subscripts: Any, operands: tuple[Any, ...], optimize: Any) -> tuple[list[Any], str]:
    """``engine.einsum_path``: numpy's path list, and a report."""
    source, values = split_arguments(subscripts, operands, "einsum_path")
    arrays = [_arrays.as_array(value, "einsum_path", position) for position, value in enumerate(values)]
    shapes = [array.shape for array in arrays]
    order, _ = chosen(source, shapes, optimize, None, "einsum_path")
    positions, naive, flops, largest = engine._find_path(
        "einsum_path", source, [list(shape) for shape in shapes], order
    )
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
