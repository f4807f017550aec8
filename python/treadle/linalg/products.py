"""What numpy.linalg has beside factorisations: products, and views of matrices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treadle import _arrays, _native
from treadle.exceptions import ShapeError
from treadle.linalg._operation import need_matrix, step


class Products(_native.Linalg):
    """Products and views."""

    __slots__ = ()

    @step
    def multi_dot(self, arrays: Iterable[npt.ArrayLike], *, out: npt.NDArray[Any] | None = None) -> Any:
        """Product of a chain of matrices, in the cheapest order: :meth:`CpuEngine.multi_dot`.

        Parameters
        ----------
        arrays : iterable of array_like
            Matrices; the first and the last may be vectors.
        out : ndarray, optional
            Where the result goes.

        Returns
        -------
        ndarray or scalar
            The product.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.multi_dot([np.ones((1, 2)), np.ones((2, 3)), np.ones(3)])
        array([6.])
        """
        return self._engine.multi_dot(arrays, out=out)

    @step
    def matmul(self, x1: Any, x2: Any, /) -> Any:
        """Product of matrices: :meth:`CpuEngine.matmul`.

        Parameters
        ----------
        x1, x2 : array_like
            ``(..., M, K)`` and ``(..., K, N)``, or vectors.

        Returns
        -------
        ndarray or scalar
            ``(..., M, N)``.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.matmul(np.ones((1, 2)), np.ones((2, 1)))
        array([[2.]])
        """
        return self._engine.matmul(x1, x2)

    @step
    def vecdot(self, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
        """Inner products of vectors, the first conjugated: :meth:`CpuEngine.vecdot`.

        Parameters
        ----------
        x1, x2 : array_like
            Arrays that broadcast.
        axis : int, default -1
            The axis of the vectors.

        Returns
        -------
        ndarray or scalar
            Without that axis.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.vecdot(np.ones((2, 3)), np.ones(3))
        array([3., 3.])
        """
        return self._engine.vecdot(x1, x2, axis=axis)

    @step
    def tensordot(self, x1: Any, x2: Any, /, *, axes: int | Sequence[Any] = 2) -> Any:
        """Contraction over several axes: :meth:`CpuEngine.tensordot`.

        Parameters
        ----------
        x1, x2 : array_like
            The tensors.
        axes : int or pair of sequences of int, default 2
            How many of the last and first axes, or which.

        Returns
        -------
        ndarray or scalar
            The contraction.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.tensordot(np.ones((2, 3)), np.ones((3, 2)), axes=1)
        array([[3., 3.],
               [3., 3.]])
        """
        return self._engine.tensordot(x1, x2, axes=axes)

    @step
    def outer(self, x1: Any, x2: Any, /) -> Any:
        """Outer product of two vectors.

        Parameters
        ----------
        x1, x2 : array_like
            One-dimensional.

        Returns
        -------
        ndarray
            ``(M, N)``.

        Raises
        ------
        ShapeError
            For other numbers of axes.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.outer(np.array([1.0, 2.0]), np.array([1.0, 10.0]))
        array([[ 1., 10.],
               [ 2., 20.]])
        """
        one, other = _arrays.as_readable(x1, "outer", 0), _arrays.as_readable(x2, "outer", 1)
        for position, array in enumerate((one, other)):
            if array.ndim != 1:
                raise ShapeError(
                    f"outer: operand {position} has {array.ndim} axes, and outer products are of vectors; use engine.outer, "
                    "which flattens",
                    operation="outer",
                    operand=position,
                    expected=1,
                    actual=array.ndim,
                )
        return self._engine.outer(one, other)

    @step
    def cross(self, x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
        """Cross product of vectors of three entries.

        Parameters
        ----------
        x1, x2 : array_like
            Arrays that broadcast, of length 3 along `axis`.
        axis : int, default -1
            The axis of the vectors.

        Returns
        -------
        ndarray
            Of the broadcast shape.

        Raises
        ------
        ShapeError
            For another length.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
        array([0., 0., 1.])
        """
        one, other = _arrays.as_readable(x1, "cross", 0), _arrays.as_readable(x2, "cross", 1)
        for position, array in enumerate((one, other)):
            length = array.shape[axis] if -array.ndim <= axis < array.ndim else None
            if length != 3:
                raise ShapeError(
                    f"cross: operand {position} has shape {array.shape}, and cross products are of vectors with 3 entries "
                    f"along axis {axis}",
                    operation="cross",
                    operand=position,
                    expected=3,
                    actual=length,
                )
        return np.cross(one, other, axis=axis)

    def diagonal(self, x: Any, /, *, offset: int = 0) -> Any:
        """Diagonals of matrices, as a view.

        Parameters
        ----------
        x : array_like
            ``(..., M, N)``.
        offset : int, default 0
            Above the main diagonal, or below it for negative numbers.

        Returns
        -------
        ndarray
            ``(..., K)``.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.diagonal(np.arange(4).reshape(2, 2))
        array([0, 3])
        """
        array = _arrays.as_operand(x, "diagonal", 0)
        need_matrix(array, "diagonal")
        return array.diagonal(offset, -2, -1)

    def trace(self, x: Any, /, *, offset: int = 0, dtype: npt.DTypeLike | None = None) -> Any:
        """Sum of the diagonal of matrices.

        Parameters
        ----------
        x : array_like
            ``(..., M, N)``.
        offset : int, default 0
            As for :meth:`diagonal`.
        dtype : dtype, optional
            In which it is summed; numpy's rule by default.

        Returns
        -------
        ndarray or scalar
            ``(...)``.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.trace(np.eye(3))
        np.float64(3.0)
        """
        array = _arrays.as_operand(x, "trace", 0)
        need_matrix(array, "trace")
        return array.trace(offset, -2, -1, dtype=dtype)

    def matrix_transpose(self, x: Any, /) -> Any:
        """Transposes of matrices, as a view.

        Parameters
        ----------
        x : array_like
            ``(..., M, N)``.

        Returns
        -------
        ndarray
            ``(..., N, M)``.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.matrix_transpose(np.ones((2, 3, 4))).shape
        (2, 4, 3)
        """
        array = _arrays.as_operand(x, "matrix_transpose", 0)
        need_matrix(array, "matrix_transpose")
        return array.swapaxes(-1, -2)
