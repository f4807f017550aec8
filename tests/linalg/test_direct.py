"""LU, Cholesky and triangular systems: against definitions, numpy and scipy, at every width, and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
WIDTHS = (1, 2, 3, 8)
ORDERS = [1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 130]

pytestmark = pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")


@pytest.fixture
def serial() -> Iterator[Any]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[int, td.CpuEngine]]:
    made = {width: td.CpuEngine(width) for width in WIDTHS}
    yield made
    for engine in made.values():
        engine.close()


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def regular(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    """A well-conditioned matrix that needs its rows exchanged."""
    a = random(rng, (n, n), dtype) + 4 * np.sqrt(n) * np.eye(n)
    return a[rng.permutation(n)].astype(dtype)


def positive(rng: np.random.Generator, n: int, dtype: Any) -> np.ndarray:
    a = random(rng, (n, n), dtype)
    return (a @ adjoint(a) / max(n, 1) + np.eye(n)).astype(dtype)


def near(one: Any, other: Any, dtype: Any, n: int, scale: float = 1.0) -> None:
    """Equal but for rounding of sums of `n` terms of size `scale`."""
    one, other = np.asarray(one), np.asarray(other)
    assert one.shape == other.shape
    bound = 40 * np.finfo(dtype).eps * max(n, 1) * max(scale, 1.0)
    assert one.size == 0 or np.max(np.abs(one - other)) <= bound


# --- definitions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems_and_inverses(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for n in ORDERS:
        a = regular(rng, n, dtype)
        size = np.abs(a).max()
        inverse = serial.inv(a)
        assert inverse.dtype == dtype
        near(inverse @ a, np.eye(n), dtype, n)
        factors = serial.lu_factor(a)
        for shape in [(n,), (n, 1), (n, 3), (n, 40)]:
            b = random(rng, shape, dtype)
            for x in (serial.solve(a, b), serial.full_piv_lu_solve(a, b), serial.lu_solve(factors, b)):
                assert x.dtype == dtype
                near(a @ x, b, dtype, n, size)
            near(a.T @ serial.lu_solve(factors, b, trans=1), b, dtype, n, size)
            near(a.conj().T @ serial.lu_solve(factors, b, trans=2), b, dtype, n, size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_is_scipys(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(2)
    for m, n in [(n, n) for n in ORDERS] + [(5, 3), (3, 5), (70, 20), (20, 70), (130, 65), (65, 130)]:
        a = random(rng, (m, n), dtype)
        k, size = min(m, n), float(np.abs(a).max())
        p, low, u = serial.lu(a)
        near(p @ low @ u, a, dtype, k, size)
        assert p.dtype == np.finfo(dtype).dtype
        assert low.shape == (m, k)
        assert u.shape == (k, n)
        assert (np.triu(low, 1) == 0).all()
        assert (np.diagonal(low) == 1).all()
        assert (np.tril(u, -1) == 0).all()
        permuted, same = serial.lu(a, permute_l=True)
        assert (same == u).all()
        assert (permuted == p @ low).all()
        indices, same_l, same_u = serial.lu(a, p_indices=True)
        assert indices.dtype == np.int32
        assert (same_l == low).all()
        assert (same_u == u).all()
        assert (low[indices] == p @ low).all()
        packed, piv = serial.lu_factor(a)
        expected, rows = scipy.linalg.lu_factor(a)
        assert piv.dtype == np.int32
        np.testing.assert_array_equal(piv, rows)
        near(packed, expected, dtype, 40 * k, size)
        assert (np.triu(packed)[:k] == u).all()
        assert (np.tril(packed, -1)[:, :k] + np.eye(m, k) == low).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_and_its_solves(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    for n in ORDERS:
        a = positive(rng, n, dtype)
        size = float(np.abs(a).max())
        lower = serial.cholesky(a)
        near(lower @ adjoint(lower), a, dtype, n, size)
        assert (np.triu(lower, 1) == 0).all()
        assert (np.diagonal(lower).imag == 0).all()
        upper = serial.cholesky(a, upper=True)
        near(adjoint(upper) @ upper, a, dtype, n, size)
        assert (np.tril(upper, -1) == 0).all()
        # The other triangle is not read.
        poisoned = np.where(np.tri(n, dtype=bool), a, np.nan)
        assert (serial.cholesky(poisoned) == lower).all()
        for flag in (False, True):
            c, given = serial.cho_factor(a, lower=flag)
            assert given is flag
            assert (c == (lower if flag else upper)).all()
            for shape in [(n,), (n, 2), (n, 50)]:
                b = random(rng, shape, dtype)
                near(a @ serial.cho_solve((c, flag), b), b, dtype, 10 * n, size)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_systems(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(4)
    for n in [1, 2, 5, 31, 32, 33, 64, 100]:
        a = (random(rng, (n, n), dtype) / n + 2 * np.eye(n)).astype(dtype)
        for lower, unit, trans in itertools.product((False, True), (False, True), (0, 1, 2, "N", "T", "C")):
            triangle = np.tril(a) if lower else np.triu(a)
            if unit:
                np.fill_diagonal(triangle, 1)
            form = {0: triangle, 1: triangle.T, 2: triangle.conj().T}[
                "NTC".find(trans) if isinstance(trans, str) else trans
            ]
            # What is not read may be anything.
            poisoned = np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, np.nan)
            if unit:
                np.fill_diagonal(poisoned, np.inf)
            for shape in [(n,), (n, 2), (n, 37)]:
                b = random(rng, shape, dtype)
                x = serial.solve_triangular(poisoned, b, trans=trans, lower=lower, unit_diagonal=unit)
                near(form @ x, b, dtype, n, 4)


@pytest.mark.parametrize("dtype", DTYPES)
def test_determinants(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    for n in ORDERS:
        a = regular(rng, n, dtype)
        sign, logabsdet = serial.slogdet(a)
        expected = np.linalg.slogdet(a.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64))
        near(sign, expected.sign, dtype, 10 * n)
        near(logabsdet, expected.logabsdet, dtype, 10 * n, abs(expected.logabsdet))
        if n <= 20:
            near(serial.det(a) / np.exp(expected.logabsdet), expected.sign, dtype, 10 * n)
    integers = np.array([[2, 1, 3], [0, 5, 1], [4, 4, 4]])
    assert serial.det(integers) == -24.0
    assert serial.slogdet(np.eye(3)).sign == 1
    assert type(serial.det(np.eye(2))) is np.float64
    assert type(serial.slogdet(np.eye(2))) is type(np.linalg.slogdet(np.eye(2)))
    # The product leaves the range on the way, but not in the end.
    wide = np.diag([1e300, 1e300, 1e-300, 1e-300])
    assert serial.det(wide) == pytest.approx(1.0, rel=1e-14)
    assert serial.det(np.diag(np.repeat([1e200, 1e-200], 40))) == pytest.approx(1.0, rel=1e-13)
    assert serial.det(np.eye(3) * 1e200) == np.inf


# --- full pivoting -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_full_pivoting(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(6)
    for m, n in [(n, n) for n in ORDERS] + [(1, 5), (5, 1), (40, 17), (17, 40)]:
        a = random(rng, (m, n), dtype)
        k = min(m, n)
        p, low, u, q, parity = serial.full_piv_lu(a)
        near(p @ a @ q.T, low @ u, dtype, k, float(np.abs(a).max()) * 4)
        assert low.shape == (m, k)
        assert u.shape == (k, n)
        assert (np.triu(low, 1) == 0).all()
        assert (np.tril(u, -1) == 0).all()
        assert np.abs(low).max() <= 1 + 4 * np.finfo(dtype).eps
        assert np.abs(u[0, 0]) == np.abs(a).max()
        assert parity == round(np.linalg.det(p) * np.linalg.det(q))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 5, 17, 28, 45, 70])
def test_lin_08_first_pivots_of_sparse_integer_matrices(serial: Any, dtype: Any, n: int) -> None:
    """C-LIN-08: the largest entry comes first, in C order the first of those that are equal."""
    rng = np.random.default_rng([n, 8])
    for density in (0.05, 0.3):
        a = (rng.integers(-2, 3, (n, n)) * (rng.random((n, n)) < density)).astype(dtype)
        for given in (a, np.asfortranarray(a), a[::-1, ::-1]):
            p, low, u, q, _ = serial.full_piv_lu(given)
            near(p @ given @ q.T, low @ u, dtype, n, 8)
            first = np.unravel_index(np.argmax(np.abs(given)), given.shape)
            assert u[0, 0] == given[first]
            assert (p[0] == np.eye(n)[first[0]]).all()
            assert (q[0] == np.eye(n)[first[1]]).all()


def test_lin_09_singular_matrices_are_factored_without_pivoting_tricks(serial: Any) -> None:
    """C-LIN-09: no error and no perturbed pivot; the solve refuses what is singular."""
    for dtype in DTYPES:
        p, low, u, q, parity = serial.full_piv_lu(np.array([[1, 2], [2, 4]], dtype))
        assert u.tolist() == [[4, 2], [0, 0]]
        assert low.tolist() == [[1, 0], [0.5, 1]]
        assert parity == 1
        a = np.array([[1, 4, 5], [2, 5, 7], [3, 6, 9]], dtype)
        p, low, u, q, _ = serial.full_piv_lu(a)
        assert abs(u[2, 2]) <= 16 * np.finfo(dtype).eps
        assert abs(u[1, 1]) == pytest.approx(2 / 3, rel=1e-6)
        near(p @ a @ q.T, low @ u, dtype, 3, 9)
        ones = np.ones((4, 4), dtype)
        p, low, u, q, parity = serial.full_piv_lu(ones)
        assert (p == np.eye(4)).all()
        assert (q == np.eye(4)).all()
        assert (u == np.vstack([np.ones(4), np.zeros((3, 4))])).all()
        zero = serial.full_piv_lu(np.zeros((3, 2), dtype))
        assert (zero[1] == np.eye(3, 2)).all()
        assert (zero[2] == 0).all()
        with pytest.raises(td.SingularMatrixError) as caught:
            serial.full_piv_lu_solve(np.stack([np.eye(2), [[1, 2], [2, 4]]]).astype(dtype), np.ones(2, dtype))
        assert caught.value.index == 1


def test_complete_pivots_of_complex_matrices_near_the_ends_of_the_range(serial: Any) -> None:
    for scale in (1e-300, 1e-200, 1e200, 1e300):
        a = np.array([[1 + 1j, 2], [3j, 1]]) * scale
        p, _, u, q, _ = serial.full_piv_lu(a)
        assert u[0, 0] == a[1, 0]
        assert (p == [[0, 1], [1, 0]]).all()
        assert (q == np.eye(2)).all()


# --- shapes --------------------------------------------------------------------------------------------------------


def test_lin_14_vectors_and_stacks(serial: Any) -> None:
    """C-LIN-14: a vector only when b has one dimension, for every function of a system."""
    three = np.stack([np.eye(2) * k for k in (1.0, 2.0, 4.0)])
    factors = serial.lu_factor(three)
    root = serial.cho_factor(three)
    calls = {
        "solve": lambda b: serial.solve(three, b),
        "full": lambda b: serial.full_piv_lu_solve(three, b),
        "lu": lambda b: serial.lu_solve(factors, b),
        "cho": lambda b: serial.cho_solve(root, b),
        "triangular": lambda b: serial.solve_triangular(three, b),
    }
    for name, call in calls.items():
        assert call(np.ones((2, 3))).shape == (3, 2, 3), name
        assert call(np.ones(2)).shape == (3, 2), name
        assert call(np.ones((5, 1, 2, 4))).shape == (5, 3, 2, 4), name
        np.testing.assert_allclose(call(np.array([4.0, 8.0])), [[4, 8], [2, 4], [1, 2]], rtol=1e-15)
        with pytest.raises(td.MatrixShapeError):
            call(np.ones((3, 2)))
        with pytest.raises(td.BroadcastError):
            call(np.ones((4, 2, 1)))
    # One factor for many right-hand sides.
    b = np.arange(60.0).reshape(10, 2, 3)
    one = serial.lu_factor(three[1])
    np.testing.assert_array_equal(serial.lu_solve(one, b), b / 2)
    np.testing.assert_array_equal(
        serial.lu_solve(one, np.broadcast_to(b[:1], (10, 2, 3))), np.broadcast_to(b[0] / 2, (10, 2, 3))
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_empty_matrices_and_batches(serial: Any, dtype: Any) -> None:
    none = np.zeros((0, 0), dtype)
    assert serial.inv(none).shape == (0, 0)
    assert serial.det(none) == 1
    assert tuple(serial.slogdet(none)) == (1, 0)
    assert [x.shape for x in serial.lu(np.zeros((2, 4, 0), dtype))] == [(2, 4, 4), (2, 4, 0), (2, 0, 0)]
    assert (serial.lu(np.zeros((4, 0), dtype))[0] == np.eye(4)).all()
    assert [x.shape for x in serial.full_piv_lu(np.zeros((0, 3), dtype))] == [(0, 0), (0, 0), (0, 3), (3, 3), ()]
    assert serial.solve(np.zeros((0, 3, 3), dtype), np.zeros(3, dtype)).shape == (0, 3)
    assert serial.lu_solve(serial.lu_factor(np.eye(3, dtype=dtype)), np.zeros((3, 0), dtype)).shape == (3, 0)
    assert serial.cho_solve((none, True), np.zeros(0, dtype)).shape == (0,)
    assert serial.solve_triangular(none, np.zeros((0, 2), dtype)).shape == (0, 2)
    assert serial.det(np.zeros((0, 3, 3), dtype)).shape == (0,)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_do_not_matter(serial: Any, dtype: Any) -> None:
    rng = np.random.default_rng(11)
    for n in (3, 8, 20, 70):
        a = positive(rng, n, dtype)
        b = random(rng, (n, 5), dtype)
        room = np.full((2 * n, 3 * n), np.nan, dtype)
        spread = room[::2, ::3]
        spread[...] = a
        forms = [np.asfortranarray(a), spread, np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]]
        for name in ("inv", "det", "slogdet", "lu", "lu_factor", "full_piv_lu", "cholesky", "cho_factor"):
            function = getattr(serial, name)
            expected = [np.asarray(x).tobytes() for x in np.atleast_1d(function(a))] if name == "det" else function(a)
            for form in forms:
                found = (
                    [np.asarray(x).tobytes() for x in np.atleast_1d(function(form))]
                    if name == "det"
                    else function(form)
                )
                if isinstance(expected, np.ndarray):
                    assert found.tobytes() == expected.tobytes(), (name, n)
                else:
                    for x, y in zip(found, expected, strict=True):
                        assert np.asarray(x).tobytes() == np.asarray(y).tobytes(), (name, n)
        for right in (np.asfortranarray(b), np.ascontiguousarray(b[::-1])[::-1]):
            assert serial.solve(forms[0], right).tobytes() == serial.solve(a, b).tobytes()
            x = serial.solve_triangular(forms[1], right, lower=True)
            assert x.tobytes() == serial.solve_triangular(a, b, lower=True).tobytes()


# --- widths and batches --------------------------------------------------------------------------------------------


def everything(linalg: Any, a: np.ndarray, h: np.ndarray, b: np.ndarray) -> list[np.ndarray]:
    factors, root = linalg.lu_factor(a), linalg.cho_factor(h)
    return [
        np.asarray(x)
        for x in (
            linalg.solve(a, b),
            linalg.inv(a),
            linalg.det(a),
            *linalg.slogdet(a),
            *linalg.lu(a),
            *linalg.lu(a, p_indices=True),
            *linalg.lu(a, permute_l=True),
            *factors,
            linalg.lu_solve(factors, b),
            linalg.lu_solve(factors, b, trans=2),
            *linalg.full_piv_lu(a),
            linalg.full_piv_lu_solve(a, b),
            linalg.cholesky(h),
            linalg.cholesky(h, upper=True),
            root[0],
            linalg.cho_solve(root, b),
            linalg.solve_triangular(h, b, lower=True),
        )
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("count", "n"), [(1, 300), (3, 129), (19, 33), (61, 8), (500, 4), (37, 1)])
def test_bits_do_not_depend_on_width_policy_or_company(
    engines: dict[int, td.CpuEngine], dtype: Any, count: int, n: int
) -> None:
    rng = np.random.default_rng([count, n])
    a = np.stack([regular(rng, n, dtype) for _ in range(count)])
    h = np.stack([positive(rng, n, dtype) for _ in range(count)])
    b = random(rng, (count, n, 3), dtype)
    expected = everything(engines[1].linalg, a, h, b)
    for width in WIDTHS:
        for policy in ("auto", "outer", "inner"):
            with engines[width].policy(batch=policy):
                found = everything(engines[width].linalg, a, h, b)
            for position, (x, y) in enumerate(zip(found, expected, strict=True)):
                assert x.tobytes() == y.tobytes(), (width, policy, position)
    # An item alone has the bits that it has in the batch.
    for item in {0, count // 2, count - 1}:
        alone = everything(engines[1].linalg, a[item], h[item], b[item])
        for position, (x, y) in enumerate(zip(alone, expected, strict=True)):
            assert x.tobytes() == y[item].tobytes(), (item, position)


def test_batches_of_small_matrices_with_unusual_items(serial: Any) -> None:
    """Items that need more than the plain algorithm do not change their neighbours."""
    rng = np.random.default_rng(13)
    for n in (1, 2, 3, 4, 8):
        batch = np.stack([regular(rng, n, np.float64) for _ in range(21)])
        expected = serial.inv(batch)
        odd = batch.copy()
        odd[5] = np.ldexp(odd[5], -1000)
        odd[13] = np.ldexp(odd[13], 990)
        found = serial.inv(odd)
        ordinary = [i for i in range(21) if i not in (5, 13)]
        assert found[ordinary].tobytes() == expected[ordinary].tobytes()
        np.testing.assert_allclose(np.ldexp(found[5], -1000), expected[5], rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(np.ldexp(found[13], 990), expected[13], rtol=1e-12, atol=1e-15)
        assert (serial.det(odd)[ordinary] == serial.det(batch)[ordinary]).all()
