"""The cases of mpi.md that test_pmap.py leaves open: more ranks, other roots, every rank's result, large messages."""

from __future__ import annotations

import time

import pytest

FAILING = """
class Odd(Exception):
    def __init__(self, a, b):
        super().__init__("own text")
        self.lock = threading.Lock()

class Garbled:
    def __reduce__(self):
        return int, ("x",)

def odd(item, engine):
    if item == 3:
        raise Odd(1, 2)

def source():
    yield 1
    yield 2
    raise OSError("source")

def lock_at_3(item, engine):
    return threading.Lock() if item == 3 else item

def garbled_at_3(item, engine):
    return Garbled() if item == 3 else item

def broken_bar(done, total):
    raise KeyError("bar")

def mine(item, engine):
    if item == 3:
        raise td.PmapError("mine", kind="wire")

CALLS = {
    "one": (lambda x, e: 1 / (x - 5), range(10), {}),
    "last": (lambda x, e: 1 / (x - 9), range(10), {}),
    "all": (lambda x, e: 1 / 0, range(10), {}),
    "three": (lambda x, e: time.sleep(x == 3 and 0.03) or 1 / (x not in (3, 4, 7)), range(10), {}),
    "iterable": (lambda x, e: x, source(), {}),
    "no pickle": (odd, range(10), {}),
    "item": (lambda x, e: x, [0, 1, threading.Lock(), 3], {}),
    "item above a failure": (lambda x, e: 1 / (x - 1), [0, 1, 2, 3, 4, threading.Lock()], {}),
    "result": (lock_at_3, range(10), {}),
    "result back": (garbled_at_3, range(10), {}),
    "progress": (lambda x, e: time.sleep(0.001), range(100), {"progress": broken_bar}),
    "own type": (mine, range(10), {}),
    "stop": (lambda x, e: next(iter(())) if x == 3 else x, range(10), {}),
}
"""

#: type, kind, index, text; with more ranks than one, and no lane on the root, so that everything travels.
EXPECTED = {
    "one": ("LaneTaskError", None, 5, "ZeroDivisionError: division by zero"),
    "last": ("LaneTaskError", None, 9, "ZeroDivisionError: division by zero"),
    "all": ("LaneTaskError", None, 0, "ZeroDivisionError: division by zero"),
    "three": ("LaneTaskError", None, 3, "ZeroDivisionError: division by zero"),
    "iterable": ("LaneTaskError", None, 2, "OSError: source"),
    "no pickle": ("LaneTaskError", None, 3, "Odd: own text"),
    "item": ("PmapError", "wire", 2, "cannot pickle"),
    "item above a failure": ("LaneTaskError", None, 1, "ZeroDivisionError: division by zero"),
    "result": ("PmapError", "wire", 3, "cannot pickle"),
    "result back": ("PmapError", "wire", 3, "ValueError"),
    "progress": ("PmapError", "protocol", None, "KeyError"),
    "own type": ("LaneTaskError", None, 3, "PmapError: mine"),
    "stop": ("LaneTaskError", None, 3, "StopIteration"),
}


@pytest.mark.parametrize(
    ("size", "root", "options"),
    [
        (2, 1, '{"root_computes": False, "all_ranks": True}'),
        pytest.param(4, 0, '{"root_computes": False}', marks=pytest.mark.slow),
        pytest.param(4, 2, '{"root_computes": False, "batch_size": 3, "prefetch": True}', marks=pytest.mark.slow),
        pytest.param(3, 1, '{"root_computes": False, "batch_size": "auto"}', marks=pytest.mark.slow),
    ],
)
def test_mpi_01_every_rank_raises_the_same_error(mpi_run, size, root, options):
    """C-MPI-01 on four ranks, on other roots, in batches; the next map works."""
    script = f"""
        lanes, got, options = make_lanes(2), {{}}, {options}
        for name, (function, items, more) in CALLS.items():
            got[name] = outcome(function, items if rank == {root} else None, lanes, root={root}, **options, **more)
            got[name]["next"] = td.pmap_lanes(lambda x, e: x, [1, 2] if rank == 0 else None, lanes)
        say(got=got)
    """
    rows = mpi_run(size, FAILING + _dedent(script)).said(size)
    for name, (type_, kind, index, text) in EXPECTED.items():
        for row in rows:
            got = row["got"][name]
            assert (got["type"], got["kind"], got["index"]) == (type_, kind, index), (name, row)
            assert text in got["text"], (name, row)
            assert got["next"] == ([1, 2] if row["rank"] == 0 else None)
            assert (got["text"], got["on"]) == (rows[0]["got"][name]["text"], rows[0]["got"][name]["on"]), name


def _dedent(script: str) -> str:
    import textwrap

    return textwrap.dedent(script)


ON_THE_ROOT = {
    # What a handler or a lane of the root makes never travels to the root, but with all_ranks it goes to the others.
    "handler's result": (
        "lambda x, e: 1 / (x - 3)",
        "dict(on_error=lambda i, x, e: threading.Lock())",
        ("PmapError", "wire", 3),
    ),
    "handler's result back": (
        "lambda x, e: 1 / (x - 3)",
        "dict(on_error=lambda i, x, e: Garbled())",
        ("PmapError", "wire", 3),
    ),
    "result": (
        "lambda x, e: threading.Lock() if td.current_lane().rank == 0 else time.sleep(0.05)",
        "{}",
        ("PmapError", "wire", 0),
    ),
    "result back": (
        "lambda x, e: Garbled() if td.current_lane().rank == 0 else time.sleep(0.05)",
        "{}",
        ("PmapError", "wire", 0),
    ),
}


@pytest.mark.parametrize("name", ON_THE_ROOT)
def test_mpi_01_what_the_root_makes_and_cannot_send_to_all_ranks(mpi_run, name):
    """C-MPI-01: no rank is left in the collective that spreads the results; the next map works."""
    function, options, expected = ON_THE_ROOT[name]
    script = f"""
        lanes = make_lanes()
        got = outcome({function}, range(10), lanes, all_ranks=True, **{options})
        say(got=got, next=td.pmap_lanes(lambda x, e: x, [1, 2], lanes, all_ranks=True))
    """
    rows = mpi_run(2, FAILING + _dedent(script), timeout=20).said(2)
    for row in rows:
        assert (row["got"].get("type"), row["got"].get("kind"), row["got"].get("index")) == expected
        assert row["got"]["text"] == rows[0]["got"]["text"]
        assert row["next"] == [1, 2]


def test_mpi_01_errors_of_the_root_as_results_of_all_ranks(mpi_run):
    """C-MPI-01: an exception that cannot be pickled is itself on its rank and a LaneTaskError on the others."""
    script = """
        def fail(item, engine):
            if td.current_lane().rank == 0:
                raise Odd(1, 2)
            time.sleep(0.05)
            return "fine"

        lanes = make_lanes()
        value = td.pmap_lanes(fail, range(6), lanes, all_ranks=True, on_error="return")
        names = [type(one).__name__ for one in value]
        texts = ["own text" in str(one) for one in value if isinstance(one, Exception)]
        say(names=names, texts=texts, next=td.pmap_lanes(lambda x, e: x, [1, 2], lanes, all_ranks=True))
    """
    rows = mpi_run(2, FAILING + _dedent(script), timeout=20).said(2)
    for row in rows:
        assert row["next"] == [1, 2]
        assert len(row["names"]) == 6
        assert row["names"][0] == ("Odd" if row["rank"] == 0 else "LaneTaskError")
        assert set(row["names"]) <= {"str", "Odd", "LaneTaskError"}
        assert row["texts"]
        assert all(row["texts"])


@pytest.mark.parametrize("size", [1, 2])
def test_mpi_01_an_error_in_the_handler_is_the_same_on_every_rank(mpi_run, size):
    """C-MPI-01, C-LAN-04: the handler's own error is not lost, on the root least of all."""
    script = """
        def handler(index, item, error):
            raise OSError("handler")

        lanes = make_lanes()
        got = outcome(lambda x, e: 1 / (x - 3), range(10), lanes, on_error=handler)
        say(got=got, next=outcome(lambda x, e: x, [1], lanes))
    """
    rows = mpi_run(size, script).said(size)
    for row in rows:
        got = row["got"]
        assert (got["type"], got["index"], got["cause"]) == ("LaneTaskError", 3, "OSError")
        assert "OSError: handler" in got["text"]
        assert got["text"] == rows[0]["got"]["text"]
        assert row["next"] == {"value": [1] if row["rank"] == 0 else None}


LARGE = """
import numpy as np
from treadle.lanes import wire
wire.CHUNK_BYTES = {chunk}
lanes, count = make_lanes(), {count}
# Each result and each item is longer than one message may be.
items = (np.full(({item} >> 3,), i, dtype=float) for i in range(count)) if rank == 0 else None

def body(item, engine):
    assert item.flags.writeable
    item[0] += 1
    return np.concatenate([item[:1], np.arange(({result} >> 3) - 1) + item[1]])

value = td.pmap_lanes(body, items, lanes, root_computes=False)
right = []
if rank == 0:
    for i, one in enumerate(value):
        one[0] -= 1  # writeable
        right.append(bool(one[0] == i and one.nbytes == {result} and (one[1:] == np.arange(len(one) - 1) + i).all()))
bad = outcome(lambda x, e: np.zeros({result} >> 3) if x != 2 else threading.Lock(), range(4), lanes)
say(right=right, bad=bad)
"""


@pytest.mark.parametrize(
    ("item", "result", "chunk", "count"),
    [
        (3 << 20, 2 << 20, 1 << 16, 4),
        pytest.param(24_000_000, 16_000_000, 1 << 20, 6, marks=pytest.mark.slow),
        pytest.param(24_000_000, 16_000_000, 999_983, 6, marks=pytest.mark.slow),
    ],
)
def test_mpi_02_results_longer_than_one_message(mpi_run, item, result, chunk, count):
    """C-MPI-02: items of 24 MB and results of 16 MB with the chunk limit patched down; whole, in order, writeable."""
    job = mpi_run(2, LARGE.format(item=item, result=result, chunk=chunk, count=count), timeout=120)
    root, other = job.said(2)
    assert root["right"] == [True] * count
    for row in (root, other):
        assert (row["bad"]["type"], row["bad"]["kind"], row["bad"]["index"]) == ("PmapError", "wire", 2)


@pytest.mark.parametrize(
    ("size", "count", "length"),
    [(3, 3_000, 20_000), pytest.param(3, 20_000, 100_000, marks=pytest.mark.slow)],
)
def test_mpi_03_tasks_are_handed_out_as_they_are_wanted(mpi_run, size, count, length):
    """C-MPI-03: thousands of items from a generator to three ranks; few are under way, and memory stays flat."""
    job = mpi_run(
        size,
        f"""
        import resource

        lanes, ahead, done = make_lanes(2), 0, 0

        def items():
            global ahead
            for index in range({count}):
                ahead = max(ahead, index - done)
                yield bytes({length})

        def progress(count, total):
            global done
            done = count

        td.pmap_lanes(lambda x, e: len(x), (bytes({length}) for _ in range(50)) if rank == 0 else None, lanes)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        got = td.pmap_lanes(lambda x, e: len(x), items() if rank == 0 else None, lanes, progress=progress)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        say(right=got == ([{length}] * {count} if rank == 0 else None), ahead=ahead, grown=grown)
        """,
        timeout=120,
    )
    rows = job.said(size)
    # Each lane works at one item and one more is on its way to it at the most.
    assert 0 < rows[0]["ahead"] <= 3 * size * 2
    for row in rows:
        assert row["right"]
        # KiB; the items together are 60 MB and 2 GB.
        assert row["grown"] < 20_000


MINIMAL_EAGER = {
    "MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE": "1",
    "MPIR_CVAR_CH4_SHM_EAGER_MAX_MSG_SIZE": "1",
    "MPIR_CVAR_CH4_UCX_EAGER_MAX_MSG_SIZE": "1",
    "MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE": "1",
    "OMPI_MCA_btl_vader_eager_limit": "128",
    "OMPI_MCA_btl_tcp_eager_limit": "128",
    "OMPI_MCA_btl_sm_eager_limit": "128",
    "I_MPI_EAGER_THRESHOLD": "1",
    "I_MPI_SHM_EAGER_NUM": "1",
}


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("root_computes", [True, False])
def test_mpi_04_nothing_relies_on_eager_delivery(mpi_run, size, root_computes):
    """C-MPI-04: items and results of half a megabyte with eager limits at their minimum, inside and beside the pickle."""
    job = mpi_run(
        size,
        f"""
        import numpy as np
        lanes, got = make_lanes(2), []
        for options in (dict(), dict(prefetch=True), dict(batch_size=4), dict(batch_size=3, prefetch=True)):
            for make in (lambda i: bytes([i]) * 500_000, lambda i: np.full(62_500, i, float), lambda i: "x" * 500_000):
                items = (make(i) for i in range(24)) if rank == size - 1 else None
                value = td.pmap_lanes(lambda x, e: [x, x], items, lanes, root=size - 1,
                                      root_computes={root_computes}, **options)
                if rank == size - 1:
                    got.append(all(bool(np.all(a == make(i)) and np.all(b == make(i))) for i, (a, b) in
                                   enumerate(value)) and len(value) == 24)
        bad = outcome(lambda x, e: 1 / (len(x) - 7) and x, [bytes(500_000)] * 5 + [bytes(7)] + [bytes(500_000)] * 5
                      if rank == 0 else None, lanes)
        say(got=got, bad=bad)
        """,
        env=MINIMAL_EAGER,
    )
    rows = job.said(size)
    assert rows[-1]["got"] == [True] * 12
    for row in rows:
        assert (row["bad"]["type"], row["bad"]["index"]) == ("LaneTaskError", 5)


@pytest.mark.parametrize("level", ["funneled", "serialized"])
def test_mpi_05_all_mpi_calls_come_from_the_calling_thread(mpi_run, level):
    """C-MPI-05: watched on the communicator itself, whose duplicate is of the same class; also on failure."""
    job = mpi_run(
        2,
        """
        seen = {}

        class Watched(MPI.Intracomm):
            def __getattribute__(self, name):
                seen.setdefault(name, set()).add(threading.get_ident())
                return super().__getattribute__(name)

        lanes, world = make_lanes(3), Watched(MPI.COMM_WORLD)
        got = outcome(lambda x, e: x, range(30), lanes, comm=world)
        bad = outcome(lambda x, e: 1 / (x - 3), range(30), lanes, comm=world, prefetch=True)
        here = threading.get_ident()
        say(got=got, bad=bad["index"], names=sorted(seen), only=all(idents == {here} for idents in seen.values()))
        """,
        env={"MPI4PY_RC_THREAD_LEVEL": level},
    )
    rows = job.said(2)
    for row in rows:
        assert row["got"] == {"value": list(range(30)) if row["rank"] == 0 else None}
        assert row["bad"] == 3
        # The messages went through what is watched.
        assert {"Dup", "Isend", "Iprobe", "Free"} <= set(row["names"])
        assert row["only"]


@pytest.mark.parametrize("alive", ["pools", "stream", "lanes"])
def test_mpi_06_live_threads_do_not_keep_the_job_alive(mpi_run, alive):
    """C-MPI-06: an uncaught exception on rank 1 with live pools and lanes, while rank 0 waits in a receive."""
    begun = time.monotonic()
    job = mpi_run(
        2,
        f"""
        import itertools
        import numpy as np

        engines = [td.CpuEngine(threads=3) for _ in range(2)]
        lanes = td.Lanes(engines)
        engines[0].matmul(np.ones((300, 300)), np.ones((300, 300)))
        if rank == 0:
            MPI.COMM_WORLD.recv(source=1)
        if "{alive}" == "stream":
            stream = td.imap_in_lanes(lambda x, e: x, itertools.count(), lanes)
            assert next(stream) == 0
        if "{alive}" == "lanes":
            def run():
                lanes.run(lambda lane: lane.control.wait())
            threading.Thread(target=run, daemon=True).start()
            time.sleep(0.1)
        raise RuntimeError("the reason")
        """,
        timeout=30,
    )
    assert job.status != 0
    assert "RuntimeError: the reason" in job.err
    assert "Traceback" in job.err
    assert time.monotonic() - begun < 15


def test_mpi_07_a_waiting_rank_sleeps_and_still_answers_soon(mpi_run):
    """C-MPI-07: one item of three seconds costs little processor time, and an item's round trip a few milliseconds."""
    job = mpi_run(
        2,
        """
        lanes = make_lanes()
        begun = time.monotonic()
        td.pmap_lanes(lambda x, e: x, range(100), lanes, root_computes=False)
        each = (time.monotonic() - begun) / 100
        MPI.COMM_WORLD.barrier()
        used, begun = time.process_time(), time.monotonic()
        td.pmap_lanes(lambda x, e: time.sleep(1.5), [1], lanes, root_computes=False)
        say(each=each, share=(time.process_time() - used) / (time.monotonic() - begun))
        """,
    )
    for row in job.said(2):
        assert row["share"] < 0.1
        # Far from a poll that sleeps for its longest time at each step.
        assert row["each"] < 0.05
