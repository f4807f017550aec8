"""``out=``, ``alpha`` and ``beta``: overlap, strides, poison and guards, zero sizes, NaN that must come through."""

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

Make = Callable[..., npt.NDArray[Any]]


# --- C-OUT-01: overlap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_out_01_an_out_that_shares_an_element_is_refused(engine: td.CpuEngine, dtype: str) -> None:
    a = np.arange(36).reshape(3, 4, 3).astype(dtype)
    before = a.copy()
    inner = a[:, 1:, :]
    weights = np.array([1, 2, 3]).astype(dtype)
    square = np.arange(16).reshape(4, 4).astype(dtype)
    held = square.copy()
    line = np.arange(10).astype(dtype)
    for which, call in {
        "the same": lambda: engine.einsum("j,ijk->ijk", weights, inner, out=inner),
        "the same, scaled": lambda: engine.einsum("j,ijk->ijk", weights, inner, out=inner, beta=1),
        "shifted": lambda: engine.einsum("j,ijk->ijk", weights, inner, out=a[:, :3, :]),
        "one operand": lambda: engine.einsum("ijk->ijk", inner, out=inner),
        "transposed": lambda: engine.einsum("ij,jk->ik", square, square, out=square.T),
        "matmul": lambda: engine.matmul(square, held.copy(), out=square),
        "matmul, second": lambda: engine.matmul(held.copy(), square, out=square.T),
        "matmul, part": lambda: engine.matmul(square[:2, :2], square[2:, 2:], out=square[1:3, 1:3]),
        "dot": lambda: engine.dot(square, square, out=square),
        "gemm": lambda: engine.gemm(square, square, out=square, beta=1),
        "outer": lambda: engine.outer(line[:3], line[5:8], out=line[:9].reshape(3, 3)),
        "vecdot": lambda: engine.vecdot(square, square, out=square[0]),
        "matvec": lambda: engine.matvec(square, square[0], out=square[0]),
        "vecmat": lambda: engine.vecmat(square[0], square, out=square[:, 0]),
        "multi_dot": lambda: engine.multi_dot([square, square, square], out=square),
        "reversed": lambda: engine.einsum("i,i->i", line[:9], line[1:], out=line[8::-1]),
    }.items():
        with pytest.raises(td.AliasingError, match="shares memory with operand") as caught:
            call()
        assert caught.value.operand is not None, which
        assert (a == before).all(), which
        assert (square == held).all(), which
        assert (line == np.arange(10)).all(), which


@pytest.mark.parametrize("dtype", FLOATS)
def test_out_01_interleaved_memory_is_no_overlap(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    base = small((4, 8), dtype)
    even, odd = base[:, ::2], base[:, 1::2]
    source = even.copy()
    expected = source @ source
    assert engine.einsum("ij,jk->ik", even, even, out=odd) is odd
    assert (odd == expected).all()
    assert (even == source).all()
    assert engine.matmul(even, even, out=odd[::-1]) is not None
    assert (odd == expected[::-1]).all()
    real = np.zeros((4, 4), "complex128")
    engine.matmul(source.real.astype("float64"), source.real.astype("float64"), out=real.real)
    assert (real == source.real @ source.real).all()
    assert (real.imag == 0).all()


def test_out_01_an_out_that_overlaps_itself_or_is_read_only_is_refused(engine: td.CpuEngine) -> None:
    a = np.eye(3)
    memory = np.zeros(9)
    stretched = np.lib.stride_tricks.as_strided(memory, (3, 3), (0, 8))
    crossing = np.lib.stride_tricks.as_strided(memory, (3, 3), (16, 8))
    for out in (stretched, crossing):
        for call in (engine.matmul, engine.dot):
            with pytest.raises(td.AliasingError, match="overlaps itself"):
                call(a, a, out=out)
        with pytest.raises(td.AliasingError, match="overlaps itself"):
            engine.einsum("ij->ij", a, out=out)
    # Strides that cross without meeting are fine.
    apart = np.lib.stride_tricks.as_strided(np.zeros(20), (3, 3), (24, 16))
    assert (engine.matmul(a, 2 * a, out=apart) == 2 * a).all()
    memory.flags.writeable = False
    for call in (engine.matmul, engine.dot, engine.gemm):
        with pytest.raises(td.AliasingError, match="not writeable"):
            call(a, a, out=memory.reshape(3, 3))
    assert (memory == 0).all()


@pytest.mark.parametrize(
    ("out", "error"),
    [
        ("text", td.DTypeError),
        ([[0.0] * 3] * 3, td.DTypeError),
        (np.zeros((3, 2)), td.ShapeError),
        (np.zeros(9), td.ShapeError),
        (np.zeros((1, 3, 3)), td.ShapeError),
        (np.zeros((3, 3), object), td.DTypeError),
        (np.zeros((3, 3), "int32"), td.DTypeError),
        (np.zeros((3, 3), "S8"), td.DTypeError),
        (np.ma.zeros((3, 3)), td.DTypeError),
        ((np.zeros((3, 3)), np.zeros((3, 3))), td.DTypeError),
    ],
    ids=str,
)
def test_out_must_fit(engine: td.CpuEngine, out: Any, error: type[Exception]) -> None:
    a = np.ones((3, 3))
    for call in (
        lambda: engine.einsum("ij,jk->ik", a, a, out=out),
        lambda: engine.dot(a, a, out=out),
        lambda: engine.gemm(a, a, out=out),
        lambda: engine.multi_dot([a, a], out=out),
        # A ufunc's out may have more axes than the result.
        *([] if np.shape(out) == (1, 3, 3) else [lambda: engine.matmul(a, a, out=out)]),
    ):
        with pytest.raises(error):
            call()
    assert engine.state == "open"
    if isinstance(out, np.ndarray) and out.dtype.kind in "fi":
        assert (out == 0).all()


def test_out_of_another_dtype_follows_the_casting_rule(engine: td.CpuEngine) -> None:
    a = np.arange(4.0).reshape(2, 2)
    single, double, whole = (np.zeros((2, 2), t) for t in ("float32", "complex128", "int64"))
    assert engine.matmul(a, a, out=single) is single, "matmul's rule is same_kind"
    assert (single == a @ a).all()
    assert engine.einsum("ij,jk->ik", a, a, out=double) is double
    assert (double == a @ a).all()
    with pytest.raises(td.DTypeError):
        engine.einsum("ij,jk->ik", a, a, out=np.zeros((2, 2), "float32"))
    assert (engine.einsum("ij,jk->ik", a, a, out=np.zeros((2, 2), "float32"), casting="same_kind") == a @ a).all()
    assert (engine.einsum("ij,jk->ik", a, a, out=whole, casting="unsafe") == a @ a).all()
    tuple_out = np.zeros((2, 2))
    assert engine.matmul(a, a, out=(tuple_out,)) is tuple_out, "a tuple of one, as numpy's ufuncs take"
    # As numpy's einsum: a wider out is a wider accumulator.
    bytes_ = np.full((300, 1), 100, "int8")
    assert (engine.einsum("ij->j", bytes_, out=np.zeros(1, "int64")) == 30_000).all()
    assert (engine.einsum("ij->j", bytes_) == np.array(30_000).astype("int8")).all()


# --- C-OUT-02: strides of out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64", "int64"])
def test_out_02_a_strided_reversed_out(engines: dict[int, td.CpuEngine], dtype: str) -> None:
    whole = np.arange(100).reshape(10, 10).astype(dtype)
    a = whole[::-2, ::-2]
    for engine in engines.values():
        for route in ("matmul", "einsum", "reference", "gemm"):
            base = np.zeros((10, 10), dtype)
            out = base[::-2, ::-2]
            if route == "matmul":
                assert engine.matmul(a, a, out=out) is out
            else:
                name = "auto" if route == "einsum" else route
                assert engine.einsum("ij,jk->ik", a, a, out=out, route=name) is out
            assert (out[0] == [28425, 27475, 26525, 25575, 24625]).all()
            assert out.sum() == 388125
            assert base.sum() == out.sum(), "nothing else was written"


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_out_02_batched_products_into_every_layout(
    engines: dict[int, td.CpuEngine], lay_out: Make, dtype: str, layout: str
) -> None:
    a, b = np.arange(24).reshape(4, 2, 3).astype(dtype), np.arange(60).reshape(4, 3, 5).astype(dtype)
    expected = np.einsum("bij,bjk->bik", a, b)
    assert (expected[0] == [[25, 28, 31, 34, 37], [70, 82, 94, 106, 118]]).all()
    nan = np.full((4, 2, 5), np.nan, dtype)
    for engine, policy in itertools.product(engines.values(), ("auto", "sequential", "outer", "inner")):
        with engine.policy(batch=policy):
            out = lay_out(nan, layout)
            assert engine.matmul(a, b, out=out) is out
            assert (out == expected).all()
            out = lay_out(nan, layout)
            engine.einsum("bij,bjk->bik", a, b, out=out)
            assert (out == expected).all()
            out = np.moveaxis(lay_out(np.moveaxis(nan, 0, 1), layout), 1, 0)
            engine.einsum("bij,bjk->bik", a, b, out=out)
            assert (out == expected).all()
    two = np.full((2, 2), np.nan, dtype, order="F")
    assert (engines[1].matmul(a[0, :, :2], b[0, :2, :2], out=two) == a[0, :, :2] @ b[0, :2, :2]).all()
    swapped = np.full((5, 2, 4), np.nan, dtype)
    engines[2].einsum("bij,bjk->bik", a, b, out=swapped.swapaxes(0, 2))
    assert (swapped == expected.swapaxes(0, 2)).all()


@pytest.mark.parametrize("route", ["auto", "reference", "gemm", "packed", "elementwise"])
@pytest.mark.parametrize("dtype", ["float64", "complex64", "float32"])
def test_out_02_what_lies_around_a_view_stays(engine: td.CpuEngine, small: Make, route: str, dtype: str) -> None:
    """NaN inside (beta is 0) goes, NaN around stays, for every kind of contraction and layout of out."""
    cases = [
        ("ij,jk->ik", [(5, 7), (7, 3)]),
        ("ij,jk->ki", [(5, 7), (7, 3)]),
        ("aij,ajk->aik", [(3, 4, 2), (3, 2, 5)]),
        ("aij,kja->ika", [(3, 4, 2), (5, 2, 3)]),
        ("ij,ij->ij", [(4, 5), (4, 5)]),
        ("i,j->ji", [(4,), (5,)]),
        ("ij->i", [(4, 5)]),
        ("ii->i", [(4, 4)]),
        ("ij,jk,kl->li", [(2, 3), (3, 4), (4, 5)]),
        ("abc,cab->b", [(2, 3, 4), (4, 2, 3)]),
        (",ij->ji", [(), (3, 4)]),
    ]
    ran = 0
    for subscripts, shapes in cases:
        arrays = [small(shape, dtype, seed) for seed, shape in enumerate(shapes)]
        expected = np.einsum(subscripts, *arrays)
        rank = expected.ndim
        for step, order in itertools.product((1, 2, -1, -3), ("C", "F")):
            base = np.full([abs(step) * (n + 2) for n in expected.shape], np.nan, dtype, order=order)
            inside = base[tuple(slice(None, None, step) for _ in range(rank))][(slice(1, -1),) * rank]
            inside = inside[tuple(slice(0, n) for n in expected.shape)]
            assert inside.shape == expected.shape
            try:
                result = engine.einsum(subscripts, *arrays, out=inside, route=route)
            except td.UnsupportedError:
                assert route not in ("auto", "reference")
                assert np.isnan(base).all(), "nothing was written before the refusal"
                continue
            ran += 1
            assert result is inside
            assert (inside == expected).all(), (subscripts, step, order)
            inside[...] = np.nan
            assert np.isnan(base).all(), (subscripts, step, order)
    assert ran >= 8


# --- C-OUT-03: zero sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "bool", "float16"])
def test_out_03_an_empty_sum_is_zero(engine: td.CpuEngine, dtype: str) -> None:
    def z(*shape: int) -> npt.NDArray[Any]:
        return np.zeros(shape, dtype)

    assert engine.matmul(z(3, 0), z(0, 4)).tolist() == z(3, 4).tolist()
    assert engine.dot(z(3, 0), z(0, 4)).shape == (3, 4)
    assert not engine.tensordot(z(0, 4), z(5, 0), axes=((0,), (1,))).any()
    assert engine.tensordot(z(0, 4), z(5, 0), axes=((0,), (1,))).shape == (4, 5)
    assert engine.einsum("i,i->", z(0), z(0)) == 0
    assert engine.vdot(z(0), z(0)) == 0
    assert engine.inner(z(0), z(0)) == 0
    assert not engine.einsum("iab,abj->ij", z(2, 0, 0), z(0, 0, 3)).any()
    assert not engine.einsum("iab,abj->ij", z(2, 0, 5), z(0, 5, 3)).any()
    assert not engine.einsum("ij->i", z(3, 0)).any()
    assert engine.einsum("ii->", z(0, 0)) == 0
    assert engine.einsum("ij,jk,kl->il", z(2, 3), z(3, 0), z(0, 4)).tolist() == z(2, 4).tolist()
    assert engine.einsum("i,j,k->ik", z(2), z(0), z(3)).tolist() == z(2, 3).tolist()
    assert engine.matmul(z(0, 3, 4), z(0, 4, 5)).shape == (0, 3, 5)
    assert engine.matmul(z(0, 3, 4), z(4, 5)).shape == (0, 3, 5)
    assert engine.matmul(z(7, 0, 4), z(7, 4, 5)).shape == (7, 0, 5)
    assert engine.outer(z(0), z(3)).shape == (0, 3)
    assert engine.kron(z(2, 0), z(3, 1)).shape == (6, 0)
    assert engine.multi_dot([z(2, 0), z(0, 3), z(3, 2)]).tolist() == z(2, 2).tolist()
    assert engine.einsum("i,i->i", z(0), z(1)).shape == (0,), "length one stretches to nothing"
    assert engine.einsum("i,i->", z(0), z(1)) == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_out_03_an_empty_sum_overwrites_or_scales_out(engine: td.CpuEngine, dtype: str) -> None:
    a, b = np.zeros((2, 0), dtype), np.zeros((0, 4), dtype)
    for route in ("auto", "reference", "gemm", "packed"):
        for fill in (9, np.nan):
            out = np.full((2, 4), fill, dtype)
            assert engine.einsum("ij,jk->ik", a, b, out=out, route=route) is out
            assert (out == 0).all()
        out = np.full((2, 4), 9, dtype)
        engine.einsum("ij,jk->ik", a, b, out=out, beta=2, route=route)
        assert (out == 18).all()
    for call in (engine.matmul, engine.dot, engine.gemm):
        out = np.full((2, 4), np.nan, dtype)
        assert call(a, b, out=out) is out
        assert (out == 0).all()
    out = np.full((2, 4), 9, dtype)
    engine.gemm(a, b, out=out, beta=2, alpha=0)
    assert (out == 18).all()
    out = np.full((2, 4), 9, dtype)[:, ::-1]
    engine.einsum("ia,ab,bk->ik", a, np.zeros((0, 0), dtype), b, out=out, beta=3)
    assert (out == 27).all()


# --- C-OUT-04: NaN ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def poisoned() -> td.CpuEngine:
    """An engine whose recycled buffers are full of NaN."""
    return td.CpuEngine(2)


def poison(engine: td.CpuEngine) -> None:
    """Fill what the engine will hand out next with NaN."""
    blocks = [engine.matmul(np.ones((n, 1)), np.full((1, n), np.nan)) for n in (100, 128, 180, 256, 300)]
    assert all(np.isnan(block).all() for block in blocks)


@pytest.mark.parametrize("dtype", FLOATS)
def test_out_04_no_stale_nan_at_any_size(poisoned: td.CpuEngine, small: Make, dtype: str) -> None:
    """All sizes 1 to 40 along each of the three dimensions, others at odd values; out and buffers are NaN."""
    poison(poisoned)
    for n in range(1, 41):
        for m, k, columns in ((n, 7, 5), (9, n, 6), (3, 17, n), (n, n, n)):
            a, b = small((m, k), dtype, n), small((k, columns), dtype, n + 1)
            expected = a.astype("complex128") @ b
            out = np.full((m, columns), np.nan, dtype)
            poisoned.matmul(a, b, out=out)
            assert (out == expected).all()
            assert (poisoned.matmul(a, b) == expected).all()
            out.fill(np.nan)
            poisoned.einsum("ij,jk->ik", a.T.copy().T, b, out=out)
            assert (out == expected).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [63, 64, 65, 95, 97, 127, 128, 129, 191, 193, 255, 257])
def test_out_04_no_stale_nan_around_tiles(poisoned: td.CpuEngine, small: Make, dtype: str, size: int) -> None:
    poison(poisoned)
    for m, k, n in ((size, 33, 65), (31, size, 66), (65, 34, size)):
        a, b = small((m, k), dtype, 1), small((k, n), dtype, 2)
        expected = a.astype("complex128") @ b
        out = np.full((m, n), np.nan, dtype)
        assert (poisoned.matmul(a, b, out=out) == expected).all()
        assert (poisoned.matmul(a, b) == expected).all()
        assert (poisoned.einsum("ji,kj->ik", a.T.copy(), b.T.copy()) == expected).all()
        assert (poisoned.einsum("ij,jk,k->i", a, b, np.ones(n, dtype)) == expected.sum(axis=1)).all()
        batch = poisoned.matmul(np.stack([a, a[::-1]]), b)
        assert (batch[0] == expected).all()
        assert (batch[1] == expected[::-1]).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 17, 40, 70])
@pytest.mark.parametrize("route", ["auto", "reference", "gemm", "packed", "matmul"])
def test_out_04_nan_and_infinity_come_through(engine: td.CpuEngine, dtype: str, size: int, route: str) -> None:
    """NaN in a row of the left and a column of the right reaches all that it belongs to, through exact zeros too."""

    def product(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> npt.NDArray[Any]:
        result = engine.matmul(a, b) if route == "matmul" else engine.einsum("ij,jk->ik", a, b, route=route)
        return np.asarray(result)

    row, column = size // 2, size - 1
    for bad in (np.nan, np.inf):
        a, b = np.zeros((size, size + 1), dtype), np.zeros((size + 1, size), dtype)
        a[row, size // 3] = bad
        result = product(a, b)
        assert np.isnan(result[row]).all()
        assert not np.isnan(np.delete(result, row, 0)).any()
        a, b = np.zeros((size, size + 1), dtype), np.zeros((size + 1, size), dtype)
        b[size // 2, column] = bad
        result = product(a, b)
        assert np.isnan(result[:, column]).all()
        assert not np.isnan(np.delete(result, column, 1)).any()
    elementwise = engine.einsum("i,i->i", np.array([np.nan, 0, np.inf, 1], dtype), np.array([0, np.nan, 0, 2], dtype))
    assert np.isnan(elementwise).tolist() == [True, True, True, False]
    assert np.isnan(engine.einsum("i,->i", np.zeros(3, dtype), np.array(np.inf, dtype))).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(5, 3), (3, 4)]),
        ("bij,bjk->bki", [(2, 5, 3), (2, 3, 4)]),
        ("ij,ij->ji", [(5, 3), (5, 3)]),
        ("ij->ji", [(5, 3)]),
        ("ij->j", [(5, 3)]),
        ("ij,jk,kl->li", [(2, 3), (3, 4), (4, 5)]),
        ("abc,cab->b", [(2, 3, 4), (4, 2, 3)]),
    ],
)
def test_out_04_alpha_and_beta(
    engine: td.CpuEngine, small: Make, dtype: str, subscripts: str, shapes: list[tuple[int, ...]]
) -> None:
    arrays = [small(shape, dtype, seed) for seed, shape in enumerate(shapes)]
    nan = [np.full(shape, np.nan, dtype) for shape in shapes]
    value = np.einsum(subscripts, *arrays)
    old = small(value.shape, dtype, 77)
    scales: tuple[Any, ...] = (0, 1, -2, 0.5, np.float32(2)) + ((1j, 2 - 1j) if "complex" in dtype else ())
    for route in ("auto", "reference"):
        for alpha, beta in itertools.product(scales, repeat=2):
            out = old.copy(order="F")
            assert engine.einsum(subscripts, *arrays, out=out, alpha=alpha, beta=beta, route=route) is out
            assert (out == alpha * value + beta * old).all(), (alpha, beta)
        # alpha = 0 reads no operand, beta = 0 not the output.
        out = old.copy()
        engine.einsum(subscripts, *nan, out=out, alpha=0, beta=2, route=route)
        assert (out == 2 * old).all()
        out = np.full_like(old, np.nan)
        engine.einsum(subscripts, *nan, out=out, alpha=0, beta=0, route=route)
        assert (out == 0).all()
        assert (engine.einsum(subscripts, *nan, alpha=0, route=route) == 0).all()
        assert (engine.einsum(subscripts, *arrays, alpha=3, route=route) == 3 * value).all()
        out = np.full_like(old, np.nan)
        engine.einsum(subscripts, *arrays, out=out, alpha=-1, beta=0.0, route=route)
        assert (out == -value).all()
        # With beta the old NaN is read.
        out = np.full_like(old, np.nan)
        engine.einsum(subscripts, *arrays, out=out, beta=1, route=route)
        assert np.isnan(out).all()


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int16"])
def test_alpha_and_beta_of_integers(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    a, old = small((3, 3), dtype), small((3, 3), dtype, 1)
    out = old.copy()
    engine.gemm(a, a, out=out, alpha=-3, beta=2)
    assert (out == (-3 * (a.astype("int64") @ a) + 2 * old.astype("int64")).astype(dtype)).all()
    with pytest.raises(td.DTypeError, match="alpha"):
        engine.gemm(a, a, alpha=0.5)
    with pytest.raises(td.DTypeError, match="beta"):
        engine.gemm(a, a, out=out, beta=1j)
    with pytest.raises(td.DTypeError, match="alpha"):
        engine.einsum("ij->i", np.ones((2, 2)), alpha=1j)
    with pytest.raises(td.ArgumentError, match="no out"):
        engine.gemm(a, a, beta=1)
    for bad in ("2", None, [1, 2], object()):
        if bad is not None:
            with pytest.raises(td.DTypeError):
                engine.einsum("ij->i", np.ones((2, 2)), alpha=bad)


# --- C-OUT-05: large strides and sizes -------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_out_05_strides_beyond_32_bits(engine: td.CpuEngine, tmp_path: Any, sign: int) -> None:
    row = 2**31 + 3
    try:
        sparse = np.memmap(tmp_path / "sparse", dtype="float32", mode="w+", shape=(2 * row + 4,))
    except OSError as error:
        pytest.skip(f"no sparse file of 17 GB here: {error}")
    a = np.lib.stride_tricks.as_strided(np.asarray(sparse), (3, 4), (row * 4, 4))
    a[...] = np.arange(12).reshape(3, 4)
    a = a[::sign, ::sign]
    plain = np.arange(12, dtype="float32").reshape(3, 4)[::sign, ::sign]
    b = np.arange(20, dtype="float32").reshape(4, 5)
    assert (engine.matmul(a, b) == plain @ b).all()
    assert (engine.matmul(b.T, a.T) == (plain @ b).T).all()
    assert (engine.einsum("ij,kj->ik", a, a) == plain @ plain.T).all()
    assert (engine.einsum("ij->j", a) == plain.sum(axis=0)).all()
    assert (engine.einsum("ij,ij->ij", a, plain) == plain * plain).all()
    target = a[:, ::-1]
    engine.matmul(plain, np.eye(4, dtype="float32"), out=target)
    assert (target == plain).all()
    assert (a == plain[:, ::-1]).all()


def test_out_05_results_that_cannot_exist(engine: td.CpuEngine) -> None:
    huge = np.broadcast_to(np.float64(1), 2**31)
    with pytest.raises(td.SizeOverflowError) as caught:
        engine.einsum("i,j,k->ijk", huge, huge, huge)
    assert isinstance(caught.value, (ValueError, OverflowError))
    with pytest.raises((td.OutOfMemoryError, td.SizeOverflowError)):
        engine.einsum("i,j->ij", huge, huge)
    with pytest.raises((td.OutOfMemoryError, td.SizeOverflowError)):
        engine.outer(np.broadcast_to(np.float32(1), 2**24), np.broadcast_to(np.float32(1), 2**24))
    with pytest.raises((td.OutOfMemoryError, td.SizeOverflowError)):
        engine.matmul(np.broadcast_to(np.float64(1), (2**24, 1)), np.broadcast_to(np.float64(1), (1, 2**24)))
    assert engine.state == "open"
    assert engine.einsum("i,i->", np.ones(3), np.ones(3)) == 3


# --- C-OUT-07: long sums ---------------------------------------------------------------------------------------


def test_out_07_long_float32_sums_are_blocked(engine: td.CpuEngine) -> None:
    """A running sum of 2^25 times 2^-24 stops at 1."""
    column = np.broadcast_to(np.float32(2.0**-24), (2**25, 1))
    assert engine.einsum("ij->j", column) == [2.0]
    assert engine.einsum("ij->", column) == 2.0
    ones = np.broadcast_to(np.float32(1), (2**25, 1))
    assert engine.einsum("ij,ij->j", column, ones) == [2.0]
    assert engine.vdot(column, ones) == 2.0
    assert engine.matmul(column.T, ones) == [[2.0]]


@pytest.mark.slow
def test_out_07_column_means_of_two_million_rows(engine: td.CpuEngine) -> None:
    rng = np.random.default_rng(5)
    rows = (285 + rng.normal(size=(2_000_000, 3))).astype("float32")
    right = rows.sum(axis=0, dtype="float64")
    for value in (engine.einsum("ij->j", rows), engine.einsum("ji->j", rows.T.copy())):
        assert np.abs(value / right - 1).max() < 25 * np.finfo("float32").eps


@pytest.mark.parametrize("columns", [3])
def test_out_07_products_with_two_million_terms(engine: td.CpuEngine, columns: int) -> None:
    rng = np.random.default_rng(5)
    rows = (285 + rng.normal(size=(2_000_000, columns))).astype("float32")
    ones = np.ones(len(rows), "float32")
    right = rows.sum(axis=0, dtype="float64")
    for value in (engine.matmul(ones, rows), engine.einsum("i,ij->j", ones, rows), engine.gemm(ones[None], rows)[0]):
        assert np.abs(value / right - 1).max() < 1e-5


# --- C-OUT-09: conjugation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("layouts", list(itertools.product(("C", "F", "reversed", "strided"), repeat=2)))
def test_out_09_conjugation(
    engines: dict[int, td.CpuEngine], small: Make, lay_out: Make, dtype: str, layouts: tuple[str, str]
) -> None:
    for size in (3, 19):
        a = lay_out(small((size, 5), dtype, 1), layouts[0])
        b = lay_out(small((size, 4), dtype, 2), layouts[1])
        c = small((4, 3), dtype, 3)
        for one, two in itertools.product((False, True), repeat=2):
            left, right = a.conj() if one else a, b.conj() if two else b
            for width, route in itertools.product((1, 3), ("auto", "reference", "gemm", "packed")):
                for output in ("pq", "qp"):
                    value = engines[width].einsum(f"ip,iq->{output}", a, b, conj=[one, two], route=route)
                    assert (value == np.einsum(f"ip,iq->{output}", left, right)).all()
            for output in ("pq", "p", "q", "", "i", "ipq"):
                for route in ("auto", "reference"):
                    value = engines[1].einsum(f"ip,iq->{output}", a, b, conj=[one, two], route=route)
                    assert (value == np.einsum(f"ip,iq->{output}", left, right)).all(), output
            for three in (False, True):
                last = c.conj() if three else c
                for optimize in ("auto", False, [(1, 2), (0, 1)], [(0, 2), (0, 1)], [(0, 1, 2)]):
                    value = engines[2].einsum("ip,iq,qr->pr", a, b, c, conj=[one, two, three], optimize=optimize)
                    assert (value == np.einsum("ip,iq,qr->pr", left, right, last)).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_out_09_single_operands_and_named_products(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    a, b, v = small((4, 4), dtype, 1), small((4, 4), dtype, 2), small((4,), dtype, 3)
    for subscripts in ("ij->ij", "ij->ji", "ii->i", "ij->j", "ij->"):
        for route in ("auto", "reference"):
            value = engine.einsum(subscripts, a, conj=[True], route=route)
            assert (value == np.einsum(subscripts, a.conj())).all()
    assert (engine.vdot(a, b) == np.vdot(a, b)).all()
    assert (engine.vecdot(a, b) == np.vecdot(a, b)).all()
    assert (engine.vecmat(v, a) == np.vecmat(v, a)).all()
    assert (engine.matvec(a, v) == np.matvec(a, v)).all()
    assert (engine.inner(a, b) == np.inner(a, b)).all(), "inner does not conjugate"
    form = {"N": lambda x: x, "T": lambda x: x.T, "C": lambda x: x.conj().T}
    for trans_a, trans_b in itertools.product("NTC", repeat=2):
        value = engine.gemm(a, b, trans_a=trans_a, trans_b=trans_b)
        assert (value == form[trans_a](a) @ form[trans_b](b)).all()


def test_products_that_numpy_has_as_ufuncs_cast_out_as_ufuncs_do(engine: td.CpuEngine) -> None:
    a, v = np.arange(6.0).reshape(2, 3), np.arange(3.0)
    for name, operands, shape in (
        ("outer", (v, v), (3, 3)),
        ("vecdot", (a, a), (2,)),
        ("matvec", (a, v), (2,)),
        ("vecmat", (v, a.T), (2,)),
    ):
        out = np.full(shape, np.nan, np.float32)
        assert getattr(engine, name)(*operands, out=out) is out
        np.testing.assert_array_equal(out, getattr(engine, name)(*operands))
        with pytest.raises(td.DTypeError):
            getattr(engine, name)(*operands, out=np.zeros(shape, int))
