"""Engines of several widths, arrays in every layout with poison around them, and an exact loop to compare with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

WIDTHS = (1, 2, 3, 8)


@pytest.fixture(scope="session")
def engines() -> Iterator[dict[int, td.CpuEngine]]:
    """Open engines by width."""
    made = {width: td.CpuEngine(threads=width) for width in WIDTHS}
    yield made
    for one in made.values():
        assert one.state == "open"
        one.close()


@pytest.fixture(scope="session")
def engine(engines: dict[int, td.CpuEngine]) -> td.CpuEngine:
    """An open engine of width 2."""
    return engines[2]


def _poison(dtype: np.dtype[Any]) -> Any:
    if dtype.kind in "fc" or dtype.name == "bfloat16":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).max


@pytest.fixture(scope="session")
def lay_out() -> Callable[[npt.NDArray[Any], str], npt.NDArray[Any]]:
    """An equal array in another memory layout; what lies around it is NaN, or the largest integer."""

    def make(values: npt.NDArray[Any], layout: str) -> npt.NDArray[Any]:
        values = np.asarray(values)
        shape = values.shape
        poison = _poison(values.dtype)

        def full(shape: Sequence[int], order: str = "C") -> npt.NDArray[Any]:
            return np.full(tuple(shape), poison, values.dtype, order=order)  # type: ignore[call-overload]

        view: npt.NDArray[Any]
        if layout == "C":
            view = full(shape)
        elif layout == "F":
            view = full(shape, "F")
        elif layout == "reversed":
            view = full(shape)[(..., *(slice(None, None, -1) for _ in shape))]
        elif layout == "strided":
            view = full([2 * n + 1 for n in shape])[(..., *(slice(1, 2 * n, 2) for n in shape))]
        elif layout == "offset":
            view = full([n + 3 for n in shape])[(..., *(slice(2, 2 + n) for n in shape))]
        elif layout == "moved":
            view = np.moveaxis(full(shape[1:] + shape[:1]), -1, 0) if shape else full(shape)
        elif layout == "F reversed strided":
            view = full([2 * n + 1 for n in shape], "F")[(..., *(slice(None, 0, -2) for _ in shape))]
        else:
            raise AssertionError(layout)
        view[...] = values
        assert view.shape == shape
        return view

    return make


def _exact(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    if dtype.kind == "c":
        return complex
    return int


@pytest.fixture(scope="session")
def loop() -> Callable[..., npt.NDArray[Any]]:
    """The contraction as one loop over every label, in Python's exact integers. No label broadcasts."""

    def contract(
        inputs: Sequence[Sequence[Hashable]], output: Sequence[Hashable], *arrays: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        extents: dict[Hashable, int] = {}
        for labels, array in zip(inputs, arrays, strict=True):
            for label, size in zip(labels, array.shape, strict=True):
                assert extents.setdefault(label, size) == size
        summed = [label for label in extents if label not in output]
        shape = tuple(extents[label] for label in output)
        dtype = arrays[0].dtype
        exact = _exact(dtype)
        flat = []
        for kept in itertools.product(*(range(extents[label]) for label in output)):
            place = dict(zip(output, kept, strict=True))
            total = exact(0)
            for rest in itertools.product(*(range(extents[label]) for label in summed)):
                place.update(zip(summed, rest, strict=True))
                total += math.prod(
                    exact(array[tuple(place[label] for label in labels)])
                    for labels, array in zip(inputs, arrays, strict=True)
                )
            flat.append(total)
        return np.array(flat, dtype=dtype).reshape(shape)

    return contract


@pytest.fixture(scope="session")
def small() -> Callable[..., npt.NDArray[Any]]:
    """Small integers in an array of any dtype, so that sums of products are exact."""

    def make(shape: Sequence[int], dtype: Any, seed: int = 0, reach: int = 3) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        rng = np.random.default_rng([seed, *shape])
        low = 0 if kind.kind in "bu" else -reach
        values = rng.integers(low, reach + 1, tuple(shape))
        if kind.kind == "b":
            return values % 2 == 1
        if kind.kind == "c":
            return (values + 1j * rng.integers(low, reach + 1, tuple(shape))).astype(kind)
        return values.astype(kind)

    return make
