"""What ``progress=`` stands for: a callable, a bar of the caller's, or a bar that is made here."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _native
from ..exceptions import ArgumentError, TreadleWarning, UnsupportedError

Progress = Callable[[int, "int | None"], object]


@contextmanager
def progress_of(progress: Any, total: int | None, lanes: _native.Lanes | None = None) -> Iterator[Progress | None]:
    """Give the callable ``(done, total)`` that the option stands for; a bar that was made here is closed at the end.

    A bar then also says how much of the time the lanes were at work, if they are given.
    """
    if progress is None or progress is False:
        yield None
        return
    if progress is not True and not callable(getattr(progress, "update", None)):
        if not callable(progress):
            raise ArgumentError(
                f"progress is {progress!r}; valid are True, False, a tqdm instance and a callable (done, total)"
            )
        yield progress
        return
    made = _made(total) if progress is True else progress
    if made is None:
        yield None
        return
    bar = Bar(made, own=progress is True)
    if getattr(bar.bar, "total", 0) is None:
        bar.bar.total = total
    busy = None if lanes is None else Utilisation(lanes)
    try:
        yield bar
    finally:
        bar.end("" if busy is None else str(busy))


def _made(total: int | None) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        raise UnsupportedError(
            "progress=True needs tqdm (pip install tqdm); or pass a callable (done, total)"
        ) from None
    try:
        return tqdm(total=total)
    except Exception as error:
        _cannot_be_shown(error)
        return None


def _cannot_be_shown(error: Exception) -> None:
    """A terminal that went away is no reason to lose a map."""
    warnings.warn(f"the progress bar cannot be shown: {error!r}", TreadleWarning, stacklevel=5)


class Bar:
    """Moves a bar by one for each item that is over."""

    def __init__(self, bar: Any, *, own: bool) -> None:
        self.bar, self.own = bar, own
        self.broken = False

    def __call__(self, done: int, total: int | None) -> None:
        """One more item is over."""
        if not self.own:
            self.bar.update(1)
        elif not self.broken:
            self._guarded(lambda: self.bar.update(1))

    def end(self, note: str) -> None:
        """Say the last word; a bar of the caller's stays open, and keeps what the caller wrote behind it."""
        write = getattr(self.bar, "set_postfix_str", None)
        if (
            note
            and callable(write)
            and not getattr(self.bar, "disable", False)
            and not getattr(self.bar, "postfix", "")
        ):
            self._guarded(lambda: write(note))
        if self.own:
            self._guarded(self.bar.close)

    def _guarded(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception as error:
            if not self.broken:
                self.broken = True
                _cannot_be_shown(error)


class Utilisation:
    """How much of the time since it was made the lanes were at work."""

    def __init__(self, lanes: _native.Lanes) -> None:
        self.lanes = lanes
        self.busy, self.begun = self._busy(), time.perf_counter()

    def _busy(self) -> float:
        return sum(float(row["busy_seconds"]) for row in self.lanes.describe())

    def __str__(self) -> str:
        passed = (time.perf_counter() - self.begun) * len(self.lanes)
        share = (self._busy() - self.busy) / passed if passed > 0 else 0.0
        lanes = "1 lane" if len(self.lanes) == 1 else f"{len(self.lanes)} lanes"
        return f"{lanes} {min(share, 1.0):.0%} busy"
