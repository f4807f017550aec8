"""Random contractions in layouts that no library makes on its own, on every instruction set, width and batch policy.

Axes are permuted, stepped over, reversed, stretched and set into guard zones of NaN; values are small integers, so ``==``
decides. What lies around an output is compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
DTYPES = (
    *("float32", "float64", "complex64", "complex128", "float16", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
#: Above it, integers are not exact any more.
EXACT = {"float16": 2**11, "float32": 2**24, "complex64": 2**24}


@pytest.fixture(scope="module")
def many() -> Iterator[list[td.CpuEngine]]:
    """Engines of every instruction set that this machine has, of three widths, and of every batch policy."""
    made = []
    for isa in ("scalar", "avx2", "avx512", "neon"):
        for threads in (1, 2, 3):
            try:
                made.append(td.CpuEngine(threads, isa=isa))
            except td.UnsupportedError:
                break
    policies: list[Any] = ["sequential", "outer", "inner", ("split", 2)]
    made += [td.CpuEngine(3, batch=batch) for batch in policies]
    assert {engine.isa for engine in made} >= {"scalar"}
    yield made
    for engine in made:
        assert engine.state == "open"
        engine.close()


def poison(dtype: np.dtype[Any]) -> Any:
    """What no result may come from."""
    if dtype.kind in "fc":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).max


def scattered(rng: np.random.Generator, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """An equal array whose axes are permuted, stepped and reversed in memory, and all of the memory."""
    rank = values.ndim
    order = rng.permutation(rank)
    steps = [int(rng.choice([1, 1, 1, 2, 3])) for _ in range(rank)]
    before = [int(rng.choice([0, 0, 1, 2])) for _ in range(rank)]
    sizes = [values.shape[axis] for axis in order]
    base = np.full(
        [n * s + b for n, s, b in zip(sizes, steps, before, strict=True)], poison(values.dtype), values.dtype
    )
    view = base[(..., *(slice(b, b + n * s, s) for n, s, b in zip(sizes, steps, before, strict=True)))]
    view = view[(..., *(slice(None, None, -1 if rng.random() < 0.25 else 1) for _ in range(rank)))]
    view = view.transpose(np.argsort(order))
    view[...] = values
    return view, base


def stretched(rng: np.random.Generator, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first entries of one axis over and over, with a stride of zero."""
    axis = int(rng.integers(values.ndim))
    return np.broadcast_to(values.take([0], axis=axis), values.shape) if values.shape[axis] else values


def equation(rng: np.random.Generator) -> tuple[list[list[int]], list[int], list[int]]:
    """Labels of the operands and of the output, and sizes."""
    count = int(rng.choice([1, 2, 2, 2, 2, 3, 4]))
    labels = int(rng.integers(1, 8))
    wide = count <= 2 and rng.random() < 0.5
    edges = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 25, 33, 48, 49, 65]
    sizes = [int(rng.choice(edges)) if wide and rng.random() < 0.5 else int(rng.integers(1, 5)) for _ in range(labels)]
    inputs = []
    for _ in range(count):
        rank = int(rng.integers(0, 6))
        repeats = rng.random() < 0.15
        drawn = rng.integers(0, labels, rank) if repeats else rng.permutation(labels)[:rank]
        inputs.append([int(label) for label in drawn])
    # Neither the loop over all labels nor an operand, whose labels may repeat, is too large for a test.
    for counted, most in ((list(range(labels)), 3e5), *((term, 3e4) for term in inputs)):
        while np.prod([sizes[label] for label in counted], dtype=float) > most:
            sizes[max(counted, key=lambda label: sizes[label])] //= 2
    if rng.random() < 0.07:
        sizes[int(rng.integers(labels))] = 0
    used = sorted({label for labels in inputs for label in labels})
    output = [int(label) for label in rng.permutation([label for label in used if rng.random() < 0.5])]
    return inputs, output, sizes


def one_case(many: list[td.CpuEngine], small: Make, seed: int) -> str:
    rng = np.random.default_rng([seed, 4])
    inputs, output, sizes = equation(rng)
    dtype = np.dtype(str(rng.choice(DTYPES)))
    operands = []
    for number, labels in enumerate(inputs):
        values = small([sizes[label] for label in labels], dtype, seed + number, 2)
        is_stretched = values.ndim > 0 and rng.random() < 0.15
        operands.append(stretched(rng, values) if is_stretched else scattered(rng, values)[0])
    text = ",".join("".join("aBcDeFgH"[label] for label in labels) for labels in inputs)
    text += "->" + "".join("aBcDeFgH"[label] for label in output)
    conj = [bool(rng.random() < 0.5) for _ in operands] if rng.random() < 0.3 else None
    wide = np.dtype(np.float64) if dtype == np.float16 else dtype
    read = [array.astype(wide).conj() if conj and conj[at] else array.astype(wide) for at, array in enumerate(operands)]
    expected = np.asarray(np.einsum(text, *read, optimize=False))
    if dtype.kind in "fc" and np.abs(expected).max(initial=0) * 8 >= EXACT.get(dtype.name, 2**53):
        return "inexact"
    engine = many[int(rng.integers(len(many)))]
    route = str(rng.choice(["auto", "auto", "packed", "gemm", "reference"]))
    options: dict[str, Any] = {"optimize": ["auto", "greedy", "optimal", True, False][int(rng.integers(5))]}
    if conj:
        options["conj"] = conj
    where = f"{text} {[a.shape for a in operands]} {[a.strides for a in operands]} {dtype} {engine} {route} {seed}"

    def call(**more: Any) -> Any:
        nonlocal route
        try:
            return engine.einsum(text, *operands, route=route, **options, **more)
        except td.UnsupportedError:
            assert route in ("packed", "gemm"), where
            route = "auto"
            return engine.einsum(text, *operands, **options, **more)

    order = str(rng.choice(["K", "C", "F", "A"]))
    for _ in range(2):
        value = np.asarray(call(order=order))
        assert value.dtype == dtype, where
        assert value.shape == expected.shape, where
        assert (value == expected).all(), where
    out, base = scattered(rng, np.full(expected.shape, poison(dtype), dtype))
    untouched = base.tobytes()
    assert call(out=out) is out, where
    assert (out == expected).all(), where
    out[...] = poison(dtype)
    assert base.tobytes() == untouched, f"around out: {where}"
    plan = engine.plan(text, *operands, order=order, **options)
    assert (plan(*operands) == expected).all(), where
    held = [at for at in range(len(operands)) if rng.random() < 0.3][: len(operands) - 1]
    plan = engine.plan(text, *operands, constants=held, **options)
    free = [array for at, array in enumerate(operands) if at not in held]
    assert (plan(*free, out=out) == expected).all(), where
    if dtype.kind == "b":
        return route
    old = small(expected.shape, dtype, seed, 2)
    for alpha, beta in ((2, 3), (0, 2), (1, 1)):
        out[...] = old
        call(out=out, alpha=alpha, beta=beta)
        assert (out == (alpha * expected + beta * old.astype(wide)).astype(dtype)).all(), f"{alpha} {beta} {where}"
        out[...] = old
        plan(*free, out=out, alpha=alpha, beta=beta)
        assert (out == (alpha * expected + beta * old.astype(wide)).astype(dtype)).all(), f"{alpha} {beta} {where}"
    out[...] = poison(dtype)
    call(out=out, alpha=0)
    assert (out == 0).all(), where
    return route


@pytest.mark.parametrize("block", range(4))
def test_random_layouts(many: list[td.CpuEngine], small: Make, block: int) -> None:
    seen = {one_case(many, small, seed) for seed in range(block * 400, block * 400 + 400)}
    assert seen >= {"auto", "packed", "gemm", "reference"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_very_many_random_layouts(many: list[td.CpuEngine], small: Make) -> None:
    seen = {one_case(many, small, seed) for seed in range(10_000, 70_000)}
    assert seen >= {"auto", "packed", "gemm", "reference"}
