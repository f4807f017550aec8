"""The products with numpy's names against numpy's, over shapes, broadcasts, mixed dtypes, layouts and outs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
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
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")
#: Names whose numpy function takes an `out`.
OUTS = ("matmul", "dot", "outer", "vecdot", "matvec", "vecmat", "gemm", "multi_dot")
NAMES = (*OUTS, "inner", "kron", "vdot", "tensordot")
Call = tuple[list[npt.NDArray[Any]], dict[str, Any]]


def shape(rng: np.random.Generator, most: int) -> list[int]:
    return [int(rng.choice([0, 1, 2, 3, 4, 5, 8, 9])) for _ in range(int(rng.integers(0, most)))]


def batch_of(rng: np.random.Generator, batch: list[int]) -> list[int]:
    """A shape that broadcasts to that one."""
    kept = batch[int(rng.integers(0, len(batch) + 1)) :] if rng.random() < 0.4 else batch
    return [1 if rng.random() < 0.25 else size for size in kept]


def draw(rng: np.random.Generator, name: str, make: Callable[[list[int]], npt.NDArray[Any]]) -> Call:
    m, k, n = (int(rng.choice([0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 25, 33, 48, 65])) for _ in range(3))
    batch = [int(rng.choice([0, 1, 2, 2, 3, 3, 4])) for _ in range(int(rng.integers(0, 3)))]
    one, other = batch_of(rng, batch), batch_of(rng, batch)
    if name == "matmul":
        kind = rng.random()
        left = [k] if kind < 0.2 else [*one, m, k]
        right = [k] if 0.15 < kind < 0.35 else [*other, k, n]
        return [make(left), make(right)], {}
    if name == "dot":
        scalar = rng.random()
        left = [] if scalar < 0.1 else [*shape(rng, 3), k]
        right = [] if scalar > 0.9 else [k] if scalar > 0.6 else [*shape(rng, 2), k, n]
        return [make(left), make(right)], {}
    if name == "inner":
        return [make([] if rng.random() < 0.1 else [*shape(rng, 3), k]), make([*shape(rng, 2), k])], {}
    if name in ("outer", "kron"):
        return [make(shape(rng, 3)), make(shape(rng, 3))], {}
    if name == "vdot":
        both = shape(rng, 4)
        return [make(both), make(both)], {}
    if name == "vecdot":
        return [make([*one, k]), make([*other, k])], {}
    if name == "matvec":
        return [make([*one, m, k]), make([*other, k])], {}
    if name == "vecmat":
        return [make([*one, k]), make([*other, k, n])], {}
    if name == "gemm":
        how = [str(rng.choice(["N", "T", "C"])) for _ in range(2)]
        left, right = [m, k] if how[0] == "N" else [k, m], [k, n] if how[1] == "N" else [n, k]
        return [make([*one, *left]), make([*other, *right])], {"trans_a": how[0], "trans_b": how[1]}
    if name == "multi_dot":
        chain = [int(rng.choice([1, 2, 3, 4, 5, 8])) for _ in range(int(rng.integers(3, 6)))]
        shapes = [list(pair) for pair in itertools.pairwise(chain)]
        shapes[0] = shapes[0][1:] if rng.random() < 0.3 else shapes[0]
        shapes[-1] = shapes[-1][:1] if rng.random() < 0.3 else shapes[-1]
        return [make(sizes) for sizes in shapes], {}
    left, right = shape(rng, 5), shape(rng, 5)
    pairs = int(rng.integers(0, min(len(left), len(right)) + 1))
    axes = [[int(axis) for axis in rng.permutation(len(sizes))[:pairs]] for sizes in (left, right)]
    for a_axis, b_axis in zip(*axes, strict=True):
        right[b_axis] = left[a_axis]
    axes[0] = [axis - len(left) if rng.random() < 0.3 else axis for axis in axes[0]]
    return [make(left), make(right)], {"axes": axes}


def right_value(name: str, arrays: list[npt.NDArray[Any]], options: dict[str, Any]) -> tuple[Any, np.dtype[Any]]:
    dtype = np.result_type(*arrays)
    # numpy sums half precision in half precision.
    wide = np.dtype(np.float64) if dtype == np.float16 else dtype
    read = [array.astype(wide) for array in arrays]
    if name == "gemm":

        def turned(array: npt.NDArray[Any], how: str) -> npt.NDArray[Any]:
            array = array if how == "N" else np.swapaxes(array, -1, -2)
            return array.conj() if how == "C" and wide.kind == "c" else array

        return np.matmul(turned(read[0], options["trans_a"]), turned(read[1], options["trans_b"])), dtype
    if name == "multi_dot":
        value: Any = read[0]
        for matrix in read[1:]:
            value = np.dot(value, matrix)
        return value, dtype
    return getattr(np, name)(*read, **options), dtype


@pytest.mark.parametrize("name", NAMES)
def test_products_equal_numpys(engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, name: str) -> None:
    checked = 0
    for seed in range(120):
        rng = np.random.default_rng([seed, 9, NAMES.index(name)])
        common = str(rng.choice(DTYPES))
        turn = itertools.count()

        def make(sizes: list[int]) -> npt.NDArray[Any]:
            dtype = common if rng.random() < 0.8 else str(rng.choice(DTYPES))
            return lay_out(small(sizes, dtype, seed + next(turn), 2), str(rng.choice(LAYOUTS)))

        arrays, options = draw(rng, name, make)
        expected, dtype = right_value(name, arrays, options)
        if dtype.kind in "fc" and np.abs(expected).max(initial=0) * 4 >= (2048 if dtype == np.float16 else 2**24):
            continue
        checked += 1
        engine = list(engines.values())[seed % len(engines)]
        where = f"{name} {[(a.shape, a.strides, str(a.dtype)) for a in arrays]} {options} {engine} seed {seed}"

        def call(**more: Any) -> Any:
            verb = getattr(engine, name)
            return verb(arrays, **more) if name == "multi_dot" else verb(*arrays, **options, **more)

        for _ in range(2):
            value = np.asarray(call())
            assert value.shape == np.shape(expected), where
            assert value.dtype == dtype, where
            assert (value == expected).all(), where
        if name not in OUTS:
            continue
        out = lay_out(np.zeros(np.shape(expected), dtype), str(rng.choice(LAYOUTS)))
        out[...] = np.nan if dtype.kind in "fc" else 1
        assert call(out=out) is out, where
        assert (out == expected).all(), where
        if name == "gemm" and dtype.kind != "b":
            old = small(np.shape(expected), dtype, seed, 2)
            out[...] = old
            call(out=out, alpha=2, beta=3)
            assert (out == (2 * expected + 3 * old).astype(dtype)).all(), where
    assert checked > 60


CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


@pytest.mark.parametrize("casting", CASTINGS)
@pytest.mark.parametrize("name", ["einsum", "matmul", "vecdot"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_dtype_and_casting_decide_as_numpys(engine: td.CpuEngine, small: Make, name: str, casting: str) -> None:
    """Every pair of dtypes with every `dtype=` and every dtype of out: refused alike, else the same value and dtype."""
    kinds = ("bool", "int8", "uint64", "float32", "float64", "complex64")
    for one, other, wanted, into in itertools.product(kinds, kinds, (None, *kinds), (None, "float32", "complex128")):
        if wanted is not None and into is not None:
            continue  # numpy's out is an operand there, ours a target: the difference is numpy's strictness
        a, b = small((3, 4), one), small((4, 5), other, 1)
        b = b if name != "vecdot" else small((3, 4), other, 1)
        options: dict[str, Any] = {"casting": casting} if wanted is None else {"casting": casting, "dtype": wanted}
        shape = (3,) if name == "vecdot" else (3, 5)
        outs = [None if into is None else np.full(shape, 7, into) for _ in range(2)]
        operands = ("ij,jk->ik", a, b) if name == "einsum" else (a, b)
        where = f"{one} {other} {wanted} {into}"
        try:
            right = getattr(np, name)(*operands, out=outs[0], **options)
        except TypeError:
            with pytest.raises(td.DTypeError):
                getattr(engine, name)(*operands, out=outs[1], **options)
            assert outs[1] is None or (outs[1] == 7).all(), where
            continue
        value = getattr(engine, name)(*operands, out=outs[1], **options)
        assert value.dtype == right.dtype, where
        assert np.array_equal(value, right), where
