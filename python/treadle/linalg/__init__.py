"""Linear algebra on an engine: ``engine.linalg``.

The factorisations are the core's (``treadle._native.Linalg``); what numpy and scipy build from them is built here, on the
engine's own factorisations and products.
"""

from __future__ import annotations

from treadle.linalg.conditioning import Conditioning
from treadle.linalg.exponential import Exponential
from treadle.linalg.least_squares import LeastSquares
from treadle.linalg.norms import Norms
from treadle.linalg.powers import Powers
from treadle.linalg.products import Products
from treadle.linalg.subspaces import Subspaces
from treadle.linalg.tensors import TensorEquations

__all__ = ["Linalg"]


class Linalg(Norms, Conditioning, LeastSquares, Powers, TensorEquations, Subspaces, Exponential, Products):
    """Linear algebra on an engine, with the names, arguments and results of numpy and scipy.

    Leading axes are batch axes: every function takes ``(..., M, N)`` and treats each matrix on its own. Booleans and
    integers are computed in float64. ``check_finite=True`` refuses NaN and infinity among the entries that a function
    reads with :class:`NonFiniteError`, before anything is written. When matrices of a batch fail, the error is that of the
    lowest index (``error.index``, flat in C order). Results have the same bits at every width.

    Examples
    --------
    >>> import numpy as np, treadle as td
    >>> engine = td.CpuEngine.serial()
    >>> engine.linalg.norm(np.array([3.0, 4.0]))
    np.float64(5.0)
    """

    __slots__ = ()
