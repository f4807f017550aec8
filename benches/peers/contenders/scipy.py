"""The BLAS functions of scipy, whose OpenBLAS is another build than numpy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import factorisations
import numpy as np
import scipy
import scipy.linalg
from operands import Prepared, arrays, reference
from scipy.linalg import blas


def matmul(arguments: dict[str, Any]) -> Prepared:
    """``?gemm`` on transposed matrices, which are in Fortran order without a copy."""
    a, b = arrays(arguments)
    if a.ndim != 2 or a.dtype.kind not in "fc":
        raise NotImplementedError("does not do this")
    (gemm,) = blas.get_blas_funcs(("gemm",), (a, b))
    left, right = b.T, a.T
    if not arguments.get("out"):
        return Prepared(lambda: gemm(1.0, left, right).T, lambda: a @ b)
    out = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    return Prepared(lambda: gemm(1.0, left, right, 0.0, out.T, overwrite_c=1).T, lambda: a @ b)


def matvec(arguments: dict[str, Any]) -> Prepared:
    """``?gemv``."""
    a, x = arrays(arguments)
    (gemv,) = blas.get_blas_funcs(("gemv",), (a, x))
    return Prepared(lambda: gemv(1.0, a.T, x, trans=1), lambda: a @ x)


def dot(arguments: dict[str, Any]) -> Prepared:
    """``?dot``."""
    x, y = arrays(arguments)
    (function,) = blas.get_blas_funcs(("dot",), (x, y))
    return Prepared(lambda: function(x, y), lambda: x @ y)


def rank2(arguments: dict[str, Any]) -> Prepared:
    """``?gemm`` with beta 1."""
    x, y = arrays(arguments)
    (gemm,) = blas.get_blas_funcs(("gemm",), (x, y))
    out = np.zeros((len(x), len(y)), x.dtype)
    return Prepared(lambda: gemm(1.0, y.T, x.T, 1.0, out.T, trans_a=1, overwrite_c=1).T, reference(arguments, [x, y]))


def linalg(arguments: dict[str, Any]) -> Prepared:
    """A function of ``scipy.linalg``, with the options under which it does the same."""
    name = arguments["function"]
    if not factorisations.FUNCTIONS[name].scipy or (name == "det" and len(arguments["shape"]) > 2):
        raise NotImplementedError("does not do this")
    options: dict[str, Any] = {
        "cholesky": {"lower": True},
        "qr": {"mode": "economic"},
        "eigh": {"driver": "evd"},
        "svd": {"full_matrices": True},
    }.get(name, {})
    function = getattr(scipy.linalg, "eigh" if name == "eigvalsh" else name)
    if name == "eigvalsh":
        options = {"eigvals_only": True, "driver": "evd"}
    return factorisations.prepare(arguments, lambda *given: function(*given, **options))


def works(threads: int) -> dict[str, Callable[[dict[str, Any]], Prepared]]:
    """What scipy's BLAS can do."""
    del threads  # the environment says it to the BLAS
    return {"matmul": matmul, "matvec": matvec, "dot": dot, "rank2": rank2, "linalg": linalg}


def about(threads: int) -> dict[str, str]:
    """Its version."""
    del threads
    return {"scipy": scipy.__version__}
