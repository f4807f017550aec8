"""``plan(constants=[...])``: operands that a plan holds, their copies, and what is computed from them once."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import opt_einsum
import pytest

import treadle as td

LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved")
DTYPES = ("float64", "float32", "complex128", "complex64", "int64", "uint8", "bool", "float16")

Make = Callable[..., npt.NDArray[Any]]

NETWORKS: dict[str, tuple[str, list[tuple[int, ...]]]] = {
    "product": ("ij,jk->ik", [(3, 4), (4, 5)]),
    "chain": ("ij,jk,kl,lm->im", [(2, 3), (3, 4), (4, 5), (5, 2)]),
    "closed": ("ab,bc,cd,da->", [(2, 3), (3, 4), (4, 2), (2, 2)]),
    "star": ("ai,bi,ci->abc", [(2, 3), (4, 3), (2, 3)]),
    "sums": ("ij,jk,kl->k", [(2, 3), (3, 4), (4, 5)]),
    "diagonal": ("ii,ij,jk->ik", [(3, 3), (3, 4), (4, 2)]),
    "scalar": (",ij,jk->ik", [(), (2, 3), (3, 2)]),
    "outer": ("i,j,k->kij", [(2,), (3,), (4,)]),
    "empty sum": ("ij,jk,kl->il", [(2, 0), (0, 3), (3, 2)]),
    "parentheses": ("ij,(jk,kl)->il", [(2, 3), (3, 4), (4, 5)]),
}


def choices(count: int) -> list[list[int]]:
    """Every set of positions that leaves at least one operand to the call."""
    return [list(some) for size in range(1, count) for some in itertools.combinations(range(count), size)]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_are_the_operands_that_they_were(
    engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, name: str, dtype: str
) -> None:
    subscripts, shapes = NETWORKS[name]
    flags = [seed % 2 == 1 for seed in range(len(shapes))]
    for number, held in enumerate(choices(len(shapes))):
        engine = engines[1 + number % 3]
        layout = LAYOUTS[number % len(LAYOUTS)]
        arrays = [small(shape, dtype, seed, 2) for seed, shape in enumerate(shapes)]
        given = [lay_out(array, layout) if at in held else array.shape for at, array in enumerate(arrays)]
        plan = engine.plan(subscripts, *given, dtype=dtype, constants=held, conj=flags)
        assert plan.constants == tuple(held)
        free = [at for at in range(len(shapes)) if at not in held]
        assert plan.shapes == tuple(shapes[at] for at in free)
        for turn, other in enumerate(LAYOUTS):
            # Other values in every call.
            arrays = [small(shape, dtype, at + (turn if at in free else 0), 2) for at, shape in enumerate(shapes)]
            expected = np.asarray(engine.einsum(subscripts, *arrays, conj=flags, route="reference"))
            value = plan(*(lay_out(arrays[at], other) for at in free))
            assert np.asarray(value).dtype == dtype
            assert (value == expected).all(), (held, other)
            value = plan(*(arrays[at] for at in free))
            assert (value == expected).all(), (held, other)
        out = lay_out(np.zeros(expected.shape, dtype), layout)
        assert plan(*(arrays[at] for at in free), out=out) is out
        assert (out == expected).all()
        if np.dtype(dtype).kind in "fc" and dtype != "float16":
            plan(*(arrays[at] for at in free), out=out, alpha=3, beta=-1)
            assert (out == 2 * expected).all()


def test_changing_an_array_afterwards_changes_nothing(engine: td.CpuEngine, small: Make) -> None:
    for dtype, layout in itertools.product(("float64", "int64"), ("C", "F", "slice")):
        a, b, c = (small(shape, dtype, seed) for seed, shape in enumerate([(3, 4), (4, 5), (5, 2)]))
        b = np.asfortranarray(b) if layout == "F" else np.repeat(b, 2, axis=0)[::2] if layout == "slice" else b
        expected = a @ b @ c
        plan = engine.plan("ij,jk,kl->il", a, b, c, constants=[1, 2])
        b[...] = 99
        c[...] = 99
        assert (plan(a) == expected).all()
        assert (plan(np.asfortranarray(a)) == expected).all()
        a2 = 2 * a
        assert (plan(a2) == 2 * expected).all()


def test_constants_are_converted_once_and_other_operands_as_they_come(engine: td.CpuEngine, small: Make) -> None:
    a, b = small((3, 4), "float32", 1), small((4, 5), "int16", 2)
    plan = engine.plan("ij,jk->ik", a, b, constants=[1], dtype="float64")
    value = plan(a)
    assert value.dtype == np.float64
    assert (value == a.astype("float64") @ b).all()
    assert engine.plan("i,i->", [1, 2], (2,), constants=[0], dtype="int64")(np.array([3, 4])) == 11
    with pytest.raises(td.DTypeError, match="operand 1"):
        engine.plan("ij,jk->ik", a, b.astype("float64"), constants=[1], dtype="float32")


def test_what_depends_on_constants_alone_is_computed_once(engine: td.CpuEngine) -> None:
    """The pair of large constants is no step of a call."""
    rng = np.random.default_rng(1)
    a, b, v = rng.normal(size=(60, 300)), rng.normal(size=(300, 50)), rng.normal(size=50)
    plain = engine.plan("ij,jk,k->i", a, b, v, optimize=[(0, 1), (0, 1)])
    held = engine.plan("ij,jk,k->i", a, b, v, constants=[0, 1], optimize=[(0, 1), (0, 1)])
    assert held.flops < plain.flops / 100
    assert any(step.startswith("once") for step in held.steps)
    assert np.allclose(held(v), a @ b @ v)
    assert "constant operands 0 and 1" in str(held)
    first = held(v).tobytes()
    assert all(held(v).tobytes() == first for _ in range(5))


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ([2], "names operand 2; valid are 0 to 1"),
        ([-1], "names operand -1"),
        ([0, 0], "names operand 0 twice"),
        ([0, 1], "every operand"),
        (["a"], "give a list of operand positions"),
        (0, "give a list of operand positions"),
        ([0.5], "give a list of operand positions"),
    ],
)
def test_positions_are_checked(engine: td.CpuEngine, constants: Any, words: str) -> None:
    a = np.eye(2)
    with pytest.raises(td.ArgumentError, match=words):
        engine.plan("ij,jk->ik", a, a, constants=constants)
    with pytest.raises(td.ArgumentError, match="operand 0 is a constant and was given as the shape"):
        engine.plan("ij,jk->ik", (2, 2), a, constants=[0])
    assert engine.plan("ij,jk->ik", a, a, constants=[]).constants == ()
    assert engine.plan("ij,jk->ik", a, a, constants=(np.int64(1),)).constants == (1,)
    assert engine.plan("ij,jk->ik", a, a, constants={1}).constants == (1,)


def test_a_call_brings_the_others_and_is_told_so(engine: td.CpuEngine) -> None:
    a = np.eye(2)
    plan = engine.plan("ij,jk->ik", a, (2, 3), constants=[0])
    with pytest.raises(td.SubscriptsError, match="takes 1, and holds 1"):
        plan(a, np.ones((2, 3)))
    with pytest.raises(td.ShapeError, match=r"operand 0 has shape \(2, 2\) and was planned with \(2, 3\)"):
        plan(a)


def test_a_plan_with_constants_travels_with_them(engine: td.CpuEngine, small: Make) -> None:
    arrays = [small(shape, "complex64", seed) for seed, shape in enumerate([(2, 3), (3, 4), (4, 5), (5, 2)])]
    for held in choices(4):
        plan = engine.plan("ij,jk,kl,lm->im", *arrays, constants=held, conj=[True, False, True, False])
        free = [array for at, array in enumerate(arrays) if at not in held]
        loose = pickle.loads(pickle.dumps(plan))
        assert loose.constants == tuple(held)
        with pytest.raises(td.EngineError):
            loose(*free)
        with td.CpuEngine(1) as other:
            assert other.plan(loose)(*free).tobytes() == plan(*free).tobytes()
            moved = other.plan(plan)
            assert moved.engine is other
            assert moved(*free).tobytes() == plan(*free).tobytes()
        with td.CpuEngine(1, isa="scalar") as other:
            assert (other.plan(plan)(*free) == plan(*free)).all()


def test_positions_mean_what_opt_einsums_mean(engine: td.CpuEngine, small: Make) -> None:
    arrays = [small(shape, "float64", seed) for seed, shape in enumerate([(2, 3), (3, 4), (4, 5)])]
    for held in choices(3):
        given = [array if at in held else array.shape for at, array in enumerate(arrays)]
        free = [array for at, array in enumerate(arrays) if at not in held]
        theirs = opt_einsum.contract_expression("ij,jk,kl->il", *given, constants=held)
        assert (engine.plan("ij,jk,kl->il", *given, constants=held)(*free) == theirs(*free)).all()


def test_out_may_not_overlap_what_a_call_brings(engine: td.CpuEngine) -> None:
    a = np.eye(3)
    plan = engine.plan("ij,jk->ik", a, a, constants=[0])
    with pytest.raises(td.AliasingError, match="operand 0"):
        plan(a, out=a)
    assert (a == np.eye(3)).all()
    # The array that was copied is free.
    other = np.arange(9.0).reshape(3, 3)
    plan(other, out=a)
    assert (a == other).all()
    assert (plan(other) == other).all()


def test_a_closed_engine_makes_no_plan_with_constants() -> None:
    a = np.eye(3)
    with td.CpuEngine(2) as engine:
        plan = engine.plan("ij,jk->ik", a, a, constants=[0])
    with pytest.raises(td.EngineClosedError):
        plan(a)
    with pytest.raises(td.EngineClosedError):
        engine.plan("ij,jk->ik", a, a, constants=[0])


def test_more_operands_than_stand_on_the_stack(engine: td.CpuEngine, small: Make) -> None:
    sizes = [2, 3, 2, 4, 3, 2, 3, 2, 2, 3, 4, 2, 3]
    arrays = [small((sizes[n], sizes[n + 1]), "float64", n, 1) for n in range(12)]
    letters = "abcdefghijklm"
    text = ",".join(letters[n : n + 2] for n in range(12)) + "->am"
    expected = np.linalg.multi_dot(arrays)
    for held in ([0], [11], [1, 2, 3], [0, 5, 11], list(range(11)), list(range(1, 12, 2))):
        plan = engine.plan(text, *arrays, constants=held)
        free = [array for at, array in enumerate(arrays) if at not in held]
        assert (plan(*free) == expected).all()
        assert (plan(*map(np.asfortranarray, free)) == expected).all()
        out = np.full(expected.shape, np.nan)
        plan(*free, out=out)
        assert (out == expected).all()


def test_other_dtypes_and_layouts_meet_what_was_prepared(small: Make, lay_out: Make) -> None:
    """Small operands are brought to the plan's own layout; nothing is planned anew."""
    with td.CpuEngine(1) as engine:
        b = small((300, 200), "float64", 2)
        for dtype in ("float32", "int16", ">f8", "float64"):
            a = small((150, 300), "int16", 1).astype(dtype)
            plan = engine.plan("ij,jk->ik", a, b, constants=[1], route="packed")
            assert "pack panels" in str(plan), plan
            before = engine.stats()["plan_cache"]
            for layout in LAYOUTS:
                out = np.full((150, 200), np.nan)
                assert (plan(lay_out(a, layout)) == a.astype("float64") @ b).all()
                plan(lay_out(a, layout), out=out, alpha=2)
                assert (out == 2 * (a.astype("float64") @ b)).all()
            assert engine.stats()["plan_cache"] == before
        # What is converted into the output as well goes another way, to the same values.
        plan = engine.plan("ij,jk->ik", a, b, constants=[1], casting="same_kind")
        out = np.full((200, 150), 7, "float32").T
        plan(a, out=out, beta=1)
        assert (out == a @ b + 7).all()


def test_half_precision_is_rounded_as_ever(engine: td.CpuEngine) -> None:
    b = np.full((40, 40), 0.5, "float16")
    plan = engine.plan("ij,jk->ik", (40, 40), b, constants=[1], dtype="float16")
    a = np.full((40, 40), 1.0, "float16")
    assert (plan(a) == 20).all()
    assert plan(a[::-1]).dtype == np.float16
    single = np.full((40, 40), 2049.0, "float32")
    wide = engine.plan("ij,jk->ik", single, b, constants=[1], dtype="float16", casting="same_kind")
    # 2049 is no half: it becomes 2048 before anything is computed.
    assert (wide(single) == np.float16(40 * 1024.0)).all()
