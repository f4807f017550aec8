"""Linear algebra: numpy's results, the cases of the field's bug trackers, errors with the lowest index."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
Linalg = Any


def eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def rounding(a: np.ndarray) -> float:
    """What rounding may do to factors of the matrices of `a`, relative to their norm."""
    return 30 * eps(a.dtype) * max(1, *a.shape[-2:]) ** 0.5


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def hermitian(a: np.ndarray) -> np.ndarray:
    return (a + a.conj().swapaxes(-1, -2)) / 2


def positive(a: np.ndarray) -> np.ndarray:
    n = a.shape[-1]
    return (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(a.dtype)


def norms(a: np.ndarray) -> np.ndarray:
    return np.sqrt(np.sum(np.abs(a) ** 2, axis=(-2, -1)))


def check_svd(a: np.ndarray, full: bool, result: Any) -> None:
    u, s, vh = result
    k = s.shape[-1]
    assert u.dtype == vh.dtype == a.dtype
    assert s.dtype == a.real.dtype
    assert u.shape[-1] == (a.shape[-2] if full else k)
    assert vh.shape[-2] == (a.shape[-1] if full else k)
    assert np.all(s[..., :-1] >= s[..., 1:])
    assert np.all(s >= 0)
    rebuilt = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    assert np.all(norms(rebuilt - a) <= rounding(a) * norms(a) + 1e-37)
    for q in (u, vh.conj().swapaxes(-1, -2)):
        n = q.shape[-1]
        assert np.all(norms(q.conj().swapaxes(-1, -2) @ q - np.eye(n)) <= rounding(a) * max(1, n) ** 0.5)


def check_eigh(a: np.ndarray, result: Any) -> None:
    w, v = result
    assert w.dtype == a.real.dtype
    assert np.all(w[..., :-1] <= w[..., 1:])
    assert np.all(norms((v * w[..., None, :]) @ v.conj().swapaxes(-1, -2) - a) <= rounding(a) * norms(a) + 1e-37)
    n = a.shape[-1]
    assert np.all(norms(v.conj().swapaxes(-1, -2) @ v - np.eye(n)) <= rounding(a) * n**0.5)


@pytest.fixture
def linalg(treadle_engine: td.CpuEngine) -> Linalg:
    return treadle_engine.linalg


@pytest.fixture
def serial() -> Iterator[Linalg]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


# --- numpy's surface ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (7, 3), (3, 7), (65, 64), (20, 150), (3, 6, 5), (2, 3, 4, 9)])
def test_svd_and_qr_of_every_shape(linalg: Linalg, dtype: Any, shape: tuple[int, ...]) -> None:
    a = normal(np.random.default_rng(1), shape, dtype)
    for full in (True, False):
        check_svd(a, full, linalg.svd(a, full_matrices=full))
    s = linalg.svd(a, compute_uv=False)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=rounding(a) * np.max(norms(a)))
    np.testing.assert_array_equal(s, linalg.svdvals(a))
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        expected = np.linalg.qr(a, mode)
        assert (q.shape, r.shape) == (expected.Q.shape, expected.R.shape)
        assert np.all(np.tril(r, -1) == 0)
        assert np.all(norms(q @ r - a) <= rounding(a) * norms(a))
        n = q.shape[-1]
        assert np.all(norms(q.conj().swapaxes(-1, -2) @ q - np.eye(n)) <= rounding(a) * n**0.5)
    np.testing.assert_array_equal(linalg.qr(a, mode="r"), linalg.qr(a).R)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (64, 64), (150, 150), (3, 6, 6), (2, 3, 4, 4)])
def test_square_functions_of_every_shape(linalg: Linalg, dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    a = normal(rng, shape, dtype)
    h, p = hermitian(a), positive(a)
    check_eigh(h, linalg.eigh(h))
    np.testing.assert_allclose(linalg.eigvalsh(h), np.linalg.eigvalsh(h), atol=rounding(h) * np.max(norms(h)))
    check_svd(h, True, linalg.svd(h, hermitian=True))
    lower = linalg.cholesky(p)
    assert np.all(np.triu(lower, 1) == 0)
    assert np.all(norms(lower @ lower.conj().swapaxes(-1, -2) - p) <= rounding(p) * norms(p))
    upper = linalg.cholesky(p, upper=True)
    assert np.all(np.tril(upper, -1) == 0)
    assert np.all(norms(upper.conj().swapaxes(-1, -2) @ upper - p) <= rounding(p) * norms(p))
    for b in (normal(rng, shape[-1:], dtype), normal(rng, (*shape[:-1], 3), dtype)):
        x = linalg.solve(a, b)
        assert x.dtype == a.dtype
        expected = np.linalg.solve(a, b)
        assert x.shape == expected.shape
        np.testing.assert_allclose(x, expected, rtol=0, atol=2e4 * eps(dtype) * np.max(np.abs(expected)))


def test_results_are_numpys_named_tuples(serial: Linalg) -> None:
    a = np.array([[2.0, 1.0], [1.0, 2.0]])
    assert type(serial.svd(a)) is type(np.linalg.svd(a))
    assert type(serial.qr(a)) is type(np.linalg.qr(a))
    assert type(serial.eigh(a)) is type(np.linalg.eigh(a))
    assert serial.svd(a)._fields == ("U", "S", "Vh")
    np.testing.assert_allclose(serial.eigh(a).eigenvalues, [1.0, 3.0], rtol=1e-15)
    for result in (*serial.svd(a), *serial.qr(a), *serial.eigh(a), serial.cholesky(a), serial.solve(a, a)):
        assert type(result) is np.ndarray
        assert result.flags.c_contiguous
        assert result.flags.writeable


def test_integers_and_booleans_are_computed_in_float64(serial: Linalg) -> None:
    a = [[2, 1], [1, 1]]
    for given in (a, np.array(a, np.int8), np.array(a, np.uint64), np.array(a, ">i4")):
        assert serial.svd(given).S.dtype == np.float64
        np.testing.assert_array_equal(serial.solve(given, [5, 3]), [2.0, 1.0])
    assert serial.eigvalsh(np.eye(2, dtype=bool)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (np.float32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
        (np.float32, np.complex64, np.complex64),
        (np.float64, np.complex64, np.complex128),
        (np.complex64, np.int32, np.complex128),
        (np.int32, np.float32, np.float64),
    ],
)
def test_solve_meets_in_numpys_type(serial: Linalg, a: Any, b: Any, result: Any) -> None:
    matrix, vector = np.eye(3, dtype=a), np.ones(3, dtype=b)
    assert serial.solve(matrix, vector).dtype == result == np.linalg.solve(matrix, vector).dtype


@pytest.mark.parametrize("dtype", ["float16", "object", "U3", "longdouble"])
def test_other_dtypes_are_refused(serial: Linalg, dtype: str) -> None:
    a = np.zeros((2, 2), dtype)
    for call in (serial.svd, serial.qr, serial.eigh, serial.cholesky, lambda x: serial.solve(x, np.ones(2))):
        with pytest.raises(td.DTypeError) as caught:
            call(a)
        assert caught.value.operand == 0
        assert caught.value.actual == a.dtype.name


def test_what_is_no_array_is_refused(serial: Linalg) -> None:
    with pytest.raises(td.DTypeError, match="no array"):
        serial.svd(object())
    with pytest.raises(td.DTypeError, match="operand 1"):
        serial.solve(np.eye(2), object())


def test_wrong_matrix_shapes(serial: Linalg) -> None:
    calls: list[Callable[[], object]] = [
        lambda: serial.svd(np.ones(3)),
        lambda: serial.qr(np.float64(3.0)),
        lambda: serial.eigh(np.ones((2, 3))),
        lambda: serial.eigvalsh(np.ones((4, 2, 3))),
        lambda: serial.cholesky(np.ones((2, 3))),
        lambda: serial.solve(np.ones((2, 3)), np.ones(2)),
        lambda: serial.solve(np.eye(2), np.ones(3)),
        lambda: serial.svd(np.ones((2, 3)), hermitian=True),
    ]
    for call in calls:
        with pytest.raises(td.MatrixShapeError) as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, np.linalg.LinAlgError)


def test_unknown_options_list_the_valid_ones(serial: Linalg) -> None:
    a = np.eye(2)
    calls: list[tuple[str, Callable[[], object]]] = [
        ("'reduced', 'complete'", lambda: serial.qr(a, mode="full")),
        ("'reduced', 'complete'", lambda: serial.qr(a, mode=None or 3)),
        ("'raw' (or|and) 'canonical'", lambda: serial.svd(a, gauge="fixed")),
        ("'raw' (or|and) 'canonical'", lambda: serial.eigh(a, gauge=1)),
        ("'L' and 'U'", lambda: serial.eigh(a, UPLO="lower")),
    ]
    for text, call in calls:
        with pytest.raises(td.ArgumentError, match=text):
            call()


def test_empty_matrices_and_batches(serial: Linalg) -> None:
    for shape in [(0, 3), (3, 0), (0, 0), (0, 2, 3), (2, 0, 3), (4, 3, 0)]:
        a = np.zeros(shape)
        for full in (True, False):
            found, expected = serial.svd(a, full_matrices=full), np.linalg.svd(a, full_matrices=full)
            assert [x.shape for x in found] == [x.shape for x in expected]
        for mode in ("reduced", "complete"):
            assert [x.shape for x in serial.qr(a, mode)] == [x.shape for x in np.linalg.qr(a, mode)]
    u, s, vh = serial.svd(np.zeros((0, 3)))
    assert (u.shape, s.shape) == ((0, 0), (0,))
    np.testing.assert_array_equal(vh, np.eye(3))
    for shape in [(0, 0), (0, 2, 2), (3, 0, 0)]:
        a = np.zeros(shape)
        assert [x.shape for x in serial.eigh(a)] == [x.shape for x in np.linalg.eigh(a)]
        assert serial.cholesky(a).shape == shape
        assert serial.solve(a, np.zeros((*shape[:-1], 5))).shape == (*shape[:-1], 5)
    assert serial.solve(np.eye(2), np.zeros((2, 0))).shape == (2, 0)


def test_out_takes_the_factors(serial: Linalg) -> None:
    a = np.arange(6.0).reshape(2, 3)
    u, s, vh = np.empty((2, 2)), np.empty(2), np.empty((3, 3))[::-1]
    result = serial.svd(a, out=(u, s, vh))
    assert result.U is u
    assert result.Vh is vh
    check_svd(a, True, (u, s, vh))
    values = np.empty(2)
    assert serial.svd(a, compute_uv=False, out=values) is values
    np.testing.assert_array_equal(values, s)
    for out, error in [
        ((u, s), td.ArgumentError),
        ((u, s, np.empty((3, 2))), td.ShapeError),
        ((u, s, np.empty((3, 3), np.float32)), td.DTypeError),
        ((np.broadcast_to(u, (2, 2)), s, vh), td.AliasingError),
        ((a[:, :2], s, vh), td.AliasingError),
    ]:
        before = a.copy()
        with pytest.raises(error):
            serial.svd(a, out=out)
        np.testing.assert_array_equal(a, before)
    bad = np.full((2, 3), np.nan)
    u[:] = 7.0
    with pytest.raises(td.NonFiniteError):
        serial.svd(bad, out=(u, s, vh))
    assert np.all(u == 7.0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_canonical_gauges(serial: Linalg, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    for shape in [(1, 1), (6, 4), (4, 6), (3, 5, 5), (140, 140)]:
        a = normal(rng, shape, dtype)
        result = serial.svd(a, gauge="canonical")
        check_svd(a, True, result)
        columns = [result.U]
        q, r = serial.qr(a, gauge="canonical")
        diagonal = np.diagonal(r, axis1=-2, axis2=-1)
        assert np.all(diagonal.real > 0)
        assert np.all(diagonal.imag == 0)
        assert np.all(norms(q @ r - a) <= rounding(a) * norms(a))
        if shape[-1] == shape[-2]:
            h = hermitian(a)
            result = serial.eigh(h, gauge="canonical")
            check_eigh(h, result)
            columns.append(result.eigenvectors)
        for v in columns:
            pivot = np.take_along_axis(v, np.argmax(np.abs(v), axis=-2)[..., None, :], axis=-2)
            assert np.all(pivot.real > 0)
            assert np.all(np.abs(pivot.imag) <= 4 * eps(dtype))


def test_any_strides_are_read_in_place(serial: Linalg) -> None:
    rng = np.random.default_rng(6)
    whole = rng.standard_normal((6, 14, 16))
    views = [
        whole[::2, ::3, ::-2],
        whole[::-1, 3:9, 2:8].swapaxes(1, 2),
        np.broadcast_to(whole[0, :5, :5], (4, 5, 5)),
        np.broadcast_to(whole[0, 0, :5], (5, 5)),
        np.asfortranarray(whole[0]),
        whole[:, :6, :6].transpose(1, 2, 0)[:, :, ::2],
    ]
    for a in views:
        dense = np.ascontiguousarray(a)
        for name in ("svd", "qr"):
            for x, y in zip(getattr(serial, name)(a), getattr(serial, name)(dense), strict=True):
                np.testing.assert_array_equal(x, y)
    misaligned = np.frombuffer(b"\0" + np.eye(3).tobytes(), np.uint8)[1:].view(np.float64).reshape(3, 3)
    np.testing.assert_array_equal(serial.svdvals(misaligned), [1.0, 1.0, 1.0])
    np.testing.assert_array_equal(serial.svdvals(np.eye(3, dtype=">f8")), [1.0, 1.0, 1.0])


def test_the_namespace_holds_its_engine() -> None:
    linalg = td.CpuEngine.serial().linalg
    assert linalg.svdvals(np.eye(2)).tolist() == [1.0, 1.0]
    engine = td.CpuEngine.serial()
    engine.close()
    with pytest.raises(td.EngineClosedError, match=r"^svd"):
        engine.linalg.svd(np.eye(2))


# --- cases -------------------------------------------------------------------------------------------------------

LAST_NAN = np.eye(4)
LAST_NAN[2, 3] = np.nan
CORNER = np.eye(40)
CORNER[39, 0] = CORNER[0, 39] = np.nan
INFINITE = np.ones((3, 3))
INFINITE[1, 0] = INFINITE[0, 1] = np.inf


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_c_lin_01_non_finite_input_is_refused_within_a_second(dtype: Any, threads: int) -> None:
    bad = [INFINITE, np.array([[0, 0], [np.nan, np.nan]]), LAST_NAN, CORNER]
    with td.CpuEngine(threads) as engine:
        linalg = engine.linalg
        for matrix in bad:
            a = matrix.astype(dtype)
            n = a.shape[0]
            good = (np.eye(n) * 2).astype(dtype)
            batch = np.stack([good, good, a, good, a])
            upper = bool(np.all(np.isfinite(np.tril(a))))
            uplo = "U" if upper else "L"
            calls: list[tuple[int, Callable[[Any], object]]] = [
                (0, linalg.svd),
                (0, lambda x: linalg.svd(x, full_matrices=False)),
                (0, lambda x: linalg.svd(x, compute_uv=False)),
                (0, linalg.svdvals),
                (0, linalg.qr),
                (0, lambda x: linalg.eigh(x, UPLO=uplo)),
                (0, lambda x: linalg.eigvalsh(x, UPLO=uplo)),
                (0, lambda x: linalg.cholesky(x, upper=upper)),
                (0, lambda x: linalg.solve(x, good)),
                (1, lambda x: linalg.solve(good, x)),
            ]
            for operand, call in calls:
                for given, index in ((a, 0), (batch, 2)):
                    begin = time.perf_counter()
                    with pytest.raises(td.NonFiniteError) as caught:
                        call(given)
                    assert time.perf_counter() - begin < 1
                    assert caught.value.index == index
                    assert caught.value.operand == operand
        assert linalg.svdvals(np.eye(2)).tolist() == [1.0, 1.0]


def test_unchecked_non_finite_items_come_back_as_nan(serial: Linalg) -> None:
    a = np.stack([np.eye(150), np.full((150, 150), np.inf), np.eye(150)])
    for result in (
        *serial.svd(a, check_finite=False),
        *serial.eigh(a, check_finite=False),
        *serial.qr(a, check_finite=False),
    ):
        assert np.all(np.isnan(result[1]))
        assert np.all(np.isfinite(result[[0, 2]]))
    assert np.all(np.isnan(serial.solve(a, np.ones(150), check_finite=False)[1]))


def test_c_lin_02_diagonal_matrices_are_exact(serial: Linalg) -> None:
    for n in range(1, 131):
        a = np.diag(np.arange(n, 0, -1.0))
        w, v = serial.eigh(a)
        np.testing.assert_array_equal(w, np.arange(1.0, n + 1))
        np.testing.assert_array_equal((v * w) @ v.T, a)
        u, s, vh = serial.svd(a)
        np.testing.assert_array_equal(s, np.arange(n, 0, -1.0))
        np.testing.assert_array_equal((u * s) @ vh, a)


def test_c_lin_03_permutations_change_nothing(serial: Linalg) -> None:
    rng = np.random.default_rng(3)
    for n in [*range(31, 35), *range(63, 67), *range(127, 131)]:
        a = hermitian(rng.standard_normal((n, n)))
        order = rng.permutation(n)
        check_eigh(a, serial.eigh(a))
        w = serial.eigh(a[np.ix_(order, order)]).eigenvalues
        np.testing.assert_allclose(w, serial.eigh(a).eigenvalues, rtol=0, atol=1e-13 * np.linalg.norm(a))
    base = rng.integers(-3, 4, (15, 15)).astype(float)
    base += base.T
    one = serial.eigvalsh(base)
    for a in (np.kron(base, np.eye(3)), np.kron(np.eye(3), base)):
        np.testing.assert_allclose(serial.eigh(a).eigenvalues, np.repeat(one, 3), atol=1e-13 * np.linalg.norm(a))


def awkward(rng: np.random.Generator, n: int) -> Iterator[np.ndarray]:
    gauss = rng.standard_normal((n, n))
    rank = max(1, n // 3)
    yield gauss
    yield rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n)) + 1e-16 * gauss
    yield gauss * np.logspace(0, -16, n)
    yield gauss * np.sqrt(rng.random(n))
    q1, q2 = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    yield (q1 * (1.0 + np.arange(n) // 3)) @ q2
    yield (q1 * np.where(np.arange(n) < n // 2, np.arange(1.0, n + 1), 0.0)) @ q2


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param([*range(2, 41, 3), 100], id="to 100"),
        pytest.param([128, 160, 256], id="to 256", marks=pytest.mark.slow),
    ],
)
def test_c_lin_04_and_06_svd_and_eigh_converge_with_the_same_bits_at_every_width(orders: list[int]) -> None:
    rng = np.random.default_rng(4)
    engines = [td.CpuEngine(threads) for threads in (1, 2, 3, 8)]
    try:
        for n in orders:
            for a in awkward(rng, n):
                h = hermitian(a)
                results = [(*engine.linalg.svd(a), *engine.linalg.eigh(h), *engine.linalg.qr(a)) for engine in engines]
                check_svd(a, True, results[0][:3])
                check_eigh(h, results[0][3:5])
                for other in results[1:]:
                    for x, y in zip(results[0], other, strict=True):
                        assert x.tobytes() == y.tobytes()
    finally:
        for engine in engines:
            engine.close()


@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_c_lin_07_rank_one_blocks(serial: Linalg, dtype: Any) -> None:
    for m in (1, 2, 5, 17, 33, 64):
        for n in (1, 2, 3, 16, 31, 64):
            s = serial.svd(np.ones((m, n), dtype)).S
            first = (m * n) ** 0.5
            assert s[0] == pytest.approx(first, rel=1e-14)
            assert np.all(s[1:] < 1e-13 * first)
            outer = np.outer(np.arange(m) - 1.5, np.arange(n) + 0.25).astype(dtype)
            check_svd(outer, True, serial.svd(outer))
        np.testing.assert_array_equal(serial.svdvals(np.eye(m, dtype=dtype)), np.ones(m))


@pytest.mark.parametrize("n", [64, 130, 200, 300, 400])
def test_rank_deficient_graded_tiny_and_huge_matrices(serial: Linalg, n: int) -> None:
    rng = np.random.default_rng(n)
    q1, q2 = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    for rank in (n // 4, n // 2):
        values = np.where(np.arange(n) < rank, rank - np.arange(n), 0.0)
        a = (q1 * values) @ q2
        result = serial.svd(a)
        check_svd(a, True, result)
        np.testing.assert_allclose(result.S, values, rtol=0, atol=1e-13 * rank)
        h = hermitian((q1 * values) @ q1.T)
        check_eigh(h, serial.eigh(h))
    a = rng.standard_normal((n, n))
    unit = serial.svd(a)
    for scale in (2.0**-1000, 1e-300, 1e-50, 1e100, 1e160, 1e300):
        for x, f in ((a * scale, serial.svd), (hermitian(a) * scale, serial.eigh)):
            factors = list(f(x))
            where = 1 if f == serial.svd else 0
            factors[where] = factors[where] / scale
            (check_svd if f == serial.svd else lambda a, _, r: check_eigh(a, r))(x / scale, True, tuple(factors))
    # A power of two is exact.
    np.testing.assert_array_equal(serial.svd(a * 2.0**-400).S, unit.S * 2.0**-400)
    # Denormals: as many digits as the entries have.
    denormal = a * 1e-310
    s = serial.svdvals(denormal)
    np.testing.assert_allclose(s * 1e300, np.linalg.svd(denormal * 1e300, compute_uv=False), rtol=0, atol=1e-20)


@pytest.mark.parametrize("name", ["zeros", "zero first column", "equal rows", "multiple"])
def test_c_lin_10_singular_systems(linalg: Linalg, name: str) -> None:
    a = {
        "zeros": np.zeros((3, 3)),
        "zero first column": np.array([[0.0, 1.0, 5.0], [0.0, 2.0, 1.0], [0.0, 0.0, 1.0]]),
        "equal rows": np.array([[0.0, 1.0], [0.0, 1.0]]),
        "multiple": np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [8.0, 10.0, 12.0]]),
    }[name]
    n = len(a)
    with pytest.raises(td.SingularMatrixError) as caught:
        linalg.solve(a, np.ones(n))
    assert caught.value.index == 0
    batch = np.stack([np.eye(n)] * 5 + [a] + [np.eye(n)] * 3 + [a])
    with pytest.raises(td.SingularMatrixError) as caught:
        linalg.solve(batch, np.ones((n, 1)))
    assert caught.value.index == 5
    with pytest.raises(np.linalg.LinAlgError):
        linalg.solve(batch.reshape(2, 5, n, n), np.ones(n))


def test_tiny_pivots_are_no_singularity(serial: Linalg) -> None:
    tiny = 2.0**-600
    x = serial.solve([[1.0, 1.0], [0.0, tiny]], [3.0, 2 * tiny])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    for scale in (1e-300, 1e300):
        a = np.array([[2.0, 1.0], [1.0, 1.0]]) * scale
        np.testing.assert_allclose(serial.solve(a, a @ [2.0, 1.0]), [2.0, 1.0], rtol=1e-14)


def test_c_lin_11_small_values_are_kept(serial: Linalg) -> None:
    rng = np.random.default_rng(11)
    near = np.eye(3, dtype=np.float32) + np.float32(1e-21) * rng.standard_normal((3, 3)).astype(np.float32)
    np.testing.assert_allclose(serial.svd(near).S, 1.0, rtol=0, atol=1e-6)
    phases = np.diag(np.exp(1j * np.arange(5))) + 1e-17 * rng.standard_normal((5, 5))
    np.testing.assert_allclose(serial.svd(phases).S, 1.0, rtol=0, atol=1e-14)
    for dtype, decades in ((np.float64, 12), (np.float32, 6)):
        values = np.logspace(0, -decades, 20)
        q1, q2 = (np.linalg.qr(rng.standard_normal((20, 20)))[0] for _ in range(2))
        a = ((q1 * values) @ q2).astype(dtype)
        np.testing.assert_allclose(serial.svd(a).S, values, rtol=0, atol=16 * eps(dtype))


WIDE = """
import resource
import numpy as np
import treadle as td
limit = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
with td.CpuEngine(2) as engine:
    for a in (np.ones((51, 64000)), np.ones((64000, 51))):
        u, s, vh = engine.linalg.svd(a, full_matrices=False)
        assert abs(s[0] - 3264000 ** 0.5) < 1e-9, s[0]
        assert s[1] < 1e-9, s[1]
        assert np.linalg.norm((u * s) @ vh - 1) < 1e-13 * s[0]
    try:
        engine.linalg.svd(np.ones((51, 64000)), full_matrices=True)
    except td.OutOfMemoryError as error:
        print("refused", isinstance(error, MemoryError))
    print(engine.state, engine.linalg.svdvals(np.eye(2)))
"""


def test_c_lin_12_very_wide_matrices_within_four_gibibytes(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    pytest.importorskip("resource")
    done = run_python("-c", WIDE, env={"OPENBLAS_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["refused True", "open [1. 1.]"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_c_lin_13_indefinite_matrices(linalg: Linalg, dtype: Any) -> None:
    eye = np.eye(3, dtype=dtype)
    large = np.eye(200, dtype=dtype)
    large[150, 150] = -1
    for a, index in (
        (np.arange(9).reshape(3, 3).astype(dtype), 0),
        (np.stack([eye, eye, -eye, eye, -eye]), 2),
        (large, 0),
        (np.zeros((3, 3), dtype), 0),
    ):
        for upper in (False, True):
            with pytest.raises(td.NotPositiveDefiniteError) as caught:
                linalg.cholesky(a, upper=upper)
            assert caught.value.index == index
    with pytest.raises(td.NotPositiveDefiniteError, match="minor of order 151"):
        linalg.cholesky(large)


def test_only_one_triangle_is_read(serial: Linalg) -> None:
    rng = np.random.default_rng(13)
    a = positive(normal(rng, (6, 6), np.complex128))
    lower = np.where(np.tri(6, dtype=bool), a, np.nan)
    upper = np.where(np.tri(6, dtype=bool).T, a, np.nan)
    check_eigh(a, serial.eigh(lower))
    check_eigh(a, serial.eigh(upper, UPLO="u"))
    np.testing.assert_array_equal(serial.cholesky(lower), serial.cholesky(a))
    np.testing.assert_array_equal(serial.cholesky(upper, upper=True), serial.cholesky(a, upper=True))


def test_c_lin_14_vector_or_matrix(serial: Linalg) -> None:
    three = np.stack([np.eye(2) * k for k in (1.0, 2.0, 4.0)])
    two = three[:2]
    b = np.array([[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]])
    np.testing.assert_array_equal(serial.solve(three, b), np.stack([b, b / 2, b / 4]))
    with pytest.raises(td.MatrixShapeError):
        serial.solve(three, np.ones((3, 2)))
    np.testing.assert_array_equal(serial.solve(three, np.array([4.0, 8.0])), [[4, 8], [2, 4], [1, 2]])
    np.testing.assert_array_equal(serial.solve(two, np.eye(2)), np.stack([np.eye(2), np.eye(2) / 2]))
    with pytest.raises(td.MatrixShapeError):
        serial.solve(three[:1], np.ones((3, 2)))
    np.testing.assert_array_equal(serial.solve(three[1], np.ones((2, 2, 2))), np.full((2, 2, 2), 0.5))
    with pytest.raises(td.BroadcastError, match="3 and 4"):
        serial.solve(three, np.ones((4, 2, 1)))


@pytest.mark.parametrize("policy", ["auto", "sequential", "outer", "inner", ("split", 2)])
def test_c_lin_16_items_have_the_bits_of_the_single_call(policy: Any) -> None:
    rng = np.random.default_rng(16)
    with td.CpuEngine(3, batch=policy) as engine, td.CpuEngine.serial() as single:
        for shape in [(500, 16, 16), (40, 33, 33), (60, 60, 3), (2, 150, 150)]:
            a = rng.standard_normal(shape)
            square = a if shape[1] == shape[2] else np.einsum("bij,bik->bjk", a, a)
            p = positive(square)
            functions: list[tuple[str, Any]] = [("svd", a), ("qr", a), ("svdvals", a), ("eigh", p), ("cholesky", p)]
            for name, given in functions:
                batch = getattr(engine.linalg, name)(given)
                for i in (0, 1, shape[0] - 1):
                    one = getattr(single.linalg, name)(given[i])
                    pairs = [(batch, one)] if isinstance(batch, np.ndarray) else zip(batch, one, strict=True)
                    for x, y in pairs:
                        assert x[i].tobytes() == y.tobytes()
            check_svd(a, True, engine.linalg.svd(a))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_lowest_failing_index_is_reported(threads: int) -> None:
    batch = np.stack([np.eye(8)] * 400)
    batch[[37, 38, 200, 399]] = 0.0
    with td.CpuEngine(threads, batch="outer") as engine:
        for _ in range(5):
            with pytest.raises(td.SingularMatrixError) as caught:
                engine.linalg.solve(batch, np.ones(8))
            assert caught.value.index == 37
            with pytest.raises(td.NotPositiveDefiniteError) as refused:
                engine.linalg.cholesky(batch.reshape(20, 20, 8, 8))
            assert refused.value.index == 37


def test_nearly_dependent_columns_are_kept(serial: Linalg) -> None:
    for m, ratio in ((100, 4.0618e-12), (1000, 1.2903e-12), (8192, 4.5103e-13)):
        a = np.ones((m, 3))
        a[0, 1] += 1e-10
        a[1, 2] += 1e-6
        q, r = serial.qr(a)
        assert np.linalg.norm(q @ r - a) < 1e-13 * np.linalg.norm(a)
        for s in (serial.svdvals(r), serial.svdvals(a), serial.svd(a, full_matrices=False).S):
            assert s[2] / s[0] == pytest.approx(ratio, abs=4e-15)


# --- found by attack ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_qr_of_what_is_left_below_the_smallest_square(serial: Linalg, dtype: Any) -> None:
    """The squares of a column's rest underflow, while the column itself is of order one."""
    tiny = float(np.finfo(dtype).tiny)
    phase = 1 + 1j if np.dtype(dtype).kind == "c" else 1
    for size in (tiny * 1e8, tiny, tiny * 1e-4):
        a = np.array([[1, 1], [0, size * phase]], dtype)
        q, r = serial.qr(a)
        np.testing.assert_allclose(q.conj().T @ q, np.eye(2), atol=8 * np.finfo(dtype).eps)
        np.testing.assert_allclose(abs(r[1, 1]), abs(a[1, 1]), rtol=1e-2)
    steps = np.geomspace(1, tiny, 100)[:, None]
    for graded in (normal(np.random.default_rng(3), (100, 100), dtype) * steps, np.eye(100, 2) + steps):
        q, _ = serial.qr(graded.astype(dtype))
        n = q.shape[1]
        np.testing.assert_allclose(q.conj().T @ q, np.eye(n), atol=100 * np.finfo(dtype).eps)


def test_solve_refuses_a_singular_matrix_without_right_hand_sides(serial: Linalg) -> None:
    with pytest.raises(td.SingularMatrixError):
        serial.solve(np.zeros((3, 3)), np.ones((3, 0)))
    assert serial.solve(np.eye(3), np.ones((3, 0))).shape == (3, 0)


def test_outputs_of_svd_lie_apart_from_each_other(serial: Linalg) -> None:
    a = np.array([[2.0, 1.0], [1.0, 3.0]])
    u, s, vh = np.zeros((2, 2)), np.zeros(2), np.zeros((2, 2))
    for out in ((u, s, u), (u, u[0], vh), (u, vh[1], vh)):
        with pytest.raises(td.AliasingError, match="share memory"):
            serial.svd(a, out=out)
    assert not u.any()
    assert not vh.any()


def test_flags_are_what_is_true_as_in_numpy(serial: Linalg) -> None:
    a = np.ones((3, 2))
    assert serial.svd(a, 0).U.shape == (3, 2)
    assert serial.svd(a, np.True_).U.shape == (3, 3)
    np.testing.assert_array_equal(serial.svd(a, 1, 0), serial.svdvals(a))
    assert serial.cholesky(np.eye(2), upper=1).shape == (2, 2)
