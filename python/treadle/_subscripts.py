"""Subscripts: the text, or the interleaved form brought into numbered labels."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from treadle import _native
from treadle.exceptions import DTypeError, SubscriptsError

#: Numbered labels of one operand or of the output; None is an ellipsis.
Terms = list[int | None]
#: Subscripts: text, or the lists of the operands, that of the output if it was written, and a name for each number.
Source = str | tuple[list[Terms], Terms | None, list[str]]


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


def bind(
    source: Source, shapes: list[tuple[int, ...]], operation: str
) -> tuple[list[list[int]], list[int], list[int], list[str]]:
    """Labels of every axis of the operands and of the result, with extent and name by label."""
    return _native._bind_subscripts(operation, source, [list(shape) for shape in shapes])


def text_of(source: Source) -> str:
    """The subscripts as a reader writes them; labels of the interleaved form by their names."""
    if isinstance(source, str):
        return source
    inputs, output, names = source

    def term(labels: Terms) -> str:
        return " ".join("..." if label is None else names[label] for label in labels)

    written = ", ".join(term(labels) for labels in inputs)
    return written if output is None else f"{written} -> {term(output)}"
