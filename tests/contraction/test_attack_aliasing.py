"""Whether an out shares an element with an operand or with itself, decided exactly for views into one buffer."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td


def view_into(
    rng: np.random.Generator, buffer: npt.NDArray[Any], shape: tuple[int, int]
) -> tuple[npt.NDArray[Any], list[int]]:
    """A view with random strides, and the places of its elements in the buffer."""
    while True:
        steps = [int(step) for step in rng.integers(-9, 10, 2)]
        reach = [step * (size - 1) for step, size in zip(steps, shape, strict=True)]
        first, last = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach)
        if last - first < buffer.size:
            break
    at = int(rng.integers(-first, buffer.size - last))
    view = np.lib.stride_tricks.as_strided(buffer[at:], shape, [8 * step for step in steps])
    places = [at + i * steps[0] + j * steps[1] for i, j in itertools.product(*map(range, shape))]
    return view, places


@pytest.mark.parametrize("verb", ["einsum", "matmul", "dot", "gemm", "gemm, beta", "plan", "reference"])
def test_overlap_is_refused_exactly_when_it_is_there(engine: td.CpuEngine, verb: str) -> None:
    refused = taken = 0
    for seed in range(500):
        rng = np.random.default_rng([seed, 16])
        buffer = rng.integers(-3, 4, int(rng.integers(10, 90))).astype(float)
        m, k, n = (int(size) for size in rng.integers(1, 5, 3))
        a, a_places = view_into(rng, buffer, (m, k))
        b, b_places = view_into(rng, buffer, (k, n))
        out, places = view_into(rng, buffer, (m, n))
        if rng.random() < 0.5:
            a, a_places = a.copy(), []
        if rng.random() < 0.5:
            b, b_places = b.copy(), []
        shared = len(set(places)) < len(places) or bool(set(places) & {*a_places, *b_places})
        before, right = buffer.copy(), a @ b
        if verb == "gemm, beta":
            right = 2 * right + 3 * out

        def call() -> Any:
            if verb == "einsum":
                return engine.einsum("ij,jk->ik", a, b, out=out)
            if verb == "reference":
                return engine.einsum("ij,jk->ik", a, b, out=out, route="reference", optimize=False)
            if verb == "plan":
                return engine.plan("ij,jk->ik", a, b)(a, b, out=out)
            if verb == "gemm, beta":
                return engine.gemm(a, b, out=out, alpha=2, beta=3)
            return getattr(engine, verb)(a, b, out=out)

        if shared:
            refused += 1
            with pytest.raises(td.AliasingError):
                call()
            assert (buffer == before).all(), seed
            continue
        taken += 1
        assert call() is out
        assert (out == right).all(), seed
        around = np.ones(buffer.size, bool)
        around[places] = False
        assert (buffer[around] == before[around]).all(), seed
    assert min(refused, taken) > 100
