"""Callbacks, items, exceptions and moments that do their worst; the lanes are well after each."""

from __future__ import annotations

import ctypes
import gc
import itertools
import os
import random
import signal
import sys
import threading
import time

import pytest

import treadle as td


@pytest.fixture(autouse=True)
def well_afterwards(lanes):
    yield
    assert not lanes.busy
    assert td.map_in_lanes(lambda item, engine: item, range(7), lanes) == list(range(7))
    assert lanes.run(lambda lane: lane.index) == list(range(len(lanes)))


def at_two(error):
    def body(item, engine):
        if item == 2:
            raise error
        return item

    return body


def forms(fn, items, lanes, **options):
    """The same call as a map and as a stream, each with its result or its error."""
    for call in (td.map_in_lanes, lambda *a, **k: list(td.imap_in_lanes(*a, **k))):
        try:
            yield call(fn, items() if callable(items) else items, lanes, **options)
        except BaseException as error:
            yield error


def test_recursion_without_end(lanes):
    def body(item, engine):
        def deeper(n):
            return deeper(n + 1)

        return deeper(0)

    for error in forms(body, range(3), lanes):
        assert isinstance(error, td.LaneTaskError)
        assert error.index == 0
        assert isinstance(error.__cause__, RecursionError)


def test_deep_recursion_that_ends_fits_the_stack_of_a_lane(lanes):
    def body(item, engine):
        def deeper(n):
            return 0 if n == 0 else 1 + max(map(deeper, [n - 1]))  # through C each time

        return deeper(5000)

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    try:
        assert td.map_in_lanes(body, range(3), lanes) == [5000] * 3
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_finalizers_that_raise_and_collections_in_lanes(lanes):
    class Ends:
        def __del__(self):
            raise ValueError("in a finalizer")

    def body(item, engine):
        ring = [Ends(), item]
        ring.append(ring)
        del ring
        gc.collect()
        return Ends() and item

    old, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        for result in forms(body, lambda: (Ends() and n for n in range(20)), lanes):
            assert result == list(range(20))
        gc.collect()
    finally:
        sys.unraisablehook = old


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("str")

    __repr__ = __str__

    def __reduce__(self):
        raise RuntimeError("reduce")

    def __eq__(self, other):
        raise RuntimeError("eq")

    __hash__ = None

    def __bool__(self):
        raise RuntimeError("bool")


def test_exceptions_whose_every_method_raises(lanes):
    own = MuteError()
    for error in forms(at_two(own), range(9), lanes):
        assert isinstance(error, td.LaneTaskError)
        assert error.__cause__ is own
        assert "cannot be read" in str(error)
    for result in forms(at_two(own), range(9), lanes, on_error="return"):
        assert result[2] is own
        assert result[3:] == list(range(3, 9))


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (ExceptionGroup("g", [ValueError(1), TypeError(2)]), False),
        (BaseExceptionGroup("g", [KeyboardInterrupt(), ValueError()]), True),
        (GeneratorExit(), True),
        (KeyboardInterrupt(), True),
        (SystemExit(3), True),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("on_error", ["raise", "return", lambda index, item, exc: exc])
def test_groups_and_what_is_no_exception(lanes, error, ends, on_error):
    for found in forms(at_two(error), range(9), lanes, on_error=on_error):
        if ends:
            assert found is error
        elif on_error == "raise":
            assert found.__cause__ is error
        else:
            assert found[2] is error


def test_values_that_are_nothing_to_compare_or_ask(lanes):
    class Odd:
        def __bool__(self):
            raise ValueError

        def __eq__(self, other):
            raise ValueError

        def __repr__(self):
            raise SystemExit

        __hash__ = None

    items = [Odd() for _ in range(9)]
    for result in forms(lambda item, engine: item, items, lanes):
        assert all(a is b for a, b in zip(result, items, strict=True))


def test_generators_are_closed_when_their_map_ends_early(lanes):
    closed = []

    def source():
        try:
            yield from itertools.count()
        finally:
            closed.append(threading.get_ident())

    with pytest.raises(td.LaneTaskError):
        td.map_in_lanes(at_two(ValueError()), source(), lanes)
    gc.collect()
    assert len(closed) == 1
    with td.imap_in_lanes(lambda item, engine: item, source(), lanes) as stream:
        assert list(itertools.islice(stream, 5)) == list(range(5))
    assert len(closed) == 2
    stream = td.imap_in_lanes(lambda item, engine: item, source(), lanes)
    next(stream)
    del stream
    gc.collect()
    assert len(closed) == 3


@pytest.mark.parametrize("interval", [1e-6, 1.0])
def test_any_switch_interval(lanes, interval):
    old = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        for count in (0, 1, 2, 3, 4, 40):
            expected = [n * n for n in range(count)]
            for _ in range(15):
                for result in forms(lambda n, engine: n * n, lambda count=count: iter(range(count)), lanes):
                    assert result == expected
                with td.LaneExecutor(lanes) as executor:
                    assert list(executor.map(lambda n: n * n, range(count))) == expected
    finally:
        sys.setswitchinterval(old)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer")
def test_a_shower_of_signals_whose_handler_maps_over_other_lanes(lanes, make_lanes):
    other, hits = make_lanes(count=1), []

    def handler(number, frame):
        if other.busy:  # a signal in the middle of its own handler
            return
        hits.append(td.map_in_lanes(lambda item, engine: item, range(3), other))

    old = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        for result in forms(lambda n, engine: time.sleep(0.002) or n, range(60), lanes):
            assert result == list(range(60))
        with td.LaneExecutor(lanes) as executor:
            list(executor.map(time.sleep, [0.002] * 60))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert hits
    assert all(hit == [0, 1, 2] for hit in hits)


def test_an_exception_that_is_thrown_into_a_lane_from_outside(lanes):
    def body(item, engine):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.get_ident()), ctypes.py_object(ZeroDivisionError)
        )
        for _ in range(10_000):
            pass
        return item

    for error in forms(body, range(4), lanes):
        assert isinstance(error, td.LaneTaskError)
        assert error.index == 0


def test_streams_left_half_way_in_every_way_at_random(lanes):
    rng = random.Random(3)
    for _ in range(150):
        count = rng.randrange(6)
        source = rng.choice([iter, list])(range(rng.choice([0, 1, 3, 30])))
        stream = td.imap_in_lanes(
            lambda n, engine: n, source, lanes, ordered=rng.random() < 0.5, window=rng.randrange(1, 9)
        )
        taken = list(itertools.islice(stream, count))
        assert len(taken) <= count
        match rng.randrange(4):
            case 0:
                stream.close()
            case 1:
                del stream
            case 2:
                ring = [stream]
                ring.append(ring)
                del stream, ring
                gc.collect()
            case 3:
                taken += list(stream)
                assert taken == sorted(taken) or len(lanes) > 1
        assert not lanes.busy


def test_maps_of_every_kind_at_once_on_many_lanes(lanes, make_lanes):
    pools = [lanes, *(make_lanes(count=count) for count in (1, 2, 3))]
    failed = []

    def worker(pool, seed):
        rng = random.Random(seed)
        try:
            for _ in range(60):
                count, bad = rng.randrange(30), rng.randrange(60)

                def body(n, engine, bad=bad):
                    if n == bad:
                        raise ValueError(n)
                    return n

                for found in forms(body, rng.choice([range(count), lambda count=count: iter(range(count))]), pool):
                    if bad < count:
                        assert isinstance(found, td.LaneTaskError)
                        assert found.index == bad
                    else:
                        assert found == list(range(count))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=worker, args=(pool, seed)) for seed, pool in enumerate(pools)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive()
    assert failed == []


def test_a_hundred_thousand_items(lanes):
    assert td.map_in_lanes(lambda n, engine: n + 1, range(100_000), lanes) == list(range(1, 100_001))
    count = 0
    for index, value in enumerate(td.imap_in_lanes(lambda n, engine: n + 1, range(100_000), lanes, window=64)):
        count += value == index + 1
    assert count == 100_000


FORKS = """
import os, sys, threading, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
def body(item, engine):
    pid = os.fork()
    if pid == 0:
        if item % 2:
            os._exit(item)
        return item
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(td.map_in_lanes(body, range(12), lanes), flush=True)
print(list(td.imap_in_lanes(body, range(12), lanes)), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_every_callback_forks(lanes, run_python):
    done = run_python("-W", "ignore", "-c", FORKS, timeout=40)
    assert done.stdout.splitlines() == [str([n if n % 2 else 0 for n in range(12)])] * 2, done.stderr
