"""``Lanes`` themselves, ``run`` and ``run_with_coordinator``: the seed's acceptance list."""

from __future__ import annotations

import queue
import threading
import time

import pytest

import treadle as td


def test_lanes_need_engines():
    with pytest.raises(td.NoEngineError) as caught:
        td.Lanes([])
    assert isinstance(caught.value, ValueError)
    with pytest.raises(TypeError, match=r"engines\[1\] is a str"):
        td.Lanes([td.CpuEngine.serial(), "engine"])
    with pytest.raises(TypeError):
        td.Lanes(td.CpuEngine.serial())
    engine = td.CpuEngine.serial()
    with pytest.raises(td.ArgumentError, match="engines 0 and 1 are the same"):
        td.Lanes([engine, engine])
    engine.close()
    with pytest.raises(td.EngineClosedError):
        td.Lanes([engine])


def test_members(make_lanes):
    lanes = make_lanes(1, 2)
    assert len(lanes) == 2
    assert [engine.threads for engine in lanes.engines] == [1, 2]
    assert "widths 1, 2" in repr(lanes)
    assert not lanes.busy
    td.map_in_lanes(lambda item, engine: time.sleep(0.001), range(10), lanes)
    rows = lanes.describe()
    assert [(row["index"], row["threads"]) for row in rows] == [(0, 1), (1, 2)]
    assert sum(row["items"] for row in rows) == 10
    assert sum(row["busy_seconds"] for row in rows) >= 0.01


def test_close_leaves_engines_of_the_caller_open_and_is_idempotent():
    engines = [td.CpuEngine.serial(), td.CpuEngine.serial()]
    with td.Lanes(engines) as lanes:
        assert lanes.run(lambda lane: lane.index) == [0, 1]
    lanes.close()
    assert lanes.closed
    assert [engine.state for engine in engines] == ["open", "open"]
    with pytest.raises(td.LaneError, match="closed"):
        lanes.run(lambda lane: None)
    with pytest.raises(td.LaneError, match="closed"):
        td.map_in_lanes(lambda item, engine: None, [], lanes)
    with pytest.raises(td.LaneError, match="closed"):
        lanes.__enter__()


def test_lanes_over_cpus_own_their_engines():
    with td.Lanes.over(1) as lanes:
        assert [engine.threads for engine in lanes.engines] == [1]
        assert td.map_in_lanes(lambda item, engine: item, [1], lanes) == [1]
        engines = lanes.engines
    assert [engine.state for engine in engines] == ["closed"]
    with td.Lanes.over() as lanes:
        assert all(engine.threads == 1 for engine in lanes.engines)
    with td.Lanes.over(lanes=1) as lanes:
        assert lanes.engines[0].threads >= 1
    with td.Lanes.over(1, lanes=2, threads=2) as lanes:
        assert [engine.threads for engine in lanes.engines] == [2, 2]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((0,), {}), ((10**6,), {}), (([10**6],), {}), ((), {"lanes": 0}), ((), {"threads": 0}), (([0, 0],), {})],
)
def test_cpus_that_cannot_be_split_are_refused(arguments, options):
    with pytest.raises(td.ArgumentError):
        td.Lanes.over(*arguments, **options)


def test_pinning_more_threads_than_cpus_is_refused():
    with pytest.raises(td.ArgumentError, match="pin=True"):
        td.Lanes.over(1, lanes=2, pin=True)
    with pytest.raises(td.NoEngineError):
        td.Lanes.over([])


def test_too_many_threads_are_warned_of():
    engines = [td.CpuEngine.serial() for _ in range(1000)]
    with pytest.warns(td.OversubscriptionWarning, match="1000 lanes have 1000 threads"):
        td.Lanes(engines)


def test_a_stack_that_the_machine_refuses_is_a_lane_thread_error():
    lanes = td.Lanes([td.CpuEngine.serial()], stack_bytes=1 << 62)
    with pytest.raises(td.LaneThreadError, match="lane 0 of 1"):
        lanes.run(lambda lane: None)
    with pytest.raises(td.LaneThreadError):
        td.map_in_lanes(lambda item, engine: None, iter([1]), lanes)
    with pytest.raises(td.LaneThreadError):
        lanes.run_with_coordinator(lambda lane: None, lambda control: pytest.fail("coordinator called"))


def test_run_gives_the_values_in_the_order_of_the_lanes(lanes):
    def body(lane):
        time.sleep((len(lanes) - lane.index) * 0.01)
        assert td.current_lane() is lane
        return lane.index, lane.engine, lane.rank

    assert lanes.run(body) == [(i, engine, None) for i, engine in enumerate(lanes.engines)]


def test_the_lowest_lane_is_reported_and_each_body_is_called_once(make_lanes):
    """C-LAN-06: late in a low lane, early in a high one, a third that waits."""
    lanes, calls = make_lanes(count=3), []

    def body(lane):
        calls.append(lane.index)
        if lane.index == 0:
            assert lane.control.wait(30)
            return
        if lane.index == 1:
            # Late in a low lane, early in a high one.
            assert lane.control.wait(30)
            time.sleep(0.02)
        raise ValueError(lane.index)

    for _ in range(20):
        calls.clear()
        with pytest.raises(td.LaneTaskError, match="lane 1") as caught:
            lanes.run(body)
        assert (caught.value.lane, caught.value.index) == (1, 1)
        assert caught.value.__cause__.args == (1,)
        assert sorted(calls) == [0, 1, 2]


@pytest.mark.parametrize("leave", ["return", "raise", "interrupt"])
def test_the_coordinators_exit_releases_the_lanes(lanes, leave):
    """C-LAN-06: the coordinator's exit releases the waiters as well."""
    released = []

    def body(lane):
        released.append(lane.control.wait(30))
        return lane.index

    def coordinator(control):
        if leave == "raise":
            raise ValueError("coordinator")
        if leave == "interrupt":
            raise KeyboardInterrupt
        return "value"

    if leave == "return":
        assert lanes.run_with_coordinator(body, coordinator) == ("value", list(range(len(lanes))))
    else:
        with pytest.raises(ValueError if leave == "raise" else KeyboardInterrupt):
            lanes.run_with_coordinator(body, coordinator)
    assert released == [True] * len(lanes)
    assert lanes.run(lambda lane: 1) == [1] * len(lanes)


@pytest.mark.parametrize("how", ["raise", "cancel", "panic"])
def test_a_lane_releases_the_coordinator_and_its_peers(make_lanes, how):
    """C-LAN-06: one lane fails, all others are released."""
    lanes, released = make_lanes(count=3), []

    def body(lane):
        if lane.index == 2:
            if how == "raise":
                raise ValueError
            if how == "cancel":
                lane.control.cancel()
        released.append(lane.control.wait(30))

    def coordinator(control):
        return control.wait(30)

    if how == "cancel":
        assert lanes.run_with_coordinator(body, coordinator)[0] is True
    elif how == "raise":
        with pytest.raises(td.LaneTaskError) as caught:
            lanes.run_with_coordinator(body, coordinator)
        assert caught.value.lane == 2
    else:
        lanes._panic_in_lane(2)
        with pytest.raises(td.InternalError):
            lanes.run_with_coordinator(body, coordinator)
    assert released == [True] * (3 if how == "cancel" else 2)


def test_a_lanes_error_stands_above_the_coordinators(make_lanes):
    def coordinator(control):
        control.wait(30)
        raise OSError("coordinator")

    with pytest.raises(td.LaneTaskError) as caught:
        make_lanes(count=2).run_with_coordinator(lambda lane: 1 / 0, coordinator)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert isinstance(caught.value.__context__, OSError)


def test_one_lane_overlaps_its_coordinator(make_lanes):
    to_lane, to_coordinator = queue.Queue(), queue.Queue()

    def body(lane):
        count = 0
        while (value := to_lane.get(timeout=30)) is not None:
            to_coordinator.put(value * 2)
            count += 1
        return count

    def coordinator(control):
        total = 0
        for value in range(100):
            to_lane.put(value)
            total += to_coordinator.get(timeout=30)
        to_lane.put(None)
        return total

    assert make_lanes(count=1).run_with_coordinator(body, coordinator) == (9900, [100])


def test_a_coordinator_that_waits_is_released_by_the_end_of_the_last_lane(lanes):
    cancelled, values = lanes.run_with_coordinator(lambda lane: lane.index, lambda control: control.wait())
    assert cancelled is False
    assert values == list(range(len(lanes)))


def test_the_control(make_lanes):
    def body(lane):
        control = lane.control
        assert not control.cancelled
        assert "running" in repr(control)
        begun = time.monotonic()
        assert control.wait(0.02) is False
        assert time.monotonic() - begun >= 0.02
        assert control.wait(-1) is False
        with pytest.raises(ValueError, match="nan"):
            control.wait(float("nan"))
        control.cancel()
        control.cancel()
        assert control.cancelled
        assert control.wait() is True
        assert control.wait(float("inf")) is True
        return control

    [control] = make_lanes(count=1).run(body)
    assert control.wait() is True


def test_bodies_and_coordinators_must_be_callable(lanes):
    with pytest.raises(TypeError, match="body"):
        lanes.run(3)
    with pytest.raises(TypeError, match="coordinator"):
        lanes.run_with_coordinator(lambda lane: None, 3)


def test_runs_from_two_threads_over_two_lanes_are_independent(make_lanes):
    sets = [make_lanes(count=2), make_lanes(count=2)]
    results = {}

    def work(which):
        for _ in range(50):
            results[which] = td.map_in_lanes(lambda item, engine: (which, item), range(10), sets[which])

    threads = [threading.Thread(target=work, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {which: [(which, item) for item in range(10)] for which in range(2)}
