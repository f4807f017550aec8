"""How an item, or a whole map, ended; as plain values that every rank can read."""

from __future__ import annotations

import traceback
from typing import Any

from ..exceptions import LaneCancelledError, LaneTaskError, PmapError
from .wire import Packed, pack, unpack

#: How an item ended.
DONE, FAILED, FATAL, WIRE, SKIPPED = range(5)

_ITEM_CHARS = 200


def describe(error: BaseException) -> str:
    """Return type and text of an exception, whatever its ``__str__`` does."""
    try:
        # A subclass of str would travel as itself, which need not pickle.
        text = str.__str__(str(error))
    except BaseException:
        text = "(its text cannot be read)"
    name = type(error).__qualname__
    return f"{name}: {text}" if text else name


def item_text(item: Any) -> str:
    """Return the item's repr, shortened; a ``__repr__`` that raises is no second failure."""
    try:
        text = str.__str__(repr(item))
    except BaseException:
        text = f"<{type(item).__qualname__}, its repr cannot be read>"
    return text if len(text) <= _ITEM_CHARS else text[:_ITEM_CHARS] + "..."


def packed_error(error: BaseException) -> Packed | None:
    """Pickle an exception, or None where it cannot come back."""
    try:
        packed = pack(error)
        back = unpack(packed)
    except BaseException:  # whatever it is, it comes from the exception's own code, and not from a signal
        return None
    return packed if isinstance(back, BaseException) else None


class Failed:
    """An item that failed: what every rank says of it, and the exception itself on its own rank."""

    def __init__(
        self,
        index: int,
        how: int,
        error: BaseException,
        *,
        lane: int | None = None,
        rank: int | None = None,
        item: str | None = None,
        told: tuple[str, str, Packed | None] | None = None,
    ) -> None:
        self.index = index
        self.how = how
        self.lane = lane
        self.rank = rank
        self.item = item
        #: Description, traceback and pickle; made once, where the exception is.
        self.told = told or (
            describe(error),
            "".join(traceback.format_exception(error)),
            packed_error(error),
        )
        self.error = error

    def state(self) -> tuple[Any, ...]:
        """Return plain values and bytes."""
        what, trace, packed = self.told
        if packed is not None:
            packed = (packed[0], [bytes(buffer) for buffer in packed[1]])
        return (self.index, self.how, self.lane, self.rank, self.item, what, trace, packed)

    @classmethod
    def of(cls, state: tuple[Any, ...]) -> Failed:
        """Make it again on another rank. An exception that does not pickle comes as a ``LaneTaskError``."""
        index, how, lane, rank, item, what, trace, packed = state
        error: BaseException | None = None
        if packed is not None:
            try:
                error = unpack((packed[0], [bytearray(buffer) for buffer in packed[1]]))
            except BaseException:
                error = None
        if error is None:
            error = LaneTaskError(
                f"{what} (the exception itself cannot be pickled)", index=index, lane=lane, rank=rank, item_repr=item
            )
        if trace and hasattr(error, "add_note"):
            error.add_note(f"on rank {rank}:\n{trace}")
        return cls(index, how, error, lane=lane, rank=rank, item=item, told=(what, trace, packed))

    def raised(self) -> BaseException:
        """Return what the map raises for it on every rank."""
        what = self.told[0]
        item = f"; the item is {self.item}" if self.item is not None else ""
        if self.how == FATAL:
            return self.error
        made: BaseException
        if self.how == WIRE:
            made = PmapError(
                f"item {self.index} cannot travel between ranks: {what}{item}",
                kind="wire",
                index=self.index,
                rank=self.rank,
            )
        elif self.lane is None:
            made = LaneTaskError(
                f"the items ended with an error where item {self.index} was to come: {what}",
                index=self.index,
                rank=self.rank,
            )
        else:
            made = LaneTaskError(
                f"item {self.index} failed in lane {self.lane} of rank {self.rank}: {what}{item}",
                index=self.index,
                lane=self.lane,
                rank=self.rank,
                item_repr=self.item,
            )
        made.__cause__ = self.error
        return made


def shared(index: int, value: Any) -> tuple[bool, Any]:
    """Return a result as every rank can read it: packed, or the state of an exception that does not pickle.

    Raises whatever the value's own code raises when it is packed or made again.
    """
    if isinstance(value, BaseException) and packed_error(value) is None:
        return False, Failed(index, FAILED, value).state()
    packed = pack(value)
    unpack(packed)
    return True, (packed[0], [bytes(buffer) for buffer in packed[1]])


def received(told: tuple[bool, Any]) -> Any:
    """Return what :func:`shared` sent."""
    is_packed, content = told
    if not is_packed:
        return Failed.of(content).error
    return unpack((content[0], [bytearray(buffer) for buffer in content[1]]))


class Verdict:
    """What came of a map, as every rank is told at its end."""

    def __init__(self, failed: Failed | None = None, other: tuple[str, str, dict[str, Any]] | None = None) -> None:
        self.failed = failed
        #: Class name, message and fields of an error that belongs to no item.
        self.other = other
        #: The exception behind it, on the rank where it happened.
        self.cause: BaseException | None = None
        #: Fields of it, and a note on what every rank raises, for this rank alone.
        self.fields: dict[str, Any] = {}
        self.note: str | None = None

    @property
    def is_error(self) -> bool:
        """Whether every rank raises something."""
        return self.failed is not None or self.other is not None

    def state(self) -> tuple[Any, ...]:
        """Return plain values and bytes."""
        return (self.failed and self.failed.state(), self.other)

    def raise_on(self, own: dict[int, Failed], state: tuple[Any, ...]) -> None:
        """Raise what ``state`` says, with the very exception as cause on the rank that has it."""
        failed, other = state
        if failed is not None:
            # An item may have failed here and its handler on the root; what every rank was told decides.
            candidates = (self.failed, own.get(failed[0]))
            known = next((k for k in candidates if k is not None and k.told[:2] == (failed[5], failed[6])), None)
            raised = (known or Failed.of(failed)).raised()
            if self.note is not None:
                raised.add_note(self.note)
            raise raised
        if other is not None:
            name, message, fields = other
            made = {"PmapError": PmapError, "LaneCancelledError": LaneCancelledError}[name](
                message, **{**self.fields, **fields}
            )
            if self.note is not None:
                made.add_note(self.note)
            raise made from self.cause
