"""``ipmap_lanes``: the results of a map across ranks, one by one on the root, while later items are still running."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from .. import _native
from ..exceptions import LaneError
from .call import Call, entered
from .options import Progress, progress_of
from .rank import Interrupts
from .ranks import aborting, alone_refused, as_worker, joined, raise_alike, root_of
from .root import Root
from .streaming import imap_in_lanes

T = TypeVar("T")
R = TypeVar("R")

#: Streams that are not at their end; the other ranks wait for it.
_open: weakref.WeakSet[RankStream[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for stream in list(_open):
        with contextlib.suppress(Exception):
            stream.close()


def ipmap_lanes(
    fn: Callable[[T, Any], R],
    items: Iterable[T] | None,
    lanes: _native.Lanes,
    *,
    comm: Any = None,
    root: int = 0,
    root_computes: bool = True,
    batch_size: int | str = 1,
    prefetch: bool = False,
    window: int | None = None,
    on_error: str | Callable[[int, T, BaseException], R] = "raise",
    retries: int = 0,
    deadline: float | None = None,
    progress: bool | Progress | Any = False,
    checkpoint: str | bytes | os.PathLike[Any] | None = None,
) -> Iterator[R]:
    """Call ``fn(item, engine)`` for every item over the lanes of every rank, and give the results one by one on the root.

    Collective. On the root the call returns at once, and the map goes on while results are taken; a result that was
    taken is freed. Everywhere else the call takes part in the map until its end, and returns an iterator without
    results. So the same loop stands on every rank.

    Parameters
    ----------
    fn, items, lanes, comm, root, root_computes, batch_size, prefetch
        As in :func:`pmap_lanes`. The items are read while results are taken.
    window : int, optional
        How many items may be read and not yet given; by default enough for every lane, twice over.
    on_error, retries, deadline, progress, checkpoint
        As in :func:`pmap_lanes`.

    Returns
    -------
    iterator
        On the root the results in the order of the items; all below a failing index come first, then the error is
        raised. Close it (``close()``, or a ``with`` block) when not all results are wanted: the other ranks then
        return without an error.

    Raises
    ------
    LaneTaskError, LaneCancelledError, PmapError
        As :func:`pmap_lanes`: on the root while results are taken, on the other ranks by the call.

    Notes
    -----
    MPI moves only while the root is inside the iterator, so between two results the other ranks work at what they
    have. No other map across ranks can be started on the root before the end. All results are to be taken by the
    thread that made the call. In a world of one this is :func:`imap_in_lanes`.

    Examples
    --------
    >>> import itertools
    >>> import treadle as td
    >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
    ...     with td.ipmap_lanes(lambda item, engine: item * item, itertools.count(), lanes) as squares:
    ...         list(itertools.islice(squares, 4))
    [0, 1, 4, 9]
    """
    call = Call(**locals())
    if call.world is not None:
        return RankStream(call, call.world)
    call.check(0, 1)
    try:
        return imap_in_lanes(
            fn,
            call.iterator,
            lanes,
            window=window,
            on_error=on_error,
            progress=progress,
            retries=call.retries,
            deadline=call.deadline,
            checkpoint=checkpoint,
        )
    except LaneError as error:
        if checkpoint is None:
            raise
        raise alone_refused(error) from error


class RankStream(Generic[R]):
    """The iterator of :func:`ipmap_lanes`."""

    _root: Root | None = None

    def __init__(self, call: Call, world: Any) -> None:
        self._call = call
        self._thread = threading.get_ident()
        self._inside = False
        self._stack = ExitStack()
        with ExitStack() as stack:
            stack.enter_context(entered())
            self._comm, presence = stack.enter_context(joined(call, world))
            self._interrupts = Interrupts()
            if self._comm.Get_rank() != call.root:
                with self._interrupts:
                    as_worker(call, self._comm, self._interrupts, presence)
                return
            report = stack.enter_context(progress_of(call.progress, call.total))
            self._root = root_of(call, self._comm, self._interrupts, presence, report, streams=True, window=call.window)
            self._stack = stack.pop_all()
        _open.add(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        root = self._root
        if root is None:
            raise StopIteration
        self._enter()
        try:
            with self._interrupts:
                while True:
                    got = root.take_one()
                    if got is not None:
                        value: R = got[0]
                        return value
                    if root.is_settled:
                        break
                    with aborting(self._comm):
                        root.step()
                self._end(root, closed=False)
        finally:
            self._inside = False
        raise StopIteration

    def _enter(self) -> None:
        if self._inside:
            raise ValueError("the iterator is already being advanced")
        if threading.get_ident() != self._thread:
            raise ValueError("results are to be taken by the thread that called ipmap_lanes")
        self._inside = True

    def _end(self, root: Root, *, closed: bool) -> None:
        """Bring the map to its end on every rank; raise what every rank raises."""
        self._root = None
        _open.discard(self)
        with self._stack:
            with aborting(self._comm):
                verdict = root.finish(closed=closed)
            raise_alike(self._call, root, verdict, verdict.state())

    def close(self) -> None:
        """End the map: no item starts any more, those that run finish, and every rank returns. Twice is nothing."""
        root = self._root
        if root is None:
            return
        self._enter()
        try:
            with self._interrupts:
                with aborting(self._comm):
                    root.stop()
                    while not root.is_settled:
                        root.step()
                        root.take()
                self._end(root, closed=True)
        finally:
            self._inside = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A thread that did not make it cannot speak for it; the end of the interpreter will.
        if self._root is not None and threading.get_ident() == self._thread and not self._inside:
            self.close()
