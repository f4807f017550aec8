"""Progress counts completions, one by one, on the calling thread."""

from __future__ import annotations

import io
import re
import sys
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


@pytest.mark.parametrize("stream", [False, True])
def test_a_bar_says_at_the_end_how_busy_the_lanes_were(make_lanes, capsys, stream):
    pytest.importorskip("tqdm")
    lanes = make_lanes(count=2)

    def body(item, engine):
        time.sleep(0.01)
        return item

    if stream:
        assert list(td.imap_in_lanes(body, range(20), lanes, progress=True)) == list(range(20))
    else:
        assert td.map_in_lanes(body, range(20), lanes, progress=True) == list(range(20))
    shown = capsys.readouterr().err
    last = shown.rstrip().rsplit("\r", 1)[-1]
    assert "20/20" in last
    assert "it/s" in last
    busy = re.search(r"2 lanes (\d+)% busy", last)
    assert busy
    assert int(busy[1]) > 50


def test_lanes_that_wait_are_not_busy(make_lanes, capsys):
    pytest.importorskip("tqdm")

    def slow():
        for item in range(5):
            time.sleep(0.02)
            yield item

    td.map_in_lanes(lambda item, engine: item, slow(), make_lanes(count=1), progress=True)
    assert int(re.search(r"1 lane (\d+)% busy", capsys.readouterr().err)[1]) < 50


def test_the_callers_bar_stays_open_and_keeps_its_words(lanes):
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(file=io.StringIO(), postfix="mine") as bar:
        td.map_in_lanes(lambda item, engine: item, range(5), lanes, progress=bar)
        td.map_in_lanes(lambda item, engine: item, range(5), lanes, progress=bar)
        assert (bar.n, bar.postfix, bar.disable) == (10, "mine", False)


@pytest.mark.parametrize("stream", [False, True])
def test_a_bar_that_was_closed_and_a_terminal_that_went_away_lose_no_map(lanes, monkeypatch, stream):
    tqdm = pytest.importorskip("tqdm")

    def mapped(progress, body=lambda item, engine: item):
        if stream:
            return list(td.imap_in_lanes(body, range(5), lanes, progress=progress))
        return td.map_in_lanes(body, range(5), lanes, progress=progress)

    closed = tqdm.tqdm(total=5, file=io.StringIO())
    closed.close()
    assert mapped(closed) == list(range(5))

    class Gone(io.StringIO):
        gone = False

        def write(self, text):
            if self.gone:
                raise BrokenPipeError
            return super().write(text)

    gone = Gone()
    monkeypatch.setattr("sys.stderr", gone)
    monkeypatch.setattr(tqdm.tqdm, "mininterval", 0, raising=False)

    def body(item, engine):
        gone.gone = True
        time.sleep(0.12)  # longer than tqdm leaves between two pictures
        return item

    with pytest.warns(td.TreadleWarning, match="progress bar"):
        assert mapped(True, body) == list(range(5))
    monkeypatch.setattr("sys.stderr", None)  # as under pythonw
    with pytest.warns(td.TreadleWarning, match="progress bar"):
        assert mapped(True) == list(range(5))
    assert not lanes.busy


def test_without_tqdm_true_says_what_to_install(lanes, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    calls = []
    for call in (td.map_in_lanes, td.imap_in_lanes):
        with pytest.raises(td.UnsupportedError, match="pip install tqdm"):
            call(lambda item, engine: calls.append(item), range(3), lanes, progress=True)
    assert calls == []
    assert not lanes.busy
