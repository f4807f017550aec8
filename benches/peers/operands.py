"""Operands of a case, the same in every process, and the check of a result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass
class Prepared:
    """A call that is ready to be timed.

    ``as_numpy`` reads its result, ``reference`` computes what that must be. ``in_order`` copies a result into C
    order; ``view`` is the call that may leave it as a permuted view, where that is another call.
    """

    call: Callable[[], Any]
    reference: Callable[[], Any] | None = None
    as_numpy: Callable[[Any], Any] = np.asarray
    in_order: Callable[[Any], Any] | None = None
    view: Callable[[], Any] | None = None
    #: Measures by itself, where a loop over ``call`` would not do.
    measured: Callable[[], float] | None = None


def uniform(count: int, seed: int, part: int) -> Any:
    """Values from 0 to 1 by a hash of the place, the same in numpy and in the native peers."""
    place = np.arange(part, 2 * count, 2, dtype=np.uint64)
    place += np.uint64(1)
    place *= np.uint64(0x9E3779B97F4A7C15)
    place += np.uint64(seed * 0xBF58476D1CE4E5B9 % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        place ^= place >> np.uint64(shift)
        place *= np.uint64(factor)
    place >>= np.uint64(11)
    return place / 2.0**53


def array(shape: list[int], dtype: str, seed: int, *, positive: bool = False) -> Any:
    """Reproducible values: floats around 0 (or above it), small integers, and mostly false booleans."""
    count, kind = math.prod(shape), np.dtype(dtype).kind
    found = uniform(count, seed, 0)
    if kind == "b":
        found = found < 0.1
    elif kind in "iu":
        found *= 100
    elif not positive:
        found -= 0.5
    if kind == "c":
        found = found + 1j * (uniform(count, seed, 1) - 0.5)
    return found.astype(dtype).reshape(shape)


def arrays(arguments: dict[str, Any]) -> list[Any]:
    """The operands of a case."""
    return [array(shape, arguments["dtype"], seed) for seed, shape in enumerate(arguments["shapes"])]


def difference(result: Any, reference: Any) -> str | None:
    """What is wrong with a result, or None."""
    if result.shape != reference.shape or result.dtype != reference.dtype:
        return f"{result.dtype} {result.shape} instead of {reference.dtype} {reference.shape}"
    if reference.dtype.kind in "biu":
        return None if np.array_equal(result, reference) else "wrong values"
    scale = float(np.max(np.abs(reference), initial=1e-300))
    found = float(np.max(np.abs(result - reference), initial=0.0)) / scale
    allowed = 3e4 * float(np.finfo(reference.dtype).eps)
    return None if found <= allowed else f"wrong values: relative difference {found:.3g}"


def reference(arguments: dict[str, Any], operands: list[Any]) -> Callable[[], Any]:
    """A contraction's result by numpy."""
    return lambda: np.asarray(np.einsum(arguments["subscripts"], *operands, optimize=True), order="C")


def chain_inputs(chains: int, n: int) -> list[tuple[Any, Any, Any, Any]]:
    """Four matrices for each of the chains of products that lanes work on."""
    rng = np.random.default_rng(0)
    scale = n**-0.5
    return [tuple(scale * rng.standard_normal((n, n)) for _ in range(4)) for _ in range(chains)]
