"""svd and svdvals through the door: options, shapes, strides, ``out=``, widths, and matrices that break others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

WIDTHS = (1, 2, 3, 8)
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]

pytestmark = pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[int, td.CpuEngine]]:
    """Open engines by width."""
    made = {width: td.CpuEngine(width) for width in WIDTHS}
    yield made
    for engine in made.values():
        assert engine.state == "open"
        engine.close()


@pytest.fixture
def linalg(engines: dict[int, td.CpuEngine]) -> Any:
    return engines[1].linalg


def random(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def check(a: np.ndarray, result: Any, full: bool) -> None:
    """Shapes, dtypes, order, residual and orthogonality, within bounds from the sizes."""
    m, n = a.shape[-2:]
    k = min(m, n)
    u, s, vh = result
    assert u.shape == (*a.shape[:-2], m, m if full else k)
    assert vh.shape == (*a.shape[:-2], n if full else k, n)
    assert s.shape == (*a.shape[:-2], k)
    assert u.dtype == vh.dtype == a.dtype
    assert s.dtype == a.real.dtype
    eps = float(np.finfo(a.dtype).eps)
    bound = 30 * eps * np.sqrt(max(m, n))
    assert (np.diff(s, axis=-1) <= 0).all()
    assert (s >= 0).all()
    norm = np.linalg.norm(a, axis=(-2, -1))
    rebuilt = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
    assert (np.linalg.norm(rebuilt - a, axis=(-2, -1)) <= bound * norm).all()
    for q in (u, vh.conj().swapaxes(-1, -2)):
        gram = q.conj().swapaxes(-1, -2) @ q
        off = np.linalg.norm(gram - np.eye(q.shape[-1]), axis=(-2, -1))
        assert (off <= bound * np.sqrt(q.shape[-1])).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1), (3, 3), (4, 7), (16, 16), (17, 17), (9, 40), (40, 9), (33, 70), (130, 50), (6, 5, 5), (2, 3, 18, 4)],
)
def test_factors_of_every_shape(linalg: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    a = random(np.random.default_rng(sum(shape)), shape, dtype)
    for full in (True, False):
        check(a, linalg.svd(a, full_matrices=full), full)
    s = linalg.svd(a).S
    bound = 4 * float(np.finfo(dtype).eps) * np.sqrt(max(shape[-2:])) * s[..., :1]
    assert (np.abs(linalg.svdvals(a) - s) <= bound).all()
    assert (linalg.svdvals(a) == linalg.svd(a, compute_uv=False)).all()
    reference = np.linalg.svd(a.astype(np.result_type(dtype, np.float64)), compute_uv=False)
    assert (np.abs(s - reference) <= 4 * bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 8, 16, 21, 60])
def test_items_of_a_batch_have_the_bits_of_the_single_call(
    engines: dict[int, td.CpuEngine], dtype: Any, n: int
) -> None:
    a = random(np.random.default_rng(n), (19, n, n), dtype)
    expected = [engines[1].linalg.svd(item) for item in a]
    for engine in engines.values():
        for batch in ("auto", "sequential", "outer", "inner"):
            with engine.policy(batch=batch):
                found = engine.linalg.svd(a)
            for i, item in enumerate(expected):
                for x, y in zip(found, item, strict=True):
                    assert x[i].tobytes() == y.tobytes(), (i, batch, engine.threads)


def test_strides_of_every_kind_are_read_in_place(linalg: Any) -> None:
    rng = np.random.default_rng(4)
    for n in (5, 16, 30):
        room = rng.standard_normal((2 * n, 3 * n))
        for view in (room[:n, :n], room[::2, ::3], room[::-2, n : 2 * n], room[:n, :n].T, room[n::-1, 2 * n : n : -1]):
            one, other = linalg.svd(view), linalg.svd(np.ascontiguousarray(view))
            assert all(x.tobytes() == y.tobytes() for x, y in zip(one, other, strict=True))
    row = np.broadcast_to(np.array([1.0, 2.0, 2.0]), (5, 3))
    s = linalg.svdvals(row)
    assert abs(s[0] - np.sqrt(45)) < 1e-14
    assert s[1] < 1e-15
    same = np.broadcast_to(np.diag([3.0, 1.0]), (4, 2, 2))
    assert linalg.svdvals(same).tolist() == [[3.0, 1.0]] * 4


def test_out_takes_every_part(linalg: Any) -> None:
    a = np.random.default_rng(1).standard_normal((7, 4, 6))
    expected = linalg.svd(a, full_matrices=False)
    out = (np.full((7, 4, 4), np.nan), np.full((7, 4), np.nan), np.full((7, 4, 6), np.nan))
    found = linalg.svd(a, full_matrices=False, out=out)
    for x, y, z in zip(found, expected, out, strict=True):
        assert x is z
        assert x.tobytes() == y.tobytes()
    s = np.full((7, 4), np.nan)
    assert linalg.svd(a, compute_uv=False, out=s) is s
    assert s.tobytes() == linalg.svdvals(a).tobytes()
    for bad in (out[:2], (*out[:2], np.empty((7, 6, 6))), (a, *out[1:])):
        before = [x.copy() for x in out]
        with pytest.raises((td.exceptions.TreadleError, ValueError)):
            linalg.svd(a, full_matrices=False, out=bad)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(out, before, strict=True))


def test_empty_matrices_and_batches(linalg: Any) -> None:
    for shape in ((0, 3), (3, 0), (0, 0), (2, 0, 4), (0, 3, 3)):
        a = np.zeros(shape)
        for full in (True, False):
            found, expected = linalg.svd(a, full_matrices=full), np.linalg.svd(a, full_matrices=full)
            for x, y in zip(found, expected, strict=True):
                assert x.shape == y.shape
                assert (x == y).all()
        assert linalg.svdvals(a).shape == (*shape[:-2], min(shape[-2:]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [4, 12, 40, 100])
def test_nan_and_infinity_are_refused_or_answered_by_nan(linalg: Any, dtype: Any, n: int) -> None:
    for bad in (np.nan, np.inf, -np.inf):
        a = np.tile(np.eye(n, dtype=dtype), (5, 1, 1))
        a[3, n - 1, n - 1] = a[4, 0, 1] = bad
        for call in (linalg.svd, linalg.svdvals):
            with pytest.raises(td.exceptions.NonFiniteError) as caught:
                call(a)
            assert caught.value.index == 3
        u, s, vh = linalg.svd(a, check_finite=False)
        assert np.isnan(u[3:]).all()
        assert np.isnan(s[3:]).all()
        assert np.isnan(vh[3:]).all()
        assert (s[:3] == 1).all()
        assert np.isnan(linalg.svdvals(a, check_finite=False)[3:]).all()


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e160, 1e300])
def test_tiny_and_huge_entries(linalg: Any, scale: float) -> None:
    for n in (3, 16, 50):
        a = np.random.default_rng(n).standard_normal((n, n))
        s = linalg.svdvals(a * scale)
        expected = np.linalg.svd(a, compute_uv=False)
        assert (np.abs(s / scale - expected) <= 1e-13 * expected[0] + 1e-323 / scale * n).all()
        u, s, vh = linalg.svd(a * scale)
        assert np.isfinite(u).all()
        assert (np.abs(u @ u.T - np.eye(n)) < 1e-13).all()
        assert (np.abs(vh @ vh.T - np.eye(n)) < 1e-13).all()


def test_the_range_inside_one_matrix(linalg: Any) -> None:
    a = np.diag([1e300, 1.0, 1e-300, 5e-324])
    for shape in ((4, 4), (4, 6), (7, 4), (30, 30)):
        wide = np.zeros(shape)
        wide[:4, :4] = a
        for s in (linalg.svdvals(wide), linalg.svd(wide).S, linalg.svd(wide.astype(complex)).S):
            assert s[:2].tolist() == [1e300, 1.0]
    steep = np.triu(np.ones((60, 60))) * np.logspace(0, -280, 60)[:, None]
    check(steep, linalg.svd(steep), True)


def test_canonical_gauge(linalg: Any) -> None:
    for dtype in DTYPES:
        for shape in ((4, 4), (30, 30), (5, 9), (20, 3)):
            a = random(np.random.default_rng(8), shape, dtype)
            found = linalg.svd(a, full_matrices=False, gauge="canonical")
            check(a, found, False)
            u = found.U
            pivots = u[np.abs(u).argmax(axis=0), np.arange(u.shape[1])]
            assert (pivots.real > 0).all()
            assert (np.abs(pivots.imag) == 0).all()
    with pytest.raises(td.exceptions.ArgumentError):
        linalg.svd(np.eye(2), gauge="other")


def test_rank_deficient_matrices_at_many_orders(linalg: Any) -> None:
    """Q1 diag(1..r, 0..) Q2^T: where a divide and conquer was silently wrong."""
    rng = np.random.default_rng(12)
    for n in (20, 64, 128, 200):
        q1, q2 = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
        for rank in (1, n // 4, n // 2, n - 1):
            values = np.r_[np.arange(rank, 0, -1.0), np.zeros(n - rank)]
            a = (q1 * values) @ q2.T
            found = linalg.svd(a)
            check(a, found, True)
            assert (np.abs(found.S - values) <= 4 * np.sqrt(n) * 2.3e-16 * rank).all()
            assert (np.abs(linalg.svdvals(a) - values) <= 4 * np.sqrt(n) * 2.3e-16 * rank).all()


def test_hermitian_agrees_with_the_general_way(linalg: Any) -> None:
    for dtype in DTYPES:
        a = random(np.random.default_rng(2), (3, 12, 12), dtype)
        a = a + a.conj().swapaxes(-1, -2)
        found = linalg.svd(a, hermitian=True)
        check(a, found, True)
        bound = 60 * float(np.finfo(dtype).eps) * found.S[..., :1]
        assert (np.abs(found.S - linalg.svdvals(a)) <= bound).all()


def test_a_square_of_ones_and_its_kind(linalg: Any) -> None:
    for m in (1, 2, 5, 16, 17, 40, 64):
        for n in (1, 3, 16, 33, 64):
            for dtype in (np.float64, np.complex128):
                u, s, vh = linalg.svd(np.ones((m, n), dtype))
                assert abs(s[0] - np.sqrt(m * n)) <= 1e-14 * s[0]
                assert (s[1:] < 1e-13 * s[0]).all()
                assert np.abs(u.conj().T @ u - np.eye(m)).max() < 1e-13
                assert np.abs(vh @ vh.conj().T - np.eye(n)).max() < 1e-13
