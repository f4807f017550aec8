"""The callback of a map with a checkpoint, in the lanes of one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from .. import _native
from ..exceptions import LaneCancelledError, LaneError
from .recording import Entry, Recording


class Recorder(Recording):
    """The callback, the items and the handler of a map with a checkpoint."""

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        items: Iterable[Any],
        on_error: str | Callable[[int, Any, BaseException], Any],
        path: str | bytes | os.PathLike[Any],
    ) -> None:
        self.fn, self.given = fn, on_error
        super().__init__(items, path)

    @property
    def on_error(self) -> str | Callable[[int, Any, BaseException], Any]:
        """The option, with the caller's own items for a handler."""
        handler = self.given
        if isinstance(handler, str):
            return handler
        return lambda index, entry, error: handler(index, None if entry is None else entry.item, error)

    def __call__(self, entry: Entry, engine: Any) -> Any:
        """Do an item, or take its result from the file."""
        if entry.done:
            return self.stored(entry.index)
        if entry.error is not None:
            raise LaneError(
                f"item {entry.index} cannot be pickled, as checkpoint= needs it",
                path=self.checkpoint.path,
                index=entry.index,
            ) from entry.error
        if not entry.called:
            # Kept for a retry: pickling may fail, and the work is done.
            entry.value = self.fn(entry.item, engine)
            entry.called = True
        payload = self.pickled(entry.index, entry.value)
        assert entry.digest is not None
        if not self.keep(entry.index, entry.digest, entry.value, payload):
            # The item is well. What cannot be kept is handed over with the error that ends the map.
            lane = _native.current_lane()
            if lane is not None:
                lane.control.cancel()
        return entry.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        except LaneError as own:
            if error is None or isinstance(error, LaneCancelledError):
                raise
            error.add_note(str(own))
