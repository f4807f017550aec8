"""C-EIN-09 and C-EIN-13: a plan is used for its own problem alone, and warm calls never miss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import treadle as td

LAYOUTS = {
    "C": lambda x: np.ascontiguousarray(x),
    "F": lambda x: np.asfortranarray(x),
    "reversed": lambda x: np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1],
    "strided": lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
}


def problems() -> Iterator[tuple[np.ndarray, np.ndarray, list[bool]]]:
    rng = np.random.default_rng(5)
    for size in (2, 3, 2, 5, 3):
        for dtype in (np.float32, np.float64, np.complex128):
            for left in LAYOUTS.values():
                for right in LAYOUTS.values():
                    a = rng.integers(-3, 4, (size, 4)).astype(dtype)
                    b = rng.integers(-3, 4, (4, size + 1)).astype(dtype)
                    if dtype == np.complex128:
                        a, b = a + 1j * rng.integers(-3, 4, a.shape), b - 1j * rng.integers(-3, 4, b.shape)
                    for conj in ([False, False], [True, False], [False, True]):
                        yield left(a), right(b), conj


@pytest.mark.parametrize("capacity", [0, 1, 2, 5, 512])
@pytest.mark.parametrize("hash_bits", [64, 0])
def test_cached_equals_uncached(capacity: int, hash_bits: int) -> None:
    cache = td.PlanCache(capacity, _hash_bits=hash_bits)
    engines = [td.CpuEngine(1, plan_cache=cache), td.CpuEngine(2, plan_cache=cache)]
    for turn, (a, b, conj) in enumerate(problems()):
        left, right = (np.conj(x) if flag else x for x, flag in zip((a, b), conj, strict=True))
        engine = engines[turn % 2]
        result = engine.einsum("ij,jk->ik", a, b, conj=conj) if any(conj) else engine.einsum("ij,jk->ik", a, b)
        np.testing.assert_array_equal(result, left @ right)
        assert len(cache) <= capacity
    stats = cache.stats()
    assert stats["capacity"] == capacity
    assert stats["hits"] + stats["misses"] > 600
    for engine in engines:
        engine.close()


def test_warm_calls_never_miss() -> None:
    with td.CpuEngine(1) as engine:
        operands = [
            ("...ij,j...->i...", np.ones((3, 3)), np.ones(3)),
            ("ij,ixy,ji->xy", np.ones((5, 2)), np.ones((5, 5, 2)), np.ones((2, 5))),
            ("ij,jk", np.ones((4, 4)), np.ones((4, 4))),
        ]
        for _ in range(2):
            for subscripts, *arrays in operands:
                engine.einsum(subscripts, *arrays)
        before = engine.stats()["plan_cache"]
        for _ in range(100):
            for subscripts, *arrays in operands:
                engine.einsum(subscripts, *arrays)
        after = engine.stats()["plan_cache"]
    assert after["misses"] == before["misses"]
    assert after["hits"] == before["hits"] + 300
    assert after["bytes"] == before["bytes"] > 0


def test_clearing_counts_and_keeps_working() -> None:
    with td.CpuEngine(1) as engine:
        engine.einsum("ij,jk", np.eye(2), np.eye(2))
        assert engine.stats()["plan_cache"]["entries"] == 1
        engine.clear_caches()
        stats = engine.stats()["plan_cache"]
        assert (stats["entries"], stats["bytes"], stats["clears"]) == (0, 0, 1)
        np.testing.assert_array_equal(engine.einsum("ij,jk", np.eye(2), np.eye(2)), np.eye(2))


@pytest.mark.parametrize("capacity", [-1, 1 << 40])
def test_impossible_capacities(capacity: int) -> None:
    with pytest.raises(td.ArgumentError, match="capacity"):
        td.PlanCache(capacity)
