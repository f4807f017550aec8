"""``eigh`` and ``eigvalsh`` against their definition and numpy."""

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


def hermitian(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    """Normal entries, symmetric or Hermitian."""
    random = np.random.default_rng(seed)
    a = random.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        a = a + 1j * random.standard_normal(shape)
    return ((a + a.conj().swapaxes(-1, -2)) / 2).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8, 9, 16, 31, 32, 33, 64, 100, 250])
def test_values_and_vectors(linalg: Any, dtype: Any, n: int) -> None:
    a = hermitian((3, n, n), dtype, n)
    for uplo, half in (("L", np.tril), ("U", np.triu)):
        w, v = linalg.eigh(half(a), UPLO=uplo)
        assert (w.dtype, v.dtype) == (np.linalg.eigvalsh(a).dtype, a.dtype)
        bound = 30 * np.finfo(dtype).eps * n**0.5
        norm = np.linalg.norm(a)
        assert np.linalg.norm((v * w[..., None, :]) @ v.conj().swapaxes(-1, -2) - a) <= bound * norm
        assert np.linalg.norm(v.conj().swapaxes(-1, -2) @ v - np.eye(n)) <= bound * n**0.5
        assert (np.diff(w) >= 0).all()
        right = np.linalg.eigvalsh(a.astype(np.complex128))
        assert np.abs(w - right).max() <= bound * norm
        alone = linalg.eigvalsh(half(a), UPLO=uplo)
        assert np.abs(alone - right).max() <= bound * norm


def test_values_are_accurate_to_a_few_units_of_the_norm(linalg: Any) -> None:
    """The second difference has known values; three reflections from both sides make it dense."""
    n = 1000
    a = 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    random = np.random.default_rng(0)
    for _ in range(3):
        u = random.standard_normal(n)
        u /= np.linalg.norm(u)
        a = a - 2 * np.outer(u, u @ a)
        a = a - 2 * np.outer(a @ u, u)
    a = (a + a.T) / 2
    right = 2 - 2 * np.cos(np.pi * np.arange(1, n + 1) / (n + 1))
    for w in (linalg.eigvalsh(a), linalg.eigh(a).eigenvalues):
        assert np.abs(w - right).max() <= 60 * np.finfo(float).eps * 4


@pytest.mark.parametrize("n", [2, 4, 8, 60])
def test_gauge_order_and_strides(linalg: Any, n: int) -> None:
    a = hermitian((2, n, n), np.complex128, 5)
    w, v = linalg.eigh(a, gauge="canonical")
    at = np.abs(v).argmax(axis=-2)
    largest = np.take_along_axis(v, at[..., None, :], axis=-2)
    assert (np.abs(largest.imag) < 1e-15).all()
    assert (largest.real > 0).all()
    for other in (np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], a[::-1][::-1]):
        found = linalg.eigh(other, gauge="canonical")
        assert (found[0].tobytes(), found[1].tobytes()) == (w.tobytes(), v.tobytes())
    one = np.broadcast_to(a[0], (4, n, n))
    assert (linalg.eigvalsh(one) == linalg.eigvalsh(a[0])).all()


def test_matrices_near_the_ends_of_the_range(linalg: Any) -> None:
    for n in (2, 5, 8, 20, 160):
        a = hermitian((n, n), np.float64, n)
        right = np.linalg.eigvalsh(a)
        for scale in (1e-300, 1e-50, 1e100, 1e300):
            for w in (linalg.eigvalsh(a * scale), linalg.eigh(a * scale)[0]):
                assert np.abs(w / scale - right).max() <= 1e-13 * np.abs(right).max()


def test_a_batch_that_mixes_good_and_bad(linalg: Any) -> None:
    for n in (3, 12):
        a = hermitian((20, n, n), np.float64)
        a[13, 1, 0] = np.nan
        a[17, 2, 2] = np.inf
        with pytest.raises(td.exceptions.NonFiniteError) as caught:
            linalg.eigh(a)
        assert caught.value.index == 13
        w, v = linalg.eigh(a, check_finite=False)
        assert np.isnan(w).any(axis=-1).nonzero()[0].tolist() == [13, 17]
        assert np.isnan(v[[13, 17]]).all()
        assert np.allclose((v[0] * w[0]) @ v[0].T, a[0])


@pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")
@pytest.mark.parametrize("shape", [(1000, 4, 4), (30, 7, 7), (1, 300, 300)])
def test_bits_do_not_depend_on_the_width(shape: tuple[int, ...]) -> None:
    a = hermitian(shape, np.float64, 1)
    with td.CpuEngine.serial() as engine:
        right = engine.linalg.eigh(a)
        assert engine.linalg.eigh(a[-1])[1].tobytes() == right[1][-1].tobytes()
    for width in (2, 3, 8):
        with td.CpuEngine(width) as engine:
            found = engine.linalg.eigh(a)
        assert all(x.tobytes() == y.tobytes() for x, y in zip(found, right, strict=True))
