"""One call of a map across ranks: its options, what is wrong with them, and the communicator."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _native
from ..exceptions import ArgumentError, EngineClosedError, LaneError, PmapError
from .local import check_lanes
from .options import check_callable, check_deadline, check_on_error, check_path, check_retries, check_window, length_of
from .preflight import Options
from .recording import Recording

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

#: True while this process is inside a map across ranks.
_active = False


def refuse_inside() -> None:
    """Refuse a call from inside a map."""
    if _active or _native.current_lane() is not None:
        raise PmapError(
            "a map across ranks was started from inside a map; the other ranks are not here to take part. "
            "Use map_in_lanes over other lanes",
            kind="reentrant",
        )


@contextmanager
def entered() -> Iterator[None]:
    """Be inside a map across ranks."""
    global _active
    _active = True
    try:
        yield
    finally:
        _active = False


class Call:
    """The arguments of one call, as :func:`pmap_lanes` and :func:`ipmap_lanes` were given them."""

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
    all_ranks: Any = False
    #: Of a stream: how many items may be in flight.
    window: Any = None

    total: int | None
    #: On the root: the items, and with a checkpoint where results are looked for and put.
    iterator: Iterator[Any]
    recording: Recording | None = None
    #: The error after which the communicator cannot be freed.
    severed: PmapError | None = None

    def __init__(self, *, comm: Any, **given: Any) -> None:
        refuse_inside()
        #: The ranks; None in a world of one, which needs no MPI.
        world = world_of(comm)
        self.world = None if world is None or world.Get_size() == 1 else world
        self.__dict__.update(given)

    def check(self, rank: int, size: int) -> None:
        """Refuse what this rank can see to be wrong; on the root, open the checkpoint and compare it with the items."""
        check_callable(self.fn)
        check_on_error(self.on_error)
        check_path(self.checkpoint)
        self.retries = check_retries(self.retries)
        self.deadline = check_deadline(self.deadline)
        self.window = None if self.window is None else check_window(self.window, 1)
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
            if self.checkpoint is not None and size > 1:
                self.recording = Recording(self.iterator, self.checkpoint)

    def release(self) -> None:
        """Let go of a checkpoint that no map came to use, or that a map left in the middle."""
        if self.recording is not None:
            self.recording.checkpoint.close()

    def options(self) -> Options:
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


def world_of(comm: Any) -> Any:
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
    for name in ("Get_rank", "Get_size", "Dup", "Isend", "Iprobe", "Iallgather"):
        if not callable(getattr(comm, name, None)):
            raise TypeError(f"comm must be an intracommunicator of mpi4py, not {type(comm).__qualname__}")
    return comm
