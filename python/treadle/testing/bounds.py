"""Comparison with a bound that follows from sizes and dtype, not from taste."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["assert_allclose", "error_bound"]


def _unit_roundoff(dtype: np.dtype[Any]) -> float:
    if dtype.kind in "fc":
        return float(np.finfo(dtype).eps)
    if dtype.name == "bfloat16":
        return 2.0**-7
    return 0.0


def error_bound(terms: int, dtype: Any, scale: float, *, factor: float = 2.0) -> float:
    """Largest error that a sum of ``terms`` products may have.

    Parameters
    ----------
    terms : int
        Products that are added to one element: the contracted length.
    dtype : dtype_like
        Dtype that the sum is carried out in. Exact for integers and booleans.
    scale : float
        Largest product of magnitudes, ``max(|a|) * max(|b|)``.
    factor : float
        Room above ``(terms + 1) * eps * scale`` per product; complex products take twice as much.

    Returns
    -------
    float
        ``factor * (terms + 1) * eps * scale``, 0 for exact dtypes.

    Examples
    --------
    >>> from treadle.testing import error_bound
    >>> error_bound(100, "float64", 1.0) < 1e-13
    True
    >>> error_bound(100, "int64", 1.0)
    0.0
    """
    kind = np.dtype(dtype)
    if kind.kind == "c":
        factor *= 2
    return factor * (terms + 1) * _unit_roundoff(kind) * scale


def assert_allclose(
    actual: Any,
    desired: Any,
    *,
    terms: int = 1,
    scale: float | None = None,
    dtype: Any = None,
    factor: float = 2.0,
) -> None:
    """Assert that two arrays agree in shape, in dtype where asked, and in value within a bound from the sizes.

    Parameters
    ----------
    actual : array_like, any shape
        What was computed.
    desired : array_like, the same shape
        What is right, best computed in a wider dtype. NaN and infinities must stand in the same places.
    terms : int
        Products added to one element.
    scale : float, optional
        Size of a product; by default the largest finite magnitude in ``desired``. Give it where large terms cancel.
    dtype : dtype_like, optional
        Dtype that ``actual`` must have. The bound follows from the dtype of ``actual``.
    factor : float
        As in :func:`error_bound`.

    Raises
    ------
    AssertionError
        With the place and both values of the worst element.

    Examples
    --------
    >>> import numpy as np
    >>> from treadle.testing import assert_allclose
    >>> a = np.linspace(0.0, 1.0, 50)
    >>> assert_allclose(a @ a, np.sum(np.square(a, dtype=np.longdouble)), terms=50)
    """
    __tracebackhide__ = True
    ours, theirs = np.asarray(actual), np.asarray(desired)
    if ours.shape != theirs.shape:
        msg = f"shape {ours.shape}, expected {theirs.shape}"
        raise AssertionError(msg)
    if dtype is not None and ours.dtype != np.dtype(dtype):
        msg = f"dtype {ours.dtype}, expected {np.dtype(dtype)}"
        raise AssertionError(msg)
    if ours.size == 0:
        return
    wide = np.complex128 if "c" in (ours.dtype.kind, theirs.dtype.kind) else np.float64
    if ours.dtype.kind in "biu" and theirs.dtype.kind in "biu":
        wrong = ours != theirs
        bound, difference = 0.0, wrong.astype(np.float64)
    else:
        a, b = ours.astype(wide), theirs.astype(wide)
        finite = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        size = scale if scale is not None else float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
        bound = error_bound(terms, ours.dtype, size, factor=factor)
        difference = np.abs(np.where(finite, a, 0) - np.where(finite, b, 0))
        wrong = np.where(finite, difference > bound, ~same)
        difference = np.where(finite, difference, np.where(same, 0.0, np.inf))
    if wrong.any():
        worst = np.unravel_index(int(np.argmax(difference)), ours.shape)
        place = tuple(int(i) for i in worst)
        msg = (
            f"{int(wrong.sum())} of {ours.size} elements differ by more than {bound:.3g} "
            f"({terms} terms, {ours.dtype}); worst at {place}: {ours[worst]!r}, expected {theirs[worst]!r}"
        )
        raise AssertionError(msg)
