"""Values between the ranks of an MPI communicator: any object that pickles, arrays without a copy through the pickle.

Every function is collective. Either every rank gets its value, or every rank raises the same error, and the
communicator stays usable. Ranks that wait sleep. mpi4py is imported only when a communicator is used.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from .exceptions import ArgumentError, PmapError
from .lanes import transfer
from .lanes.call import refuse_inside, world_of
from .lanes.outcome import describe
from .lanes.preflight import Options, agree, check_threads, duplicate, wait_for
from .lanes.rank import Interrupts
from .lanes.ranks import aborting
from .lanes.wire import Packed, pack, unpack

__all__ = ["broadcast", "gather", "scatter"]

T = TypeVar("T")


def broadcast(obj: T, comm: Any = None, root: int = 0) -> T:
    """Give every rank the root's object.

    Parameters
    ----------
    obj : object
        It counts on the root only; others may pass None.
    comm : mpi4py communicator, optional
        ``MPI.COMM_WORLD`` by default. It is duplicated for the call.
    root : int, optional
        The rank that has the object.

    Returns
    -------
    object
        The very object on the root, and one made from its pickle elsewhere. Arrays are writeable.

    Raises
    ------
    PmapError
        ``kind`` is "wire" (the object cannot be pickled, or cannot be made again on some rank), "preflight" (the ranks
        do not agree on the root) or "reentrant". The same on every rank.

    Notes
    -----
    Data of arrays travels beside the pickle (protocol 5), in pieces below 2 GiB; there is no limit to its length. All
    calls of MPI come from the calling thread.

    Examples
    --------
    >>> import treadle as td
    >>> td.mpi.broadcast({"beta": 0.44})
    {'beta': 0.44}
    """

    def check(rank: int, size: int) -> Packed | None:
        return _packed(obj, rank) if rank == root else None

    def travel(comm: Any, rank: int, packed: Packed | None) -> Packed | None:
        got = transfer.broadcast(comm, packed, root)
        return None if rank == root else got

    value: T = _all_together(comm, root, check, travel, lambda got: obj if got is None else unpack(got), lambda: obj)
    return value


def scatter(items: Iterable[T] | None, comm: Any = None, root: int = 0) -> T:
    """Give each rank one of the root's items.

    Parameters
    ----------
    items : iterable or None
        As many as there are ranks; they count on the root only, others may pass None.
    comm : mpi4py communicator, optional
        ``MPI.COMM_WORLD`` by default. It is duplicated for the call.
    root : int, optional
        The rank that has the items.

    Returns
    -------
    object
        Item ``i`` on rank ``i``: the very object on the root, and one made from its pickle elsewhere.

    Raises
    ------
    PmapError
        As for :func:`broadcast`; "preflight" also when there are not as many items as ranks. The same on every rank.

    Notes
    -----
    As for :func:`broadcast`. Every item is pickled before the first is sent.

    Examples
    --------
    >>> import treadle as td
    >>> td.mpi.scatter(["only one rank"])
    'only one rank'
    """
    own: list[Any] = []

    def check(rank: int, size: int) -> list[Packed | None] | None:
        if rank != root:
            return None
        own[:] = [] if items is None else list(items)
        if len(own) != size:
            raise ArgumentError(f"scatter got {len(own)} items for {size} ranks; there must be one for each rank")
        return [None if other == rank else _packed(item, rank) for other, item in enumerate(own)]

    def travel(comm: Any, rank: int, packed: list[Packed | None] | None) -> Packed | None:
        if packed is None:
            return transfer.receive(comm, root)
        sent = [pair for other, one in enumerate(packed) if one is not None for pair in transfer.send(comm, one, other)]
        wait_for(request for request, _ in sent)
        return None

    def alone() -> Any:
        check(0, 1)
        return own[0]

    value: T = _all_together(comm, root, check, travel, lambda got: own[root] if got is None else unpack(got), alone)
    return value


def gather(obj: T, comm: Any = None, root: int = 0) -> list[T] | None:
    """Give the root the objects of all ranks.

    Parameters
    ----------
    obj : object
        This rank's object.
    comm : mpi4py communicator, optional
        ``MPI.COMM_WORLD`` by default. It is duplicated for the call.
    root : int, optional
        The rank that gets the objects.

    Returns
    -------
    list or None
        The objects in the order of the ranks on the root (its own is the very object), None elsewhere.

    Raises
    ------
    PmapError
        As for :func:`broadcast`. The same on every rank.

    Notes
    -----
    As for :func:`broadcast`. Every object is pickled before the first is sent.

    Examples
    --------
    >>> import treadle as td
    >>> td.mpi.gather("rank 0")
    ['rank 0']
    """

    def check(rank: int, size: int) -> Packed | None:
        return None if rank == root else _packed(obj, rank)

    def travel(comm: Any, rank: int, packed: Packed | None) -> list[Packed | None] | None:
        if packed is None:
            ranks = range(comm.Get_size())
            return [None if other == rank else transfer.receive(comm, other) for other in ranks]
        wait_for(request for request, _ in transfer.send(comm, packed, root))
        return None

    def made(got: list[Packed | None] | None) -> list[Any] | None:
        return None if got is None else [obj if one is None else unpack(one) for one in got]

    values: list[T] | None = _all_together(comm, root, check, travel, made, lambda: [obj])
    return values


@contextmanager
def _own(world: Any) -> Iterator[Any]:
    comm = duplicate(world)
    try:
        yield comm
    finally:
        comm.Free()


def _all_together(
    comm: Any,
    root: int,
    check: Callable[[int, int], Any],
    travel: Callable[[Any, int, Any], Any],
    made: Callable[[Any], Any],
    alone: Callable[[], Any],
) -> Any:
    """Pack on every rank, agree, let everything travel, make the values, and agree again."""
    refuse_inside()
    world = world_of(comm)
    if world is None or world.Get_size() == 1:
        _check_root(root, 1)
        return alone()
    with _own(world) as own, Interrupts():
        rank, size = own.Get_rank(), own.Get_size()
        packed: list[Any] = []
        value: list[Any] = []

        def enter() -> Options:
            check_threads(rank)
            _check_root(root, size)
            packed.append(check(rank, size))
            return (("root", operator.index(root)),)

        def leave() -> Options:
            try:
                value.append(made(got))
            except BaseException as error:  # the object's own code raised it, whatever it is
                message = f"what arrived cannot be made again: {describe(error)}"
                raise PmapError(message, kind="wire", rank=rank) from error
            return ()

        agree(own, enter)
        with aborting(own):
            got = travel(own, rank, packed[0])
        agree(own, leave)
        return value[0]


def _packed(obj: Any, rank: int) -> Packed:
    try:
        return pack(obj)
    except BaseException as error:  # the object's own code raised it, whatever it is
        message = f"the object cannot be pickled: {describe(error)}"
        raise PmapError(message, kind="wire", rank=rank) from error


def _check_root(root: int, size: int) -> None:
    if not 0 <= operator.index(root) < size:
        raise ArgumentError(f"root is {root}, and the ranks are 0 to {size - 1}")
