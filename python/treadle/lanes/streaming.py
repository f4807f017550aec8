"""``imap_in_lanes``: the results of a map, one by one, while later items are still running."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from .. import _native
from .local import check_lanes
from .options import (
    Progress,
    check_callable,
    check_deadline,
    check_on_error,
    check_path,
    check_retries,
    check_window,
    length_of,
    progress_of,
)
from .pool import Lanes
from .recorder import Recorder

T = TypeVar("T")
R = TypeVar("R")

#: Streams whose lanes may still run; they are joined before the interpreter ends.
_open: weakref.WeakSet[_native.LaneStream[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for stream in list(_open):
        # A daemon thread may be inside its next(); that run is ended with those of all other threads.
        with contextlib.suppress(ValueError):
            stream.close()


def imap_in_lanes(
    fn: Callable[[T, Any], R],
    items: Iterable[T],
    lanes: _native.Lanes,
    *,
    ordered: bool = True,
    window: int | None = None,
    on_error: str | Callable[[int, T, BaseException], R] = "raise",
    progress: bool | Progress | Any = False,
    retries: int = 0,
    deadline: float | None = None,
    checkpoint: str | bytes | os.PathLike[Any] | None = None,
) -> Iterator[R]:
    """Call ``fn(item, engine)`` for every item and give the results one by one.

    The lanes start at once and work while the caller does other things. They are in use until the iterator has
    ended, was closed (``close()``, or leaving a ``with`` block over it), or is dropped.

    Parameters
    ----------
    fn, items, lanes, on_error, progress, retries, deadline, checkpoint
        As in :func:`map_in_lanes`. The items are read by the thread that takes results, and progress is told there.
    ordered : bool, optional
        True gives results in the order of the items, False as they complete.
    window : int, optional
        How many items may be read and not yet given, running ones and waiting results together;
        ``2 * len(lanes)`` by default.

    Returns
    -------
    iterator
        All results below a failing index come first, then the error is raised.

    Raises
    ------
    LaneTaskError, LaneCancelledError, LaneError
        As :func:`map_in_lanes`.

    Examples
    --------
    >>> import itertools
    >>> import treadle as td
    >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
    ...     with td.imap_in_lanes(lambda item, engine: item * item, itertools.count(), lanes) as squares:
    ...         list(itertools.islice(squares, 4))
    [0, 1, 4, 9]
    """
    check_callable(fn)
    check_lanes(lanes)
    check_on_error(on_error)
    check_path(checkpoint)
    window, retries, deadline = check_window(window, len(lanes)), check_retries(retries), check_deadline(deadline)
    total = length_of(items)
    # What is made here is ended by the stream when its lanes are joined, or below if there is no stream.
    ends = contextlib.ExitStack()
    try:
        # The bar is made here, so that a wrong option is an error of this call and not of the first result.
        report = ends.enter_context(progress_of(progress, total, lanes))
        call: Callable[[Any, Any], Any] = fn
        source: Iterable[Any] = items
        handling: Any = on_error
        if checkpoint is not None:
            recorder = Recorder(fn, items, on_error, checkpoint)
            ends.callback(recorder.finish)
            call, source, handling = recorder, recorder.entries, recorder.on_error
        stream = lanes._stream(
            call,
            source,
            ordered=bool(ordered),
            window=window,
            on_error=handling,
            progress=report,
            total=total,
            retries=retries,
            deadline=deadline,
            finish=ends.close,
        )
    except BaseException:
        ends.close()
        raise
    _open.add(stream)
    if isinstance(lanes, Lanes):
        lanes._last_user = weakref.ref(stream)
    return stream
