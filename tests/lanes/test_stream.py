"""``imap_in_lanes``: the same map, taken one by one."""

from __future__ import annotations

import gc
import itertools
import threading
import time

import pytest

import treadle as td


@pytest.mark.parametrize("count", [0, 1, 2, 5, 60])
@pytest.mark.parametrize("kind", [list, iter])
def test_results_come_in_order_or_as_they_complete(lanes, count, kind):
    items = list(range(count))
    assert list(td.imap_in_lanes(lambda x, e: x * x, kind(items), lanes)) == [x * x for x in items]
    unordered = list(td.imap_in_lanes(lambda x, e: x * x, kind(items), lanes, ordered=False))
    assert sorted(unordered) == [x * x for x in items]
    assert not lanes.busy


def test_as_they_complete_a_slow_first_item_comes_last(make_lanes):
    lanes = make_lanes(count=2)
    got = list(td.imap_in_lanes(lambda x, e: time.sleep(0.2 * (x == 0)) or x, range(4), lanes, ordered=False))
    assert got[-1] == 0
    assert sorted(got) == [0, 1, 2, 3]


@pytest.mark.parametrize("window", [1, 4, None])
def test_an_infinite_iterable_is_read_a_bounded_number_ahead(lanes, window):
    """C-LAN-03: ``window`` bounds the look-ahead, on the reader's thread alone."""
    threads, read = set(), itertools.count(1)
    count = 0

    def source():
        nonlocal count
        for item in itertools.count():
            threads.add(threading.get_ident())
            count = next(read)
            yield item

    limit = window or 2 * len(lanes)
    with td.imap_in_lanes(lambda x, e: x, source(), lanes, window=window) as stream:
        for given, value in enumerate(itertools.islice(stream, 50)):
            assert value == given
            assert count <= given + limit + 1
        assert lanes.busy
    assert not lanes.busy
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("ordered", [True, False])
def test_results_below_a_failure_come_first(make_lanes, ordered):
    """C-LAN-09: the iterator yields all results below the lowest failure first."""
    lanes = make_lanes(count=4)

    def fail(item, engine):
        time.sleep(0.004 if item == 3 else 0.0005)
        if item in (3, 4, 17):
            raise ValueError(item)
        return item

    for _ in range(50):
        got = []
        with pytest.raises(td.LaneTaskError) as caught:
            got.extend(td.imap_in_lanes(fail, range(30), lanes, ordered=ordered, window=16))
        assert caught.value.index == 3
        assert caught.value.__cause__.args == (3,)
    stream = td.imap_in_lanes(fail, range(30), lanes)
    assert [next(stream), next(stream), next(stream)] == [0, 1, 2]
    with pytest.raises(td.LaneTaskError):
        next(stream)
    assert list(stream) == []


def test_the_error_of_the_iterable_comes_after_the_earlier_results(lanes):
    """C-LAN-03: after the five earlier results, with its object."""
    error = OSError("source")

    def source():
        yield from range(5)
        raise error

    stream = td.imap_in_lanes(lambda x, e: x, source(), lanes)
    assert [next(stream) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(td.LaneTaskError) as caught:
        next(stream)
    assert (caught.value.index, caught.value.__cause__) == (5, error)
    assert not lanes.busy


def test_errors_as_results_and_through_a_handler(lanes):
    fail = lambda x, e: 1 / (x - 2)  # noqa: E731
    got = list(td.imap_in_lanes(fail, range(4), lanes, on_error="return"))
    assert [type(value).__name__ for value in got] == ["float", "float", "ZeroDivisionError", "float"]
    assert list(td.imap_in_lanes(fail, range(4), lanes, on_error=lambda i, x, e: i)) == [-0.5, -1.0, 2, 1.0]


def test_what_is_no_exception_is_raised_itself(lanes):
    def leave(item, engine):
        if item == 3:
            raise SystemExit(4)
        return item

    with pytest.raises(SystemExit):
        list(td.imap_in_lanes(leave, range(100), lanes, on_error="return"))
    assert not lanes.busy


def test_closing_and_dropping_end_the_lanes(make_lanes):
    lanes, started = make_lanes(count=2), []

    def slow(item, engine):
        started.append(item)
        td.current_lane().control.wait(30)

    begun = time.monotonic()
    stream = td.imap_in_lanes(slow, range(100), lanes)
    threading.Timer(0.05, stream.close).start()
    time.sleep(0.2)
    assert list(stream) == []
    stream = td.imap_in_lanes(lambda x, e: x, range(100), lanes)
    assert next(stream) == 0
    with pytest.raises(td.LaneError, match="another run"):
        td.map_in_lanes(lambda x, e: x, [1], lanes)
    stream.close()
    stream.close()
    assert td.map_in_lanes(lambda x, e: x, [1], lanes) == [1]
    stream = td.imap_in_lanes(slow, range(100), lanes)
    del stream
    gc.collect()
    assert not lanes.busy
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("lane-")] == []
    assert time.monotonic() - begun < 10


def test_deadline_progress_and_panic(lanes):
    seen = []
    list(td.imap_in_lanes(lambda x, e: x, range(9), lanes, progress=lambda done, total: seen.append((done, total))))
    assert seen == [(done, 9) for done in range(1, 10)]
    with pytest.raises(td.LaneCancelledError, match="deadline"):
        list(td.imap_in_lanes(lambda x, e: time.sleep(0.02), itertools.count(), lanes, deadline=0.1))
    with pytest.raises(OSError, match="bar"):
        list(td.imap_in_lanes(lambda x, e: x, range(9), lanes, progress=broken_bar))
    lanes._panic_in_lane(0)
    with pytest.raises(td.InternalError):
        list(td.imap_in_lanes(lambda x, e: time.sleep(0.001), range(1000), lanes))
    assert list(td.imap_in_lanes(lambda x, e: x, range(3), lanes)) == [0, 1, 2]


def broken_bar(done, total):
    raise OSError("bar")


@pytest.mark.parametrize(
    ("options", "error"),
    [({"window": 0}, td.ArgumentError), ({"window": 1.5}, TypeError), ({"on_error": 3}, td.ArgumentError)],
)
def test_options_are_checked_by_the_call(lanes, options, error):
    with pytest.raises(error):
        td.imap_in_lanes(lambda x, e: x, [1], lanes, **options)
    assert not lanes.busy


def test_an_iterator_that_advances_itself_is_refused(lanes):
    def source():
        yield 1
        yield next(stream)

    stream = td.imap_in_lanes(lambda x, e: x, source(), lanes)
    with pytest.raises(td.LaneTaskError) as caught:
        list(stream)
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_stream_of_a_stream(make_lanes):
    first = td.imap_in_lanes(lambda x, e: x + 1, range(20), make_lanes(count=2))
    second = td.imap_in_lanes(lambda x, e: x * 2, first, make_lanes(count=2))
    assert list(second) == [2 * (x + 1) for x in range(20)]


def test_an_interpreter_that_ends_with_a_stream_open_ends(run_python):
    script = (
        "import itertools, treadle as td\n"
        "lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])\n"
        "stream = td.imap_in_lanes(lambda x, e: x, itertools.count(), lanes)\n"
        "print(next(stream))\n"
    )
    done = run_python("-W", "ignore", "-c", script, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_stop_iteration_of_the_progress_callback_is_no_end_of_the_results(lanes):
    def progress(done, total):
        raise StopIteration("mine")

    with pytest.raises(RuntimeError, match="progress callback raised StopIteration") as caught:
        list(td.imap_in_lanes(lambda x, e: x, range(10), lanes, progress=progress))
    assert isinstance(caught.value.__cause__, StopIteration)
    assert not lanes.busy


def test_past_the_deadline_no_item_starts_while_nobody_takes_results(lanes):
    started = []
    begun = time.monotonic()

    def body(x, engine):
        started.append(time.monotonic() - begun)
        time.sleep(0.05)

    with td.imap_in_lanes(body, range(100), lanes, window=50, deadline=0.2) as stream:
        next(stream)
        time.sleep(0.5)
        assert max(started) < 0.3
        with pytest.raises(td.LaneCancelledError, match="deadline"):
            list(stream)


EXIT = """
import itertools, threading, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
def slow(x, engine):
    time.sleep(0.02)
def go():
    try:
        {call}
    except td.LaneCancelledError:
        pass
threading.Thread(target=go, daemon=True).start()
time.sleep(0.2)
assert lanes.busy
"""


@pytest.mark.parametrize(
    "call",
    [
        "td.map_in_lanes(slow, range(10_000), lanes)",
        "td.map_in_lanes(slow, itertools.count(), lanes, progress=print and (lambda done, total: None))",
        "list(td.imap_in_lanes(slow, itertools.count(), lanes))",
        "lanes.run(lambda lane: lane.control.wait())",
    ],
    ids=["map", "fed map", "stream", "run"],
)
def test_an_interpreter_that_ends_while_a_daemon_thread_maps_ends(run_python, call):
    done = run_python("-W", "ignore", "-c", EXIT.format(call=call), timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_map_runs_while_the_interpreter_ends(run_python):
    script = (
        "import atexit\n"
        "atexit.register(lambda: print(td.map_in_lanes(lambda x, e: x, range(4), lanes)))\n"
        "import treadle as td\n"
        "lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])\n"
        "print(td.map_in_lanes(lambda x, e: x, range(2), lanes))\n"
    )
    done = run_python("-W", "ignore", "-c", script, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[0, 1]\n[0, 1, 2, 3]\n", "")


def test_leaving_a_block_of_lanes_ends_the_stream_and_hides_no_exception():
    with pytest.raises(OSError, match="mine"):
        with td.Lanes([td.CpuEngine.serial()]) as lanes:
            stream = td.imap_in_lanes(lambda x, e: x, itertools.count(), lanes)
            assert next(stream) == 0
            raise OSError("mine")
    assert lanes.closed
    assert list(stream) == []
