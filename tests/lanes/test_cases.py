"""The cases of lanes.md that the other files here leave open: streams, batches of failures, waiters, quick items."""

from __future__ import annotations

import concurrent.futures
import itertools
import queue
import tempfile
import threading
import time
from pathlib import Path

import pytest

import treadle as td

OWN = [
    TimeoutError("mine"),
    StopIteration(3),
    StopAsyncIteration("mine"),
    concurrent.futures.CancelledError(),
    concurrent.futures.TimeoutError("mine"),
    KeyError("mine"),
    queue.Empty(),
    td.LaneTaskError("mine", index=77),
    td.LaneCancelledError("mine"),
    td.EngineClosedError("mine"),
    td.ForkedEngineError("mine"),
    td.NoEngineError("mine"),
    td.PmapError("mine", kind="wire"),
    td.InternalError("mine"),
]


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", [list, iter])
@pytest.mark.parametrize("ordered", [True, False])
def test_lan_01_a_stream_tells_the_users_exception_from_its_own(lanes, error, kind, ordered):
    """C-LAN-01, taken one by one: the cause is that very object, and the other results are there."""

    def fail_second(item, engine):
        if item == 2:
            raise error
        return item

    stream = td.imap_in_lanes(fail_second, kind(list(range(10))), lanes, ordered=ordered)
    got = []
    with pytest.raises(td.LaneTaskError) as caught:
        got.extend(stream)
    assert caught.value is not error
    assert caught.value.__cause__ is error
    assert caught.value.index == 2
    assert {0, 1} <= set(got) if ordered else set(got) <= set(range(10)) - {2}
    assert list(stream) == []
    got = list(td.imap_in_lanes(fail_second, kind(list(range(10))), lanes, on_error="return", ordered=ordered))
    assert [item for item in got if item is error] == [error]
    assert sorted(item for item in got if item is not error) == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    if ordered:
        assert got[2] is error


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
def test_lan_01_a_lane_body_that_raises_one_of_ours(lanes, error):
    """C-LAN-01 for ``lanes.run``, whose body may raise what the package raises itself."""
    last = len(lanes) - 1

    def body(lane):
        if lane.index == last:
            raise error
        assert lane.control.wait(30)

    with pytest.raises(td.LaneTaskError) as caught:
        lanes.run(body)
    assert caught.value is not error
    assert caught.value.__cause__ is error
    assert (caught.value.lane, caught.value.index) == (last, last)


class NeverPickled:
    def __getstate__(self):
        raise RuntimeError("pickled")


@pytest.mark.parametrize("form", ["list", "stream", "unordered"])
def test_lan_02_items_results_and_errors_that_no_pickle_takes(lanes, form):
    """C-LAN-02: the very objects go in, come out, and are raised."""

    class OddError(Exception):
        def __init__(self, lock, more):
            super().__init__("odd")
            self.lock = lock

    def run(function, items, **options):
        if form == "list":
            return td.map_in_lanes(function, items, lanes, **options)
        return list(td.imap_in_lanes(function, items, lanes, ordered=form == "stream", **options))

    with tempfile.TemporaryFile() as file:
        items = [threading.Lock(), (i for i in ()), lambda: 1, file, NeverPickled(), lanes.engines[0], lanes]
        out = run(lambda item, engine: item, items)
        assert {id(item) for item in out} == {id(item) for item in items}
        if form != "unordered":
            assert all(a is b for a, b in zip(out, items, strict=True))
        made = [threading.RLock(), NeverPickled(), (i for i in ()), file, lanes.engines[-1]]
        assert {id(item) for item in run(lambda item, engine: made[item], range(5))} == {id(item) for item in made}
        odd = OddError(threading.Lock(), 2)

        def fail(item, engine):
            raise odd

        assert run(fail, items[:1], on_error="return")[0] is odd
        with pytest.raises(td.LaneTaskError, match="odd") as caught:
            run(fail, items)
        assert caught.value.__cause__ is odd
        assert "lock" in caught.value.item_repr


def test_lan_03_a_slow_first_item_does_not_draw_the_source_dry(make_lanes):
    """C-LAN-03: while item 0 runs, at most ``window`` items are under way, on the reader's thread alone."""
    lanes, read, threads = make_lanes(count=3), 0, set()

    def source():
        nonlocal read
        for item in itertools.count():
            read = item + 1
            threads.add(threading.get_ident())
            yield item

    seen = []

    def slow_first(item, engine):
        if item == 0:
            time.sleep(0.15)
            seen.append(read)
        return item

    with td.imap_in_lanes(slow_first, source(), lanes, window=4) as stream:
        assert list(itertools.islice(stream, 12)) == list(range(12))
    assert seen[0] <= 5
    assert threads == {threading.get_ident()}
    # The list form waits for item 0 as well: nobody else may read on for ever.
    seen.clear()
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: slow_first(item, engine) / (item != 300), source(), lanes)
    assert caught.value.index == 300
    # These items are short, so more of them are read at a time; a bounded number all the same.
    assert read <= 301 + 33 * len(lanes)
    assert threads == {threading.get_ident()}


def test_lan_03_what_a_stream_takes_and_refuses(lanes):
    """C-LAN-03: dict, str and rows of a matrix are items; 5 is a TypeError, from the call itself."""
    np = pytest.importorskip("numpy")
    assert list(td.imap_in_lanes(lambda x, e: x, {"x": 1, "y": 2}, lanes)) == ["x", "y"]
    assert list(td.imap_in_lanes(lambda x, e: x, "abc", lanes)) == ["a", "b", "c"]
    rows = list(td.imap_in_lanes(lambda x, e: x.tolist(), np.arange(6).reshape(3, 2), lanes))
    assert rows == [[0, 1], [2, 3], [4, 5]]
    for items in (5, None, np.array(3.0)):
        with pytest.raises(TypeError):
            td.imap_in_lanes(lambda x, e: x, items, lanes)
    assert not lanes.busy


@pytest.mark.parametrize("count", [2, 3, 10])
@pytest.mark.parametrize("which", ["all", "first", "last", "middle"])
@pytest.mark.parametrize("answer", [0.0, None, "exception"])
@pytest.mark.parametrize("stream", [False, True])
def test_lan_04_one_result_for_each_item_in_order(lanes, count, which, answer, stream):
    """C-LAN-04: whatever fails and whatever the handler gives."""
    failing = {"all": set(range(count)), "first": {0}, "last": {count - 1}, "middle": {count // 2}}[which]
    errors = {index: ValueError(index) for index in failing}

    def fail(item, engine):
        if item in errors:
            raise errors[item]
        return item

    def handler(index, item, error):
        assert index == item
        assert error is errors[index]
        return error if answer == "exception" else answer

    expected = [(errors[i] if answer == "exception" else answer) if i in failing else i for i in range(count)]
    for items in (range(count), iter(range(count))):
        if stream:
            assert list(td.imap_in_lanes(fail, items, lanes, on_error=handler)) == expected
        else:
            assert td.map_in_lanes(fail, items, lanes, on_error=handler) == expected


def test_lan_04_a_stream_does_not_lose_the_handlers_own_error(lanes):
    """C-LAN-04: it ends the stream at the item that it was called for, after the results below."""
    own = OSError("handler")

    def handler(index, item, error):
        raise own

    got = []
    with pytest.raises(td.LaneTaskError) as caught:
        got.extend(td.imap_in_lanes(lambda x, e: 1 // (x - 3) or x, range(10), lanes, on_error=handler))
    assert (caught.value.index, caught.value.__cause__) == (3, own)
    assert isinstance(own.__context__, ZeroDivisionError)
    assert got == [-1, -1, -1]
    with pytest.raises(td.ArgumentError, match="'raise', 'return' and a callable"):
        td.imap_in_lanes(lambda x, e: x, range(3), lanes, on_error="ignore")


EXIT = """
import os, threading, treadle as td
lanes = td.Lanes([td.CpuEngine(threads=2) for _ in range(3)])
def leave(item, engine):
    if item == 1:
        os._exit(7)
    td.current_lane().control.wait()
def body(lane):
    leave(lane.index, lane.engine)
{call}
os._exit(3)
"""


@pytest.mark.parametrize(
    "call",
    [
        "td.map_in_lanes(leave, range(10), lanes)",
        "list(td.imap_in_lanes(leave, iter(range(10)), lanes))",
        "lanes.run(body)",
        "lanes.run_with_coordinator(body, lambda control: control.wait())",
    ],
)
def test_lan_05_a_body_that_ends_the_process_ends_it_while_others_wait(run_python, call):
    """C-LAN-05: status 7, and nobody waits for the peers or the coordinator."""
    assert run_python("-W", "ignore", "-c", EXIT.format(call=call), timeout=30).returncode == 7


@pytest.mark.parametrize("failing", [{1}, {0, 1, 2}, {0}, {2}])
@pytest.mark.parametrize("coordinated", [False, True])
def test_lan_06_one_error_each_body_called_once_and_the_waiters_released(make_lanes, failing, coordinated):
    """C-LAN-06: set-up that fails in some lanes or in all is not tried again."""
    lanes, calls, released = make_lanes(count=3), [], []

    def body(lane):
        calls.append(lane.index)
        if lane.index in failing:
            raise ValueError(lane.index)
        released.append(lane.control.wait(30))

    for _ in range(10):
        calls.clear()
        with pytest.raises(td.LaneTaskError) as caught:
            if coordinated:
                lanes.run_with_coordinator(body, lambda control: control.wait(30))
            else:
                lanes.run(body)
        # A body that starts after another one failed is called as well, once.
        assert sorted(calls) == [0, 1, 2]
        assert caught.value.lane == min(failing)
        assert caught.value.__cause__.args == (min(failing),)
        assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lane-")] == []
    assert released == [True] * (10 * (3 - len(failing)))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize("form", ["list", "iterator", "stream"])
def test_lan_07_done_grows_one_by_one_also_when_items_fail(make_lanes, count, handled, form):
    """C-LAN-07: ten items of 0.04 s; a failing one is counted with a handler and ends the count without one."""
    lanes, seen = make_lanes(count=count), []

    def body(item, engine):
        time.sleep(0.02)
        return 1 // (item != 6)

    def progress(done, total):
        seen.append((done, total, threading.get_ident(), time.monotonic()))

    options = {"progress": progress, "on_error": (lambda index, item, error: -1) if handled else "raise"}
    source = range(10) if form != "iterator" else iter(range(10))

    def run():
        if form == "stream":
            return list(td.imap_in_lanes(body, source, lanes, **options))
        return td.map_in_lanes(body, source, lanes, **options)

    if handled:
        assert run() == [1] * 6 + [-1] + [1] * 3
        assert len(seen) == 10
        # Told as items complete: as many steps as there are rounds, not one at the end.
        assert seen[-1][3] - seen[0][3] > 0.02 * (10 // count - 2)
    else:
        with pytest.raises(td.LaneTaskError) as caught:
            run()
        assert caught.value.index == 6
        assert 7 <= len(seen) <= 10
    assert [done for done, *_ in seen] == list(range(1, len(seen) + 1))
    assert {total for _, total, *_ in seen} == {None if form == "iterator" else 10}
    assert {ident for *_, ident, _ in seen} == {threading.get_ident()}


def test_lan_08_a_stream_tells_the_bodies_that_wait(make_lanes):
    """C-LAN-08: item 0 fails while others wait on ``control``; a late item costs no other result."""
    lanes, released = make_lanes(count=4), []

    def wait(item, engine):
        if item == 0:
            time.sleep(0.03)
            raise ValueError("first")
        begun = time.monotonic()
        released.append((td.current_lane().control.wait(30), time.monotonic() - begun))

    with pytest.raises(td.LaneTaskError) as caught:
        list(td.imap_in_lanes(wait, range(50), lanes))
    assert caught.value.index == 0
    assert released
    assert all(told and took < 5 for told, took in released)
    late = td.imap_in_lanes(lambda x, e: time.sleep(0.2 * (x == 1)) or x, range(8), lanes)
    assert list(late) == list(range(8))


@pytest.mark.parametrize("form", ["list", "iterator", "stream"])
@pytest.mark.parametrize("sleepy", [False, True])
def test_lan_09_the_lowest_failure_in_200_rounds(make_lanes, form, sleepy):
    """C-LAN-09: also when items are so quick that lanes take many at once, and one call fails in the next round."""
    lanes = make_lanes(count=4)
    for turn in range(200):
        failing = {turn % 29 + 1, 29, (7 * turn) % 29 + 1}
        lowest = min(failing)

        def body(item, engine):
            if item in failing:
                if sleepy and item == lowest:
                    # The lowest one fails last.
                    time.sleep(0.0005)
                raise ValueError(item)
            return item

        got = None
        with pytest.raises(td.LaneTaskError) as caught:
            if form == "stream":
                got = []
                got.extend(td.imap_in_lanes(body, range(30), lanes))
            else:
                td.map_in_lanes(body, range(30) if form == "list" else iter(range(30)), lanes)
        assert caught.value.index == lowest
        assert caught.value.__cause__.args == (lowest,)
        if got is not None:
            assert got == list(range(lowest))


@pytest.mark.parametrize("form", ["iterator", "stream"])
def test_lan_09_few_items_run_after_the_first_failed(make_lanes, form):
    """C-LAN-09: item 0 fails at once and 99 items take 0.3 s on four lanes."""
    started = []

    def body(item, engine):
        started.append(item)
        if item == 0:
            raise ValueError
        td.current_lane().control.wait(0.3)

    begun = time.monotonic()
    with pytest.raises(td.LaneTaskError) as caught:
        if form == "stream":
            list(td.imap_in_lanes(body, range(100), make_lanes(count=4)))
        else:
            td.map_in_lanes(body, iter(range(100)), make_lanes(count=4))
    assert caught.value.index == 0
    assert len(started) <= 8
    assert time.monotonic() - begun < 5


def maps_in_turn(lanes, rounds):
    """Maps of few items in every form, success and failure in turn."""
    sizes = (0, 1, 2, len(lanes), len(lanes) + 1)
    for turn in range(rounds):
        count = sizes[turn % 5]
        form = turn // 5 % 4
        fails = turn // 20 % 2 and count
        function = (lambda x, e: [x][x == count - 1]) if fails else (lambda x, e: x)
        items = range(count) if form % 2 == 0 else iter(range(count))
        got = []
        failure = None
        try:
            if form < 2:
                got = td.map_in_lanes(function, items, lanes)
            else:
                got.extend(td.imap_in_lanes(function, items, lanes))
        except td.LaneTaskError as error:
            failure = error.index
        if fails:
            assert failure == count - 1
            assert got == ([] if form < 2 else list(range(count - 1)))
        else:
            assert failure is None
            assert got == list(range(count))


def _open_files():
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def _threads():
    folder = Path("/proc/self/task")
    return len(list(folder.iterdir())) if folder.exists() else threading.active_count()


@pytest.mark.parametrize("rounds", [1000, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_lan_10_repeated_maps_and_streams_keep_order_length_threads_and_files(make_lanes, count, rounds):
    """C-LAN-10: 0, 1, 2, lanes and lanes + 1 items, success and failure in turn, all forms."""
    lanes = make_lanes(count=count)
    maps_in_turn(lanes, 40)
    time.sleep(0.05)
    threads, files = _threads(), _open_files()
    maps_in_turn(lanes, rounds)
    end = time.monotonic() + 5
    while _threads() > threads and time.monotonic() < end:
        time.sleep(0.001)
    assert _threads() <= threads
    assert _open_files() == files
    assert sum(row["items"] for row in lanes.describe()) > rounds
