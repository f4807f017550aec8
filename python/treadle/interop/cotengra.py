"""An engine as an implementation of cotengra's: ``tree.contract(arrays, implementation=implementation(engine))``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from treadle.engines import CpuEngine
from treadle.exceptions import DTypeError

__all__ = ["Implementation", "implementation"]


class Implementation(NamedTuple):
    """The pair of functions that cotengra contracts with.

    Parameters
    ----------
    einsum : callable
        ``einsum(subscripts, *arrays)``.
    tensordot : callable
        ``tensordot(a, b, axes)``.
    """

    einsum: Callable[..., Any]
    tensordot: Callable[..., Any]


def implementation(engine: CpuEngine) -> Implementation:
    """Make the pair that cotengra takes as ``implementation=``.

    Parameters
    ----------
    engine : CpuEngine
        Runs every pairwise step.

    Returns
    -------
    Implementation
        ``(einsum, tensordot)``, in the order in which cotengra unpacks them. Either function knows from its first
        argument which of the two is meant, so that the order of cotengra's documentation works too.

    Notes
    -----
    cotengra slices and contracts along its tree and calls the engine once a step; what the engine refuses raises its
    error. A network of one array cotengra hands to the array's own library without asking. With ``constants=`` cotengra
    traces the contraction with arrays that hold no numbers, which an engine refuses: :meth:`CpuEngine.plan` has
    constants of its own.

    Examples
    --------
    >>> import cotengra, numpy as np, treadle as td
    >>> pair = td.interop.cotengra.implementation(td.CpuEngine.serial())
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> cotengra.einsum("ij,jk,kl->il", a, a, a, implementation=pair)
    array([[ 37.,  54.],
           [ 81., 118.]])
    """
    if not isinstance(engine, CpuEngine):
        raise DTypeError(
            f"implementation: engine is a {type(engine).__name__}; give a CpuEngine",
            operation="implementation",
            expected="CpuEngine",
            actual=type(engine).__name__,
        )

    def einsum(first: Any, *rest: Any, **options: Any) -> Any:
        if isinstance(first, str):
            return engine.einsum(first, *rest, **options)
        return engine.tensordot(first, *rest, **options)

    def tensordot(first: Any, *rest: Any, **options: Any) -> Any:
        return einsum(first, *rest, **options)

    return Implementation(einsum, tensordot)
