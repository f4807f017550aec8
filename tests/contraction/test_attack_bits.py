"""Contract 6 on larger products: the same bits at every width and under every batch policy, into new arrays and outs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

DTYPES = ("float32", "float64", "complex64", "complex128", "float16")
POLICIES: tuple[Any, ...] = ("auto", "sequential", "outer", "inner", ("split", 2))


@pytest.fixture(scope="module")
def every() -> Iterator[list[td.CpuEngine]]:
    """Engines of four widths under every policy that they can honour."""
    made = [td.CpuEngine(w, batch=p) for w in (1, 2, 3, 8) for p in POLICIES if p != ("split", 2) or w > 1]
    yield made
    for engine in made:
        assert engine.state == "open"
        engine.close()


def draw(rng: np.random.Generator, kind: int) -> tuple[str, list[list[int]]]:
    """Subscripts and shapes of a contraction worth spreading over threads."""

    def some(labels: str, low: int, high: int) -> dict[str, int]:
        return {label: int(rng.integers(low, high)) for label in labels}

    def shuffled(labels: str) -> str:
        return "".join(str(label) for label in rng.permutation(list(labels)))

    if kind == 0:
        text, sizes = "ij,jk->ik", some("ijk", 50, 700)
    elif kind == 1:
        text, sizes = "bij,bjk->bik", some("b", 2, 12) | some("ijk", 20, 200)
    elif kind == 2:
        text, sizes = f"{shuffled('abcd')},{shuffled('cdef')}->{shuffled('abef')}", some("abcdef", 3, 22)
    elif kind == 3:
        output = shuffled("abe" if rng.random() < 0.5 else "abce")
        text, sizes = f"{shuffled('abcd')},{shuffled('acde')}->{output}", some("abcde", 3, 28)
    elif kind == 4:
        vectors = ("ij,j->i", "ij,i->j", "i,i->", "ij,ij->", "ij,ij->i", "ij,ij->j", "i,j->ij", "ij,ji->")
        text, sizes = str(rng.choice(vectors)), some("ij", 50, 1200)
    else:
        text, sizes = "ij,jk->ik", some("ik", 1, 8) | some("j", 500, 60_000)
    return text, [[sizes[label] for label in term] for term in text.split("->")[0].split(",")]


@pytest.mark.parametrize("kind", range(6))
def test_the_same_bits_at_every_width_and_policy(every: list[td.CpuEngine], kind: int) -> None:
    for seed in range(10):
        rng = np.random.default_rng([seed, kind, 14])
        dtype = np.dtype(DTYPES[seed % len(DTYPES)])
        text, shapes = draw(rng, kind)

        def noise(shape: list[int]) -> npt.NDArray[Any]:
            values: npt.NDArray[Any] = rng.standard_normal(shape)
            values = values + 1j * rng.standard_normal(shape) if dtype.kind == "c" else values
            values = values.astype(dtype)
            values = np.array(values, order="F") if rng.random() < 0.3 else values
            return values[..., ::-1] if rng.random() < 0.3 else values

        arrays = [noise(shape) for shape in shapes]
        options: dict[str, Any] = {"conj": [True, False]} if rng.random() < 0.3 else {}
        first = np.asarray(every[0].einsum(text, *arrays, **options))
        assert np.isfinite(first).all()
        bits = first.tobytes()
        plan = every[0].plan(text, *arrays, **options)
        out = np.empty_like(first)
        for engine in every[1:]:
            where = f"{text} {shapes} {dtype} {engine} {engine.batch}"
            assert np.asarray(engine.einsum(text, *arrays, **options)).tobytes() == bits, where
            out[...] = np.nan
            engine.einsum(text, *arrays, out=out, **options)
            assert out.tobytes() == bits, where
            assert np.asarray(engine.plan(plan)(*arrays)).tobytes() == bits, where


def test_the_same_bits_with_held_operands_and_updates(every: list[td.CpuEngine]) -> None:
    """Panels that were packed beforehand, and sums that go on from an `out`."""
    rng = np.random.default_rng(15)
    a, b, old = rng.standard_normal((300, 900)), rng.standard_normal((900, 200)), rng.standard_normal((300, 200))
    plan = every[0].plan("ij,jk->ik", a, b, constants=[1])
    held, updated = plan(a).tobytes(), every[0].gemm(a, b, out=old.copy(), alpha=1.5, beta=-0.5).tobytes()
    for engine in every[1:]:
        assert engine.plan(plan)(a).tobytes() == held
        assert engine.gemm(a, b, out=old.copy(), alpha=1.5, beta=-0.5).tobytes() == updated
