"""Contracts 1 and 2: the threads that exist are exactly those that the caller built."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import treadle as td
from treadle.testing import ThreadCensus

pytestmark = pytest.mark.skipif(not ThreadCensus.available(), reason="threads are counted in /proc")


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_a_width_is_the_caller_and_its_workers(threads: int) -> None:
    a = np.random.default_rng(0).standard_normal((500, 500))
    with ThreadCensus() as census:
        engine = td.CpuEngine(threads)
        census.assert_added(threads - 1)
        for _ in range(3):
            engine.matmul(a, a)
            engine.einsum("ij,jk->ki", a, a)
            census.assert_added(threads - 1)
        engine.linalg.svd(np.stack([a[:64, :64]] * 8))
        census.assert_added(threads - 1)
        engine.close()
        census.assert_added(0)


def test_workers_carry_the_engines_name() -> None:
    with ThreadCensus() as census, td.CpuEngine(3, name="solver"):
        census.assert_added(2)
        assert census.names() == ["solver-0", "solver-1"]


def test_a_dropped_engine_joins_its_workers() -> None:
    with ThreadCensus() as census:
        engine = td.CpuEngine(3)
        census.assert_added(2)
        del engine
        census.assert_added(0)


def test_a_rebuilt_engine_has_as_many_workers() -> None:
    with ThreadCensus() as census, td.CpuEngine(3) as engine:
        with pytest.raises(td.InternalError):
            engine._panic("worker")
        engine.rebuild()
        census.assert_added(2)


def test_importing_starts_no_thread_and_the_environment_sets_no_width() -> None:
    program = textwrap.dedent(
        """
        import os, numpy
        before = len(os.listdir("/proc/self/task"))
        import treadle as td
        assert len(os.listdir("/proc/self/task")) == before
        with td.CpuEngine(2) as engine:
            assert len(os.listdir("/proc/self/task")) == before + 1
            a = numpy.ones((400, 400))
            assert engine.matmul(a, a)[0, 0] == 400
            assert len(os.listdir("/proc/self/task")) == before + 1
        with td.CpuEngine() as engine:
            assert engine.threads == len(os.sched_getaffinity(0))
        assert len(os.listdir("/proc/self/task")) == before
        """
    )
    import os

    environment = {**os.environ, "RAYON_NUM_THREADS": "7", "OMP_NUM_THREADS": "5", "TREADLE_NUM_THREADS": "3"}
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60, env=environment)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16, 32])
def test_small_work_never_wakes_a_worker(size: int) -> None:
    """Contract 3 and C-THR-01, at a width above the CPUs."""
    a = np.random.default_rng(size).standard_normal((size, size)) + size * np.eye(size)
    with td.CpuEngine(8) as engine:
        before = engine.stats()["pool"]
        for _ in range(20):
            engine.matmul(a, a)
            engine.einsum("ij,kj->ik", a, a)
            engine.linalg.svd(a)
            engine.linalg.qr(a)
            engine.linalg.eigh(a)
            engine.linalg.solve(a, a)
            engine.linalg.cholesky(a @ a.T + np.eye(size))
            if size <= 4:  # several tasks, which could be spread, of a few microseconds in all
                batch = np.stack([a] * 3)
                engine.matmul(batch, batch)
                engine.einsum("bij,bjk->kbi", batch, batch)
                engine.einsum("bij,bjk->bik", batch.astype(np.int64), batch.astype(np.int64))
                engine.linalg.solve(batch, batch)
                engine.linalg.qr(batch)
                engine.linalg.cholesky(batch @ batch.transpose(0, 2, 1) + np.eye(size))
        after = engine.stats()["pool"]
    assert after == before


def test_large_work_uses_the_workers() -> None:
    a = np.ones((600, 600))
    with td.CpuEngine(2) as engine:
        engine.matmul(a, a)
        assert engine.stats()["pool"]["dispatches"] >= 1
    with td.CpuEngine(2, batch="sequential") as engine:
        engine.matmul(a, a)
        assert engine.stats()["pool"]["dispatches"] == 0
