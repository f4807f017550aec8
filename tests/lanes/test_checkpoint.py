"""Maps that leave their results in a file, and take up what a file has."""

from __future__ import annotations

import itertools
import os
import pickle
import random
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.lanes.checkpoint import HEADER, RECORD, Checkpoint, digest_of


def mapped(form, fn, items, lanes, **options):
    if form == "map":
        return td.map_in_lanes(fn, items, lanes, **options)
    return list(td.imap_in_lanes(fn, items, lanes, ordered=form == "ordered", **options))


FORMS = pytest.mark.parametrize("form", ["map", "ordered"])


@FORMS
@pytest.mark.parametrize("kind", [list, tuple, iter, lambda items: (item for item in items), np.array])
def test_a_second_run_does_only_what_is_missing(lanes, tmp_path, form, kind):
    path, calls = tmp_path / "sweep", []

    def body(item, engine):
        calls.append(int(item))
        return int(item) * 10

    assert mapped(form, body, kind(list(range(7))), lanes, checkpoint=path) == list(range(0, 70, 10))
    assert sorted(calls) == list(range(7))
    calls.clear()
    assert mapped(form, body, kind(list(range(10))), lanes, checkpoint=str(path)) == list(range(0, 100, 10))
    assert sorted(calls) == [7, 8, 9]
    calls.clear()
    # Fewer items than the file has are the same items.
    assert mapped(form, body, kind(list(range(4))), lanes, checkpoint=os.fsencode(path)) == [0, 10, 20, 30]
    assert calls == []


def test_as_they_complete_with_a_checkpoint(lanes, tmp_path):
    path = tmp_path / "sweep"
    for _ in range(2):
        got = mapped("completed", lambda item, engine: item + 1, iter(range(20)), lanes, checkpoint=path)
        assert sorted(got) == list(range(1, 21))


@FORMS
def test_arrays_come_back_with_every_bit(lanes, tmp_path, form):
    rng = np.random.default_rng(1)
    items = [rng.standard_normal((3, n)) for n in range(1, 9)]

    def body(item, engine):
        return {"gram": engine.matmul(item, item.T), "nan": np.array([np.nan, -0.0, np.inf]), "seen": item}

    first = mapped(form, body, items, lanes, checkpoint=tmp_path / "sweep")
    second = mapped(form, lambda item, engine: pytest.fail("done"), items, lanes, checkpoint=tmp_path / "sweep")
    for a, b in zip(first, second, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            assert a[name].tobytes() == b[name].tobytes()
            assert a[name].dtype == b[name].dtype
            assert a[name].shape == b[name].shape


@FORMS
@pytest.mark.parametrize("kind", [list, iter])
def test_a_checkpoint_of_other_items_is_refused_before_anything_runs(lanes, tmp_path, form, kind):
    path = tmp_path / "sweep"
    mapped(form, lambda item, engine: item, range(10), lanes, checkpoint=path)
    before, calls = path.read_bytes(), []
    for other, where in (
        ([*range(9), 99], 9),
        ([1, *range(1, 10)], 0),
        (["0", *range(1, 10)], 0),
        (list(range(1, 30)), 0),
    ):
        with pytest.raises(td.LaneError, match="of other items") as caught:
            mapped(form, lambda item, engine: calls.append(item), kind(other), lanes, checkpoint=path)
        assert not isinstance(caught.value, td.LaneTaskError)
        assert (caught.value.index, caught.value.path) == (where, str(path))
    assert calls == []
    assert path.read_bytes() == before
    assert not lanes.busy
    assert mapped(form, lambda item, engine: calls.append(item), range(10), lanes, checkpoint=path) == list(range(10))
    assert calls == []


@FORMS
def test_failed_items_are_done_again_and_handlers_see_the_callers_item(lanes, tmp_path, form):
    path, calls = tmp_path / "sweep", []
    works = False

    def body(item, engine):
        calls.append(item)
        if item % 3 == 1 and not works:
            raise ValueError(item)
        return item

    with pytest.raises(td.LaneTaskError) as caught:
        mapped(form, body, range(9), lanes, checkpoint=path)
    assert (caught.value.index, caught.value.item_repr) == (1, "1")
    got = mapped(
        form, body, range(9), lanes, checkpoint=path, on_error=lambda index, item, exc: (index, item, str(exc))
    )
    assert got == [0, (1, 1, "1"), 2, 3, (4, 4, "4"), 5, 6, (7, 7, "7"), 8]
    calls.clear()
    works = True
    assert mapped(form, body, range(9), lanes, checkpoint=path, on_error="return") == list(range(9))
    assert sorted(calls) == [1, 4, 7]


@FORMS
def test_an_iterable_that_raises_does_so_after_the_earlier_results(lanes, tmp_path, form):
    own = OSError("source")

    def source():
        yield from range(5)
        raise own

    for _ in range(2):
        with pytest.raises(td.LaneTaskError) as caught:
            mapped(form, lambda item, engine: item, source(), lanes, checkpoint=tmp_path / "sweep")
        assert caught.value.index == 5
        assert caught.value.__cause__ is own
    assert mapped(form, lambda item, engine: pytest.fail("done"), range(5), lanes, checkpoint=tmp_path / "sweep") == [
        *range(5)
    ]


class Refuses:
    def __reduce__(self):
        raise RuntimeError("mine")

    def __repr__(self):
        return "Refuses()"


@FORMS
@pytest.mark.parametrize("what", [threading.Lock(), Refuses(), lambda: None], ids=["lock", "reduce", "lambda"])
def test_items_and_results_that_do_not_pickle_name_their_index(lanes, tmp_path, form, what):
    calls = []
    items = [0, 1, what, 3]
    with pytest.raises(td.LaneTaskError, match="cannot be pickled") as caught:
        mapped(form, lambda item, engine: item, items, lanes, checkpoint=tmp_path / "items")
    assert caught.value.index == 2
    assert caught.value.__cause__.index == 2
    assert caught.value.__cause__.__cause__ is not None

    def body(item, engine):
        calls.append(item)
        return what if item == 2 else item

    with pytest.raises(td.LaneTaskError, match="cannot be pickled") as caught:
        mapped(form, body, range(4), lanes, checkpoint=tmp_path / "results", retries=3)
    assert caught.value.index == 2
    assert calls.count(2) == 1  # the work was done; only its result is no use
    got = mapped(form, body, range(4), lanes, checkpoint=tmp_path / "results", on_error="return")
    assert [value for value in got if not isinstance(value, td.LaneError)] == [0, 1, 3]


def test_a_stored_result_that_does_not_unpickle_names_its_index(lanes, tmp_path):
    path = tmp_path / "sweep"
    with Checkpoint.open(path) as checkpoint:
        for index in range(3):
            checkpoint.append(
                index, digest_of(pickle.dumps(index, 5)), b"no pickle" if index == 1 else pickle.dumps(index, 5)
            )
    with pytest.raises(td.LaneTaskError, match="cannot be unpickled") as caught:
        td.map_in_lanes(lambda item, engine: item, range(3), lanes, checkpoint=path)
    assert caught.value.index == 1


@FORMS
def test_progress_counts_what_was_done_before_too(lanes, tmp_path, form):
    for _ in range(2):
        seen = []
        mapped(
            form,
            lambda item, engine: item,
            range(9),
            lanes,
            checkpoint=tmp_path / "sweep",
            progress=lambda *a: seen.append(a),
        )
        assert seen == [(done, 9) for done in range(1, 10)]


def test_a_stream_that_is_closed_or_dropped_lets_go_of_the_file(make_lanes, tmp_path):
    lanes, path = make_lanes(count=2), tmp_path / "sweep"
    with td.imap_in_lanes(lambda item, engine: item, itertools.count(), lanes, checkpoint=path) as stream:
        assert list(itertools.islice(stream, 5)) == list(range(5))
        with pytest.raises(td.LaneError, match="in use"):
            Checkpoint.open(path)
    stream = td.imap_in_lanes(lambda item, engine: item, itertools.count(), lanes, checkpoint=path)
    next(stream)
    del stream
    with Checkpoint.open(path) as checkpoint:
        assert {0, 1, 2, 3, 4} <= set(range(checkpoint.last + 1))
        assert all(index in checkpoint for index in range(5))


def test_a_stream_that_its_own_lane_drops_lets_go_of_the_file_in_the_end(make_lanes, tmp_path):
    lanes, path, box, go = make_lanes(count=2), tmp_path / "sweep", [], threading.Event()

    def body(item, engine):
        if item == 3:
            go.wait(30)
            box.clear()
        return item

    box.append(td.imap_in_lanes(body, itertools.count(), lanes, checkpoint=path))
    assert next(box[0]) == 0
    go.set()
    end = time.monotonic() + 30
    while True:
        try:
            with Checkpoint.open(path) as checkpoint:
                assert all(index in checkpoint for index in range(4))
                break
        except td.LaneError:
            assert time.monotonic() < end
            # What the lanes' threads leave goes with the next call into the package.
            assert lanes.describe()
            time.sleep(0.005)
    assert not lanes.busy


@pytest.mark.parametrize("fails", [False, True])
def test_leaving_a_block_of_lanes_tells_what_the_file_did_not_take(tmp_path, monkeypatch, fails):
    def full(self, head, payload):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoint, "_write", full)
    with td.CpuEngine.serial() as engine:
        with pytest.raises(ValueError if fails else td.LaneError, match="mine" if fails else "No space left") as caught:
            with td.Lanes([engine]) as lanes:
                stream = td.imap_in_lanes(
                    lambda item, engine: item, itertools.count(), lanes, checkpoint=tmp_path / "sweep"
                )
                assert next(stream) == 0
                if fails:
                    raise ValueError("mine")
        assert fails or caught.value.results[0] == 0
        assert lanes.closed


def test_wrong_arguments_touch_no_file(lanes, tmp_path):
    path = tmp_path / "sweep"
    with pytest.raises(TypeError, match="checkpoint must be a path"):
        td.map_in_lanes(len, [], lanes, checkpoint=3)
    for options, error in ({"on_error": "no"}, td.ArgumentError), ({"retries": -1}, td.ArgumentError):
        for call in (td.map_in_lanes, td.imap_in_lanes):
            with pytest.raises(error):
                call(len, [], lanes, checkpoint=path, **options)
    assert not path.exists()
    with pytest.raises(TypeError):
        td.map_in_lanes(len, 5, lanes, checkpoint=path)
    for place in (tmp_path / "no" / "such", tmp_path, "nul\0"):
        with pytest.raises(td.LaneError, match="cannot be opened") as caught:
            td.map_in_lanes(len, [], lanes, checkpoint=place)
        assert caught.value.path == str(place)


def test_a_file_that_is_no_checkpoint_is_left_as_it_is(lanes, tmp_path):
    good = tmp_path / "good"
    td.map_in_lanes(lambda item, engine: item, range(3), lanes, checkpoint=good)
    newer = bytearray(good.read_bytes())
    newer[19] ^= 2  # the version; the checksum tells
    for text in (b"data", b"treadle checkpoint?", b"x" * 5000, b"treadle checkpoint\n" + b"\0" * 60, bytes(newer)):
        path = tmp_path / "data"
        path.write_bytes(text)
        with pytest.raises(td.LaneError, match="no checkpoint|damaged"):
            td.map_in_lanes(lambda item, engine: item, range(3), lanes, checkpoint=path)
        assert path.read_bytes() == text


def made(path: Path, count: int = 4) -> tuple[bytes, list[int]]:
    """A checkpoint of that many small results, its bytes, and where its records begin and end."""
    borders = []
    with Checkpoint.open(path) as checkpoint:
        borders.append(checkpoint._end)
        for index in range(count):
            checkpoint.append(index, digest_of(pickle.dumps(index, 5)), pickle.dumps(index * 10, 5))
            borders.append(checkpoint._end)
    return path.read_bytes(), borders


def test_a_tail_torn_at_any_byte_is_dropped_with_a_warning(make_lanes, tmp_path):
    lanes, path, calls = make_lanes(count=1), tmp_path / "sweep", []
    whole, borders = made(path)
    assert len(whole) == borders[-1] > HEADER.size + 4 * RECORD.size

    def body(item, engine):
        calls.append(item)
        return item * 10

    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        kept = sum(border <= length for border in borders[1:])
        calls.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert td.map_in_lanes(body, range(4), lanes, checkpoint=path) == [0, 10, 20, 30]
        assert sorted(calls) == list(range(kept, 4)), length
        torn = length > HEADER.size and length not in borders
        assert [w.category for w in caught] == [td.TreadleWarning] * torn, length
        assert not torn or "no whole record" in str(caught[0].message)
    # And what was mended is a whole file again.
    calls.clear()
    td.map_in_lanes(body, range(4), lanes, checkpoint=path)
    assert calls == []


@pytest.mark.parametrize("bit", [0, 3, 7])
def test_a_flipped_bit_never_gives_a_wrong_result(make_lanes, tmp_path, bit):
    lanes, path, calls = make_lanes(count=1), tmp_path / "sweep", []
    whole, borders = made(path)
    refused = 0

    def body(item, engine):
        calls.append(item)
        return item * 10

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << bit)]) + whole[place + 1 :])
        calls.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                assert td.map_in_lanes(body, range(4), lanes, checkpoint=path) == [0, 10, 20, 30]
            except td.LaneError:
                assert place < HEADER.size
                assert calls == []
                refused += 1
                continue
        damaged = next(index for index in range(4) if place < borders[index + 1])
        assert calls == [damaged], place
        assert [w.category for w in caught] == [td.TreadleWarning]
    assert refused == HEADER.size


def test_noise_after_and_between_the_records(make_lanes, tmp_path):
    lanes, path = make_lanes(count=2), tmp_path / "sweep"
    rng = random.Random(5)
    whole, borders = made(path)
    for _ in range(60):
        at = rng.choice(borders)
        # Pieces of the file itself are the noise that looks most like it.
        start = rng.randrange(len(whole))
        noise = rng.choice(
            [rng.randbytes(rng.randrange(1, 300)), bytes(100), whole[start : start + rng.randrange(1, 200)]]
        )
        path.write_bytes(whole[:at] + noise + whole[at:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert td.map_in_lanes(lambda item, engine: item * 10, range(4), lanes, checkpoint=path) == [0, 10, 20, 30]


def test_a_checkpoint_inside_a_result_is_no_part_of_this_one(make_lanes, tmp_path):
    lanes, path = make_lanes(count=1), tmp_path / "outer"
    inner, _ = made(tmp_path / "inner")
    td.map_in_lanes(lambda item, engine: inner, range(2), lanes, checkpoint=path)
    data = bytearray(path.read_bytes())
    data[HEADER.size] ^= 1  # so that the first record's end is not known
    path.write_bytes(data)
    calls = []
    with pytest.warns(td.TreadleWarning, match="damaged"):
        td.map_in_lanes(lambda item, engine: calls.append(item) or inner, range(2), lanes, checkpoint=path)
    assert calls == [0]


def test_many_large_records_and_threads_at_once(tmp_path):
    path = tmp_path / "sweep"
    with Checkpoint.open(path) as checkpoint:

        def append(part):
            for index in range(part, 400, 4):
                checkpoint.append(index, digest_of(str(index).encode()), bytes([index % 256]) * (index * 97))
                assert checkpoint.lookup(index, digest_of(str(index).encode())) == bytes([index % 256]) * (index * 97)

        threads = [threading.Thread(target=append, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with Checkpoint.open(path) as checkpoint:
        assert len(checkpoint) == 400
        assert checkpoint.lookup(400, None) is None
        for index in range(400):
            assert checkpoint.lookup(index, digest_of(str(index).encode())) == bytes([index % 256]) * (index * 97)
        with pytest.raises(td.LaneError, match="other items"):
            checkpoint.lookup(3, digest_of(b"other"))
    with pytest.raises(td.LaneError, match="was closed"):
        checkpoint.append(1, digest_of(b""), b"")
    checkpoint.close()
    checkpoint.flush()


HOLD = """
import sys, time, treadle as td
from treadle.lanes.checkpoint import Checkpoint
checkpoint = Checkpoint.open(sys.argv[1])
print("held", flush=True)
time.sleep(60)
"""


def test_one_process_has_the_file_at_a_time(make_lanes, tmp_path):
    lanes, path = make_lanes(count=1), tmp_path / "sweep"
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "held\n"
            calls = []
            for call in (td.map_in_lanes, td.imap_in_lanes):
                with pytest.raises(td.LaneError, match="in use by another map"):
                    call(lambda item, engine: calls.append(item), range(3), lanes, checkpoint=path)
            assert calls == []
        finally:
            holder.kill()
    # A lock dies with its process.
    assert td.map_in_lanes(lambda item, engine: item, range(3), lanes, checkpoint=path) == [0, 1, 2]


KILLED = """
import os, sys, treadle as td
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
def body(item, engine):
    os.write(1, b"%d\\n" % item)
    return [item] * (1 + item % 50) * 40
print("start", flush=True)
td.map_in_lanes(body, range(100_000), lanes, checkpoint=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs SIGKILL")
def test_a_process_killed_at_any_moment_loses_what_was_under_way_and_no_more(make_lanes, tmp_path):
    lanes, path, rng, done = make_lanes(count=2), tmp_path / "sweep", random.Random(11), 0
    finished: set[int] = set()
    for _ in range(8):
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", KILLED, path], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout.readline() == "start\n"
            time.sleep(rng.uniform(0, 0.25))
            process.kill()
            begun = [int(line) for line in process.stdout.read().split("\n") if line.isdigit()]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            checkpoint = Checkpoint.open(path)
        with checkpoint:
            # Of the items that were begun, one for each lane was under way; and nothing of before was begun again.
            missing = [item for item in begun if item not in checkpoint]
            assert len(missing) <= 2
            assert len(checkpoint) >= done
            assert len(set(begun)) == len(begun)
            assert not finished.intersection(begun)
            finished = {index for index in range(checkpoint.last + 1) if index in checkpoint}
            assert len(finished) == len(checkpoint)
            done = len(checkpoint)
            for index in range(checkpoint.last + 1):
                payload = checkpoint.lookup(index, digest_of(pickle.dumps(index, 5)))
                assert payload is None or pickle.loads(payload) == [index] * (1 + index % 50) * 40
    assert done > 100
    count = done + 10
    expected = [[item] * (1 + item % 50) * 40 for item in range(count)]
    calls = []

    def body(item, engine):
        calls.append(item)
        return expected[item]

    assert td.map_in_lanes(body, range(count), lanes, checkpoint=path) == expected
    assert len(calls) == 10


FULL = """
import json, resource, signal, sys, treadle as td
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, form = sys.argv[1], sys.argv[2]
lanes = td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()])
begun = []
def body(item, engine):
    begun.append(item)
    return bytes([item % 256]) * 1000
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
given = []
try:
    if form == "map":
        td.map_in_lanes(body, range(5000), lanes, checkpoint=path, on_error=sys.argv[3])
    else:
        for value in td.imap_in_lanes(body, range(5000), lanes, checkpoint=path, on_error=sys.argv[3]):
            given.append(value)
except td.LaneError as error:
    assert type(error) is td.LaneError, error
    assert all(value == bytes([index % 256]) * 1000 for index, value in error.results.items())
    print(json.dumps({"begun": len(begun), "unsaved": sorted(error.results), "path": error.path, "text": str(error)}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("on_error", ["raise", "return"])
@FORMS
def test_a_full_disk_ends_the_map_and_loses_no_result(run_python, make_lanes, tmp_path, form, on_error):
    import json

    path = tmp_path / "sweep"
    done = run_python("-W", "ignore", "-c", FULL, path, form, on_error, timeout=30)
    row = json.loads(done.stdout or pytest.fail(done.stderr))
    assert "cannot be written" in row["text"]
    assert row["path"] == str(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the file ends with a whole record
        checkpoint = Checkpoint.open(path)
    with checkpoint:
        stored = {index for index in range(5000) if index in checkpoint}
        # Every item that was begun is either in the file or in the error.
        assert stored | set(row["unsaved"]) == set(range(row["begun"]))
        assert len(row["unsaved"]) >= 1
        assert row["begun"] < 60
    lanes, calls = make_lanes(count=2), []
    td.map_in_lanes(lambda item, engine: calls.append(item), range(60), lanes, checkpoint=path)
    assert sorted(calls) == sorted(set(range(60)) - stored)


def test_a_child_that_was_forked_neither_holds_nor_frees_the_lock(run_python, tmp_path):
    code = """
import os, sys, time, treadle as td
from treadle.lanes.checkpoint import Checkpoint, digest_of
checkpoint = Checkpoint.open(sys.argv[1])
checkpoint.append(0, digest_of(b"0"), b"zero")
ready, go = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    checkpoint.close()
    os.write(ready[1], b"x")
    os.read(go[0], 1)
    os._exit(0)
os.read(ready[0], 1)
try:
    Checkpoint.open(sys.argv[1])
except td.LaneError as error:
    print("in use" in str(error))
checkpoint.close()
with Checkpoint.open(sys.argv[1]) as again:  # the child still lives
    print(again.lookup(0, digest_of(b"0")))
os.write(go[1], b"x")
print(os.waitpid(pid, 0)[1])
"""
    done = run_python("-W", "ignore", "-c", code, tmp_path / "sweep", timeout=30)
    assert done.stdout.splitlines() == ["True", "b'zero'", "0"], done.stderr


def test_ctrl_c_keeps_what_was_finished(make_lanes, tmp_path):
    lanes, path = make_lanes(count=2), tmp_path / "sweep"

    def body(item, engine):
        if item == 30:
            raise KeyboardInterrupt
        return item

    with pytest.raises(KeyboardInterrupt):
        td.map_in_lanes(body, range(100), lanes, checkpoint=path)
    calls = []
    assert td.map_in_lanes(lambda item, engine: calls.append(item) or item, range(35), lanes, checkpoint=path)
    assert set(calls) <= {30, 31, 32, 33, 34}
