"""``ipmap_lanes``: results one by one on the root, the other ranks in the call until the end."""

from __future__ import annotations

import pytest

STREAM = """
def stream(*args, **options):
    got = []
    try:
        with td.ipmap_lanes(*args, **options) as results:
            got.extend(results)
        return {"got": got}
    except BaseException as error:
        return {"got": got, "type": type(error).__name__, "index": getattr(error, "index", None),
                "kind": getattr(error, "kind", None), "text": str(error)}
"""


@pytest.mark.parametrize("size", [1, 2, 3])
def test_results_come_in_order_and_errors_after_them(mpi_run, size):
    rows = mpi_run(
        size,
        STREAM
        + """
lanes, got = make_lanes(2), {}
for count in (0, 1, 5, 200):
    for name, options in {"plain": {}, "batch": dict(batch_size=3, prefetch=True), "window": dict(window=1),
                          "auto": dict(batch_size="auto"), "root": dict(root=size - 1)}.items():
        got[f"{name} {count}"] = stream(lambda x, e: x * x, (i for i in range(count)), lanes, **options)
slow = lambda x, e: time.sleep(x == 3 and 0.02) or 1 / (x not in (7, 9, 30))
got["failing"] = stream(slow, range(40), lanes)
got["returned"] = [str(x) for x in stream(slow, range(40), lanes, on_error="return")["got"]]
got["handled"] = stream(slow, range(40), lanes, on_error=lambda i, item, error: -i)

def source():
    yield from range(5)
    raise OSError("source")

got["source"] = stream(lambda x, e: x, source(), lanes)
got["progress"] = stream(lambda x, e: x, range(9), lanes, progress=lambda done, total: 1 / (done - 3))
got["after"] = td.pmap_lanes(lambda x, e: x, [1, 2], lanes)
say(got=got)
""",
    ).said(size)
    for row in rows:
        for key, got in row["got"].items():
            name, _, count = key.partition(" ")
            root = size - 1 if name == "root" else 0
            here = row["rank"] == root
            if count:
                assert got == {"got": [i * i for i in range(int(count))] if here else []}, key
        failing = row["got"]["failing"]
        assert failing["got"] == ([1.0] * 7 if here_is(row, 0) else [])
        assert (failing["type"], failing["index"]) == ("LaneTaskError", 7)
        source = row["got"]["source"]
        assert source["got"] == (list(range(5)) if here_is(row, 0) else [])
        assert (source["type"], source["index"]) == ("LaneTaskError", 5)
        assert "OSError: source" in source["text"]
        assert row["got"]["progress"]["type"] == ("ZeroDivisionError" if size == 1 else "PmapError")
        assert row["got"]["after"] == ([1, 2] if here_is(row, 0) else None)
    root = rows[0]["got"]
    assert root["returned"] == ["division by zero" if i in (7, 9, 30) else "1.0" for i in range(40)]
    assert root["handled"]["got"] == [-i if i in (7, 9, 30) else 1.0 for i in range(40)]


def here_is(row: dict, rank: int) -> bool:
    return row["rank"] == rank


def test_a_stream_that_is_closed_lets_every_rank_return(mpi_run):
    rows = mpi_run(
        3,
        """
        import itertools

        lanes, got = make_lanes(), []
        read = 0

        def source():
            global read
            for read in itertools.count():
                yield read

        for how in ("close", "with", "drop", "never"):
            results = td.ipmap_lanes(lambda x, e: x, source(), lanes, window=20)
            if rank == 0:
                if how != "never":
                    got.append(list(itertools.islice(results, 50)))
                if how == "close":
                    results.close()
                    results.close()
                elif how == "with":
                    with results:
                        got.append(next(results))
                del results
            else:
                got.append(list(results))
        nested = None
        results = td.ipmap_lanes(lambda x, e: x, range(5), lanes)
        if rank == 0:
            try:
                td.pmap_lanes(len, [[1]], lanes)
            except td.PmapError as error:
                nested = error.kind
        rest = list(results)
        say(got=got, read=read, rest=rest, nested=nested, after=td.pmap_lanes(lambda x, e: x, [3], lanes))
        """,
    ).said(3)
    assert rows[0]["got"] == [list(range(50)), list(range(50)), 50, list(range(50))]
    assert rows[0]["read"] <= 71
    assert (rows[0]["rest"], rows[0]["nested"], rows[0]["after"]) == (list(range(5)), "reentrant", [3])
    for row in rows[1:]:
        assert (row["got"], row["rest"], row["after"]) == ([[]] * 4, [], None)


def test_a_root_that_is_away_between_results_loses_nobody(mpi_run):
    rows = mpi_run(
        2,
        """
        from treadle.lanes import root
        root.SILENCE_SECONDS, root.PING_SECONDS = 0.5, 0.1
        lanes, got = make_lanes(), []
        for value in td.ipmap_lanes(lambda x, e: x, range(20), lanes):
            got.append(value)
            if value in (3, 15):
                time.sleep(1.5)
        say(got=got)
        """,
    ).said(2)
    assert [row["got"] for row in rows] == [list(range(20)), []]


@pytest.mark.parametrize(
    ("count", "limit"), [(100_000, 20_000), pytest.param(1_000_000, 50_000, marks=pytest.mark.slow)]
)
def test_memory_of_the_root_stays_flat(mpi_run, count, limit):
    rows = mpi_run(
        2,
        f"""
        import resource

        lanes = make_lanes()
        total = sum(td.ipmap_lanes(lambda x, e: x, range(1000), lanes, batch_size="auto"))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        # Results of a kilobyte each: together they are far larger than the limit.
        total = sum(
            x[0] for x in td.ipmap_lanes(lambda x, e: (x, bytes(1000)), range({count}), lanes, batch_size="auto")
        )
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        say(total=total, grown=grown)
        """,
        timeout=150,
    ).said(2)
    assert rows[0]["total"] == count * (count - 1) // 2
    for row in rows:
        # KiB.
        assert row["grown"] < limit
