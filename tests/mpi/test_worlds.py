"""Worlds of every shape: ranks, lanes, roots, communicators, many items, many calls, and errors in any place."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("lanes", [1, 2])
def test_errors_at_the_first_last_and_many_items(mpi_run, size, lanes):
    rows = mpi_run(
        size,
        f"""
        def failing(at):
            def body(item, engine):
                time.sleep(0.002 * (item % 3))
                if item in at:
                    raise ValueError(f"item {{item}}")
                return item
            return body

        lanes, got = make_lanes({lanes}), []
        for at in ([0], [29], [0, 29], [5, 6, 7], list(range(30)), [28, 3, 17]):
            for options in (dict(), dict(prefetch=True), dict(batch_size=4, prefetch=True), dict(batch_size="auto"),
                            dict(root=size - 1, root_computes=False), dict(retries=1)):
                items = range(30) if rank == options.get("root", 0) else None
                one = outcome(failing(at), items, lanes, **options)
                got.append([min(at), one["type"], one["index"], one["cause"], one["text"]])
        say(got=got, after=td.pmap_lanes(lambda x, e: x, range(3), lanes))
        """,
        timeout=90,
    ).said(size)
    for row in rows:
        assert len(row["got"]) == 36
        for (lowest, type_, index, cause, text), first in zip(row["got"], rows[0]["got"], strict=True):
            assert (type_, index, cause) == ("LaneTaskError", lowest, "ValueError")
            assert f"item {lowest}" in text
            assert text == first[4]
        assert row["after"] == ([0, 1, 2] if row["rank"] == 0 else None)


@pytest.mark.parametrize("size", [2, 3])
def test_a_hundred_thousand_items(mpi_run, size):
    rows = mpi_run(
        size,
        """
        lanes = make_lanes(2)
        got = td.pmap_lanes(lambda x, e: 3 * x, range(100_000), lanes, batch_size="auto")
        say(right=got == [3 * i for i in range(100_000)] if rank == 0 else got is None)
        """,
        timeout=120,
    ).said(size)
    assert all(row["right"] for row in rows)


def test_a_hundred_calls_on_changing_communicators(mpi_run):
    rows = mpi_run(
        3,
        """
        import os
        lanes, right = make_lanes(2), []
        part = MPI.COMM_WORLD.Split(rank == 1, -rank)
        descriptors = None
        for call in range(100):
            comm = (None, MPI.COMM_WORLD, part)[call % 3]
            mine = comm if comm is not None else MPI.COMM_WORLD
            root = call % mine.size
            items = range(call % 7) if mine.rank == root else None
            got = outcome(lambda x, e: 1 / (x - 4), items, lanes, comm=comm, root=root)
            if call % 7 > 4:
                right.append((got["type"], got["index"]) == ("LaneTaskError", 4))
            else:
                right.append(got["value"] == ([1 / (x - 4) for x in range(call % 7)] if mine.rank == root else None))
            if call == 10:
                descriptors = len(os.listdir("/proc/self/fd"))
        say(right=all(right), count=len(right), grown=len(os.listdir("/proc/self/fd")) - descriptors,
            threads=threading.active_count())
        """,
        timeout=90,
    ).said(3)
    for row in rows:
        assert (row["right"], row["count"], row["threads"]) == (True, 100, 1)
        assert row["grown"] <= 2


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("at", [0, 1, 5, 37])
def test_a_generator_that_raises_keeps_its_object_and_its_index(mpi_run, prefetch, at):
    rows = mpi_run(
        3,
        f"""
        error = OSError("the source")

        def source():
            yield from range({at})
            raise error

        try:
            td.pmap_lanes(lambda x, e: time.sleep(0.001), source(), make_lanes(2), prefetch={prefetch}, batch_size=3)
        except td.LaneTaskError as caught:
            say(index=caught.index, text=str(caught), same=caught.__cause__ is error, on=caught.rank)
        """,
    ).said(3)
    for row in rows:
        assert (row["index"], row["on"]) == (at, 0)
        assert "OSError: the source" in row["text"]
        assert row["same"] == (row["rank"] == 0)


def test_callbacks_map_over_other_lanes_and_are_refused_on_their_own(mpi_run):
    rows = mpi_run(
        2,
        """
        lanes, others = make_lanes(), [make_lanes(2) for _ in range(2)]

        def own(item, engine):
            return td.map_in_lanes(lambda x, e: x, [item], lanes)

        def other(item, engine):
            return sum(td.map_in_lanes(lambda x, e: x * item, range(4), others[0]))

        say(own=outcome(own, range(6), lanes), other=outcome(other, range(6), lanes))
        """,
    ).said(2)
    for row in rows:
        assert (row["own"]["type"], row["own"]["index"], row["own"]["cause"]) == ("LaneTaskError", 0, "LaneError")
        assert row["other"] == {"value": [6 * i for i in range(6)] if row["rank"] == 0 else None}


@pytest.mark.parametrize("raised", ["KeyboardInterrupt()", "SystemExit(7)", "GeneratorExit()"])
@pytest.mark.parametrize("on_error", ["raise", "return"])
def test_what_is_no_exception_ends_the_map_at_once_everywhere(mpi_run, raised, on_error):
    rows = mpi_run(
        3,
        f"""
        def body(item, engine):
            if item == 5:
                raise {raised}
            td.current_lane().control.wait(0.05)

        begun = time.monotonic()
        got = outcome(body, range(5000), make_lanes(2), on_error="{on_error}")
        say(got=got, took=time.monotonic() - begun)
        """,
    ).said(3)
    for row in rows:
        assert row["got"]["type"] == raised.split("(")[0]
        assert row["took"] < 5


def test_the_traceback_of_another_rank_comes_with_the_cause(mpi_run):
    rows = mpi_run(
        2,
        """
        def deep_inside(item):
            raise KeyError("far away")

        try:
            td.pmap_lanes(lambda x, e: deep_inside(x), range(4), make_lanes(), root_computes=False)
        except td.LaneTaskError as error:
            cause = error.__cause__
            say(cause=type(cause).__name__, notes="".join(getattr(cause, "__notes__", ())), on=error.rank,
                traceback=cause.__traceback__ is not None)
        """,
    ).said(2)
    for row in rows:
        assert (row["cause"], row["on"]) == ("KeyError", 1)
    assert "deep_inside" in rows[0]["notes"]
    assert "on rank 1" in rows[0]["notes"]
    assert rows[1]["traceback"]
