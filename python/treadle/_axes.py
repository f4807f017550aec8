"""Where the axes of generalised ufuncs stand: numpy's ``axes=``, ``axis=`` and ``keepdims=``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays
from treadle.exceptions import ArgumentError, AxisError, ShapeError


def normalised(axes: Sequence[int], ndim: int, operand: int, operation: str) -> list[int]:
    """Count axes from the front, refusing those that an array does not have and those given twice."""
    what = f"operand {operand}" if operand < 2 else "the result"
    blamed = operand if operand < 2 else None
    normal = []
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise AxisError(
                f"{operation}: axis {axis} is out of range for {what} with {ndim} axes",
                operation=operation,
                operand=blamed,
                axis=axis,
                ndim=ndim,
            )
        normal.append(axis % ndim)
    for axis in normal:
        if normal.count(axis) > 1:
            raise AxisError(
                f"{operation}: axis {axis} of {what} is a duplicate; each axis may be named once",
                operation=operation,
                operand=blamed,
                axis=axis,
                ndim=ndim,
            )
    return normal


def _entries(axes: Any, counts: tuple[int, int, int], operation: str) -> list[list[int]]:
    """One list of axes for each operand and for the result, as ``axes=`` names them."""
    if not isinstance(axes, (list, tuple)):
        raise ArgumentError(
            f"{operation}: axes is {axes!r}; give a list with an entry for each operand and for the result",
            operation=operation,
            argument="axes",
        )
    wanted = (2, 3) if counts[2] == 0 else (3,)
    if len(axes) not in wanted:
        raise ArgumentError(
            f"{operation}: axes has {len(axes)} entries; give {' or '.join(map(str, wanted))}: the operands and the result",
            operation=operation,
            argument="axes",
        )
    entries = []
    for place, entry in enumerate(axes):
        try:
            listed = (
                [operator.index(entry)] if hasattr(entry, "__index__") else [operator.index(axis) for axis in entry]
            )
        except TypeError:
            raise ArgumentError(
                f"{operation}: entry {place} of axes is {entry!r}; give an int or a tuple of ints",
                operation=operation,
                argument="axes",
            ) from None
        if len(listed) != counts[place]:
            raise AxisError(
                f"{operation}: entry {place} of axes names {len(listed)} axes, and {counts[place]} belong there",
                operation=operation,
                operand=place if place < 2 else None,
            )
        entries.append(listed)
    return entries + [[]] * (3 - len(entries))


@dataclass(frozen=True)
class Arrangement:
    """Where the core axes of two operands and of their result stand; None is at the end.

    Parameters
    ----------
    operation : str
        For messages.
    counts : tuple of int
        Core axes of the operands and of the result.
    entries : list of list of int, optional
        The axes of each.
    kept : bool
        Whether the result keeps the contracted axis with length one.
    kept_at : int
        Where it does.
    """

    operation: str
    counts: tuple[int, int, int]
    entries: list[list[int]] | None = None
    kept: bool = False
    kept_at: int = -1

    @classmethod
    def read(
        cls,
        operation: str,
        counts: tuple[int, int, int],
        axes: Any,
        axis: Any = None,
        keepdims: Any = None,
    ) -> Arrangement:
        """Take ``axes=``, ``axis=`` and ``keepdims=`` as numpy does."""
        if axis is not None and axes is not None:
            raise ArgumentError(f"{operation}: both axis and axes were given; give one of them", operation=operation)
        if not isinstance(keepdims, (bool, np.bool_, type(None))):
            raise ArgumentError(
                f"{operation}: keepdims is {keepdims!r}; valid are True and False",
                operation=operation,
                argument="keepdims",
            )
        kept = bool(keepdims)
        if axis is not None:
            try:
                number = operator.index(axis)
            except TypeError:
                raise ArgumentError(
                    f"{operation}: axis is {axis!r}; give an int", operation=operation, argument="axis"
                ) from None
            return cls(operation, counts, [[number], [number], []], kept, number)
        if axes is None:
            return cls(operation, counts, None, kept)
        if kept and isinstance(axes, (list, tuple)) and len(axes) == 3:
            entries = _entries(axes, (counts[0], counts[1], 1), operation)
            return cls(operation, counts, [*entries[:2], []], kept, entries[2][0])
        return cls(operation, counts, _entries(axes, counts, operation), kept)

    def operand(self, array: npt.NDArray[Any], place: int) -> npt.NDArray[Any]:
        """An operand with its core axes at the end."""
        if self.entries is None:
            return array
        named = normalised(self.entries[place], array.ndim, place, self.operation)
        return np.moveaxis(array, named, range(-len(named), 0))

    def batch_of(self, out: Any, batch: int) -> int:
        """How many batch axes an output has, which are at least those of the result."""
        out = _arrays.single_out(out)
        own = out.ndim - self.counts[2] - self.kept if isinstance(out, np.ndarray) else batch
        return max(own, batch)

    def out(self, out: Any, batch: int) -> Any:
        """The caller's array with the result's core axes at the end, for a result of that many batch axes."""
        out = _arrays.single_out(out)
        ndim = batch + self.counts[2] + self.kept
        if not isinstance(out, np.ndarray) or out.ndim != ndim:
            # Whoever checks it says what is wrong.
            return out
        if self.kept:
            (at,) = normalised([self.kept_at], ndim, 2, self.operation)
            if out.shape[at] != 1:
                raise ShapeError(
                    f"{self.operation}: out has length {out.shape[at]} along axis {at}, which keepdims keeps at 1",
                    operation=self.operation,
                    expected=1,
                    actual=out.shape[at],
                )
            return out[(slice(None),) * at + (0,) + (...,)]
        if self.entries is None:
            return out
        named = normalised(self.entries[2], ndim, 2, self.operation)
        return np.moveaxis(out, named, range(-len(named), 0))

    def result(self, result: Any) -> Any:
        """The result with its core axes where the caller wants them."""
        if self.kept:
            ndim = np.ndim(result) + 1
            (at,) = normalised([self.kept_at], ndim, 2, self.operation)
            return np.expand_dims(result, at)
        if self.entries is None or not self.entries[2]:
            return result
        named = normalised(self.entries[2], result.ndim, 2, self.operation)
        return np.moveaxis(result, range(-len(named), 0), named)

    def check_result(self, batch: int) -> None:
        """Refuse axes that a result of that many batch axes does not have, before anything is computed."""
        ndim = batch + self.counts[2] + self.kept
        if self.kept:
            normalised([self.kept_at], ndim, 2, self.operation)
        elif self.entries is not None:
            normalised(self.entries[2], ndim, 2, self.operation)
