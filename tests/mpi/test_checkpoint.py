"""Maps across ranks that leave their results in a file, and take up what a file has."""

from __future__ import annotations

import pickle
import sys
import warnings

import pytest

import treadle as td
from treadle.lanes.checkpoint import Checkpoint, digest_of

SIZES = pytest.mark.parametrize("size", [1, 2, 3])


def stored(path) -> dict[int, object]:
    """What a file has, by index."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checkpoint = Checkpoint.open(path)
    with checkpoint:
        return {
            index: pickle.loads(checkpoint.lookup(index, None))
            for index in range(checkpoint.last + 1)
            if index in checkpoint
        }


@SIZES
def test_a_second_run_does_only_what_is_missing_however_it_runs(mpi_run, tmp_path, size):
    """Another number of lanes, other batches, a stream, another root, one process: the same file."""
    path = tmp_path / "sweep"
    job = mpi_run(
        size,
        f"""
        import numpy as np

        path, calls, seen = {str(path)!r}, [], []

        def body(item, engine):
            calls.append(item)
            return {{"item": item, "row": np.arange(item % 3 * 4000) * 0.1, "nan": np.array([np.nan, -0.0])}}

        def same(value, item):
            right = {{"item": item, "row": np.arange(item % 3 * 4000) * 0.1, "nan": np.array([np.nan, -0.0])}}
            return value.keys() == right.keys() and value["item"] == item and all(
                value[name].tobytes() == right[name].tobytes() and value[name].flags.writeable
                for name in ("row", "nan"))

        def run(count, **options):
            calls.clear()
            seen.clear()
            lanes_here = options.pop("lanes", 1)
            root = options.get("root", 0)
            with make_lanes(lanes_here) as lanes:
                items = (item for item in range(count)) if rank == root else None
                if options.pop("stream", False):
                    value = list(td.ipmap_lanes(body, items, lanes, checkpoint=path, **options))
                    value = value if rank == root else None
                else:
                    value = td.pmap_lanes(body, items, lanes, checkpoint=path,
                                          progress=lambda *told: seen.append(told[0]), **options)
            here = rank == root or options.get("all_ranks", False)
            fine = value is None if not here else len(value) == count and all(map(same, value, range(count)))
            return [fine, list(calls), list(seen)]

        got = [
            run(7),
            run(12, lanes=2, batch_size=3),
            run(15, stream=True, prefetch=True),
            run(19, root=size - 1, batch_size="auto", prefetch=True),
            run(19, root_computes=False),
            run(24, root_computes=False, all_ranks=True),
            run(4, stream=True, window=1),
            run(31, stream=True, window=3, batch_size=2),
        ]
        say(got=got)
        """,
    )
    rows = job.said(size)
    counts = [7, 12, 15, 19, 19, 24, 4, 31]
    new = [range(7), range(7, 12), range(12, 15), range(15, 19), [], range(19, 24), [], range(24, 31)]
    for which, (count, expected) in enumerate(zip(counts, new, strict=True)):
        assert all(row["got"][which][0] for row in rows), which
        called = sorted(item for row in rows for item in row["got"][which][1])
        assert called == list(expected), which
        root = size - 1 if which == 3 else 0
        told = rows[root]["got"][which][2]
        assert told == ([] if which in (2, 6, 7) else list(range(1, count + 1))), which
    assert sorted(stored(path)) == list(range(31))
    calls = []

    def body(item, engine):
        calls.append(item)
        return item

    with td.Lanes([td.CpuEngine.serial()]) as lanes:
        got = td.map_in_lanes(body, range(33), lanes, checkpoint=path)
        assert [value["item"] for value in got[:31]] == list(range(31))
        assert calls == got[31:] == [31, 32]
        with pytest.raises(td.PmapError) as caught:
            td.pmap_lanes(body, range(1, 5), lanes, checkpoint=path)
        assert (caught.value.kind, caught.value.index, caught.value.rank) == ("preflight", 0, 0)


@SIZES
def test_a_file_that_cannot_be_used_is_refused_on_every_rank_before_anything_runs(mpi_run, tmp_path, size):
    (tmp_path / "noise").write_bytes(b"not mine" * 10)
    with td.Lanes([td.CpuEngine.serial()]) as lanes:
        td.map_in_lanes(lambda item, engine: item, [0, 1, 2, 77, 4], lanes, checkpoint=tmp_path / "other")
    before = (tmp_path / "other").read_bytes()
    job = mpi_run(
        size,
        f"""
        import os
        from treadle.lanes.checkpoint import Checkpoint

        folder, calls, got, lanes = {str(tmp_path)!r}, [], {{}}, make_lanes(2)
        held = Checkpoint.open(folder + "/held") if rank == size - 1 else None
        MPI.COMM_WORLD.barrier()

        def body(item, engine):
            calls.append(item)
            return item

        for name in ("other", "noise", "held", "no/folder"):
            got[name] = outcome(body, range(9) if rank == 0 else None, lanes, checkpoint=folder + "/" + name)
            try:
                got[name]["stream"] = list(td.ipmap_lanes(body, range(9), lanes, checkpoint=folder + "/" + name))
            except td.PmapError as error:
                got[name]["stream"] = str(error)
        got["path"] = outcome(body, range(9), lanes, checkpoint=5)
        fine = td.pmap_lanes(lambda item, engine: item, range(9), lanes, checkpoint=folder + "/fine")
        say(got=got, calls=calls, fine=fine)
        """,
    )
    rows = job.said(size)
    texts = {
        "other": "is of other items: item 3 has the digest",
        "noise": "is no checkpoint of treadle",
        "held": "is in use by another map",
        "no/folder": "cannot be opened",
    }
    for row in rows:
        assert row["calls"] == []
        for name, text in texts.items():
            got = row["got"][name]
            assert (got["type"], got["kind"], got["on"]) == ("PmapError", "preflight", 0)
            assert got["index"] == (3 if name == "other" else None)
            assert text in got["text"]
            assert got["text"] == rows[0]["got"][name]["text"] == got["stream"]
            assert got["cause"] == ("LaneError" if row["rank"] == 0 else "NoneType")
        assert row["got"]["path"]["type"] == "TypeError"
        assert row["fine"] == (list(range(9)) if row["rank"] == 0 else None)
    assert (tmp_path / "other").read_bytes() == before
    assert (tmp_path / "noise").read_bytes() == b"not mine" * 10


@SIZES
@pytest.mark.parametrize("batch", [1, 4])
def test_what_finished_before_an_error_stays(mpi_run, tmp_path, size, batch):
    job = mpi_run(
        size,
        f"""
        lanes, got, calls, bad = make_lanes(2), {{}}, [], {{11, 17}}

        def body(item, engine):
            calls.append(item)
            if item in bad:
                raise ValueError(item)
            return -item

        def source():
            yield from range(5)
            raise OSError("source")

        path = {str(tmp_path)!r} + "/sweep"
        got["raise"] = outcome(body, range(30), lanes, checkpoint=path, batch_size={batch})
        got["return"] = td.pmap_lanes(body, range(30), lanes, checkpoint=path, batch_size={batch}, on_error="return")
        got["return"] = got["return"] and [repr(value) for value in got["return"]]
        calls.clear()
        got["handle"] = td.pmap_lanes(body, range(30), lanes, checkpoint=path, batch_size={batch},
                                      on_error=lambda index, item, error: [index, item])
        got["handle calls"] = sorted(calls)
        bad.clear()
        calls.clear()
        got["good"] = td.pmap_lanes(body, range(30), lanes, checkpoint=path, batch_size={batch})
        got["good calls"] = sorted(calls)
        got["source"] = outcome(lambda item, engine: item, source(), lanes, checkpoint=path + "2")
        stream = td.ipmap_lanes(body, range(1000), lanes, checkpoint=path + "3")
        got["first"] = next(stream, None)
        if rank == 0:
            stream.close()
        calls.clear()
        got["rest"] = td.pmap_lanes(body, range(40), lanes, checkpoint=path + "3")
        got["rest calls"] = sorted(calls)
        say(got=got)
        """,
    )
    rows = [row["got"] for row in job.said(size)]
    root = rows[0]
    for got in rows:
        assert (got["raise"]["type"], got["raise"]["index"]) == ("LaneTaskError", 11)
        assert (got["source"]["type"], got["source"]["index"]) == ("LaneTaskError", 5)
    right = [-item for item in range(30)]
    assert root["good"] == right
    assert root["return"] == [f"ValueError({i})" if i in (11, 17) else str(-i) for i in range(30)]
    assert root["handle"] == [[i, i] if i in (11, 17) else -i for i in range(30)]
    # Failed items are done again, and no other.
    for name in ("handle calls", "good calls"):
        assert sorted(item for got in rows for item in got[name]) == [11, 17]
    assert stored(tmp_path / "sweep") == dict(enumerate(right))
    assert stored(tmp_path / "sweep2") == {index: index for index in range(5)}
    assert root["first"] == 0
    assert root["rest"] == [-item for item in range(40)]
    again = [item for got in rows for item in got["rest calls"]]
    assert 0 not in again
    assert len(again) < 40


KILLED = """
import os, signal
path, log = {path!r}, {log!r}

def body(item, engine):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, b"%d\\n" % item)
    os.close(file)
    time.sleep(0.002)
    return [item] * (1 + item % 50)

lanes = make_lanes({lanes})
if rank == {victim}:
    threading.Timer({delay}, os.kill, (os.getpid(), signal.SIGKILL)).start()
td.pmap_lanes(body, range(100_000), lanes, checkpoint=path, batch_size={batch}, prefetch={prefetch})
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
@pytest.mark.parametrize("batch", [1, 8])
def test_a_rank_killed_in_the_middle_loses_no_more_than_what_was_under_way(mpi_run, tmp_path, batch):
    path, log = tmp_path / "sweep", tmp_path / "log"
    have: dict[int, object] = {}
    for size, victim, lanes, delay in ((2, 1, 1, 0.3), (2, 0, 2, 0.25), (3, 2, 1, 0.2)):
        log.write_bytes(b"")
        script = KILLED.format(
            path=str(path), log=str(log), lanes=lanes, victim=victim, delay=delay, batch=batch, prefetch=batch > 1
        )
        job = mpi_run(size, script)
        assert job.status != 0
        begun = {int(line) for line in log.read_text().split()}
        before, have = have, stored(path)
        # Nothing is lost that was there, and nothing was done again.
        assert before.items() <= have.items()
        assert not begun & before.keys()
        # What is missing was in a lane, waited for its batch to be whole, or was on its way.
        assert len(begun - have.keys()) <= 4 * size * lanes * batch
        assert all(value == [index] * (1 + index % 50) for index, value in have.items())
    assert len(have) > 30
    count = max(have) + 20
    job = mpi_run(
        2,
        f"""
        calls = []

        def body(item, engine):
            calls.append(item)
            return [item] * (1 + item % 50)

        value = td.pmap_lanes(body, range({count}), make_lanes(1), checkpoint={str(path)!r}, batch_size=3)
        say(fine=value is None or value == [[item] * (1 + item % 50) for item in range({count})], calls=calls)
        """,
    )
    rows = job.said(2)
    assert all(row["fine"] for row in rows)
    assert sorted(item for row in rows for item in row["calls"]) == [i for i in range(count) if i not in have]


@SIZES
def test_a_torn_tail_is_dropped_with_a_warning_that_names_the_caller(mpi_run, tmp_path, size):
    path = tmp_path / "sweep"
    with td.Lanes([td.CpuEngine.serial()]) as lanes:
        td.map_in_lanes(lambda item, engine: [item], range(6), lanes, checkpoint=path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    job = mpi_run(
        size,
        f"""
        lanes, calls = make_lanes(1), []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            value = td.pmap_lanes(lambda item, engine: calls.append(item) or [item], range(6), lanes,
                                  checkpoint={str(path)!r})
        told = [[str(one.message), one.category.__name__, one.filename == __file__] for one in caught]
        say(value=value, calls=calls, told=[row for row in told if "checkpoint" in row[0]])
        """,
    )
    rows = job.said(size)
    assert rows[0]["value"] == [[item] for item in range(6)]
    assert [item for row in rows for item in row["calls"]] == [5]
    ((text, category, here),) = rows[0]["told"]
    assert "no whole record" in text
    assert category == "TreadleWarning"
    assert here
    assert all(row["told"] == [] for row in rows[1:])
    assert stored(path) == {index: [index] for index in range(6)}


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@SIZES
@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_a_full_disk_ends_the_map_on_every_rank_and_loses_no_result(mpi_run, tmp_path, size, on_error):
    path = tmp_path / "sweep"
    job = mpi_run(
        size,
        f"""
        import resource, signal
        lanes, begun = make_lanes(2), []

        def body(item, engine):
            begun.append(item)
            return bytes([item % 256]) * 1000

        if rank == 0:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
        try:
            td.pmap_lanes(body, range(5000), lanes, checkpoint={str(path)!r}, on_error={on_error!r})
            got = None
        except td.PmapError as error:
            results = error.detail.get("results")
            got = dict(kind=error.kind, on=error.rank, text=str(error), unsaved=results and sorted(results),
                       right=results is None or all(v == bytes([i % 256]) * 1000 for i, v in results.items()))
        after = td.pmap_lanes(lambda item, engine: item, range(5), lanes)
        say(got=got, begun=begun, after=after)
        """,
    )
    rows = job.said(size)
    have = stored(path)
    for row in rows:
        got = row["got"]
        assert (got["kind"], got["on"]) == ("protocol", 0)
        assert "cannot be written" in got["text"]
        assert got["text"] == rows[0]["got"]["text"]
        assert got["right"]
        assert (got["unsaved"] is None) == (row["rank"] != 0)
    # Every item that was begun is either in the file or in the root's error.
    begun = {item for row in rows for item in row["begun"]}
    assert have.keys() | set(rows[0]["got"]["unsaved"]) == begun
    assert rows[0]["got"]["unsaved"]
    assert rows[0]["after"] == list(range(5))


def test_stored_results_that_cannot_be_read_name_their_index_on_every_rank(mpi_run, tmp_path):
    path = tmp_path / "sweep"
    with Checkpoint.open(path) as checkpoint:
        for index in range(5):
            payload = b"no pickle" if index == 3 else pickle.dumps(index, 5)
            checkpoint.append(index, digest_of(pickle.dumps(index, 5)), payload)
    job = mpi_run(
        2,
        f"""
        got = outcome(lambda item, engine: item, range(9), make_lanes(1), checkpoint={str(path)!r})
        say(got=got)
        """,
    )
    for row in job.said(2):
        got = row["got"]
        assert (got["type"], got["kind"], got["index"]) == ("PmapError", "wire", 3)
        assert "cannot be unpickled" in got["text"]


def test_the_file_is_free_again_and_no_descriptor_is_left_after_refusals(mpi_run, tmp_path):
    """A rank that refuses to take part lets the root's file go; so does the end of every kind."""
    path = tmp_path / "sweep"
    job = mpi_run(
        2,
        f"""
        import os
        lanes = make_lanes(1)
        path, folder = {str(path)!r}, "/proc/self/fd"
        td.pmap_lanes(lambda item, engine: item, range(3), lanes, checkpoint=path)
        count = len(os.listdir(folder)) if os.path.exists(folder) else 0
        got = [outcome(lambda item, engine: item, range(3), lanes, checkpoint=path, retries=rank)["kind"]]
        got += [outcome(lambda item, engine: 1 / 0, range(9), lanes, checkpoint=path)["type"]]
        got += [outcome(lambda item, engine: time.sleep(9) if item > 20 else item, [0, 1, 2], lanes, checkpoint=path,
                        deadline=0)["type"]]
        value = td.pmap_lanes(lambda item, engine: item, range(4), lanes, checkpoint=path)
        say(got=got, value=value, grown=len(os.listdir(folder)) - count if count else 0)
        """,
    )
    rows = job.said(2)
    for row in rows:
        assert row["got"] == ["preflight", "LaneTaskError", "LaneCancelledError"]
        assert row["grown"] == 0
    assert rows[0]["value"] == [0, 1, 2, 3]
