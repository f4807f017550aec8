"""Ctrl-C in a map: no item starts any more, all lanes are joined, then it is raised."""

from __future__ import annotations

import json

import pytest

SCRIPT = """
import json, os, signal, sys, threading, time
import treadle as td

how, form = sys.argv[1], sys.argv[2]
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
started = []

def body(item, engine):
    started.append(time.monotonic())
    time.sleep(0.2)
    return item

if how == "silent":
    signal.signal(signal.SIGINT, lambda number, frame: None)
count = 8 if how == "silent" else 1000
items = range(count) if form == "list" else iter(range(count))
sent = []

def interrupt():
    # In the middle of the second pair of items: both are still running when the second signal comes.
    time.sleep(0.3)
    for _ in range(2 if how == "twice" else 1):
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)

thread = threading.Thread(target=interrupt)
thread.start()
raised, got = None, None
try:
    if form == "run":
        lanes.run(lambda lane: [body(item, lane.engine) for item in range(count) if not lane.control.cancelled])
    elif form == "stream":
        got = list(td.imap_in_lanes(body, items, lanes))
    else:
        got = td.map_in_lanes(body, items, lanes)
except BaseException as error:
    raised = type(error).__name__
ended = time.monotonic()
thread.join()
names = [thread.name for thread in threading.enumerate()]
late = sum(moment > sent[0] + 0.07 for moment in started)
print(json.dumps({
    "raised": raised, "took": ended - sent[0], "late": late, "names": names,
    "states": [engine.state for engine in lanes.engines], "again": lanes.run(lambda lane: lane.index),
    "complete": got == list(range(count)),
}))
"""


@pytest.mark.parametrize("form", ["list", "iterator", "stream", "run"])
@pytest.mark.parametrize("how", ["once", "twice"])
def test_ctrl_c_ends_the_map(run_python, how, form):
    """C-PYB-02: once and twice in a row; no item starts afterwards, lanes joined, engines open."""
    done = run_python("-c", SCRIPT, how, form, timeout=40)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["raised"] == "KeyboardInterrupt"
    assert got["took"] < 0.6
    assert got["late"] == 0
    assert got["names"] == ["MainThread"]
    assert got["states"] == ["open", "open"]
    assert got["again"] == [0, 1]


@pytest.mark.parametrize("form", ["list", "iterator", "stream"])
def test_a_handler_that_does_not_raise_lets_the_map_finish(run_python, form):
    """C-PYB-02: with the silent handler."""
    done = run_python("-c", SCRIPT, "silent", form, timeout=40)
    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout)
    assert got["raised"] is None
    assert got["complete"]
