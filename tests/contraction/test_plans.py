"""Plans: values, outputs, other strides, refusals, pickles, and the engine that a plan belongs to."""

from __future__ import annotations

import copy
import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

DTYPES = ("float32", "float64", "complex64", "complex128", "int64", "int8", "uint16", "bool")
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")

Make = Callable[..., npt.NDArray[Any]]

CASES: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "product": ("ij,jk->ik", [(3, 4), (4, 5)]),
    "transposed": ("ji,kj->ki", [(4, 3), (5, 4)]),
    "batch": ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
    "ellipsis": ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]),
    "scattered": ("aibj,jcid->abcd", [(2, 3, 2, 4), (4, 2, 3, 2)]),
    "sum": ("ij->j", [(3, 4)]),
    "sum of all": ("ij->", [(3, 4)]),
    "trace": ("iij->j", [(3, 3, 4)]),
    "outer": ("i,j->ij", [(3,), (4,)]),
    "dot": ("i,i->", [(7,), (7,)]),
    "scalar": (",ij->ji", [(), (3, 4)]),
    "chain": ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
    "ten": (",".join(["ab"] * 10) + "->a", [(2, 3)] * 10),
    "empty sum": ("ij,jk->ik", [(3, 0), (0, 4)]),
    "empty": ("ij,jk->ik", [(0, 3), (3, 4)]),
    "ones": ("ij,jk->ik", [(1, 1), (1, 1)]),
    "stretched": ("ij,ij->ij", [(3, 1), (3, 4)]),
    "parentheses": ("(ij,jk),kl->il", [(2, 3), (3, 4), (4, 5)]),
}


# --- values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plan_is_einsum(engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, name: str, dtype: str) -> None:
    """From arrays and from shapes, with arrays of every layout, cold and warm."""
    subscripts, shapes = CASES[name]
    engine = engines[1 + (len(name) + len(dtype)) % 3]
    arrays = [small(shape, dtype, seed, 1) for seed, shape in enumerate(shapes)]
    expected = np.asarray(engine.einsum(subscripts, *arrays, route="reference"))
    for plan in (
        engine.plan(subscripts, *arrays),
        engine.plan(subscripts, *shapes, dtype=dtype),
        engine.plan(subscripts, arrays[0], *shapes[1:], dtype=dtype),
    ):
        assert plan.shapes == tuple(shapes)
        assert plan.shape == expected.shape
        assert plan.dtype == dtype
        for layout, _ in itertools.product(LAYOUTS, range(2)):
            value = plan(*(lay_out(array, layout) for array in arrays))
            assert type(value) is type(engine.einsum(subscripts, *arrays))
            assert value.dtype == dtype
            assert value.shape == expected.shape
            assert (value == expected).all(), layout
            value = plan(arrays[0], *(lay_out(array, layout) for array in arrays[1:]))
            assert (value == expected).all(), layout


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "int64"])
def test_out_alpha_and_beta(engine: td.CpuEngine, small: Make, lay_out: Make, layout: str, dtype: str) -> None:
    for name, (subscripts, shapes) in CASES.items():
        arrays = [small(shape, dtype, seed, 1) for seed, shape in enumerate(shapes)]
        plan = engine.plan(subscripts, *shapes, dtype=dtype)
        expected = np.asarray(engine.einsum(subscripts, *arrays, route="reference"))
        poison = np.nan if np.dtype(dtype).kind in "fc" else 77
        for order in ("C", layout):
            out = lay_out(np.full(expected.shape, poison, dtype), order)
            assert plan(*arrays, out=out) is out
            assert (out == expected).all(), name
            old = small(expected.shape, dtype, 9)
            out = lay_out(old, order)
            assert plan(*arrays, out=out, alpha=2, beta=-1) is out
            assert (out == 2 * expected - old).all(), name
            assert plan(*arrays, out=out, alpha=0, beta=1) is out
            assert (out == 2 * expected - old).all(), name
        assert (plan(*arrays, alpha=3) == 3 * expected).all()
        assert plan(*arrays, out=None, alpha=None, beta=None).tolist() == expected.tolist()


def test_what_was_not_planned_for_is_converted_where_einsum_converts(engine: td.CpuEngine, small: Make) -> None:
    """Mixed dtypes, half precision, long long, lists, foreign byte order."""
    a, b = small((3, 4), "float32", 1), small((4, 2), "float64", 2)
    plan = engine.plan("ij,jk->ik", a, b)
    assert plan.dtype == np.float64
    for one, other in ((a, b), (np.asfortranarray(a), b[::-1][::-1]), (a.astype(">f4"), b.astype(">f8"))):
        value = plan(one, other)
        assert value.dtype == np.float64
        assert (value == a.astype("float64") @ b).all()
    out = np.full((3, 2), np.nan)
    assert plan(a, b, out=out, alpha=2) is out
    assert (out == 2 * (a.astype("float64") @ b)).all()

    for narrow in (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)):
        half = engine.plan("ij,jk->ik", (3, 4), (4, 2), dtype=narrow)
        one, other = small((3, 4), "float32", 1).astype(narrow), small((4, 2), "float32", 2).astype(narrow)
        value = half(one, other)
        assert value.dtype == half.dtype == narrow
        assert (value == one.astype("float32") @ other.astype("float32")).all()
        assert half(one, other, out=np.zeros((3, 2), narrow)).tolist() == value.tolist()
        loose = pickle.loads(pickle.dumps(half))
        assert engine.plan(loose)(one, other).tobytes() == value.tobytes()

    listed = engine.plan("ij,j->i", [[1, 2], [3, 4]], [1, 1])
    assert listed.dtype == np.int64
    assert listed([[1, 2], [3, 4]], [10, 1]).tolist() == [12, 34]

    wide = engine.plan("ij->i", (2, 3), dtype="int64")
    assert wide(np.arange(6).reshape(2, 3)).tolist() == [3, 12]
    long = engine.plan("i,i->i", (3,), (3,), dtype=np.longlong)
    value = long(np.arange(3, dtype=np.longlong), np.arange(3, dtype=np.longlong))
    assert value.dtype.char == np.dtype(np.longlong).char
    assert value.tolist() == [0, 1, 4]

    widened = engine.plan("ij->j", np.full((300, 1), 100, "int8"), dtype="int64")
    assert widened(np.full((300, 1), 100, "int8")).tolist() == [30_000]


def test_a_shape_is_a_tuple_of_ints_and_a_list_is_an_array(engine: td.CpuEngine) -> None:
    assert engine.plan("ij,jk", (2, 3), (np.int64(3), 4)).shapes == ((2, 3), (3, 4))
    assert engine.plan("i,i", [2, 3], [4, 5]).shapes == ((2,), (2,))
    assert engine.plan("i,i", [2, 3], (2,), dtype="int64")([1, 2], [3, 4]) == 11
    assert engine.plan(",ij", (), (2, 3)).shapes == ((), (2, 3))
    assert engine.plan("ij,j", ((1.0, 2.0), (3.0, 4.0)), (2,)).shapes == ((2, 2), (2,))
    assert engine.plan("ij,jk", (2, 3), (3, 4)).dtype == np.float64
    assert engine.plan("ij,jk", (2, 3), (3, 4), dtype="c8").dtype == np.complex64
    assert engine.plan("ij,jk", np.zeros((2, 3), "f4"), (3, 4)).dtype == np.float64
    assert engine.plan("ij,jk", np.zeros((2, 3), "f4"), (3, 4), dtype="f4").dtype == np.float32


def test_the_interleaved_form(engine: td.CpuEngine, small: Make) -> None:
    a, b = small((2, 3), "float64"), small((3, 4), "float64")
    plan = engine.plan((2, 3), ["row", 1], (3, 4), [1, ("x",)], [("x",), "row"])
    assert (plan(a, b) == (a @ b).T).all()
    assert plan.subscripts == "row 1, 1 ('x',) -> ('x',) row"
    assert "row" in str(plan)
    implicit = engine.plan(a, [0, 1], b, [1, 2])
    assert (implicit(a, b) == a @ b).all()


def test_conj_order_optimize_and_memory_limit(engine: td.CpuEngine, small: Make) -> None:
    a, b = small((3, 4), "complex128", 1), small((4, 5), "complex128", 2)
    plan = engine.plan("ij,jk->ik", a, b, conj=[True, False], order="F")
    value = plan(a, b)
    assert value.flags.f_contiguous
    assert (value == a.conj() @ b).all()
    assert (plan(np.asfortranarray(a), b) == a.conj() @ b).all()
    arrays = [small(shape, "float64", seed) for seed, shape in enumerate([(2, 3), (3, 4), (4, 5)])]
    expected = arrays[0] @ arrays[1] @ arrays[2]
    for optimize in ("greedy", "optimal", False, True, [(1, 2), (0, 1)], lambda *_: [(1, 2), (0, 1)]):
        plan = engine.plan("ij,jk,kl->il", *arrays, optimize=optimize)
        assert (plan(*arrays) == expected).all()
        assert len(plan.path) == 2
    assert engine.plan("ij,jk,kl->il", *arrays, optimize=[(0, 2), (0, 1)]).path == [(0, 2), (0, 1)]
    assert engine.plan("ij,(jk,kl)->il", *arrays).path == [(1, 2), (0, 1)]
    assert (engine.plan("ij,jk,kl->il", *arrays, memory_limit=10)(*arrays) == expected).all()


@pytest.mark.parametrize("route", ["auto", "reference", "elementwise", "gemm", "packed"])
def test_routes_are_honoured_or_refused_when_the_plan_is_made(engine: td.CpuEngine, small: Make, route: str) -> None:
    ran = 0
    for subscripts, shapes in CASES.values():
        arrays = [small(shape, "float64", seed, 1) for seed, shape in enumerate(shapes)]
        try:
            plan = engine.plan(subscripts, *shapes, route=route)
        except td.UnsupportedError:
            assert route not in ("auto", "reference")
            continue
        assert plan.route == route or route == "auto" or 0 in np.shape(plan(*arrays)) or (3, 0) in shapes
        assert (plan(*arrays) == engine.einsum(subscripts, *arrays, route="reference")).all()
        ran += 1
    assert ran >= 3
    with pytest.raises(td.ArgumentError, match="'reference'"):
        engine.plan("ij,jk->ik", (2, 2), (2, 2), route="best")


def test_one_operand_is_a_view_as_from_einsum(engine: td.CpuEngine) -> None:
    a = np.arange(6.0).reshape(2, 3)
    plan = engine.plan("ij->ji", a)
    for array in (a, a[:, ::-1], np.asfortranarray(a)):
        value = plan(array)
        assert np.shares_memory(value, array)
        assert (value == array.T).all()
    assert not np.shares_memory(plan(a, alpha=2), a)
    assert not np.shares_memory(plan(a, out=np.zeros((3, 2))), a)
    copied = engine.plan("ij->ji", a, route="elementwise")
    assert not np.shares_memory(copied(a), a)


# --- what a plan says ------------------------------------------------------------------------------------------


def test_what_a_plan_says_of_itself(engine: td.CpuEngine) -> None:
    plan = engine.plan("ij,jk,kl->il", (20, 30), (30, 40), (40, 50))
    assert plan.engine is engine
    assert plan.subscripts == "ij,jk,kl->il"
    assert plan.flops == min(2 * 20 * 30 * 40 + 2 * 20 * 40 * 50, 2 * 30 * 40 * 50 + 2 * 20 * 30 * 50)
    assert plan.path == [(0, 1), (0, 1)]
    assert plan.scratch_bytes >= 20 * 40 * 8
    assert plan.bytes > 0
    assert len(plan.steps) == 2
    assert plan.constants == ()
    assert plan.slices == ()
    text = str(plan)
    for piece in ("ij,jk,kl->il", "float64", plan.route, plan.why, "flops", "scratch", *plan.steps, "engine"):
        assert piece in text
    assert repr(plan) == (f"<Plan 'ij,jk,kl->il' of ((20, 30), (30, 40), (40, 50)) float64, route {plan.route}>")
    assert engine.plan("ij,ij->ij", (2, 2), (2, 2)).route == "elementwise"
    assert engine.plan("ij,jk->ik", (200, 200), (200, 200)).route == "gemm"
    for name in ("route", "flops", "engine", "anything"):
        with pytest.raises(AttributeError):
            setattr(plan, name, 1)
    with pytest.raises(TypeError):
        type(plan)()


def test_planning_computes_and_allocates_nothing(engine: td.CpuEngine) -> None:
    """A result of 8 TB can be planned; only running it fails, with a typed error."""
    before = engine.stats()
    plan = engine.plan("i,j->ij", (1_000_000,), (1_000_000,))
    assert plan.flops >= 1e12
    assert engine.stats()["ops"] == before["ops"]
    assert engine.stats()["buffers"] == before["buffers"]
    vector = np.ones(1_000_000)
    with pytest.raises((td.OutOfMemoryError, td.SizeOverflowError)):
        plan(vector, vector)
    assert engine.state == "open"


# --- refusals --------------------------------------------------------------------------------------------------


def test_operands_that_do_not_fit_are_named(engine: td.CpuEngine) -> None:
    plan = engine.plan("ij,jk->ik", (2, 3), (3, 4))
    a, b = np.ones((2, 3)), np.ones((3, 4))
    with pytest.raises(td.ShapeError, match=r"operand 1 has shape \(3, 5\) and was planned with \(3, 4\)") as caught:
        plan(a, np.ones((3, 5)))
    assert caught.value.operand == 1
    with pytest.raises(td.ShapeError, match=r"operand 0 has shape \(2,\) and was planned with \(2, 3\)"):
        plan(a[:, 0], b)
    with pytest.raises(td.ShapeError, match=r"operand 0 has shape \(3, 2\)"):
        plan(a.T, b)
    with pytest.raises(td.DTypeError, match="operand 1 has dtype float32 and was planned with float64") as wrong:
        plan(a, b.astype("float32"))
    assert (wrong.value.expected, wrong.value.actual) == ("float64", "float32")
    with pytest.raises(td.DTypeError, match="operand 0 has dtype int64"):
        plan([[1, 2, 3], [4, 5, 6]], b)
    for count in (0, 1, 3):
        with pytest.raises(td.SubscriptsError, match=f"{count} operands were given; the plan 'ij,jk->ik' takes 2"):
            plan(*[a] * count)
    with pytest.raises(td.DTypeError, match="operand 1 is a NoneType"):
        plan(a, None)
    with pytest.raises(TypeError, match="route"):
        plan(a, b, route="gemm")
    assert engine.state == "open"


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (np.full((2, 5), 7.0), td.ShapeError),
        (np.full((2, 4, 1), 7.0), td.ShapeError),
        (np.full((2, 4), 7.0, "float32"), td.DTypeError),
        (np.full((2, 4), 7, "int64"), td.DTypeError),
        (np.broadcast_to(np.full(4, 7.0), (2, 4)), td.AliasingError),
        (np.lib.stride_tricks.as_strided(np.full(4, 7.0), (2, 4), (0, 8)), td.AliasingError),
        ([[7.0] * 4] * 2, td.DTypeError),
        ("out", td.DTypeError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_outs_that_do_not_fit(engine: td.CpuEngine, out: Any, error: type[Exception]) -> None:
    plan = engine.plan("ij,jk->ik", (2, 3), (3, 4))
    with pytest.raises(error):
        plan(np.ones((2, 3)), np.ones((3, 4)), out=out)
    if isinstance(out, np.ndarray):
        assert (out == 7).all()
    square = engine.plan("ij,jk->ik", (3, 3), (3, 3))
    a = np.eye(3)
    for overlapping in (a, a.T, a[::-1]):
        with pytest.raises(td.AliasingError, match="operand"):
            square(np.ones((3, 3)), a, out=overlapping)
    assert (a == np.eye(3)).all()
    for options in ({"beta": 1}, {"beta": 0.5}):
        with pytest.raises(td.ArgumentError, match="no out"):
            square(a, a, **options)
    for options in ({"alpha": 1j}, {"alpha": "2"}, {"out": np.zeros((3, 3)), "beta": 1j}):
        with pytest.raises(td.DTypeError):
            square(a, a, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "error"),
    [
        (("ij,jk->ik", (2, 3)), {}, td.SubscriptsError),
        (("ij,jk->ik",), {}, td.SubscriptsError),
        (("ij,jk->ik", (2, 3), (4, 5)), {}, td.BroadcastError),
        (("ij,jk->ik", (2,), (3, 4)), {}, td.SubscriptsError),
        (("ij,jk->ik", (2, -3), (3, 4)), {}, td.ShapeError),
        (("ij,jk->ik", (2, 2.5), (3, 4)), {}, td.SubscriptsError),
        (("ij->ij", (2**40, 2**40)), {}, td.SizeOverflowError),
        (("i,j->ij", (2**40,), (2**40,)), {}, td.SizeOverflowError),
        (("i->i", (2**70,)), {}, td.SizeOverflowError),
        ((",".join("abcdefghij") + "->abcdefghij", *[(10**6,)] * 10), {}, td.SizeOverflowError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"dtype": "O"}, td.DTypeError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"dtype": "no dtype"}, td.DTypeError),
        (("ij,jk->ik", np.ones((2, 3)), (3, 4)), {"dtype": "f4"}, td.DTypeError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"order": "X"}, td.ArgumentError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"casting": "any"}, td.ArgumentError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"route": 3}, td.ArgumentError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"optimize": "best"}, td.ArgumentError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"optimize": [(0, 2)]}, td.PathError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"memory_limit": -1}, td.ArgumentError),
        (("ij,jk->ik", (2, 3), (3, 4)), {"conj": [True]}, td.ArgumentError),
        (("ij,jk->ik", object(), (3, 4)), {}, td.DTypeError),
        (((2, 3), (0, 1)), {"dtype": "S"}, td.DTypeError),
    ],
    ids=str,
)
def test_plans_that_cannot_be_made(
    engine: td.CpuEngine, arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error) as caught:
        engine.plan(*arguments, **options)
    assert isinstance(caught.value, td.TreadleError)
    assert str(caught.value).startswith("plan: ")
    assert engine.state == "open"


# --- the engine that a plan belongs to -------------------------------------------------------------------------


def test_a_plan_runs_on_its_engine_alone() -> None:
    a = np.arange(4.0).reshape(2, 2)
    with td.CpuEngine(2) as one, td.CpuEngine(1) as other:
        plan = one.plan("ij,jk->ik", a, a)
        before = one.stats()["ops"], other.stats()["ops"]
        assert (plan(a, a) == a @ a).all()
        assert (one.stats()["ops"], other.stats()["ops"]) == (before[0] + 1, before[1])
        moved = other.plan(plan)
        assert moved.engine is other
        assert plan.engine is one
        assert (moved(a, a) == a @ a).all()
        assert (one.stats()["ops"], other.stats()["ops"]) == (before[0] + 1, before[1] + 1)
        with pytest.raises(td.ArgumentError):
            other.plan(plan, a)
    with pytest.raises(td.EngineClosedError):
        plan(a, a)
    with pytest.raises(td.EngineClosedError):
        plan(a, a, out=np.zeros((2, 2)), beta=1.0)
    with pytest.raises(td.EngineClosedError):
        plan(a.T, a)
    for make in (lambda: one.plan("ij,jk->ik", a, a), lambda: one.plan(moved)):
        with pytest.raises(td.EngineClosedError):
            make()


def test_a_plan_for_kernels_that_another_engine_does_not_use_is_made_anew() -> None:
    a = np.arange(9.0).reshape(3, 3)
    with td.CpuEngine(1) as best, td.CpuEngine(1, isa="scalar") as plain:
        plan = best.plan("ij,jk,kl->il", a, a, a, optimize=[(1, 2), (0, 1)])
        moved = plain.plan(plan)
        assert "scalar" in str(moved)
        assert moved.path == plan.path == [(1, 2), (0, 1)]
        assert (moved(a, a, a) == a @ a @ a).all()


def test_a_busy_engine_refuses_its_plans() -> None:
    a = np.eye(3)
    with td.CpuEngine(2) as engine:
        plan = engine.plan("ij,jk->ik", a, a)
        started = threading.Event()

        def sleep() -> None:
            started.set()
            engine._sleep(400)

        thread = threading.Thread(target=sleep)
        thread.start()
        started.wait()
        refused = 0
        while thread.is_alive():
            try:
                value = plan(a, a)
            except td.EngineBusyError:
                refused += 1
                for call in (
                    lambda: plan(a, a, out=np.zeros((3, 3))),
                    lambda: plan(a.T[::-1], a),
                    lambda: engine.plan("ij,jk->ik", a, a),
                    lambda: engine.plan(plan),
                ):
                    with pytest.raises(td.EngineBusyError):
                        call()
                break
            else:
                assert (value == a).all()
        thread.join()
        assert refused == 1
        assert (plan(a, a) == a).all()
        out = np.zeros((3, 3))
        with engine.lease():
            failures: list[BaseException] = []

            def call() -> None:
                try:
                    plan(a, a, out=out)
                except td.EngineBusyError as error:
                    failures.append(error)

            other = threading.Thread(target=call)
            other.start()
            other.join()
            assert len(failures) == 1
            assert (plan(a, a) == a).all()
        assert (out == 0).all()


def test_a_broken_engine_refuses_its_plans_until_it_is_rebuilt() -> None:
    a = np.eye(3)
    with td.CpuEngine(1) as engine:
        plan = engine.plan("ij,jk->ik", a, a)
        with pytest.raises(td.InternalError):
            engine._panic("caller")
        with pytest.raises(td.EngineBrokenError):
            plan(a, a)
        engine.rebuild()
        assert (plan(a, a) == a).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_engine_refuses_its_plans_until_it_is_rebuilt() -> None:
    a = np.eye(3)
    with td.CpuEngine(2) as engine:
        plan = engine.plan("ij,jk->ik", a, a)
        held = engine.plan("ij,jk->ik", a, a, constants=[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is the point
            child = os.fork()
        if child == 0:
            refused = 0
            for call in (lambda: plan(a, a), lambda: held(a), lambda: plan(a, a, out=np.zeros((3, 3)))):
                try:
                    call()
                except td.ForkedEngineError:
                    refused += 1
            engine.rebuild()
            is_right = (plan(a, 2 * a) == 2 * a).all() and (held(2 * a) == 2 * a).all()
            os._exit(0 if refused == 3 and is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (plan(a, a) == a).all()


def test_many_threads_with_a_plan_each_over_one_recipe(small: Make) -> None:
    """A plan is shared by engines of many threads, each through a binding of its own."""
    a, b = small((30, 40), "float64", 1), small((40, 20), "float64", 2)
    expected = a @ b
    with td.CpuEngine(1) as maker:
        plan = maker.plan("ij,jk->ik", a, b)
        wrong: list[Any] = []

        def work() -> None:
            with td.CpuEngine(1) as engine:
                own = engine.plan(plan)
                wrong.extend(1 for _ in range(200) if not (own(a, b) == expected).all())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        with td.Lanes([td.CpuEngine(1) for _ in range(2)]) as lanes:
            values = td.map_in_lanes(lambda item, engine: float(engine.plan(plan)(a, b).sum()) + item, range(20), lanes)
        assert values == [float(expected.sum()) + item for item in range(20)]


def test_an_engine_that_holds_its_own_plan_dies_with_it() -> None:
    class Solver(td.CpuEngine):
        step: Any

    engine = Solver(1)
    engine.step = engine.plan("ij,jk->ik", (2, 2), (2, 2))
    assert engine.step(np.eye(2), np.eye(2)).tolist() == np.eye(2).tolist()
    gone = weakref.ref(engine)
    del engine
    gc.collect()
    assert gone() is None


def test_a_policy_holds_for_plans(engines: dict[int, td.CpuEngine], small: Make) -> None:
    a, b = small((7, 20, 30), "float64", 1), small((7, 30, 20), "float64", 2)
    for engine in engines.values():
        plan = engine.plan("bij,bjk->bik", a, b)
        for policy in ("auto", "sequential", "outer", "inner"):
            with engine.policy(batch=policy):
                assert (plan(a, b) == a @ b).all()


def test_bits_are_those_of_einsum_at_every_width(engines: dict[int, td.CpuEngine]) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=shape) for shape in ((57, 83), (83, 71), (71, 64))]
    bits = set()
    for engine in engines.values():
        plan = engine.plan("ij,jk,kl->il", *arrays)
        bits.add(plan(*arrays).tobytes())
        bits.add(engine.einsum("ij,jk,kl->il", *arrays, optimize=plan.path).tobytes())
        bits.add(plan(*arrays, out=np.empty((57, 64))).tobytes())
    assert len(bits) == 1


# --- pickles ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_plan_belongs_to_no_engine(engine: td.CpuEngine, small: Make, protocol: int) -> None:
    for name, (subscripts, shapes) in CASES.items():
        arrays = [small(shape, "complex64", seed, 1) for seed, shape in enumerate(shapes)]
        flags = [position % 2 == 0 for position in range(len(shapes))]
        plan = engine.plan(subscripts, *arrays, conj=flags, order="F")
        loose = pickle.loads(pickle.dumps(plan, protocol))
        assert loose.engine is None
        assert (loose.route, loose.flops, loose.path, loose.steps) == (plan.route, plan.flops, plan.path, plan.steps)
        assert (loose.shapes, loose.shape, loose.dtype) == (plan.shapes, plan.shape, plan.dtype)
        assert "engine.plan(plan)" in str(loose)
        for options in ({}, {"out": np.zeros(plan.shape, "complex64")}):
            with pytest.raises(td.EngineError, match=r"engine\.plan\(plan\)"):
                loose(*arrays, **options)
        bound = engine.plan(loose)
        assert bound.engine is engine
        assert np.asarray(bound(*arrays)).tobytes() == np.asarray(plan(*arrays)).tobytes(), name
        again = engine.plan(pickle.loads(pickle.dumps(bound, protocol)))
        assert (again(*arrays) == plan(*arrays)).all()


def test_a_pickled_plan_keeps_the_path_that_was_found(engine: td.CpuEngine, small: Make) -> None:
    calls = []

    def optimizer(inputs: Any, *_: Any) -> Any:
        calls.append(1)
        return [(2, 3), (1, 2), (0, 1)]

    arrays = [small(shape, "float64", seed) for seed, shape in enumerate([(2, 3), (3, 4), (4, 5), (5, 6)])]
    plan = engine.plan("ab,bc,cd,de->ae", *arrays, optimize=optimizer)
    assert plan.path == [(2, 3), (1, 2), (0, 1)]
    loose = pickle.loads(pickle.dumps(plan))
    assert loose.path == plan.path
    assert engine.plan(loose)(*arrays).tobytes() == plan(*arrays).tobytes()
    assert calls == [1]


def test_copies_are_the_plan_itself(engine: td.CpuEngine) -> None:
    plan = engine.plan("ij,jk->ik", (2, 3), (3, 4))
    assert copy.copy(plan) is plan
    assert copy.deepcopy([plan])[0] is plan


def test_a_plan_travels_to_another_process() -> None:
    a = np.arange(6.0).reshape(2, 3)
    with td.CpuEngine(1) as engine:
        plan = engine.plan("ij,kj->ik", a, a)
    script = (
        "import pickle, sys, numpy as np, treadle as td\n"
        "plan = pickle.loads(sys.stdin.buffer.read())\n"
        "a = np.arange(6.0).reshape(2, 3)\n"
        "print(td.CpuEngine.serial().plan(plan)(a, a).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], input=pickle.dumps(plan), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().strip() == str((a @ a.T).tolist())
