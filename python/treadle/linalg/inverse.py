"""The inverse, for the functions that are built from it: the engine's own where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.exceptions import SingularMatrixError
from treadle.linalg._operation import Array


def inverse(linalg: Any, a: Array, *, check_finite: bool = True) -> Array:
    """The inverse of every matrix."""
    own = getattr(linalg, "inv", None)
    result: Array
    if own is not None:
        result = own(a, check_finite=check_finite)
    else:
        result = linalg.solve(a, np.eye(a.shape[-1], dtype=a.dtype), check_finite=check_finite)
    return result


def inverse_or_nan(linalg: Any, a: Array) -> Array:
    """The inverse of every matrix, NaN where there is none."""
    try:
        return inverse(linalg, a, check_finite=False)
    except SingularMatrixError:
        pass
    result = np.full(a.shape, np.nan, a.dtype)
    for index in np.ndindex(a.shape[:-2]):
        try:
            result[index] = inverse(linalg, a[index], check_finite=False)
        except SingularMatrixError:
            continue
    return result
