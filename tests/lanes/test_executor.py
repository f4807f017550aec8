"""``LaneExecutor``: what code that knows ``concurrent.futures`` may expect of it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import gc
import logging
import os
import threading
import time
import weakref
from pathlib import Path

import pytest

import treadle as td

WAIT = 30


@pytest.fixture
def executor(lanes):
    with td.LaneExecutor(lanes) as made:
        yield made


def test_it_is_an_executor(lanes, executor):
    assert isinstance(executor, concurrent.futures.Executor)
    assert executor._max_workers == len(lanes)
    future = executor.submit(divmod, 17, 5)
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(WAIT) == (3, 2)
    assert executor.submit(dict, a=1, fn=2, self=3).result() == {"a": 1, "fn": 2, "self": 3}
    with pytest.raises(TypeError):
        executor.submit()
    with pytest.raises(TypeError):
        executor.submit(fn=len)


def test_a_call_finds_its_lane_and_the_engine_computes(lanes, executor):
    def body(n):
        lane = td.current_lane()
        assert lane.engine is lanes.engines[lane.index]
        assert threading.current_thread().name == f"lane-{lane.index}"
        return float(lane.engine.einsum("i->", [1.0] * n))

    assert [future.result() for future in [executor.submit(body, n) for n in range(1, 30)]] == [
        float(n) for n in range(1, 30)
    ]
    assert sum(row["items"] for row in lanes.describe()) == 29
    assert td.current_lane() is None


def test_map_keeps_order_zips_and_raises_where_the_item_stands(executor):
    assert list(executor.map(pow, range(6), [2] * 10)) == [0, 1, 4, 9, 16, 25]
    assert list(executor.map(abs, [], timeout=WAIT)) == []
    results = executor.map(lambda n: 6 // n, [1, 2, 0, 3])
    assert (next(results), next(results)) == (6, 3)
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_runs_without_being_iterated(lanes):
    seen = []
    with td.LaneExecutor(lanes) as executor:
        executor.map(seen.append, range(20))
    assert sorted(seen) == list(range(20))


def test_a_map_out_of_time_cancels_what_waits(make_lanes):
    release, started = threading.Event(), []

    def body(n):
        started.append(n)
        release.wait(WAIT)

    with td.LaneExecutor(make_lanes(count=1)) as executor:
        with pytest.raises(TimeoutError):
            list(executor.map(body, range(5), timeout=0.05))
        release.set()
    assert started == [0]


def test_exceptions_are_the_callers_own(executor):
    for own in (ValueError("mine"), TimeoutError("mine"), KeyboardInterrupt(), SystemExit(3), td.LaneError("mine")):

        def body(own=own):
            raise own

        future = executor.submit(body)
        assert future.exception(WAIT) is own
        with pytest.raises(type(own)) as caught:
            future.result()
        assert caught.value is own
    assert executor.submit(int).result() == 0


def test_cancel_before_and_after_the_start(make_lanes):
    release, began = threading.Event(), threading.Event()

    def body():
        began.set()
        return release.wait(WAIT)

    with td.LaneExecutor(make_lanes(count=1)) as executor:
        first = executor.submit(body)
        ran = []
        second = executor.submit(ran.append, 1)
        assert began.wait(WAIT)
        assert first.running()
        assert not first.cancel()
        assert second.cancel()
        assert second.cancelled()
        with pytest.raises(concurrent.futures.CancelledError):
            second.result(WAIT)
        with pytest.raises(TimeoutError):
            first.result(0.01)
        release.set()
        assert first.result(WAIT) is True
    assert ran == []


def test_callbacks_run_and_what_they_raise_ends_no_lane(executor, caplog):
    seen = []
    future = executor.submit(pow, 2, 3)
    future.add_done_callback(lambda done: seen.append(done.result()))

    def stops(done):
        raise SystemExit

    def fails(done):
        raise ValueError("callback")

    with caplog.at_level(logging.CRITICAL, "concurrent.futures"):
        for callback in (stops, fails):
            for _ in range(5):
                late = executor.submit(time.sleep, 0.002)
                late.add_done_callback(callback)
                late.result(WAIT)
    concurrent.futures.wait([executor.submit(int) for _ in range(10)], timeout=WAIT)
    assert seen == [8]
    assert executor.submit(pow, 3, 2).result(WAIT) == 9


def test_wait_and_as_completed(executor):
    futures = [executor.submit(time.sleep, 0.001 * (5 - n)) for n in range(5)]
    done, waiting = concurrent.futures.wait(futures, timeout=WAIT)
    assert (len(done), len(waiting)) == (5, 0)
    assert set(concurrent.futures.as_completed(futures, timeout=WAIT)) == set(futures)
    futures = [executor.submit(lambda: 1 / 0), *(executor.submit(int) for _ in range(3))]
    done, _ = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_EXCEPTION, timeout=WAIT)
    assert any(future.exception() for future in done)


def test_asyncio_runs_calls_in_lanes(executor):
    async def main():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(executor, pow, n, 2) for n in range(5)))

    assert asyncio.run(main()) == [0, 1, 4, 9, 16]


def test_after_shutdown_nothing_is_taken_and_everything_was_done(lanes):
    executor = td.LaneExecutor(lanes)
    futures = [executor.submit(time.sleep, 0.002) for _ in range(20)]
    assert lanes.busy
    executor.shutdown()
    assert all(future.done() and future.exception() is None for future in futures)
    assert not lanes.busy
    executor.shutdown()
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(int)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.map(int, [1])
    assert td.map_in_lanes(lambda item, engine: item, range(3), lanes) == [0, 1, 2]
    assert "shut down" in repr(executor)


def test_shutdown_without_waiting_goes_on_and_gives_the_lanes_back(lanes):
    executor = td.LaneExecutor(lanes)
    futures = [executor.submit(time.sleep, 0.01) for _ in range(5)]
    executor.shutdown(wait=False)
    with pytest.raises(RuntimeError):
        executor.submit(int)
    assert [future.result(WAIT) for future in futures] == [None] * 5
    executor.shutdown(wait=True)
    assert not lanes.busy


def test_cancelling_what_waits_tells_those_that_wait_for_it(make_lanes):
    lanes, began = make_lanes(count=2), threading.Barrier(3)

    def body():
        began.wait(WAIT)
        # cancel_futures also reaches a call that looks at its control.
        return td.current_lane().control.wait(WAIT)

    executor = td.LaneExecutor(lanes)
    running = [executor.submit(body) for _ in range(2)]
    began.wait(WAIT)
    waiting = [executor.submit(int) for _ in range(10)]
    told = threading.Thread(target=concurrent.futures.wait, args=(waiting,))
    told.start()
    executor.shutdown(cancel_futures=True)
    assert [future.result(WAIT) for future in running] == [True, True]
    assert all(future.cancelled() for future in waiting)
    told.join(WAIT)
    assert not told.is_alive()


def test_leaving_a_block_by_an_interrupt_starts_nothing_further(make_lanes):
    ran, began = [], threading.Event()

    def body(n):
        ran.append(n)
        began.set()
        td.current_lane().control.wait(WAIT)

    with pytest.raises(KeyboardInterrupt):
        with td.LaneExecutor(make_lanes(count=1)) as executor:
            futures = [executor.submit(body, n) for n in range(10)]
            assert began.wait(WAIT)
            raise KeyboardInterrupt
    assert ran == [0]
    assert [future.cancelled() for future in futures] == [False] + [True] * 9
    # An error is no interrupt: what was submitted is done.
    with pytest.raises(ValueError, match="mine"):
        with td.LaneExecutor(executor._service.lanes) as executor:
            futures = [executor.submit(pow, n, 2) for n in range(10)]
            raise ValueError("mine")
    assert [future.result() for future in futures] == [n * n for n in range(10)]


def test_an_executor_that_is_dropped_does_what_was_submitted_and_frees_the_lanes(lanes):
    executor = td.LaneExecutor(lanes)
    futures = [executor.submit(pow, n, 2) for n in range(10)]
    reference = weakref.ref(executor)
    del executor
    gc.collect()
    assert reference() is None
    assert [future.result(WAIT) for future in futures] == [n * n for n in range(10)]
    end = time.monotonic() + WAIT
    while lanes.busy and time.monotonic() < end:
        time.sleep(0.001)
    assert not lanes.busy


def test_nothing_is_kept_of_a_call_that_is_over(executor):
    class Thing:
        def method(self):
            return 1

    thing = Thing()
    gone = threading.Event()
    reference = weakref.ref(thing, lambda _: gone.set())
    future = executor.submit(thing.method)
    assert future.result(WAIT) == 1
    del thing
    gc.collect()
    assert gone.wait(WAIT)
    assert reference() is None
    for made in executor.map(lambda n: Thing(), range(5)):
        reference = weakref.ref(made)
        del made
        assert reference() is None


def test_the_initializer_runs_once_in_each_lane(make_lanes):
    lanes, seen = make_lanes(count=3), []

    def initializer(*given):
        seen.append((td.current_lane().index, given))

    with td.LaneExecutor(lanes, initializer=initializer, initargs=(1, 2)) as executor:
        list(executor.map(time.sleep, [0.001] * 10))
    assert sorted(seen) == [(index, (1, 2)) for index in range(3)]
    with pytest.raises(TypeError, match="initializer must be callable"):
        td.LaneExecutor(lanes, initializer=3)
    assert not lanes.busy


@pytest.mark.parametrize("error", [ValueError("initializer"), SystemExit(1), KeyboardInterrupt()])
def test_an_initializer_that_fails_breaks_the_executor(lanes, error, caplog):
    def initializer():
        time.sleep(0.02)
        raise error

    with caplog.at_level(logging.CRITICAL, "concurrent.futures"):
        executor = td.LaneExecutor(lanes, initializer=initializer)
        try:
            futures = [executor.submit(int) for _ in range(5)]
        except concurrent.futures.BrokenExecutor:
            futures = []
        for future in futures:
            with pytest.raises(concurrent.futures.BrokenExecutor, match="initializer"):
                future.result(WAIT)
        executor.shutdown()
    assert "Exception in initializer" in caplog.text
    with pytest.raises(concurrent.futures.BrokenExecutor):
        executor.submit(int)
    assert not lanes.busy
    assert td.map_in_lanes(lambda item, engine: item, range(3), lanes) == [0, 1, 2]


def test_a_lane_that_panics_breaks_the_executor(lanes):
    lanes._panic_in_lane(len(lanes) - 1)
    executor = td.LaneExecutor(lanes)
    broken = 0
    for _ in range(200):
        try:
            future = executor.submit(int)
        except concurrent.futures.BrokenExecutor:
            broken += 1
            break
        try:
            assert future.result(WAIT) == 0
        except concurrent.futures.BrokenExecutor:
            broken += 1
        time.sleep(0.001)
    assert broken
    executor.shutdown()
    assert not lanes.busy
    assert td.map_in_lanes(lambda item, engine: item, range(3), lanes) == [0, 1, 2]


def test_lanes_in_use_or_closed_are_refused(make_lanes):
    lanes = make_lanes(count=2)
    with td.LaneExecutor(lanes) as executor:
        with pytest.raises(td.LaneError, match="another run"):
            td.LaneExecutor(lanes)
        with pytest.raises(td.LaneError, match="another run"):
            td.map_in_lanes(lambda item, engine: item, [1], lanes)
        inside = executor.submit(td.map_in_lanes, lambda item, engine: item, [1], lanes).exception(WAIT)
        assert isinstance(inside, td.LaneError)
        assert "from inside" in str(inside)
        with pytest.raises(td.LaneError, match="close them after"):
            lanes.close()
        other = make_lanes(count=1)
        assert executor.submit(td.map_in_lanes, lambda item, engine: item, [1, 2], other).result(WAIT) == [1, 2]
    lanes.close()
    with pytest.raises(td.LaneError, match="closed"):
        td.LaneExecutor(lanes)
    for wrong in (None, [], lanes.engines):
        with pytest.raises(TypeError, match="lanes must be"):
            td.LaneExecutor(wrong)


def test_an_engine_that_is_closed_underneath_fails_its_calls_only(make_lanes):
    lanes = make_lanes(count=1)
    with td.LaneExecutor(lanes) as executor:
        lanes.engines[0].close()
        error = executor.submit(lambda: td.current_lane().engine.dot([1.0], [1.0])).exception(WAIT)
        assert isinstance(error, td.EngineClosedError)
        assert executor.submit(int).result(WAIT) == 0


@pytest.mark.parametrize("fails", [False, True])
def test_leaving_a_block_of_lanes_ends_the_executor(fails):
    with td.CpuEngine.serial() as engine:
        if not fails:
            with td.Lanes([engine]) as lanes:
                executor = td.LaneExecutor(lanes)
                futures = [executor.submit(pow, n, 2) for n in range(20)]
            assert [future.result(0) for future in futures] == [n * n for n in range(20)]
        else:
            with pytest.raises(ValueError, match="mine"):
                with td.Lanes([engine]) as lanes:
                    executor = td.LaneExecutor(lanes)
                    futures = [executor.submit(time.sleep, 0.01) for _ in range(20)]
                    raise ValueError("mine")
            assert sum(future.cancelled() for future in futures) > 10
            assert all(future.done() for future in futures)
        with pytest.raises(RuntimeError):
            executor.submit(int)
        assert lanes.closed


def test_a_thread_that_does_not_start_is_told_at_once():
    with td.CpuEngine.serial() as engine:
        lanes = td.Lanes([engine], stack_bytes=1 << 62)
        with pytest.raises(td.LaneThreadError):
            td.LaneExecutor(lanes)
        assert not lanes.busy


FEW_THREADS = """
import resource, treadle as td
lanes = td.Lanes([td.CpuEngine.serial() for _ in range(3)], stack_bytes=4 << 30)
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
limit = resource.getrlimit(resource.RLIMIT_AS)
# Room for one stack or two of three.
resource.setrlimit(resource.RLIMIT_AS, (used + {room} * (4 << 30) + (2 << 30), limit[1]))
begun = []
def body(lane):
    begun.append(lane.index)
    lane.control.wait()
for call in (
    lambda: td.LaneExecutor(lanes),
    lambda: lanes.run(body),
    lambda: td.map_in_lanes(lambda item, engine: td.current_lane().control.wait(), range(3), lanes),
    lambda: td.imap_in_lanes(lambda item, engine: item, range(3), lanes),
):
    try:
        call()
    except td.LaneThreadError as error:
        print("lane", error.lane, lanes.busy)
resource.setrlimit(resource.RLIMIT_AS, limit)
with td.LaneExecutor(lanes) as executor:
    print(list(executor.map(abs, [-1, -2])))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("room", [0, 1, 2])
def test_when_a_later_thread_does_not_start_those_that_did_end(run_python, room):
    done = run_python("-W", "ignore", "-c", FEW_THREADS.format(room=room), timeout=30)
    assert done.stdout.splitlines() == [f"lane {room} False"] * 4 + ["[1, 2]"], done.stderr


def test_calls_carry_the_context_of_their_submit(executor):
    variable = contextvars.ContextVar("variable", default="default")
    futures = []
    for value in "abc":
        token = variable.set(value)
        futures.append(executor.submit(lambda: (variable.get(), variable.set("lane"))[0]))
        variable.reset(token)
    assert [future.result() for future in futures] == ["a", "b", "c"]
    assert variable.get() == "default"


def test_calls_submit_calls_and_wait_for_them_at_any_depth(executor):
    """ThreadPoolExecutor waits for ever here once every worker waits."""

    def fibonacci(n):
        if n < 2:
            return n
        first, second = executor.submit(fibonacci, n - 1), executor.submit(fibonacci, n - 2)
        assert second.exception() is None
        return first.result() + second.result()

    assert executor.submit(fibonacci, 11).result(WAIT) == 89
    assert executor.submit(lambda: list(executor.map(fibonacci, range(8)))).result(WAIT) == [0, 1, 1, 2, 3, 5, 8, 13]


def test_calls_that_wait_for_each_other_are_told(make_lanes):
    with td.LaneExecutor(make_lanes(count=3)) as executor:
        for count in (1, 2, 3):
            futures, ready = [], threading.Event()

            def body(n, count=count, futures=futures, ready=ready):
                ready.wait(WAIT)
                return futures[(n + 1) % count].result()

            futures += [executor.submit(body, n) for n in range(count)]
            ready.set()
            for future in futures:
                assert isinstance(future.exception(WAIT), td.LaneError)
                assert "wait for ever" in str(future.exception())
        # A lane that waits in vain for a moment only is nobody's fault.
        slow = executor.submit(time.sleep, 0.05)
        assert executor.submit(slow.result).result(WAIT) is None


def test_a_call_cannot_wait_for_the_end_of_its_own_executor(make_lanes):
    lanes = make_lanes(count=2)
    executor = td.LaneExecutor(lanes)
    error = executor.submit(executor.shutdown).exception(WAIT)
    assert isinstance(error, td.LaneError)
    assert isinstance(error, RuntimeError)
    with pytest.raises(RuntimeError):
        executor.submit(int)
    executor.shutdown()
    assert not lanes.busy


def test_submits_from_many_threads(make_lanes):
    with td.LaneExecutor(make_lanes(count=3)) as executor:
        results = {}

        def submits(part):
            futures = [executor.submit(pow, n, 2) for n in range(part, 2000, 4)]
            results[part] = [future.result() for future in futures]

        threads = [threading.Thread(target=submits, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == {part: [n * n for n in range(part, 2000, 4)] for part in range(4)}


def test_executors_in_turn_and_side_by_side_leave_nothing(make_lanes):
    first, second = make_lanes(count=2), make_lanes(count=1)
    before = threading.active_count()
    for n in range(50):
        with td.LaneExecutor(first) as one, td.LaneExecutor(second) as two:
            assert one.submit(pow, n, 2).result() + two.submit(pow, n, 3).result() == n**2 + n**3
        if n % 10 == 0:
            td.LaneExecutor(first).shutdown()
    assert threading.active_count() == before
    assert not first.busy
    assert not second.busy


END = """
import atexit, sys, threading, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial()])
executor = td.LaneExecutor(lanes)
def say(text, seconds=0.1):
    time.sleep(seconds)
    print(text, flush=True)
{}
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("for n in range(3): executor.submit(say, n)", ["0", "1", "2"]),
        ("executor.submit(say, 'x'); executor.shutdown(wait=False)", ["x"]),
        (
            "for text in 'xy': executor.submit(say, text)\ntime.sleep(.02); executor.shutdown(False, cancel_futures=True)",
            ["x"],
        ),
        ("executor.submit(say, 'x'); del executor, lanes", ["x"]),
        # A non-daemon thread waits for a call; the interpreter waits for the thread.
        ("threading.Thread(target=lambda f: say(f.result()), args=(executor.submit(pow, 2, 5),)).start()", ["32"]),
        # A daemon thread too, which nobody waits for.
        ("threading.Thread(target=executor.submit(time.sleep, .1).result, daemon=True).start()", []),
        # A call that waits to be told to end is told.
        ("executor.submit(lambda: say(td.current_lane().control.wait()))", ["True"]),
        ("executor.submit(say, 'x'); sys.exit(0)", ["x"]),
        (
            "def late():\n    try: executor.submit(int)\n    except RuntimeError as error: print(error)\natexit.register(late)",
            ["cannot schedule new futures after interpreter shutdown"],
        ),
        (
            "def late():\n    try: td.LaneExecutor(td.Lanes([td.CpuEngine.serial()]))\n"
            "    except RuntimeError as error: print('ending' in str(error))\natexit.register(late)",
            ["True"],
        ),
    ],
)
def test_the_interpreter_ends_when_the_calls_have(run_python, code, said):
    done = run_python("-W", "ignore", "-c", END.format(code), timeout=30)
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, said, "")


FORKED = """
import os, treadle as td
lanes = td.Lanes([td.CpuEngine.serial()])
executor = td.LaneExecutor(lanes)
assert executor.submit(pow, 2, 5).result() == 32
def status(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
pid = os.fork()
if pid == 0:
    try:
        executor.submit(int)
    except td.ForkedEngineError:
        executor.shutdown()
        del executor
        os._exit(7)
print(status(pid))
def fork(code):
    pid = os.fork()
    if pid == 0:
        if code == 1:
            raise ValueError("child")
        return
    return status(pid)
print(executor.submit(fork, 0).result(), executor.submit(fork, 1).result())
executor.shutdown()
print("end")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forks_beside_and_inside_a_call(run_python):
    done = run_python("-W", "ignore", "-c", FORKED, timeout=30)
    assert done.stdout.splitlines() == ["7", "0 1", "end"], done.stderr
    assert "ValueError: child" in done.stderr


CTRL_C = """
import os, signal, sys, threading, time, treadle as td
lanes = td.Lanes([td.CpuEngine.serial()])
ran = []
def body(n):
    ran.append(n)
    td.current_lane().control.wait(20)
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begun = time.monotonic()
try:
    with td.LaneExecutor(lanes) as executor:
        futures = [executor.submit(body, n) for n in range(50)]
        {}
except KeyboardInterrupt:
    print(ran, lanes.busy, time.monotonic() - begun < 5)
"""


@pytest.mark.parametrize("wait", ["futures[-1].result()", "pass"], ids=["result", "shutdown"])
def test_ctrl_c_ends_it_soon(run_python, wait):
    done = run_python("-W", "ignore", "-c", CTRL_C.format(wait), timeout=30)
    assert done.stdout.splitlines() == ["[0] False True"], done.stderr
