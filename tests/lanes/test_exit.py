"""An interpreter that ends waits for no lane that waits to be told to end."""

from __future__ import annotations

import pytest

START = """
import atexit, itertools, sys, threading, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
started = threading.Event()
def say(*words):
    print(*words, flush=True)
def waits(*_):
    started.set()
    return td.current_lane().control.wait()
def looks(*_):
    started.set()
    while not td.current_lane().control.cancelled:
        time.sleep(0.002)
def thread(work, *arguments):
    threading.Thread(target=lambda: say(work(*arguments))).start()
    started.wait(20)
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("thread(lanes.run, waits)", "[True, True]"),
        ("thread(lanes.run, looks)", "[None, None]"),
        ("thread(lanes.run_with_coordinator, waits, lambda control: control.wait())", "(True, [True, True])"),
        ("thread(lanes.run_with_coordinator, lambda lane: time.sleep(.3), waits_for := lambda c: (started.set(), c.wait()))",
         "((None, True), [None, None])"),
        # The map is work, and Python waits for it; a body of it that waits to be told to end is told.
        ("thread(td.map_in_lanes, lambda n, e: (started.set(), time.sleep(.03), n)[2], range(10), lanes)", str([*range(10)])),
        ("thread(lambda: td.map_in_lanes(waits, range(2), lanes, on_error='return'))", "[True, True]"),
        ("thread(lambda: list(td.imap_in_lanes(waits, range(2), lanes, on_error='return')))", "[True, True]"),
        # A run that such a thread begins later.
        ("thread(lambda: (started.set(), time.sleep(.3), lanes.run(waits))[2])", "[True, True]"),
        # The ending thread's own runs go on as ever.
        ("atexit.register(lambda: say(lanes.run_with_coordinator("
         "lambda lane: lane.control.wait(), lambda control: (time.sleep(.05), control.cancelled)[1])))",
         "(False, [True, True])"),
        ("atexit.register(lambda: say(td.map_in_lanes(lambda n, e: n, range(3), lanes)))", "[0, 1, 2]"),
    ],
)  # fmt: skip
def test_it_ends(run_python, code, said):
    done = run_python("-W", "ignore", "-c", START + code, timeout=30)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, [said], "")


@pytest.mark.parametrize(
    "call", ["lanes.run(waits)", "td.map_in_lanes(waits, itertools.count(), lanes)", "lanes.run(looks)"]
)
def test_daemon_threads_end_with_it(run_python, call):
    code = START + f"threading.Thread(target=lambda: {call}, daemon=True).start(); started.wait(20)"
    done = run_python("-W", "ignore", "-c", code, timeout=30)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
