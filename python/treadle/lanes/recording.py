"""A map that leaves its results in a checkpoint, and takes from it what is done."""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ..exceptions import LaneError
from .checkpoint import Checkpoint, digest_of

PROTOCOL = 5


class Entry:
    """An item on its way, with what the checkpoint has to know of it."""

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


class Recording:
    """A checkpoint in use: the items with their digests, the results that it has, and those that it gets.

    Raises
    ------
    LaneError
        The checkpoint cannot be used, or is of other items; then it was closed again.
    """

    def __init__(self, items: Iterable[Any], path: str | bytes | os.PathLike[Any]) -> None:
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

    def stored(self, index: int) -> Any:
        """Return the result of an item that is done."""
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

    def pickled(self, index: int, value: Any) -> bytes:
        """Return a result as the file keeps it."""
        try:
            return pickle.dumps(value, PROTOCOL)
        except Exception as error:
            raise LaneError(
                f"the result of item {index} cannot be pickled, as checkpoint= needs it",
                path=self.checkpoint.path,
                index=index,
            ) from error

    def keep(self, index: int, digest: bytes, value: Any, payload: Any) -> bool:
        """Put a result into the file; what the file does not take is kept for :meth:`finish`, and the answer is False."""
        try:
            self.checkpoint.append(index, digest, payload)
        except LaneError as error:
            self.unsaved[index] = value
            self.failed = self.failed or error
            return False
        return True

    def finish(self) -> None:
        """Close the file, and raise what kept it from taking results. Finishing twice is nothing."""
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
