"""matmul, dot, vdot, vecdot, matvec, vecmat, inner, outer, kron, tensordot, gemm and multi_dot against numpy's, exactly."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

DTYPES = ("float32", "float64", "complex64", "complex128", "int64", "int8", "uint16", "bool", "float16")
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")

Make = Callable[..., npt.NDArray[Any]]

#: Shapes that each function takes, of every kind of rank.
SHAPES: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "matmul": [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((6, 1, 3, 4), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((4,), (2, 4, 5)),
        ((1, 1), (1, 1)),
        ((1, 4), (4, 1)),
        ((4, 1), (1, 4)),
        ((17, 19), (19, 23)),
        ((1, 3, 4), (5, 4, 2)),
        ((5, 0, 4), (4, 2)),
    ],
    "dot": [
        ((3, 4), (4, 5)),
        ((4,), (4,)),
        ((), ()),
        ((), (3,)),
        ((2, 3), ()),
        ((2, 3, 4), (4,)),
        ((2, 3, 4), (5, 4, 2)),
        ((4,), (5, 4, 2)),
    ],
    "inner": [((3, 4), (5, 4)), ((4,), (4,)), ((), (3,)), ((2, 3, 4), (5, 4)), ((2, 3, 4), (4,))],
    "outer": [((3, 4), (2,)), ((), (3,)), ((4,), (5,)), ((2, 2), (2, 2)), ((), ())],
    "vdot": [((3, 4), (3, 4)), ((12,), (3, 4)), ((4,), (4,)), ((), ())],
    "vecdot": [((3, 4), (3, 4)), ((4,), (3, 4)), ((2, 1, 4), (3, 4)), ((4,), (4,))],
    "matvec": [((3, 4), (4,)), ((2, 3, 4), (4,)), ((3, 4), (2, 4)), ((2, 3, 4), (2, 4)), ((2, 1, 3, 4), (5, 4))],
    "vecmat": [((4,), (4, 3)), ((4,), (2, 4, 3)), ((2, 4), (4, 3)), ((2, 4), (2, 4, 3))],
    "kron": [
        ((2, 3), (4, 5)),
        ((2,), (3,)),
        ((), (3,)),
        ((2, 3), (4,)),
        ((2, 1, 3), (2, 2)),
        ((), ()),
        ((1, 1), (2, 1)),
    ],
    "tensordot": [((3, 4, 5), (4, 5, 2)), ((4, 5), (4, 5))],
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_equal_numpys(
    engine: td.CpuEngine, small: Make, lay_out: Make, name: str, dtype: str, layout: str
) -> None:
    ours, numpys = getattr(engine, name), getattr(np, name)
    for one, two in SHAPES[name]:
        a, b = lay_out(small(one, dtype, 1), layout), lay_out(small(two, dtype, 2), layout)
        expected = numpys(a, b)
        for _ in range(2):
            value = ours(a, b)
            # numpy's tensordot alone has 0-d arrays; ours has scalars everywhere.
            assert type(value) is type(expected[()] if name == "tensordot" else expected), (one, two)
            assert value.dtype == expected.dtype
            assert value.shape == expected.shape
            assert (value == expected).all(), (one, two)
        c_order = ours(a, lay_out(b, "C"))
        assert (c_order == expected).all()


@pytest.mark.parametrize("name", ["matmul", "dot", "outer", "vecdot", "matvec", "vecmat"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int32", "float16"])
def test_products_write_into_out(
    engine: td.CpuEngine, small: Make, lay_out: Make, name: str, dtype: str, layout: str
) -> None:
    for one, two in SHAPES[name]:
        a, b = small(one, dtype, 1), small(two, dtype, 2)
        expected = np.asarray(getattr(np, name)(a, b))
        out = lay_out(np.full(expected.shape, 99, dtype), layout)
        assert getattr(engine, name)(a, b, out=out) is out
        assert (out == expected).all()
        assert getattr(engine, name)(a, b, out) is out, "out may be positional, as numpy's"


@pytest.mark.parametrize("name", SHAPES)
def test_products_take_lists_and_mixed_dtypes(engine: td.CpuEngine, small: Make, name: str) -> None:
    for one, two in SHAPES[name]:
        for left, right in itertools.product(("float32", "int64", "complex64", "bool", "uint8"), repeat=2):
            a, b = small(one, left, 1), small(two, right, 2)
            expected = getattr(np, name)(a, b)
            value = getattr(engine, name)(a, b)
            assert value.dtype == expected.dtype, (left, right)
            assert (value == expected).all()
        if 0 not in one:
            a, b = small(one, "float64", 1), small(two, "float64", 2)
            assert (getattr(engine, name)(a.tolist(), b.tolist()) == getattr(np, name)(a, b)).all()


@pytest.mark.parametrize(
    ("name", "shapes", "error"),
    [
        ("matmul", ((3, 4), (3, 4)), td.BroadcastError),
        ("matmul", ((), (3,)), td.ShapeError),
        ("matmul", ((3,), ()), td.ShapeError),
        ("matmul", ((3, 1), (3, 4)), td.BroadcastError),
        ("matmul", ((2, 3, 4), (3, 4, 5)), td.BroadcastError),
        ("matmul", ((3,), (4,)), td.BroadcastError),
        ("dot", ((3, 4), (3, 4)), td.BroadcastError),
        ("dot", ((3, 1), (3, 4)), td.BroadcastError),
        ("dot", ((1,), (3,)), td.BroadcastError),
        ("inner", ((3, 4), (3,)), td.BroadcastError),
        ("vdot", ((3,), (4,)), td.BroadcastError),
        ("vdot", ((1,), (4,)), td.BroadcastError),
        ("vecdot", ((3, 4), (2, 4)), td.BroadcastError),
        ("vecdot", ((3, 1), (3, 4)), td.BroadcastError),
        ("vecdot", ((), (4,)), td.ShapeError),
        ("matvec", ((4,), (4,)), td.ShapeError),
        ("matvec", ((3, 4), (3,)), td.BroadcastError),
        ("vecmat", ((3,), (4, 3)), td.BroadcastError),
        ("vecmat", ((3,), (3,)), td.ShapeError),
        ("gemm", ((3, 4), (3, 4)), td.BroadcastError),
        ("gemm", ((4,), (4, 4)), td.ShapeError),
        ("tensordot", ((3, 4), (5, 6)), td.BroadcastError),
    ],
)
def test_sizes_that_do_not_fit(engine: td.CpuEngine, name: str, shapes: Any, error: type[Exception]) -> None:
    """Core axes never stretch, and the message has the function and both shapes."""
    a, b = (np.ones(shape) for shape in shapes)
    with pytest.raises(error) as caught:
        getattr(engine, name)(a, b)
    assert str(caught.value).startswith(f"{name}: ")
    assert caught.value.operation == name
    if error is td.BroadcastError:
        assert str(a.shape) in str(caught.value)
        assert str(b.shape) in str(caught.value)
    with pytest.raises(ValueError):
        getattr(engine, name)(a.astype("int8"), b.astype("int8"))


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
@pytest.mark.parametrize("lead", [((), ()), ((3,), (3,)), ((2, 1), (3,)), ((4,), ())])
def test_gemm_over_batches(engines: dict[int, td.CpuEngine], small: Make, dtype: str, lead: Any) -> None:
    flip = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: x.conj().swapaxes(-1, -2)}
    for (trans_a, trans_b), width in itertools.product(itertools.product("NTC", repeat=2), engines):
        a = flip[trans_a](small((*lead[0], 3, 5), dtype, 1))
        b = flip[trans_b](small((*lead[1], 5, 2), dtype, 2))
        product = np.matmul(flip[trans_a](a), flip[trans_b](b))
        old = small(product.shape, dtype, 3)
        out = old.copy(order="F")
        assert engines[width].gemm(a, b, trans_a=trans_a, trans_b=trans_b, alpha=2, beta=-1, out=out) is out
        assert (out == 2 * product - old).all()
        assert (engines[width].gemm(a, b, trans_a=trans_a, trans_b=trans_b) == product).all()
    for bad in ("n", "H", None, 1):
        if bad is not None:
            with pytest.raises(td.ArgumentError, match="'N', 'T', 'C'"):
                engines[1].gemm(np.eye(2), np.eye(2), trans_a=bad)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_multi_dot(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    rng = np.random.default_rng(3)
    for count in range(2, 9):
        sizes = [int(n) for n in rng.integers(1, 6, count + 1)]
        chain = [small((sizes[n], sizes[n + 1]), dtype, n, 2) for n in range(count)]
        for first, last in itertools.product((False, True), repeat=2):
            arrays = list(chain)
            if first:
                arrays[0] = arrays[0][0]
            if last:
                arrays[-1] = arrays[-1][:, 0]
            expected = arrays[0]
            for array in arrays[1:]:
                expected = expected @ array
            value = engine.multi_dot(arrays)
            assert np.shape(value) == np.shape(expected)
            assert (value == expected).all()
            out = np.zeros(np.shape(expected), dtype)
            assert engine.multi_dot(iter(arrays), out=out) is out
            assert (out == expected).all()
    for bad, error in (
        ([], td.ShapeError),
        ([np.eye(2)], td.ShapeError),
        ([np.eye(2), np.ones(2), np.eye(2)], td.ShapeError),
        ([np.eye(2), np.eye(2), np.ones((2, 2, 2))], td.MatrixShapeError),
        ([np.eye(2), np.eye(3)], td.BroadcastError),
        ([np.ones(()), np.eye(3), np.eye(3)], np.linalg.LinAlgError),
        ([np.eye(3), np.eye(3), np.ones(())], td.ShapeError),
    ):
        with pytest.raises(error):
            engine.multi_dot(bad)


def test_multi_dot_takes_the_cheapest_order(engine: td.CpuEngine) -> None:
    """Cormen's example: 15125 multiplications, ((A (B C)) ((D E) F))."""
    from treadle import _native

    sizes = [30, 35, 15, 5, 10, 20, 25]
    path = _native._chain_path(sizes)
    live = [(sizes[n], sizes[n + 1]) for n in range(6)]
    cost = 0
    for one, two in path:
        left, right = live[one], live[two]
        if left[1] != right[0]:
            left, right = right, left
        assert left[1] == right[0]
        cost += left[0] * left[1] * right[1]
        live = [pair for at, pair in enumerate(live) if at not in (one, two)] + [(left[0], right[1])]
    assert cost == 15125
    arrays = [np.ones((sizes[n], sizes[n + 1])) for n in range(6)]
    assert (engine.multi_dot(arrays) == 35.0 * 15 * 5 * 10 * 20).all()


@pytest.mark.parametrize("name", ["kron", "tensordot", "outer"])
def test_many_axes_of_length_one(engine: td.CpuEngine, name: str) -> None:
    a, b = np.full((1,) * 30, 2.0), np.full((1,) * 30, 3.0)
    value = engine.tensordot(a, b, axes=0) if name == "tensordot" else getattr(engine, name)(a, b)
    assert value.shape == {"kron": (1,) * 30, "tensordot": (1,) * 60, "outer": (1, 1)}[name]
    assert value.sum() == 6
    wide = np.full((1,) * 60, 2.0)
    assert engine.kron(wide, wide).shape == (1,) * 60


@pytest.mark.parametrize("dtype", ["float64", "complex128", "int16"])
def test_operands_that_do_not_flatten_are_not_copied(engine: td.CpuEngine, dtype: str) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-4, 5, (600, 700)).astype(dtype) for _ in range(2))
    if dtype == "complex128":
        a, b = a + 1j * b, b - 1j * a
    short = np.arange(3).astype(dtype)
    for left, right in ((a.T, b.T), (a[::-1].T, b.T), (a[:, ::2], b[:, 1::2])):
        tracemalloc.start()
        dot = engine.vdot(left, right)
        _, dot_peak = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        product = engine.outer(left, short)
        _, outer_peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert dot == np.vdot(left, right)
        expected = np.outer(left, short)
        assert (product == expected).all()
        assert product.shape == expected.shape
        assert product.flags.c_contiguous
        # One of the operands would be this large.
        assert dot_peak < left.nbytes / 4
        assert outer_peak < product.nbytes + left.nbytes / 4
