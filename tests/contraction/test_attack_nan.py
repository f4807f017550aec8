"""NaN, infinity and exact zeros in products: every entry is what the definition gives, real and imaginary part apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
FLOATS = ("float32", "float64", "complex64", "complex128")
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")
SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, 2.0, -1.0)
pytestmark = pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")


@pytest.fixture(scope="module")
def isas() -> Iterator[list[td.CpuEngine]]:
    """An engine of every instruction set of this machine."""
    made = []
    for isa in ("scalar", "avx2", "avx512", "neon"):
        try:
            made.append(td.CpuEngine(2, isa=isa))
        except td.UnsupportedError:
            continue
    yield made
    for engine in made:
        engine.close()


def special(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any, share: float) -> npt.NDArray[Any]:
    """Small integers, some of which are infinite, zero or no number."""

    def part() -> npt.NDArray[Any]:
        values = rng.integers(-2, 3, shape).astype(float)
        return np.where(rng.random(shape) < share, rng.choice(SPECIAL, shape), values)

    kind = np.dtype(dtype)
    made = np.empty(shape, kind)
    if kind.kind == "c":
        made.real, made.imag = part(), part()
    else:
        made[...] = part()
    return made


def same(value: Any, right: Any) -> bool:
    """Equal, NaN and all, in both parts."""
    value, right = np.asarray(value), np.asarray(right)
    parts = ((value.real, right.real), (value.imag, right.imag))
    return value.shape == right.shape and all(np.array_equal(one, two, equal_nan=True) for one, two in parts)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity_in_products(isas: list[td.CpuEngine], lay_out: Make, dtype: str) -> None:
    """One product has one definition, whatever the kernel: numpy's plain loop is it."""
    specials = 0
    for seed in range(150):
        rng = np.random.default_rng([seed, 11])
        m, k, n = (int(rng.choice([1, 2, 3, 4, 6, 8, 12, 16, 24, 25, 33, 48, 65])) for _ in range(3))
        k = int(rng.integers(300, 1500)) if seed % 10 == 0 else k
        share = float(rng.choice([0.001, 0.01, 0.1]))
        a = lay_out(special(rng, (m, k), dtype, share), str(rng.choice(LAYOUTS)))
        b = lay_out(special(rng, (k, n), dtype, share), str(rng.choice(LAYOUTS)))
        conj = [bool(rng.random() < 0.3) for _ in range(2)]
        right = np.einsum("ij,jk->ik", *(x.conj() if flag else x for x, flag in zip((a, b), conj, strict=True)))
        specials += int((~np.isfinite(right)).sum())
        engine = isas[seed % len(isas)]
        for route in ("auto", "packed", "gemm", "reference"):
            try:
                value = engine.einsum("ij,jk->ik", a, b, conj=conj, route=route)
            except td.UnsupportedError:
                continue
            assert same(value, right), (route, engine, m, k, n, conj, seed)
    assert specials > 1000


@pytest.mark.parametrize("dtype", [*FLOATS, "float16"])
@pytest.mark.parametrize(
    "text",
    [
        *("ij,j->i", "j,jk->k", "i,i->", "i,j->ij", "ij,ij->ij", "ij,ij->i", "ij,ij->j", "ij,ij->", "ij->j", "ij->i"),
        *("ij->", "ii->", "ii->i", "bij,bjk->bik", "ijk,jl->ilk", "abc,bcd->ad", "abc,cbd->da"),
    ],
)
def test_nan_and_infinity_in_other_contractions(isas: list[td.CpuEngine], dtype: str, text: str) -> None:
    wide = "float32" if dtype == "float16" else dtype
    for seed in range(12):
        rng = np.random.default_rng([seed, 12])
        sizes = {label: int(rng.choice([1, 2, 3, 5, 8, 9, 17, 33])) for label in "abcdijkl"}
        arrays = [
            special(rng, tuple(sizes[label] for label in term), dtype, 0.05) for term in text.split("->")[0].split(",")
        ]
        right = np.einsum(text, *(array.astype(wide) for array in arrays), optimize=False)
        for route in ("auto", "packed", "reference"):
            try:
                value = isas[seed % len(isas)].einsum(text, *(np.array(x, order="F") for x in arrays), route=route)
            except td.UnsupportedError:
                assert route == "packed"
                continue
            assert same(value, np.asarray(right).astype(dtype)), (route, seed)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nan_and_infinity_in_updates(isas: list[td.CpuEngine], lay_out: Make, dtype: str) -> None:
    for seed in range(60):
        rng = np.random.default_rng([seed, 13])
        m, k, n = (int(rng.choice([1, 2, 3, 8, 16, 25, 33, 65])) for _ in range(3))
        a, b = special(rng, (m, k), dtype, 0.02), special(rng, (k, n), dtype, 0.02)
        old = special(rng, (m, n), dtype, 0.1)
        out = lay_out(old, str(rng.choice(LAYOUTS)))
        product = np.einsum("ij,jk->ik", a, b)
        engine = isas[seed % len(isas)]
        for alpha, beta, right in (
            (1, 1, product + old),
            (-2, 0.5, -2 * product + old / 2),
            (1, 0, product),
            (0, 1, old),
            (0, 2, 2 * old),
            (0, 0, np.zeros((m, n))),
        ):
            out[...] = old
            engine.gemm(a, b, out=out, alpha=alpha, beta=beta)
            assert same(out, right), (alpha, beta, engine, m, k, n)
