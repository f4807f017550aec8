"""Orders of contraction: named, explicit, from optimizers of other packages, bounded in memory, and for large networks."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import opt_einsum
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]

CHAIN = "ij,jk,kl->il"


def chain(small: Make, dtype: str = "float64") -> list[npt.NDArray[Any]]:
    return [small(shape, dtype, seed) for seed, shape in enumerate([(2, 3), (3, 4), (4, 5)])]


def path_flops(subscripts: str, shapes: list[tuple[int, ...]], path: list[tuple[int, ...]]) -> int:
    """Multiplications and additions of a path, as numpy and opt_einsum count them, counted here."""
    terms, _, output = subscripts.partition("->")
    live = [set(term) for term in terms.split(",")]
    extents = {
        label: n
        for term, shape in zip(terms.split(","), shapes, strict=True)
        for label, n in zip(term, shape, strict=True)
    }
    total = 0
    for step in path:
        parts = [live[at] for at in step]
        live = [part for at, part in enumerate(live) if at not in step]
        union = set().union(*parts)
        kept = union & set().union(set(output), *live)
        total += math.prod(extents[label] for label in union) * (max(1, len(step) - 1) + (kept != union))
        live.append(kept)
    assert len(live) == 1
    return total


# --- explicit paths --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        [(0, 1)],
        [(0, 1), (0, 2)],
        [(0, 0), (1, 2)],
        [(0, 1), (1, 2)],
        [(0, 1), (3, 2), (0, 4)],
        [],
        [()],
        [(0, 1), ()],
        [(0,)],
        [(0, 1), (0, 1), (0, 1)],
        [(0, 3), (0, 1)],
        [(-1, 0), (0, 1)],
        [(0, 1), (0, 1.5)],
        [(0, 1), 7],
        [("a", "b"), (0, 1)],
        [None],
        ["einsum_path"],
        ["einsum_path", (0, 1)],
        ["greedy", (0, 1), (0, 1)],
        [(2**70, 0), (0, 1)],
    ],
    ids=str,
)
def test_bad_paths_are_path_errors(engine: td.CpuEngine, small: Make, path: Any) -> None:
    arrays = chain(small)
    out = np.full((2, 5), 7.0)
    for call in (
        lambda: engine.einsum(CHAIN, *arrays, optimize=path),
        lambda: engine.einsum(CHAIN, *arrays, optimize=path, out=out),
        lambda: engine.einsum(CHAIN, *arrays, optimize=lambda *_: path),
        lambda: engine.einsum_path(CHAIN, *arrays, optimize=path),
    ):
        with pytest.raises(td.PathError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert "path" in str(caught.value)
    assert (out == 7).all()


def test_good_paths_in_every_form(engine: td.CpuEngine, small: Make) -> None:
    arrays = chain(small)
    expected = arrays[0] @ arrays[1] @ arrays[2]
    for path in (
        [(0, 1), (0, 1)],
        [(1, 2), (0, 1)],
        [(2, 1), (1, 0)],
        [(0, 2), (0, 1)],
        [(0, 1, 2)],
        [(2, 0, 1)],
        [[0, 1], [0, 1]],
        ((0, 1), (0, 1)),
        ["einsum_path", (0, 1), (0, 1)],
        [(np.int64(0), np.int8(1)), (0, 1)],
        np.array([[0, 1], [0, 1]]),
        iter([(0, 1), (0, 1)]),
        [(1,), (0, 1), (0, 1)],
        [(0,), (0,), (0,), (0, 1, 2)],
        ("greedy", 1000),
        ("optimal", -1),
        ["greedy", 1e6],
        "greedy",
        "optimal",
        "auto",
        None,
        True,
        False,
        np.True_,
    ):
        assert (engine.einsum(CHAIN, *arrays, optimize=path) == expected).all(), path
    for bad in ("best", "", 3, 2.5, object()):
        with pytest.raises(td.ArgumentError, match="'auto', 'greedy', 'optimal'"):
            engine.einsum(CHAIN, *arrays, optimize=bad)
    with pytest.raises(td.PathError, match="parentheses"):
        engine.einsum("(ij,jk),kl->il", *arrays, optimize=[(0, 1), (0, 1)])


def test_explicit_paths_come_back(engine: td.CpuEngine, small: Make) -> None:
    arrays = chain(small)
    for path in ([(1, 2), (0, 1)], [(0, 2), (0, 1)], [(0, 1, 2)]):
        found, report = engine.einsum_path(CHAIN, *arrays, optimize=path)
        assert found == ["einsum_path", *path]
        assert "FLOP count" in report
        assert f"Steps:  {len(path)}" in report
    found, _ = engine.einsum_path("(ij,(jk,kl))->il", *arrays)
    assert found == ["einsum_path", (1, 2), (0, 1)]


# --- C-EIN-14: optimality --------------------------------------------------------------------------------------

NETWORKS: list[tuple[str, dict[str, int]]] = [
    ("abc,bdih,dfjm,kfg,chmg->aijk", dict.fromkeys("abcdfghijkm", 2) | {"a": 9, "b": 5, "i": 9, "j": 5}),
    ("db,cc,fe,fe,aa,ff,fe,cb,ea,ac->d", dict.fromkeys("abcdef", 3)),
    ("acdf,jbje,gihb,hfac,gfac,gifabc,hfac", dict(zip("abcdefghij", [2, 3, 4, 5, 4, 3, 2, 6, 5, 4], strict=True))),
    ("chd,bde,agbc,hiad,bdi,cgh,agdb", dict(zip("abcdefghij", [2, 3, 4, 5, 4, 3, 2, 6, 5, 4], strict=True))),
    ("dd,fb,be,cdb->cef", dict(zip("abcdef", [2, 3, 4, 5, 4, 3], strict=True))),
    ("dcc,fce,ea,dbf->ab", dict(zip("abcdef", [2, 3, 4, 5, 4, 3], strict=True))),
    ("a,ac,ab,ad,cd,bd,bc->", dict.fromkeys("abcd", 20)),
]


@pytest.mark.parametrize(("subscripts", "sizes"), NETWORKS, ids=[text for text, _ in NETWORKS])
def test_ein_14_optimal_is_no_dearer_than_anything_else(
    engine: td.CpuEngine, small: Make, subscripts: str, sizes: dict[str, int]
) -> None:
    """Every step has two operands at most, and optimal costs no more than greedy, numpy's and opt_einsum's."""
    if "->" not in subscripts:
        labels = [label for label in subscripts if label != ","]
        subscripts += "->" + "".join(sorted(label for label in set(labels) if labels.count(label) == 1))
    shapes = [tuple(sizes[label] for label in term) for term in subscripts.split("->")[0].split(",")]
    arrays = [small(shape, "float64", seed, 1) for seed, shape in enumerate(shapes)]

    def cost(path: Any) -> int:
        return path_flops(subscripts, shapes, path)

    ours = {
        name: engine.einsum_path(subscripts, *arrays, optimize=name)[0][1:] for name in ("optimal", "greedy", "auto")
    }
    for path in ours.values():
        assert all(len(step) <= 2 for step in path)
    assert cost(ours["optimal"]) <= cost(ours["greedy"])
    assert cost(ours["auto"]) <= cost(ours["greedy"])
    if len(arrays) <= 7:  # both try every order one by one
        assert cost(ours["optimal"]) <= cost(np.einsum_path(subscripts, *arrays, optimize="optimal")[0][1:])
        theirs, _ = opt_einsum.contract_path(subscripts, *arrays, optimize="optimal")
        assert cost(ours["optimal"]) <= cost(theirs)
    greedy, _ = opt_einsum.contract_path(subscripts, *arrays, optimize="greedy")
    assert cost(ours["greedy"]) <= 3 * cost(greedy), "greedy is of the same quality"
    expected = np.einsum(subscripts, *arrays, optimize="greedy")
    for name in ours:
        assert (engine.einsum(subscripts, *arrays, optimize=name) == expected).all()


def test_optimal_says_how_many_operands_it_takes(engine: td.CpuEngine) -> None:
    arguments = list(itertools.chain.from_iterable((np.eye(2), [n, n + 1]) for n in range(13)))
    with pytest.raises(td.UnsupportedError, match="at most 12 operands, not 13"):
        engine.einsum(*arguments, [0, 13], optimize="optimal")


# --- callables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: opt_einsum.paths.greedy,
        lambda: opt_einsum.paths.optimal,
        lambda: opt_einsum.paths.auto,
        opt_einsum.DynamicProgramming,
        lambda: opt_einsum.BranchBound(nbranch=2),
        lambda: opt_einsum.RandomGreedy(max_repeats=4),
    ],
    ids=["greedy", "optimal", "auto", "DynamicProgramming", "BranchBound", "RandomGreedy"],
)
def test_opt_einsums_optimizers(engine: td.CpuEngine, small: Make, make: Callable[[], Any]) -> None:
    for subscripts, sizes in (NETWORKS[0], NETWORKS[5]):
        optimizer = make()
        shapes = [tuple(sizes[label] for label in term) for term in subscripts.split("->")[0].split(",")]
        arrays = [small(shape, "float64", seed, 1) for seed, shape in enumerate(shapes)]
        expected = np.einsum(subscripts, *arrays, optimize="greedy")
        assert (engine.einsum(subscripts, *arrays, optimize=optimizer) == expected).all()
        path, _ = engine.einsum_path(subscripts, *arrays, optimize=optimizer)
        assert path[0] == "einsum_path"
        assert len(path) >= 2
    batch = small((3, 2, 4), "float64", 5)
    optimizer = make()
    assert (
        engine.einsum(
            "...ij,jk,kl->...il", batch, small((4, 3), "float64"), small((3, 2), "float64"), optimize=optimizer
        )
        == batch @ small((4, 3), "float64") @ small((3, 2), "float64")
    ).all()


def test_a_hand_written_optimizer_gets_labels_and_sizes(engine: td.CpuEngine, small: Make) -> None:
    seen: list[Any] = []

    def last_pair_first(inputs: Any, output: Any, sizes: Any, memory_limit: Any) -> list[tuple[int, int]]:
        seen.append((inputs, output, sizes, memory_limit))
        return [(n - 1, n) for n in range(len(inputs) - 1, 0, -1)]

    arrays = chain(small)
    expected = arrays[0] @ arrays[1] @ arrays[2]
    assert (engine.einsum(CHAIN, *arrays, optimize=last_pair_first, memory_limit=1000) == expected).all()
    assert (engine.einsum(arrays[0], [9, "x"], arrays[1], ["x", None], arrays[2], [None, 3], optimize=last_pair_first)
            .shape) == (2, 5)  # fmt: skip
    inputs, output, sizes, limit = seen[0]
    assert [len(labels) for labels in inputs] == [2, 2, 2]
    assert len(output) == 2
    assert sorted(sizes.values()) == [2, 3, 4, 5]
    assert set().union(*inputs) == set(sizes)
    assert output <= set(sizes)
    assert limit == 1000

    def faulty(*_: Any) -> Any:
        raise ZeroDivisionError("the optimizer's own")

    with pytest.raises(ZeroDivisionError, match="own"):
        engine.einsum(CHAIN, *arrays, optimize=faulty)
    assert engine.state == "open"


# --- memory limits ---------------------------------------------------------------------------------------------


def test_a_limit_slices(engine: td.CpuEngine, small: Make) -> None:
    """Intermediates stay below the limit, and the values are the same; what no slice can obey is refused."""
    a, b, c = (np.arange(n, dtype=float) for n in (5, 6, 7))
    expected = a[:, None, None] * b[:, None] * c
    for limit in (1, 10, 29, 30, 42):
        for options in ({"memory_limit": limit}, {"optimize": ("greedy", limit)}, {"optimize": ("optimal", limit)}):
            out = np.full((5, 6, 7), np.nan)
            assert engine.einsum("a,b,c->abc", a, b, c, out=out, **options) is out
            assert (out == expected).all()
            out = engine.einsum("a,b,c->abc", a, b, c, out=out, alpha=2, beta=3, **options)
            assert (out == 5 * expected).all()
    out = np.full((5, 6, 7), 9.0)
    for options in ({"memory_limit": 0}, {"optimize": ("greedy", 0)}):
        with pytest.raises(td.UnsupportedError, match="memory_limit=0"):
            engine.einsum("a,b,c->abc", a, b, c, out=out, **options)
    assert (out == 9).all()
    assert (engine.einsum("a,b,c->abc", a, b, c, out=out, memory_limit=30.0, optimize=False) == expected).all()
    for bad in (-1, "many", 1.5j, [3], float("nan"), float("inf")):
        with pytest.raises(td.ArgumentError, match="memory_limit"):
            engine.einsum("a,b,c->abc", a, b, c, memory_limit=bad)


# --- C-EIN-10: very large networks -----------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"memory_limit": 16}, {"optimize": "greedy"}, {"optimize": False}], ids=str)
def test_ein_10_a_ring_of_210_matrices(engine: td.CpuEngine, options: dict[str, Any]) -> None:
    ones = np.ones((2, 2))
    arguments = list(itertools.chain.from_iterable((ones, [n, (n + 1) % 210]) for n in range(210)))
    start = time.monotonic()
    assert engine.einsum(*arguments, [], **options) == 2.0**210
    assert time.monotonic() - start < 5
    letters = [chr(0x3400 + n) for n in range(210)]
    text = ",".join(letters[n] + letters[(n + 1) % 210] for n in range(210)) + "->"
    assert engine.einsum(text, *[ones] * 210, **options) == 2.0**210


@pytest.mark.parametrize("count", [3_000, pytest.param(70_000, marks=pytest.mark.slow)])
def test_ein_10_a_product_of_very_many_vectors(count: int) -> None:
    """No counter of 16 bits, no quadratic wait."""
    one = np.ones(1)
    arguments = list(itertools.chain.from_iterable((one, [n]) for n in range(count)))
    with td.CpuEngine(1) as engine:
        start = time.monotonic()
        assert engine.einsum(*arguments, []) == 1
        assert time.monotonic() - start < count / 1000
        assert engine.einsum(*arguments, [], optimize=False) == 1


def test_one_pair_of_parentheses_deep(engine: td.CpuEngine) -> None:
    a = np.eye(2)
    depth = 10_000
    assert (engine.einsum(f"{'(' * depth}ij{')' * depth},jk->ik", a, a) == a).all()
    with pytest.raises(td.SubscriptsError):
        engine.einsum("(" * 100_000, a)
