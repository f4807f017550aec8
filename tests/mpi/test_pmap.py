"""``pmap_lanes`` on one rank, two, and three."""

from __future__ import annotations

import subprocess
import sys

import pytest

import treadle as td

SIZES = pytest.mark.parametrize("size", [1, 2, 3])


@SIZES
@pytest.mark.parametrize("lanes", [1, 2])
def test_results_come_in_order_on_the_root(mpi_run, size, lanes):
    job = mpi_run(
        size,
        f"""
        got = []
        with make_lanes({lanes}) as lanes:
            for count in (0, 1, 2, 40):
                for options in ({{}}, {{"batch_size": 3}}, {{"batch_size": "auto", "prefetch": True}},
                                {{"root": size - 1}}, {{"root_computes": False}}, {{"all_ranks": True}}):
                    root = options.get("root", 0)
                    items = (i for i in range(count)) if rank == root else None
                    value = td.pmap_lanes(lambda item, engine: item * item, items, lanes, **options)
                    here = rank == root or options.get("all_ranks")
                    got.append(value == ([i * i for i in range(count)] if here else None))
        say(got=got)
        """,
    )
    for row in job.said(size):
        assert row["got"] == [True] * 24


def test_both_ranks_and_all_lanes_take_items(mpi_run):
    job = mpi_run(
        2,
        """
        def where(item, engine):
            time.sleep(0.01)
            lane = td.current_lane()
            return lane.rank, lane.index, lanes.engines[lane.index] is engine

        lanes = make_lanes(2)
        got = td.pmap_lanes(where, range(40), lanes)
        rows = lanes.describe()
        say(got=got and sorted(set(got)), items=[row["items"] for row in rows],
            busy=[row["busy_seconds"] for row in rows])
        """,
    )
    root, other = job.said(2)
    assert root["got"] == [[0, 0, True], [0, 1, True], [1, 0, True], [1, 1, True]]
    # Items are what the lanes count, as in a map of one process, and not the time that they waited for some.
    assert sum(root["items"] + other["items"]) == 40
    for items, busy in zip(root["items"] + other["items"], root["busy"] + other["busy"], strict=True):
        assert busy >= 0.0099 * items


FAILURES = {
    # name: (function, items, type, kind, index, text)
    "one": ("lambda x, e: 1 / (x - 5)", "range(10)", "LaneTaskError", None, 5, "ZeroDivisionError"),
    "last": ("lambda x, e: 1 / (x - 9)", "range(10)", "LaneTaskError", None, 9, "ZeroDivisionError"),
    "all": ("lambda x, e: 1 / 0", "range(10)", "LaneTaskError", None, 0, "ZeroDivisionError"),
    "many": (
        "lambda x, e: time.sleep(x == 3 and 0.05) or 1 / (x not in (3, 4, 7))",
        "range(10)",
        "LaneTaskError",
        None,
        3,
        "ZeroDivisionError",
    ),
    "iterable": ("lambda x, e: x", "source()", "LaneTaskError", None, 2, "OSError: source"),
    "exit": ("lambda x, e: sys.exit(3) if x == 4 else x", "range(10)", "SystemExit", None, None, "3"),
    "no pickle": ("odd", "range(10)", "LaneTaskError", None, 3, "Odd: own text"),
    "nested": ("lambda x, e: td.pmap_lanes(len, [1], lanes)", "range(3)", "LaneTaskError", None, 0, "inside a map"),
}
WIRE = {
    "item": ("lambda x, e: x", "[0, 1, threading.Lock(), 3]", "PmapError", "wire", 2, "cannot pickle"),
    "result": ("lambda x, e: threading.Lock() if x == 3 else x", "range(10)", "PmapError", "wire", 3, "cannot pickle"),
    "result back": ("lambda x, e: Garbled() if x == 3 else x", "range(10)", "PmapError", "wire", 3, "ValueError"),
}


@SIZES
@pytest.mark.parametrize("batch", [1, 4])
def test_every_rank_raises_the_same_error_and_the_next_map_works(mpi_run, size, batch):
    """C-MPI-01: the same type, index and text on every rank, and a following map works."""
    cases = {**FAILURES, **(WIRE if size > 1 else {})}
    script = """
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

    lanes = make_lanes(2)
    got = {}
    """
    for name, (function, items, *_) in cases.items():
        script += f"""
    got[{name!r}] = outcome({function}, {items} if rank == 0 else None, lanes, batch_size={batch})
    got[{name!r}]["next"] = td.pmap_lanes(lambda x, e: x, [1, 2, 3], lanes)
        """
    rows = mpi_run(size, script + "\n    say(got=got)\n").said(size)
    for name, (_, _, kind_of, kind, index, text) in cases.items():
        for row in rows:
            got = row["got"][name]
            assert (got["type"], got["kind"], got["index"]) == (kind_of, kind, index), (name, row)
            assert text in got["text"], (name, row)
            assert got["next"] == ([1, 2, 3] if row["rank"] == 0 else None)
            assert got["text"] == rows[0]["got"][name]["text"]
            assert got["on"] == rows[0]["got"][name]["on"]
        causes = {row["got"][name]["cause"] for row in rows}
        if name in ("one", "last", "all", "many"):
            assert causes == {"ZeroDivisionError"}


@pytest.mark.parametrize("size", [1, 2])
def test_failures_as_results_and_through_a_handler(mpi_run, size):
    job = mpi_run(
        size,
        """
        class Odd(Exception):
            def __init__(self, a, b):
                super().__init__("own text")
                self.lock = threading.Lock()

        def fail(item, engine):
            time.sleep(0.002)
            if item == 7:
                raise Odd(1, 2)
            return 1 / (item % 3)

        lanes = make_lanes()
        returned = td.pmap_lanes(fail, range(12), lanes, on_error="return")
        handled = td.pmap_lanes(fail, range(12), lanes, on_error=lambda i, item, e: [i, item, type(e).__name__])
        say(
            returned=returned and [type(value).__name__ for value in returned],
            handled=handled and handled[3],
            odd=returned and "own text" in str(returned[7]),
        )
        """,
    )
    root = job.said(size)[0]
    names = ["ZeroDivisionError" if i % 3 == 0 else "float" for i in range(12)]
    names[7] = root["returned"][7]
    assert root["returned"] == names
    assert names[7] in ("Odd", "LaneTaskError")
    assert root["odd"]
    assert root["handled"] == [3, 3, "ZeroDivisionError"]


@pytest.mark.parametrize("size", [1, 2])
def test_progress_counts_on_the_root_and_its_error_ends_the_map(mpi_run, size):
    """C-MPI-01: a progress callback that raises."""
    job = mpi_run(
        size,
        """
        lanes, seen = make_lanes(2), []
        td.pmap_lanes(lambda x, e: x, range(20), lanes, progress=lambda done, total: seen.append([done, total]))

        def broken(done, total):
            raise KeyError("bar")

        say(seen=seen, error=outcome(lambda x, e: time.sleep(0.001), range(2000), lanes, progress=broken))
        """,
    )
    rows = job.said(size)
    assert rows[0]["seen"] == [[done, 20] for done in range(1, 21)]
    for row in rows:
        assert (row["error"]["type"], row["error"]["kind"]) == ("PmapError", "protocol")
        assert "KeyError" in row["error"]["text"]
    for row in rows[1:]:
        assert row["seen"] == []


def test_ranks_that_do_not_agree_all_raise(mpi_run):
    job = mpi_run(
        2,
        """
        lanes = make_lanes()
        closed = make_lanes()
        closed.close()
        same = lambda x, e: x
        say(got=[
            outcome(same, [1], lanes, root=rank),
            outcome(same, [1], lanes, root=5),
            outcome(same, [1], lanes, batch_size=1 + rank),
            outcome(same, [1], lanes, batch_size=0),
            outcome(same, [1], lanes, on_error="raise" if rank else "return"),
            outcome(same, None, lanes),
            outcome(same, [1], lanes if rank == 0 else closed),
            outcome(same, [1], lanes if rank == 0 else None),
            outcome(same if rank else 3, [1], lanes),
            outcome(same, [1], lanes, on_error="bogus"),
            outcome(same, 5, lanes),
            outcome(same, [1, 2], lanes),
        ])
        """,
    )
    first, second = (row["got"] for row in job.said(2))
    types = [
        "PmapError", "ArgumentError", "PmapError", "ArgumentError", "PmapError", "PmapError", "PmapError", "PmapError",
        "PmapError", "ArgumentError", "PmapError",
    ]  # fmt: skip
    assert [got.get("type") for got in first] == [*types, None]
    for one, other in zip(first[:-1], second[:-1], strict=True):
        assert (one["type"], one["text"], one["kind"]) == (other["type"], other["text"], other["kind"])
        assert one["kind"] == ("preflight" if one["type"] == "PmapError" else None)
    assert (first[-1], second[-1]) == ({"value": [1, 2]}, {"value": None})


def test_a_deadline_and_a_cancel_end_the_map_everywhere(mpi_run):
    job = mpi_run(
        2,
        """
        lanes = make_lanes()
        slow = lambda x, e: td.current_lane().control.wait(0.05) or x
        begun = time.monotonic()
        late = outcome(slow, range(1000), lanes, deadline=0.2)
        took = time.monotonic() - begun

        def cancel(item, engine):
            if item == 5:
                td.current_lane().control.cancel()
            time.sleep(0.001)

        say(late=late, took=took, cancelled=outcome(cancel, range(10000), lanes))
        """,
    )
    for row in job.said(2):
        assert row["late"]["type"] == row["cancelled"]["type"] == "LaneCancelledError"
        assert row["took"] < 2


def test_a_panic_or_a_thread_that_does_not_start_on_one_rank_ends_the_map_everywhere(mpi_run):
    job = mpi_run(
        2,
        """
        lanes, got = make_lanes(2), []
        for broken in (0, 1):
            if rank == broken:
                lanes._panic_in_lane(1)
            got.append(outcome(lambda x, e: time.sleep(0.005), range(100), lanes))
            big = td.Lanes([td.CpuEngine.serial()], stack_bytes=(1 << 62) if rank == broken else 1 << 20)
            got.append(outcome(lambda x, e: time.sleep(0.005), range(100), big))
        got.append(outcome(lambda x, e: x, [1, 2], lanes))
        say(got=got)
        """,
    )
    for row in job.said(2):
        types = [got.get("type") for got in row["got"]]
        assert types == ["InternalError", "LaneThreadError"] * 2 + [None]


def test_large_arrays_arrive_whole_and_writeable_also_in_pieces(mpi_run):
    """C-MPI-02 and C-MPI-04: messages in pieces, with low eager limits."""
    job = mpi_run(
        2,
        """
        import numpy as np
        from treadle.lanes import wire

        lanes, got = make_lanes(), []
        for piece in (wire.CHUNK_BYTES, 1 << 16):
            wire.CHUNK_BYTES = piece
            items = (np.full(500_000, i, dtype=float) for i in range(10)) if rank == 0 else None

            def change(item, engine):
                item += 1
                return {"array": item, "fortran": np.asfortranarray(item.reshape(1000, 500))[:, ::2]}

            value = td.pmap_lanes(change, items, lanes, prefetch=True)
            if rank == 0:
                got.append([float(one["array"].min()) for one in value] == [i + 1.0 for i in range(10)])
                got.append(all(one["array"].flags.writeable for one in value))
                got.append(all(bool((one["fortran"] == i + 1).all()) for i, one in enumerate(value)))
        say(got=got)
        """,
        env={"MPIR_CVAR_CH4_OFI_EAGER_MAX_MSG_SIZE": "1024", "MPIR_CVAR_CH4_SHM_EAGER_MAX_MSG_SIZE": "1024"},
    )
    assert job.said(2)[0]["got"] == [True] * 6


@pytest.mark.parametrize("level", ["single", "funneled", "serialized", "multiple"])
def test_thread_levels(mpi_run, level):
    """C-MPI-05: works at funneled and above; one typed error below it."""
    job = mpi_run(
        2,
        """
        say(level=MPI.Query_thread(), got=outcome(lambda x, e: x, [1, 2, 3], make_lanes()))
        """,
        env={"MPI4PY_RC_THREAD_LEVEL": level},
    )
    for row in job.said(2):
        if row["level"] == 0:
            assert (row["got"]["type"], row["got"]["kind"]) == ("PmapError", "preflight")
        else:
            assert row["got"] == {"value": [1, 2, 3] if row["rank"] == 0 else None}


def test_an_exception_outside_the_map_ends_the_job(mpi_run):
    """C-MPI-01 and C-MPI-06: the job ends and says why."""
    job = mpi_run(
        2,
        """
        lanes = make_lanes(2)
        if rank == 1:
            td.map_in_lanes(lambda x, e: 1 / 0, [1], lanes)
        td.pmap_lanes(lambda x, e: x, range(10), lanes)
        """,
        timeout=30,
    )
    assert job.status != 0
    assert "LaneTaskError" in job.err


def test_ranks_that_wait_use_little_processor_time(mpi_run):
    """C-MPI-07: a waiting rank sleeps."""
    job = mpi_run(
        2,
        """
        lanes = make_lanes()
        used, begun = time.process_time(), time.monotonic()
        td.pmap_lanes(lambda x, e: time.sleep(2), [1], lanes)
        say(share=(time.process_time() - used) / (time.monotonic() - begun))
        """,
    )
    for row in job.said(2):
        assert row["share"] < 0.15


def test_sub_communicators_and_the_callers_communicator_is_left_alone(mpi_run):
    job = mpi_run(
        3,
        """
        lanes = make_lanes()
        part = MPI.COMM_WORLD.Split(rank // 2)
        got = td.pmap_lanes(lambda x, e: [x, td.current_lane().rank], range(4), lanes, comm=part, root_computes=False)
        # Messages of the caller's own are not eaten by the map.
        if rank == 1:
            MPI.COMM_WORLD.send("mine", dest=0, tag=0)
        everyone = td.pmap_lanes(lambda x, e: x, range(30), lanes)
        mine = MPI.COMM_WORLD.recv(source=1, tag=0) if rank == 0 else None
        part.Free()
        say(got=got, everyone=everyone == (list(range(30)) if rank == 0 else None), mine=mine)
        """,
    )
    first, second, third = job.said(3)
    assert first["got"] == [[i, 1] for i in range(4)]
    assert second["got"] is None
    assert third["got"] == [[i, 0] for i in range(4)]
    assert first["everyone"]
    assert second["everyone"]
    assert third["everyone"]
    assert first["mine"] == "mine"


def test_a_world_of_one_needs_no_mpi(treadle_lanes):
    script = (
        "import sys, treadle as td\n"
        "lanes = td.Lanes([td.CpuEngine.serial()])\n"
        "assert td.pmap_lanes(lambda x, e: [x, td.current_lane().rank], range(3), lanes) == [[0, 0], [1, 0], [2, 0]]\n"
        "assert not any(name.startswith('mpi4py') for name in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    same = object()
    assert td.pmap_lanes(lambda x, e: x, [same], treadle_lanes)[0] is same, "nothing is pickled"
    with pytest.raises(td.LaneTaskError) as caught:
        td.pmap_lanes(lambda x, e: 1 / x, [1, 0], treadle_lanes)
    assert (caught.value.index, caught.value.rank) == (1, 0)
    with pytest.raises(td.PmapError) as refused:
        treadle_lanes.run_with_coordinator(lambda lane: None, lambda control: 0)
        td.map_in_lanes(
            lambda x, e: td.pmap_lanes(len, [1], treadle_lanes), [1], treadle_lanes, on_error=lambda i, x, error: error
        )[0].add_note("")
        raise td.map_in_lanes(
            lambda x, e: td.pmap_lanes(len, [1], treadle_lanes), [1], treadle_lanes, on_error="return"
        )[0]
    assert refused.value.kind == "reentrant"
    with pytest.raises(td.ArgumentError, match="root is 1"):
        td.pmap_lanes(len, [1], treadle_lanes, root=1)
    with pytest.raises(TypeError, match="intracommunicator"):
        td.pmap_lanes(len, [1], treadle_lanes, comm=3)


def test_what_arrives_and_is_no_message_is_told_and_not_raised():
    pytest.importorskip("mpi4py")
    script = """
import time, warnings
from mpi4py import MPI
from treadle import _native
from treadle.lanes.wire import Wire, pack, unpack
import numpy as np

comm = MPI.COMM_SELF.Dup()
wire = Wire(comm)
worker = _native.RankWorker(0.0, root=0, ping=1.0, silence=None, grace=5.0)
worker.ready(0.0, 3)
[(to, good, inline, attached)] = worker.outbox()
assert (to, inline, attached, len(good)) == (0, [], [], 48)

def arrived(data):
    request = comm.Isend([data, MPI.BYTE], dest=0, tag=0)
    [one] = wire.poll()
    request.Wait()
    return one

bad_ones = [b"", b"short", good[:-1], good + b"1", b"JUNK" + good[4:]]
for bad in [*bad_ones, good[:4] + bytes([9]) + good[5:], good[:6] + bytes([99]) + good[7:]]:
    one = arrived(bad)
    assert one.frame is None and one.fault, bad
one = arrived(good)
assert (one.source, one.frame.kind, one.frame.attached) == (0, 0, [])

# A payload with small and large buffers arrives whole and writeable.
value = {"a": np.arange(3.0), "b": np.arange(100_000.0), "c": np.arange(1000.0)}
worker.fault(0.0, pack(value), False)
wire.post(worker.outbox())
root = _native.RankRoot(0.0, rank=1, ranks=2, lanes=0, batch=1, prefetch=False, on_failure="raise", deadline=None,
                        streams=False, window=None, total=None, ping=1.0, silence=None, grace=5.0)
messages = [one]
end = time.monotonic() + 20
while len(messages) < 2 and time.monotonic() < end:
    messages += wire.poll()
assert wire.settle()
assert root.receive(0.0, 0, messages[0].frame, messages[0].attached) == []
[(index, how, packed, rank)] = root.receive(0.0, 0, messages[1].frame, messages[1].attached)
got = unpack(packed)
assert (index, how, rank, sorted(got)) == (2**64 - 1, 2, 0, ["a", "b", "c"])
for name, array in value.items():
    assert (got[name] == array).all() and got[name].flags.writeable
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("where", [0, 1])
def test_ctrl_c_on_one_rank_ends_the_map_on_every_rank(mpi_run, where):
    job = mpi_run(
        2,
        f"""
        import os, signal

        lanes = make_lanes(2)
        if rank == {where}:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        got = outcome(lambda x, e: time.sleep(0.02), range(2000), lanes)
        took = time.monotonic() - begun
        handler = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        say(got=got, took=took, handler=handler, after=outcome(lambda x, e: x, [1], lanes))
        """,
    )
    for row in job.said(2):
        assert row["got"]["type"] == "KeyboardInterrupt"
        assert row["took"] < 2
        assert row["handler"]
        assert row["after"] == {"value": [1] if row["rank"] == 0 else None}


@pytest.mark.parametrize("where", [0, 1])
def test_a_rank_that_dies_ends_the_job(mpi_run, where):
    job = mpi_run(
        2,
        f"""
        import os

        lanes = make_lanes()
        if rank == {where}:
            threading.Timer(0.2, os._exit, (9,)).start()
        td.pmap_lanes(lambda x, e: time.sleep(0.01), range(5000), lanes)
        """,
        timeout=30,
    )
    assert job.status != 0


def test_many_items_from_a_generator_need_little_memory_and_few_messages_under_way(mpi_run):
    """C-MPI-03 on two ranks."""
    job = mpi_run(
        2,
        """
        import resource

        lanes, ahead = make_lanes(), 0
        done = 0

        def items():
            global ahead
            for index in range(3000):
                ahead = max(ahead, index - done)
                yield bytes(20_000)

        def progress(count, total):
            global done
            done = count

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        got = td.pmap_lanes(lambda x, e: len(x), items() if rank == 0 else None, lanes, progress=progress)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        say(right=got == ([20_000] * 3000 if rank == 0 else None), ahead=ahead, grown=grown)
        """,
    )
    for row in job.said(2):
        assert row["right"]
        assert row["ahead"] <= 8
        assert row["grown"] < 30_000


def test_exceptions_and_objects_whose_own_code_misbehaves(mpi_run):
    rows = mpi_run(
        2,
        """
        class NoText(Exception):
            def __str__(self):
                raise KeyboardInterrupt

        class NoPickle(Exception):
            def __reduce__(self):
                raise SystemExit(3)

        class Text(str):
            def __reduce__(self):
                raise RuntimeError

        class Odd(int):
            def __repr__(self):
                return Text("odd")

        class ExitsOnPickle:
            def __reduce__(self):
                raise SystemExit(4)

        class ExitsOnUnpickle:
            def __reduce__(self):
                return sys.exit, (5,)

        def fail(error):
            def body(item, engine):
                if item == 3:
                    raise error
            return body

        def give(value):
            return lambda item, engine: value if item == 3 else item

        lanes = make_lanes(2)
        calls = {
            "no text": (fail(NoText()), range(9)),
            "no pickle": (fail(NoPickle("own")), range(9)),
            "repr": (lambda item, engine: 1 / 0, [Odd(1)]),
            "item": (lambda item, engine: item, [0, ExitsOnPickle()]),
            "result": (give(ExitsOnPickle()), range(9)),
            "result back": (give(ExitsOnUnpickle()), range(9)),
        }
        got = {name: outcome(body, items, lanes) for name, (body, items) in calls.items()}
        # On every rank alike, the root's own lanes included.
        for round in range(10):
            name = f"item back {round}"
            got[name] = outcome(lambda item, engine: time.sleep(0.002), [0, 1, ExitsOnUnpickle(), 3], lanes)
        say(got=got)
        """,
    ).said(2)
    expected = {
        "no text": ("LaneTaskError", 3),
        "no pickle": ("LaneTaskError", 3),
        "repr": ("LaneTaskError", 0),
        "item": ("PmapError", 1),
        "result": ("PmapError", 3),
        "result back": ("PmapError", 3),
        **{f"item back {n}": ("PmapError", 2) for n in range(10)},
    }
    for row in rows:
        assert {name: (got.get("type"), got.get("index")) for name, got in row["got"].items()} == expected


def test_a_failure_above_does_not_take_the_retries_of_an_item_below(mpi_run):
    rows = mpi_run(
        2,
        """
        tries = []

        def body(item, engine):
            if item == 0 and not tries:
                tries.append(item)
                td.current_lane().control.wait(10)
                raise ValueError(item)
            if item == 3:
                time.sleep(0.1)
                raise KeyError(item)
            return item

        say(got=outcome(body, range(9), make_lanes(2), retries=1))
        """,
    ).said(2)
    assert [(row["got"]["type"], row["got"]["index"]) for row in rows] == [("LaneTaskError", 3)] * 2


def test_an_interrupt_after_the_last_look_is_raised_at_the_end():
    import os
    import signal

    from treadle.lanes.rank import Interrupts

    with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
        assert interrupts.look() is None
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
