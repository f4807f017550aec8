"""Which failure a map reports, and what becomes of the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import pickle
import random
import threading
import time
import traceback

import pytest

import treadle as td

ORDINARY = [
    TimeoutError("mine"),
    StopIteration(3),
    concurrent.futures.CancelledError(),
    KeyError("mine"),
    td.LaneError("mine"),
    td.LaneCancelledError("mine"),
    td.EngineBusyError("mine"),
    ExceptionGroup("mine", [ValueError()]),
]


@pytest.mark.parametrize("error", ORDINARY, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("kind", [list, iter])
def test_the_users_exception_is_the_cause_itself(lanes, error, kind):
    """C-LAN-01: an item failure at index 2 whose cause is that very object; the other results are there."""

    def fail_second(item, engine):
        if item == 2:
            raise error
        return item

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(fail_second, kind(list(range(10))), lanes)
    assert caught.value.__cause__ is error
    assert caught.value.index == 2
    assert caught.value.lane in range(len(lanes))
    assert caught.value.rank is None
    assert caught.value.item_repr == "2"
    assert "fail_second" in "".join(traceback.format_exception(error))
    got = td.map_in_lanes(fail_second, kind(list(range(10))), lanes, on_error="return")
    assert got[2] is error
    assert [item for item in got if item is not error] == [0, 1, 3, 4, 5, 6, 7, 8, 9]


def test_the_error_pickles_without_its_cause(lanes):
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: 1 / item, [0], lanes)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.index, again.item_repr, str(again)) == (0, "0", str(caught.value))
    assert "ZeroDivisionError" in str(again)


@pytest.mark.parametrize("failing", [set(), {0}, {9}, {4}, {0, 1}, {2, 5, 7}, set(range(10))])
@pytest.mark.parametrize("answer", [0.0, None, "exception"])
def test_a_handler_gives_one_result_for_each_failing_item(lanes, failing, answer):
    """C-LAN-04: one result for each item, in order, whichever fail."""
    seen = {}

    def fail_some(item, engine):
        if item in failing:
            raise ValueError(item)
        return item

    def handler(index, item, error):
        assert index == item
        seen[index] = error
        return error if answer == "exception" else answer

    got = td.map_in_lanes(fail_some, range(10), lanes, on_error=handler)
    assert set(seen) == failing
    assert got == [(seen[i] if answer == "exception" else answer) if i in failing else i for i in range(10)]


def test_an_error_in_the_handler_is_not_lost(lanes):
    """C-LAN-04: it is the cause, at the index of the item."""
    handler_error = OSError("handler")

    def handler(index, item, error):
        raise handler_error

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: 1 / (item - 3), range(10), lanes, on_error=handler)
    assert caught.value.index == 3
    assert caught.value.__cause__ is handler_error
    assert isinstance(handler_error.__context__, ZeroDivisionError)


@pytest.mark.parametrize("on_error", ["raise", "return", lambda index, item, error: pytest.fail("handled")])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_what_is_no_exception_ends_the_map_at_once(lanes, on_error, error):
    raised, started = error(), []

    def leave(item, engine):
        started.append(item)
        time.sleep(0.002)
        if item == 4:
            raise raised

    with pytest.raises(error) as caught:
        td.map_in_lanes(leave, range(500), lanes, on_error=on_error)
    assert caught.value is raised
    assert len(started) < 100
    assert td.map_in_lanes(lambda item, engine: item, [1], lanes) == [1]


@pytest.mark.parametrize("kind", [list, iter])
def test_the_lowest_failing_index_is_reported_whatever_the_timing(make_lanes, kind):
    """C-LAN-09: the lowest of three, also when it fails last."""
    lanes, chance = make_lanes(count=4), random.Random(3)

    def fail_three(item, engine):
        # The lowest fails last.
        time.sleep(0.003 if item == 3 else pauses[item])
        if item in (3, 4, 17):
            raise ValueError(item)

    for _ in range(100):
        pauses = [chance.random() * 1e-3 for _ in range(30)]
        with pytest.raises(td.LaneTaskError) as caught:
            td.map_in_lanes(fail_three, kind(list(range(30))), lanes)
        assert caught.value.index == 3
        assert caught.value.__cause__.args == (3,)


def test_few_items_run_after_the_first_failed(make_lanes):
    """C-LAN-09: 99 items of 0.3 s do not run any more."""
    started = []

    def fail_first(item, engine):
        started.append(item)
        if item == 0:
            raise ValueError
        time.sleep(0.3)

    begun = time.monotonic()
    with pytest.raises(td.LaneTaskError):
        td.map_in_lanes(fail_first, range(100), make_lanes(count=4))
    assert len(started) <= 8
    assert time.monotonic() - begun < 1.5


def test_a_failure_tells_the_bodies_that_wait(make_lanes):
    """C-LAN-08: ``control`` is cancelled for them within moments, and the map ends."""
    lanes, released = make_lanes(count=3), []

    def wait(item, engine):
        if item == 0:
            time.sleep(0.05)
            raise ValueError("first")
        released.append(td.current_lane().control.wait(30))

    begun = time.monotonic()
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(wait, range(50), lanes)
    assert caught.value.index == 0
    assert released
    assert all(released)
    assert time.monotonic() - begun < 5


def test_an_item_that_only_says_that_it_was_cancelled_is_not_the_failure(make_lanes):
    def cooperate(item, engine):
        control = td.current_lane().control
        if item == 1:
            raise ValueError("the failure")
        if control.wait(30):
            raise td.LaneCancelledError("told to stop")

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(cooperate, range(2), make_lanes(count=2))
    assert caught.value.index == 1


def test_one_slow_item_loses_no_other_result(make_lanes):
    """C-LAN-08: all eight results arrive."""
    got = td.map_in_lanes(lambda item, engine: time.sleep(0.3 * (item == 1)) or item, range(8), make_lanes(count=4))
    assert got == list(range(8))


def test_items_that_fail_now_and_then_are_retried_in_their_lane(lanes):
    calls = {}

    def flaky(item, engine):
        calls.setdefault(item, []).append(td.current_lane().index)
        if len(calls[item]) <= item:
            raise ValueError(item)
        return item

    assert td.map_in_lanes(flaky, range(3), lanes, retries=2) == [0, 1, 2]
    assert {item: len(lanes) for item, lanes in calls.items()} == {0: 1, 1: 2, 2: 3}
    assert all(len(set(lanes)) == 1 for lanes in calls.values())
    calls.clear()
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(flaky, range(4), lanes, retries=2)
    assert caught.value.index == 3
    assert len(calls[3]) == 3


def test_a_deadline_leaves_unfinished_items_as_cancelled(make_lanes):
    lanes = make_lanes(count=2)
    begun = time.monotonic()
    got = td.map_in_lanes(
        lambda item, engine: time.sleep(0.1) or item, range(20), lanes, deadline=0.25, on_error="return"
    )
    assert time.monotonic() - begun < 1
    done = [item for item in got if not isinstance(item, td.LaneCancelledError)]
    assert done == list(range(len(done)))
    assert 2 <= len(done) <= 6
    assert [error.index for error in got[len(done) :]] == list(range(len(done), 20))
    with pytest.raises(td.LaneCancelledError, match="deadline") as caught:
        td.map_in_lanes(lambda item, engine: time.sleep(0.1), range(20), lanes, deadline=0.15)
    assert caught.value.index in range(2, 5)


def test_a_deadline_reaches_a_body_that_looks_at_its_control(lanes):
    begun = time.monotonic()
    with pytest.raises(td.LaneCancelledError):
        td.map_in_lanes(lambda item, engine: td.current_lane().control.wait(30), range(5), lanes, deadline=0.1)
    assert time.monotonic() - begun < 2
    assert td.map_in_lanes(lambda item, engine: item, [1, 2], lanes, deadline=30) == [1, 2]
    with pytest.raises(td.LaneCancelledError):
        td.map_in_lanes(lambda item, engine: time.sleep(0.01), range(50), lanes, deadline=0)


def test_a_map_that_was_cut_short_before_its_iterable_ended_says_so(lanes):
    def slow(item, engine):
        time.sleep(0.01)
        return item

    source = itertools.count()
    with pytest.raises(td.LaneCancelledError) as caught:
        td.map_in_lanes(slow, source, lanes, deadline=0.1)
    assert caught.value.index <= next(source)
    read = td.map_in_lanes(slow, itertools.count(), lanes, deadline=0.1, on_error="return")
    assert 0 < len(read) < 200

    class Sized:
        def __len__(self):
            return 500

        def __iter__(self):
            return iter(range(500))

    got = td.map_in_lanes(slow, Sized(), lanes, deadline=0.1, on_error="return")
    assert len(got) == 500
    assert isinstance(got[-1], td.LaneCancelledError)
    with pytest.raises(td.LaneCancelledError):
        td.map_in_lanes(lambda item, engine: td.current_lane().control.cancel(), itertools.count(), lanes)


def test_cancel_from_a_body_starts_no_further_item(lanes):
    def cancel(item, engine):
        if item == 2:
            td.current_lane().control.cancel()
        return item

    got = td.map_in_lanes(cancel, range(200), lanes, on_error="return")
    assert got[2] == 2
    assert isinstance(got[-1], td.LaneCancelledError)
    with pytest.raises(td.LaneCancelledError, match="cancelled"):
        td.map_in_lanes(cancel, range(200), lanes)


def test_items_whose_repr_raises_or_is_long(lanes):
    class Bad:
        def __repr__(self):
            raise ValueError

    class BadTextError(Exception):
        def __str__(self):
            raise ValueError

    def fail(item, engine):
        raise BadTextError

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(fail, [Bad()], lanes)
    assert "Bad" in caught.value.item_repr
    assert "BadTextError" in str(caught.value)
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(fail, ["x" * 10_000], lanes)
    assert len(caught.value.item_repr) < 250


def test_a_panic_in_a_lane_is_an_internal_error_after_the_join(make_lanes):
    lanes = make_lanes(count=3)
    released = []
    lanes._panic_in_lane(1)
    with pytest.raises(td.InternalError, match="a test asked for"):
        lanes.run(lambda lane: released.append(lane.control.wait(30)))
    assert released == [True, True]
    for items in (range(1000), iter(range(1000))):
        lanes._panic_in_lane(1)
        with pytest.raises(td.InternalError):
            td.map_in_lanes(lambda item, engine: time.sleep(0.001), items, lanes)
    assert td.map_in_lanes(lambda item, engine: item, range(5), lanes) == list(range(5))


def test_a_body_that_ends_the_process_ends_it(run_python):
    """C-LAN-05: the process ends with 7."""
    script = (
        "import os, treadle as td\n"
        "lanes = td.Lanes([td.CpuEngine.serial()])\n"
        "td.map_in_lanes(lambda item, engine: os._exit(7), range(3), lanes)\n"
    )
    assert run_python("-c", script, timeout=30).returncode == 7


def test_every_lane_raises_at_once(make_lanes):
    """C-LAN-06 and C-PYB-01: all bodies fail; the lowest lane is reported."""
    lanes = make_lanes(count=4)
    barrier = threading.Barrier(4)

    def fail(lane):
        barrier.wait(30)
        raise ValueError(lane.index)

    for _ in range(50):
        with pytest.raises(td.LaneTaskError) as caught:
            lanes.run(fail)
        assert (caught.value.lane, caught.value.__cause__.args) == (0, (0,))


def test_a_failure_above_does_not_take_the_retries_of_an_item_below(make_lanes):
    lanes = make_lanes(count=2)
    above_failed = threading.Event()
    tries = []

    def body(item, engine):
        if item == 0 and not tries:
            tries.append(item)
            assert above_failed.wait(10)
            # The control is cancelled now or in a moment; either way the second try comes.
            td.current_lane().control.wait(10)
            raise ValueError(item)
        if item == 1:
            try:
                raise KeyError(item)
            finally:
                above_failed.set()
        return item

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(body, range(4), lanes, retries=1)
    assert caught.value.index == 1


def test_a_cancelled_map_tries_nothing_again(lanes):
    calls = []

    def body(item, engine):
        calls.append(item)
        td.current_lane().control.cancel()
        raise ValueError(item)

    with pytest.raises(td.LaneTaskError):
        td.map_in_lanes(body, [0], lanes, retries=1000)
    assert calls == [0]


def interrupted_source(error):
    yield 0
    time.sleep(0.05)
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_an_interrupt_in_the_iterable_or_the_progress_stands_above_a_failing_item(lanes, error):
    def fail(item, engine):
        time.sleep(0.1)
        raise ValueError(item)

    def progress(done, total):
        raise error

    for call in (
        lambda: td.map_in_lanes(fail, interrupted_source(error), lanes),
        lambda: list(td.imap_in_lanes(fail, interrupted_source(error), lanes)),
        lambda: td.map_in_lanes(lambda item, engine: item and fail(item, engine), range(4), lanes, progress=progress),
    ):
        with pytest.raises(type(error)) as caught:
            call()
        assert caught.value is error
        assert not lanes.busy


def test_an_interrupt_while_the_text_of_a_failure_is_read_is_not_lost(lanes):
    class OddError(Exception):
        def __str__(self):
            raise KeyboardInterrupt

    def fail(item, engine):
        raise OddError

    with pytest.raises(KeyboardInterrupt):
        td.map_in_lanes(fail, [1], lanes)


@pytest.mark.parametrize("held_up_by", ["iterable", "progress", "nothing"])
def test_past_the_deadline_no_item_starts_although_the_caller_is_held_up(lanes, held_up_by):
    begun = time.monotonic()
    late = []

    def source():
        for item in range(8):
            if held_up_by == "iterable" and item == len(lanes):
                time.sleep(0.4)
            yield item

    def progress(done, total):
        if held_up_by == "progress":
            time.sleep(0.4)

    def body(item, engine):
        if time.monotonic() - begun > 0.25:
            late.append(item)
        time.sleep(0.02)

    items = source() if held_up_by == "iterable" else range(100)
    got = td.map_in_lanes(body, items, lanes, deadline=0.2, on_error="return", progress=progress)
    assert late == []
    assert isinstance(got[-1], td.LaneCancelledError)
    assert td.map_in_lanes(body, [1], lanes, deadline=0, on_error="return")[0].index == 0
    assert late == []
