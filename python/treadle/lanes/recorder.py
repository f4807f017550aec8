"""A map that leaves its results in a checkpoint, and takes from it what is done."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self

from .. import _native
from ..exceptions import LaneCancelledError, LaneError
from .checkpoint import Checkpoint, digest_of

PROTOCOL = 5


class Entry:
    """An item on its way through a lane, with what the checkpoint has to know of it."""

    __slots__ = ("called", "digest", "done", "error", "index", "item", "value")

    def __init__(
        self, index: int, item: Any, digest: bytes | None, *, done: bool, error: Exception | None = None
    ) -> None:
        self.index, self.item, self.digest, self.done, self.error = index, item, digest, done, error
        self.called, self.value = False, None

    def __repr__(self) -> str:
        try:
            return repr(self.item)
        except Exception:
            return f"<{type(self.item).__qualname__}, its repr cannot be read>"


class Entries:
    """The items of a map, one by one, with their digests."""

    def __init__(self, items: Iterable[Any], checkpoint: Checkpoint) -> None:
        self.iterator: Iterator[Any] | None = iter(items)
        self.checkpoint = checkpoint
        self.index = 0
        #: What was read to compare it with the checkpoint. What is done is not kept, only its index.
        self.ahead: deque[Entry | int] = deque()
        self.raised: BaseException | None = None

    def compare(self) -> None:
        """Read as far as the checkpoint goes, so that a checkpoint of other items is refused before anything runs."""
        last = self.checkpoint.last
        while self.index <= last:
            try:
                item = self._next()
            except StopIteration:
                return
            except Exception as error:
                # The results before it come first, as without a checkpoint.
                self.raised = error
                return
            entry = self._entry(item)
            self.ahead.append(entry.index if entry.done else entry)

    def _next(self) -> Any:
        if self.iterator is None:
            raise StopIteration
        try:
            return next(self.iterator)
        except BaseException:
            self.iterator = None
            raise

    def _entry(self, item: Any) -> Entry:
        index, self.index = self.index, self.index + 1
        try:
            digest = digest_of(pickle.dumps(item, PROTOCOL))
        except Exception as error:
            return Entry(index, item, None, done=False, error=error)
        return Entry(index, item, digest, done=self.checkpoint.check(index, digest))

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        if self.ahead:
            first = self.ahead.popleft()
            return first if isinstance(first, Entry) else Entry(first, None, None, done=True)
        if self.raised is not None:
            error, self.raised = self.raised, None
            raise error
        return self._entry(self._next())


class Recorder:
    """The callback, the items and the handler of a map with a checkpoint."""

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        items: Iterable[Any],
        on_error: str | Callable[[int, Any, BaseException], Any],
        path: str | bytes | os.PathLike[Any],
    ) -> None:
        self.fn, self.given = fn, on_error
        self.checkpoint = Checkpoint.open(path)
        try:
            self.entries = Entries(items, self.checkpoint)
            self.entries.compare()
        except BaseException:
            self.checkpoint.close()
            raise
        self.failed: LaneError | None = None
        #: Results that the file did not take.
        self.unsaved: dict[int, Any] = {}

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
            return self._stored(entry.index)
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
        self._record(entry)
        return entry.value

    def _stored(self, index: int) -> Any:
        payload = self.checkpoint.lookup(index, None)
        assert payload is not None
        try:
            return pickle.loads(payload)
        except Exception as error:
            raise LaneError(
                f"the result of item {index} in the checkpoint {self.checkpoint.path!r} cannot be unpickled",
                path=self.checkpoint.path,
                index=index,
            ) from error

    def _record(self, entry: Entry) -> None:
        try:
            payload = pickle.dumps(entry.value, PROTOCOL)
        except Exception as error:
            raise LaneError(
                f"the result of item {entry.index} cannot be pickled, as checkpoint= needs it",
                path=self.checkpoint.path,
                index=entry.index,
            ) from error
        assert entry.digest is not None
        try:
            self.checkpoint.append(entry.index, entry.digest, payload)
        except LaneError as error:
            # The item is well. What cannot be kept is handed over with the error that ends the map.
            self.unsaved[entry.index] = entry.value
            self.failed = self.failed or error
            lane = _native.current_lane()
            if lane is not None:
                lane.control.cancel()

    def finish(self) -> None:
        """Close the file, and raise what kept it from taking results."""
        try:
            self.checkpoint.close()
        except LaneError as error:
            self.failed = self.failed or error
        if self.failed is not None:
            failed, self.failed = self.failed, None
            count = len(self.unsaved)
            raise LaneError(
                f"{failed}; {count} results that it did not take are in this error's .results, and the rest of the map "
                f"was not begun",
                **{**failed.detail, "results": self.unsaved},
            ) from failed.__cause__

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
