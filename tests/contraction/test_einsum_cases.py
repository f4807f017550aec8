"""Public faults of einsum implementations as inputs and right answers, on every route, dtype, layout and width."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

FLOATS = ("float32", "float64", "complex64", "complex128")
LAYOUTS = ("C", "F", "reversed", "strided", "offset", "moved", "F reversed strided")
#: Routes that take every contraction; the others are honoured or refused.
TOTAL_ROUTES = ("auto", "reference")
OPTIMIZES: tuple[Any, ...] = ("auto", "greedy", "optimal", True, False)

Make = Callable[..., npt.NDArray[Any]]


def on_every_route(
    engine: td.CpuEngine, subscripts: str, *operands: Any, **options: Any
) -> list[tuple[str, npt.NDArray[Any]]]:
    """Results by route and optimiser, cold and warm; a route that refuses is left out, but never one of the total ones."""
    results = []
    for route in ("auto", "reference", "packed", "gemm", "elementwise"):
        for optimize in OPTIMIZES:
            try:
                for heat in ("cold", "warm"):
                    value = engine.einsum(subscripts, *operands, route=route, optimize=optimize, **options)
                    results.append((f"{route} {optimize} {heat}", np.asarray(value)))
            except td.UnsupportedError:
                assert route not in TOTAL_ROUTES
                break
    results.append(("plain", np.asarray(engine.einsum(subscripts, *operands, **options))))
    return results


def expect(engine: td.CpuEngine, subscripts: str, operands: list[npt.NDArray[Any]], right: Any) -> None:
    """Assert value and shape on every route."""
    right = np.asarray(right)
    for name, value in on_every_route(engine, subscripts, *operands):
        assert value.shape == right.shape, name
        assert (value == right).all(), f"{name}: {value} is not {right}"


# --- C-EIN-01 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_ein_01_full_contraction_in_opposite_order(engine: td.CpuEngine, dtype: str) -> None:
    a, b = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(6, dtype=dtype).reshape(3, 2)
    expect(engine, "ab,ba->", [a, b], 50)
    expect(engine, "ab,ba->", [np.asfortranarray(a), b], 50)
    expect(engine, "ab,ba->", [a, np.asfortranarray(b)], 50)
    expect(engine, "ab,ab->", [a, b.T], 50)
    assert engine.tensordot(a, b, axes=([0, 1], [1, 0])) == 50


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("layout", ["C", "F", "reversed"])
def test_ein_01_every_pair_of_axis_orders(
    engine: td.CpuEngine, small: Make, lay_out: Make, dtype: str, layout: str
) -> None:
    base = small((2, 3, 4), dtype, seed=1)
    other = small((2, 3, 4), dtype, seed=2)
    right = (base.astype(complex) * other).sum()
    for one, two in itertools.product(itertools.permutations(range(3)), repeat=2):
        left = lay_out(base.transpose(one), layout)
        second = lay_out(other.transpose(two), "C")
        names = ["".join("abc"[axis] for axis in order) for order in (one, two)]
        assert engine.einsum(f"{names[0]},{names[1]}->", left, second) == right
        # A batch label in the middle of both, kept.
        keep = engine.einsum(f"{names[0]},{names[1]}->b", left, second)
        assert (keep == (base.astype(complex) * other).sum(axis=(0, 2))).all()


# --- C-EIN-02 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "int32"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_ein_02_labels_that_occur_three_times(engine: td.CpuEngine, lay_out: Make, dtype: str, layout: str) -> None:
    cube = lay_out(np.arange(27).reshape(3, 3, 3).astype(dtype), layout)
    long = lay_out(np.arange(54).reshape(3, 3, 3, 2).astype(dtype), layout)
    expect(engine, "iii->i", [cube], [0, 13, 26])
    expect(engine, "iii->", [cube], 39)
    expect(engine, "iii", [cube], 39)
    expect(engine, "iiij->j", [long], [78, 81])
    expect(engine, "iiij->ij", [long], [[0, 1], [26, 27], [52, 53]])
    expect(engine, "iiij->ji", [long], [[0, 26, 52], [1, 27, 53]])
    first = lay_out(np.arange(54).reshape(2, 3, 3, 3).astype(dtype), layout)
    expect(engine, "ijjj->i", [first], [39, 120])
    expect(engine, "ijjj->ij", [first], [[0, 13, 26], [27, 40, 53]])
    fourth = lay_out(np.arange(81).reshape(3, 3, 3, 3).astype(dtype), layout)
    expect(engine, "iiii->", [fourth], 120)
    expect(engine, "iiii->i", [fourth], [0, 40, 80])
    expect(engine, "iijj->", [fourth], sum(fourth[i, i, j, j] for i in range(3) for j in range(3)))
    expect(engine, "jiii->j", [fourth], [fourth[j].diagonal().diagonal().sum() for j in range(3)])


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_ein_02_as_one_of_two_and_of_three(engine: td.CpuEngine, loop: Make, small: Make, dtype: str) -> None:
    cube, vector, matrix = small((3, 3, 3), dtype), small((3,), dtype, 1), small((3, 4), dtype, 2)
    for subscripts in ("iii,i->", "iii,i->i", "iii,ij->j", "iii,ij->ij", "iii,ij->ji", "iii,jk->ijk", "ii,i->i"):
        terms, output = subscripts.split("->")
        first, second = terms.split(",")
        one = cube if len(first) == 3 else cube[0]
        two = vector if len(second) == 1 else matrix
        expect(engine, subscripts, [one, two], loop([first, second], output, one, two))
        expect(engine, f"{second},{first}->{output}", [two, one], loop([second, first], output, two, one))
    for subscripts in ("iii,ij,jjk->k", "iii,i,ij->j", "iii,iii,i->i", "aai,iij,jja->"):
        terms, output = subscripts.split("->")
        names = terms.split(",")
        sizes = {"i": 3, "j": 3, "k": 4, "a": 3}
        arrays = [small([sizes[label] for label in term], dtype, seed) for seed, term in enumerate(names)]
        expect(engine, subscripts, arrays, loop(names, output, *arrays))


# --- C-EIN-03 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_ein_03_four_operands_under_every_order(engine: td.CpuEngine, dtype: str) -> None:
    g = np.diag([1, 1, -1]).astype(dtype)
    w = np.zeros((3, 3, 3), dtype)
    w[0, 0, 0] = w[0, 2, 2] = w[1, 0, 1] = w[2, 2, 0] = 1
    w[1, 1, 0] = w[2, 0, 2] = -1
    right = np.zeros((3, 3))
    right[0, 0] = -1
    orders = [
        [one, two, (0, 1)] for one in itertools.combinations(range(4), 2) for two in itertools.combinations(range(3), 2)
    ]
    assert len(orders) == 18
    for order in [*orders, [(0, 1, 2), (0, 1)], [(0, 1, 2, 3)], [(0, 1), (0, 1, 2)], *OPTIMIZES]:
        for route in TOTAL_ROUTES:
            value = engine.einsum("ac,fg,cfb,gda->bd", g, g, w, w, optimize=order, route=route)
            assert (value == right).all(), order
    for text in ("(ac,fg),(cfb,gda)->bd", "((ac,fg),cfb),gda->bd", "ac,(fg,(cfb,gda))->bd"):
        assert (engine.einsum(text, g, g, w, w) == right).all(), text


# --- C-EIN-04 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "bool", "float16"])
def test_ein_04_axes_of_length_one_stretch_on_every_route(engine: td.CpuEngine, dtype: str) -> None:
    a = np.arange(4).reshape(4, 1).astype(dtype)
    b = np.array([[0, 2, 4]]).astype(dtype)
    expect(engine, "ik,jk->ij", [a, b], np.einsum("ik,jk->ij", a, b, optimize=False))
    if dtype in FLOATS:
        assert (engine.einsum("ik,jk->ij", a, b) == [[0], [6], [12], [18]]).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("t...i,ti->t...", [(10, 2), (1, 2)]),
        ("t...i,ti->t...", [(1, 2), (10, 2)]),
        ("t...i,ti->t...", [(10, 3, 2), (1, 2)]),
        ("ij,jk->ik", [(3, 1), (4, 5)]),
        ("ij,jk->ik", [(3, 4), (1, 5)]),
        ("ij,jk->ik", [(1, 1), (1, 1)]),
        ("ij,ij->ij", [(1, 4), (3, 1)]),
        ("ij,ij->", [(1, 4), (3, 1)]),
        ("ij,ij->j", [(1, 4), (3, 1)]),
        ("bij,bjk->bik", [(1, 3, 2), (5, 2, 3)]),
        ("bij,bjk->bik", [(5, 3, 1), (1, 2, 3)]),
        ("bij,bjk->ik", [(5, 3, 2), (1, 2, 3)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 2), (4, 2, 3)]),
        ("i,i->", [(1,), (5,)]),
        ("ij,j,k->ik", [(3, 1), (4,), (2,)]),
        ("ij,jk,kl->il", [(3, 1), (4, 1), (5, 2)]),
        ("ab,ab,ab->", [(1, 3), (2, 1), (1, 1)]),
        ("ij,i->", [(2, 1), (1,)]),
    ],
)
def test_ein_04_numpys_rule(
    engine: td.CpuEngine, small: Make, lay_out: Make, dtype: str, layout: str, subscripts: str, shapes: Any
) -> None:
    arrays = [lay_out(small(shape, dtype, seed), layout) for seed, shape in enumerate(shapes)]
    expect(engine, subscripts, arrays, np.einsum(subscripts, *arrays, optimize=False))


@pytest.mark.parametrize(
    ("subscripts", "shapes", "label", "operands", "sizes"),
    [
        ("ij,i->", [(5, 1), (2,)], "i", (0, 1), (5, 2)),
        ("ik,jk->ij", [(4, 3), (1, 2)], "k", (0, 1), (3, 2)),
        ("i,j,i->", [(3,), (1,), (2,)], "i", (0, 2), (3, 2)),
        ("bix,iox->box", [(12, 81, 2), (12, 81, 2)], "i", (0, 1), (81, 12)),
        ("i,i,i->", [(1,), (4,), (3,)], "i", (1, 2), (4, 3)),
    ],
)
def test_ein_04_other_sizes_are_an_error_on_every_route(
    engine: td.CpuEngine, subscripts: str, shapes: Any, label: str, operands: tuple[int, int], sizes: tuple[int, int]
) -> None:
    arrays = [np.ones(shape) for shape in shapes]
    for route in ("auto", "reference", "gemm", "elementwise", "packed"):
        for optimize in OPTIMIZES:
            with pytest.raises(td.BroadcastError) as caught:
                engine.einsum(subscripts, *arrays, route=route, optimize=optimize)
            error = caught.value
            assert error.detail["label"] == label
            assert (error.detail["first_operand"], error.detail["second_operand"]) == operands
            assert (error.detail["first_size"], error.detail["second_size"]) == sizes
            assert error.operand == operands[1]
            for part in (f"'{label}'", *map(str, sizes), *(f"operand {operand}" for operand in operands)):
                assert part in str(error)


# --- C-EIN-05 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int32"])
def test_ein_05_an_ellipsis_that_the_output_leaves_out_is_summed(engine: td.CpuEngine, dtype: str) -> None:
    cube = np.ones((3, 3, 3), dtype)
    expect(engine, "i...->i", [cube], [9, 9, 9])
    expect(engine, "...i->i", [cube], [9, 9, 9])
    flat = np.ones((2, 3), dtype)
    expect(engine, "...i,i->", [flat, np.ones(3, dtype)], 6)
    expect(engine, "...->", [flat], 6)
    expect(engine, "...i,...i->i", [flat, np.ones((4, 1, 3), dtype)], [8, 8, 8])
    expect(engine, "...,...,i->i", [flat, flat, np.ones(3, dtype)], [6, 6, 6])
    expect(engine, "...ij,jk->ik", [cube, flat.T], np.full((3, 2), 9))


# --- C-EIN-06 --------------------------------------------------------------------------------------------------


def test_ein_06_implicit_output_is_in_code_point_order(engine: td.CpuEngine) -> None:
    a = np.arange(6.0).reshape(2, 3)
    for subscripts, right in (("aB", a.T), ("bA", a.T), ("ba", a.T), ("ab", a), ("BA", a.T), ("AB", a), ("Ab", a)):
        expect(engine, subscripts, [a], right)
    expect(engine, "bZ,Za", [a, a.T], np.einsum("bz,za->ab", a, a.T))
    expect(engine, "aZ,bY", [a, a], np.einsum("az,by->yzab", a, a))


# --- C-EIN-07 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
def test_ein_07_two_operands_of_22_axes(engine: td.CpuEngine, dtype: str) -> None:
    """33 labels, of which 11 are shared: a result of 22 axes whose every entry is 2^11."""
    a = np.ones((2,) * 22, dtype)
    result = engine.einsum(a, list(range(22)), a, list(range(11, 33)), [*range(11), *range(22, 33)])
    assert result.shape == (2,) * 22
    assert (result == 2048).all()


def test_ein_07_scrambled_shared_labels(engine: td.CpuEngine, small: Make) -> None:
    rng = np.random.default_rng(7)
    shared = [f"s{n}" for n in range(12)]
    left = [*shared, *(f"l{n}" for n in range(6))]
    right = [*shared, *(f"r{n}" for n in range(4))]
    left = [left[n] for n in rng.permutation(18)]
    right = [right[n] for n in rng.permutation(16)]
    output = [label for label in left + right if label[0] != "s"]
    a, b = small((2,) * 18, "float64", 1), small((2,) * 16, "float64", 2)
    result = engine.einsum(a, left, b, right, output)
    pairs = [(left.index(label), right.index(label)) for label in shared]
    expected = np.tensordot(a, b, axes=([one for one, _ in pairs], [two for _, two in pairs]))
    assert (result == expected).all()


def test_ein_07_a_chain_of_seventy_matrices(engine: td.CpuEngine) -> None:
    step = np.array([[1.0, 1.0], [0.0, 1.0]])
    arguments: list[Any] = []
    for n in range(70):
        arguments += [step, [("bond", n), ("bond", n + 1)]]
    for optimize in ("auto", "greedy", False, [(0, 1)] + [(0, 68 - n) for n in range(68)]):
        result = engine.einsum(*arguments, [("bond", 0), ("bond", 70)], optimize=optimize)
        assert (result == [[1, 70], [0, 1]]).all(), optimize
    assert (engine.einsum(*arguments) == [[1, 70], [0, 1]]).all(), "implicit output, labels sorted"


def test_ein_07_any_hashable_label(engine: td.CpuEngine) -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    for i, j, k in (
        (0, 1, 2),
        ("left", "bond", "right"),
        ((1, 2), frozenset("x"), None),
        (-1, 10**30, 2.5),
        (np.int64(3), 52, 99),
        (object(), object(), object()),
        ("é", "字", "..."),
    ):
        assert (engine.einsum(a, [i, j], b, [j, k], [i, k]) == a @ b).all()
        assert (engine.einsum(a, (i, j), b, (j, k), (k, i)) == (a @ b).T).all()
    assert (engine.einsum(a, [0, ...], b, [1, 2], [1, 2, 0, ...]).shape) == (3, 4, 2, 3)
    assert (engine.einsum(a, range(2), b, np.array([1, 2])) == a @ b).all()
    assert (engine.einsum(a, [1, 0]) == a.T).all(), "the implicit output is sorted"
    assert (engine.einsum(a, ["b", "a"]) == a.T).all()


def test_ein_07_more_axes_than_an_array_can_have(engine: td.CpuEngine) -> None:
    """numpy's arrays have 64 axes at most: a result of 66 is a typed error before anything is allocated."""
    a = np.ones((1,) * 33)
    with pytest.raises(td.ShapeError, match="66 axes.*at most 64"):
        engine.einsum(a, list(range(33)), a, list(range(33, 66)))
    assert engine.einsum(a, list(range(33)), a, list(range(33, 66)), []) == 1
    assert engine.einsum(a, list(range(33)), a[0], list(range(33, 65)), list(range(1, 65))).shape == (1,) * 64


# --- C-EIN-08 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int64", "float16"])
def test_ein_08_rank_zero_and_single_operands(engine: td.CpuEngine, dtype: str) -> None:
    two, three, five = (np.array(n, dtype) for n in (2, 3, 5))
    matrix = np.arange(6).reshape(2, 3).astype(dtype)
    expect(engine, "->", [three], 3)
    expect(engine, "", [three], 3)
    expect(engine, ",->", [two, five], 10)
    expect(engine, ",", [two, five], 10)
    expect(engine, ",,->", [two, three, five], 30)
    expect(engine, ",ij->ij", [two, matrix], 2 * matrix)
    expect(engine, "ij,->ij", [matrix, two], 2 * matrix)
    expect(engine, ",ij->", [two, matrix], 30)
    expect(engine, ",ij,->ji", [two, matrix, five], 10 * matrix.T)
    expect(engine, "i,->i", [matrix[0], five], 5 * matrix[0])
    expect(engine, "ij->ij", [matrix], matrix)
    expect(engine, "ij->ji", [matrix], matrix.T)
    for optimize in OPTIMIZES:
        path, _ = engine.einsum_path("->", three, optimize=optimize)
        assert path == ["einsum_path", (0,)]
        path, _ = engine.einsum_path(",->", three, two, optimize=optimize)
        assert path == ["einsum_path", (0, 1)]
    assert type(engine.einsum(",->", two, five)) is np.dtype(dtype).type, "0-d results are numpy scalars"
    for path in ([], [()]):
        with pytest.raises(td.PathError):
            engine.einsum(",->", two, five, optimize=path)


# --- C-EIN-09 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [0, 1, 2, 512])
@pytest.mark.parametrize("hash_bits", [64, 0])
def test_ein_09_one_equation_over_sizes_strides_dtypes_and_flags(
    small: Make, lay_out: Make, capacity: int, hash_bits: int
) -> None:
    """Two engines share one cache, whose hashes collide all over when they have no bits."""
    cache = td.PlanCache(capacity, _hash_bits=hash_bits)
    with td.CpuEngine(1, plan_cache=cache) as one, td.CpuEngine(2, plan_cache=cache) as two:
        for turn in range(2):
            for bond, dtype, layout, conj in itertools.product(
                (2, 3, 2, 4),
                ("float32", "float64", "complex128"),
                ("C", "F", "reversed", "moved"),
                (None, [True, False]),
            ):
                a = lay_out(small((bond, 3, bond), dtype, turn), layout)
                b = lay_out(small((bond, bond), dtype, turn + 5), "C" if layout == "F" else layout)
                left = a.conj() if conj else a
                expected = np.einsum("iaj,jk->iak", left, b)
                for which in (one, two):
                    assert (which.einsum("iaj,jk->iak", a, b, conj=conj) == expected).all()
                    assert (which.einsum("iaj,jk->iak", a, b, conj=conj, order="F") == expected).all()
                    assert (which.einsum("iaj,jk->iak", a, b, conj=conj, alpha=2) == 2 * expected).all()
                    assert (which.einsum("iaj,jk->iak", left, b) == expected).all()
                assert len(cache) <= capacity
        stats = cache.stats()
        assert stats["entries"] <= capacity
        assert (stats["hits"] > 0) == (capacity > 0)
        assert stats["misses"] > 0


def test_ein_09_a_scaled_call_does_not_hide_the_view(engine: td.CpuEngine) -> None:
    a = np.arange(6.0).reshape(2, 3).copy()
    engine.clear_caches()
    assert (engine.einsum("ij->ji", a, alpha=2) == 2 * a.T).all()
    view = engine.einsum("ij->ji", a)
    assert np.shares_memory(view, a)
    engine.einsum("ij->ji", a)
    assert (engine.einsum("ij->ji", a, alpha=3) == 3 * a.T).all()


# --- C-EIN-12 --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_ein_12_tensordot_corners(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    a, b = small((30, 10), dtype, 1), small((10, 20), dtype, 2)
    assert (engine.tensordot(a, b, axes=([-1], [0])) == np.tensordot(a, b, axes=([-1], [0]))).all()
    assert (engine.tensordot(a, b, axes=(-1, 0)) == a @ b).all()
    assert (engine.tensordot(a, b, axes=1) == a @ b).all()
    c, d = small((2, 3, 4), dtype, 3), small((5, 6, 7), dtype, 4)
    outer = engine.tensordot(c, d, axes=0)
    assert outer.shape == (2, 3, 4, 5, 6, 7)
    assert (outer == np.multiply.outer(c, d)).all()
    assert engine.tensordot(np.array(3, dtype), np.array(4, dtype), axes=([], [])) == 12
    assert engine.tensordot(np.array(3, dtype), np.array(4, dtype), axes=0) == 12
    e = small((4, 3, 2), dtype, 5)
    assert engine.tensordot(c, e, axes=([0, 1, 2], [2, 1, 0])) == np.tensordot(c, e, axes=([0, 1, 2], [2, 1, 0]))
    assert (engine.tensordot(c, e, axes=([2, 0], [0, 2])) == np.tensordot(c, e, axes=([2, 0], [0, 2]))).all()


@pytest.mark.parametrize(
    ("axes", "error", "words"),
    [
        (([1, 1], [0, 0]), td.AxisError, "duplicate"),
        (([1, -1], [0, 1]), td.AxisError, "duplicate"),
        (3, td.ShapeError, "axes is 3"),
        (-1, td.ArgumentError, "-1"),
        (([2], [0]), td.AxisError, "out of range"),
        (([0], [-3]), td.AxisError, "operand 1"),
        (([0, 1], [0]), td.ShapeError, "2 axes of operand 0 .* 1 of operand 1"),
        (([0], [0]), td.BroadcastError, "30 .* 10"),
        ("ab", td.ArgumentError, "axes"),
        (None, td.ArgumentError, "axes"),
        ((0, 1, 2), td.ArgumentError, "axes"),
        (1.5, td.ArgumentError, "axes"),
    ],
)
def test_ein_12_axes_that_do_not_fit(engine: td.CpuEngine, axes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        engine.tensordot(np.ones((30, 10)), np.ones((10, 20)), axes=axes)
    assert isinstance(caught.value, ValueError)


# --- C-EIN-13 --------------------------------------------------------------------------------------------------


def test_ein_13_warm_calls_never_miss(small: Make) -> None:
    with td.CpuEngine(1) as engine:
        a, v = small((3, 3), "float64"), small((3,), "float64")
        x, y, z = small((5, 2), "float64"), small((5, 5, 2), "float64"), small((2, 5), "float64")

        def refuse(*_: Any) -> Any:
            raise AssertionError("two operands never enter the optimiser")

        def both() -> None:
            engine.einsum("...ij,j...->i...", a, v)
            engine.einsum("ij,ixy,ji->xy", x, y, z)
            engine.einsum("...ij,j...->i...", a, v, optimize=refuse)

        both()
        cold = engine.stats()["plan_cache"]
        for _ in range(100):
            both()
        warm = engine.stats()["plan_cache"]
        assert warm["misses"] == cold["misses"]
        assert warm["entries"] == cold["entries"] == 2, "nothing to find for two operands: one plan, not two"
        assert warm["bytes"] == cold["bytes"]
        assert warm["hits"] >= cold["hits"] + 300
