"""Results come from the engine's buffers, uninitialised and written whole, and their memory comes back."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import treadle as td

BIG = (300, 300)  # 720,000 bytes of float64: pooled


def test_memory_comes_back_when_the_array_dies() -> None:
    a = np.ones(BIG)
    with td.CpuEngine(1) as engine:
        first = engine.matmul(a, a)
        address = first.ctypes.data
        assert engine.stats()["buffers"]["lent"] >= first.nbytes
        view = first[10:20, ::2]
        del first
        gc.collect()
        assert engine.stats()["buffers"]["retained"] == 0, "a view keeps the memory"
        del view
        gc.collect()
        assert engine.stats()["buffers"]["retained"] >= 720_000
        second = engine.matmul(a, a)
        assert second.ctypes.data == address
        assert engine.stats()["buffers"]["hits"] == 1
        assert second.flags.aligned
        assert second.flags.writeable
        assert second.flags.c_contiguous


def test_results_outlive_the_engine() -> None:
    a = np.arange(90_000.0).reshape(BIG) % 7
    engine = td.CpuEngine(2)
    results = [engine.matmul(a, a) for _ in range(3)]
    engine.close()
    del engine
    gc.collect()
    expected = a @ a
    for result in results:
        np.testing.assert_array_equal(result, expected)
    thread = threading.Thread(target=results.clear)
    thread.start()
    thread.join()
    gc.collect()


def test_the_ceiling_is_kept() -> None:
    a = np.ones(BIG)
    with td.CpuEngine(1, buffer_bytes=1_000_000) as engine:
        results = [engine.matmul(a, a) for _ in range(4)]
        del results
        gc.collect()
        assert 0 < engine.stats()["buffers"]["retained"] <= 1_000_000
        engine.clear_caches()
        assert engine.stats()["buffers"]["retained"] == 0
    with td.CpuEngine(1, buffer_bytes=0) as engine:
        engine.matmul(a, a)
        gc.collect()
        assert engine.stats()["buffers"]["retained"] == 0
    with pytest.raises(td.ArgumentError, match="buffer_bytes"):
        td.CpuEngine(1, buffer_bytes=-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("threads", [1, 2])
def test_stale_nan_in_recycled_memory_never_appears(dtype: type, threads: int) -> None:
    """C-OUT-04: what the last result left behind is not read."""
    rng = np.random.default_rng(3)
    with td.CpuEngine(threads) as engine:
        for n in (129, 200, 257):
            a = rng.integers(-3, 4, (n, n)).astype(dtype)
            poisoned = [engine.matmul(a, a) for _ in range(3)]
            for array in poisoned:
                array.fill(np.nan)
            del poisoned, array
            gc.collect()
            np.testing.assert_array_equal(engine.matmul(a, a), a @ a)
            np.testing.assert_array_equal(engine.einsum("ij,jk->ki", a, a), (a @ a).T)
            np.testing.assert_array_equal(engine.einsum("ij,kj,kl->il", a, a, np.eye(n, dtype=dtype)), a @ a.T)


def test_a_result_that_cannot_exist_is_a_typed_error() -> None:
    """C-OUT-05: nothing is written, and the engine goes on."""
    with td.CpuEngine(1) as engine:
        x = np.broadcast_to(np.float64(1), (1 << 31,))
        with pytest.raises((td.SizeOverflowError, td.OutOfMemoryError)):
            engine.einsum("i,j,k->ijk", x, x, x)
        y = np.broadcast_to(np.float64(1), (1 << 24,))
        with pytest.raises((td.SizeOverflowError, td.OutOfMemoryError)):
            engine.einsum("i,j->ij", y, y)
        assert engine.state == "open"
        np.testing.assert_array_equal(engine.matmul(np.eye(2), np.eye(2)), np.eye(2))
