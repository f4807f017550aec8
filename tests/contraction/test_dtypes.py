"""Dtypes: numpy's promotion for every pair, exact integers, half precision in float32, and refusals that say what is what."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

NUMPY = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    "float16",
    "float32",
    "float64",
)
DTYPES = (*NUMPY, "complex64", "complex128")
INTEGERS = NUMPY[1:9]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

Make = Callable[..., npt.NDArray[Any]]


# --- C-DTY-01: promotion ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", DTYPES)
def test_dty_01_numpys_promotion_table(engine: td.CpuEngine, small: Make, first: str) -> None:
    for second in DTYPES:
        a, b = small((3, 4), first, 1), small((4, 2), second, 2)
        expected = np.matmul(a, b)
        assert expected.dtype == np.result_type(first, second)
        for value in (
            engine.matmul(a, b),
            engine.einsum("ij,jk->ik", a, b),
            engine.einsum("ij,jk", a, b, route="reference"),
            engine.dot(a, b),
            engine.gemm(a, b),
            engine.tensordot(a, b, axes=1),
            engine.inner(a, b.T),
        ):
            assert value.dtype == expected.dtype, (first, second)
            assert (value == expected).all(), (first, second)
        for name in ("outer", "kron"):
            assert getattr(engine, name)(a, b).dtype == getattr(np, name)(a, b).dtype
        three = engine.einsum("ij,jk,k->i", a, b, small((2,), "uint8", 3))
        assert three.dtype == np.result_type(first, second, "uint8")


@pytest.mark.parametrize("dtype", DTYPES)
def test_dty_01_python_numbers_are_arrays_of_their_own(engine: td.CpuEngine, small: Make, dtype: str) -> None:
    """As in numpy's einsum, a Python number among the operands is a 0-d int64, float64 or complex128."""
    a = small((3,), dtype)
    for number in (2, 2.0, 2j, True):
        expected = np.einsum(",i->i", number, a)
        value = engine.einsum(",i->i", number, a)
        assert value.dtype == expected.dtype
        assert (value == expected).all()


def test_dty_01_large_integers_stay_exact(engine: td.CpuEngine) -> None:
    big = np.array([2**62 + 1, 1], "int64")
    for route in ("auto", "reference"):
        assert engine.einsum("i->", big, route=route) == 2**62 + 2
        assert engine.einsum("i,i->", big, np.ones(2, "int64"), route=route) == 2**62 + 2
        assert (engine.einsum("i,j->ij", big, np.ones(2, "int32"), route=route) == big[:, None]).all()
    assert engine.matmul(big, np.ones(2, "int8")) == 2**62 + 2
    assert engine.vdot(np.array([2**63 + 5], "uint64"), np.array([1], "uint8")) == 2**63 + 5
    assert engine.matmul(big.astype("uint64"), big).dtype == np.float64


# --- C-OUT-08: integers wrap -----------------------------------------------------------------------------------


def test_out_08_sums_wrap_unless_widened(engine: td.CpuEngine) -> None:
    values = np.full(100, 65535, "uint16")
    mask = np.zeros(100, bool)
    mask[::11][:9] = True
    assert mask.sum() == 9
    for route in ("auto", "reference"):
        narrow = engine.einsum("i,i->", values, mask, route=route)
        assert (narrow, narrow.dtype) == (65527, np.uint16)
        wide = engine.einsum("i,i->", values, mask, dtype="u8", route=route)
        assert (wide, wide.dtype) == (589815, np.uint64)
    assert engine.vdot(values, mask) == 65527


@pytest.mark.parametrize("dtype", INTEGERS)
def test_out_08_extremes_wrap_modulo_the_width(engine: td.CpuEngine, dtype: str) -> None:
    info = np.iinfo(dtype)
    rng = np.random.default_rng(8)
    pool = np.array([info.min, info.max, info.max - 1, 0, 1, 2, info.max // 3], dtype)
    bits = info.bits

    def wrapped(total: int) -> int:
        total %= 2**bits
        return total - 2**bits if info.min < 0 and total >= 2 ** (bits - 1) else total

    for m, k, n in ((1, 1, 1), (3, 5, 4), (7, 33, 9), (20, 64, 17)):
        a, b = rng.choice(pool, (m, k)), rng.choice(pool, (k, n))
        left, right = a.tolist(), b.tolist()
        expected = [
            [wrapped(math.sumprod(left[i], [row[j] for row in right]) if hasattr(math, "sumprod") else
                     sum(x * row[j] for x, row in zip(left[i], right, strict=True))) for j in range(n)]
            for i in range(m)
        ]  # fmt: skip
        for value in (
            engine.matmul(a, b),
            engine.matmul(np.asfortranarray(a), b[:, ::-1])[:, ::-1],
            engine.einsum("ij,jk->ik", a, b),
            engine.einsum("ij,jk->ik", a, b, route="reference"),
            engine.einsum("ij,jk,->ik", a, b, np.array(1, dtype), optimize=False),
        ):
            assert value.dtype == dtype
            assert value.tolist() == expected
        assert engine.einsum("ij->i", a).tolist() == [wrapped(sum(row)) for row in left]
        assert engine.einsum("ij,ij->ij", a, a).tolist() == [[wrapped(x * x) for x in row] for row in left]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 4), (40, 70, 30)])
def test_out_08_bool_is_or_and(engines: dict[int, td.CpuEngine], small: Make, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = small((m, k), bool, 1) & small((m, k), bool, 5), small((k, n), bool, 2) & small((k, n), bool, 6)
    expected = (a.astype(int) @ b) > 0
    for engine in engines.values():
        for value in (
            engine.matmul(a, b),
            engine.einsum("ij,jk->ik", a, b),
            engine.einsum("ij,jk", a, b, route="reference"),
        ):
            assert value.dtype == bool
            assert (value == expected).all()
            assert set(np.unique(value.view("uint8"))) <= {0, 1}
    engine = engines[1]
    assert (engine.einsum("ij->i", a) == a.any(axis=1)).all()
    assert (engine.einsum("ij,ij,ij->j", a, a, a) == a.any(axis=0)).all()
    assert (engine.einsum("ij,jk,kl->il", a, b, b.T) == ((expected.astype(int) @ b.T.astype(int)) > 0)).all()
    # dtype=bool of numbers is truth.
    numbers = np.array([0, 3, -2, 0.5])
    once = np.ones((), bool)
    assert engine.einsum("i,->i", numbers, once, dtype=bool, casting="unsafe").tolist() == [False, True, True, True]


def test_out_08_any_byte_but_zero_is_true(engine: td.CpuEngine) -> None:
    """Arrays of bool may hold other bytes (views of uint8); 0 or 1 comes out, as from numpy."""
    two, four = np.full((3, 3), 2, "uint8").view(bool), np.full((3, 3), 4, "uint8").view(bool)
    for a, b in ((two, two), (two, four)):
        for value in (engine.matmul(a, b), engine.einsum("ij,ij->ij", a, b), engine.einsum("ij,jk->i", a, b)):
            assert (value.view("uint8") == 1).all()
        assert engine.einsum("ij->i", a).view("uint8").tolist() == [1, 1, 1]


# --- C-OUT-06: half precision ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=str)
def test_out_06_half_precisions_accumulate_in_float32(engine: td.CpuEngine, small: Make, dtype: np.dtype[Any]) -> None:
    ones = np.ones(4096, dtype)
    assert engine.einsum("i,ji->", np.ones(2, dtype), np.eye(2, dtype=dtype)) == 2
    for value in (
        engine.einsum("i,i->", ones, ones),
        engine.einsum("i->", ones),
        engine.einsum("i,i,i->", ones, ones, ones),
        engine.matmul(ones, ones),
        engine.vdot(ones, ones),
        engine.dot(ones[None], ones)[0],
        engine.gemm(ones[None], ones[:, None])[0, 0],
        engine.multi_dot([ones[None], ones[:, None], np.ones((1, 1), dtype)])[0, 0],
    ):
        assert value == 4096
        assert value.dtype == dtype
    a, b = small((17, 200), "float32", 1).astype(dtype), small((200, 9), "float32", 2).astype(dtype)
    exact = a.astype("float64") @ b.astype("float64")
    for value in (
        engine.matmul(a, b),
        engine.einsum("ij,jk->ik", a, b),
        engine.einsum("ij,jk", a, b, route="reference"),
    ):
        assert value.dtype == dtype
        assert type(value) is np.ndarray
        assert (value == exact.astype(dtype)).all()
    # Intermediates are float32 as well: 300 * 300 is beyond float16 and is divided again.
    big = np.full((1, 1), 300, dtype)
    small_ = np.full((1, 1), 2.0**-9, dtype)
    assert engine.einsum("ij,jk,kl->il", big, big, small_, optimize=False) == np.float32(
        float(big[0, 0]) ** 2 * 2.0**-9
    ).astype(dtype)


@pytest.mark.parametrize("dtype", [np.dtype("float16"), BFLOAT16], ids=str)
def test_out_06_half_precision_out_beta_and_views(engine: td.CpuEngine, small: Make, dtype: np.dtype[Any]) -> None:
    a = small((3, 3), "float32").astype(dtype)
    wide = a.astype("float64")
    out = np.full((3, 3), 5, dtype)
    assert engine.gemm(a, a, out=out, beta=2, alpha=0.5) is out
    assert (out == (0.5 * (wide @ wide) + 10).astype(dtype)).all()
    view = engine.einsum("ij->ji", a)
    assert view.dtype == dtype
    assert np.shares_memory(view, a)
    assert (view == a.T).all()
    diagonal = engine.einsum("ii->i", a)
    assert np.shares_memory(diagonal, a)
    assert (diagonal == a.diagonal()).all()
    mixed = engine.matmul(a, np.ones((3, 2), "float32"))
    assert mixed.dtype == np.float32
    assert engine.einsum("ij->", a).dtype == dtype
    assert engine.einsum("ij,jk->ik", a, a, dtype="float64", casting="safe").dtype == np.float64
    with pytest.raises(td.DTypeError):
        engine.einsum("ij,jk->ik", a, a, dtype="float16" if dtype == BFLOAT16 else BFLOAT16)


def test_bfloat16_and_float16_have_no_common_dtype(engine: td.CpuEngine) -> None:
    a, b = np.ones((2, 2), BFLOAT16), np.ones((2, 2), "float16")
    try:
        expected = np.result_type(BFLOAT16, "float16")
    except TypeError:
        with pytest.raises(td.DTypeError, match="no common dtype"):
            engine.matmul(a, b)
    else:
        assert engine.matmul(a, b).dtype == expected


# --- dtype= and casting= ---------------------------------------------------------------------------------------


def test_dtype_and_casting(engine: td.CpuEngine) -> None:
    a = np.array([[1.5, 2.5], [3.5, -4.5]])
    assert engine.einsum("ij,jk->ik", a, a, dtype="complex64", casting="same_kind").dtype == np.complex64
    assert engine.einsum("ij,jk->ik", a, a, dtype="float32", casting="same_kind").dtype == np.float32
    whole = engine.einsum("ij,jk->ik", a, a, dtype="int64", casting="unsafe")
    assert (whole == a.astype(int) @ a.astype(int)).all(), "operands are converted first, as numpy's are"
    assert engine.matmul(a, a, dtype="float32").dtype == np.float32
    assert engine.matmul(a.astype("int8"), a.astype("int8"), dtype="int64").dtype == np.int64
    for dtype, casting in (("float32", "safe"), ("int64", "same_kind"), ("complex128", "no"), ("float32", "equiv")):
        with pytest.raises(td.DTypeError, match=casting) as caught:
            engine.einsum("ij,jk->ik", a, a, dtype=dtype, casting=casting)
        assert (caught.value.actual, caught.value.expected, caught.value.operand) == ("float64", dtype, 0)
    for casting in ("blah", 3, ""):
        with pytest.raises(td.ArgumentError, match="'no', 'equiv', 'safe', 'same_kind', 'unsafe'"):
            engine.einsum("ij->ji", a, casting=casting)
    for order in ("W", "", 1):
        with pytest.raises(td.ArgumentError, match="'K', 'C', 'F', 'A'"):
            engine.einsum("ij->ji", a, order=order)
    for dtype in ("bad", "O", "S3", "M8[s]", "longdouble", [("x", "f8")], object()):
        with pytest.raises(td.DTypeError):
            engine.einsum("ij->ji", a, dtype=dtype, casting="unsafe")


def test_order_of_a_new_result(engine: td.CpuEngine) -> None:
    a, b = np.ones((2, 3, 5), order="F"), np.ones((4, 3), order="F")
    c = np.ones((4, 3))
    for optimize in (True, False, "optimal"):
        for order in ("C", "c"):
            assert engine.einsum("...ft,mf->...mt", a, b, order=order, optimize=optimize).flags.c_contiguous
        assert engine.einsum("...ft,mf->...mt", a, b, order="F", optimize=optimize).flags.f_contiguous
        assert engine.einsum("...ft,mf->...mt", a, b, order="A", optimize=optimize).flags.f_contiguous
        assert engine.einsum("...ft,mf->...mt", a, c, order="A", optimize=optimize).flags.c_contiguous
    for order in "CF":
        assert engine.matmul(np.ones((3, 4)), np.ones((4, 5)), order=order).flags[f"{order}_CONTIGUOUS"]
        assert engine.matmul(np.ones((2, 3, 4)), np.ones((4, 5)), order=order).flags[f"{order}_CONTIGUOUS"]


# --- C-DTY-02 and C-DTY-04: refusals ---------------------------------------------------------------------------

REFUSED = {
    "object": np.ones((2, 2), object),
    "<U1": np.full((2, 2), "a"),
    "|S1": np.full((2, 2), b"a"),
    "datetime64": np.zeros((2, 2), "M8[s]"),
    "timedelta64": np.zeros((2, 2), "m8[s]"),
    "void": np.zeros((2, 2), "V4"),
    "structured": np.zeros((2, 2), [("x", "f8"), ("y", "i4")]),
    "longdouble": np.ones((2, 2), "longdouble"),
    "clongdouble": np.ones((2, 2), "clongdouble"),
    "float8": np.ones((2, 2), ml_dtypes.float8_e4m3fn),
    "int4": np.ones((2, 2), ml_dtypes.int4),
}
if hasattr(np.dtypes, "StringDType"):
    REFUSED["StringDType"] = np.full((2, 2), "a", np.dtypes.StringDType())
NATIVE_LONG = np.dtype("longdouble").itemsize == 8

CALLS: dict[str, Callable[[td.CpuEngine, Any, Any], Any]] = {
    "einsum": lambda e, a, b: e.einsum("ij,jk->ik", a, b),
    "einsum_path": lambda e, a, b: e.einsum_path("ij,jk->ik", a, b),
    "matmul": lambda e, a, b: e.matmul(a, b),
    "dot": lambda e, a, b: e.dot(a, b),
    "vdot": lambda e, a, b: e.vdot(a, b),
    "vecdot": lambda e, a, b: e.vecdot(a, b),
    "matvec": lambda e, a, b: e.matvec(a, b),
    "vecmat": lambda e, a, b: e.vecmat(a, b),
    "inner": lambda e, a, b: e.inner(a, b),
    "outer": lambda e, a, b: e.outer(a, b),
    "kron": lambda e, a, b: e.kron(a, b),
    "tensordot": lambda e, a, b: e.tensordot(a, b, axes=1),
    "gemm": lambda e, a, b: e.gemm(a, b),
    "multi_dot": lambda e, a, b: e.multi_dot([a, b]),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("name", CALLS)
def test_dty_04_a_dtype_that_is_not_taken_is_refused(engine: td.CpuEngine, kind: str, name: str) -> None:
    bad, good = REFUSED[kind], np.ones((2, 2))
    if NATIVE_LONG and "long" in kind:
        pytest.skip("long double is double here")
    for operand, arrays in enumerate(((bad, good), (good, bad))):
        with pytest.raises(td.DTypeError) as caught:
            CALLS[name](engine, *arrays)
        error = caught.value
        assert isinstance(error, TypeError)
        assert error.operand == operand
        assert error.actual == bad.dtype.name
        assert error.expected is not None
        assert "float64" in error.expected
        assert bad.dtype.name in str(error)
        assert "float64" in str(error)
        assert str(error).startswith(f"{name}: operand {operand}")
        # The one who asks is named before the one who is asked.
        assert str(error).index(bad.dtype.name) < str(error).index("complex64")
    with pytest.raises(td.DTypeError):
        CALLS[name](engine, bad, bad)
    with pytest.raises(td.DTypeError):
        CALLS[name](engine, bad.tolist() if kind in ("<U1", "|S1") else bad, bad)


@pytest.mark.parametrize("kind", REFUSED)
def test_dty_02_one_two_and_three_operands(engine: td.CpuEngine, kind: str) -> None:
    bad, good = REFUSED[kind], np.ones((2, 2))
    if NATIVE_LONG and "long" in kind:
        pytest.skip("long double is double here")
    for position, (subscripts, arrays) in itertools.product(
        range(1),
        (("ij->ji", [bad]), ("ij,jk->ik", [bad, bad]), ("ij,jk,kl->il", [bad, good, good]), ("ii->", [bad])),
    ):
        with pytest.raises(td.DTypeError) as caught:
            engine.einsum(subscripts, *arrays)
        assert (caught.value.operand, caught.value.actual) == (position, bad.dtype.name)
    with pytest.raises(td.DTypeError) as caught:
        engine.einsum("ij,jk,kl->il", good, good, bad)
    assert caught.value.operand == 2


@pytest.mark.parametrize("dtype", ["bool", *INTEGERS])
def test_dty_02_integers_and_bool_with_one_two_and_three_operands(
    engine: td.CpuEngine, small: Make, dtype: str
) -> None:
    arrays = [small(shape, dtype, seed) for seed, shape in enumerate([(3, 3), (3, 4), (4, 2)])]
    for subscripts in ("ij->i", "ii->", "ij->ji", "ij,jk->ik", "ij,jk->", "ij,jk,kl->il", "ij,jk,kl->lj"):
        count = subscripts.count(",") + 1
        expected = np.einsum(subscripts, *arrays[:count])
        for route in ("auto", "reference"):
            for _ in range(2):
                value = engine.einsum(subscripts, *arrays[:count], route=route)
                assert value.dtype == expected.dtype
                assert (value == expected).all()


def test_dty_04_subclasses_come_out_plain(engine: td.CpuEngine) -> None:
    class Named(np.ndarray):
        pass

    plain = np.arange(4.0).reshape(2, 2)
    for array in (plain.view(np.matrix), plain.view(Named)):
        for name, call in CALLS.items():
            if name == "einsum_path":
                continue
            value = call(engine, array, array)
            assert type(value) in (np.ndarray, np.float64), name
            assert (value == np.asarray(call(engine, plain, plain))).all(), name
        out = np.zeros((2, 2)).view(type(array))
        assert engine.matmul(plain, plain, out=out) is out
        assert (np.asarray(out) == plain @ plain).all()
    record = np.rec.array([(1.0, 2)], dtype=[("x", "f8"), ("y", "i8")])
    assert engine.einsum("i->", record.x) == 1


def test_dty_04_masked_arrays_are_refused(engine: td.CpuEngine) -> None:
    masked = np.ma.array([[1.0, 2.0], [3.0, 4.0]], mask=[[True, False], [False, False]])
    for name, call in CALLS.items():
        for arrays in ((masked, np.eye(2)), (np.eye(2), masked)):
            with pytest.raises(td.DTypeError, match=r"MaskedArray.*\.filled"):
                call(engine, *arrays)
        assert engine.state == "open", name


@pytest.mark.parametrize("subscripts", ["->", "", "...->...", "..."])
@pytest.mark.parametrize("options", [{}, {"order": "F"}])
def test_a_view_without_axes_is_a_scalar(engine: td.CpuEngine, subscripts: str, options: dict[str, str]) -> None:
    for dtype in ("?", "b", "e", "f", "d", "D"):
        result = engine.einsum(subscripts, np.array(1, dtype), **options)
        assert type(result) is np.dtype(dtype).type


# --- C-DTY-03: empty arrays keep their dtype, NaN passes through -----------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, BFLOAT16])
def test_dty_03_empty_operands_keep_their_dtype(engine: td.CpuEngine, dtype: Any) -> None:
    nothing, square = np.zeros((0, 3), dtype), np.zeros((0, 0, 2), dtype)
    for value, shape in (
        (engine.einsum("ij->ji", nothing), (3, 0)),
        (engine.einsum("iij->ji", square), (2, 0)),
        (engine.einsum("ij->i", nothing), (0,)),
        (engine.einsum("ij->j", nothing), (3,)),
        (engine.matmul(nothing.T, nothing), (3, 3)),
        (engine.outer(nothing, nothing), (0, 0)),
        (engine.tensordot(nothing, nothing, axes=0), (0, 3, 0, 3)),
    ):
        assert value.shape == shape
        assert value.dtype == dtype
        assert not value.any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128", BFLOAT16])
def test_dty_03_nan_passes_through(engine: td.CpuEngine, dtype: Any) -> None:
    a = np.array([[1, np.nan], [2, 3]]).astype(dtype)
    for other in (a, a.astype("complex128" if np.dtype(dtype).kind == "c" else "float64")):
        assert np.isnan(engine.matmul(a, other).astype(complex)).tolist() == [[True, True], [False, True]]
        assert np.isnan(complex(engine.einsum("ij,ij->", a, other)))
