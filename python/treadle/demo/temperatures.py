"""The temperatures of a sweep: the default ones, or those of a file that the user brings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TemperatureFileError", "default_temperatures", "read_temperatures"]

#: Temperatures outside this range are refused: the model is frozen or free there to every digit.
RANGE = (1e-3, 1e4)
#: So much of a wrong line is shown.
SHOWN_CHARS = 60


class TemperatureFileError(ValueError):
    """A file of temperatures that cannot be used; the message names file, line number and text."""


def default_temperatures() -> tuple[float, ...]:
    """Return 24 temperatures around the critical one, none of them on it."""
    return tuple(float(value) for value in np.linspace(1.5, 3.5, 24).round(4))


def _temperature(text: str) -> float:
    if "_" in text:
        msg = "not a number"
        raise ValueError(msg)
    try:
        value = float(text)
    except ValueError:
        msg = "not a number"
        raise ValueError(msg) from None
    if not math.isfinite(value) or value <= 0:
        msg = "a temperature is positive and finite"
        raise ValueError(msg)
    if not RANGE[0] <= value <= RANGE[1]:
        msg = f"outside {RANGE[0]:g} to {RANGE[1]:g}"
        raise ValueError(msg)
    return value


def read_temperatures(path: Path) -> tuple[float, ...]:
    """Read one temperature per line, in units of J / k_B; ``#`` starts a comment, empty lines are skipped."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        wrong = error.object.count(b"\n", 0, error.start) + 1
        msg = f"{path}, line {wrong}: not UTF-8 text ({error.reason} at byte {error.start} of the file)"
        raise TemperatureFileError(msg) from None
    except OSError as error:
        msg = f"{path}: {error.strerror}"
        raise TemperatureFileError(msg) from None
    found: list[float] = []
    # Not splitlines(): it also splits at form feeds and the like, and its numbers are then not those of an editor.
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        try:
            found.append(_temperature(content))
        except ValueError as error:
            shown = content if len(content) <= SHOWN_CHARS else content[:SHOWN_CHARS] + "..."
            msg = f"{path}, line {number}: {shown!r}: {error}"
            raise TemperatureFileError(msg) from None
    if not found:
        msg = f"{path}: no temperature in it; one per line is expected"
        raise TemperatureFileError(msg)
    return tuple(found)
