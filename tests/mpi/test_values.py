"""``td.mpi.broadcast``, ``scatter`` and ``gather``."""

from __future__ import annotations

import pytest

import treadle as td

VALUES = """
import numpy as np
from treadle.lanes import wire

class Garbled:
    def __reduce__(self):
        return int, ("x",)

class Exits:
    def __reduce__(self):
        raise SystemExit(4)

def large(seed):
    return {"a": np.arange(300_000.0) + seed, "f": np.asfortranarray(np.ones((200, 300)) * seed), "s": "text" * seed}

def same(one, other):
    return bool((one["a"] == other["a"]).all() and (one["f"] == other["f"]).all() and one["s"] == other["s"])

def caught(function, *args, **options):
    try:
        function(*args, **options)
    except BaseException as error:
        return [type(error).__name__, getattr(error, "kind", None), getattr(error, "rank", None), str(error)]
"""


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("chunk", [1 << 30, 99_991])
def test_values_arrive_whole_and_writeable(mpi_run, size, chunk):
    rows = mpi_run(
        size,
        VALUES
        + f"""
wire.CHUNK_BYTES = {chunk}
comm, got = MPI.COMM_WORLD, []
for root in range(size):
    mine = large(root) if rank == root else None
    value = td.mpi.broadcast(mine, comm, root)
    got += [same(value, large(root)), value["a"].flags.writeable, (value is mine) == (rank == root)]
    items = [large(other) for other in range(size)] if rank == root else None
    value = td.mpi.scatter(items, comm, root)
    got += [same(value, large(rank)), (items is not None and value is items[rank]) == (rank == root)]
    mine = large(rank)
    values = td.mpi.gather(mine, comm, root)
    if rank == root:
        got += [len(values) == size and all(same(one, large(i)) for i, one in enumerate(values)), values[rank] is mine]
    else:
        got.append(values is None)
got.append(td.mpi.broadcast(None) is None)
got.append(td.mpi.gather(b"") == ([b""] * size if rank == 0 else None))
say(got=got)
""",
        timeout=90,
    ).said(size)
    for row in rows:
        assert all(row["got"]), row
        assert len(row["got"]) >= 8


def test_every_rank_raises_the_same_and_the_next_call_works(mpi_run):
    rows = mpi_run(
        3,
        VALUES
        + """
comm = MPI.COMM_WORLD
lock = threading.Lock()
got = {
    "broadcast": caught(td.mpi.broadcast, lock if rank == 1 else 3, comm, 1),
    "broadcast exits": caught(td.mpi.broadcast, Exits(), comm, 0),
    "broadcast back": caught(td.mpi.broadcast, Garbled(), comm, 2),
    "scatter": caught(td.mpi.scatter, [1, 2, lock], comm, 0),
    "scatter few": caught(td.mpi.scatter, [1, 2] if rank == 0 else None, comm),
    "scatter none": caught(td.mpi.scatter, None, comm),
    "gather": caught(td.mpi.gather, lock if rank == 2 else rank, comm),
    "gather back": caught(td.mpi.gather, Garbled() if rank == 1 else rank, comm),
    "root": caught(td.mpi.broadcast, 1, comm, 7),
    "roots": caught(td.mpi.broadcast, 1, comm, rank),
}
say(got=got, after=td.mpi.gather(rank, comm, 2))
""",
    ).said(3)
    expected = {
        "broadcast": ("PmapError", "wire", 1),
        "broadcast exits": ("PmapError", "wire", 0),
        "broadcast back": ("PmapError", "wire", 0),
        "scatter": ("PmapError", "wire", 0),
        "scatter few": ("PmapError", "preflight", 0),
        "scatter none": ("PmapError", "preflight", 0),
        "gather": ("PmapError", "wire", 2),
        "gather back": ("PmapError", "wire", 0),
        "root": ("ArgumentError", None, None),
        "roots": ("PmapError", "preflight", 1),
    }
    for row in rows:
        for name, right in expected.items():
            assert tuple(row["got"][name][:3]) == right, (name, row)
            assert row["got"][name][3] == rows[0]["got"][name][3], name
        assert row["after"] == ([0, 1, 2] if row["rank"] == 2 else None)


def test_a_world_of_one_gives_the_very_object(treadle_lanes):
    value = object()
    assert td.mpi.broadcast(value) is value
    assert td.mpi.scatter(iter([value])) is value
    assert td.mpi.gather(value)[0] is value
    with pytest.raises(td.ArgumentError, match="2 items for 1 ranks"):
        td.mpi.scatter([1, 2])
    with pytest.raises(td.ArgumentError, match="root is 1"):
        td.mpi.gather(1, root=1)
    [error] = td.map_in_lanes(lambda x, e: td.mpi.gather(x), [1], treadle_lanes, on_error="return")
    assert (type(error), error.kind) == (td.PmapError, "reentrant")


def test_a_rank_that_waits_for_the_others_sleeps(mpi_run):
    rows = mpi_run(
        2,
        """
        if rank == 1:
            time.sleep(1.5)
        used, begun = time.process_time(), time.monotonic()
        td.mpi.broadcast(1)
        first = time.process_time() - used
        if rank == 1:
            time.sleep(1.5)
        used = time.process_time()
        td.pmap_lanes(lambda x, e: x, [1], make_lanes())
        say(first=first, second=time.process_time() - used)
        """,
    ).said(2)
    for row in rows:
        assert row["first"] < 0.3
        assert row["second"] < 0.3
