"""What a lane's thread is to the operating system, to ``threading``, and to the interpreter."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from pathlib import Path

import pytest

import treadle as td

TASKS = Path("/proc/self/task")


def threads_now() -> int:
    return len(list(TASKS.iterdir()))


def threads_before() -> int:
    """The threads that are here to stay: those of the tests before may stand in /proc for a moment more."""
    counts = [threads_now()]
    while len(counts) < 5 or len(set(counts[-5:])) > 1:
        time.sleep(0.005)
        counts.append(threads_now())
    return counts[-1]


def settled(expected: int) -> bool:
    """A joined thread may stand in /proc for a moment more."""
    end = time.monotonic() + 5
    while threads_now() != expected and time.monotonic() < end:
        time.sleep(0.001)
    return threads_now() == expected


@pytest.mark.skipif(not TASKS.exists(), reason="needs /proc")
@pytest.mark.parametrize("widths", [(1,), (1, 1), (2, 2), (1, 2, 3), (3,)])
def test_lanes_are_exactly_one_thread_each(make_lanes, widths):
    base = threads_before()
    lanes = make_lanes(*widths)
    workers = sum(width - 1 for width in widths)
    assert settled(base + workers)
    barrier = threading.Barrier(len(widths) + 1)

    def coordinator(control):
        barrier.wait(30)
        counted = threads_now()
        barrier.wait(30)
        return counted

    counted, _ = lanes.run_with_coordinator(lambda lane: barrier.wait(30) + barrier.wait(30), coordinator)
    assert counted == base + workers + len(widths)
    assert settled(base + workers)
    for engine in lanes.engines:
        engine.close()
    assert settled(base)


@pytest.mark.skipif(not TASKS.exists(), reason="needs /proc")
def test_thousands_of_maps_leave_no_thread_and_no_file_behind(make_lanes):
    """C-LAN-10: thread and file-descriptor counts are flat."""
    lanes = make_lanes(count=3)
    td.map_in_lanes(lambda item, engine: item, range(4), lanes)
    before, files = threads_before(), len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(500):
        td.map_in_lanes(lambda item, engine: item, range(4), lanes)
    assert settled(before)
    assert len(list(Path("/proc/self/fd").iterdir())) == files


def test_threading_knows_the_lanes_while_they_run_and_not_after(make_lanes):
    lanes = make_lanes(count=2)
    before = threading.enumerate()
    barrier = threading.Barrier(2)

    def body(lane):
        barrier.wait(30)
        names = {thread.name for thread in threading.enumerate()}
        barrier.wait(30)
        return threading.current_thread().name, names, threading.get_ident(), threading.get_native_id()

    rows = lanes.run(body)
    assert [name for name, *_ in rows] == ["lane-0", "lane-1"]
    assert all({"lane-0", "lane-1"} <= names for _, names, *_ in rows)
    assert len({ident for *_, ident, _ in rows} | {threading.get_ident()}) == 3
    assert threading.enumerate() == before


def test_lanes_carry_a_copy_of_the_callers_context(make_lanes):
    lanes, variable = make_lanes(count=2), contextvars.ContextVar("variable", default="default")
    token = variable.set("callers")
    try:

        def body(lane):
            seen = variable.get()
            variable.set(f"lane {lane.index}")
            return seen, variable.get()

        assert lanes.run(body) == [("callers", "lane 0"), ("callers", "lane 1")]
        assert td.map_in_lanes(lambda item, engine: variable.get(), range(2), lanes) == ["callers"] * 2
        assert variable.get() == "callers"
    finally:
        variable.reset(token)


def test_the_hooks_of_threading_are_called_in_lanes(make_lanes):
    lanes, traced, profiled = make_lanes(count=2), set(), set()

    def trace(frame, event, arg):
        if frame.f_code.co_name == "watched":
            traced.add(threading.current_thread().name)

    def profile(frame, event, arg):
        if frame.f_code.co_name == "watched":
            profiled.add(threading.current_thread().name)

    def watched(lane):
        return lane.index

    old = threading.gettrace(), threading.getprofile()
    threading.settrace(trace)
    threading.setprofile(profile)
    try:
        assert lanes.run(watched) == [0, 1]
    finally:
        threading.settrace(old[0])
        threading.setprofile(old[1])
    assert traced == profiled == {"lane-0", "lane-1"}


def test_bodies_that_sleep_import_lock_and_log_do_not_block_each_other(make_lanes, capsys):
    """C-PYB-01: it completes, and a ticking thread goes on."""
    lanes, lock = make_lanes(count=3), threading.Lock()
    lock.acquire()
    release = threading.Timer(0.1, lock.release)
    release.start()

    def body(item, engine):
        with lock:
            import colorsys

            assert colorsys
        print("item", item, file=sys.stderr)
        time.sleep(0.001)
        return item

    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.002):
            ticks.append(time.monotonic())

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        assert td.map_in_lanes(body, range(30), lanes) == list(range(30))
    finally:
        stop.set()
        ticker.join()
        release.join()
    assert len(ticks) > 10


def test_callbacks_that_never_give_the_interpreter_back_share_it(make_lanes):
    # len is no Python code: nothing in it looks whether another thread waits for the interpreter.
    lanes = make_lanes(count=2)
    td.map_in_lanes(max, [[1]] * 300_000, lanes, on_error="return")
    first, second = (row["items"] for row in lanes.describe())
    assert min(first, second) > 0


def test_a_lock_shared_by_lanes_and_the_progress_callback(make_lanes):
    """C-THR-05 without engine calls."""
    lanes, lock = make_lanes(count=3), threading.Lock()
    seen = []

    def body(item, engine):
        with lock:
            return item

    def progress(done, total):
        with lock:
            seen.append(done)

    for _ in range(100):
        seen.clear()
        assert td.map_in_lanes(body, range(20), lanes, progress=progress) == list(range(20))
        assert seen == list(range(1, 21))


FORK = """
import os, sys, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
children = []
def fork(item, engine):
    if item == 3:
        pid = os.fork()
        if pid == 0:
            {child}
        children.append(pid)
    return item
print(td.map_in_lanes(fork, range(8), lanes), flush=True)
[pid] = children
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("child", "status"),
    [
        ("return item", 0),
        ("raise ValueError", 1),
        ("sys.exit(5)", 5),
        ("os._exit(6)", 6),
        ("td.map_in_lanes(len, [1], lanes)", 1),
    ],
)
def test_a_child_forked_in_a_lane_ends_and_the_parent_goes_on(run_python, child, status):
    done = run_python("-W", "ignore", "-c", FORK.format(child=child), timeout=30)
    assert done.stdout.splitlines() == ["[0, 1, 2, 3, 4, 5, 6, 7]", str(status)], done.stderr
    if "lanes" in child:
        assert "ForkedEngineError" in done.stderr


INHERITED = """
import os, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
td.map_in_lanes(lambda item, engine: item, range(8), lanes)
pid = os.fork()
if pid == 0:
    for call in (lambda: td.map_in_lanes(len, [1], lanes), lambda: lanes.run(len)):
        try:
            call()
        except td.ForkedEngineError:
            pass
        else:
            os._exit(1)
    lanes.close()
    with td.Lanes([td.CpuEngine.serial()]) as own:
        os._exit(0 if td.map_in_lanes(lambda item, engine: item, range(4), own) == [0, 1, 2, 3] else 2)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
print(td.map_in_lanes(lambda item, engine: item, range(3), lanes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_inherited_lanes_are_refused_in_a_child(run_python):
    """C-THR-03: a map over inherited lanes."""
    done = run_python("-W", "ignore", "-c", INHERITED, timeout=30)
    assert done.stdout.splitlines() == ["0", "[0, 1, 2]"], done.stderr


FORK_IN_CALLER = """
import os, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
parent = os.getpid()
def fork():
    if os.getpid() != parent:
        return
    pid = os.fork()
    if pid:
        end = time.monotonic() + 5
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(pid, 9)
                print("the child hangs", flush=True)
            time.sleep(0.01)
def source():
    for item in range(6):
        if item == 3:
            fork()
        yield item
def body(item, engine):
    return item
print({call}, flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("td.map_in_lanes(body, source(), lanes)", "[0, 1, 2, 3, 4, 5]"),
        (
            "td.map_in_lanes(body, range(6), lanes, progress=lambda done, total: done == 2 and fork())",
            "[0, 1, 2, 3, 4, 5]",
        ),
        (
            "lanes.run_with_coordinator(lambda lane: lane.control.wait(), lambda control: fork())",
            "(None, [True, True])",
        ),
        ("list(td.imap_in_lanes(body, source(), lanes))", "[0, 1, 2, 3, 4, 5]"),
    ],
    ids=["iterable", "progress", "coordinator", "stream"],
)
def test_a_child_forked_by_the_caller_ends_and_the_parent_goes_on(run_python, call, said):
    done = run_python("-W", "ignore", "-c", FORK_IN_CALLER.format(call=call), timeout=30)
    assert done.stdout.splitlines() == [said], done.stderr
    assert ("ForkedEngineError" in done.stderr) == ("imap" in call), done.stderr
