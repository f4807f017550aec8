"""eig, eigvals and schur: residuals within bounds from sizes, numpy's shapes and dtypes, errors, and bits by width."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td

DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
SIZES = [1, 2, 3, 4, 5, 8, 13, 16, 31, 33, 47, 48, 63, 64, 81, 113]

pytestmark = pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning")


@pytest.fixture
def linalg() -> Iterator[Any]:
    with td.CpuEngine.serial() as engine:
        yield engine.linalg


def eps(dtype: Any) -> float:
    return float(np.finfo(dtype).eps)


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def lifted(x: np.ndarray, exponent: int) -> np.ndarray:
    """Times a power of two, in double precision, for numbers near either end of the range too."""
    wide = np.asarray(x, complex if x.dtype.kind == "c" else float)
    for part in (exponent // 2, exponent - exponent // 2):
        wide = wide * 2.0**part
    return wide


def unit(a: np.ndarray) -> tuple[np.ndarray, int]:
    """A matrix with entries of at most 1 in double precision, and the exponent of the power that did it."""
    largest = float(
        np.max(np.abs(a.real), initial=0)
        if a.dtype.kind != "c"
        else np.max(np.maximum(abs(a.real), abs(a.imag)), initial=0)
    )
    exponent = -int(np.frexp(largest)[1])
    return lifted(a, exponent), exponent


def denormal(n: int, exponent: int) -> float:
    """What rounding of results to denormal numbers may add, for a matrix that was lifted so far."""
    return n * 2.0 ** min(exponent - 1074, 0) if exponent > 900 else 0.0


def check_eig(a: np.ndarray, result: Any) -> None:
    """Every equation holds to rounding of the matrix, and the vectors have length one."""
    n = a.shape[-1]
    w, v = result
    assert w.shape == (n,)
    assert v.shape == (n, n)
    assert w.real.dtype == v.real.dtype == a.real.dtype
    matrix, exponent = unit(a)
    values = lifted(w, exponent)
    residual = np.linalg.norm(matrix @ v - v * values)
    bound = 24 * max(n, 2) ** 0.5 * max(1, n / 64) ** 0.5 * eps(a.dtype) * np.linalg.norm(matrix)
    assert residual <= bound + denormal(n, exponent), (n, residual, bound)
    np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, rtol=8 * max(n, 4) ** 0.5 * eps(a.dtype))


def check_schur(a: np.ndarray, t: np.ndarray, z: np.ndarray, *, real: bool) -> None:
    n = a.shape[-1]
    matrix, exponent = unit(a)
    bound = 24 * max(n, 2) ** 0.5 * max(1, n / 64) ** 0.5 * eps(a.dtype)
    wide = lifted(t, exponent)
    off = np.linalg.norm(z @ wide @ z.conj().T - matrix)
    assert off <= bound * np.linalg.norm(matrix) + denormal(n, exponent)
    assert np.linalg.norm(z.conj().T @ z - np.eye(n)) <= bound * n**0.5
    assert (np.tril(t, -2 if real else -1) == 0).all()
    if real:
        below = np.diag(t, -1)
        assert not (below[1:] * below[:-1]).any()
        for i in np.flatnonzero(below):
            assert t[i, i] == t[i + 1, i + 1]
            assert np.sign(t[i, i + 1]) == -np.sign(t[i + 1, i])


def nasty(rng: np.random.Generator, n: int, dtype: Any) -> dict[str, np.ndarray]:
    """Matrices on which eigenvalue iterations have stalled or gone wrong."""
    x = normal(rng, (n, n), dtype)
    shift = np.eye(n, k=1)
    cycle = shift.copy()
    cycle[-1, 0] = 1
    halves = x.copy()
    halves[n // 2 :, : n // 2] = 0
    named = {
        "random": x,
        "upper": np.triu(x),
        "lower": np.tril(x),
        # Francis shifts of a cyclic shift are all zero or of one modulus: only made-up shifts get on.
        "cyclic": cycle,
        "nilpotent": shift,
        "jordan": shift + np.eye(n),
        "near defective": shift + np.eye(n) + 1e-12 * cycle,
        "ones": np.ones((n, n)),
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "graded columns": x * np.logspace(0, -16, n),
        "graded rows": x * np.logspace(0, -16, n)[:, None],
        "sparse": x * (rng.random((n, n)) < 0.2),
        "block zero": halves,
        "rank one": np.outer(x[0], x[:, 0]),
        "hilbert": 1 / (np.arange(n)[:, None] + np.arange(n) + 1.0),
        "vandermonde": np.vander(np.linspace(-1, 1, n)),
        "kahan": np.triu(np.full((n, n), -0.3) + 1.3 * np.eye(n)) * (0.95 ** np.arange(n))[:, None],
        "clustered": np.eye(n) + 1e-10 * x,
        "skew": x - x.T,
        # Watkins: balancing makes tiny rounding large.
        "hessenberg with a small end": np.triu(x, -1) * np.where(np.arange(n) == n - 1, 1e-12, 1)[:, None],
    }
    if np.dtype(dtype).char in "dD":
        named |= {"tiny": x * 1e-300, "huge": x * (1e300 / n), "denormal": x * 1e-310}
    else:
        named |= {"tiny": x * 1e-30, "huge": x * 1e30}
    return {name: matrix.astype(dtype) for name, matrix in named.items()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_residuals_of_nasty_matrices(linalg: Any, dtype: Any, n: int) -> None:
    for name, a in nasty(np.random.default_rng(n), n, dtype).items():
        try:
            check_eig(a, linalg.eig(a))
            t, z = linalg.schur(a)
            check_schur(a, t, z, real=np.dtype(dtype).kind == "f")
            matrix, exponent = unit(a)
            found = np.sum(lifted(linalg.eigvals(a), exponent))
            limit = 40 * n * eps(dtype) * np.linalg.norm(matrix) + denormal(n, exponent)
            assert abs(found - np.trace(matrix)) <= limit, name
        except AssertionError as error:
            raise AssertionError(name) from error


@pytest.mark.parametrize("n", [200, 257])
def test_larger_matrices(linalg: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    for a in (normal(rng, (n, n), float), normal(rng, (n, n), complex), np.tril(normal(rng, (n, n), float))):
        check_eig(a, linalg.eig(a))
        t, z = linalg.schur(a)
        check_schur(a, t, z, real=a.dtype.kind == "f")


@pytest.mark.parametrize("dtype", [np.float64, np.complex128, np.float32])
@pytest.mark.parametrize("n", [97, 170, 301])
def test_chains_of_bulges_on_nasty_matrices(linalg: Any, dtype: Any, n: int) -> None:
    """Orders whose active blocks go through windows, with chains of every length."""
    for name, a in nasty(np.random.default_rng(n), n, dtype).items():
        t, z = linalg.schur(a)
        try:
            check_schur(a, t, z, real=np.dtype(dtype).kind == "f")
        except AssertionError as error:
            raise AssertionError(name) from error


def test_a_rotation_has_its_vectors_in_columns(linalg: Any) -> None:
    """Upstream 4.4: a real matrix with complex eigenvalues; the relative residual is at most 1e-14."""
    angle = 0.3
    a = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    w, v = linalg.eig(a)
    assert w.dtype == v.dtype == np.complex128
    assert np.linalg.norm(a @ v - v * w) <= 1e-14
    assert w[0].imag > 0
    assert w[1] == w[0].conj()
    assert (v[:, 1] == v[:, 0].conj()).all()
    single = linalg.eig(a.astype(np.float32))
    assert single.eigenvalues.dtype == np.complex64
    assert np.linalg.norm(a @ single.eigenvectors - single.eigenvectors * single.eigenvalues) <= 1e-6


def test_triangular_matrices_have_exact_eigenvalues(linalg: Any) -> None:
    rng = np.random.default_rng(3)
    for n in (2, 5, 40, 100):
        a = np.triu(rng.integers(-9, 10, (n, n))).astype(float)
        for matrix in (a, a.T, a[::-1, ::-1]):
            assert sorted(linalg.eigvals(matrix)) == sorted(np.diag(matrix))
            assert sorted(linalg.eig(matrix)[0]) == sorted(np.diag(matrix))
        assert (linalg.schur(a)[0] == a).all()


def test_real_results_for_real_eigenvalues_and_complex_ones_for_the_batch(linalg: Any) -> None:
    real, rotation = np.diag([1.0, 2.0]), np.array([[0.0, -1.0], [1.0, 0.0]])
    assert linalg.eig(real).eigenvalues.dtype == np.float64
    assert linalg.eigvals(np.stack([real, real])).dtype == np.float64
    w, v = linalg.eig(np.stack([real, rotation]))
    assert w.dtype == v.dtype == np.complex128
    assert w[0].tolist() == [1, 2]
    assert w[1].tolist() == [1j, -1j]
    assert type(linalg.eig(real)).__name__ == "EigResult"
    assert linalg.eig(np.array([[2, 0], [0, 3]])).eigenvalues.dtype == np.float64
    assert linalg.eig(real.astype(np.float32)).eigenvectors.dtype == np.float32


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0), (0, 0, 0), (1, 1)])
def test_empty_and_single(linalg: Any, shape: tuple[int, ...]) -> None:
    a = np.ones(shape)
    w, v = linalg.eig(a)
    assert w.shape == shape[:-1]
    assert v.shape == shape
    assert linalg.eigvals(a).shape == shape[:-1]
    t, z = linalg.schur(a)
    assert t.shape == z.shape == shape
    assert (t == a).all()
    assert (z == 1).all()


@pytest.mark.parametrize("name", ["eig", "eigvals", "schur"])
def test_refusals(linalg: Any, name: str) -> None:
    function = getattr(linalg, name)
    with pytest.raises(td.MatrixShapeError):
        function(np.ones(3))
    with pytest.raises(td.MatrixShapeError):
        function(np.ones((2, 3)))
    with pytest.raises(td.DTypeError):
        function(np.ones((2, 2), np.float16))
    with pytest.raises(td.DTypeError):
        function(np.array([["a"]]))
    with pytest.raises(td.ArgumentError, match="'real' and 'complex'"):
        linalg.schur(np.eye(2), output="imaginary")


@pytest.mark.parametrize("dtype", DTYPES)
def test_lin_01_non_finite_matrices_are_refused_with_their_index(dtype: Any) -> None:
    """C-LIN-01, for eig, eigvals and schur: at once, with the first bad item, at every width, and nothing hangs without
    the check."""
    corner = np.eye(40, dtype=dtype)
    corner[0, 39] = np.nan
    middle = np.ones((3, 3), dtype)
    middle[1, 1] = np.inf
    last = np.ones((3, 3), dtype)
    last[:, 2] = np.nan
    batch = np.stack([np.eye(3, dtype=dtype), middle, last, np.eye(3, dtype=dtype)])
    for width in (1, 2, 3):
        with td.CpuEngine(width) as engine:
            for name in ("eig", "eigvals", "schur"):
                function = getattr(engine.linalg, name)
                for bad in (corner, middle, last, np.array([[0, 0], [np.nan, np.nan]], dtype)):
                    with pytest.raises(td.NonFiniteError) as caught:
                        function(bad)
                    assert caught.value.index == 0
                    assert caught.value.operation == name
                    result = function(bad, check_finite=False)
                    for part in result if isinstance(result, tuple) else (result,):
                        assert np.isnan(part).all()
                with pytest.raises(td.NonFiniteError) as caught:
                    function(batch)
                assert caught.value.index == 1
                assert engine.state == "open"
            w = engine.linalg.eigvals(batch, check_finite=False)
            assert np.isnan(w[1:3]).all()
            assert (w[[0, 3]] == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_do_not_depend_on_width_batch_or_layout(dtype: Any) -> None:
    rng = np.random.default_rng(9)
    engines = {width: td.CpuEngine(width) for width in (1, 2, 3, 8)}
    for n in (5, 40, 64, 100):
        a = normal(rng, (2, n, n), dtype)
        expected = {name: getattr(engines[1].linalg, name)(a) for name in ("eig", "eigvals", "schur")}
        for width, engine in engines.items():
            for name, want in expected.items():
                function = getattr(engine.linalg, name)
                layouts = (a, np.asfortranarray(a), a[::-1][::-1], a.transpose(1, 2, 0).copy().transpose(2, 0, 1))
                for array in layouts:
                    got = function(array)
                    for one, other in zip(
                        got if isinstance(got, tuple) else (got,),
                        want if isinstance(want, tuple) else (want,),
                        strict=True,
                    ):
                        assert one.tobytes() == other.tobytes(), (width, name, n)
        for policy in ("sequential", "outer", "inner"):
            with engines[3].policy(batch=policy):
                assert engines[3].linalg.eig(a).eigenvectors.tobytes() == expected["eig"].eigenvectors.tobytes()
        t, _ = engines[1].linalg.schur(a[1])
        assert t.tobytes() == expected["schur"][0][1].tobytes()
        same = np.broadcast_to(a[0], (2, n, n))
        both = engines[2].linalg.schur(same)[0]
        assert both[0].tobytes() == both[1].tobytes() == expected["schur"][0][0].tobytes()
    for engine in engines.values():
        engine.close()


def test_the_complex_schur_form_of_a_real_matrix(linalg: Any) -> None:
    a = np.random.default_rng(4).standard_normal((2, 20, 20))
    t, z = linalg.schur(a, output="complex")
    assert t.dtype == z.dtype == np.complex128
    for item in range(2):
        check_schur(a[item].astype(complex), t[item], z[item], real=False)
    assert linalg.schur(a.astype(np.float32), "c")[0].dtype == np.complex64
    assert linalg.schur(np.eye(2, dtype=int))[0].dtype == np.float64


def test_a_long_call_answers_ctrl_c() -> None:
    """A Schur form of one large matrix ends soon after SIGINT, and the engine is open."""
    script = """
import os, signal, threading, time
import numpy as np, treadle as td
engine = td.CpuEngine(2)
a = np.random.default_rng(0).standard_normal((1500, 1500))
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
start = time.monotonic()
try:
    engine.linalg.schur(a)
except KeyboardInterrupt:
    print("interrupted", engine.state)
else:
    print("finished")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.stdout.strip() == "interrupted open", done.stdout + done.stderr
