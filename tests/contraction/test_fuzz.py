"""Random equations against numpy's plain loop, with small integers: every value is exact, so ``==`` decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
DTYPES = ("float32", "float64", "complex64", "complex128", "int64", "int16", "uint8", "bool", "float16")
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")
ROUTES = ("auto", "auto", "reference", "gemm", "packed", "elementwise")


def equation(rng: np.random.Generator) -> tuple[list[list[int]], list[int] | None, dict[int, int], int]:
    """Labels of every operand, the output (or None), sizes, and how many axes an ellipsis stands for."""
    count = int(rng.choice([1, 2, 2, 2, 3, 3, 4]))
    labels = int(rng.integers(1, 7))
    sizes = {
        label: int(rng.choice([0, 1, 1, 2, 2, 3, 3, 4, 5]) if rng.random() < 0.15 else rng.integers(1, 5))
        for label in range(labels)
    }
    inputs = []
    for _ in range(count):
        rank = int(rng.integers(0, 5))
        inputs.append([int(label) for label in rng.integers(0, labels, rank)])
    used = sorted({label for terms in inputs for label in terms})
    output: list[int] | None = None
    if rng.random() < 0.8:
        kept = [label for label in used if rng.random() < 0.5]
        output = [int(label) for label in rng.permutation(kept)]
    return inputs, output, sizes, int(rng.integers(0, 3)) if rng.random() < 0.2 else -1


def one_case(engines: list[td.CpuEngine], lay_out: Make, small: Make, seed: int) -> tuple[str, int]:
    rng = np.random.default_rng([seed, 2026])
    inputs, output, sizes, ellipsis = equation(rng)
    dtype = DTYPES[int(rng.integers(len(DTYPES)))]
    stretched = rng.random() < 0.15
    operands, terms = [], []
    batch = [int(n) for n in rng.integers(1, 4, max(ellipsis, 0))]
    for number, labels in enumerate(inputs):
        shape = [sizes[label] for label in labels]
        if stretched:
            # Length one in one operand; a label that stands twice there stays as it is.
            shape = [
                1 if labels.count(label) == 1 and rng.random() < 0.3 else n
                for label, n in zip(labels, shape, strict=True)
            ]
        term: list[Any] = list(labels)
        if ellipsis >= 0 and (number == 0 or rng.random() < 0.6):
            at = int(rng.integers(0, len(term) + 1))
            own = batch[int(rng.integers(0, ellipsis + 1)) :]
            own = [1 if rng.random() < 0.2 else n for n in own]
            term.insert(at, Ellipsis)
            shape[at:at] = own
        operands.append(lay_out(small(shape, dtype, seed + number, 2), str(rng.choice(LAYOUTS))))
        terms.append(term)
    out_term: list[Any] | None = None if output is None else list(output)
    if out_term is not None and ellipsis >= 0:
        out_term.insert(int(rng.integers(0, len(out_term) + 1)), Ellipsis)

    def text(term: list[Any]) -> str:
        return "".join("..." if label is Ellipsis else "aBcDeFg"[label] for label in term)

    subscripts = ",".join(map(text, terms)) + ("" if out_term is None else "->" + text(out_term))
    # Half precision of numpy sums in half precision; these sums are small enough to be exact there all the same.
    wide = "float64" if dtype == "float16" else dtype
    expected = np.einsum(subscripts, *(operand.astype(wide) for operand in operands), optimize=False)
    where = f"{subscripts} {[operand.shape for operand in operands]} {dtype} seed {seed}"
    engine = engines[seed % len(engines)]
    route = str(rng.choice(ROUTES))
    optimize: Any = ["auto", "greedy", "optimal", True, False][int(rng.integers(5))]
    try:
        value = engine.einsum(subscripts, *operands, route=route, optimize=optimize)
    except td.UnsupportedError:
        assert route in ("gemm", "packed", "elementwise"), where
        route = "auto"
        value = engine.einsum(subscripts, *operands, optimize=optimize)
    assert np.shape(value) == expected.shape, where
    assert value.dtype == dtype, where
    assert (value == expected).all(), where
    # Warm, into a poisoned out of another layout.
    out = lay_out(np.zeros(expected.shape, dtype), str(rng.choice(LAYOUTS)))
    out[...] = np.nan if out.dtype.kind in "fc" else 1
    engine.einsum(subscripts, *operands, out=out, route=route, optimize=optimize)
    assert (out == expected).all(), where
    if out.dtype.kind in "fc":
        engine.einsum(subscripts, *operands, out=out, alpha=2, beta=-1)
        assert (out == expected).all(), where
    # The interleaved form, with labels of every kind.
    names = ["x", ("t", 1), 2.5, frozenset("y"), 10**20, None, -1]
    if out_term is not None:
        lists = [[Ellipsis if label is Ellipsis else names[label] for label in term] for term in terms]
        last = [Ellipsis if label is Ellipsis else names[label] for label in out_term]
        pairs: list[Any] = [part for pair in zip(operands, lists, strict=True) for part in pair]
        assert (engine.einsum(*pairs, last) == expected).all(), where
    # Plans: from these strides and from C order, with some operands held.
    held = [at for at in range(len(operands)) if rng.random() < 0.3][: len(operands) - 1]
    given = [array if at in held or rng.random() < 0.5 else array.shape for at, array in enumerate(operands)]
    # Whether axes fold depends on the strides, which are others here.
    kind = "reference" if route == "reference" else "auto"
    plan = engine.plan(subscripts, *given, dtype=dtype, constants=held, route=kind, optimize=optimize)
    free = [array for at, array in enumerate(operands) if at not in held]
    for _ in range(2):
        assert (plan(*free) == expected).all(), where
    assert (plan(*(np.array(array, order="F") for array in free)) == expected).all(), where
    out[...] = np.nan if out.dtype.kind in "fc" else 1
    assert plan(*free, out=out) is out, where
    assert (out == expected).all(), where
    path, _ = engine.einsum_path(subscripts, *operands, optimize=optimize)
    if len(operands) > 1:
        assert (engine.einsum(subscripts, *operands, optimize=path) == expected).all(), where
    return route, len(operands)


@pytest.mark.parametrize("block", range(6))
def test_random_equations(engines: dict[int, td.CpuEngine], lay_out: Make, small: Make, block: int) -> None:
    seen = [one_case(list(engines.values()), lay_out, small, seed) for seed in range(block * 100, block * 100 + 100)]
    assert {count for _, count in seen} == {1, 2, 3, 4}
    assert {"auto", "reference"} <= {route for route, _ in seen}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_very_many_random_equations(engines: dict[int, td.CpuEngine], lay_out: Make, small: Make) -> None:
    for seed in range(10_000, 40_000):
        one_case(list(engines.values()), lay_out, small, seed)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64", "bool"])
def test_random_matrix_sizes(engines: dict[int, td.CpuEngine], lay_out: Make, small: Make, dtype: str) -> None:
    """Products of two matrices and of stacks, in sizes around the kernels' tiles, on every width and layout."""
    rng = np.random.default_rng(6)
    for turn in range(60):
        m, k, n = (
            int(rng.choice([1, 2, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 33, 47, 48, 49, 64, 65, 97]))
            for _ in range(3)
        )
        lead = [(), (3,), (2, 2)][int(rng.integers(3))] if max(m, k, n) < 50 else ()
        a = lay_out(small((*lead, m, k), dtype, turn), str(rng.choice(LAYOUTS)))
        b = lay_out(small((*lead, k, n), dtype, turn + 1), str(rng.choice(LAYOUTS)))
        expected = np.matmul(a, b)
        for engine in engines.values():
            assert (engine.matmul(a, b) == expected).all(), (m, k, n, lead)
            assert (engine.einsum("...ij,...jk->...ik", a, b) == expected).all(), (m, k, n, lead)
            out = lay_out(np.zeros(expected.shape, dtype), str(rng.choice(LAYOUTS)))
            assert (engine.matmul(a, b, out=out) == expected).all(), (m, k, n, lead)
