"""Progress counts completions, one by one, on the calling thread."""

from __future__ import annotations

import threading
import time

import pytest

import treadle as td


@pytest.mark.parametrize(("kind", "total"), [(list, 10), (lambda items: (i for i in items), None)])
def test_done_grows_one_by_one_as_items_complete(lanes, kind, total):
    """C-LAN-07: not all at the start or the end, from the caller's thread, with and without a size."""
    seen = []

    def progress(done, total):
        seen.append((done, total, threading.get_ident(), time.monotonic()))

    td.map_in_lanes(lambda item, engine: time.sleep(0.02), kind(list(range(10))), lanes, progress=progress)
    assert [(done, total) for done, total, *_ in seen] == [(done, total) for done in range(1, 11)]
    assert {ident for *_, ident, _ in seen} == {threading.get_ident()}
    # Not all at the end: the first is told long before the last.
    assert seen[-1][3] - seen[0][3] > 0.02 * 10 / len(lanes) / 3


def test_items_that_fail_are_counted_and_no_items_are_none(lanes):
    """C-LAN-07: also on failure of items, and without items."""
    seen = []

    def progress(done, total):
        seen.append(done)

    td.map_in_lanes(lambda item, engine: 1 / (item % 3), range(9), lanes, on_error="return", progress=progress)
    assert seen == list(range(1, 10))
    seen.clear()
    assert td.map_in_lanes(lambda item, engine: item, [], lanes, progress=progress) == []
    assert seen == []
    with pytest.raises(td.LaneTaskError):
        td.map_in_lanes(lambda item, engine: 1 / (item - 4), range(9), lanes, progress=progress)
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) >= 5


def test_the_callbacks_own_error_is_raised_and_ends_the_map(lanes):
    """C-LAN-07: the callback's error is raised."""
    own, started = OSError("progress"), []

    def progress(done, total):
        if done == 3:
            raise own

    def body(item, engine):
        started.append(item)
        time.sleep(0.002)

    with pytest.raises(OSError, match="progress") as caught:
        td.map_in_lanes(body, range(1000), lanes, progress=progress)
    assert caught.value is own
    assert len(started) < 300


def test_a_bar(lanes):
    """C-LAN-07: a tqdm instance."""
    tqdm = pytest.importorskip("tqdm")
    import io

    out = io.StringIO()
    with tqdm.tqdm(file=out) as bar:
        td.map_in_lanes(lambda item, engine: item, range(10), lanes, progress=bar)
        assert bar.n == 10
        assert bar.total == 10
    with tqdm.tqdm(total=3, file=out) as bar:
        td.map_in_lanes(lambda item, engine: item, iter(range(3)), lanes, progress=bar)
        assert (bar.n, bar.total) == (3, 3)


def test_progress_true_shows_a_bar(lanes, capsys):
    pytest.importorskip("tqdm")
    td.map_in_lanes(lambda item, engine: item, range(10), lanes, progress=True)
    assert "10/10" in capsys.readouterr().err
