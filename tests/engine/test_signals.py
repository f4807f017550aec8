"""C-PYB-01 and C-PYB-02: a long call lets other threads run and answers Ctrl-C; contract 4 for handlers."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import numpy as np
import pytest

import treadle as td


@contextmanager
def interrupt_soon(seconds: float = 0.3) -> Iterator[None]:
    """Send SIGINT to this process a little later."""
    timer = threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_call(threads: int) -> None:
    with td.CpuEngine(threads) as engine:
        begin = time.perf_counter()
        with interrupt_soon(), pytest.raises(KeyboardInterrupt):
            engine._sleep(20_000)
        assert time.perf_counter() - begin < 1.3
        assert engine.state == "open"
        np.testing.assert_array_equal(engine.matmul(np.eye(2), np.eye(2)), np.eye(2))


def test_ctrl_c_ends_a_long_product() -> None:
    a = np.ones((6000, 6000))
    with td.CpuEngine(1) as engine:
        begin = time.perf_counter()
        with interrupt_soon(), pytest.raises(KeyboardInterrupt):
            while True:
                engine.matmul(a, a)
        assert time.perf_counter() - begin < 1.5
        assert engine.state == "open"


def test_ctrl_c_ends_the_reference_route() -> None:
    a = np.ones((1000, 1000))
    with td.CpuEngine(2) as engine:
        begin = time.perf_counter()
        with interrupt_soon(), pytest.raises(KeyboardInterrupt):
            engine.einsum("ij,jk->ik", a, a, route="reference")
        assert time.perf_counter() - begin < 1.5
        assert engine.state == "open"


def test_a_silent_handler_lets_the_call_finish() -> None:
    seen: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, handler)
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with td.CpuEngine(2) as engine:
            engine._sleep(600)
            assert engine.state == "open"
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_a_handler_that_calls_the_same_engine_is_reentrant() -> None:
    errors: list[BaseException] = []

    with td.CpuEngine(2) as engine:

        def handler(number: int, frame: FrameType | None) -> None:
            try:
                engine.matmul(np.eye(2), np.eye(2))
            except td.ReentrantCallError as error:
                errors.append(error)

        before = signal.signal(signal.SIGINT, handler)
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        try:
            engine._sleep(500)
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)
    assert len(errors) == 1
    assert "another engine" in str(errors[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_other_threads_tick_during_a_long_call(threads: int) -> None:
    a = np.random.default_rng(0).standard_normal((1200, 1200))
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    with td.CpuEngine(threads) as engine:
        before, begin = ticks, time.perf_counter()
        while time.perf_counter() - begin < 0.5:
            engine.matmul(a, a)
        during = ticks - before
    stop.set()
    thread.join()
    assert during > 20, "a call that holds the interpreter would leave a handful"


def test_ctrl_c_ends_the_wait_for_a_lease() -> None:
    with td.CpuEngine(1) as engine:
        holder = threading.Thread(target=engine._sleep, args=(1500,))
        holder.start()
        while engine.state != "busy":
            time.sleep(0.001)
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begin = time.perf_counter()
        with pytest.raises(KeyboardInterrupt), engine.lease():
            pass
        assert time.perf_counter() - begin < 1.0
        timer.join()
        holder.join()
