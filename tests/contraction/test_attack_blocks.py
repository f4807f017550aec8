"""Products around the edges of tiles and blocks: rows, columns and terms of several axes, and sums longer than a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
DTYPES = ("float32", "float64", "complex64", "complex128", "int8", "uint16", "int32", "int64", "bool")
EDGES = (
    *(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63, 64, 65, 96, 97, 127, 128, 129),
    *(200, 255, 256, 257, 384, 385, 511, 512, 513, 700, 1025),
)
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")


@pytest.fixture(scope="module")
def isas() -> Iterator[list[td.CpuEngine]]:
    """Engines of every instruction set of this machine, the fast ones of two widths."""
    made = []
    for isa, threads in (
        ("scalar", 1),
        ("avx2", 1),
        ("avx2", 3),
        ("avx512", 1),
        ("avx512", 2),
        ("neon", 1),
        ("neon", 2),
    ):
        try:
            made.append(td.CpuEngine(threads, isa=isa))
        except td.UnsupportedError:
            continue
    yield made
    for engine in made:
        assert engine.state == "open"
        engine.close()


def in_several_axes(rng: np.random.Generator, extent: int) -> list[int]:
    """About that extent, as one to three axes in any order."""
    axes = []
    for _ in range(int(rng.choice([0, 0, 0, 1, 2]))):
        factor = int(rng.choice([1, 2, 3, 4, 5, 7, 8]))
        axes.append(factor)
        extent = max(1, extent // factor)
    axes.append(extent)
    return [int(size) for size in rng.permutation(axes)]


def extents(rng: np.random.Generator, most: float) -> tuple[int, int, int]:
    """Rows, terms and columns of a product that is not too large for a test."""
    while True:
        m, k, n = (int(rng.choice(EDGES)) for _ in range(3))
        if rng.random() < 0.15:
            k = int(rng.integers(1000, 40_000))
        if rng.random() < 0.1:
            m = int(rng.integers(1000, 70_000))
        if rng.random() < 0.1:
            n = int(rng.integers(1000, 70_000))
        if m * k * n < most and max(m * n, k * n, m * k) < 1e6:
            return m, k, n


def one_product(isas: list[td.CpuEngine], small: Make, lay_out: Make, seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    dtype = np.dtype(str(rng.choice(DTYPES)))
    engine = isas[int(rng.integers(len(isas)))]
    m, k, n = extents(rng, 2e6 if engine.isa == "scalar" else 1e7)
    batch = int(rng.choice([2, 3, 9])) if m * k * n < 1e6 and rng.random() < 0.4 else 0
    rows, terms, columns = (in_several_axes(rng, extent) for extent in (m, k, n))
    letters = iter("abcdefghijklmnop")
    lead = [batch] if batch else []
    b_label, m_labels, k_labels, n_labels = ([next(letters) for _ in part] for part in (lead, rows, terms, columns))
    a, b = small([*lead, *rows, *terms], dtype, seed, 1), small([*lead, *terms, *columns], dtype, seed + 1, 1)
    m, k, n = (int(np.prod(part)) for part in (rows, terms, columns))
    # Exact for every dtype here: entries of -1, 0, 1, and at most 40,000 terms.
    exact = np.complex128 if dtype.kind == "c" else np.float64
    right = np.matmul(a.reshape([*lead, m, k]).astype(exact), b.reshape([*lead, k, n]).astype(exact))
    right = right.reshape([*lead, *rows, *columns])

    def mixed(array: npt.NDArray[Any], labels: list[str]) -> tuple[npt.NDArray[Any], str]:
        order = rng.permutation(array.ndim) if rng.random() < 0.7 else np.arange(array.ndim)
        return array.transpose(order), "".join(labels[axis] for axis in order)

    left, left_text = mixed(a, b_label + m_labels + k_labels)
    second, right_text = mixed(b, b_label + k_labels + n_labels)
    right, out_text = mixed(right, b_label + m_labels + n_labels)
    if rng.random() < 0.7:
        left, second = lay_out(left, str(rng.choice(LAYOUTS))), lay_out(second, str(rng.choice(LAYOUTS)))
    expected = right > 0 if dtype.kind == "b" else right.astype(np.int64).astype(dtype) if dtype.kind in "iu" else right
    text = f"{left_text},{right_text}->{out_text}"
    where = f"{text} {left.shape} {left.strides} {second.shape} {second.strides} {dtype} {engine} seed {seed}"
    for route in ("auto", "packed", "gemm"):
        try:
            value = engine.einsum(text, left, second, route=route, order=str(rng.choice(["K", "C", "F"])))
        except td.UnsupportedError:
            assert route != "auto", where
            continue
        assert (value == expected).all(), f"{route} {where}"
    out = lay_out(np.zeros(expected.shape, dtype), str(rng.choice(LAYOUTS)))
    out[...] = np.nan if dtype.kind in "fc" else 1
    assert (engine.einsum(text, left, second, out=out) == expected).all(), where
    if dtype.kind != "b":
        old = small(expected.shape, dtype, seed + 2)
        alpha, beta = [(1, 1), (2, 3), (1, 2), (3, 1), (2, 0)][int(rng.integers(5))]
        out[...] = old
        engine.einsum(text, left, second, out=out, alpha=alpha, beta=beta)
        scaled = alpha * right + beta * old.astype(exact)
        assert (out == (scaled.astype(np.int64).astype(dtype) if dtype.kind in "iu" else scaled)).all(), where


@pytest.mark.parametrize("block", range(4))
def test_products_around_the_edges_of_blocks(isas: list[td.CpuEngine], small: Make, lay_out: Make, block: int) -> None:
    for seed in range(block * 60, block * 60 + 60):
        one_product(isas, small, lay_out, seed)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_very_many_products_around_the_edges(isas: list[td.CpuEngine], small: Make, lay_out: Make) -> None:
    for seed in range(10_000, 14_000):
        one_product(isas, small, lay_out, seed)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_integers_at_their_extremes_wrap_in_products_and_updates(
    isas: list[td.CpuEngine], lay_out: Make, dtype: str
) -> None:
    rng = np.random.default_rng(8)
    limits = np.iinfo(dtype)
    modulus = 1 << limits.bits

    def full(*shape: int) -> npt.NDArray[Any]:
        values = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
        return np.where(rng.random(shape) < 0.1, rng.choice(np.array([limits.min, limits.max], dtype), shape), values)

    for turn in range(24):
        m, k, n = (int(rng.choice([1, 2, 3, 5, 8, 15, 16, 17, 33, 64, 65])) for _ in range(3))
        k = 700 if turn % 8 == 0 else k
        a = lay_out(full(m, k), str(rng.choice(LAYOUTS)))
        b = lay_out(full(k, n), str(rng.choice(LAYOUTS)))
        # Python's own integers, reduced at the end.
        exact = a.astype(object) @ b.astype(object)
        engine = isas[turn % len(isas)]
        for route in ("auto", "packed", "reference"):
            value = engine.einsum("ij,jk->ik", a, b, route=route)
            assert ((value.astype(object) - exact) % modulus == 0).all(), (route, engine, m, k, n)
        old = full(m, n)
        alpha, beta = (int(x) for x in rng.integers(limits.min, limits.max, 2, dtype=dtype))
        alpha, beta = (-1 if turn % 5 == 0 else alpha), (2**70 + 3 if turn % 7 == 0 else beta)
        out = lay_out(old, str(rng.choice(LAYOUTS)))
        engine.gemm(a, b, out=out, alpha=alpha, beta=beta)
        assert ((out.astype(object) - alpha * exact - beta * old.astype(object)) % modulus == 0).all(), (
            engine,
            m,
            k,
            n,
        )
        for text, arrays in (("ij,ij->i", (a, a)), ("ij->j", (a,)), ("ij,jk->", (a, b)), ("i,j->ij", (a[:, 0], b[0]))):
            value = engine.einsum(text, *arrays)
            right = np.einsum(text, *(array.astype(object) for array in arrays))
            assert np.all((np.asarray(value).astype(object) - right) % modulus == 0), (text, engine)
