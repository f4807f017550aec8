"""Operands and outputs that are converted on the way: values, rounding, blocks of large arrays, and networks in steps."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]
NUMPY = (
    "bool",
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


# --- single conversions ----------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("dtype", [*NUMPY, BFLOAT16])
@pytest.mark.parametrize("result", [*NUMPY, BFLOAT16])
def test_values_convert_as_numpys_do(engine: td.CpuEngine, dtype: Any, result: Any) -> None:
    """Wrapping integers, truncation, halves rounded once; the same from strides of any kind and the other byte order."""
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.integers(-300, 300, 600) / 8, [0.1, 1 + 2**-11 + 2**-20, 2047.5]])
    kind = np.dtype(dtype).kind
    if kind in "ui":
        values = np.concatenate([values, [2**15 - 1, 2**16 - 1]]) if np.dtype(dtype).itemsize > 2 else values
        array = values.astype("int64").astype(dtype)
    else:
        array = values.astype(dtype)
    to = np.dtype(result)
    if to.kind in "ui" and kind in "fcV" and to.itemsize > 2 and to.kind == "u":
        # What a negative float is as an unsigned number, C leaves open.
        array = np.abs(array)
    with np.errstate(all="ignore"):
        expected = array.astype(to)
    one = np.ones((), dtype)
    apart = np.zeros(2 * len(array) + 1, dtype)[1::2]
    apart[...] = array
    ways = [array, array[::-1].copy()[::-1], apart]
    if np.dtype(dtype) != BFLOAT16:
        ways.append(array.astype(array.dtype.newbyteorder()))
    with np.errstate(all="raise"):
        for way in ways:
            value = engine.einsum("i,->i", way, one, dtype=to, casting="unsafe")
            assert value.dtype == to
            assert value.tobytes() == expected.tobytes() or (value == expected).all()


def test_operands_are_rounded_to_a_half_result_first(engine: td.CpuEngine) -> None:
    a = np.array([1 + 2.0**-12, 3.0])
    value = engine.einsum("i,i->", a, np.array([4096.0, 0.0]), dtype="float16", casting="unsafe")
    assert value == 4096
    assert engine.einsum("i->", np.full(4, 70000.0), dtype="float16", casting="unsafe") == np.inf


def test_a_lost_imaginary_part_is_announced_as_numpys(engine: td.CpuEngine) -> None:
    a = np.array([1 + 2j, 3])
    with pytest.warns(np.exceptions.ComplexWarning):
        assert engine.einsum("i->", a, dtype="float64", casting="unsafe") == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.einsum("i->", a, dtype=bool, casting="unsafe")


# --- blocks ----------------------------------------------------------------------------------------------------


LARGE = {
    "product": ("ij,jk->ik", [(1100, 700), (700, 1300)]),
    "transposed": ("ji,kj->ki", [(700, 1100), (1300, 700)]),
    "batch": ("bij,bjk->bik", [(20, 300, 150), (20, 150, 200)]),
    "stretched": ("...ij,...jk", [(1, 900, 500), (4, 500, 300)]),
    "matrix and vector": ("ij,j->i", [(3000, 1100), (1100,)]),
    "vector and matrix": ("i,ij->j", [(3000,), (3000, 1100)]),
    "dot": ("ij,ij->", [(1500, 1200), (1500, 1200)]),
    "diagonal": ("iij,jk->ik", [(160, 160, 90), (90, 50)]),
    "elementwise": ("abc,cba->bac", [(150, 110, 100), (100, 110, 150)]),
    "outer": ("ij,kl->ljki", [(40, 50), (50, 40)]),
    "sum": ("abc->b", [(120, 200, 90)]),
    "one label": ("i->", [(2_000_000,)]),
    "network": ("ij,jk,kl->il", [(1200, 1300), (1300, 30), (30, 800)]),
    "network with a hyperedge": ("aij,bj,aj->abi", [(4, 900, 600), (1300, 600), (4, 600)]),
    "network that stretches": ("ij,jk,kj->ik", [(1, 1400), (1400, 1200), (1200, 1400)]),
}


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize(
    "dtypes", [("float32", "float64"), ("float16", "float16"), ("int8", "complex64"), (">f8", "float64")]
)
def test_blocks_are_the_whole(engines: dict[int, td.CpuEngine], case: str, dtypes: tuple[str, str]) -> None:
    """Sparse small integers, whose sums are exact even in half precision; equal bits at every width."""
    text, shapes = LARGE[case]
    rng = np.random.default_rng(7)
    operands = [
        (rng.integers(1, 3, shape) * (rng.random(shape) < 0.01)).astype(dtypes[(at + (len(shapes) == 1)) % 2])
        for at, shape in enumerate(shapes)
    ]
    common = np.result_type(*(array.dtype.newbyteorder("=") for array in operands))
    wide = [array.astype(np.complex128 if common.kind == "c" else np.float64) for array in operands]
    exact = np.einsum(text, *wide, optimize=True)
    expected = exact.astype(common)
    assert np.isfinite(expected).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        bits = set()
        for width in (1, 3):
            value = engines[width].einsum(text, *operands)
            assert value.dtype == common
            assert np.array_equal(value, expected)
            bits.add(np.ascontiguousarray(value).tobytes())
        assert len(bits) == 1
        # Into an output that is read, of the result's dtype and of a wider one, in another order and byte order.
        for into in (common, np.dtype("complex128"), np.dtype("complex128").newbyteorder()):
            out = np.full(expected.shape[::-1], 3, into).T
            engines[2].einsum(text, *operands, out=out, alpha=2, beta=-1, dtype=common)
            assert np.array_equal(out, (2 * exact - 3).astype(into))


def test_what_lies_around_an_output_stays(engine: td.CpuEngine) -> None:
    a, b = np.ones((900, 800), "float32"), np.ones((800, 1000))
    around = np.full((902, 2004), np.nan)
    engine.matmul(a, b, out=around[1:-1, 2:-2:2])
    assert (around[1:-1, 2:-2:2] == 800).all()
    around[1:-1, 2:-2:2] = np.nan
    assert np.isnan(around).all()


def test_conjugated_blocks(engine: td.CpuEngine) -> None:
    rng = np.random.default_rng(1)
    a = (rng.integers(-2, 3, (900, 700)) + 1j * rng.integers(-2, 3, (900, 700))).astype("complex64")
    b = rng.integers(-2, 3, (900, 500)).astype("float64")
    expected = a.astype(complex).conj().T @ b
    assert (engine.gemm(a, b, trans_a="C") == expected).all()
    assert (engine.einsum("ki,kj->ij", a, b, conj=[True, False]) == expected).all()
    three = engine.einsum("ki,kj,j->ij", a, b, np.full(500, 2, "int8"), conj=[True, False, True])
    assert (three == 2 * expected).all()


def test_plans_convert_in_blocks_and_hold_constants(engine: td.CpuEngine) -> None:
    rng = np.random.default_rng(2)
    a = rng.integers(-2, 3, (900, 1100)).astype("float32")
    b = rng.integers(-2, 3, (1100, 800)).astype("float64")
    expected = a @ b
    plan = engine.plan("ij,jk->ik", a, b)
    assert (plan(a, b) == expected).all()
    held = engine.plan("ij,jk->ik", a, b, constants=[0])
    assert (held(b) == expected).all()
    out = np.full(expected.shape, 1.0)
    assert held(np.asfortranarray(b), out=out, beta=1, alpha=-1) is out
    assert (out == 1 - expected).all()
    shares = np.zeros((900, 800), "float64")
    with pytest.raises(td.AliasingError):
        engine.plan("ij,jk->ik", shares.view("float32")[:, :800], b[:800])(
            shares.view("float32")[:, :800], b[:800], out=shares
        )
    assert not shares.any()


# --- what numpy takes ------------------------------------------------------------------------------------------


def test_outputs_with_more_batch_axes_than_the_result(engine: td.CpuEngine, small: Make) -> None:
    a, b, v = small((2, 3), "float64", 1), small((3, 4), "float64", 2), small((3,), "float64", 3)
    for verb, operands, shape in (
        ("matmul", (a, b), (5, 2, 4)),
        ("matmul", (a[None], b), (5, 2, 4)),
        ("matmul", (v, b), (5, 4)),
        ("matmul", (v, v), (5,)),
        ("vecdot", (a, v), (5, 2)),
        ("matvec", (a, v), (2, 5, 2)),
        ("vecmat", (v, b), (1, 4)),
        ("matmul", (a.astype("float32"), b), (0, 2, 4)),
        ("outer", (v, v), (5, 3, 3)),
        ("outer", (v[:1], v), (4, 3)),
    ):
        out, expected = np.full(shape, np.nan), np.full(shape, np.nan)
        getattr(np, verb)(*operands, out=expected)
        assert getattr(engine, verb)(*operands, out=out) is out
        assert np.array_equal(out, expected), verb
    kept = np.full((5, 2, 1), np.nan)
    assert engine.vecdot(a, v, out=kept, keepdims=True) is kept
    assert (kept == (a @ v)[:, None]).all()
    for shape in ((1, 2, 4), (2, 4)):
        with pytest.raises(td.ShapeError):
            engine.matmul(np.stack([a] * 5), b, out=np.zeros(shape))


def test_sequences_of_any_kind(engine: td.CpuEngine) -> None:
    """As numpy's: an empty one has the dtype of the first operand in dot, inner and vdot."""
    assert engine.matmul(range(4), range(4)) == 14
    assert engine.einsum("i,i", collections.deque([1.0, 2.0]), range(2)) == 2
    three = np.arange(3, dtype="int32")
    for verb in ("dot", "inner"):
        for pair in ((2, []), ([], 2), (three[:0], []), (np.zeros((2, 0), "uint8"), []), ([], []), (2, range(0))):
            value, expected = getattr(engine, verb)(*pair), getattr(np, verb)(*pair)
            assert value.dtype == expected.dtype, (verb, pair)
            assert np.array_equal(value, expected)
    assert engine.vdot(three[:0], []).dtype == np.vdot(three[:0], []).dtype
    for text in ("ab", b"ab", bytearray(b"ab").decode()):
        with pytest.raises(td.DTypeError):
            engine.matmul(text, [1, 2])


def test_two_arrays_are_a_dot_for_multi_dot(engine: td.CpuEngine) -> None:
    for pair in ((2, 3), (np.ones(3), 2), (np.ones((2, 3, 3)), np.ones((3, 3))), ([1, 2], [3, 4])):
        expected = np.linalg.multi_dot(pair)
        assert np.array_equal(engine.multi_dot(pair), expected)
    with pytest.raises(np.linalg.LinAlgError):
        engine.multi_dot([np.eye(2), 2, np.eye(2)])


def test_flattened_operands_in_every_order(engine: td.CpuEngine, small: Make, lay_out: Make) -> None:
    for layout in ("C", "F", "reversed", "strided", "moved"):
        a, b = lay_out(small((2, 3, 4), "complex128", 1), layout), lay_out(small((2, 3, 4), "complex128", 2), layout)
        assert engine.vdot(a, b) == np.vdot(a, b)
        assert engine.vdot(a, b.reshape(4, 6)) == np.vdot(a, b.reshape(4, 6))
        assert (engine.outer(a, b[0]) == np.outer(a, b[0])).all()
        out = np.full((24, 12), np.nan + 0j)
        assert engine.outer(a, b[0], out=out) is out
        assert (out == np.outer(a, b[0])).all()
    assert engine.outer(2, 3).tolist() == [[6]]
    assert engine.outer([], 2).shape == (0, 1)


@pytest.mark.parametrize("name", ["subok", "keepdims", "order", "casting", "axes"])
def test_options_that_are_arrays_are_typed_errors(engine: td.CpuEngine, name: str) -> None:
    a = np.ones((2, 2))
    with pytest.raises((td.UnsupportedError, td.ArgumentError, td.AxisError)):
        engine.vecdot(a, a, **{name: np.array([1, 2])})
    if name not in ("keepdims",):
        with pytest.raises((td.UnsupportedError, td.ArgumentError, td.AxisError)):
            engine.matmul(a, a, **{name: np.array([1, 2])})
