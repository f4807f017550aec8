"""The options that every map shares, checked before anything runs."""

from __future__ import annotations

import math
import operator
import os
import sys
from typing import Any

from ..exceptions import ArgumentError
from .progress import Progress, progress_of

__all__ = [
    "Progress",
    "check_callable",
    "check_deadline",
    "check_on_error",
    "check_path",
    "check_retries",
    "check_window",
    "length_of",
    "progress_of",
]


def check_callable(fn: Any) -> None:
    """Refuse what cannot be called."""
    if not callable(fn):
        raise TypeError(f"fn must be callable as fn(item, engine), not {type(fn).__qualname__}")


def check_on_error(on_error: Any) -> None:
    """Refuse what is neither an option nor a handler."""
    if not callable(on_error) and not (isinstance(on_error, str) and on_error in ("raise", "return")):
        raise ArgumentError(
            f"on_error is {on_error!r}; valid are 'raise', 'return' and a callable (index, item, exc) -> value"
        )


def check_retries(retries: Any) -> int:
    """Return the number of retries."""
    try:
        count = operator.index(retries)
    except TypeError:
        raise TypeError(f"retries must be an integer, not {type(retries).__qualname__}") from None
    if count < 0:
        raise ArgumentError(f"retries is {count}; it must be at least 0")
    return min(count, sys.maxsize)


def check_deadline(deadline: Any) -> float | None:
    """Return the deadline in seconds."""
    if deadline is None:
        return None
    try:
        seconds = float(deadline)
    except (TypeError, ValueError):
        raise TypeError(f"deadline must be a number of seconds or None, not {deadline!r}") from None
    except OverflowError:  # an integer beyond every float
        seconds = math.inf if deadline > 0 else -math.inf
    if math.isnan(seconds) or seconds < 0:
        raise ArgumentError(f"deadline is {deadline!r}; it must be a number of seconds, at least 0")
    return seconds


def check_window(window: Any, lanes: int) -> int:
    """Return how many items may be in flight."""
    if window is None:
        return 2 * lanes
    try:
        count = operator.index(window)
    except TypeError:
        raise TypeError(f"window must be an integer or None, not {type(window).__qualname__}") from None
    if count < 1:
        raise ArgumentError(f"window is {count}; it must be at least 1")
    return min(count, sys.maxsize)


def check_path(checkpoint: Any) -> None:
    """Refuse a checkpoint that is no path."""
    if checkpoint is not None and not isinstance(checkpoint, str | bytes | os.PathLike):
        raise TypeError(f"checkpoint must be a path or None, not {type(checkpoint).__qualname__}")


def length_of(items: Any) -> int | None:
    """Return how many items there are, where that is known before the first is read."""
    try:
        return len(items)
    except (TypeError, OverflowError):
        return None
