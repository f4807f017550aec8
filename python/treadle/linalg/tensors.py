"""Linear equations between tensors, as numpy's."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from treadle import _native
from treadle._axes import normalised
from treadle.exceptions import ArgumentError, MatrixShapeError
from treadle.linalg._operation import operand, operation
from treadle.linalg.inverse import inverse


class TensorEquations(_native.Linalg):
    """Tensor equations."""

    __slots__ = ()

    @operation
    def tensorsolve(self, a: Any, b: Any, axes: Sequence[int] | None = None, *, check_finite: bool = True) -> Any:
        """Solution `x` of ``tensordot(a, x, x.ndim) = b``.

        Parameters
        ----------
        a : array_like
            Of shape ``b.shape + Q``, where the product of `Q` is that of ``b.shape``.
        b : array_like
            Any shape.
        axes : sequence of int, optional
            Axes of `a` that are moved to its end first.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            Of shape `Q`.

        Raises
        ------
        MatrixShapeError
            For shapes that make no square system.
        NonFiniteError, SingularMatrixError
            As for :meth:`solve`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> a = np.eye(4).reshape(2, 2, 4) * 2
        >>> td.CpuEngine.serial().linalg.tensorsolve(a, np.ones((2, 2)))
        array([0.5, 0.5, 0.5, 0.5])
        """
        left, right = operand(a, "tensorsolve", 0), operand(b, "tensorsolve", 1)
        if axes is not None:
            last = normalised(list(axes), left.ndim, 0, "tensorsolve")
            rest = [place for place in range(left.ndim) if place not in last]
            left = left.transpose(*rest, *last)
        shape = left.shape[right.ndim :]
        unknowns = math.prod(shape)
        if right.ndim > left.ndim or left.size != unknowns**2 or right.size != unknowns:
            raise MatrixShapeError(
                f"tensorsolve: operand 0 has shape {left.shape} and operand 1 {right.shape}: {right.size} equations for "
                f"{unknowns} unknowns, with {left.size} coefficients; make them square",
                operation="tensorsolve",
                operand=0,
            )
        x = self.solve(left.reshape(unknowns, unknowns), right.reshape(unknowns), check_finite=check_finite)
        return x.reshape(shape)

    @operation
    def tensorinv(self, a: Any, ind: int = 2, *, check_finite: bool = True) -> Any:
        """Inverse of a tensor under ``tensordot(..., ind)``.

        Parameters
        ----------
        a : array_like
            The product of its first `ind` lengths is that of the others.
        ind : int, default 2
            How many axes are rows; positive.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            Of shape ``a.shape[ind:] + a.shape[:ind]``.

        Raises
        ------
        ArgumentError
            For an `ind` below 1.
        MatrixShapeError
            For shapes that make no square system.
        NonFiniteError, SingularMatrixError
            As for :meth:`solve`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.tensorinv(np.eye(4).reshape(2, 2, 4) * 2).shape
        (4, 2, 2)
        """
        array = operand(a, "tensorinv")
        count = operator.index(ind)
        if count < 1:
            raise ArgumentError(
                f"tensorinv: ind is {ind}; valid are numbers of axes from 1 on", operation="tensorinv", argument="ind"
            )
        rows, columns = math.prod(array.shape[:count]), math.prod(array.shape[count:])
        if rows != columns:
            raise MatrixShapeError(
                f"tensorinv: operand 0 of shape {array.shape} has {rows} rows and {columns} columns for ind={count}; make "
                "them equal",
                operation="tensorinv",
                operand=0,
            )
        found = inverse(self, array.reshape(rows, columns), check_finite=check_finite)
        return found.reshape(array.shape[count:] + array.shape[:count])
