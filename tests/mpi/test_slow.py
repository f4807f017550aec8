"""Maps across ranks of a size that takes its time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def _free_kib() -> int:
    """What could be had without swapping; 0 where that is not told."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), 0)


@pytest.mark.skipif(_free_kib() < 14 << 20, reason="needs 14 GiB of free memory")
def test_three_gibibytes_in_one_item_travel_there_and_back(mpi_run):
    """C-MPI-02: beyond 2 GiB in one buffer."""
    job = mpi_run(
        2,
        """
        import numpy as np

        def body(item, engine):
            assert item.nbytes == 3 << 30 and item.flags.writeable
            item[::4096] += 1
            return item

        items = [np.arange(3 << 27, dtype=np.int64)] if rank == 0 else None
        got = td.pmap_lanes(body, items, make_lanes(), root_computes=False)
        right = None
        if rank == 0:
            del items
            (value,) = got
            right = bool(value[1] == 1 and value[-1] == (3 << 27) - 1 and value.flags.writeable
                         and (value[::4096] == np.arange(0, 3 << 27, 4096) + 1).all())
        say(right=right)
        """,
        timeout=240,
    )
    assert [row["right"] for row in job.said(2)] == [True, None]


def test_a_million_items_streamed_leave_the_roots_memory_as_it_was(mpi_run):
    job = mpi_run(
        2,
        """
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        lanes, total, count, peak = make_lanes(), 0, 0, 0
        list(td.ipmap_lanes(lambda item, engine: item, range(20_000), lanes, batch_size="auto"))
        before = resident()
        for value in td.ipmap_lanes(lambda item, engine: item, iter(range(1_000_000)), lanes, batch_size="auto"):
            total += value
            count += 1
            if count % 50_000 == 0:
                peak = max(peak, resident())
        say(total=total, count=count, grown=peak - before)
        """,
        timeout=300,
    )
    root = job.said(2)[0]
    assert (root["count"], root["total"]) == (1_000_000, 499_999_500_000)
    assert root["grown"] < 50_000_000
