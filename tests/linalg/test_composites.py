"""What is built from factorisations: numpy's and scipy's results, identities that define them, and refusals."""

from __future__ import annotations

import decimal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

pytestmark = pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")


@pytest.fixture(params=[1, 2])
def linalg(request: Any) -> Iterator[Any]:
    with td.CpuEngine(request.param) as engine:
        yield engine.linalg


@pytest.fixture
def serial() -> Iterator[Any]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


def eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def normal(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def integers(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


def close(ours: Any, theirs: Any, tolerance: float) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    scale = max(float(np.max(np.abs(theirs[np.isfinite(theirs)]), initial=0)), 1.0)
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=tolerance)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


# --- norms -------------------------------------------------------------------------------------------------------

MATRIX_ORDERS = [None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf]
VECTOR_ORDERS = [None, 0, 1, 2, 3, 0.5, -1, -2, np.inf, -np.inf]


@pytest.mark.parametrize("dtype", [*DTYPES, np.float16, int, bool])
def test_norms_are_numpys(linalg: Any, dtype: Any) -> None:
    tolerance = 200 * (eps(dtype) if np.dtype(dtype).kind in "fc" else eps(float))
    for shape in ((4, 4), (3, 5, 2), (2, 3, 4, 4)):
        x = (
            normal(shape, complex).astype(dtype)
            if np.dtype(dtype).kind == "c"
            else (4 * normal(shape, float)).astype(dtype)
        )
        close(linalg.norm(x), np.linalg.norm(x), tolerance)
        close(linalg.norm(x.T[::-1]), np.linalg.norm(x.T[::-1]), tolerance)
        close(linalg.norm(x, keepdims=True), np.linalg.norm(x, keepdims=True), tolerance)
        for order in VECTOR_ORDERS:
            if order in (-1, -2) and (x == 0).any():
                continue
            for axis in (0, -1):
                for keepdims in (False, True):
                    with np.errstate(all="ignore"):
                        close(
                            linalg.norm(x, order, axis, keepdims), np.linalg.norm(x, order, axis, keepdims), tolerance
                        )
            if order is not None:
                axis = (0, 1)
                close(linalg.vector_norm(x, ord=order), np.linalg.vector_norm(x, ord=order), tolerance)
                ours = linalg.vector_norm(x, ord=order, axis=axis, keepdims=True)
                close(ours, np.linalg.vector_norm(x, ord=order, axis=axis, keepdims=True), tolerance)
        if dtype is np.float16:
            continue
        for order in MATRIX_ORDERS:
            for axis in ((-2, -1), (1, 0), (0, -1)):
                close(linalg.norm(x, order, axis), np.linalg.norm(x, order, axis), tolerance)
            close(linalg.norm(x, order, (0, 1), True), np.linalg.norm(x, order, (0, 1), True), tolerance)
            if order is not None:
                close(linalg.matrix_norm(x, ord=order), np.linalg.matrix_norm(x, ord=order), tolerance)


def test_norms_do_not_leave_the_range(serial: Any) -> None:
    for scale in (1e300, 1e-300, 5e-324, 1e200, 1e-200):
        x = np.array([3.0, 4.0]) * scale
        expected = 5 * scale if scale > 1e-320 else np.hypot(*x)
        assert serial.norm(x) == pytest.approx(expected, rel=4e-16)
        assert serial.norm(np.array([[3.0], [4.0]]) * scale, axis=0)[0] == pytest.approx(expected, rel=4e-16)
        assert serial.matrix_norm(np.diag(x)) == pytest.approx(expected, rel=4e-16)
        assert serial.norm(1j * x) == pytest.approx(expected, rel=4e-16)
    x = np.array([3e30, 4e30], np.float32)
    assert serial.norm(x) == np.float32(5e30)
    mixed = np.array([[3.0, 4.0], [3e300, 4e300], [0.0, 0.0]])
    assert serial.norm(mixed, axis=1).tolist() == pytest.approx([5, 5e300, 0])


def test_norms_refuse_what_is_not_finite_unless_told(serial: Any) -> None:
    for order in (None, 0, 1, 3, np.inf, -np.inf):
        for bad in (np.nan, np.inf):
            x = np.array([[1.0, 2.0], [3.0, bad]])
            with pytest.raises(td.NonFiniteError) as caught:
                serial.norm(x, order, axis=1)
            assert caught.value.index == 1
            with np.errstate(all="ignore"):
                want = np.linalg.norm(x, order, axis=1)
            np.testing.assert_array_equal(serial.norm(x, order, axis=1, check_finite=False), want)
    with pytest.raises(td.NonFiniteError) as caught:
        serial.norm(np.array([np.nan]))
    assert caught.value.operation == "norm"
    assert serial.norm(np.array([1.0, -np.inf]), check_finite=False) == np.inf
    assert np.isnan(serial.norm(np.array([1.0, np.nan]), check_finite=False))


def test_norms_of_nothing_and_refused_orders(serial: Any) -> None:
    assert serial.norm(np.zeros(0)) == 0
    assert serial.norm(np.zeros((2, 0)), axis=1).tolist() == [0, 0]
    for order in (1, np.inf, 2, "fro", "nuc"):
        assert serial.matrix_norm(np.zeros((3, 0, 2)), ord=order).tolist() == [0, 0, 0]
    for order, shape in ((-1, (2, 0)), (-2, (0, 2)), (-np.inf, (0, 2))):
        with pytest.raises(td.ArgumentError):
            serial.matrix_norm(np.zeros(shape), ord=order)
    with pytest.raises(td.ArgumentError, match="'fro'"):
        serial.norm(np.eye(2), "frob")
    with pytest.raises(td.ArgumentError):
        serial.norm(np.ones(2), "fro")
    with pytest.raises(td.ArgumentError, match="axis="):
        serial.norm(np.ones((2, 2, 2)), 2)
    with pytest.raises(td.AxisError):
        serial.norm(np.eye(2), axis=2)
    with pytest.raises(td.AxisError):
        serial.norm(np.eye(2), axis=(1, 1))
    with pytest.raises(TypeError):
        serial.norm(np.eye(2), axis="rows")


# --- conditioning ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_cond_and_rank_are_numpys(linalg: Any, dtype: Any) -> None:
    for shape in ((4, 4), (3, 5, 5), (2, 3, 4, 2)):
        x = normal(shape, dtype)
        np.testing.assert_array_equal(linalg.matrix_rank(x), np.linalg.matrix_rank(x))
        for p in [None, 2, -2, *([1, -1, "fro", "nuc", np.inf, -np.inf] if shape[-1] == shape[-2] else [])]:
            close(linalg.cond(x, p), np.linalg.cond(x, p), 2e4 * eps(dtype))
    ones = np.ones((2, 3, 3), dtype)
    ones[1] = 0
    assert linalg.matrix_rank(ones).tolist() == [1, 0]
    assert linalg.matrix_rank(np.diag([1, 1e-3]).astype(dtype), rtol=[1e-2, 1e-4]).tolist() == [1, 2]
    assert linalg.matrix_rank(np.diag([1, 1e-3]).astype(dtype), tol=1e-2) == 1
    assert linalg.matrix_rank(np.diag([1, -2, 0]).astype(dtype), hermitian=True) == 2
    assert (linalg.matrix_rank(np.zeros(3, dtype)), linalg.matrix_rank(np.array([0, 2], dtype))) == (0, 1)
    for p in (None, 1, -1, "fro", np.inf):
        found = linalg.cond(np.stack([np.eye(2), [[1, 2], [2, 4]], np.diag([1, 0])]).astype(dtype), p)
        assert found[0] == pytest.approx(2 if p == "fro" else 1)
        assert found[1] > 0.1 / eps(dtype)
        assert found[2] == np.inf
    with pytest.raises(td.MatrixShapeError, match="empty"):
        linalg.cond(np.zeros((0, 0), dtype))
    with pytest.raises(td.MatrixShapeError):
        linalg.cond(np.ones((2, 3), dtype), 1)
    with pytest.raises(td.ArgumentError):
        linalg.matrix_rank(np.eye(2, dtype=dtype), tol=1, rtol=1)


# --- least squares -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lin_15_the_identities_of_moore_and_penrose(linalg: Any, dtype: Any) -> None:
    """C-LIN-15: full rank, rank one and zero, of every shape."""
    for m, n in ((5, 7), (7, 5), (6, 7), (1, 4), (33, 20), (4, 4), (3, 0), (0, 2)):
        full = normal((m, n), dtype)
        one = np.outer(normal((m,), dtype), normal((n,), dtype)).astype(dtype)
        for a in (full, one, np.zeros((m, n), dtype), np.asfortranarray(full), full[::-1, ::-1]):
            p = linalg.pinv(a)
            assert p.shape == (n, m)
            assert p.dtype == dtype
            size = max(m, n, 1)
            bound = 60 * size * eps(dtype) * max(np.linalg.norm(a) * np.linalg.norm(p), 1)
            assert np.linalg.norm(a @ p @ a - a) <= bound * np.linalg.norm(a)
            assert np.linalg.norm(p @ a @ p - p) <= bound * np.linalg.norm(p)
            assert np.linalg.norm(adjoint(a @ p) - a @ p) <= bound
            assert np.linalg.norm(adjoint(p @ a) - p @ a) <= bound


def test_pinv_takes_numpys_options(serial: Any) -> None:
    a = np.diag([1.0, 1e-3, 1e-20])
    assert np.diag(serial.pinv(a)).tolist() == pytest.approx([1, 1e3, 0])
    assert np.diag(serial.pinv(a, 1e-2)).tolist() == pytest.approx([1, 0, 0])
    assert np.diag(serial.pinv(a, rtol=1e-2)).tolist() == pytest.approx([1, 0, 0])
    assert np.diag(serial.pinv(a, rtol=None)).tolist() == pytest.approx([1, 1e3, 0])
    batch = serial.pinv(np.stack([a, a]), rtol=np.array([1e-2, 1e-30]))
    assert np.diag(batch[1]).tolist() == pytest.approx([1, 1e3, 1e20])
    symmetric = np.array([[2.0, 7.0], [1.0, -3.0]])
    lower = np.array([[2.0, 1.0], [1.0, -3.0]])
    np.testing.assert_allclose(serial.pinv(symmetric, hermitian=True), np.linalg.inv(lower), atol=1e-15)
    with pytest.raises(td.ArgumentError):
        serial.pinv(a, 1e-2, rtol=1e-2)
    with pytest.raises(td.MatrixShapeError) as caught:
        serial.pinv(np.ones(3))
    assert caught.value.operation == "pinv"


@pytest.mark.parametrize("dtype", DTYPES)
def test_lstsq_of_tall_wide_and_deficient_matrices(linalg: Any, dtype: Any) -> None:
    for m, n in ((7, 4), (4, 7), (5, 5), (30, 20), (1, 3), (3, 1)):
        for rank in {min(m, n), max(1, min(m, n) - 1), 1}:
            a = (normal((m, rank), dtype) @ normal((rank, n), dtype, 1)).astype(dtype)
            for b in (normal((m, 3), dtype), normal((m,), dtype)):
                x, residuals, found, s = linalg.lstsq(a, b)
                want = np.linalg.lstsq(a.astype(complex), b.astype(complex), rcond=max(m, n) * eps(dtype))
                assert found == want[2] == rank
                norm = np.linalg.norm(b) / max(s[rank - 1], 1e-30) * s[0] / s[rank - 1]
                assert np.linalg.norm(x - want[0]) <= 200 * eps(dtype) * max(m, n) * norm
                close(s, want[3].astype(s.dtype), 60 * max(m, n) * eps(dtype))
                assert residuals.shape == want[1].shape
                close(residuals, want[1].astype(s.dtype), 1e3 * max(m, n) * eps(dtype))
                assert (x.dtype, residuals.dtype, s.dtype) == (dtype, a.real.dtype, a.real.dtype)


def test_lstsq_of_batches_and_its_refusals(linalg: Any) -> None:
    a, b = normal((2, 1, 6, 3), float), normal((4, 6, 2), float)
    x, residuals, rank, s = linalg.lstsq(a, b)
    assert (x.shape, residuals.shape, rank.shape, s.shape) == ((2, 4, 3, 2), (2, 4, 2), (2, 1), (2, 1, 3))
    for i in range(2):
        for j in range(4):
            want = np.linalg.lstsq(a[i, 0], b[j])
            np.testing.assert_allclose(x[i, j], want[0], atol=1e-13)
            np.testing.assert_allclose(residuals[i, j], want[1], rtol=1e-12)
    vector = linalg.lstsq(a, np.ones(6))
    assert (vector[0].shape, vector[1].shape) == ((2, 1, 3), (2, 1, 1))
    for m, n in ((0, 3), (3, 0), (0, 0)):
        x, residuals, rank, s = linalg.lstsq(np.ones((m, n)), np.ones((m, 2)))
        assert x.tolist() == [[0, 0]] * n
        assert rank == 0
        assert s.shape == (0,)
        assert residuals.tolist() == ([3, 3] if n == 0 and m else [])
    assert linalg.lstsq(np.ones((3, 2)), np.ones((3, 0)))[0].shape == (2, 0)
    assert linalg.lstsq(np.ones((3, 2), np.float32), np.ones(3))[0].dtype == np.float64
    with pytest.raises(td.MatrixShapeError, match="4 rows"):
        linalg.lstsq(np.ones((3, 2)), np.ones(4))
    with pytest.raises(td.BroadcastError):
        linalg.lstsq(np.ones((2, 3, 2)), np.ones((3, 3, 2)))
    bad = np.ones((3, 3, 2))
    bad[2, 0, 0] = np.inf
    with pytest.raises(td.NonFiniteError) as caught:
        linalg.lstsq(bad, np.ones(3))
    assert (caught.value.index, caught.value.operand, caught.value.operation) == (2, 0, "lstsq")
    with pytest.raises(td.NonFiniteError) as caught:
        linalg.lstsq(np.ones((3, 3, 2)), bad)
    assert (caught.value.index, caught.value.operand) == (2, 1)


# --- powers and tensors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [*DTYPES, int, np.int8, np.uint16, bool])
def test_powers_are_exact(linalg: Any, dtype: Any) -> None:
    a = integers((2, 3, 3), dtype)
    for n in (0, 1, 2, 3, 5, 8):
        ours, theirs = linalg.matrix_power(a, n), np.linalg.matrix_power(a, n)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
        assert not np.shares_memory(ours, a)
    shear = np.array([[1, 1], [0, 1]]).astype(dtype)
    if np.dtype(dtype).kind != "b":
        assert linalg.matrix_power(shear, -3).tolist() == [[1, -3], [0, 1]]


def test_powers_refuse(serial: Any) -> None:
    with pytest.raises(TypeError):
        serial.matrix_power(np.eye(2), 1.5)
    with pytest.raises(td.MatrixShapeError):
        serial.matrix_power(np.ones((2, 3)), 2)
    with pytest.raises(td.SingularMatrixError) as caught:
        serial.matrix_power(np.stack([np.eye(2), np.ones((2, 2))]), -1)
    assert (caught.value.index, caught.value.operation) == (1, "matrix_power")
    with pytest.raises(td.NonFiniteError):
        serial.matrix_power(np.array([[np.nan]]), 2)


def test_tensor_equations(linalg: Any) -> None:
    a = np.eye(24).reshape(6, 4, 2, 3, 4) + 0.1 * normal((6, 4, 2, 3, 4), float)
    b = normal((6, 4), float)
    x = linalg.tensorsolve(a, b)
    np.testing.assert_allclose(np.tensordot(a, x, 3), b, atol=1e-13)
    np.testing.assert_allclose(linalg.tensorinv(a, 2), np.linalg.tensorinv(a, 2), atol=1e-13)
    moved = np.moveaxis(a, 3, 0)
    close(linalg.tensorsolve(moved, b, axes=(0,)), np.linalg.tensorsolve(moved, b, axes=(0,)), 1e-12)
    with pytest.raises(td.MatrixShapeError):
        linalg.tensorsolve(np.ones((2, 3, 4)), np.ones((2, 3)))
    with pytest.raises(td.MatrixShapeError):
        linalg.tensorinv(np.ones((2, 3, 4)))
    for ind in (0, -2):
        with pytest.raises(ValueError, match="from 1 on"):
            linalg.tensorinv(np.eye(4).reshape(2, 2, 4), ind)


# --- subspaces ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_subspaces_and_polar_factors(linalg: Any, dtype: Any) -> None:
    for m, n, rank in ((6, 4, 2), (4, 6, 4), (5, 5, 3), (5, 5, 5), (30, 40, 7)):
        a = (normal((2, m, rank), dtype) @ normal((2, rank, n), dtype, 1)).astype(dtype)
        bound = 60 * max(m, n) * eps(dtype)
        null, span = linalg.null_space(a, rcond=100 * bound), linalg.orth(a, rcond=100 * bound)
        assert null.shape == (2, n, n - rank)
        assert span.shape == (2, m, rank)
        assert null.dtype == span.dtype == dtype
        for item in range(2):
            assert np.linalg.norm(a[item] @ null[item]) <= bound * np.linalg.norm(a[item])
            for q in (null[item], span[item]):
                assert np.linalg.norm(adjoint(q) @ q - np.eye(q.shape[1])) <= bound
            assert np.linalg.norm(span[item] @ (adjoint(span[item]) @ a[item]) - a[item]) <= bound * np.linalg.norm(
                a[item]
            )
        for side in ("right", "left"):
            u, p = linalg.polar(a, side)
            size = n if side == "right" else m
            assert u.shape == a.shape
            assert p.shape == (2, size, size)
            rebuilt = u @ p if side == "right" else p @ u
            assert np.linalg.norm(rebuilt - a) <= bound * np.linalg.norm(a)
            assert np.linalg.norm(p - adjoint(p)) <= bound * np.linalg.norm(p)
            assert np.linalg.eigvalsh(p).min() >= -bound * np.linalg.norm(p)


def test_ranks_of_matrices_whose_norm_is_beyond_the_range(serial: Any) -> None:
    a = np.full((3, 3), 1.7e308)
    assert serial.matrix_rank(a) == 1
    assert serial.orth(a).shape == (3, 1)
    assert serial.null_space(a).shape == (3, 2)


def test_ranks_that_differ_are_refused(serial: Any) -> None:
    a = np.stack([np.eye(3), np.eye(3), np.diag([1.0, 0.0, 0.0])])
    for name in ("null_space", "orth"):
        with pytest.raises(td.MatrixShapeError, match="item 2 has rank 1"):
            getattr(serial, name)(a)
    with pytest.raises(td.ArgumentError, match="'right' and 'left'"):
        serial.polar(np.eye(2), "up")
    assert serial.null_space(np.zeros((0, 3, 2))).shape[0] == 0


# --- the exponential ---------------------------------------------------------------------------------------------


def exponential(a: np.ndarray) -> np.ndarray:
    """The exponential of a real matrix, by its series and 20 squarings in 70 digits."""
    n = len(a)
    with decimal.localcontext(decimal.Context(prec=70)):
        scaled = np.array([[decimal.Decimal(float(x)) / 2**20 for x in row] for row in a])
        total = np.array([[decimal.Decimal(int(i == j)) for j in range(n)] for i in range(n)])
        term = total
        for k in range(1, 30):
            term = term @ scaled / k
            total = total + term
        for _ in range(20):
            total = total @ total
    return total.astype(float)


def test_expm_to_rounding(linalg: Any) -> None:
    rng = np.random.default_rng(8)
    for n in (2, 3, 4):
        for scale in (1e-3, 0.02, 0.2, 1, 3, 8, 30):
            x = scale * rng.standard_normal((n, n))
            for a in (x, np.triu(x), np.tril(x)):
                want = exponential(a)
                bound = 20 * eps(float) * max(np.linalg.norm(a, 1), 1) * np.linalg.norm(want)
                assert np.linalg.norm(linalg.expm(a) - want) <= bound, (n, scale)
                single = linalg.expm(a.astype(np.float32))
                want = exponential(a.astype(np.float32))
                if np.max(np.abs(want)) < 1e30:
                    bound = 40 * eps(np.float32) * max(np.linalg.norm(a, 1), 1) * np.linalg.norm(want)
                    assert np.linalg.norm(single - want) <= bound, (n, scale)


@pytest.mark.parametrize("dtype", DTYPES)
def test_expm_is_scipys(linalg: Any, dtype: Any) -> None:
    """To the rounding of scipy's, which is a few hundred times that of ours."""
    wide = complex if np.dtype(dtype).kind == "c" else float
    for n in (1, 2, 3, 7, 20, 65):
        for scale in (0, 1e-8, 1e-3, 0.1, 0.5, 1, 2, 5, 20):
            x = normal((n, n), dtype) * np.asarray(scale / n**0.5, np.float32)
            for a in (x, np.triu(x), np.tril(x), x - adjoint(x), np.diag(np.diag(x))):
                want = scipy.linalg.expm(a.astype(wide))
                got = linalg.expm(a)
                assert got.dtype == dtype
                norm = max(np.linalg.norm(a.astype(wide), 1), 1)
                bound = (60 * n * eps(dtype) + 1000 * eps(float)) * norm
                assert np.linalg.norm(got - want) <= bound * np.linalg.norm(want), (n, scale)


def test_expm_of_known_matrices(serial: Any) -> None:
    np.testing.assert_array_equal(serial.expm(np.zeros((3, 3))), np.eye(3))
    assert serial.expm(np.array([[1.0]])) == np.exp(1.0)
    angle = 30.0
    rotation = serial.expm(np.array([[0.0, -angle], [angle, 0.0]]))
    np.testing.assert_allclose(rotation, [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]], atol=1e-13)
    nilpotent = np.triu(np.ones((4, 4)), 1)
    exact = sum(np.linalg.matrix_power(nilpotent, k) / np.prod(range(1, k + 1)) for k in range(4))
    np.testing.assert_allclose(serial.expm(nilpotent), exact, rtol=1e-15)
    # Al-Mohy and Higham's example of overscaling: the norm is 1e6, and the powers vanish.
    far = np.array([[1.0, 1e6], [0.0, -1.0]])
    np.testing.assert_allclose(serial.expm(far), [[np.e, 1e6 * np.sinh(1)], [0, 1 / np.e]], rtol=1e-15)
    # Moler and Van Loan's example, where the series loses every digit.
    hard = np.array([[-49.0, 24.0], [-64.0, 31.0]])
    expected = [[-0.735758758144755, 0.551819099658100], [-1.471517599088267, 1.103638240715576]]
    np.testing.assert_allclose(serial.expm(hard), expected, rtol=1e-12)
    assert serial.expm(np.eye(2, dtype=int)).dtype == np.float64


def test_expm_of_an_item_does_not_depend_on_its_batch(serial: Any) -> None:
    stack = normal((5, 8, 8), float) * np.array([1e-4, 0.1, 1, 6, 60])[:, None, None]
    stack[2] = np.triu(stack[2])
    whole = serial.expm(stack.reshape(1, 5, 8, 8))[0]
    for item in range(5):
        assert serial.expm(stack[item]).tobytes() == whole[item].tobytes()
    with pytest.raises(td.NonFiniteError) as caught:
        serial.expm(np.where(np.arange(5)[:, None, None] == 3, np.nan, stack))
    assert caught.value.index == 3
    unchecked = serial.expm(np.where(np.arange(5)[:, None, None] == 3, np.inf, stack), check_finite=False)
    assert np.isnan(unchecked[3]).all()
    assert unchecked[4].tobytes() == whole[4].tobytes()
    with pytest.raises(td.MatrixShapeError):
        serial.expm(np.ones((2, 3)))
    assert serial.expm(np.zeros((0, 0))).shape == (0, 0)
    assert serial.expm(np.zeros((2, 0, 3, 3))).shape == (2, 0, 3, 3)


# --- what they have in common ------------------------------------------------------------------------------------

CALLS = {
    "norm": lambda own, a: own.norm(a),
    "cond": lambda own, a: own.cond(a, 1),
    "matrix_rank": lambda own, a: own.matrix_rank(a),
    "pinv": lambda own, a: own.pinv(a),
    "lstsq": lambda own, a: own.lstsq(a, a),
    "matrix_power": lambda own, a: own.matrix_power(a, 5),
    "tensorinv": lambda own, a: own.tensorinv(a[0], 1),
    "null_space": lambda own, a: own.null_space(a),
    "orth": lambda own, a: own.orth(a),
    "polar": lambda own, a: own.polar(a),
    "expm": lambda own, a: own.expm(a),
}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_bits_do_not_depend_on_width_in_any_layout(name: str) -> None:
    for dtype in (np.float32, np.complex128):
        a = normal((3, 20, 20), dtype)
        for array in (a, np.asfortranarray(a), np.ascontiguousarray(a[:, ::-1])[:, ::-1]):
            results = []
            for width in (1, 2, 3, 8):
                with td.CpuEngine(width) as engine:
                    result = CALLS[name](engine.linalg, array)
                    parts = result if isinstance(result, tuple) else (result,)
                    results.append([np.asarray(part).tobytes() for part in parts])
            assert all(result == results[0] for result in results)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_lin_01_non_finite_input_is_refused_by_every_function(name: str) -> None:
    """C-LIN-01, for what is built from factorisations."""
    for width in (1, 2, 3):
        with td.CpuEngine(width) as engine:
            for dtype in (np.float32, np.float64, np.complex128):
                a = np.stack([np.eye(3, dtype=dtype)] * 3)
                for bad in (np.nan, np.inf):
                    a[1 if name != "tensorinv" else 0, 0, 2] = bad
                    with pytest.raises(td.NonFiniteError) as caught:
                        CALLS[name](engine.linalg, a)
                    assert caught.value.operation == name
                    assert caught.value.index == (0 if name in ("norm", "tensorinv") else 1)
                    assert str(caught.value).startswith(f"{name}: ")
            assert engine.state == "open"


def test_a_call_of_several_steps_is_one_operation() -> None:
    """No call of another thread comes between the steps: it is refused, or comes before or after."""
    with td.CpuEngine(2) as engine:
        a = normal((60, 60), float)
        want = engine.linalg.expm(a)
        outcomes: list[str] = []

        def other() -> None:
            for _ in range(300):
                try:
                    engine.matmul(a, a)
                except td.EngineBusyError:
                    outcomes.append("busy")

        thread = threading.Thread(target=other)
        thread.start()
        finished = 0
        while thread.is_alive():
            try:
                assert (engine.linalg.expm(a) == want).all()
                finished += 1
            except td.EngineBusyError as error:
                assert error.operation == "expm"  # noqa: PT017
        thread.join()
        assert engine.linalg.expm(a).tobytes() == want.tobytes()
        assert engine.state == "open"


def test_closed_engines_say_so() -> None:
    engine = td.CpuEngine.serial()
    linalg = engine.linalg
    engine.close()
    for name, call in CALLS.items():
        with pytest.raises(td.EngineClosedError):
            call(linalg, np.stack([np.eye(2)] * 2))
        assert name


def test_views_and_products_of_numpys_namespace(serial: Any) -> None:
    a = integers((2, 3, 3), float)
    assert np.shares_memory(serial.matrix_transpose(a), a)
    assert np.shares_memory(serial.diagonal(a), a)
    for name, arguments, options in (
        ("matrix_transpose", (a,), {}),
        ("diagonal", (a,), {"offset": 1}),
        ("trace", (a,), {"offset": -1}),
        ("trace", (a,), {"dtype": np.float32}),
        ("matmul", (a, a), {}),
        ("vecdot", (a, a), {"axis": 1}),
        ("tensordot", (a, a), {"axes": ([2], [1])}),
        ("cross", (a, a[::-1]), {}),
        ("cross", (a, a[::-1]), {"axis": 1}),
        ("outer", (a[0, 0], a[0, 1]), {}),
    ):
        ours = getattr(serial, name)(*arguments, **options)
        theirs = getattr(np.linalg, name)(*arguments, **options)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(serial.multi_dot([a[0], a[1], a[0]]), a[0] @ a[1] @ a[0])
    with pytest.raises(td.ShapeError):
        serial.outer(a, a)
    with pytest.raises(td.ShapeError):
        serial.cross(np.ones(2), np.ones(2))
    with pytest.raises(td.MatrixShapeError):
        serial.matrix_transpose(np.ones(3))
