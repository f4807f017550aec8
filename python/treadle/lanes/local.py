"""``map_in_lanes``: independent items over the lanes of one process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .. import _native
from .options import (
    Progress,
    check_callable,
    check_deadline,
    check_on_error,
    check_path,
    check_retries,
    length_of,
    progress_of,
)
from .recorder import Recorder

T = TypeVar("T")
R = TypeVar("R")


def map_in_lanes(
    fn: Callable[[T, Any], R],
    items: Iterable[T],
    lanes: _native.Lanes,
    *,
    on_error: str | Callable[[int, T, BaseException], R] = "raise",
    progress: bool | Progress | Any = False,
    retries: int = 0,
    deadline: float | None = None,
    checkpoint: str | bytes | os.PathLike[Any] | None = None,
) -> list[R]:
    """Call ``fn(item, engine)`` for every item, each in some lane with that lane's engine.

    Items are handed out in order, each once, to whichever lane is free; results come in the order of the items.
    Nothing is pickled: the very objects go in and come out. An iterable that is not a list, tuple, range, array or
    other plain container is read lazily by the calling thread, at most two items for each lane ahead; up to 32 more
    while all that is read ahead is done within half a millisecond, since handing each over would cost more.

    Parameters
    ----------
    fn : callable
        Called as ``fn(item, engine)`` on a lane's thread. :func:`current_lane` tells which.
    items : iterable
        The items.
    lanes : Lanes
        The lanes. One run at a time: a map over the same lanes from inside one of them, or beside another run, is
        a ``LaneError`` at once.
    on_error : {"raise", "return"} or callable, optional
        What becomes of an item whose ``fn`` raised an ``Exception``. "raise" ends the map: nothing above the failing
        index is started, ``control.cancelled`` becomes true in the lanes, everything below it has been handed out
        and finishes. "return" puts the exception in the list. A callable ``(index, item, exc) -> value`` runs in
        the item's lane and gives the result; what it raises fails the item.
    progress : bool, tqdm instance or callable, optional
        True shows a tqdm bar, which at the end also says how busy the lanes were. A callable gets ``(done, total)`` on
        the calling thread for every item that is over; ``total`` is None where it is not known. What it raises ends
        the map.
    retries : int, optional
        How many more times a failing item is tried, at once and in the same lane.
    deadline : float, optional
        Seconds for the whole call. Past it no item starts and ``control`` is cancelled; items that have not returned
        by then are ``LaneCancelledError``. Running items are not torn down: ``fn`` looks at
        ``current_lane().control`` if it is to end early, and the call returns when all have.
    checkpoint : path, optional
        A file that takes each result as it is finished; the next call with the same items and the same file does only
        what is not in it. Items and results are pickled for it. Failed items are not in it, and are done again. A
        file of other items is refused before anything runs (as far as the file goes, a lazy iterable is read for that
        first); what ``fn`` is, it does not know.

    Returns
    -------
    list
        One result for each item, in order.

    Raises
    ------
    LaneTaskError
        An item failed: the one of the lowest failing index, whatever the timing. ``__cause__`` is the exception that
        ``fn`` raised; ``index``, ``lane``, ``rank`` and ``item_repr`` say where. Also when the iterable raises, with
        the index that would have come next.
    LaneCancelledError
        The deadline is over, or somebody called ``control.cancel()``, and items are unfinished.
    LaneError
        The lanes are in use or closed. The checkpoint is in use, damaged at its beginning, of other items, or cannot be
        written; then no further item starts, and ``results`` holds what the file did not take, by index.

    Warns
    -----
    TreadleWarning
        The checkpoint ended in the middle of a record, or has damaged ones: those items are done again.

    Notes
    -----
    Exceptions of ``fn`` that are no ``Exception`` (``KeyboardInterrupt``, ``SystemExit``) end the map under every
    ``on_error``. Ctrl-C on the main thread ends it too: no item starts any more, those that run finish, all lanes
    are joined, then ``KeyboardInterrupt`` is raised.

    Examples
    --------
    >>> import treadle as td
    >>> engines = [td.CpuEngine.serial(), td.CpuEngine.serial()]
    >>> with td.Lanes(engines) as lanes:
    ...     td.map_in_lanes(lambda n, engine: float(engine.einsum("i->", [1.0] * n)), [1, 2, 3], lanes)
    [1.0, 2.0, 3.0]
    """
    check_callable(fn)
    check_lanes(lanes)
    check_on_error(on_error)
    check_path(checkpoint)
    retries, deadline = check_retries(retries), check_deadline(deadline)
    total = length_of(items)
    with progress_of(progress, total, lanes) as report:
        if checkpoint is None:
            return lanes._map(
                fn,
                items,
                on_error=on_error,
                progress=report,
                total=total,
                retries=retries,
                deadline=deadline,
                rank=None,
            )
        with Recorder(fn, items, on_error, checkpoint) as recorder:
            return lanes._map(
                recorder,
                recorder.entries,
                on_error=recorder.on_error,
                progress=report,
                total=total,
                retries=retries,
                deadline=deadline,
                rank=None,
            )


def check_lanes(lanes: Any) -> None:
    """Refuse what are no lanes, and say what to do with a list of engines."""
    if not isinstance(lanes, _native.Lanes):
        raise TypeError(f"lanes must be treadle.Lanes (over engines), not {type(lanes).__qualname__}")
