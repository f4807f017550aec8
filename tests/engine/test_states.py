"""Contract 4: one operation at a time, refused at once; broken, closed, leased and rebuilt engines."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import treadle as td


@contextmanager
def busy(engine: td.CpuEngine, milliseconds: int = 2000) -> Iterator[threading.Thread]:
    """Keep the engine busy on another thread, and wait until it is."""
    thread = threading.Thread(target=engine._sleep, args=(milliseconds,))
    thread.start()
    while engine.state != "busy":
        time.sleep(0.001)
    try:
        yield thread
    finally:
        thread.join()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_second_thread_is_refused_at_once(threads: int) -> None:
    a = np.eye(3)
    with td.CpuEngine(threads) as engine, busy(engine, 400):
        calls: list[Callable[[], object]] = [
            lambda: engine.matmul(a, a),
            lambda: engine.einsum("ij,jk", a, a),
            lambda: engine.einsum("ij,jk", a, a.astype(np.float32)),
            lambda: engine.linalg.svd(a),
            engine.stats,
            engine.clear_caches,
            engine.rebuild,
            engine.close,
        ]
        for call in calls:
            begin = time.perf_counter()
            with pytest.raises(td.EngineBusyError, match="another thread"):
                call()
            assert time.perf_counter() - begin < 0.2
        assert engine.state == "busy"


def test_the_engine_works_after_a_refusal() -> None:
    with td.CpuEngine(2) as engine:
        with busy(engine, 50), pytest.raises(td.EngineBusyError):
            engine.matmul(np.eye(2), np.eye(2))
        np.testing.assert_array_equal(engine.matmul(np.eye(2), np.eye(2)), np.eye(2))
        assert engine.state == "open"


def test_a_lease_waits_and_keeps_others_out() -> None:
    with td.CpuEngine(1) as engine:
        with busy(engine, 150), engine.lease(timeout=30) as leased:
            assert leased is engine
            assert engine.state == "busy"
            np.testing.assert_array_equal(engine.matmul(np.eye(2), np.eye(2)), np.eye(2))
            seen: list[BaseException] = []

            def other() -> None:
                try:
                    engine.matmul(np.eye(2), np.eye(2))
                except td.EngineBusyError as error:
                    seen.append(error)

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            assert len(seen) == 1
            assert "lease" in str(seen[0])
            with engine.lease():  # leases of one thread nest
                pass
            assert engine.state == "busy"
        assert engine.state == "open"


def test_a_lease_that_expires_is_busy() -> None:
    with td.CpuEngine(1) as engine, busy(engine, 500):
        begin = time.perf_counter()
        with pytest.raises(td.EngineBusyError, match="0.05"), engine.lease(timeout=0.05):
            pass
        assert 0.04 < time.perf_counter() - begin < 0.4


@pytest.mark.parametrize("timeout", [-1.0, float("nan")])
def test_a_lease_refuses_impossible_waits(timeout: float) -> None:
    with pytest.raises(td.ArgumentError, match="timeout"):
        td.CpuEngine.serial().lease(timeout=timeout)


def test_threads_take_turns_by_leases() -> None:
    total = 0
    with td.CpuEngine(2) as engine:

        def work() -> None:
            nonlocal total
            for _ in range(50):
                with engine.lease(timeout=60):
                    total += int(engine.dot(np.ones(3), np.ones(3)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert total == 4 * 50 * 3


@pytest.mark.parametrize(("threads", "place"), [(1, "caller"), (2, "caller"), (2, "worker"), (3, "worker")])
def test_a_panic_breaks_the_engine_until_rebuild(threads: int, place: str) -> None:
    """Contract 9: InternalError, an Exception; other engines are fine; rebuild() makes it new."""
    with td.CpuEngine(threads) as engine, td.CpuEngine(2) as other:
        with pytest.raises(td.InternalError, match="injected"):
            engine._panic(place)
        assert engine.state == "broken"
        for call in (lambda: engine.matmul(np.eye(2), np.eye(2)), engine.stats, lambda: engine.linalg.svd(np.eye(2))):
            with pytest.raises(td.EngineBrokenError, match="rebuild"):
                call()
        np.testing.assert_array_equal(other.matmul(np.eye(2), np.eye(2)), np.eye(2))
        engine.rebuild()
        assert engine.state == "open"
        assert engine.stats()["plan_cache"]["entries"] == 0
        big = np.arange(300.0 * 300).reshape(300, 300) % 5
        np.testing.assert_array_equal(engine.matmul(big, big), big @ big)


def test_a_closed_engine_refuses_and_closing_twice_is_nothing() -> None:
    engine = td.CpuEngine(2)
    kept = engine.matmul(np.ones((200, 200)), np.ones((200, 200)))
    engine.close()
    engine.close()
    assert engine.state == "closed"
    for call in (lambda: engine.matmul(kept, kept), engine.stats, engine.rebuild, lambda: engine.lease().__enter__()):
        with pytest.raises(td.EngineClosedError, match="closed"):
            call()
    assert kept.sum() == 200.0**3
    assert repr(engine).startswith("CpuEngine(threads=2")


def test_an_engine_is_not_pickled_and_its_spec_is() -> None:
    with td.CpuEngine(2, batch=("split", 2), name="solver", buffer_bytes=12345, plan_cache=td.PlanCache(7)) as engine:
        with pytest.raises(TypeError, match=r"spec\(\)"):
            pickle.dumps(engine)
        spec = engine.spec()
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            assert pickle.loads(pickle.dumps(spec, protocol)) == spec
        with spec.build() as twin:
            assert twin.spec() == spec
            assert (twin.threads, twin.batch, twin.name) == (2, ("split", 2), "solver")
            assert twin.plan_cache.capacity == 7
        with pytest.raises(AttributeError):
            spec.threads = 3  # type: ignore[misc]


def test_policies_are_scoped() -> None:
    with td.CpuEngine(2) as engine:
        assert engine.batch == "auto"
        with engine.policy(batch="outer") as inside:
            assert inside is engine
            assert engine.batch == "outer"
            with engine.policy(batch=("split", 2)):
                assert engine.batch == ("split", 2)
            assert engine.batch == "outer"
        assert engine.batch == "auto"
        with pytest.raises(ZeroDivisionError), engine.policy(batch="inner"):
            _ = 1 / 0
        assert engine.batch == "auto"


@pytest.mark.parametrize("batch", ["", "outter", 3, ("split", 0), ("split", -1), ("splat", 2), ("split",), None])
def test_an_unknown_policy_lists_the_valid_ones(batch: object) -> None:
    with td.CpuEngine(2) as engine, pytest.raises(td.ArgumentError, match='"sequential".*"split"'):
        engine.policy(batch=batch)  # type: ignore[arg-type]


def test_a_policy_that_cannot_be_honoured_is_refused() -> None:
    with td.CpuEngine(2) as engine, pytest.raises(td.UnsupportedError, match="3"):
        engine.policy(batch=("split", 3))
    with pytest.raises(td.UnsupportedError, match="2"):
        td.CpuEngine(1, batch=("split", 2))


@pytest.mark.parametrize("threads", [0, -1, 1 << 40])
def test_impossible_widths(threads: int) -> None:
    with pytest.raises(td.ArgumentError, match="threads"):
        td.CpuEngine(threads)


@pytest.mark.parametrize("threads", [1.5, "2", True, [2]])
def test_widths_that_are_no_int(threads: object) -> None:
    with pytest.raises(TypeError, match="threads"):
        td.CpuEngine(threads)  # type: ignore[arg-type]


def test_a_numpy_int_is_a_width() -> None:
    with td.CpuEngine(np.int64(2)) as engine:  # type: ignore[arg-type]
        assert engine.threads == 2


def test_the_default_width_is_what_the_process_may_use() -> None:
    import os

    with td.CpuEngine() as engine:
        assert 1 <= engine.threads <= len(os.sched_getaffinity(0))


def test_a_pool_serves_one_engine() -> None:
    pool = td.Pool(threads=2, name="mine")
    with td.CpuEngine(pool=pool) as engine:
        assert (engine.threads, engine.name) == (2, "mine")
        with pytest.raises(td.ArgumentError, match="already"):
            td.CpuEngine(pool=pool)
        with pytest.raises(td.ArgumentError, match="pool"):
            td.CpuEngine(2, pool=td.Pool(threads=1))


def test_affinity_is_checked_before_a_thread_starts() -> None:
    import os

    allowed = sorted(os.sched_getaffinity(0))
    with td.CpuEngine(2, affinity=[allowed[0], allowed[-1]]) as engine:
        assert engine.spec().affinity == (allowed[0], allowed[-1])
        assert os.sched_getaffinity(0) == set(allowed), "the caller's own thread is never pinned"
    with pytest.raises(td.ArgumentError, match="affinity names 1 CPUs for 2 threads"):
        td.CpuEngine(2, affinity=[allowed[0]])
    with pytest.raises(td.ArgumentError, match="100000"):
        td.CpuEngine(2, affinity=[allowed[0], 100_000])


@pytest.mark.parametrize(
    "options",
    [
        {"buffer_bytes": -1},
        {"buffer_bytes": 1 << 70},
        {"buffer_bytes": 1.5},
        {"affinity": [-1, 0]},
        {"affinity": [0, 1 << 70]},
        {"affinity": ["x", 0]},
        {"batch": ("split", True)},
    ],
)
def test_impossible_options_are_argument_errors(options: dict[str, Any]) -> None:
    with pytest.raises(td.ArgumentError, match="valid are"):
        td.CpuEngine(2, **options)


def test_impossible_stacks_are_argument_errors() -> None:
    for stack in (-1, 1 << 70, 1000):
        with pytest.raises(td.ArgumentError, match="stack_bytes"):
            td.Pool(2, stack_bytes=stack)


@pytest.mark.parametrize("isa", ["sse9", "", "AVX2"])
def test_an_unknown_isa_lists_the_valid_ones(isa: str) -> None:
    with pytest.raises(td.ArgumentError, match="scalar.*avx2.*avx512.*neon"):
        td.CpuEngine(1, isa=isa)


def test_engines_can_be_weakly_referenced_and_die() -> None:
    import weakref

    engine = td.CpuEngine(2)
    reference = weakref.ref(engine)
    del engine
    gc.collect()
    assert reference() is None
