"""The functions of linear algebra that are compared: their operands, and what of a result must agree.

Factors are free in signs and phases, so what is compared with numpy's double precision is what they determine: values,
products of factors, solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from operands import Prepared, array


def adjoint(a: Any) -> Any:
    """Conjugate transposes."""
    return a.conj().swapaxes(-1, -2)


def operands(arguments: dict[str, Any]) -> list[Any]:
    """The operands of a case, by the kind of its function."""
    shape, dtype = arguments["shape"], arguments["dtype"]
    kind = FUNCTIONS[arguments["function"]].kind
    n = shape[-1]
    a = array(shape, dtype, 0)
    if kind == "hermitian":
        return [((a + adjoint(a)) / 2).astype(dtype)]
    if kind == "positive":
        return [(np.matmul(a, adjoint(a)) + np.eye(n)).astype(dtype)]
    if kind in ("system", "regular"):
        # Away from singular, so that solutions can be compared, with a determinant that is a number.
        a = (a / np.sqrt(n) + np.eye(n)).astype(dtype)
    if kind == "system":
        return [a, array([*shape[:-1], 1], dtype, 1)]
    if kind == "sides":
        return [a, array([*shape[:-1], 4], dtype, 1)]
    return [a]


def by_size(values: Any) -> Any:
    """Eigenvalues in an order that rounding does not change: by power sums."""
    values = np.asarray(values).astype(complex)
    return np.stack([np.sum(values, axis=-1), np.sum(values**2, axis=-1)], axis=-1)


@dataclass(frozen=True)
class Function:
    """One function: the kind of its operands, and what of its result is compared."""

    kind: str
    compared: Callable[[Any], Any] = np.asarray
    #: numpy's own result in double precision, of which the same is compared.
    reference: Callable[..., Any] | None = None
    #: Whether numpy has it, and scipy.
    numpy: bool = True
    scipy: bool = True


def _lu_product(result: Any) -> Any:
    p, lower, upper = result
    return np.matmul(p, np.matmul(lower, upper))


def _factors(a: Any) -> tuple[Any, Any, Any]:
    """A matrix as factors of itself."""
    eye = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    return eye, eye, a


def _r_squared(result: Any) -> Any:
    r = result[1]
    return np.matmul(adjoint(r), r)


FUNCTIONS = {
    "cholesky": Function("positive", np.asarray, np.linalg.cholesky),
    "lu": Function("regular", _lu_product, _factors, numpy=False),
    "solve": Function("system", np.asarray, np.linalg.solve),
    "inv": Function("regular", np.asarray, np.linalg.inv),
    "det": Function("regular", np.asarray, np.linalg.det),
    "qr": Function("general", _r_squared, np.linalg.qr),
    "eigh": Function("hermitian", lambda result: result[0], np.linalg.eigh),
    "eigvalsh": Function("hermitian", np.asarray, np.linalg.eigvalsh),
    "svd": Function("general", lambda result: result[1], np.linalg.svd),
    "svdvals": Function("general", np.asarray, np.linalg.svdvals),
    "eig": Function("general", lambda result: by_size(result[0]), np.linalg.eig),
    "eigvals": Function("general", by_size, np.linalg.eigvals),
    "schur": Function("general", lambda result: np.trace(result[0], axis1=-2, axis2=-1), lambda a: (a, a), numpy=False),
    "lstsq": Function("sides", lambda result: result[3], np.linalg.lstsq),
    "pinv": Function("regular", np.asarray, np.linalg.pinv),
    "expm": Function("general", np.asarray, None, numpy=False),
    "full_piv_lu": Function("regular", np.asarray, None, numpy=False, scipy=False),
}


def prepare(arguments: dict[str, Any], call: Callable[..., Any]) -> Prepared:
    """A call on the operands of a case, and what it must give."""
    function = FUNCTIONS[arguments["function"]]
    given = operands(arguments)
    if function.reference is None:
        return Prepared(lambda: call(*given), None, lambda result: result)
    reference = function.reference
    wide = [x.astype(complex if x.dtype.kind == "c" else float) for x in given]
    single = np.dtype(arguments["dtype"]).char in "fF"

    def compared(result: Any) -> Any:
        found = np.asarray(function.compared(result))
        wider = complex if found.dtype.kind == "c" else float
        # Results of single precision are compared to that, in the type of the reference.
        return found.astype(np.complex64 if wider is complex else np.float32) if single else found.astype(wider)

    return Prepared(lambda: call(*given), lambda: compared(reference(*wide)), compared)
