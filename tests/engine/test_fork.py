"""C-THR-03: a forked child is refused at once, works after rebuild(), and ends."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import treadle as td

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(body: Callable[[], None], limit: float = 20.0) -> None:
    """Run `body` in a forked child; it must end by itself with status 0 in time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            assert os.waitstatus_to_exitcode(status) == 0
            return
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    pytest.fail(f"the child was still running after {limit} s")


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_child_is_refused_and_rebuilds(threads: int) -> None:
    big = np.random.default_rng(1).standard_normal((400, 400))
    small = np.eye(3)
    with td.CpuEngine(threads) as engine:
        bits = engine.matmul(big, big).tobytes()

        def child() -> None:
            begin = time.monotonic()
            for call in (
                lambda: engine.matmul(small, small),
                lambda: engine.matmul(big, big),
                lambda: engine.einsum("ij,jk", small, small),
                lambda: engine.linalg.svd(big),
                engine.stats,
            ):
                with pytest.raises(td.ForkedEngineError, match="rebuild"):
                    call()
            assert time.monotonic() - begin < 1
            assert engine.state == "broken"
            with td.CpuEngine(threads) as fresh:
                assert fresh.matmul(big, big).tobytes() == bits
            engine.rebuild()
            assert engine.matmul(big, big).tobytes() == bits
            assert engine.stats()["pool"]["workers"] == threads - 1
            engine.close()

        in_child(child)
        assert engine.matmul(big, big).tobytes() == bits, "the parent goes on"


def test_a_child_can_drop_what_it_inherited() -> None:
    import gc

    engines = [td.CpuEngine(3), td.CpuEngine(2, plan_cache=td.PlanCache(3))]
    arrays = [engine.matmul(np.ones((300, 300)), np.ones((300, 300))) for engine in engines]

    def child() -> None:
        begin = time.monotonic()
        arrays.clear()
        engines.clear()
        gc.collect()
        assert time.monotonic() - begin < 1

    in_child(child)
    assert all(engine.state == "open" for engine in engines)
    for engine in engines:
        engine.close()


def test_a_child_of_a_busy_parent() -> None:
    """The fork happens while a worker runs and locks may be held."""
    import threading

    big = np.random.default_rng(2).standard_normal((300, 300))
    stop = threading.Event()
    with td.CpuEngine(2) as engine:

        def work() -> None:
            while not stop.is_set():
                engine.matmul(big, big)

        thread = threading.Thread(target=work)
        thread.start()
        try:

            def child() -> None:
                with pytest.raises(td.ForkedEngineError):
                    engine.matmul(big, big)
                engine.rebuild()
                np.testing.assert_allclose(engine.matmul(big, big), big @ big, atol=1e-10)

            for _ in range(10):
                in_child(child)
        finally:
            stop.set()
            thread.join()
