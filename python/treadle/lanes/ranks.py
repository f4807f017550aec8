"""``pmap_lanes``: the same map across the ranks of an MPI job, each with lanes of its own."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

from .. import _native
from ..exceptions import LaneError, PmapError
from . import severed
from .call import Call, entered
from .options import Progress, progress_of
from .outcome import Verdict, describe, received, shared
from .preflight import Options, agree, check_threads, duplicate, exchange
from .presence import Presence
from .rank import Interrupts, Lodge, Worker
from .recorder import Recorder
from .root import Root, breach
from .transfer import broadcast
from .wire import Wire, pack, unpack

T = TypeVar("T")
R = TypeVar("R")


def pmap_lanes(
    fn: Callable[[T, Any], R],
    items: Iterable[T] | None,
    lanes: _native.Lanes,
    *,
    comm: Any = None,
    root: int = 0,
    root_computes: bool = True,
    batch_size: int | str = 1,
    prefetch: bool = False,
    on_error: str | Callable[[int, T, BaseException], R] = "raise",
    retries: int = 0,
    deadline: float | None = None,
    progress: bool | Progress | Any = False,
    checkpoint: str | bytes | os.PathLike[Any] | None = None,
    all_ranks: bool = False,
) -> list[R] | None:
    """Call ``fn(item, engine)`` for every item, over the lanes of every rank of an MPI communicator.

    Collective: every rank calls it with the same options. The root reads the items, hands them out in order to
    whichever rank has a free lane, and gets the results back in order. Without ``mpiexec`` it is a world of one, and
    nothing is pickled.

    Parameters
    ----------
    fn : callable
        Called as ``fn(item, engine)`` on a lane's thread of some rank; it is not sent, every rank has its own.
    items : iterable or None
        The items; they count on the root, others may pass None. Read lazily.
    lanes : Lanes
        This rank's lanes.
    comm : mpi4py communicator, optional
        ``MPI.COMM_WORLD`` by default, imported only when the process was started by an MPI launcher. It is
        duplicated for the call.
    root : int, optional
        The rank that has the items and gets the results.
    root_computes : bool, optional
        Whether the root's own lanes take items. In a world of one they always do.
    batch_size : int or "auto", optional
        Items in one message; "auto" follows the measured time of an item.
    prefetch : bool, optional
        Give each rank a second batch for each lane, which travels while the first is worked on.
    on_error : {"raise", "return"} or callable, optional
        As in :func:`map_in_lanes`. A callable runs on the root. An exception that cannot be pickled comes from
        another rank as a ``LaneTaskError`` with its type, text and traceback.
    retries, deadline, progress
        As in :func:`map_in_lanes`; progress is shown on the root.
    checkpoint : path, optional
        As in :func:`map_in_lanes`, and the same files: a run with other ranks, lanes or batches, or by
        :func:`map_in_lanes`, goes on where this one stopped. It counts on the root, which alone reads and writes it:
        each result when it arrives. Items whose results are in it are not sent.
    all_ranks : bool, optional
        Return the list on every rank.

    Returns
    -------
    list or None
        The results in order on the root (on every rank with ``all_ranks``), None elsewhere.

    Raises
    ------
    LaneTaskError
        An item failed: the same on every rank, of the lowest failing index. Its cause is the exception itself on
        its own rank, and elsewhere where it can be pickled.
    LaneCancelledError
        The deadline is over, or somebody cancelled the map.
    PmapError
        ``kind`` is "reentrant" (called from inside a map), "preflight" (the ranks do not agree, or one cannot take
        part; a checkpoint is in use, or of other items), "wire" (an item or a result cannot travel; ``index`` tells
        which) or "protocol" (also when the checkpoint or the progress callback failed; on the root ``results`` holds
        what the file did not take, by index).

    Notes
    -----
    All calls of MPI come from the calling thread, which polls and sleeps while it waits. MPI must have been
    initialised with thread level "funneled" at least. Use ``mpiexec -n 2 python -m mpi4py script.py``, so that an
    exception on one rank outside the map ends the job.

    Examples
    --------
    >>> import treadle as td
    >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
    ...     td.pmap_lanes(lambda item, engine: item + 1, [1, 2, 3], lanes)
    [2, 3, 4]
    """
    call = Call(**locals())
    with entered():
        if call.world is None:
            return _alone(call)
        return _together(call, call.world)


def _alone(call: Call) -> list[Any]:
    """A world of one: the lanes of this process, with the errors of a map across ranks."""
    call.check(0, 1)
    broke: list[Exception] = []
    with progress_of(call.progress, call.total) as report:

        def guarded(done: int, total: int | None) -> None:
            assert report is not None
            try:
                report(done, total)
            except Exception as error:
                broke.append(error)
                raise

        fn, on_error = call.fn, call.on_error
        items: Any = call.items if isinstance(call.items, (list, tuple, range)) else call.iterator
        recorder = None if call.checkpoint is None else _recorder(call)
        if recorder is not None:
            fn, items, on_error = recorder, recorder.entries, recorder.on_error
        try:
            with recorder or nullcontext():
                results: list[Any] = call.lanes._map(
                    fn,
                    items,
                    on_error=on_error,
                    progress=None if report is None else guarded,
                    total=call.total,
                    retries=call.retries,
                    deadline=call.deadline,
                    rank=0,
                )
                return results
        except Exception as error:
            if broke and error is broke[0]:
                message = f"the progress callback failed: {type(error).__qualname__}: {error}"
                raise PmapError(message, kind="protocol", rank=0) from error
            if type(error) is LaneError and "results" in error.detail:
                raise PmapError(str(error), **error.detail, kind="protocol", rank=0) from error
            raise


def _recorder(call: Call) -> Recorder:
    try:
        return Recorder(call.fn, call.iterator, call.on_error, call.checkpoint)
    except LaneError as error:
        raise alone_refused(error) from error


def alone_refused(error: LaneError) -> PmapError:
    """Return what a map across ranks raises for a checkpoint that cannot be used, in a world of one."""
    text = f"rank 0 cannot take part: {describe(error)}"
    return PmapError(text, kind="preflight", index=error.detail.get("index"), rank=0)


@contextmanager
def joined(call: Call, world: Any) -> Iterator[tuple[Any, Presence]]:
    """Agree with the other ranks; give a communicator of the map's own, which is freed unless a rank breaks away."""
    comm = duplicate(world)
    kept = False
    try:
        rank, size = comm.Get_rank(), comm.Get_size()

        def check() -> Options:
            call.check(rank, size)
            check_threads(rank)
            return call.options()

        cards = agree(comm, check)
        watched = [other for other in range(size) if other != rank] if rank == call.root else [call.root]
        try:
            yield comm, Presence(cards, rank, watched)
        except PmapError as error:
            kept = error is call.severed
            raise
    finally:
        call.release()
        if not kept:
            comm.Free()


def _together(call: Call, world: Any) -> list[Any] | None:
    """More ranks than one: agree, schedule, and end alike."""
    with joined(call, world) as (comm, presence), Interrupts() as interrupts:
        rank = comm.Get_rank()
        results: list[Any] | None = None
        if rank == call.root:
            with progress_of(call.progress, call.total) as report:
                root = root_of(call, comm, interrupts, presence, report)
                results = _as_root(call, comm, root)
        else:
            as_worker(call, comm, interrupts, presence)
        if call.all_ranks:
            results = _share(call, comm, rank, results)
    return results


def root_of(
    call: Call,
    comm: Any,
    interrupts: Interrupts,
    presence: Presence | None,
    report: Progress | None,
    *,
    streams: bool = False,
    window: int | None = None,
) -> Root:
    """Start the lanes of the root, if it has any, and its machine."""
    rank = comm.Get_rank()
    with aborting(comm):
        return Root(
            rank,
            comm.Get_size(),
            Wire(comm),
            (lambda: _lodge(call, rank)) if call.root_computes else None,
            call.iterator,
            interrupts,
            presence,
            lambda why: severed.abort(comm, why),
            lanes=len(call.lanes),
            on_error=call.on_error,
            batch_size=call.batch_size,
            prefetch=bool(call.prefetch),
            deadline=call.deadline,
            progress=report,
            total=call.total,
            streams=streams,
            window=window,
            recording=call.recording,
        )


def _lodge(call: Call, rank: int) -> Lodge:
    return Lodge(
        call.fn,
        call.lanes,
        retries=call.retries,
        stop_on_error=call.on_error == "raise",
        rank=rank,
        is_root=rank == call.root,
    )


def _as_root(call: Call, comm: Any, root: Root) -> list[Any]:
    results: list[Any] = []
    with aborting(comm):
        while not root.is_settled:
            root.step()
            results += root.take()
        verdict = root.finish()
        results += root.take()
        results += root.filled
    raise_alike(call, root, verdict, verdict.state())
    return results


def raise_alike(call: Call, side: Root | Worker, verdict: Verdict, state: tuple[Any, ...]) -> None:
    """Raise what every rank raises; what was left behind by a rank that broke away is kept."""
    other = state[1]
    if other is not None and other[0] == "PmapError" and (other[2]["kind"] == "rank_lost" or "index" in other[2]):
        severed.keep(side.leftovers())
        error = PmapError(other[1], **other[2])
        call.severed = error
        raise error
    verdict.raise_on(side.failures, state)


def as_worker(call: Call, comm: Any, interrupts: Interrupts, presence: Presence) -> None:
    """Take part in a map until the root says how it ended; raise what every rank raises."""
    rank = comm.Get_rank()
    with aborting(comm):
        worker = Worker(
            Wire(comm),
            call.root,
            rank,
            lambda: _lodge(call, rank),
            interrupts,
            presence,
            lambda why: severed.abort(comm, why),
        )
        closed = worker.attend()
        if closed[0] == "verdict":
            state = unpack(closed[2])
            worker.settle()
        else:
            kind, other, text = closed
            state = (None, breach(kind, other, None, text))
    raise_alike(call, worker, Verdict(), state)


def _share(call: Call, comm: Any, rank: int, results: list[Any] | None) -> list[Any]:
    """Give every rank the results, or raise the same on all: nothing is sent that the root cannot pack."""
    told: list[tuple[bool, Any]] = []
    failure: tuple[int, str, int] | None = None
    for index, value in enumerate(results or ()):
        try:
            told.append(shared(index, value))
        except Exception as error:
            failure = (index, describe(error), rank)
            break
    with aborting(comm):
        packed = pack((failure, [] if failure else told)) if rank == call.root else None
        failure, told = unpack(broadcast(comm, packed, call.root))
    if results is None:
        results = []
        for index, content in enumerate(told):
            try:
                results.append(received(content))
            except Exception as error:
                failure = (index, describe(error), rank)
                break
    with aborting(comm):
        failures = [unpack((other, [])) for other in exchange(comm, pack(failure)[0])]
    failures = [other for other in failures if other is not None]
    if failures:
        index, what, where = min(failures)
        message = f"result {index} cannot be given to every rank: {what}; use all_ranks=False, or results that pickle"
        raise PmapError(message, kind="wire", index=index, rank=where)
    return results


@contextmanager
def aborting(comm: Any) -> Iterator[None]:
    """End the job when the protocol itself breaks: the other ranks would wait for ever."""
    try:
        yield
    except BaseException as error:
        traceback.print_exc()
        sys.stderr.flush()
        severed.abort(comm, describe(error))
