"""Linear algebra on an engine: ``engine.linalg``.

The factorisations are the core's (``treadle._native.Linalg``). What numpy and scipy build from them is built here, on the
engine's own factorisations and products, and stands in the same class: reaching for a factorisation costs what it costs
without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle import _native
from treadle.linalg.conditioning import Conditioning
from treadle.linalg.exponential import Exponential
from treadle.linalg.least_squares import LeastSquares
from treadle.linalg.norms import Norms
from treadle.linalg.powers import Powers
from treadle.linalg.products import Products
from treadle.linalg.subspaces import Subspaces
from treadle.linalg.tensors import TensorEquations

__all__ = ["Linalg"]

_PARTS = (Norms, Conditioning, LeastSquares, Powers, TensorEquations, Subspaces, Exponential, Products)

if TYPE_CHECKING:

    class Linalg(Norms, Conditioning, LeastSquares, Powers, TensorEquations, Subspaces, Exponential, Products):
        """Linear algebra on an engine, with the names, arguments and results of numpy and scipy."""

else:
    Linalg = _native.Linalg


def _complete() -> None:
    """Put the functions that are written in Python into the core's class."""
    for part in _PARTS:
        for name, function in vars(part).items():
            if not name.startswith("__"):
                setattr(_native.Linalg, name, function)


_complete()
