"""The cases of linalg.md at their full sizes, and those that no function alone belongs to: bits and zeros by width."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

WIDTHS = (1, 2, 3, 8, 16)
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
def serial() -> Iterator[Any]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


def same_bits(one: Any, other: Any) -> bool:
    """Whether two results, arrays or tuples of them, are equal bit for bit."""
    if isinstance(one, np.ndarray):
        return one.tobytes() == other.tobytes()
    return all(x.tobytes() == y.tobytes() for x, y in zip(one, other, strict=True))


# --- C-LIN-02 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_lin_02_descending_diagonals_give_unit_vectors(serial: Any, dtype: Any) -> None:
    """C-LIN-02: values exactly 1..n, and each vector plus or minus (or a phase times) the unit vector of its value."""
    some = [*range(1, 20), *range(31, 36), *range(63, 67), *range(127, 131)]
    for n in range(1, 131):
        if dtype != np.float64 and n not in some:
            continue
        a = np.diag(np.arange(n, 0, -1)).astype(dtype)
        for uplo in ("L", "U") if n in some else ("L",):
            w, v = serial.eigh(a, UPLO=uplo)
            assert w.tolist() == [*range(1, n + 1)], n
            assert (np.abs(v) == np.eye(n)[::-1]).all(), n
            assert ((v * w) @ v.conj().T == a).all(), n
            if n in some:
                assert (serial.eigvalsh(a, UPLO=uplo) == w).all(), n


# --- C-LIN-04 ----------------------------------------------------------------------------------------------------


def ordinary(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    """Ordinary finite matrices on which an SVD gave up somewhere."""
    gauss = rng.standard_normal((n, n))
    rank = max(1, n // 3)
    q1, q2 = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return {
        "gauss": gauss,
        "low rank": rng.standard_normal((n, rank)) @ rng.standard_normal((rank, n)) + 1e-16 * gauss,
        "graded": gauss * np.logspace(0, -16, n),
        "repeated": (q1 * (1.0 + np.arange(n) // 3)) @ q2,
        "roots": gauss * np.sqrt(rng.random(n)),
        "tall": rng.standard_normal((n + n // 2 + 1, n)) * np.sqrt(rng.random(n)),
    }


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param([2, 3, 5, 16, 33, 40], id="small"),
        pytest.param(range(2, 41), id="2..40", marks=pytest.mark.slow),
        pytest.param([100, 131, 255], id="100..300", marks=pytest.mark.slow),
        pytest.param([400, 600], id="400..600", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
)
def test_lin_04_svd_converges_at_every_width(engines: dict[int, td.CpuEngine], orders: Any) -> None:
    """C-LIN-04: never NotConvergedError, small residuals, values of the first within 1e-13 (here: the same bits)."""
    rng = np.random.default_rng(44)
    for n in orders:
        for name, a in ordinary(rng, n).items():
            results = {w: engines[w].linalg.svd(a, full_matrices=False) for w in (1, 2, 3, 8)}
            u, s, vh = results[1]
            bound = 30 * np.finfo(float).eps * n**0.5
            assert np.all(s[:-1] >= s[1:]), (n, name)
            assert s[-1] >= 0
            assert np.linalg.norm((u * s) @ vh - a) <= bound * np.linalg.norm(a), (n, name)
            for q in (u, vh.T):
                assert np.linalg.norm(q.T @ q - np.eye(n)) <= bound * n**0.5, (n, name)
            for width, result in results.items():
                assert same_bits(result, results[1]), (n, name, width)
            # Values alone come from another algorithm, whose rounding grows with n; LAPACK's stays at a few eps.
            alone = engines[1].linalg.svdvals(a)
            assert np.max(np.abs(alone - s)) <= 2 * max(n, 16) * np.finfo(float).eps * s[0], (n, name)
            for width in (2, 3, 8):
                assert same_bits(engines[width].linalg.svdvals(a), alone), (n, name, width)


# --- C-LIN-05 ----------------------------------------------------------------------------------------------------


def blocks(n: int, dtype: Any, cut: int) -> np.ndarray:
    """A symmetric (or Hermitian) matrix of small integers in two blocks; what is outside them is exactly zero."""
    rng = np.random.default_rng([n, cut])
    a = rng.integers(-3, 4, (n, n)).astype(dtype)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.integers(-3, 4, (n, n)).astype(dtype)
    a = a + a.conj().T
    a[:cut, cut:] = 0
    a[cut:, :cut] = 0
    return a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n",
    [
        257,
        pytest.param(1000, marks=pytest.mark.slow),
        pytest.param(2047, marks=[pytest.mark.slow, pytest.mark.timeout(900)]),
    ],
)
def test_lin_05_blocks_of_zeros_stay_exactly_zero(engines: dict[int, td.CpuEngine], n: int, dtype: Any) -> None:
    """C-LIN-05: pooled products of row-major, column-major and reversed views equal the serial ones and are exact."""
    serial = engines[1]
    for cut in (n // 2, n // 3) if n < 2000 else (n // 2,):
        a = blocks(n, dtype, cut)
        first, second = a[:cut, :cut].astype(np.complex128), a[cut:, cut:].astype(np.complex128)
        expected = np.zeros((n, n), np.complex128)
        # BLAS is exact on integers of this size too.
        expected[:cut, :cut], expected[cut:, cut:] = first @ first, second @ second
        negative = np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]
        views = {
            "C": (a, a),
            "F": (np.asfortranarray(a), a),
            "reversed": (negative, negative),
            "one reversed": (a, negative),
            "rows reversed": (np.ascontiguousarray(a[::-1])[::-1], np.ascontiguousarray(a[:, ::-1])[:, ::-1]),
            "transposed": (a.T, a.T),
        }
        for name, (left, right) in views.items():
            right_answer = expected.T if name == "transposed" else expected
            base = serial.matmul(left, right)
            np.testing.assert_array_equal(base, right_answer, err_msg=name)
            for width in (2, 3, 8, 16) if n < 2000 else (2, 16):
                engine = engines[width]
                before = engine.stats()["pool"]["dispatches"]
                found = engine.matmul(left, right)
                assert engine.stats()["pool"]["dispatches"] > before, "the product is a pooled one"
                assert found.tobytes() == base.tobytes(), (name, width)
                for corner in (found[:cut, cut:], found[cut:, :cut]):
                    assert not corner.any(), (name, width)
                if n < 1000:
                    assert engine.einsum("ij,jk->ik", left, right, order="C").tobytes() == base.tobytes()
                    out = np.full((n, n), np.nan, dtype)[::-1, ::-1]
                    np.testing.assert_array_equal(engine.matmul(left, right, out=out), base)


# --- C-LIN-06 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "n",
    [
        48,
        97,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (64, 128, 191, 256, 300)),
        *(pytest.param(n, marks=[pytest.mark.slow, pytest.mark.timeout(600)]) for n in (385, 512)),
    ],
)
def test_lin_06_bits_of_factorisations_do_not_depend_on_the_width(
    engines: dict[int, td.CpuEngine], n: int, dtype: Any
) -> None:
    """C-LIN-06: values and vectors, widths 1 to 16, twice each; alone and as the last item of a batch."""
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n)) + (1j * rng.standard_normal((n, n)) if np.dtype(dtype).kind == "c" else 0)
    a = a.astype(dtype)
    h = a + a.conj().T
    p = (h @ h + n * np.eye(n)).astype(dtype)
    calls: list[Callable[[Any], Any]] = [
        lambda linalg: linalg.eigh(h),
        lambda linalg: linalg.eigh(h, UPLO="U", gauge="canonical"),
        lambda linalg: linalg.eigvalsh(h),
    ]
    if n < 256:
        calls += [
            lambda linalg: linalg.svd(a),
            lambda linalg: linalg.svdvals(a),
            lambda linalg: linalg.qr(a),
            lambda linalg: linalg.solve(a, h),
            lambda linalg: linalg.cholesky(p),
        ]
    stack = np.stack([np.eye(n, dtype=dtype), h, h])
    for call in calls:
        first = call(engines[1].linalg)
        for width in WIDTHS:
            for _ in range(2):
                assert same_bits(call(engines[width].linalg), first), width
    alone = engines[1].linalg.eigh(h)
    for width in WIDTHS:
        batch = engines[width].linalg.eigh(stack)
        assert same_bits((batch.eigenvalues[2], batch.eigenvectors[2]), alone), width


# --- C-LIN-07 ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_lin_07_every_rank_one_block_up_to_64(serial: Any, dtype: Any) -> None:
    """C-LIN-07 at all its sizes: ones, identities and outer products of 1..64 by 1..64."""
    for m in range(1, 65):
        for n in range(1, 65):
            first = (m * n) ** 0.5
            for a in (np.ones((m, n), dtype), np.outer(np.arange(1, m + 1), np.arange(n) - 0.5).astype(dtype)):
                u, s, vh = serial.svd(a, full_matrices=False)
                norm = np.linalg.norm(a)
                assert abs(s[0] - norm) <= 1e-13 * norm
                assert np.all(s[1:] < 1e-13 * s[0])
                assert np.linalg.norm((u * s) @ vh - a) <= 1e-13 * norm
                assert np.linalg.norm(u.conj().T @ u - np.eye(len(s))) < 1e-12
                assert np.linalg.norm(vh @ vh.conj().T - np.eye(len(s))) < 1e-12
            assert abs(serial.svdvals(np.ones((m, n), dtype))[0] - first) <= 1e-13 * first
            np.testing.assert_array_equal(serial.svdvals(np.eye(m, n, dtype=dtype)), np.ones(min(m, n)))


# --- C-LIN-16 ----------------------------------------------------------------------------------------------------

POLICIES: list[Any] = ["auto", "sequential", "outer", "inner", ("split", 1), ("split", 2), ("split", 3)]


@pytest.mark.parametrize("count", [60, pytest.param(5000, marks=pytest.mark.slow)])
def test_lin_16_many_small_matrices_under_every_policy(count: int) -> None:
    """C-LIN-16: 5000 matrices of 16x16, every function, every item the bits of the single call."""
    a = np.random.default_rng(16).standard_normal((count, 16, 16))
    h, p, b = a + a.swapaxes(1, 2), a @ a.swapaxes(1, 2) + 16 * np.eye(16), a[:, :, :3]
    calls: dict[str, Callable[[Any, Any], Any]] = {
        "svd": lambda linalg, i: linalg.svd(a[i]),
        "svdvals": lambda linalg, i: linalg.svdvals(a[i]),
        "qr": lambda linalg, i: linalg.qr(a[i]),
        "eigh": lambda linalg, i: linalg.eigh(h[i]),
        "eigvalsh": lambda linalg, i: linalg.eigvalsh(h[i]),
        "solve": lambda linalg, i: linalg.solve(a[i], b[i]),
        "cholesky": lambda linalg, i: linalg.cholesky(p[i]),
    }
    with td.CpuEngine(3) as engine, td.CpuEngine.serial() as serial:
        for name, call in calls.items():
            singles = [call(serial.linalg, i) for i in range(count)]
            if isinstance(singles[0], np.ndarray):
                expected: Any = np.stack(singles)
            else:
                expected = tuple(np.stack(parts) for parts in zip(*singles, strict=True))
            for policy in POLICIES:
                with engine.policy(batch=policy):
                    assert same_bits(call(engine.linalg, slice(None)), expected), (name, policy)


@pytest.mark.parametrize("n", [30, 31, 32, 33, 34])
def test_lin_16_neighbouring_sizes_under_every_policy(n: int) -> None:
    """C-LIN-16: n = 30..34, and svd of 60x3 in both modes, where the reduced one has the same leading vectors."""
    rng = np.random.default_rng(n)
    a, tall = rng.standard_normal((12, n, n)), rng.standard_normal((50, 60, 3))
    with td.CpuEngine(3) as engine, td.CpuEngine.serial() as serial:
        for policy in POLICIES:
            with engine.policy(batch=policy):
                for full in (True, False):
                    for stack in (a, tall):
                        u, s, vh = engine.linalg.svd(stack, full_matrices=full)
                        for i in (0, 1, len(stack) - 1):
                            assert same_bits((u[i], s[i], vh[i]), serial.linalg.svd(stack[i], full_matrices=full))
                        k = s.shape[-1]
                        residual = (u[..., :k] * s[:, None, :]) @ vh - stack
                        assert np.max(np.abs(residual)) < 1e-13 * 60
                w, v = engine.linalg.eigh(a + a.swapaxes(1, 2))
                assert same_bits((w[5], v[5]), serial.linalg.eigh((a + a.swapaxes(1, 2))[5]))
