"""Options with a closed set of values, and what is said about others."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from treadle.exceptions import ArgumentError

CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
ORDERS = ("K", "C", "F", "A")


def option(name: str, value: Any, default: Any, valid: tuple[Any, ...], operation: str) -> Any:
    """Take an option from its closed set; None is its default."""
    if value is None:
        return default
    if name == "order" and isinstance(value, str):
        value = value.upper()
    if not isinstance(value, str) or value not in valid:
        listed = ", ".join(repr(v) for v in valid)
        raise ArgumentError(f"{operation}: {name} is {value!r}; valid are {listed}", operation=operation, argument=name)
    return value


def flags(conj: Any, count: int, operation: str) -> list[bool]:
    """Take ``conj=``: one bool an operand."""
    if isinstance(conj, (bool, np.bool_)):
        raise ArgumentError(
            f"{operation}: conj is {conj}; give one flag for each of the {count} operands", operation=operation
        )
    try:
        read = [bool(flag) for flag in conj]
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{operation}: conj is {conj!r}; give one bool for each of the {count} operands", operation=operation
        ) from None
    if len(read) != count:
        raise ArgumentError(
            f"{operation}: conj has {len(read)} flags for {count} operands; give one an operand", operation=operation
        )
    return read


def limit(memory_limit: Any, operation: str) -> int | None:
    """Take ``memory_limit=``: a number of elements."""
    if memory_limit is None:
        return None
    try:
        most = int(memory_limit) if isinstance(memory_limit, float) else operator.index(memory_limit)
    except (TypeError, ValueError, OverflowError):
        most = -1
    if most < 0:
        raise ArgumentError(
            f"{operation}: memory_limit is {memory_limit!r}; valid are numbers of elements from 0 on, or None",
            operation=operation,
            argument="memory_limit",
        )
    # No array has as many elements as the core can count.
    return min(most, sys.maxsize)
