"""C-THR-01 to C-THR-08: engines under many calls, in lanes, on small stacks, under locks; what could hang has an end."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = [
    pytest.mark.timeout(120),
    # More threads than CPUs are the point.
    pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning"),
]


def small(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Small integers: every product and sum is exact."""
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(float)


@pytest.fixture
def lanes() -> Iterator[td.Lanes]:
    """Eight lanes of two threads each."""
    lanes = td.Lanes([td.CpuEngine(threads=2, batch="outer") for _ in range(8)])
    yield lanes
    lanes.close()
    for engine in lanes.engines:
        engine.close()


# --- C-THR-01 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 8, 64])
def test_thr_01_small_work_wakes_nobody_at_any_width(width: int) -> None:
    """C-THR-01: every operation, up to 128, on engines of more threads than CPUs."""
    with td.CpuEngine(width) as engine, td.CpuEngine.serial() as serial:
        for n in (1, 2, 4, 8, 16, 32, 38, 64, 128):
            a = np.random.default_rng(n).standard_normal((n, n)) + n * np.eye(n)
            h, p = a + a.T, a @ a.T + np.eye(n)
            calls: list[Callable[[td.CpuEngine], Any]] = [
                lambda e: e.linalg.solve(a, a[0]),
                lambda e: e.linalg.svd(a),
                lambda e: e.linalg.svdvals(a),
                lambda e: e.linalg.eigh(h),
                lambda e: e.linalg.qr(a),
                lambda e: e.linalg.cholesky(p),
            ]
            if n < 128:
                calls += [lambda e: e.matmul(a, a), lambda e: e.einsum("ij,kj->ki", a, a), lambda e: e.gemm(a, a)]
            for call in calls:
                before = engine.stats()["pool"]
                found = call(engine)
                assert engine.stats()["pool"] == before, n
                expected = call(serial)
                pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
                for x, y in pairs:
                    assert x.tobytes() == y.tobytes()


# --- C-THR-02 ----------------------------------------------------------------------------------------------------


def test_thr_02_a_view_of_33_million_elements_is_a_view() -> None:
    """C-THR-02 for the views that exist: einsum of one operand with nothing summed. Nothing is copied or allocated."""
    a = np.zeros((4096, 8192))  # 33,554,432 elements, which are never touched
    with td.CpuEngine(2) as engine:
        before = engine.stats()["buffers"]
        for subscripts, expected in (
            ("ij->ij", a),
            ("ij->ji", a.T),
            ("ji", a.T),
            ("...j->j...", a.T),
        ):
            found = engine.einsum(subscripts, a)
            assert found.__array_interface__["data"] == expected.__array_interface__["data"]
            assert (found.shape, found.strides) == (expected.shape, expected.strides)
        cube = a.reshape(2048, 2048, 8)
        found, expected = engine.einsum("iij->ji", cube), np.einsum("iij->ji", cube)
        assert found.__array_interface__["data"] == expected.__array_interface__["data"]
        assert (found.shape, found.strides) == (expected.shape, expected.strides)
        wide = np.broadcast_to(np.float64(3), (1 << 25,))
        assert engine.einsum("i->i", wide).strides == (0,)
        assert engine.stats()["buffers"] == before


# --- C-THR-03 ----------------------------------------------------------------------------------------------------

EXIT_NORMALLY = """
import gc, os, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np, treadle as td

a = np.random.default_rng(1).standard_normal((500, 500))
engine, dropped = td.CpuEngine({width}), td.CpuEngine({width})
bits = engine.matmul(a, a).tobytes()
values = engine.linalg.svd(np.stack([a[:64, :64]] * 8)).S.tobytes()
dropped.matmul(a, a)
lanes = td.Lanes([td.CpuEngine({width}), td.CpuEngine({width})])
td.map_in_lanes(lambda x, e: e.matmul(a, a), range(4), lanes)
sys.stdout.flush()
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    begin = time.monotonic()
    linalg = engine.linalg
    calls = [
        lambda: engine.matmul(a, a), lambda: engine.matmul(a[:2, :2], a[:2, :2]), lambda: engine.gemm(a, a),
        lambda: engine.dot(a, a), lambda: engine.tensordot(a, a), lambda: engine.inner(a, a),
        lambda: engine.outer(a[0], a[0]), lambda: engine.vdot(a, a), lambda: engine.vecdot(a, a),
        lambda: engine.matvec(a, a[0]), lambda: engine.vecmat(a[0], a), lambda: engine.kron(a[:2, :2], a[:2, :2]),
        lambda: engine.multi_dot([a, a, a]), lambda: engine.einsum("ij,jk", a, a),
        lambda: engine.einsum("ij,jk,kl", a, a, a), lambda: engine.einsum("ij->", a),
        lambda: linalg.svd(a), lambda: linalg.svdvals(a), lambda: linalg.qr(a), lambda: linalg.eigh(a),
        lambda: linalg.eigvalsh(a), lambda: linalg.solve(a, a), lambda: linalg.cholesky(a),
        lambda: linalg.svd(a[:2, :2]), engine.stats, engine.clear_caches,
        lambda: td.map_in_lanes(lambda x, e: x, [1], lanes), lambda: lanes.run(lambda lane: 0),
        lambda: list(td.imap_in_lanes(lambda x, e: x, [1], lanes)),
    ]
    for place, call in enumerate(calls):
        try:
            call()
        except td.ForkedEngineError:
            continue
        sys.exit(f"call {{place}} was not refused")
    refused = time.monotonic() - begin
    dropped = None
    gc.collect()
    fresh = td.CpuEngine({width})
    assert fresh.matmul(a, a).tobytes() == bits
    engine.rebuild()
    assert engine.matmul(a, a).tobytes() == bits
    assert engine.linalg.svd(np.stack([a[:64, :64]] * 8)).S.tobytes() == values
    again = td.Lanes([td.CpuEngine({width}), td.CpuEngine({width})])
    for got in td.map_in_lanes(lambda x, e: e.matmul(a, a), range(3), again):
        assert got.tobytes() == bits
    assert refused < 1, refused
    # Everything is still there: the interpreter ends as it does, with the inherited engines and lanes alive.
    print("child", flush=True)
    os.write(write, repr(time.monotonic()).encode())
    sys.exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
ended = time.monotonic()
os.close(write)
took = ended - float(os.read(read, 100) or b"nan")
assert engine.matmul(a, a).tobytes() == bits
assert len(td.map_in_lanes(lambda x, e: x, range(3), lanes)) == 3
print("parent", status, took < 1 or took)
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system has no fork")
@pytest.mark.parametrize("width", [1, 3])
def test_thr_03_every_operation_is_refused_in_a_child_that_ends_as_programs_end(run_python: Run, width: int) -> None:
    """C-THR-03: also the interpreter's own exit, with inherited engines, lanes and workers still referenced."""
    done = run_python("-c", EXIT_NORMALLY.format(width=width), timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["child", "parent 0 True"], done.stderr


# --- C-THR-04 ----------------------------------------------------------------------------------------------------


def pooled(engine: td.CpuEngine, rounds: int, seed: int = 0) -> None:
    """Products that enter the pool each time (the policy asks for it), now hot, now after the workers went to sleep."""
    items = small((engine.threads, 3, 4), seed)
    right = small((engine.threads, 4, 5), seed + 1)
    expected = np.einsum("bij,bjk->bik", items, right).tobytes()
    chance = random.Random(seed)
    begin = engine.stats()["pool"]["dispatches"]
    for turn in range(rounds):
        found = engine.matmul(items, right)
        if turn % 64 == 0:
            assert found.tobytes() == expected
            # Longer than the workers poll, at times.
            time.sleep(chance.random() * 2e-4)
    assert engine.stats()["pool"]["dispatches"] - begin == rounds


@pytest.mark.parametrize(
    ("width", "rounds"),
    [
        (2, 30_000),
        (3, 20_000),
        (8, 5_000),
        (80, 1_000),
        pytest.param(2, 1_000_000, marks=pytest.mark.slow),
        pytest.param(8, 200_000, marks=pytest.mark.slow),
        pytest.param(80, 50_000, marks=pytest.mark.slow),
    ],
)
def test_thr_04_very_many_pooled_products_from_one_thread(width: int, rounds: int) -> None:
    """C-THR-04: a million of them, and width 80 on any machine."""
    with td.CpuEngine(width, batch="outer") as engine:
        pooled(engine, rounds)
        assert engine.stats()["pool"]["wakeups"] > 0


@pytest.mark.parametrize("rounds", [1_000, pytest.param(125_000, marks=pytest.mark.slow)])
def test_thr_04_very_many_pooled_products_from_eight_lanes(lanes: td.Lanes, rounds: int) -> None:
    """C-THR-04: eight leaders with a worker each, on fewer CPUs; a million in all."""
    assert lanes.run(lambda lane: pooled(lane.engine, rounds, lane.index)) == [None] * 8


@pytest.mark.parametrize(
    ("width", "rounds"), [(2, 150), (3, 100), (80, 20), pytest.param(80, 1000, marks=pytest.mark.slow)]
)
def test_thr_04_pooled_products_with_work_for_every_worker(width: int, rounds: int) -> None:
    """C-THR-04: tiles inside one product and items of a batch, in turn; the workers take part and go to sleep."""
    a, batch = small((260, 250)), small((2 * width, 64, 64))
    expected, products = (a @ a.T).tobytes(), (batch @ batch).tobytes()
    with td.CpuEngine(width) as engine:
        for turn in range(rounds):
            assert engine.matmul(a, a.T).tobytes() == expected
            with engine.policy(batch=("auto", "outer", "inner", ("split", 2))[turn % 4]):
                assert engine.matmul(batch, batch).tobytes() == products
            if turn % 10 == 0:
                time.sleep(0.002)
        pool = engine.stats()["pool"]
    assert pool["dispatches"] >= rounds
    assert pool["workers"] == width - 1


@pytest.mark.parametrize("rounds", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_thr_04_pools_that_come_and_go(rounds: int) -> None:
    """C-THR-04: the first and the last call of a pool, at once after its start and at once before its end."""
    a = small((2, 3, 3))
    expected = (a @ a).tobytes()
    for turn in range(rounds):
        for width in (2, 3, 80 if turn % 10 == 0 else 8):
            with td.CpuEngine(width, batch="outer") as engine:
                if turn % 2:
                    assert engine.matmul(a, a).tobytes() == expected
                    assert engine.stats()["pool"]["dispatches"] == 1


# --- C-THR-05 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [25, pytest.param(2_000, marks=pytest.mark.slow)])
def test_thr_05_a_lock_around_engine_calls_and_in_the_progress_callback(rounds: int) -> None:
    """C-THR-05: lanes that share a lock and a plan cache at capacity, and a callback that takes the same lock."""
    cache, lock = td.PlanCache(1), threading.Lock()
    lanes = td.Lanes([td.CpuEngine(threads=2, batch="outer", plan_cache=cache) for _ in range(3)])
    shapes = [small((2, n, n + 1), n) for n in (2, 3, 4)]
    expected = [np.einsum("bij,bkj->bik", a, a).tobytes() for a in shapes]
    large = np.asfortranarray(small((220, 220)))
    product = (large @ large.T).tobytes()
    seen: list[int] = []

    def body(item: int, engine: td.CpuEngine) -> bytes:
        a = shapes[item % 3]
        outside = engine.einsum("bij,bkj->bik", a, a).tobytes()
        with lock:
            # Long enough to give the interpreter back, now and then.
            if item == 7:
                assert engine.matmul(large, large.T).tobytes() == product
            inside = engine.einsum("bij,bkj->bik", a, a).tobytes()
        assert inside == outside
        return inside

    def progress(done: int, total: int | None) -> None:
        with lock:
            seen.append(done)
            cache.stats()

    try:
        for turn in range(rounds):
            seen.clear()
            items = range(12) if turn % 2 else iter(range(12))
            if turn % 3:
                got = td.map_in_lanes(body, items, lanes, progress=progress)
            else:
                got = list(td.imap_in_lanes(body, items, lanes, progress=progress))
            assert got == [expected[item % 3] for item in range(12)]
            assert seen == list(range(1, 13))
            if turn % 5 == 0:
                cache.clear()
        assert cache.stats()["evictions"] > 0
        assert len(cache) <= 1
    finally:
        lanes.close()
        for engine in lanes.engines:
            engine.close()


def test_thr_05_threads_that_share_one_engine_a_lock_and_a_lease() -> None:
    """C-THR-05: the lock is taken outside the lease here and inside it there is only the engine; nobody waits for ever."""
    lock, a, results = threading.Lock(), small((2, 5, 5)), []
    expected = (a @ a).tobytes()
    with td.CpuEngine(2, batch="outer") as engine:

        def work() -> None:
            for _ in range(200):
                with lock, engine.lease(timeout=60):
                    results.append(engine.matmul(a, a).tobytes() == expected)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads)
    assert results == [True] * 800


# --- C-THR-06 ----------------------------------------------------------------------------------------------------

SMALL_STACK = """
import asyncio, concurrent.futures, sys, threading
import numpy as np, treadle as td

width, sizes, where = int(sys.argv[1]), [int(n) for n in sys.argv[3].split(",")], sys.argv[2]
threading.stack_size(256 * 1024)
assert threading.stack_size() == 256 * 1024
rng = np.random.default_rng(6)

def compute(engine, n, dtype):
    linalg = engine.linalg
    a = rng.standard_normal((n, n)).astype(dtype)
    h = a + a.T
    p = a @ a.T + n * np.eye(n, dtype=dtype)
    u, s, vh = linalg.svd(a)
    assert np.linalg.norm((u * s) @ vh - a) < 1e-9 * n
    w, v = linalg.eigh(h)
    assert np.linalg.norm((v * w) @ v.conj().T - h) < 1e-9 * n
    assert np.linalg.norm(linalg.svdvals(a) - s) < 1e-9 * n
    assert np.linalg.norm(linalg.eigvalsh(h) - w) < 1e-9 * n
    q, r = linalg.qr(a)
    assert np.linalg.norm(q @ r - a) < 1e-9 * n
    assert np.linalg.norm(a @ linalg.solve(p, p) - a) < 1e-6 * n
    low = linalg.cholesky(p)
    assert np.linalg.norm(low @ low.conj().T - p) < 1e-9 * n * n
    linalg.svd(a[:, : n // 3 + 1])
    linalg.svd(a[: n // 3 + 1], full_matrices=False)
    assert np.linalg.norm(engine.matmul(a, h) - a @ h) < 1e-9 * n * n
    assert np.linalg.norm(engine.einsum("ij,kj,kl->il", a, a, a) - a @ a.T @ a) < 1e-7 * n**3
    return n

def all_of_them(engine):
    done = [compute(engine, n, dtype) for n in sizes for dtype in (np.float64, np.complex128)]
    if where != "lane":
        stack = np.stack([rng.standard_normal((40, 40))] * 16)
        assert engine.linalg.svd(stack).S.shape == (16, 40)
    return done

if where == "thread":
    with td.CpuEngine(width) as engine:
        box = []
        thread = threading.Thread(target=lambda: box.append(all_of_them(engine)))
        thread.start()
        thread.join()
        [done] = box
elif where == "asyncio":
    async def main():
        with concurrent.futures.ThreadPoolExecutor(2) as pool, td.CpuEngine(width) as one, td.CpuEngine(width) as two:
            loop = asyncio.get_running_loop()
            calls = [loop.run_in_executor(pool, all_of_them, engine) for engine in (one, two)]
            ticks = 0
            while not all(call.done() for call in calls):
                await asyncio.sleep(0.002)
                ticks += 1
            assert ticks > 3, ticks
            return (await asyncio.gather(*calls))[0]
    done = asyncio.run(main())
else:
    with td.Lanes([td.CpuEngine(width), td.CpuEngine(width)]) as lanes:
        done = lanes.run(lambda lane: all_of_them(lane.engine))[1]
print(done)
"""


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("where", ["thread", "asyncio", "lane"])
@pytest.mark.parametrize(
    "sizes", ["100,150", pytest.param("100,300,513,1000", marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_thr_06_linear_algebra_on_a_small_stack(run_python: Run, width: int, where: str, sizes: str) -> None:
    """C-THR-06: threads of 256 KiB, an executor under asyncio, and lanes; an overflow would end the child by a signal."""
    done = run_python(
        "-W", "ignore", "-c", SMALL_STACK, width, where, sizes, timeout=500, env={"OPENBLAS_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    expected = [int(n) for n in sizes.split(",") for _ in range(2)]
    assert done.stdout.strip() == str(expected)


LARGE_ON_A_SMALL_STACK = """
import sys, threading, numpy as np, treadle as td
threading.stack_size(256 * 1024)
rng, errors = np.random.default_rng(7), []
a = rng.standard_normal((2000, 2000))
def work():
    try:
        with td.CpuEngine(int(sys.argv[1])) as engine:
            s = engine.linalg.svdvals(a)
            w, v = engine.linalg.eigh(a + a.T)
            q, r = engine.linalg.qr(a)
            x = engine.linalg.solve(a, a[0])
            low = engine.linalg.cholesky(a @ a.T + 2000 * np.eye(2000))
            assert abs((s**2).sum() - (a**2).sum()) < 1e-9 * (a**2).sum()
            assert np.linalg.norm((v * w) @ v.T - a - a.T) < 1e-9 * s[0]
            assert np.linalg.norm(q @ r - a) < 1e-9 * s[0]
            assert np.linalg.norm(a @ x - a[0]) < 1e-6
            assert low.shape == a.shape
    except BaseException as error:
        errors.append(error)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(errors)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("width", [1, 2])
def test_thr_06_matrices_of_2000_on_a_small_stack(run_python: Run, width: int) -> None:
    """C-THR-06 at its largest size."""
    done = run_python("-c", LARGE_ON_A_SMALL_STACK, width, timeout=500)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


# --- C-THR-07 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subscripts", ["ij,jk->ik", "bij,bjk->bik", "aibj,jcid->abcd"])
def test_thr_07_complex_contractions_are_a_few_times_the_real_ones(subscripts: str) -> None:
    """C-THR-07: four to five times is asked and measured elsewhere; a factor of ten would be another algorithm."""
    shapes = {
        "ij,jk->ik": [(256, 256)] * 2,
        "bij,bjk->bik": [(16, 96, 96)] * 2,
        "aibj,jcid->abcd": [(16, 16, 16, 16)] * 2,
    }[subscripts]
    real = [small(shape, seed) for seed, shape in enumerate(shapes)]
    both = [small(shape, seed) + 1j * small(shape, seed + 5) for seed, shape in enumerate(shapes)]
    best = {"real": np.inf, "both": np.inf}
    with td.CpuEngine.serial() as engine:
        np.testing.assert_array_equal(engine.einsum(subscripts, *both), np.einsum(subscripts, *both, optimize=True))
        for turn in range(200):
            for name, arrays in (("real", real), ("both", both)):
                begin = time.perf_counter()
                engine.einsum(subscripts, *arrays)
                best[name] = min(best[name], time.perf_counter() - begin)
            # Another process may take the core for some of these.
            if turn > 8 and best["both"] / best["real"] < 6:
                break
    assert best["both"] / best["real"] < 10


# --- C-THR-08 ----------------------------------------------------------------------------------------------------

BATCHES = [(64, 64), (8, 256)]


@pytest.mark.parametrize(("count", "n"), BATCHES)
@pytest.mark.parametrize(
    "dtype",
    [
        np.float64,
        np.complex64,
        pytest.param(np.float32, marks=pytest.mark.slow),
        pytest.param(np.complex128, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("width", [1, 2, 3, 8])
def test_thr_08_one_level_of_a_batch_is_parallel(count: int, n: int, dtype: Any, width: int) -> None:
    """C-THR-08: one dispatch for the items with sequential kernels, or one inside each kernel; the same bits."""
    a = small((count, n, n), 1).astype(dtype)
    b = (
        np.random.default_rng(n).standard_normal((count, n, n)) * (1 + 2j if np.dtype(dtype).kind == "c" else 1)
    ).astype(dtype)
    with td.CpuEngine.serial() as serial:
        expected, bits = serial.matmul(a, a), serial.matmul(b, b).tobytes()
    # numpy has no quick product of a complex batch.
    real = small((count, n, n), 1)
    np.testing.assert_array_equal(expected, real @ real)
    with td.CpuEngine(width) as engine:

        def dispatches(policy: Any) -> int:
            with engine.policy(batch=policy):
                before = engine.stats()["pool"]["dispatches"]
                assert engine.matmul(b, b).tobytes() == bits, policy
                once = engine.stats()["pool"]["dispatches"] - before
                np.testing.assert_array_equal(engine.matmul(a, a), expected)
                np.testing.assert_array_equal(engine.einsum("bij,bjk->bik", a, a), expected)
                assert engine.stats()["pool"]["dispatches"] - before == 3 * once, "the same way each time"
                return once

        assert dispatches("sequential") == 0
        if width == 1:
            assert [dispatches(policy) for policy in ("auto", "outer", "inner", ("split", 1))] == [0, 0, 0, 0]
            return
        assert dispatches("outer") == 1
        # 64 x 64 is one tile, so there is nothing to share inside an item.
        assert dispatches("inner") == (0 if n == 64 else count)
        # Automatically: across the items here, for there are as many as threads.
        assert dispatches("auto") == 1
        assert dispatches(("split", 1)) == dispatches("inner")
        assert dispatches(("split", width)) == dispatches("outer")
        # Two groups of slots: the items across the groups, and what a group has beyond one slot inside its items.
        assert 1 <= dispatches(("split", 2)) <= 1 + count


@pytest.mark.parametrize(("count", "n"), BATCHES)
def test_thr_08_a_policy_that_cannot_be_honoured_writes_nothing(count: int, n: int) -> None:
    """C-THR-08: ``UnsupportedError`` before any write, an unknown policy lists the valid ones, and the engine goes on."""
    a = small((count, n, n))
    out = np.full_like(a, 7)
    with td.CpuEngine(2) as engine:
        for lanes in (3, 64):
            with pytest.raises(td.UnsupportedError, match=rf"\('split', {lanes}\)"):
                with engine.policy(batch=("split", lanes)):
                    engine.matmul(a, a, out=out)
        for unknown in ("both", "Outer", "", ("split", "x"), ("outer", 2), 3, ["split", 2, 3]):
            with pytest.raises((td.ArgumentError, TypeError), match="sequential.*outer.*inner.*split"):
                with engine.policy(batch=unknown):  # type: ignore[arg-type]
                    engine.matmul(a, a, out=out)
        assert engine.batch == "auto"
        assert (out == 7).all()
        np.testing.assert_array_equal(engine.matmul(a, a, out=out), a @ a)
    with pytest.raises((td.ArgumentError, TypeError), match="sequential.*outer.*inner.*split"):
        td.CpuEngine(2, batch="both")  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [2, 3, 8])
def test_thr_08_batches_of_factorisations_go_parallel_across_their_items_only(width: int) -> None:
    """C-THR-08 for linear algebra: one dispatch for the batch at most, and none inside an item."""
    a = np.random.default_rng(8).standard_normal((24, 48, 48))
    p = a @ a.swapaxes(-1, -2) + 48 * np.eye(48)
    with td.CpuEngine(width) as engine, td.CpuEngine.serial() as serial:
        for name, arguments in (("svd", (a,)), ("qr", (a,)), ("eigh", (p,)), ("cholesky", (p,)), ("solve", (a, a))):
            one = getattr(serial.linalg, name)(*arguments)
            for policy, most in (("auto", 1), ("sequential", 0), ("outer", 1), ("inner", 0), (("split", 2), 1)):
                with engine.policy(batch=policy):
                    before = engine.stats()["pool"]["dispatches"]
                    found = getattr(engine.linalg, name)(*arguments, check_finite=False)
                    assert engine.stats()["pool"]["dispatches"] - before <= most, (name, policy)
                pairs = zip(found, one, strict=True) if isinstance(found, tuple) else [(found, one)]
                for x, y in pairs:
                    assert x.tobytes() == y.tobytes(), (name, policy)
            with pytest.raises(td.UnsupportedError, match="split"), engine.policy(batch=("split", 9)):
                getattr(engine.linalg, name)(*arguments)
