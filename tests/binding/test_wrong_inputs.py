"""Wrong inputs at every contracting function: an ordinary, typed exception each time, and an open engine afterwards."""

from __future__ import annotations

import decimal
import fractions
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td


@pytest.fixture(scope="module")
def engine() -> Iterator[td.CpuEngine]:
    with td.CpuEngine(2) as one:
        yield one


class Hostile:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


class LyingInterface:
    """An ``__array_interface__`` that is no such thing."""

    __array_interface__ = "nothing"


class LyingShape:
    """Memory that is shorter than its shape."""

    __array_interface__ = {"shape": (1000,), "typestr": "<f8", "data": b"12345678", "version": 3}  # noqa: RUF012


class OnlyArrayMethod:
    """``__array__`` alone may compute or copy anything; it is no array here."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones((2, 2))


GOOD = np.array([[1.0, 2.0], [3.0, 4.0]])
BAD: dict[str, Any] = {
    "None": None,
    "object": object(),
    "type": int,
    "function": len,
    "text": "ij",
    "bytes": b"ij",
    "dict": {"a": 1},
    "set": {1.0, 2.0},
    "generator": (x for x in (1.0, 2.0)),
    "ragged": [[1.0, 2.0], [3.0]],
    "list of None": [[None, 1.0], [2.0, 3.0]],
    "list of text": [["a", "b"], ["c", "d"]],
    "huge int": 10**400,
    "list of huge ints": [[10**30, 1], [2, 3]],
    "fraction": fractions.Fraction(1, 3),
    "decimal": decimal.Decimal("0.1"),
    "void": np.zeros((2, 2), "V8"),
    "structured": np.zeros((2, 2), "f8,i4"),
    "masked": np.ma.masked_array(GOOD, GOOD > 2),
    "object array": np.array([[1, None], [2, 3]], dtype=object),
    "datetime": np.zeros((2, 2), "M8[ns]"),
    "30 axes": np.ones((1,) * 30),
    "64 axes": np.ones((1,) * 64),
    "empty": np.ones((0, 3)),
    "wrong shape": np.ones((3, 5)),
    "lying interface": LyingInterface(),
    "lying shape": LyingShape(),
    "only __array__": OnlyArrayMethod(),
    "hostile": Hostile(),
    "ellipsis": ...,
    "module": np,
    "nested deep": eval("[" * 70 + "1.0" + "]" * 70),  # deeper than an array can be
    "self-containing": [1.0],
}
if np.dtype(np.longdouble).itemsize > 8:
    BAD["longdouble"] = np.ones((2, 2), np.longdouble)
BAD["self-containing"].append(BAD["self-containing"])

CALLS: dict[str, Callable[[td.CpuEngine, Any, Any], Any]] = {
    "einsum": lambda e, a, b: e.einsum("ij,jk->ik", a, b),
    "einsum, three": lambda e, a, b: e.einsum("ij,jk,kl->il", GOOD, a, b),
    "einsum, interleaved": lambda e, a, b: e.einsum(a, [0, 1], b, [1, 2], [0, 2]),
    "einsum, options": lambda e, a, b: e.einsum("ij,jk->ik", a, b, optimize="greedy", alpha=2, conj=[True, False]),
    "einsum_path": lambda e, a, b: e.einsum_path("ij,jk->ik", a, b),
    "matmul": lambda e, a, b: e.matmul(a, b),
    "matmul, dtype": lambda e, a, b: e.matmul(a, b, dtype="float64"),
    "dot": lambda e, a, b: e.dot(a, b),
    "vecdot": lambda e, a, b: e.vecdot(a, b),
    "matvec": lambda e, a, b: e.matvec(a, b[0] if isinstance(b, np.ndarray) and b is GOOD else b),
    "vecmat": lambda e, a, b: e.vecmat(a[0] if isinstance(a, np.ndarray) and a is GOOD else a, b),
    "gemm": lambda e, a, b: e.gemm(a, b, trans_a="T"),
    "multi_dot": lambda e, a, b: e.multi_dot([a, GOOD, b]),
    "tensordot": lambda e, a, b: e.tensordot(a, b, axes=1),
    "inner": lambda e, a, b: e.inner(a, b),
    "vdot": lambda e, a, b: e.vdot(a, b),
}


@pytest.mark.parametrize(("name", "kind"), list(itertools.product(CALLS, BAD)))
def test_pyb_03_wrong_operands(engine: td.CpuEngine, name: str, kind: str) -> None:
    """Either side; ``Exception`` and no bare ``BaseException``, with a code, naming the operand where one is to blame."""
    for arrays in ((BAD[kind], GOOD), (GOOD, BAD[kind])):
        with pytest.raises(Exception) as caught:
            CALLS[name](engine, *arrays)
        error = caught.value
        if kind not in ("hostile", "generator"):
            assert isinstance(error, td.TreadleError), repr(error)
            assert isinstance(error, (ValueError, TypeError))
            assert error.code
            assert str(error).startswith(name.partition(",")[0] + ": ")
        assert engine.state == "open"
    assert (engine.matmul(GOOD, GOOD) == GOOD @ GOOD).all()


@pytest.mark.parametrize(
    "name", ["matmul", "dot", "einsum", "gemm", "multi_dot", "outer", "vecdot", "matvec", "vecmat"]
)
@pytest.mark.parametrize(
    "out",
    [
        "text",
        7,
        object(),
        [[0.0, 0.0], [0.0, 0.0]],
        np.zeros((3, 3)),
        np.zeros((2, 2), "M8[s]"),
        np.zeros((2, 2), object),
        np.broadcast_to(np.zeros(2), (2, 2)),
        (np.zeros((2, 2)), np.zeros((2, 2))),
        (),
        np.float64(3),
        GOOD,
    ],
    ids=lambda out: f"{type(out).__name__} {getattr(out, 'dtype', '')} {getattr(out, 'shape', '')}",
)
def test_pyb_03_wrong_outs(engine: td.CpuEngine, name: str, out: Any) -> None:
    v = GOOD[0]
    before = GOOD.copy()
    calls: dict[str, Callable[[], Any]] = {
        "matmul": lambda: engine.matmul(GOOD, GOOD, out=out),
        "dot": lambda: engine.dot(GOOD, GOOD, out=out),
        "einsum": lambda: engine.einsum("ij,jk->ik", GOOD, GOOD, out=out),
        "gemm": lambda: engine.gemm(GOOD, GOOD, out=out),
        "multi_dot": lambda: engine.multi_dot([GOOD, GOOD], out=out),
        "outer": lambda: engine.outer(v, v, out=out),
        "vecdot": lambda: engine.vecdot(GOOD[:, None], GOOD, out=out),
        "matvec": lambda: engine.matvec(np.stack([GOOD, GOOD]), GOOD, out=out),
        "vecmat": lambda: engine.vecmat(GOOD, np.stack([GOOD, GOOD]), out=out),
    }
    with pytest.raises(td.TreadleError) as caught:
        calls[name]()
    assert isinstance(caught.value, (ValueError, TypeError))
    assert (before == GOOD).all()
    assert engine.state == "open"


def test_pyb_03_ragged_arguments(engine: td.CpuEngine) -> None:
    """Missing, surplus and misnamed arguments are Python's TypeErrors."""
    for call in (
        lambda: engine.matmul(GOOD),
        lambda: engine.matmul(GOOD, GOOD, GOOD.copy(), GOOD),
        lambda: engine.matmul(a=GOOD, b=GOOD),
        lambda: engine.dot(),
        lambda: engine.einsum(),
        lambda: engine.einsum("ij->ji", GOOD, out=None, nothing=1),
        lambda: engine.multi_dot(),
        lambda: engine.multi_dot(3),
        lambda: engine.gemm(GOOD, GOOD, 2),
        lambda: engine.vdot(GOOD),
        lambda: engine.kron(GOOD, GOOD, GOOD),
    ):
        with pytest.raises(TypeError):
            call()
    assert engine.state == "open"


def test_pyb_03_an_exception_from_a_users_object_passes_through(engine: td.CpuEngine) -> None:
    class MarkerError(Exception):
        pass

    class Alpha:
        def __index__(self) -> int:
            raise MarkerError

        def __float__(self) -> float:
            raise MarkerError

    with pytest.raises((MarkerError, td.DTypeError)):
        engine.einsum("ij->i", GOOD, alpha=Alpha())

    def arrays() -> Any:
        yield GOOD
        raise MarkerError

    with pytest.raises(MarkerError):
        engine.multi_dot(arrays())

    class Labels(list[int]):
        def __iter__(self) -> Any:
            raise MarkerError

    with pytest.raises(MarkerError):
        engine.einsum(GOOD, Labels([0, 1]))
    assert engine.state == "open"
    assert (engine.matmul(GOOD, GOOD) == GOOD @ GOOD).all()


def test_pyb_03_an_object_that_calls_back_into_the_engine(engine: td.CpuEngine) -> None:
    """Conversion happens before the engine is taken, so an operand may use it."""

    class Lazy:
        @property
        def __array_interface__(self) -> Any:
            self.kept = engine.matmul(GOOD, GOOD)
            return self.kept.__array_interface__

    lazy = Lazy()
    assert (engine.matmul(lazy, GOOD) == GOOD @ GOOD @ GOOD).all()
    assert engine.state == "open"


def test_pyb_03_a_closed_engine_says_so(engine: td.CpuEngine) -> None:
    closed = td.CpuEngine(1)
    closed.close()
    for name, call in CALLS.items():
        if name == "einsum_path":
            continue
        with pytest.raises(td.EngineClosedError):
            call(closed, GOOD, GOOD)
    for call in (
        lambda: closed.einsum("ij->ji", GOOD),
        lambda: closed.einsum("ij->ji", GOOD.astype("float16")),
        lambda: closed.outer(GOOD, GOOD),
        lambda: closed.kron(GOOD, GOOD),
        lambda: closed.einsum("ij,jk->ik", GOOD, GOOD, out=np.zeros((2, 2))),
    ):
        with pytest.raises(td.EngineClosedError):
            call()
