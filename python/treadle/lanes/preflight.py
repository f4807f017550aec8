"""Every rank enters a map, or every rank raises the same error; and no rank spins while it waits for the others."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from ..exceptions import PmapError
from .presence import own_card
from .rank import LONGEST_SLEEP, SHORTEST_SLEEP

#: What each rank says first: whether it can take part, a digest of its options, and its card.
_CARD_BYTES = 24
_RECORD_BYTES = 1 + 16 + _CARD_BYTES
#: So many looks come before the first sleep.
_LOOKS = 50

#: An option's name and value, as every rank must have it.
Options = tuple[tuple[str, Any], ...]


def wait_for(requests: Iterable[Any]) -> None:
    """Wait for requests of MPI, and sleep meanwhile. Ended by the other ranks, or by the end of the job."""
    sleep, looks = SHORTEST_SLEEP, 0
    for request in requests:
        while not request.Test():
            looks += 1
            if looks <= _LOOKS:
                time.sleep(0)
                continue
            time.sleep(sleep)
            sleep = min(sleep * 1.5, LONGEST_SLEEP)


def duplicate(world: Any) -> Any:
    """Return a communicator of the map's own. Collective."""
    # When all ranks are here, the duplication does not wait for any.
    wait_for([world.Ibarrier()])
    return world.Dup()


def check_threads(rank: int) -> None:
    """Refuse a thread from which MPI cannot be called beside lanes."""
    from mpi4py import MPI

    level = MPI.Query_thread()
    if level < MPI.THREAD_FUNNELED:
        raise PmapError(
            "MPI was initialised for a single thread; lanes need the level 'funneled' at least "
            "(mpi4py.rc.thread_level, or MPI4PY_RC_THREAD_LEVEL)",
            kind="preflight",
            rank=rank,
        )
    if level == MPI.THREAD_FUNNELED and not MPI.Is_thread_main():
        raise PmapError(
            "MPI was initialised for calls from its main thread only, and this is another one",
            kind="preflight",
            rank=rank,
        )


def exchange(comm: Any, data: bytes) -> list[bytes]:
    """Give every rank the bytes of every rank. Collective."""
    lengths = np.empty(comm.Get_size(), np.int64)
    wait_for([comm.Iallgather(np.array([len(data)], np.int64), lengths)])
    starts = np.concatenate(([0], np.cumsum(lengths)))
    got = np.empty(int(starts[-1]), np.uint8)
    wait_for([comm.Iallgatherv(np.frombuffer(data, np.uint8), [got, lengths])])
    return [got[first:last].tobytes() for first, last in pairwise(starts)]


def agree(comm: Any, check: Callable[[], Options]) -> list[bytes]:
    """Return the cards of all ranks if every rank passes its check with the same options. Collective.

    Raises
    ------
    Exception
        On every rank the same: what every check raised alike, or a ``PmapError`` that names the first rank.
    """
    own: BaseException | None = None
    options: Options | None = None
    try:
        options = check()
    except BaseException as error:  # Ctrl-C while a checkpoint is read, too: the others wait for this rank's word
        own = error
    digest = hashlib.sha256(repr(options).encode()).digest()[:16]
    record = np.frombuffer(bytes([own is None]) + digest + own_card(), np.uint8)
    records = np.empty((comm.Get_size(), _RECORD_BYTES), np.uint8)
    wait_for([comm.Iallgather(record, records)])
    if records[:, 0].all() and (records[:, 1:17] == records[0, 1:17]).all():
        return [row[17:].tobytes() for row in records]
    # Something is wrong, and every rank knows it; the texts follow.
    said = None
    if own is not None:
        said = (
            type(own).__qualname__,
            str.__str__(str(own)),
            getattr(own, "kind", None) or "preflight",
            getattr(own, "index", None),
        )
    told = [pickle.loads(data) for data in exchange(comm, pickle.dumps((said, _plain(options))))]
    failed = [other for other, (error, _) in enumerate(told) if error is not None]
    if failed:
        first = failed[0]
        name, text, kind, index = told[first][0]
        if own is not None and not isinstance(own, Exception):
            raise own
        if own is not None and len(failed) == len(told) and all(error == told[0][0] for error, _ in told):
            raise own
        message = f"rank {first} cannot take part: {name}: {text}"
        raise PmapError(message, kind=kind, index=index, rank=first) from own
    for other, (_, others) in enumerate(told):
        for (name, value), (_, first_value) in zip(others, told[0][1], strict=True):
            if value != first_value:
                message = f"{name} is {first_value} on rank 0 and {value} on rank {other}; it must be the same"
                raise PmapError(message, kind="preflight", rank=other)
    raise PmapError("the ranks do not agree", kind="preflight")


def _plain(options: Options | None) -> Options | None:
    return None if options is None else tuple((name, repr(value)) for name, value in options)
