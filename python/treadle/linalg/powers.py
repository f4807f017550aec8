"""Integer powers of matrices."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from treadle import _arrays, _native
from treadle.linalg._operation import need_square, operand, operation, refuse_non_finite
from treadle.linalg.inverse import inverse


class Powers(_native.Linalg):
    """Powers."""

    __slots__ = ()

    @operation
    def matrix_power(self, a: Any, n: int, *, check_finite: bool = True) -> Any:
        """Integer power of square matrices, by repeated squaring.

        Parameters
        ----------
        a : array_like
            ``(..., M, M)``. Integers stay integers for `n` of 0 and more, and wrap.
        n : int
            Negative ones are powers of the inverse.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            ``(..., M, M)``.

        Raises
        ------
        MatrixShapeError
            For matrices that are not square.
        NonFiniteError, SingularMatrixError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.matrix_power(np.array([[1, 1], [1, 0]]), 10)
        array([[89, 55],
               [55, 34]])
        """
        array = _arrays.as_readable(a, "matrix_power", 0)
        need_square(array, "matrix_power")
        try:
            left = operator.index(n)
        except TypeError:
            raise TypeError(f"matrix_power: n is {n!r}; give an integer") from None
        if check_finite:
            refuse_non_finite(array, "matrix_power")
        if left == 0:
            identity = np.empty_like(array, order="C")
            identity[...] = np.eye(array.shape[-1], dtype=array.dtype)
            return identity
        if left < 0:
            array, left = inverse(self, operand(array, "matrix_power"), check_finite=False), -left
        product = self._engine.matmul
        square: Any = array
        result: Any = None
        while True:
            left, odd = divmod(left, 2)
            if odd:
                result = square if result is None else product(result, square)
            if not left:
                return np.array(result) if result is array else result
            square = product(square, square)
