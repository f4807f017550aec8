"""``qr`` against its definition and numpy."""

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
@pytest.mark.parametrize(
    "shape", [(1, 1), (2, 2), (3, 7), (8, 8), (8, 3), (9, 9), (65, 40), (40, 65), (300, 33), (200, 200), (2, 3, 4, 4)]
)
def test_every_mode(linalg: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    a = matrix(shape, dtype)
    *_, m, n = shape
    bound = 30 * np.finfo(dtype).eps * max(m, n) ** 0.5
    for gauge in ("raw", "canonical"):
        alone = linalg.qr(a, "r", gauge=gauge)
        for mode in ("reduced", "complete"):
            q, r = linalg.qr(a, mode, gauge=gauge)
            right = np.linalg.qr(a, mode)
            assert (q.shape, r.shape) == (right.Q.shape, right.R.shape)
            assert (np.tril(r, -1) == 0).all()
            assert np.linalg.norm(q @ r - a) <= bound * np.linalg.norm(a)
            size = q.shape[-1]
            assert np.linalg.norm(q.conj().swapaxes(-1, -2) @ q - np.eye(size)) <= bound * max(q[..., 0, 0].size, size)
            assert r[..., : min(m, n), :].tobytes() == alone.tobytes()
            diagonal = np.diagonal(r, axis1=-2, axis2=-1)
            assert (diagonal.imag == 0).all()
            assert gauge == "raw" or (diagonal.real > 0).all()


def test_small_matrices_that_need_care_stand_among_ordinary_ones(linalg: Any) -> None:
    """Zero columns, dependent ones and entries near the ends of the range, each with the bits that it has alone."""
    a = matrix((40, 4, 4), np.float64)
    a[3, :, 1] = 0
    a[7] = 1
    a[8] *= 1e-300
    a[9] *= 1e300
    a[10] = 0
    a[11, :, 2] *= 1e-170
    a[12] = np.diag([1.0, -2, 3, 0])
    q, r = linalg.qr(a)
    scale = np.abs(a).max(axis=(-1, -2), keepdims=True)
    scale[scale == 0] = 1
    assert np.abs(q @ (r / scale) - a / scale).max() <= 1e-14
    assert np.abs(q.swapaxes(-1, -2) @ q - np.eye(4)).max() <= 1e-14
    for i in range(40):
        one = linalg.qr(a[i])
        assert (one[0].tobytes(), one[1].tobytes()) == (q[i].tobytes(), r[i].tobytes())
    a[20, 2, 2] = np.nan
    q, r = linalg.qr(a, check_finite=False)
    assert np.isnan(q).any(axis=(-1, -2)).nonzero()[0].tolist() == [20]
    with pytest.raises(td.exceptions.NonFiniteError) as caught:
        linalg.qr(a)
    assert caught.value.index == 20


@pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")
@pytest.mark.parametrize("shape", [(1000, 4, 4), (9, 60, 50), (1, 350, 340)])
def test_bits_do_not_depend_on_the_width_or_the_strides(shape: tuple[int, ...]) -> None:
    a = matrix(shape, np.float64, 1)
    with td.CpuEngine.serial() as engine:
        right = engine.linalg.qr(a)
        for other in (np.asfortranarray(a), np.ascontiguousarray(a[:, ::-1, ::-1])[:, ::-1, ::-1]):
            found = engine.linalg.qr(other)
            assert all(x.tobytes() == y.tobytes() for x, y in zip(found, right, strict=True))
    for width in (2, 3, 8):
        with td.CpuEngine(width) as engine:
            found = engine.linalg.qr(a)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(found, right, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (3, 7), (7, 3), (40, 33), (33, 70), (100, 100), (2, 3, 5, 4)])
def test_mode_raw_is_lapacks_form(linalg: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    a = matrix(shape, dtype)
    *batch, m, n = shape
    k = min(m, n)
    h, tau = linalg.qr(a, mode="raw")
    expected = np.linalg.qr(a, mode="raw")
    assert h.shape == expected[0].shape == (*batch, n, m)
    assert tau.shape == expected[1].shape == (*batch, k)
    assert h.dtype == tau.dtype == dtype
    bound = 60 * np.finfo(dtype).eps * max(m, n) ** 0.5
    lower = np.tril(np.ones((n, m), bool))
    r = linalg.qr(a, mode="r")
    assert np.abs(np.where(lower, h, 0)[..., :k].swapaxes(-1, -2) - r).max() <= bound * np.abs(r).max()
    # The same reflectors as LAPACK's, where a last one of a single entry may be left out.
    assert np.abs(h - expected[0]).max() <= bound * np.abs(a).max() * max(m, n)
    assert np.abs(tau[..., : k - 1] - expected[1][..., : k - 1]).max(initial=0) <= bound * max(m, n)


def test_mode_raw_of_nothing_and_of_bad_input(linalg: Any) -> None:
    for m, n in [(3, 0), (0, 3), (0, 0)]:
        h, tau = linalg.qr(np.zeros((m, n)), mode="raw")
        assert (h.shape, tau.shape) == ((n, m), (0,))
    with pytest.raises(td.exceptions.ArgumentError, match="canonical"):
        linalg.qr(np.eye(3), mode="raw", gauge="canonical")
    a = np.ones((2, 3, 3))
    a[1, 0, 0] = np.nan
    with pytest.raises(td.exceptions.NonFiniteError) as caught:
        linalg.qr(a, mode="raw")
    assert caught.value.index == 1
    h, tau = linalg.qr(a, mode="raw", check_finite=False)
    assert np.isnan(h[1]).all()
    assert np.isnan(tau[1]).all()
    assert np.isfinite(h[0]).all()
    assert np.isfinite(tau[0]).all()
