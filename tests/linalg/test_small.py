"""Batches of small matrices, which are computed side by side: every order, any strides, and failing items."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td

DTYPES = ["float32", "float64", "complex64", "complex128"]


def matrices(count, n, dtype):
    rng = np.random.default_rng(n)
    a = rng.integers(-3, 4, (count, n, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.integers(-3, 4, (count, n, n))
    return (a @ a.conj().swapaxes(-1, -2) + n * np.eye(n)).astype(dtype)


def layouts(a):
    """The same batch, as it may lie in memory."""
    count, n, _ = a.shape
    wide = np.full((count, n + 3, n + 5), np.nan, a.dtype)
    wide[:, 1 : n + 1, 2 : n + 2] = a
    spread = np.full((2 * count, n, 2 * n), np.nan, a.dtype)
    spread[::2, :, ::2] = a
    yield "C", a
    yield "F", np.asfortranarray(a)
    yield "transposed", np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    yield "cut out", wide[:, 1 : n + 1, 2 : n + 2]
    yield "spread", spread[::2, :, ::2]
    yield "backwards", np.ascontiguousarray(a[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    yield "rows backwards", np.ascontiguousarray(a[:, ::-1])[:, ::-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_has_the_same_bits(dtype):
    linalg = td.CpuEngine.serial().linalg
    for n in (1, 2, 3, 4, 5, 8, 9, 15, 16, 17, 25):
        a = matrices(19, n, dtype)
        b = np.arange(19 * n * 2).reshape(19, n, 2).astype(dtype)
        expected = {}
        for (name, given), (_, side) in zip(layouts(a), layouts_of_sides(b), strict=True):
            found = [
                linalg.solve(given, side),
                linalg.inv(given),
                linalg.det(given),
                *linalg.slogdet(given),
                linalg.cholesky(given),
                linalg.cholesky(given, upper=True),
                *linalg.lu_factor(given),
            ]
            expected = expected or found
            assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True)), (n, name)


def layouts_of_sides(b):
    """As `layouts`, for right-hand sides."""
    wide = np.full((*b.shape[:-1], 7), np.nan, b.dtype)
    wide[..., 1:3] = b
    yield "C", b
    yield "F", np.asfortranarray(b)
    yield "transposed", np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    yield "cut out", wide[..., 1:3]
    yield "cut out", wide[..., 1:3]
    yield "backwards", np.ascontiguousarray(b[::-1, ::-1, ::-1])[::-1, ::-1, ::-1]
    yield "rows backwards", np.ascontiguousarray(b[:, ::-1])[:, ::-1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_order_against_numpy(dtype):
    linalg = td.CpuEngine.serial().linalg
    eps = np.finfo(dtype).eps
    for n in range(1, 34):
        a = matrices(9, n, dtype)
        wide = a.astype(np.result_type(dtype, np.float64))
        norm = np.linalg.norm(wide, axis=(-2, -1))[:, None, None]
        bound = 100 * n * eps * norm
        inverse = linalg.inv(a)
        assert inverse.dtype == a.dtype
        off = np.abs(wide @ inverse - np.eye(n))
        assert (off <= bound * np.linalg.norm(inverse, axis=(-2, -1))[:, None, None]).all(), n
        lower, upper = linalg.cholesky(a), linalg.cholesky(a, upper=True)
        assert (np.abs(lower @ lower.conj().swapaxes(-1, -2) - wide) <= bound).all(), n
        assert (np.abs(upper.conj().swapaxes(-1, -2) @ upper - wide) <= bound).all(), n
        assert (np.triu(lower, 1) == 0).all()
        assert (np.tril(upper, -1) == 0).all()
        sign, logarithm = linalg.slogdet(a)
        reference = np.linalg.slogdet(wide)
        assert (np.abs(sign - 1) <= 100 * n * eps).all()
        assert np.allclose(logarithm, reference[1], rtol=100 * n * eps, atol=100 * n * eps)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_lowest_failing_item_is_named(threads):
    with td.CpuEngine(threads=threads) as engine:
        for n in (2, 4, 11, 16, 21):
            for bad in (0, 3, 7, 8, 15, 16, 24):
                a = np.tile(np.eye(n), (25, 1, 1))
                a[bad:, -1, -1] = 0
                for call in (engine.linalg.inv, engine.linalg.cholesky, lambda x: engine.linalg.solve(x, x)):
                    with pytest.raises(td.LinAlgError) as caught:
                        call(a)
                    assert caught.value.index == bad
                assert (engine.linalg.det(a)[:bad] == 1).all()
                assert (engine.linalg.det(a)[bad:] == 0).all()
                a[bad, 0, -1] = np.nan
                a[bad, -1, 0] = np.nan
                with pytest.raises(td.NonFiniteError) as caught:
                    engine.linalg.cholesky(a)
                assert caught.value.index == bad


def test_the_triangle_that_is_not_read_may_hold_anything():
    linalg = td.CpuEngine.serial().linalg
    for n in (3, 4, 16, 30):
        a = matrices(11, n, "float64")
        expected = linalg.cholesky(a)
        a[:, *np.triu_indices(n, 1)] = np.nan
        assert np.array_equal(linalg.cholesky(a), expected)
        flipped = np.ascontiguousarray(a.swapaxes(-1, -2))
        assert np.allclose(linalg.cholesky(flipped, upper=True), expected.swapaxes(-1, -2), rtol=1e-13)
        with pytest.raises(td.NonFiniteError):
            linalg.cholesky(a, upper=True)


def test_norms_of_plain_arrays():
    linalg = td.CpuEngine.serial().linalg
    for dtype in ("float32", "float64"):
        x = np.array([[3.0, 4.0], [0.0, 12.0]], dtype)
        assert linalg.norm(x) == 13
        assert linalg.norm(x).dtype == x.dtype
        assert linalg.norm(x[:, 1]) == pytest.approx(160**0.5, rel=1e-6)
        assert linalg.norm(np.asfortranarray(x)) == 13
    assert linalg.norm(np.array([3e300, 4e300])) == pytest.approx(5e300)
    assert linalg.norm(np.array([3e-300, 4e-300])) == pytest.approx(5e-300)
    assert linalg.norm(np.array([3.0, 4.0]).astype(">f8")) == 5
    assert linalg.norm(np.zeros(4)) == 0
    with pytest.raises(td.NonFiniteError) as caught:
        linalg.norm(np.array([1.0, np.nan]))
    assert caught.value.operation == "norm"
