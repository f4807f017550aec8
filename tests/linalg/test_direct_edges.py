"""Direct solvers at the edges: singular, tiny, huge and nasty matrices, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

pytestmark = pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")


@pytest.fixture
def serial() -> Iterator[Any]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def regular(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    """A well-conditioned matrix that needs its rows exchanged."""
    a = random(rng, (n, n), dtype) + 4 * np.sqrt(n) * np.eye(n)
    return a[rng.permutation(n)].astype(dtype)


def near(one: Any, other: Any, dtype: Any, n: int, scale: float = 1.0) -> None:
    """Equal but for rounding of sums of `n` terms of size `scale`."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    bound = 40 * np.finfo(dtype).eps * max(n, 1) * max(scale, 1.0)
    assert one.size == 0 or np.max(np.abs(one - other)) <= bound


# --- singular, tiny, huge ------------------------------------------------------------------------------------------


def test_lin_10_singular_matrices(serial: Any) -> None:
    """C-LIN-10: finite factors that match; solve and inv name the item."""
    cases = [
        np.array([[1.0, 2, 3], [4, 5, 6], [8, 10, 12]]),
        np.array([[0.0, 1], [0, 1]]),
        np.zeros((3, 3)),
        np.ones((70, 70)),
        np.array([[0.0, 2], [0, 3]]),
    ]
    for dtype, a in itertools.product(DTYPES, cases):
        a = a.astype(dtype)
        n = len(a)
        p, low, u = serial.lu(a)
        assert np.isfinite(low).all()
        near(p @ low @ u, a, dtype, n, 12)
        assert np.isfinite(serial.lu_factor(a)[0]).all()
        assert serial.det(a) == 0
        assert tuple(serial.slogdet(a)) == (0, -np.inf)
        for call in (serial.inv, lambda x: serial.solve(x, np.ones(len(x), x.dtype))):
            with pytest.raises(td.SingularMatrixError) as caught:
                call(a)
            assert caught.value.index == 0
        with pytest.raises(td.SingularMatrixError):
            serial.lu_solve(serial.lu_factor(a), np.ones(n, dtype))
        batch = np.stack([np.eye(n), np.eye(n), a, np.eye(n)]).astype(dtype)
        for call in (serial.inv, lambda x: serial.solve(x, np.ones(x.shape[-1], x.dtype))):
            with pytest.raises(td.SingularMatrixError) as caught:
                call(batch)
            assert caught.value.index == 2
    np.testing.assert_array_equal(np.abs(np.diagonal(serial.lu(cases[0])[2])), [8, 0.75, 0])


def test_equal_rows_cancel_exactly(serial: Any) -> None:
    """49 times the rounded 1/49 is not 1: pivots are divided by."""
    for n in (2, 9, 65):
        for x in (49.0, 41.0, 1e-300, 3e300):
            a = np.eye(n) * x
            a[1] = a[0]
            with pytest.raises(td.SingularMatrixError):
                serial.inv(a)


@pytest.mark.parametrize("n", [2, 5, 9, 40, 100])
def test_scale_does_not_matter(serial: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    a = regular(rng, n, np.float64)
    b = random(rng, (n, 2), np.float64)
    inverse, x = serial.inv(a), serial.solve(a, b)
    for exponent in (-990, -600, 600, 980):
        scaled = np.ldexp(a, exponent)
        np.testing.assert_allclose(np.ldexp(serial.inv(scaled), exponent), inverse, rtol=1e-10, atol=1e-14)
        np.testing.assert_allclose(np.ldexp(serial.solve(scaled, b), exponent), x, rtol=1e-10, atol=1e-14)
        assert serial.slogdet(scaled).logabsdet == pytest.approx(
            serial.slogdet(a).logabsdet + n * exponent * np.log(2), rel=1e-12
        )
    single = a.astype(np.float32)
    for exponent in (-110, 100):
        scaled = np.ldexp(single, exponent)
        found = np.ldexp(serial.solve(scaled, b.astype(np.float32)), exponent)
        np.testing.assert_allclose(found, x, rtol=1e-3, atol=1e-4)


def test_sums_at_the_edge_of_the_range(serial: Any) -> None:
    """Sums on the way overflow, the solution does not."""
    for dtype, top in ((np.float64, 1.7e308), (np.float32, 3.3e38)):
        a = np.array([[top, top], [top, -top]], dtype)
        np.testing.assert_allclose(serial.solve(a, np.array([top, top], dtype)), [1, 0], atol=1e-6)
    pair = np.diag([2.0**1000, 2.0**-1040])
    np.testing.assert_array_equal(serial.solve(pair, np.array([2.0**1001, 2.0**-1041])), [2, 0.5])
    tiny = 2.0**-600
    np.testing.assert_array_equal(serial.solve([[1.0, 1.0], [0.0, tiny]], [3.0, 2 * tiny]), [1, 2])
    # The product of the small entries is below the range: the matrix is regular all the same.
    np.testing.assert_array_equal(serial.solve([[1.0, tiny], [tiny, 0.0]], [1.0, tiny]), [1, 0])


# --- refusals ------------------------------------------------------------------------------------------------------


def test_lin_13_indefinite_matrices(serial: Any) -> None:
    """C-LIN-13: the item and the order of the minor."""
    batch = np.stack([np.eye(2), np.eye(2), -np.eye(2), np.eye(2), -np.eye(2)])
    large = np.eye(200)
    large[150, 150] = -1
    for call in (serial.cholesky, serial.cho_factor):
        for a, index in ((batch, 2), (np.arange(9.0).reshape(3, 3), 0), (large, 0), (np.zeros((3, 3)), 0)):
            with pytest.raises(td.NotPositiveDefiniteError) as caught:
                call(a)
            assert caught.value.index == index
        with pytest.raises(td.NotPositiveDefiniteError, match="order 151"):
            call(large)


@pytest.mark.parametrize("n", [2, 8, 9, 70])
def test_non_finite_entries_are_refused_or_give_nan(serial: Any, n: int) -> None:
    batch = np.stack([np.eye(n)] * 5)
    batch[3, 1, 0] = np.nan
    for name in ("inv", "det", "slogdet", "lu", "lu_factor", "full_piv_lu", "cholesky"):
        with pytest.raises(td.NonFiniteError) as caught:
            getattr(serial, name)(batch)
        assert caught.value.index == 3
    b = np.ones((5, n, 1))
    b[4, 0, 0] = np.inf
    for call in (serial.solve, serial.full_piv_lu_solve, serial.solve_triangular):
        with pytest.raises(td.NonFiniteError) as caught:
            call(np.eye(n), b)
        assert caught.value.index == 4
    assert np.isnan(serial.inv(batch, check_finite=False)[3]).all()
    assert (serial.inv(batch, check_finite=False)[2] == np.eye(n)).all()
    assert np.isnan(serial.det(batch, check_finite=False)).tolist() == [False, False, False, True, False]
    assert np.isnan(serial.full_piv_lu(batch, check_finite=False)[2][3]).all()
    # Factors of non-finite input are whatever comes out, and come out soon.
    serial.lu_factor(batch, check_finite=False)
    serial.lu(np.full((n, n), np.inf), check_finite=False)
    serial.solve_triangular(batch, b, lower=True, check_finite=False)


def test_wrong_arguments(serial: Any) -> None:
    a, b = np.eye(3), np.ones(3)
    factors = serial.lu_factor(a)
    for name in ("inv", "det", "slogdet", "cholesky", "cho_factor"):
        with pytest.raises(td.MatrixShapeError, match=name):
            getattr(serial, name)(np.ones((2, 3)))
        with pytest.raises(td.MatrixShapeError):
            getattr(serial, name)(b)
    with pytest.raises(td.ArgumentError, match="valid are"):
        serial.lu_solve(factors, b, trans=3)
    with pytest.raises(td.ArgumentError, match="valid are"):
        serial.solve_triangular(a, b, trans="X")
    with pytest.raises(td.ArgumentError, match="pair"):
        serial.lu_solve(a, b)
    with pytest.raises(td.ArgumentError, match="pair"):
        serial.cho_solve(3, b)
    with pytest.raises(td.ArgumentError, match="pivot 1"):
        serial.lu_solve((factors[0], [0, 3, 2]), b)
    with pytest.raises(td.ArgumentError, match="pivot 0"):
        serial.lu_solve((factors[0], [-1, 1, 2]), b)
    with pytest.raises(td.MatrixShapeError, match="piv"):
        serial.lu_solve((factors[0], [0, 1]), b)
    with pytest.raises(td.DTypeError, match="piv"):
        serial.lu_solve((factors[0], [0.0, 1.0, 2.0]), b)
    with pytest.raises(td.SingularMatrixError) as caught:
        serial.solve_triangular(np.stack([a, np.diag([1.0, 0, 1])]), b)
    assert caught.value.index == 1
    for name in ("inv", "lu", "det"):
        with pytest.raises(td.DTypeError):
            getattr(serial, name)(np.eye(2, dtype=np.float16))
        result = getattr(serial, name)(np.eye(2, dtype=bool))
        assert np.asarray(result[0] if name == "lu" else result).dtype == np.float64


def test_integers_and_mixed_types_meet_as_numpys_do(serial: Any) -> None:
    assert serial.inv([[2, 0], [0, 4]]).tolist() == [[0.5, 0], [0, 0.25]]
    assert serial.det(np.array([[True, False], [False, True]])) == 1.0
    x = serial.lu_solve(serial.lu_factor(np.eye(2, dtype=np.float32)), np.ones(2, np.complex64))
    assert x.dtype == np.complex64
    assert serial.solve_triangular(np.eye(2, dtype=np.float32), [1, 2]).dtype == np.float64


# --- the nasty matrices --------------------------------------------------------------------------------------------


def nasty(n: int) -> dict[str, np.ndarray]:
    """Matrices on which factorisations have gone wrong; each with where it is from."""
    rng = np.random.default_rng(n)
    i, j = np.indices((n, n))
    return {
        "hilbert": 1.0 / (i + j + 1),  # Hilbert 1894: its condition grows like exp(3.5 n)
        "vandermonde": np.vander(np.linspace(0.1, 1, n)),  # ill-conditioned and graded
        # Wilkinson 1961: entries of U double in every step of partial pivoting.
        "wilkinson": np.where(i == j, 1.0, np.where(i > j, -1.0, np.where(j == n - 1, 1.0, 0.0))),
        "kahan": np.triu(np.where(i == j, 1.0, -0.3)) * (0.95**i),  # Kahan 1966
        "graded rows": rng.standard_normal((n, n)) * np.logspace(0, -16, n)[:, None],
        "graded columns": rng.standard_normal((n, n)) * np.logspace(0, -16, n),
        "rank one": np.outer(np.arange(1.0, n + 1), np.arange(1.0, n + 1)),
        "zero blocks": np.where((i < n // 2) & (j < n // 2), rng.standard_normal((n, n)), 0.0),
        "nilpotent": np.eye(n, k=1),
        "denormal": rng.integers(-9, 10, (n, n)) * 5e-324,
        "huge": rng.standard_normal((n, n)) * 1e300,
        "tiny": rng.standard_normal((n, n)) * 1e-300,
    }


@pytest.mark.parametrize("n", [3, 8, 30, 50, 100])
def test_factors_of_nasty_matrices(serial: Any, n: int) -> None:
    eps = np.finfo(float).eps
    for name, a in nasty(n).items():
        size = np.abs(a).max()
        with np.errstate(all="ignore"):
            plain = serial.lu(a)
            for p, low, u, q in [(plain[0].T, *plain[1:], np.eye(n)), serial.full_piv_lu(a)[:4]]:
                product = low @ (u / size)
                growth = max(1.0, np.abs(u).max() / size)
                floor = 5e-324 * n / size
                off = np.abs(p @ (a / size) @ q.T - product).max()
                assert off <= 8 * n * eps * growth + floor, name
        if name in ("hilbert", "vandermonde", "kahan", "graded rows", "wilkinson", "huge", "tiny"):
            b = a[:, 0]
            x = serial.solve(a, b)
            residual = np.abs((a / size) @ x - b / size).max()
            growth = max(1.0, np.abs(serial.lu(a)[2]).max() / size)
            assert residual <= 8 * n * eps * growth * max(1.0, np.abs(x).max()), (name, residual)


def test_hilbert_matrices_have_cholesky_factors(serial: Any) -> None:
    for n in (4, 8, 11):
        a = nasty(n)["hilbert"]
        lower = serial.cholesky(a)
        assert np.abs(lower @ lower.T - a).max() <= 4 * n * np.finfo(float).eps
    for scale in (1e-300, 1e300, 5e-324 * 4):
        a = np.array([[4.0, 2.0], [2.0, 5.0]]) * scale
        lower = serial.cholesky(a)
        np.testing.assert_allclose((lower @ lower.T) / scale, [[4, 2], [2, 5]], rtol=1e-14 if scale > 1e-310 else 0.3)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.int64])
def test_pivots_of_nothing_may_be_of_any_type(dtype: Any) -> None:
    with td.CpuEngine.serial() as engine:
        nothing = (np.empty((0, 0)), np.empty((0,), dtype))
        assert engine.linalg.lu_solve(nothing, np.empty((0,))).shape == (0,)
        assert engine.linalg.lu_solve(nothing, np.empty((0, 2))).shape == (0, 2)
        with pytest.raises(td.exceptions.DTypeError, match="integers"):
            engine.linalg.lu_solve((np.eye(2), np.zeros(2)), np.ones(2))
