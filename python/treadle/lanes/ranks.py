"""``pmap_lanes``: the same map across the ranks of an MPI job, each with lanes of its own."""

from __future__ import annotations

import operator
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .. import _native
from ..exceptions import ArgumentError, EngineClosedError, LaneError, PmapError
from .local import check_lanes
from .options import (
    Progress,
    check_callable,
    check_checkpoint,
    check_deadline,
    check_on_error,
    check_retries,
    length_of,
    progress_of,
)
from .outcome import FATAL, Failed, Verdict, describe, received, shared
from .rank import Interrupts, Lodge, Worker, run_rank
from .root import Root
from .wire import Wire

T = TypeVar("T")
R = TypeVar("R")

#: What the launchers of MPI jobs set for each rank.
_LAUNCHED = (
    "PMI_RANK",
    "PMI_SIZE",
    "PMIX_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "MPI_LOCALNRANKS",
    "ALPS_APP_PE",
)
#: The exit status of a job that could not be brought to a common end.
_ABORT = 75

#: True while this process is inside a map across ranks.
_active = False


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
    checkpoint: Any = None,
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
    retries, deadline, progress, checkpoint
        As in :func:`map_in_lanes`; progress is shown on the root.
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
        part), "wire" (an item or a result cannot travel; ``index`` tells which) or "protocol".

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
    if _active or _native.current_lane() is not None:
        raise PmapError(
            "a map across ranks was started from inside a map; the other ranks are not here to take part. "
            "Use map_in_lanes over other lanes",
            kind="reentrant",
        )
    world = _world(comm)
    call = _Call(
        fn=fn,
        items=items,
        lanes=lanes,
        root=root,
        root_computes=root_computes,
        batch_size=batch_size,
        prefetch=prefetch,
        on_error=on_error,
        retries=retries,
        deadline=deadline,
        progress=progress,
        checkpoint=checkpoint,
        all_ranks=all_ranks,
    )
    with _entered():
        if world is None or world.Get_size() == 1:
            return _alone(call)
        return _together(call, world)


@contextmanager
def _entered() -> Iterator[None]:
    global _active
    _active = True
    try:
        yield
    finally:
        _active = False


class _Call:
    """The arguments of one call."""

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)

    fn: Any
    items: Any
    lanes: Any
    root: Any
    root_computes: Any
    batch_size: Any
    prefetch: Any
    on_error: Any
    retries: Any
    deadline: Any
    progress: Any
    checkpoint: Any
    all_ranks: Any

    def check(self, rank: int, size: int) -> None:
        """Refuse what this rank can see to be wrong."""
        check_callable(self.fn)
        check_on_error(self.on_error)
        check_checkpoint(self.checkpoint)
        self.retries = check_retries(self.retries)
        self.deadline = check_deadline(self.deadline)
        self.root = operator.index(self.root)
        if not 0 <= self.root < size:
            raise ArgumentError(f"root is {self.root}, and the ranks are 0 to {size - 1}")
        if self.batch_size != "auto":
            try:
                self.batch_size = operator.index(self.batch_size)
            except TypeError:
                raise ArgumentError(f"batch_size is {self.batch_size!r}; valid are 'auto' and an integer") from None
            if self.batch_size < 1:
                raise ArgumentError(f"batch_size is {self.batch_size}; it must be at least 1")
        check_lanes(self.lanes)
        if self.lanes.closed:
            raise LaneError("the lanes were closed; make new Lanes over open engines")
        if self.lanes.busy:
            raise LaneError("another run is using these lanes; wait for it, or make other Lanes over other engines")
        for index, engine in enumerate(self.lanes.engines):
            if engine.state == "closed":
                raise EngineClosedError(f"engines[{index}] of the lanes was closed", index=index)
        if rank == self.root:
            if self.items is None:
                raise ArgumentError(f"items is None on rank {rank}, the root; the items count there")
            self.total = length_of(self.items)
            self.iterator = iter(self.items)

    total: int | None
    iterator: Iterator[Any]

    def options(self) -> tuple[Any, ...]:
        """Return what must be the same on every rank."""
        how = self.on_error if isinstance(self.on_error, str) else "a callable"
        return (
            ("root", self.root),
            ("root_computes", bool(self.root_computes)),
            ("batch_size", self.batch_size),
            ("prefetch", bool(self.prefetch)),
            ("on_error", how),
            ("retries", self.retries),
            ("deadline", self.deadline),
            ("all_ranks", bool(self.all_ranks)),
        )


def _world(comm: Any) -> Any:
    """Return the communicator, or None for a world of one that needs no MPI."""
    if comm is None:
        if "mpi4py.MPI" not in sys.modules and not any(name in os.environ for name in _LAUNCHED):
            return None
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            raise PmapError(
                f"the process was started by an MPI launcher, and mpi4py cannot be used: {error}; "
                f"pip install mpi4py and an MPI library, or start it without mpiexec",
                kind="preflight",
            ) from error
        comm = MPI.COMM_WORLD
    for name in ("Get_rank", "Get_size", "Dup", "Isend", "Iprobe", "allgather"):
        if not callable(getattr(comm, name, None)):
            raise TypeError(f"comm must be an intracommunicator of mpi4py, not {type(comm).__qualname__}")
    return comm


def _alone(call: _Call) -> list[Any]:
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

        try:
            results: list[Any] = call.lanes._map(
                call.fn,
                call.items if isinstance(call.items, (list, tuple, range)) else call.iterator,
                on_error=call.on_error,
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
            raise


def _together(call: _Call, world: Any) -> list[Any] | None:
    """More ranks than one: agree, schedule, and end alike."""
    comm = world.Dup()
    try:
        with Interrupts() as interrupts:
            rank = comm.Get_rank()
            _preflight(call, comm)
            results: list[Any] | None = None
            if rank == call.root:
                results = _as_root(call, comm, rank, interrupts)
            else:
                _as_worker(call, comm, rank, interrupts)
            if call.all_ranks:
                results = _share(call, comm, rank, results)
        return results
    finally:
        comm.Free()


def _preflight(call: _Call, comm: Any) -> None:
    """Let every rank enter, or none: raise the same error everywhere."""
    from mpi4py import MPI

    rank, size = comm.Get_rank(), comm.Get_size()
    own: Exception | None = None
    try:
        call.check(rank, size)
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
    except Exception as error:
        own = error
    said = None if own is None else (type(own).__qualname__, str(own))
    told = comm.allgather((said, None if own is not None else call.options()))
    failed = [other for other, (error, _) in enumerate(told) if error is not None]
    if failed:
        first = failed[0]
        name, text = told[first][0]
        if own is not None and len(failed) == size and all(error == told[0][0] for error, _ in told):
            raise own
        raise PmapError(f"rank {first} cannot take part: {name}: {text}", kind="preflight", rank=first) from own
    for other, (_, options) in enumerate(told):
        for (name, value), (_, first_value) in zip(options, told[0][1], strict=True):
            if value != first_value:
                message = f"{name} is {first_value!r} on rank 0 and {value!r} on rank {other}; it must be the same"
                raise PmapError(message, kind="preflight", rank=other)


def _lodge(call: _Call, rank: int, lanes: int) -> Lodge:
    return Lodge(
        call.fn,
        retries=call.retries,
        stop_on_error=call.on_error == "raise",
        rank=rank,
        lanes=lanes,
        count=call.lanes._count,
    )


def _as_root(call: _Call, comm: Any, rank: int, interrupts: Interrupts) -> list[Any]:
    lanes = len(call.lanes) if call.root_computes else 0
    lodge = None
    if lanes:
        with _aborting(comm):
            lodge = _lodge(call, rank, lanes)
    with progress_of(call.progress, call.total) as report:
        root = Root(
            rank,
            comm.Get_size(),
            Wire(comm),
            lodge,
            lanes,
            call.iterator,
            interrupts,
            on_error=call.on_error,
            batch_size=call.batch_size,
            prefetch=call.prefetch,
            deadline=call.deadline,
            progress=report,
            total=call.total,
        )
        with _aborting(comm):
            error = None
            if lodge is None:
                root.attend(None)
            else:
                error = run_rank(call.lanes, rank, lodge, root.attend)
                if error is not None and not root.is_ended:
                    root.withdraw(error)
            verdict, results = root.verdict()
            told = _tell(comm, rank, error, verdict)
        _raise_alike(told, rank, lodge, error, verdict)
    return results


def _as_worker(call: _Call, comm: Any, rank: int, interrupts: Interrupts) -> None:
    with _aborting(comm):
        lodge = _lodge(call, rank, len(call.lanes))
        worker = Worker(Wire(comm), call.root, lodge, len(call.lanes), interrupts)
        error = run_rank(call.lanes, rank, lodge, worker.attend)
        if error is not None:
            worker.withdraw(error)
        told = _tell(comm, rank, error, None)
    _raise_alike(told, rank, lodge, error, Verdict())


def _share(call: _Call, comm: Any, rank: int, results: list[Any] | None) -> list[Any]:
    """Give every rank the results, or raise the same on all: nothing is sent that the root cannot pack."""
    told: list[tuple[bool, Any]] = []
    failure: tuple[int, str, int] | None = None
    for index, value in enumerate(results or ()):
        try:
            told.append(shared(index, value))
        except Exception as error:
            failure = (index, describe(error), rank)
            break
    with _aborting(comm):
        failure, told = comm.bcast((failure, [] if failure else told), root=call.root)
    if results is None:
        results = []
        for index, content in enumerate(told):
            try:
                results.append(received(content))
            except Exception as error:
                failure = (index, describe(error), rank)
                break
    with _aborting(comm):
        failures = [other for other in comm.allgather(failure) if other is not None]
    if failures:
        index, what, where = min(failures)
        message = f"result {index} cannot be given to every rank: {what}; use all_ranks=False, or results that pickle"
        raise PmapError(message, kind="wire", index=index, rank=where)
    return results


#: What each rank says at the end: what broke its lanes, and, on the root, the verdict.
_Told = list[tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]]


def _tell(comm: Any, rank: int, error: BaseException | None, verdict: Verdict | None) -> _Told:
    broke = None if error is None else Failed(-1, FATAL, error, rank=rank).state()
    told: _Told = comm.allgather((broke, None if verdict is None else verdict.state()))
    return told


def _raise_alike(told: _Told, rank: int, lodge: Lodge | None, error: BaseException | None, verdict: Verdict) -> None:
    """Raise the same on every rank: what ended the map at once, then broken lanes, then what the root found."""
    [state] = [state for _, state in told if state is not None]
    broken = next(((where, broke) for where, (broke, _) in enumerate(told) if broke is not None), None)
    ended_at_once = state[0] is not None and state[0][1] == FATAL
    if broken is not None and not ended_at_once:
        where, broke = broken
        raise error if where == rank and error is not None else Failed.of(broke).error
    verdict.raise_on({} if lodge is None else lodge.failures, state)


@contextmanager
def _aborting(comm: Any) -> Iterator[None]:
    """End the job when the protocol itself breaks: the other ranks would wait for ever."""
    try:
        yield
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(_ABORT)
        raise
