"""``rank_revealing_qr`` against its definition, numpy's rank and scipy's pivots."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]


@pytest.fixture
def linalg() -> Any:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


def matrix(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Normal entries."""
    random = np.random.default_rng(seed)
    a = random.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * random.standard_normal(shape)
    return a.astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (7, 3), (40, 40), (2, 3, 12, 9), (0, 4, 3), (5, 0, 3)])
def test_factors_have_their_shapes_and_give_the_matrix(linalg: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    a = matrix(shape, dtype)
    q, r, perm, rank = linalg.rank_revealing_qr(a)
    *batch, m, n = shape
    k = min(m, n)
    assert (q.shape, r.shape, perm.shape) == ((*batch, m, k), (*batch, k, n), (*batch, n))
    assert (q.dtype, r.dtype, perm.dtype) == (a.dtype, a.dtype, np.int64)
    assert np.shape(rank) == tuple(batch)
    assert (np.asarray(rank) == k).all()
    moved = np.take_along_axis(a, np.broadcast_to(perm[..., None, :], a.shape), axis=-1)
    bound = 30 * np.finfo(dtype).eps * max(m, n, 1) ** 0.5
    assert np.linalg.norm(q @ r - moved) <= bound * max(np.linalg.norm(a), 1)
    assert np.abs(q.conj().swapaxes(-1, -2) @ q - np.eye(k)).max(initial=0) <= bound


def test_pivots_are_those_of_lapack(linalg: Any) -> None:
    scipy = pytest.importorskip("scipy.linalg")
    a = matrix((30, 20), np.float64, 3)
    _, r, perm, _ = linalg.rank_revealing_qr(a)
    _, right, pivots = scipy.qr(a, mode="economic", pivoting=True)
    assert perm.tolist() == pivots.tolist()
    assert np.allclose(np.abs(np.diag(r)), np.abs(np.diag(right)), rtol=1e-12)


def test_rank_by_tolerance(linalg: Any) -> None:
    a = matrix((50, 6), np.float64) @ matrix((6, 40), np.float64, 1)
    assert linalg.rank_revealing_qr(a, rtol=1e-12)[3] == np.linalg.matrix_rank(a) == 6
    assert linalg.rank_revealing_qr(np.diag([4.0, 2.0, 1.0]), atol=1.0)[3] == 2
    assert linalg.rank_revealing_qr(np.diag([4.0, 2.0, 1.0]), rtol=0.25)[3] == 2
    assert linalg.rank_revealing_qr(np.diag([4.0, 2.0, 1.0]), rtol=1e308)[3] == 0
    ranks = linalg.rank_revealing_qr(np.stack([np.zeros((3, 3)), np.eye(3), np.diag([1.0, 0, 0])]))[3]
    assert ranks.tolist() == [0, 3, 1]


def test_canonical_gauge_and_strides(linalg: Any) -> None:
    a = matrix((2, 9, 14), np.complex128)[:, ::-1, ::2]
    q, r, perm, _ = linalg.rank_revealing_qr(a, gauge="canonical")
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    assert (diagonal.imag == 0).all()
    assert (diagonal.real > 0).all()
    other = linalg.rank_revealing_qr(np.asfortranarray(a[1]), gauge="canonical")
    assert (other[0].tobytes(), other[1].tobytes()) == (q[1].tobytes(), r[1].tobytes())
    assert other[2].tolist() == perm[1].tolist()


def test_refusals(linalg: Any) -> None:
    with pytest.raises(td.exceptions.ArgumentError, match="rtol must be finite"):
        linalg.rank_revealing_qr(np.eye(2), rtol=-1.0)
    with pytest.raises(td.exceptions.ArgumentError, match="atol must be finite"):
        linalg.rank_revealing_qr(np.eye(2), atol=np.nan)
    with pytest.raises(td.exceptions.ArgumentError, match="gauge"):
        linalg.rank_revealing_qr(np.eye(2), gauge="positive")
    with pytest.raises(td.exceptions.MatrixShapeError):
        linalg.rank_revealing_qr(np.ones(3))
    bad = np.stack([np.eye(3)] * 4)
    bad[2, 1, 1] = np.inf
    with pytest.raises(td.exceptions.NonFiniteError) as caught:
        linalg.rank_revealing_qr(bad)
    assert caught.value.index == 2
    q, _, _, rank = linalg.rank_revealing_qr(bad, check_finite=False)
    assert np.isnan(q[2]).all()
    assert rank.tolist() == [3, 3, 0, 3]


@pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")
def test_bits_do_not_depend_on_the_width() -> None:
    a = matrix((3, 150, 120), np.float64, 7)
    with td.CpuEngine.serial() as engine:
        right = engine.linalg.rank_revealing_qr(a)
    for width in (2, 3, 8):
        with td.CpuEngine(width) as engine:
            found = engine.linalg.rank_revealing_qr(a)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(found, right, strict=True))
