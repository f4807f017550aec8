"""numpy's keywords of generalised ufuncs: axes, axis, keepdims, dtype, casting, order; and long long."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]

#: Function, shapes, axes.
AXES: list[tuple[str, tuple[int, ...], tuple[int, ...], Any]] = [
    ("matmul", (3, 4), (4, 5), [(-2, -1), (-2, -1), (-2, -1)]),
    ("matmul", (4, 3), (4, 5), [(1, 0), (0, 1), (0, 1)]),
    ("matmul", (4, 3), (5, 4), [(-1, -2), (-1, -2), (-1, -2)]),
    ("matmul", (3, 2, 4), (4, 2, 5), [(0, 2), (0, 2), (0, 1)]),
    ("matmul", (3, 2, 4), (4, 2, 5), [(0, 2), (0, 2), (2, 0)]),
    ("matmul", (6, 3, 2, 4), (4, 2, 5), [(1, 3), (0, 2), (-1, 0)]),
    ("matmul", (4, 3), (4,), [(1, 0), (0,), (0,)]),
    ("matmul", (4, 3), (4,), [(1, 0), 0, 0]),
    ("matmul", (4,), (4, 5), [0, (0, 1), 0]),
    ("matmul", (4,), (2, 4, 5), [0, (1, 2), 0]),
    ("matmul", (4,), (4,), [0, 0, ()]),
    ("vecdot", (4, 3), (4, 3), [0, 0]),
    ("vecdot", (4, 3), (3, 4), [(0,), (1,)]),
    ("vecdot", (2, 4, 3), (2, 3, 4), [1, 2, ()]),
    ("vecdot", (4,), (4, 3), [0, 0]),
    ("matvec", (4, 3), (4,), [(1, 0), 0, 0]),
    ("matvec", (2, 4, 3), (4, 2), [(2, 1), 0, 0]),
    ("matvec", (2, 4, 3), (4, 2), [(2, 1), (0,), (1,)]),
    ("vecmat", (4, 2), (2, 3, 4), [0, (2, 1), 0]),
    ("vecmat", (4,), (3, 4), [0, (1, 0), -1]),
]


@pytest.mark.parametrize(("name", "one", "two", "axes"), AXES, ids=str)
@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32", "float16"])
def test_axes_are_numpys(
    engine: td.CpuEngine,
    small: Make,
    name: str,
    one: tuple[int, ...],
    two: tuple[int, ...],
    axes: Any,
    dtype: str,
) -> None:
    a, b = small(one, dtype, 1), small(two, dtype, 2)
    expected = getattr(np, name)(a, b, axes=axes)
    value = getattr(engine, name)(a, b, axes=axes)
    assert type(value) is type(expected)
    assert value.dtype == expected.dtype
    assert value.shape == expected.shape
    assert (value == expected).all()
    for order in "CF":
        out = np.full(expected.shape, 77, dtype, order=order)
        assert getattr(engine, name)(a, b, out=out, axes=axes) is out
        assert (out == expected).all()
        assert getattr(engine, name)(a, b, (out,), axes=tuple(axes)) is out


def test_axis_and_keepdims_of_vecdot(engine: td.CpuEngine, small: Make) -> None:
    for dtype, (one, two) in itertools.product(
        ("float64", "complex128", "int8"), [((2, 3, 4), (2, 3, 4)), ((4, 3), (2, 4, 3)), ((5,), (5,))]
    ):
        a, b = small(one, dtype, 1), small(two, dtype, 2)
        for axis in range(-min(a.ndim, b.ndim), 0):
            for keepdims in (False, True):
                expected = np.vecdot(a, b, axis=axis, keepdims=keepdims)
                value = engine.vecdot(a, b, axis=axis, keepdims=keepdims)
                assert np.shape(value) == np.shape(expected)
                assert (value == expected).all()
                out = np.full(np.shape(expected), 77, dtype)
                assert engine.vecdot(a, b, out=out, axis=axis, keepdims=keepdims) is out
                assert (out == expected).all()
        assert (engine.vecdot(a, b, keepdims=True) == np.vecdot(a, b, keepdims=True)).all()
    a = small((4, 3), "float64")
    for axes in ([0, 0], [0, 0, 1], [0, 0, 0]):
        expected = np.vecdot(a, a, axes=axes, keepdims=True)
        value = engine.vecdot(a, a, axes=axes, keepdims=True)
        assert value.shape == expected.shape
        assert (value == expected).all()
    assert engine.vecdot(a, a, keepdims=False).shape == (4,)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("matmul", {"axes": [(0, 1), (0, 1)]}, td.ArgumentError),
        ("matmul", {"axes": 0}, td.ArgumentError),
        ("matmul", {"axes": "ij"}, td.ArgumentError),
        ("matmul", {"axes": [(0, 1), (0, 1), 0]}, td.AxisError),
        ("matmul", {"axes": [(0, 1), (0, 1), (0, 0)]}, td.AxisError),
        ("matmul", {"axes": [(0, 1), (0, 1), (0, 2)]}, td.AxisError),
        ("matmul", {"axes": [(0, 2), (0, 1), (0, 1)]}, td.AxisError),
        ("matmul", {"axes": [(0, 1.5), (0, 1), (0, 1)]}, td.ArgumentError),
        ("matmul", {"axes": [(0, 1), None, (0, 1)]}, td.ArgumentError),
        ("matmul", {"axis": 0}, TypeError),
        ("matmul", {"keepdims": True}, TypeError),
        ("matmul", {"where": True}, TypeError),
        ("matmul", {"subok": True}, td.UnsupportedError),
        ("matmul", {"signature": "dd->d"}, td.UnsupportedError),
        ("matmul", {"casting": "any"}, td.ArgumentError),
        ("matmul", {"order": "X"}, td.ArgumentError),
        ("matmul", {"dtype": "O"}, td.DTypeError),
        ("vecdot", {"axis": 2}, td.AxisError),
        ("vecdot", {"axis": 1.5}, td.ArgumentError),
        ("vecdot", {"axis": 0, "axes": [0, 0]}, td.ArgumentError),
        ("vecdot", {"axes": [0]}, td.ArgumentError),
        ("vecdot", {"axes": [0, 0, 0]}, td.AxisError),
        ("vecdot", {"axes": [(0, 1), 0]}, td.AxisError),
        ("vecdot", {"keepdims": 3}, td.ArgumentError),
        ("vecdot", {"axes": [0, 0, 5], "keepdims": True}, td.AxisError),
        ("vecdot", {"nothing": 3}, TypeError),
        ("matvec", {"axis": 0}, TypeError),
        ("matvec", {"axes": [(0, 1), 0]}, td.ArgumentError),
        ("vecmat", {"keepdims": True}, TypeError),
        ("vecmat", {"axes": [0, (0, 1), 3]}, td.AxisError),
    ],
    ids=str,
)
def test_options_that_do_not_fit(
    engine: td.CpuEngine, name: str, options: dict[str, Any], error: type[Exception]
) -> None:
    a = np.ones((3, 3))
    out = np.full((3, 3), 7.0)
    for more in ({}, {"out": out}):
        with pytest.raises(error) as caught:
            getattr(engine, name)(a, a, **options, **more)
        assert name in str(caught.value)
    assert (out == 7).all()
    assert engine.state == "open"


def test_dtype_casting_and_order_of_all_four(engine: td.CpuEngine, small: Make) -> None:
    shapes = {
        "matmul": ((2, 3, 4), (2, 4, 5)),
        "vecdot": ((2, 3, 4), (2, 3, 4)),
        "matvec": ((2, 3, 4), (2, 4)),
        "vecmat": ((2, 3, 4), (2, 3, 4, 5)),
    }
    for name, (one, two) in shapes.items():
        a, b = small(one, "float32", 1), small(two, "float32", 2)
        ours, theirs = getattr(engine, name), getattr(np, name)
        for dtype in ("float64", "complex128", np.float32):
            value = ours(a, b, dtype=dtype)
            assert value.dtype == np.dtype(dtype)
            assert (value == theirs(a, b, dtype=dtype)).all()
        value = ours(a, b, dtype="int64", casting="unsafe")
        assert value.dtype == np.int64
        assert (value == theirs(a, b)).all()
        with pytest.raises(td.DTypeError, match="int64"):
            ours(a, b, dtype="int64")
        with pytest.raises(td.DTypeError):
            ours(a, b, dtype="float64", casting="no")
        for order in "CFKA":
            value = ours(a, b, order=order)
            assert (value == theirs(a, b)).all()
            if order in "CF":
                assert value.flags[f"{order}_CONTIGUOUS"]
        assert (ours(a, b, subok=False) == theirs(a, b)).all()
        wide = np.zeros(theirs(a, b).shape, "float64")
        assert ours(a, b, out=wide, casting="safe") is wide
        assert (wide == theirs(a, b)).all()


# --- long long -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "first"), [("q", "l"), ("Q", "L"), ("i", "l"), ("I", "L"), ("q", "i")])
def test_results_have_the_c_type_that_numpys_have(engine: td.CpuEngine, second: str, first: str) -> None:
    """Where two C types are one dtype, the result goes by the name that numpy's promotion gives it."""
    for one, two in itertools.product((second, first), repeat=2):
        a, b = np.arange(9, dtype=one).reshape(3, 3), np.arange(9, dtype=two).reshape(3, 3)
        wanted = np.result_type(a, b)
        calls: dict[str, tuple[Any, Any]] = {
            "matmul": (engine.matmul(a, b), np.matmul(a, b)),
            "dot": (engine.dot(a, b), np.dot(a, b)),
            "einsum": (engine.einsum("ij,jk->ik", a, b), np.matmul(a, b)),
            "three": (engine.einsum("ij,jk,kl->il", a, b, b), a @ b @ b),
            "sum": (engine.einsum("ij,ij->", a, b), (a * b).sum()),
            "outer": (engine.outer(a, b), np.outer(a, b)),
            "kron": (engine.kron(a, b), np.kron(a, b)),
            "vecdot": (engine.vecdot(a, b), np.vecdot(a, b)),
            "tensordot": (engine.tensordot(a, b, 1), np.tensordot(a, b, 1)),
            "gemm": (engine.gemm(a, b, alpha=2), 2 * np.matmul(a, b)),
        }
        for name, (value, expected) in calls.items():
            assert value.dtype.num == wanted.num, (name, one, two)
            assert (value == expected).all(), name
        assert type(engine.einsum("ij,ij->", a, b)) is wanted.type
        out = np.zeros((3, 3), second)
        assert engine.matmul(a, b, out=out) is out
        assert (out == a @ b).all()
    a = np.arange(6, dtype=second).reshape(2, 3)
    view = engine.einsum("ij->ji", a)
    assert view.dtype.num == a.dtype.num
    assert np.shares_memory(view, a)
