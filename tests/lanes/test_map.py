"""Items, results and their order."""

from __future__ import annotations

import itertools
import threading
import time

import numpy as np
import pytest

import treadle as td


def square(item, engine):
    return item * item


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 57])
@pytest.mark.parametrize("kind", [list, tuple, iter, lambda items: (item for item in items)])
def test_results_keep_the_order_of_the_items(lanes, count, kind):
    items = list(range(count))
    assert td.map_in_lanes(square, kind(items), lanes) == [item * item for item in items]


def test_items_that_complete_in_reverse_keep_their_order(lanes):
    def slow_first(item, engine):
        time.sleep((12 - item) * 0.002)
        return item

    assert td.map_in_lanes(slow_first, range(12), lanes) == list(range(12))
    assert td.map_in_lanes(slow_first, iter(range(12)), lanes) == list(range(12))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (range(10, 0, -3), [10, 7, 4, 1]),
        (range(2**62, 2**62 + 2), [2**62, 2**62 + 1]),
        (range(2**70, 2**70 + 2), [2**70, 2**70 + 1]),
        ("abc", ["a", "b", "c"]),
        ({"x": 1, "y": 2}, ["x", "y"]),
        ({7}, [7]),
        (np.array([1.5, 2.5]), [1.5, 2.5]),
        (b"\x01\x02", [1, 2]),
    ],
)
def test_any_iterable_is_taken(lanes, items, expected):
    """C-LAN-03: dict, str, bytes and arrays are items one by one."""
    assert td.map_in_lanes(lambda item, engine: item, items, lanes) == expected


def test_a_matrix_gives_its_rows(lanes):
    """C-LAN-03: a 2-d array is its rows."""
    rows = td.map_in_lanes(lambda row, engine: row, np.arange(6).reshape(3, 2), lanes)
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]


class Doubling(list):
    """A list whose iteration says other things than its slots."""

    def __iter__(self):
        return (2 * item for item in super().__iter__())


def test_a_subclass_of_list_is_iterated_as_it_wants(lanes):
    assert td.map_in_lanes(lambda item, engine: item, Doubling([1, 2]), lanes) == [2, 4]


@pytest.mark.parametrize("items", [5, None, 2.5, np.array(3.0)])
def test_what_cannot_be_iterated_is_a_type_error(lanes, items):
    """C-LAN-03: 5 is a TypeError."""
    with pytest.raises(TypeError):
        td.map_in_lanes(square, items, lanes)


def test_the_very_objects_go_in_and_come_out(lanes):
    """C-LAN-02: nothing is pickled."""

    class Awkward:
        def __getstate__(self):
            raise RuntimeError

    items = [threading.Lock(), (i for i in ()), lambda: 1, Awkward(), lanes.engines[0]]
    assert all(a is b for a, b in zip(td.map_in_lanes(lambda item, engine: item, items, lanes), items, strict=True))


def test_the_iterator_is_advanced_by_the_calling_thread_and_a_bounded_number_ahead(lanes):
    """C-LAN-03: bounded look-ahead, one thread."""
    threads, read = set(), 0
    started = 0

    def source():
        nonlocal read
        for item in range(60):
            threads.add(threading.get_ident())
            read = item + 1
            assert read - started <= 2 * len(lanes), "look-ahead"
            yield item

    lock = threading.Lock()

    def count(item, engine):
        nonlocal started
        time.sleep(0.001)
        with lock:
            started += 1
        return item

    assert td.map_in_lanes(count, source(), lanes) == list(range(60))
    assert threads == {threading.get_ident()}


@pytest.mark.parametrize("count", [1, 3, 100, 5000])
def test_short_items_are_read_in_larger_portions_and_an_error_of_the_source_keeps_its_index(make_lanes, count):
    """C-LAN-03: a bounded number ahead however short the items; what was read before an error is done."""
    lanes, read, most, started = make_lanes(count=2), 0, 0, 0

    def source(end):
        nonlocal read, most
        for item in range(count):
            read = item + 1
            most = max(most, read - started)
            yield item
        if end is not None:
            raise end

    def body(item, engine):
        nonlocal started
        started += 1
        return -item

    assert td.map_in_lanes(body, source(None), lanes) == [-item for item in range(count)]
    assert 1 <= most <= 33 * 2 + 2
    own, started = OSError("the source"), 0
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(body, source(own), lanes)
    assert (caught.value.index, caught.value.__cause__) == (count, own)
    assert started == count


def test_an_infinite_iterable_ends_with_the_first_failure(lanes):
    """C-LAN-03: itertools.count starts at once and ends early."""
    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: 1 / (item - 40), itertools.count(), lanes)
    assert caught.value.index == 40


@pytest.mark.parametrize("on_error", ["raise", "return", lambda index, item, error: None])
def test_an_iterable_that_raises_ends_the_map_where_the_next_item_would_have_come(lanes, on_error):
    """C-LAN-03: the source's error keeps its object and arrives after the five items before it."""
    done = []
    source_error = OSError("the source")

    def source():
        yield from range(5)
        raise source_error

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: done.append(item), source(), lanes, on_error=on_error)
    assert caught.value.index == 5
    assert caught.value.lane is None
    assert caught.value.__cause__ is source_error
    assert sorted(done) == [0, 1, 2, 3, 4]


def test_an_item_that_fails_below_stands_above_the_error_of_the_iterable(lanes):
    def source():
        yield from range(3)
        raise OSError

    with pytest.raises(td.LaneTaskError) as caught:
        td.map_in_lanes(lambda item, engine: time.sleep(0.02) or 1 / (item - 1), source(), lanes)
    assert caught.value.index == 1


def test_a_list_that_changes_under_way_is_mapped_as_it_was(lanes):
    items = list(range(20))

    def shrink(item, engine):
        items.clear()
        return item

    assert td.map_in_lanes(shrink, items, lanes) == list(range(20))


def test_lane_i_always_has_engine_i(lanes):
    seen = []

    def which(item, engine):
        lane = td.current_lane()
        time.sleep(0.0005)
        seen.append((lane.index, engine is lanes.engines[lane.index], lane.engine is engine, lane.rank))

    for _ in range(3):
        td.map_in_lanes(which, range(20), lanes)
    assert {index for index, *_ in seen} <= set(range(len(lanes)))
    assert all(rest == [True, True, None] for _, *rest in seen)
    assert td.current_lane() is None


def test_engines_compute_in_lanes_and_stay_warm(lanes):
    def gram(item, engine):
        return engine.einsum("ij,ik->jk", item, item)

    matrices = [np.arange(6.0).reshape(2, 3) + i for i in range(8)]
    for _ in range(2):
        for matrix, got in zip(matrices, td.map_in_lanes(gram, matrices, lanes), strict=True):
            np.testing.assert_array_equal(got, matrix.T @ matrix)


def test_thousands_of_maps_in_turn(make_lanes):
    """C-LAN-10: order and length each time, success and failure in turn."""
    lanes = make_lanes(count=2)
    for round_ in range(1200):
        count = (0, 1, 2, 3)[round_ % 4]
        if round_ % 3 == 0 and count:
            with pytest.raises(td.LaneTaskError):
                td.map_in_lanes(lambda item, engine: 1 / item, range(count), lanes)
        else:
            items = range(count) if round_ % 2 else iter(range(count))
            assert td.map_in_lanes(square, items, lanes) == [i * i for i in range(count)]


def test_a_map_from_inside_is_refused_at_once_and_over_other_lanes_it_runs(make_lanes):
    lanes, others = make_lanes(count=2), make_lanes(count=2)
    with pytest.raises(td.LaneTaskError, match="from inside") as caught:
        td.map_in_lanes(lambda item, engine: td.map_in_lanes(square, [1], lanes), range(3), lanes)
    assert type(caught.value.__cause__) is td.LaneError
    assert caught.value.index == 0
    nested = td.map_in_lanes(lambda item, engine: td.map_in_lanes(square, [item, 3], others), [2], lanes)
    assert nested == [[4, 9]]
    with pytest.raises(td.LaneTaskError):
        lanes.run(lambda lane: lanes.run(lambda lane: None))


def test_a_run_beside_another_run_is_refused(make_lanes):
    lanes = make_lanes(count=2)
    entered, leave = threading.Event(), threading.Event()

    def hold():
        lanes.run(lambda lane: entered.set() or leave.wait(30))

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert entered.wait(30)
        assert lanes.busy
        with pytest.raises(td.LaneError, match="another run"):
            td.map_in_lanes(square, [1], lanes)
        with pytest.raises(td.LaneError, match="after it"):
            lanes.close()
    finally:
        leave.set()
        thread.join()
    assert td.map_in_lanes(square, [3], lanes) == [9]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"on_error": "ignore"}, td.ArgumentError, "'raise', 'return' and a callable"),
        ({"on_error": None}, td.ArgumentError, "'raise', 'return' and a callable"),
        ({"retries": -1}, td.ArgumentError, "at least 0"),
        ({"retries": 1.5}, TypeError, "integer"),
        ({"deadline": -1}, td.ArgumentError, "at least 0"),
        ({"deadline": float("nan")}, td.ArgumentError, "number of seconds"),
        ({"deadline": "soon"}, TypeError, "number of seconds"),
        ({"progress": 5}, td.ArgumentError, "True, False, a tqdm instance and a callable"),
        ({"checkpoint": 5}, TypeError, "checkpoint must be a path"),
    ],
)
def test_options_are_checked_before_anything_runs(lanes, options, error, text):
    """C-LAN-04, in part: an unknown option lists the valid ones."""
    with pytest.raises(error, match=text):
        td.map_in_lanes(lambda item, engine: pytest.fail("ran"), [1], lanes, **options)


def test_arguments_are_checked_before_anything_runs(lanes):
    with pytest.raises(TypeError, match="callable"):
        td.map_in_lanes(3, [1], lanes)
    with pytest.raises(TypeError, match=r"treadle\.Lanes"):
        td.map_in_lanes(square, [1], list(lanes.engines))


def test_the_cost_of_an_item_is_far_below_that_of_an_executor(make_lanes):
    from concurrent.futures import ThreadPoolExecutor

    lanes, count = make_lanes(count=2), 20_000

    def best(run):
        times = []
        for _ in range(3):
            begun = time.perf_counter()
            run()
            times.append(time.perf_counter() - begun)
        return min(times)

    ours = best(lambda: td.map_in_lanes(lambda item, engine: None, range(count), lanes))
    with ThreadPoolExecutor(2) as pool:
        theirs = best(lambda: list(pool.map(lambda item: None, range(count))))
    assert theirs / ours > 4, (ours / count, theirs / count)


def test_options_beyond_every_machine_number_are_taken(lanes):
    huge = 1 << 70
    assert td.map_in_lanes(lambda x, e: x, range(3), lanes, retries=huge, deadline=10**400) == [0, 1, 2]
    assert list(td.imap_in_lanes(lambda x, e: x, range(3), lanes, window=huge)) == [0, 1, 2]


@pytest.mark.parametrize("options", [{"lanes": "a"}, {"lanes": 1.5}, {"threads": 1.5}])
def test_counts_that_are_no_integers_are_type_errors(options):
    with pytest.raises(TypeError, match=f"{next(iter(options))} must be an integer"):
        td.Lanes.over(**options)
