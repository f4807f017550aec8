"""What the design of lanes over caller-held engines promises, one test for each line of its acceptance."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import treadle as td

TASKS = Path("/proc/self/task")


def test_known_values_every_item_once_in_order_over_engines_of_different_widths(make_lanes):
    lanes, seen = make_lanes(1, 3), []

    def body(n, engine):
        seen.append(n)
        square = np.arange(1.0, n * n + 1).reshape(n, n)
        return engine.matmul(square, np.eye(n)), float(engine.einsum("ii->", square))

    results = td.map_in_lanes(body, range(1, 41), lanes)
    assert sorted(seen) == list(range(1, 41))
    for n, (product, trace) in enumerate(results, start=1):
        assert np.array_equal(product, np.arange(1.0, n * n + 1).reshape(n, n))
        assert trace == sum(1 + k * (n + 1) for k in range(n))


@pytest.mark.skipif(not TASKS.exists(), reason="needs /proc")
def test_lane_i_has_engine_i_on_a_distinct_thread_that_is_no_worker_of_a_pool(make_lanes):
    lanes = make_lanes(2, 1, 3)
    a = np.arange(300.0 * 300).reshape(300, 300) % 7
    for engine in lanes.engines:
        engine.matmul(a, a)  # the workers are there
    workers = {int(task.name) for task in TASKS.iterdir()}
    barrier = threading.Barrier(3)

    def body(lane):
        barrier.wait(30)
        product = lane.engine.matmul(a, a)
        return lane.index, lane.engine, threading.get_native_id(), product.tobytes()

    for _ in range(3):
        rows = lanes.run(body)
        assert [index for index, *_ in rows] == [0, 1, 2]
        assert all(engine is own for (_, engine, *_), own in zip(rows, lanes.engines, strict=True))
        threads = {thread for *_, thread, _ in rows}
        assert len(threads) == 3
        assert not threads & workers
        assert threading.get_native_id() not in threads
        assert {product for *_, product in rows} == {(a @ a).tobytes()}


def test_the_lowest_callback_error(make_lanes):
    lanes = make_lanes(1, 2)
    barrier = threading.Barrier(2)

    def body(n, engine):
        if n in (6, 7):
            barrier.wait(30)
            raise ValueError(n)
        return n

    for _ in range(20):
        with pytest.raises(td.LaneTaskError) as caught:
            td.map_in_lanes(body, range(30), lanes)
        assert caught.value.index == 6
        assert caught.value.__cause__.args == (6,)


def test_a_panic_is_told_after_the_join_and_the_engines_go_on(make_lanes):
    lanes = make_lanes(1, 2)
    for lane in (0, 1):
        lanes._panic_in_lane(lane)
        joined = []

        def body(own, joined=joined):
            own.control.wait(30)
            joined.append(own.index)

        with pytest.raises(td.InternalError, match=f"lane {lane}"):
            lanes.run(body)
        assert joined == [1 - lane]
        assert [engine.state for engine in lanes.engines] == ["open", "open"]
        assert td.map_in_lanes(lambda n, engine: float(engine.dot([n], [2.0])), range(5), lanes) == [
            0.0,
            2.0,
            4.0,
            6.0,
            8.0,
        ]


class Own(BaseException):
    pass


@pytest.mark.parametrize(
    "leave", ["return", "error", "exit", "panic", "lane error", "lane exit", "lane panic", "lane cancel", "cancel"]
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_waiting_peers_are_released_and_every_lane_is_joined(make_lanes, leave, count):
    lanes = make_lanes(count=count)
    released, waiting = [], threading.Barrier(count + 1)

    def body(lane):
        if lane.index == count - 1 and leave.startswith("lane"):
            waiting.wait(30)
            if leave == "lane cancel":
                lane.control.cancel()
            elif leave == "lane panic":
                lane.engine._panic("caller")
            else:
                raise ValueError("lane") if leave == "lane error" else Own
        else:
            waiting.wait(30)
            assert lane.control.wait(30)
        released.append(lane.index)

    def coordinator(control):
        waiting.wait(30)
        match leave:
            case "error":
                raise ValueError("coordinator")
            case "exit":
                raise Own
            case "panic":
                lanes_of_its_own.engines[0]._panic("caller")
            case "cancel":
                control.cancel()
                assert control.wait(30)
            case "return":
                pass
            case _:
                assert control.wait(30)  # a lane releases the coordinator too

    lanes_of_its_own = make_lanes(count=1)
    error = {
        "error": ValueError, "exit": Own, "panic": td.InternalError,
        "lane error": td.LaneTaskError, "lane exit": Own, "lane panic": td.TreadleError,
    }.get(leave)  # fmt: skip
    if error is None:
        assert lanes.run_with_coordinator(body, coordinator) == (None, [None] * count)
        assert sorted(released) == list(range(count))
    else:
        with pytest.raises(error):
            lanes.run_with_coordinator(body, coordinator)
        assert len(released) == count - leave.startswith("lane")
    assert not lanes.busy
    if leave == "lane panic":
        lanes.engines[count - 1].rebuild()
    assert lanes.run(lambda lane: lane.control.cancelled) == [False] * count


def test_one_lane_and_its_coordinator_overlap(make_lanes):
    there, back = threading.Event(), threading.Event()
    value = make_lanes(count=1).run_with_coordinator(
        lambda lane: (there.set(), back.wait(30))[1], lambda control: (there.wait(30), back.set())[0]
    )
    assert value == (True, [True])


def test_no_engine_is_refused_and_lanes_are_as_many_as_engines(make_lanes):
    for empty in ([], (), iter(())):
        with pytest.raises(td.NoEngineError):
            td.Lanes(empty)
    assert [len(make_lanes(count=count)) for count in (1, 2, 5)] == [1, 2, 5]


@pytest.mark.parametrize("count", [1, 2])
def test_a_map_across_a_world_of_one(make_lanes, count):
    lanes = make_lanes(count=count)
    assert td.pmap_lanes(lambda n, engine: float(engine.dot([n], [n])), range(9), lanes) == [
        float(n * n) for n in range(9)
    ]
