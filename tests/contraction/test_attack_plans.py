"""Plans under attack: other strides than planned, slices under a limit, pickles, many threads and many plans."""

from __future__ import annotations

import gc
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")


def network(rng: np.random.Generator) -> tuple[str, list[list[int]]]:
    """Three to eight small tensors, and an output of some of their labels."""
    labels = "abcdefghi"[: int(rng.integers(3, 10))]
    sizes = {label: int(rng.choice([1, 2, 2, 3, 3, 4])) for label in labels}
    terms = []
    for _ in range(int(rng.integers(3, 9))):
        drawn = [str(label) for label in rng.permutation(list(labels))[: int(rng.integers(1, 4))]]
        terms.append("".join([*drawn, *drawn[: int(rng.random() < 0.1)]]))
    used = sorted(set("".join(terms)))
    output = "".join(str(label) for label in rng.permutation([label for label in used if rng.random() < 0.4]))
    return f"{','.join(terms)}->{output}", [[sizes[label] for label in term] for term in terms]


@pytest.mark.parametrize("block", range(3))
def test_networks_under_a_limit_equal_the_plain_loop(
    engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, block: int
) -> None:
    sliced = 0
    for seed in range(block * 60, block * 60 + 60):
        rng = np.random.default_rng([seed, 17])
        text, shapes = network(rng)
        dtype = np.dtype(str(rng.choice(["float64", "complex128", "int32", "uint8", "bool"])))
        arrays = [
            lay_out(small(shape, dtype, seed + at, 1), str(rng.choice(LAYOUTS))) for at, shape in enumerate(shapes)
        ]
        right = np.asarray(np.einsum(text, *arrays, optimize=False))
        most = int(rng.choice([1, 2, 4, 8, 16, 32, 64]))
        how: Any = ["auto", "greedy", "optimal", True, False][int(rng.integers(5))]
        engine = list(engines.values())[seed % len(engines)]
        where = f"{text} {shapes} {dtype} {most} {how} {engine} seed {seed}"
        plan = engine.plan(text, *arrays, memory_limit=most, optimize=how)
        sliced += bool(plan.slices)
        assert (plan(*arrays) == right).all(), where
        assert (engine.einsum(text, *arrays, memory_limit=most, optimize=how) == right).all(), where
        out = lay_out(np.zeros(right.shape, dtype), str(rng.choice(LAYOUTS)))
        out[...] = np.nan if dtype.kind in "fc" else 1
        assert (plan(*arrays, out=out) == right).all(), where
        if dtype.kind != "b":
            old = small(right.shape, dtype, seed, 2)
            for alpha, beta in ((2, 3), (0, 3), (1, 1)):
                out[...] = old
                plan(*arrays, out=out, alpha=alpha, beta=beta)
                assert (out == (alpha * right + beta * old).astype(dtype)).all(), f"{alpha} {beta} {where}"
        held = [at for at in range(len(arrays)) if rng.random() < 0.4][: len(arrays) - 1]
        copies = [np.ascontiguousarray(array) if at in held else array for at, array in enumerate(arrays)]
        plan = engine.plan(text, *copies, memory_limit=most, optimize=how, constants=held)
        free = [array for at, array in enumerate(arrays) if at not in held]
        assert (plan(*free) == right).all(), where
        other = engines[1].plan(pickle.loads(pickle.dumps(plan)))
        assert other.slices == plan.slices, where
        assert (other(*free) == right).all(), where
    assert sliced > 10


@pytest.mark.parametrize("route", ["auto", "packed", "elementwise"])
def test_plans_take_any_strides_later(engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, route: str) -> None:
    """Planned for one layout or for a shape alone, called with every other, stretched axes included."""
    for seed in range(250):
        rng = np.random.default_rng([seed, 18])
        sizes = {label: int(rng.choice([1, 2, 3, 4, 8, 17, 33])) for label in "abcd"}
        terms = [
            "".join(str(label) for label in rng.permutation(list("abcd"))[: int(rng.integers(0, 4))]) for _ in range(2)
        ]
        used = sorted(set("".join(terms)))
        output = "".join(str(label) for label in rng.permutation([label for label in used if rng.random() < 0.5]))
        text = f"{','.join(terms)}->{output}"
        dtype = np.dtype(str(rng.choice(["float32", "complex128", "int32", "float16", "bool"])))
        engine = list(engines.values())[seed % len(engines)]

        def draw(turn: int) -> list[npt.NDArray[Any]]:
            arrays = []
            for at, term in enumerate(terms):
                array = small([sizes[label] for label in term], dtype, seed + 10 * turn + at, 2)
                if array.ndim and rng.random() < 0.3:
                    array = np.broadcast_to(array.take([0], axis=0), array.shape)
                    arrays.append(array[..., ::-1])
                else:
                    arrays.append(lay_out(array, str(rng.choice(LAYOUTS))))
            return arrays

        given: list[Any] = draw(0) if rng.random() < 0.5 else [tuple(sizes[label] for label in term) for term in terms]
        try:
            plan = engine.plan(text, *given, dtype=dtype, route=route)
        except td.UnsupportedError:
            assert route != "auto"
            continue
        for turn in range(3):
            arrays = draw(turn)
            wide = np.float64 if dtype == np.float16 else dtype
            right = np.einsum(text, *(array.astype(wide) for array in arrays))
            if dtype == np.float16 and np.abs(right).max(initial=0) > 2048:
                continue
            where = f"{text} {sizes} {dtype} {[a.strides for a in arrays]} {plan.route} seed {seed}"
            assert (plan(*arrays) == right).all(), where
            out = lay_out(np.zeros(np.shape(right), dtype), str(rng.choice(LAYOUTS)))
            out[...] = np.nan if dtype.kind in "fc" else 1
            assert (plan(*arrays, out=out) == right).all(), where


@pytest.fixture
def switching_often() -> Iterator[None]:
    """The interpreter passes from thread to thread as often as it can."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("switching_often")
def test_threads_share_a_cache_a_plan_and_its_constants(small: Make) -> None:
    """Each thread has an engine; the cache is smaller than the number of problems; one engine is everybody's."""
    cache = td.PlanCache(3)
    held = td.CpuEngine(1).plan("abc,cd->abd", np.ones((3, 4, 5)), (5, 6), constants=[0])
    common = td.CpuEngine(2)
    everybodys = common.plan("ij,jk->ik", (200, 150), (150, 100))
    wide, other = small((200, 150), "float64", 1), small((150, 100), "float64", 2)
    right = wide @ other
    faults: list[str] = []

    def work(number: int) -> None:
        try:
            with td.CpuEngine(1 + number % 3, plan_cache=cache) as engine:
                mine = engine.plan(held)
                for turn in range(60):
                    m, k, n = (int(size) for size in np.random.default_rng([number, turn]).choice([1, 2, 5, 33, 70], 3))
                    dtype = ("float64", "float32", "complex128", "int32")[turn % 4]
                    a, b = small((m, k), dtype, turn), small((k, n), dtype, number)
                    assert (engine.einsum("ij,jk->ik", a, b) == a @ b).all()
                    assert (engine.matmul(b.T, a.T) == (a @ b).T).all()
                    x = small((5, 6), "float64", turn)
                    assert (mine(x) == x.sum(axis=0)).all()
                    try:
                        assert (everybodys(wide, other) == right).all()
                    except td.EngineBusyError:
                        continue
                    if turn % 20 == 0:
                        engine.clear_caches()
        except BaseException as error:
            faults.append(repr(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not faults
    assert len(cache) <= 3
    assert common.state == "open"


def test_very_many_plans_leave_no_memory_behind() -> None:
    """Resident memory after the second ten thousand is that after the first."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("reads /proc")
    a, b, big = np.ones((3, 4)), np.ones((4, 5)), np.ones((100, 100))
    with td.CpuEngine(2) as engine:

        def turn() -> int:
            for number in range(5000):
                engine.plan("ij,jk->ik", a, b)(a, b)
                engine.einsum(a, [("label", number), 1], b, [1, 2])
            for _ in range(500):
                engine.plan("ij,jk->ik", (3, 100), big, constants=[1])
                with pytest.raises(td.BroadcastError):
                    engine.einsum("ij,jk->ik", a, a)
            gc.collect()
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

        turn()
        first = turn()
        assert turn() - first < 1 << 20
