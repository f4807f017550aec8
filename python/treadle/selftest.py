"""``python -m treadle selftest``: known values, thread counts and errors, checked on the machine that runs it.

It needs nothing but numpy, so that a cluster's administrator can run it on an installed wheel.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

import treadle as td
from treadle.testing import ThreadCensus, assert_allclose, random_array

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["run"]

_FLOATS = ("float32", "float64", "complex64", "complex128")


class _NotHere(Exception):  # noqa: N818 -- no error: the check does not apply to this system
    """Raised by a check that this system cannot carry out."""


def _equal(actual: Any, expected: Any, what: str) -> None:
    if not np.array_equal(np.asarray(actual), np.asarray(expected)):
        msg = f"{what}: {actual!r}, expected {expected!r}"
        raise AssertionError(msg)


def _raises(error: type[BaseException], call: Callable[[], object], what: str) -> BaseException:
    try:
        call()
    except error as caught:
        return caught
    except Exception as other:
        msg = f"{what}: {type(other).__name__} instead of {error.__name__}"
        raise AssertionError(msg) from other
    msg = f"{what}: nothing was raised instead of {error.__name__}"
    raise AssertionError(msg)


def _einsum() -> None:
    a = np.arange(6.0).reshape(2, 3)
    b = np.arange(12.0).reshape(3, 4)
    with td.CpuEngine(threads=2) as engine:
        _equal(
            engine.einsum("ij,jk->ik", a, b),
            [[20.0, 23.0, 26.0, 29.0], [56.0, 68.0, 80.0, 92.0]],
            "ij,jk->ik",
        )
        _equal(engine.einsum("ii", np.arange(9.0).reshape(3, 3)), 12.0, "trace")
        _equal(engine.einsum("ij->j", a), [3.0, 5.0, 7.0], "sum over i")
        _equal(engine.einsum("ba", a), a.T, "implicit output")
        _equal(engine.einsum("i,j->ij", a[0], a[1]), [[0, 0, 0], [3, 4, 5], [6, 8, 10]], "outer product")
        _equal(engine.einsum("ij,ij->", a, a), 55.0, "full contraction")


def _dtypes() -> None:
    with td.CpuEngine(threads=2) as engine:
        for dtype in _FLOATS:
            # Small integers: every product and every sum is exact, whatever the order.
            a = random_array((70, 130), dtype, seed=1, integers=True, layout="reversed")
            b = random_array((130, 90), dtype, seed=2, integers=True, layout="F")
            wide = np.result_type(a.dtype, np.float64)
            right = (a.astype(wide) @ b.astype(wide)).astype(a.dtype)
            for name, found in (
                ("matmul", engine.matmul(a, b)),
                ("einsum", engine.einsum("ij,jk->ik", a, b)),
                ("reference route", engine.einsum("ij,jk->ik", a, b, route="reference")),
            ):
                _equal(found.dtype, a.dtype, f"{name}, dtype")
                _equal(found, right, f"{name}, {dtype}")


def _same_bits() -> None:
    a, b = random_array((301, 257), seed=3), random_array((257, 203), seed=4)
    found = []
    for threads in (1, 2, 3):
        with td.CpuEngine(threads=threads) as engine:
            found.append((engine.matmul(a, b).tobytes(), engine.linalg.svd(a[:90, :60]).S.tobytes()))
    for threads, other in zip((2, 3), found[1:], strict=True):
        if other != found[0]:
            msg = f"width {threads} gives other bits than width 1"
            raise AssertionError(msg)


def _linalg() -> None:
    with td.CpuEngine(threads=2) as engine:
        for dtype in _FLOATS:
            a = random_array((40, 25), dtype, seed=5)
            u, s, vh = engine.linalg.svd(a, full_matrices=False)
            assert_allclose((u * s) @ vh, a, terms=40, scale=float(s[0]), factor=8)
            q, r = engine.linalg.qr(a)
            assert_allclose(q @ r, a, terms=40, scale=4.0, factor=8)
            assert_allclose(q.conj().T @ q, np.eye(25), terms=40, scale=1.0, factor=8)
        w, v = engine.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]]))
        assert_allclose(w, np.array([1.0, 3.0]), terms=4)
        assert_allclose(np.abs(v), np.full((2, 2), 2**-0.5), terms=4)
        _equal(engine.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]])), [[2.0, 0.0], [1.0, 2.0]], "cholesky")
        x = engine.linalg.solve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
        _equal(x, [1.0, 0.5], "solve")


def _rank_deficient() -> None:
    # The case where divide and conquer is known to return wrong factors without saying so.
    rng = np.random.default_rng(6)
    n, rank = 160, 40
    left, _ = np.linalg.qr(rng.standard_normal((n, n)))
    right, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.concatenate([np.arange(rank, 0.0, -1.0), np.zeros(n - rank)])
    a = (left * values) @ right
    with td.CpuEngine(threads=2) as engine:
        u, s, vh = engine.linalg.svd(a, full_matrices=False)
    assert_allclose(s, values, terms=n, scale=float(rank))
    assert_allclose((u * s) @ vh, a, terms=n, scale=float(rank))
    assert_allclose(u.T @ u, np.eye(n), terms=n, scale=1.0)


def _linalg_errors() -> None:
    batch = np.stack([np.eye(3), np.zeros((3, 3)), np.zeros((3, 3))])
    with td.CpuEngine(threads=2) as engine:
        error = _raises(td.SingularMatrixError, lambda: engine.linalg.solve(batch, np.ones((3, 3, 1))), "solve")
        _equal(getattr(error, "index", None), 1, "index of the singular matrix")
        bad = np.eye(3)
        bad[1, 1] = np.nan
        _raises(td.NonFiniteError, lambda: engine.linalg.svd(bad), "svd of NaN")
        _raises(td.NotPositiveDefiniteError, lambda: engine.linalg.cholesky(-np.eye(2)), "cholesky")
        _equal(engine.state, "open", "state after errors")


def _errors() -> None:
    a, square = np.ones((2, 3)), np.eye(3)
    engine = td.CpuEngine(threads=2)
    _raises(td.BroadcastError, lambda: engine.einsum("ij,jk->ik", a, a), "sizes 3 and 2")
    _raises(td.SubscriptsError, lambda: engine.einsum("ij,j->ii", a, a[0]), "repeated output label")
    _raises(td.DTypeError, lambda: engine.einsum("i->", np.array(["x"])), "text")
    _raises(td.AliasingError, lambda: engine.matmul(square, square, out=square), "out is an operand")
    _raises(td.ArgumentError, lambda: td.CpuEngine(threads=0), "no thread")
    _equal(engine.state, "open", "state after errors")
    engine.close()
    engine.close()
    _raises(td.EngineClosedError, lambda: engine.einsum("ij->", a), "closed engine")


def _threads() -> None:
    if not ThreadCensus.available():
        raise _NotHere
    for threads in (1, 2, 3):
        with ThreadCensus() as census:
            engine = td.CpuEngine(threads=threads)
            census.assert_added(threads - 1)
            engine.matmul(np.ones((300, 300)), np.ones((300, 300)))
            census.assert_added(threads - 1)
            engine.close()
            census.assert_added(0)


def _two_lanes(engines: list[td.CpuEngine]) -> td.Lanes:
    """Lanes over them; on a machine with one CPU they are too many on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.OversubscriptionWarning)
        return td.Lanes(engines)


def _lanes() -> None:
    def cube(item: int, engine: td.CpuEngine) -> int:
        return int(engine.einsum("i,i->", np.full(item, float(item)), np.full(item, float(item))))

    def refuse(item: int, engine: td.CpuEngine) -> int:
        del engine
        if item % 10 == 7:
            raise ValueError(item)
        return item

    engines = [td.CpuEngine.serial() for _ in range(2)]
    with _two_lanes(engines) as lanes:
        _equal(td.map_in_lanes(cube, range(40), lanes), [n**3 for n in range(40)], "order of results")
        error = _raises(td.LaneTaskError, lambda: td.map_in_lanes(refuse, range(100), lanes), "failing item")
        _equal(getattr(error, "index", None), 7, "lowest failing index")
        _equal(isinstance(error.__cause__, ValueError), True, "cause")
        _equal(td.map_in_lanes(refuse, [1, 2, 3], lanes), [1, 2, 3], "lanes after an error")
    for engine in engines:
        engine.close()


def _physics() -> None:
    # The tolerance is what bond dimension 8 truncates at T = 4, far from the critical point.
    from treadle.demo import run_sweep

    engines = [td.CpuEngine.serial() for _ in range(2)]
    with _two_lanes(engines) as lanes:
        sweep = run_sweep([1.5, 4.0], lanes, bond_dimension=8, steps=24)
    for engine in engines:
        engine.close()
    if sweep is None:
        msg = "no result on the root"
        raise AssertionError(msg)
    for quantity, tolerance in (("free_energy", 1e-5), ("energy", 1e-4), ("specific_heat", 1e-3)):
        deviation, temperature = sweep.largest_deviation(quantity)
        if not deviation < tolerance:
            msg = f"{quantity} at T = {temperature} is {deviation:.1e} off, allowed {tolerance:.0e}"
            raise AssertionError(msg)


#: Name, check, and whether ``--quick`` includes it.
CHECKS: tuple[tuple[str, Callable[[], None], bool], ...] = (
    ("einsum, known values", _einsum, True),
    ("matmul and einsum, exact in every dtype", _dtypes, True),
    ("same bits at widths 1, 2, 3", _same_bits, True),
    ("svd, qr, eigh, cholesky, solve", _linalg, True),
    ("errors of linear algebra, lowest index", _linalg_errors, True),
    ("errors, closed engine", _errors, True),
    ("threads are counted", _threads, True),
    ("lanes: order, lowest failing index", _lanes, True),
    ("svd of a rank-deficient matrix", _rank_deficient, False),
    ("Ising model against the exact solution", _physics, False),
)


def run(*, quick: bool = False) -> int:
    """Run the checks, print a line a check and a closing count.

    Parameters
    ----------
    quick : bool
        Leave out the checks that take longer.

    Returns
    -------
    int
        0 when all passed, else 1.

    Examples
    --------
    >>> from treadle.selftest import run
    >>> run(quick=True)  # doctest: +ELLIPSIS
    ok       einsum, known values...
    """
    passed = failed = skipped = 0
    for name, check, in_quick in CHECKS:
        if quick and not in_quick:
            continue
        start = time.perf_counter()
        try:
            check()
        except _NotHere:
            skipped += 1
            sys.stdout.write(f"skipped  {name}\n")
        except Exception as error:
            failed += 1
            sys.stdout.write(f"FAILED   {name}: {type(error).__name__}: {error}\n")
        else:
            passed += 1
            sys.stdout.write(f"ok       {name} ({1e3 * (time.perf_counter() - start):.0f} ms)\n")
        sys.stdout.flush()
    sys.stdout.write(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else "") + "\n")
    return 1 if failed else 0
