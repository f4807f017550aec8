"""The classes of ``treadle.exceptions`` as rows of a table."""

from __future__ import annotations

import inspect

from treadle import exceptions


def pieces(text: str) -> list[tuple[bool, str]]:
    """The text, cut at its double backticks; whether a piece stood between them."""
    parts = text.split("``")
    return [(bool(place % 2), part) for place, part in enumerate(parts) if part]


def rows() -> list[tuple[str, str, str, str]]:
    """Name, code, foreign bases and first sentence of every class, in the order of the module."""
    found = []
    for name, value in vars(exceptions).items():
        if not inspect.isclass(value) or name.startswith("_") or value.__module__ != exceptions.__name__:
            continue
        others = [
            base.__name__ if base.__module__ == "builtins" else f"{base.__module__}.{base.__name__}"
            for base in value.__mro__[1:]
            if base.__module__ != exceptions.__name__ and base not in (object, BaseException, Exception, Warning)
        ]
        summary = (inspect.getdoc(value) or "").split("\n\n", 1)[0].replace("\n", " ")
        found.append((name, str(getattr(value, "code", "")), ", ".join(others), summary))
    return found
