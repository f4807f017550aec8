"""The same bits at every width, under every batch policy, beside any batch, and from run to run."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

FLOATS = ("float32", "float64", "complex64", "complex128")
Make = Callable[..., npt.NDArray[Any]]


def noise(shape: tuple[int, ...], dtype: str, seed: int = 0) -> npt.NDArray[Any]:
    """Values of many magnitudes: any other order of the same sums gives other bits."""
    rng = np.random.default_rng([seed, *shape])
    values = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    if np.dtype(dtype).kind == "c":
        return (values + 1j * rng.normal(size=shape)).astype(dtype)
    return values.astype(dtype)


CONTRACTIONS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "gemm": ("ij,jk->ik", [(197, 211), (211, 193)]),
    "gemm, tall": ("ij,jk->ik", [(1031, 37), (37, 29)]),
    "gemm, wide": ("ij,jk->ik", [(5, 67), (67, 1999)]),
    "gemm, deep": ("ij,jk->ik", [(13, 5003), (5003, 11)]),
    "gemm, transposed": ("ji,kj->ki", [(211, 197), (193, 211)]),
    "batch": ("bij,bjk->bik", [(23, 41, 37), (23, 37, 31)]),
    "batch, last": ("ijb,jkb->ikb", [(41, 37, 23), (37, 31, 23)]),
    "small batch": ("bij,bjk->bik", [(1009, 3, 5), (1009, 5, 4)]),
    "folded": ("abij,ijcd->abcd", [(11, 13, 7, 9), (7, 9, 13, 11)]),
    "scattered": ("aibj,jcid->abcd", [(11, 7, 13, 9), (9, 13, 7, 11)]),
    "sum": ("ij->j", [(40_007, 7)]),
    "sum, last": ("ij->i", [(7, 40_007)]),
    "sum, all": ("ijk->", [(31, 37, 101)]),
    "trace": ("iij->j", [(97, 97, 31)]),
    "dot": ("i,i->", [(100_003,), (100_003,)]),
    "dot of matrices": ("ij,ji->", [(307, 311), (311, 307)]),
    "vector": ("ij,j->i", [(1009, 503), (503,)]),
    "row": ("i,ij->j", [(1009,), (1009, 503)]),
    "outer": ("i,j->ij", [(503,), (307,)]),
    "elementwise": ("ijk,kji->ijk", [(47, 53, 41), (41, 53, 47)]),
    "permute": ("ijk->kij", [(47, 53, 41)]),
    "chain": ("ij,jk,kl,lm->mi", [(83, 71), (71, 97), (97, 61), (61, 89)]),
    "ring": ("ab,bc,cd,da->", [(53, 59), (59, 61), (61, 47), (47, 53)]),
    "star": ("ai,bi,ci->abc", [(29, 31), (37, 31), (41, 31)]),
}


@pytest.mark.parametrize("name", CONTRACTIONS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_are_equal_at_every_width(engines: dict[int, td.CpuEngine], name: str, dtype: str) -> None:
    subscripts, shapes = CONTRACTIONS[name]
    arrays = [noise(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    bits = {
        width: [
            np.ascontiguousarray(engine.einsum(subscripts, *arrays, conj=conj, order="C")).tobytes()
            for conj in (None, [True] * len(arrays))
        ]
        for width, engine in engines.items()
    }
    for width, found in bits.items():
        assert found == bits[1], f"width {width}"
    # Into an out with beta, and from a warm plan.
    base = noise(np.einsum(subscripts, *(a[..., :1][tuple(slice(0, 1) for _ in a.shape)] for a in arrays)).shape, dtype)
    assert base.size == 1
    outs = {}
    for width, engine in engines.items():
        out = np.ones_like(engine.einsum(subscripts, *arrays, order="C"))
        if out.ndim:
            engine.einsum(subscripts, *arrays, out=out, beta=0.3, alpha=0.7)
            outs[width] = out.tobytes()
    assert len(set(outs.values())) <= 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_bits_of_the_named_products(engines: dict[int, td.CpuEngine], dtype: str) -> None:
    a, b = noise((149, 151), dtype, 1), noise((151, 157), dtype, 2)
    s, t = noise((17, 29, 31), dtype, 3), noise((31, 23), dtype, 4)
    v = noise((151,), dtype, 5)
    calls: dict[str, Callable[[td.CpuEngine], Any]] = {
        "matmul": lambda e: e.matmul(a, b),
        "matmul, F": lambda e: e.matmul(np.asfortranarray(a), b[:, ::-1]),
        "matmul, batch": lambda e: e.matmul(s, t),
        "dot": lambda e: e.dot(a, b),
        "dot, high": lambda e: e.dot(s, np.stack([t, t])),
        "inner": lambda e: e.inner(a, a),
        "vdot": lambda e: e.vdot(a, a[::-1]),
        "vecdot": lambda e: e.vecdot(a, v),
        "matvec": lambda e: e.matvec(a, v),
        "vecmat": lambda e: e.vecmat(v, b),
        "outer": lambda e: e.outer(v, a[0]),
        "kron": lambda e: e.kron(a[:11, :13], b[:7, :5]),
        "tensordot": lambda e: e.tensordot(s, t, axes=([2], [0])),
        "tensordot, two": lambda e: e.tensordot(s, s, axes=([0, 2], [0, 2])),
        "gemm": lambda e: e.gemm(a, b, alpha=0.3, beta=0.7, out=np.ones((149, 157), dtype)),
        "gemm, C": lambda e: e.gemm(a, a, trans_a="C"),
        "multi_dot": lambda e: e.multi_dot([a, b, b.T, a.T, v[:149]]),
    }
    for name, call in calls.items():
        bits = {width: np.ascontiguousarray(call(engine)).tobytes() for width, engine in engines.items()}
        assert len(set(bits.values())) == 1, name


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_bits_under_every_batch_policy(engines: dict[int, td.CpuEngine], dtype: str) -> None:
    for shapes in (((23, 41, 37), (23, 37, 31)), ((3, 131, 97), (3, 97, 89)), ((501, 3, 5), (501, 5, 4))):
        a, b = noise(shapes[0], dtype, 1), noise(shapes[1], dtype, 2)
        expected = engines[1].matmul(a, b).tobytes()
        for width, engine in engines.items():
            for policy in ("auto", "sequential", "outer", "inner", ("split", 1), ("split", width), ("split", 2)):
                if policy == ("split", 2) and width < 2:
                    continue
                with engine.policy(batch=policy):
                    assert engine.matmul(a, b).tobytes() == expected, (width, policy)
                    assert engine.einsum("bij,bjk->bik", a, b, order="C").tobytes() == expected, (width, policy)


@pytest.mark.parametrize("policy", [("split", 3), ("split", 9)])
def test_a_policy_that_cannot_be_honoured_is_refused(engines: dict[int, td.CpuEngine], policy: Any) -> None:
    """Before any write, and not in silence."""
    a = np.ones((5, 4, 4))
    out = np.full((5, 4, 4), 7.0)
    with pytest.raises((td.UnsupportedError, td.ArgumentError)), engines[2].policy(batch=policy):
        engines[2].matmul(a, a, out=out)
    assert (out == 7).all()
    assert engines[2].batch == "auto"


@pytest.mark.parametrize("dtype", FLOATS)
def test_rep_01_an_items_bits_do_not_depend_on_the_batch(engines: dict[int, td.CpuEngine], dtype: str) -> None:
    eps = np.finfo(dtype).eps
    b = noise((90, 128), dtype, 1) / 100
    one, two = np.ones((1, 90), dtype), np.ones((2, 90), dtype)
    for engine in engines.values():
        bound = 2 * 90 * eps * np.abs(b).sum(axis=0)
        assert (np.abs(engine.matmul(one, b)[0] - engine.matmul(two, b)[0]) <= bound).all()
        items, others = noise((7, 33, 35), dtype, 2), noise((7, 35, 29), dtype, 3)
        with engine.policy(batch="outer"):
            batch = engine.matmul(items, others)
        for index in range(7):
            assert batch[index].tobytes() == engines[1].matmul(items[index], others[index]).tobytes(), index


def test_rep_02_the_same_call_gives_the_same_bits_500_times() -> None:
    a, b, c = noise((67, 71), "float64", 1), noise((71, 73), "float64", 2), noise((5, 67, 71), "float64", 3)
    stop = threading.Event()

    def din() -> None:
        while not stop.is_set():
            np.sort(np.random.default_rng(1).normal(size=20_000))

    threads = [threading.Thread(target=din) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        with td.CpuEngine(4) as engine:
            seen: set[tuple[bytes, ...]] = set()
            for turn in range(500):
                if turn % 50 == 0:
                    engine.clear_caches()
                seen.add(
                    (
                        engine.gemm(a, b).tobytes(),
                        engine.einsum("ij,jk->ik", a, b).tobytes(),
                        engine.einsum("bij,jk->bik", c, b).tobytes(),
                        engine.einsum("bij->j", c).tobytes(),
                    )
                )
            assert len(seen) == 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_every_instruction_set_of_the_machine_is_offered() -> None:
    best = td.CpuEngine.serial().isa
    offered = {"avx512": ["scalar", "avx2", "avx512"], "avx2": ["scalar", "avx2"]}.get(best, ["scalar", best])
    for isa in ("scalar", "avx2", "avx512", "neon"):
        if isa in offered:
            engine = td.CpuEngine.serial(isa=isa)
            assert engine.isa == engine.spec().isa == isa
            assert isa in str(engine.plan("ij,jk->ik", (70, 70), (70, 70)))
        else:
            with pytest.raises(td.UnsupportedError, match=f"isa='{isa}'") as caught:
                td.CpuEngine.serial(isa=isa)
            assert all(f"'{name}'" in str(caught.value) for name in offered)


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512", "neon"])
def test_every_instruction_set_is_exact_and_width_free(small: Make, isa: str) -> None:
    bits = {}
    for width in (1, 3):
        try:
            engine = td.CpuEngine(width, isa=isa)
        except td.UnsupportedError:
            pytest.skip(f"this machine has no {isa}")
        with engine:
            for dtype, size in itertools.product(FLOATS, (1, 2, 3, 5, 9, 17, 33, 70, 101)):
                a, b = small((size, size + 1), dtype, 1), small((size + 1, size), dtype, 2)
                right = a.astype("complex128") @ b
                assert (engine.matmul(a, b) == right).all()
                assert (engine.einsum("ji,kj->ik", a.T.copy(), b.T.copy()) == right).all()
                bits[width, dtype, size] = engine.matmul(noise(a.shape, dtype), noise(b.shape, dtype)).tobytes()
    for width, dtype, size in bits:
        assert bits[width, dtype, size] == bits[1, dtype, size]
