"""What a wrong call says: the label, both sizes, the operands' numbers, the remedy; and nothing is written before."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import treadle as td


@pytest.mark.parametrize(
    ("subscripts", "shapes", "error", "parts"),
    [
        ("A,A->A", [(2,), (2, 2)], td.SubscriptsError, ["operand 1", "2 axes", "1 label"]),
        ("aabcb,abc", [(3, 3, 4, 5, 6), (3, 4, 5)], td.BroadcastError, ["'b'", "4", "6", "operand 0"]),
        ("bix,iox->box", [(12, 81, 2), (12, 81, 2)], td.BroadcastError, ["'i'", "81", "12", "operand 0", "operand 1"]),
        ("...i,ij->...j", [(), (2, 2)], td.SubscriptsError, ["operand 0", "0 axes", "1 label"]),
        ("ij,jk->ik", [(2, 3)], td.SubscriptsError, ["2 operands", "1 was given"]),
        ("ij", [(2, 3), (3, 2)], td.SubscriptsError, ["1 operand", "2 were given"]),
        ("ij,jk,kl", [(2, 3), (3, 2)], td.SubscriptsError, ["3 operands", "2 were given"]),
        ("i$j", [(2, 3)], td.SubscriptsError, ["'$'", "operand 0", "position 1"]),
        ("ij->->ij", [(2, 3)], td.SubscriptsError, ["second '->'", "position 4"]),
        ("i..j", [(2, 3)], td.SubscriptsError, ["'...'", "operand 0", "position 1"]),
        ("i....j", [(2, 3)], td.SubscriptsError, ["'...'", "operand 0"]),
        ("ij->ik", [(2, 3)], td.SubscriptsError, ["output label 'k'", "no operand"]),
        ("ij->iij", [(2, 3)], td.SubscriptsError, ["output label 'i'", "repeated"]),
        ("i->ii", [(2,)], td.SubscriptsError, ["output label 'i'", "repeated"]),
        ("...i...->i", [(2, 3, 4)], td.SubscriptsError, ["operand 0", "more than one '...'"]),
        ("i->...i...", [(2,)], td.SubscriptsError, ["output", "more than one '...'"]),
        ("i-j", [(2,)], td.SubscriptsError, ["'->'"]),
        ("i1", [(2, 3)], td.SubscriptsError, ["'1'", "operand 0"]),
        ("(ij,jk->ik", [(2, 3), (3, 4)], td.SubscriptsError, ["'('", "closed"]),
        ("ij),jk->ik", [(2, 3), (3, 4)], td.SubscriptsError, ["')'"]),
        ("i->i,", [(2,)], td.SubscriptsError, ["','", "output"]),
        ("ii->i", [(2, 3)], td.BroadcastError, ["'i'", "2", "3", "operand 0", "diagonal"]),
        ("ii->", [(1, 3)], td.BroadcastError, ["'i'", "1", "3", "operand 0"]),
        ("...,...->...", [(2, 3), (2, 4)], td.BroadcastError, ["...", "3", "4", "operand 0", "operand 1"]),
        ("ij,ij,ij->", [(2, 3), (2, 1), (2, 4)], td.BroadcastError, ["'j'", "3", "4", "operand 0", "operand 2"]),
        ("i\0j", [(2, 3)], td.SubscriptsError, ["operand 0"]),
        ("i\ud800", [(2, 3)], Exception, []),
    ],
)
def test_ein_11_messages(
    engine: td.CpuEngine, subscripts: str, shapes: list[tuple[int, ...]], error: type[Exception], parts: list[str]
) -> None:
    """Planning and running say the same, on every route."""
    arrays = [np.ones(shape) for shape in shapes]
    said = set()
    for call in (
        lambda: engine.einsum(subscripts, *arrays),
        lambda: engine.einsum(subscripts, *arrays, route="reference"),
        lambda: engine.einsum(subscripts, *[a.astype("int16") for a in arrays]),
        lambda: engine.einsum(subscripts, *arrays, optimize="greedy"),
        lambda: engine.einsum(subscripts, *arrays, out=np.zeros(3)),
        lambda: engine.einsum_path(subscripts, *arrays),
    ):
        with pytest.raises(error) as caught:
            call()
        said.add(str(caught.value).partition(": ")[2] if parts else "")
        if parts:
            assert isinstance(caught.value, td.ShapeError)
            assert isinstance(caught.value, ValueError)
    assert len(said) == 1, said
    message = said.pop()
    for part in parts:
        assert part in message
    assert "Some(" not in message
    assert "[" not in message.replace("'...[-1]'", "")
    assert engine.state == "open"


def test_ein_11_interleaved_labels_appear_as_they_were_given(engine: td.CpuEngine) -> None:
    with pytest.raises(td.BroadcastError, match=r"label 'bond' is 3 in operand 0 and 4 in operand 1"):
        engine.einsum(np.ones((2, 3)), ["x", "bond"], np.ones((4, 2)), ["bond", "y"])
    with pytest.raises(td.BroadcastError, match=r"label '\(1, 2\)' is 3"):
        engine.einsum(np.ones((2, 3)), [0, (1, 2)], np.ones((4, 2)), [(1, 2), 3])
    with pytest.raises(td.SubscriptsError, match="output label '7' is in no operand"):
        engine.einsum(np.ones(2), [0], [7])
    with pytest.raises(td.SubscriptsError, match="list.*no hash"):
        engine.einsum(np.ones(2), [[0]])
    with pytest.raises(td.SubscriptsError, match="output label 'x' is repeated"):
        engine.einsum(np.ones(2), ["x"], ["x", "x"])
    for arguments in (
        (np.ones(2), 0),
        (np.ones(2), "i"),
        (0, 0),
        (np.ones(2), None),
        (np.ones(2), {0}),
        (np.ones(2), b"i"),
    ):
        with pytest.raises(td.DTypeError, match="label list 0 is a"):
            engine.einsum(*arguments)
    for arguments in ((np.ones(2),), ("i",), ([0],)):
        with pytest.raises(td.SubscriptsError, match="no operand was given"):
            engine.einsum(*arguments)
    with pytest.raises(td.DTypeError, match="bytes"):
        engine.einsum(b"i", np.ones(2))
    with pytest.raises(TypeError):
        engine.einsum()


def test_a_none_among_the_operands_is_no_missing_operand(engine: td.CpuEngine) -> None:
    a = np.ones((2, 2))
    for position, operands in enumerate([(None, a), (a, None)]):
        with pytest.raises(td.DTypeError, match=f"operand {position} is a NoneType"):
            engine.einsum("ij,jk->ik", *operands)
    with pytest.raises(td.DTypeError, match="operand 0 is a NoneType"):
        engine.einsum("ij->ji", None)
    with pytest.raises(td.DTypeError, match="operand 0 is a NoneType"):
        engine.einsum("ij->ji", None, a)
    with pytest.raises(td.DTypeError):
        engine.matmul(None, a)


@pytest.mark.parametrize(
    ("value", "shown"), [(1.5, "1.5"), (1.0, "1.0"), (2j, "(0.0+2.0j)"), (1 - 2j, "(1.0-2.0j)"), (1e300, "1e300")]
)
def test_factors_are_shown_as_they_are_written(engine: td.CpuEngine, value: complex, shown: str) -> None:
    a = np.ones((2, 2), "int64")
    for call in (
        lambda: engine.einsum("ij,jk->ik", a, a, alpha=value),
        lambda: engine.gemm(a, a, alpha=value),
        lambda: engine.plan("ij,jk->ik", a, a)(a, a, alpha=value),
    ):
        with pytest.raises(td.DTypeError) as caught:
            call()
        assert f"alpha is {shown}, which a int64 result cannot be scaled by" in str(caught.value)
        assert caught.value.actual == shown


def test_labels_in_messages_are_the_callers(engine: td.CpuEngine) -> None:
    with pytest.raises(td.BroadcastError, match="'time'") as caught:
        engine.einsum(np.ones((2, 3)), ["space", "time"], np.ones((4, 2)), ["time", "space"], [])
    assert caught.value.detail["label"] == "time"
    with pytest.raises(td.BroadcastError, match="'7'"):
        engine.einsum(np.ones((2, 3)), [5, 7], np.ones((4, 2)), [7, 5])
    with pytest.raises(td.SubscriptsError, match="'x'"):
        engine.einsum(np.ones((2, 2)), ["x", "y"], ["x", "x"])


@pytest.mark.parametrize("name", ["best", "", "GEMM", "blas"])
def test_routes_are_a_closed_set(engine: td.CpuEngine, name: str) -> None:
    with pytest.raises(td.ArgumentError, match=r"'auto', 'reference', 'elementwise', 'gemm', 'packed'"):
        engine.einsum("ij,jk->ik", np.eye(2), np.eye(2), route=name)
    with pytest.raises(td.ArgumentError, match="route"):
        engine.einsum("ij,jk->ik", np.eye(2), np.eye(2), route=3)


def test_forced_routes_are_honoured_or_refused(engine: td.CpuEngine) -> None:
    """gemm needs labels that fold; elementwise needs nothing to be summed over both; one operand needs no product."""
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(3, 4, 2)
    right = np.einsum("aij,ijb->ab", a, b)
    scattered = np.arange(24.0).reshape(4, 2, 3)
    for route in ("auto", "gemm", "packed", "reference"):
        assert (engine.einsum("aij,ijb->ab", a, b, route=route) == right).all()
    for route in ("auto", "packed", "reference"):
        value = engine.einsum("aij,jbi->ab", a, scattered, route=route)
        assert (value == np.einsum("aij,jbi->ab", a, scattered)).all()
    out = np.full((2, 2), 5.0)
    for subscripts, operands, route in (
        ("aij,jbi->ab", (a, scattered), "gemm"),
        ("aij,ijb->ab", (a, b), "elementwise"),
    ):
        with pytest.raises(td.UnsupportedError, match=f"route='{route}'") as caught:
            engine.einsum(subscripts, *operands, out=out, route=route)
        assert isinstance(caught.value, NotImplementedError)
        assert (out == 5).all()
    assert (engine.einsum("ij,ij->ij", a[0], a[0], route="elementwise") == a[0] ** 2).all()
    assert (engine.einsum("ijk->kij", a, route="elementwise") == a.transpose(2, 0, 1)).all()
    with pytest.raises(td.UnsupportedError, match="one operand"):
        engine.einsum("ijk->kij", a, route="gemm")


@pytest.mark.parametrize(
    "options",
    [
        {"conj": [True]},
        {"conj": [True, False, True]},
        {"conj": True},
        {"conj": 3},
        {"conj": [np.ones(2), 1]},
        {"order": "X"},
        {"casting": "never"},
        {"route": "none"},
        {"optimize": "never"},
        {"beta": 1},
    ],
    ids=str,
)
def test_options_outside_their_sets(engine: td.CpuEngine, options: dict[str, Any]) -> None:
    with pytest.raises(td.ArgumentError) as caught:
        engine.einsum("ij,jk->ik", np.eye(2), np.eye(2), **options)
    assert isinstance(caught.value, ValueError)
    assert caught.value.operation == "einsum"
    assert str(caught.value).startswith("einsum: ")
    assert pickle.loads(pickle.dumps(caught.value)) == caught.value


def test_unknown_keywords_are_type_errors(engine: td.CpuEngine) -> None:
    for name in ("einsum", "matmul", "dot", "vdot", "gemm", "tensordot"):
        with pytest.raises(TypeError):
            getattr(engine, name)("ij,jk->ik" if name == "einsum" else np.eye(2), np.eye(2), wrong=1)


def test_errors_have_codes_and_pickle(engine: td.CpuEngine) -> None:
    for call, code in (
        (lambda: engine.einsum("i,i->", np.ones(2), np.ones(3)), "broadcast"),
        (lambda: engine.einsum("i$", np.ones(2)), "subscripts"),
        (lambda: engine.einsum("i,i,i->", *[np.ones(2)] * 3, optimize=[(0, 1)]), "path"),
        (lambda: engine.tensordot(np.ones(2), np.ones(2), axes=([3], [0])), "axis"),
        (lambda: engine.matmul(np.ones(2), "x"), "dtype"),
        (lambda: engine.matmul(np.ones(()), np.ones(2)), "shape"),
    ):
        with pytest.raises(td.TreadleError) as caught:
            call()
        error = caught.value
        assert error.code == code
        again = pickle.loads(pickle.dumps(error))
        assert again == error
        assert (again.operand, again.operation, again.detail) == (error.operand, error.operation, error.detail)


def test_numbers_that_are_none(engine: td.CpuEngine) -> None:
    a = np.eye(2)
    for alpha in (np.array([1.0, 2.0]), np.array([1j, 2j]), 10**400, "2", object()):
        with pytest.raises(td.DTypeError, match="einsum: alpha") as caught:
            engine.einsum("ij->", a.astype(complex), alpha=alpha)
        assert caught.value.operation == "einsum"


@pytest.mark.parametrize("options", [{}, {"order": "C"}])
def test_a_lone_surrogate_is_no_label(engine: td.CpuEngine, options: dict[str, str]) -> None:
    with pytest.raises(td.SubscriptsError, match="surrogate"):
        engine.einsum("\ud800->", np.ones(2), **options)


def test_an_optimizer_that_gives_no_path(engine: td.CpuEngine) -> None:
    with pytest.raises(td.PathError, match="NoneType"):
        engine.einsum("ij,jk,kl->il", *[np.eye(2)] * 3, optimize=lambda *_: None)


@pytest.mark.parametrize("limit", [2**70, 1e30])
def test_limits_beyond_all_memory(engine: td.CpuEngine, limit: float) -> None:
    a = np.eye(2)
    assert engine.einsum("ij,jk->", a, a, memory_limit=limit) == 2
    assert engine.einsum("ij,jk->", a, a, optimize=("greedy", limit)) == 2
