"""Least squares and pseudo-inverses, by singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import _native
from treadle.exceptions import ArgumentError, BroadcastError, MatrixShapeError
from treadle.linalg._operation import adjoint, epsilon, matrices, operand, operation, refuse_non_finite


class _NotGiven:
    def __repr__(self) -> str:
        return "<not given>"


_NOT_GIVEN: Any = _NotGiven()


class LeastSquares(_native.Linalg):
    """Least squares and pseudo-inverses."""

    __slots__ = ()

    @operation
    def pinv(
        self,
        a: Any,
        rcond: Any = None,
        hermitian: bool = False,  # noqa: FBT001
        *,
        rtol: Any = _NOT_GIVEN,
        check_finite: bool = True,
    ) -> Any:
        """Pseudo-inverse of Moore and Penrose.

        Parameters
        ----------
        a : array_like
            ``(..., M, N)``.
        rcond : float or array_like, optional
            Singular values up to this times the largest count as zero; ``(...)``.
        hermitian : bool, default False
            The matrices are Hermitian, and the lower triangle is read.
        rtol : float or array_like, optional
            The same as `rcond`; None, or neither of them, is ``max(M, N) * eps``.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            ``(..., N, M)``.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes.
        ArgumentError
            For `rcond` and `rtol` together.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.pinv(np.diag([2.0, 0.0]))
        array([[0.5, 0. ],
               [0. , 0. ]])
        """
        array = matrices(a, "pinv")
        if rcond is not None and rtol is not _NOT_GIVEN:
            raise ArgumentError(
                "pinv: rcond and rtol were both given; give one of them", operation="pinv", argument="rtol"
            )
        given = rcond if rcond is not None else None if rtol is _NOT_GIVEN else rtol
        u, s, vh = self.svd(array, full_matrices=False, hermitian=hermitian, check_finite=check_finite)
        relative = max(array.shape[-2:]) * epsilon(s.dtype) if given is None else np.asarray(given)[..., np.newaxis]
        with np.errstate(all="ignore"):
            limit = s[..., :1] * relative
            # NaN, of matrices that were not checked, stays.
            inverted = np.where(s <= limit, 0, 1 / s).astype(s.dtype, copy=False)
            weighted = vh * inverted[..., np.newaxis]
        return self._engine.matmul(adjoint(weighted), adjoint(u))

    @operation
    def lstsq(self, a: Any, b: Any, rcond: Any = None, *, check_finite: bool = True) -> Any:
        """Solution of least squares, and of least norm among those.

        Parameters
        ----------
        a : array_like
            ``(..., M, N)``.
        b : array_like
            ``(M,)``, one vector for all, or ``(..., M, K)``, whose leading axes broadcast with those of `a`.
        rcond : float, optional
            Singular values up to this times the largest count as zero. Default ``max(M, N) * eps``.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        x : ndarray
            ``(..., N)`` for a vector, else ``(..., N, K)``.
        residuals : ndarray
            Squared norms of the columns of ``b - a @ x``, ``(..., K)``, or ``(..., 1)`` for a vector; of length 0 along the
            last axis unless M > N and every matrix has rank N.
        rank : int or ndarray
            ``(...)``, the rank of each matrix of `a`.
        s : ndarray
            ``(..., min(M, N))``, the singular values of `a`.

        Raises
        ------
        MatrixShapeError, BroadcastError
            For sizes that do not fit.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Notes
        -----
        By the singular value decomposition, so that rank-deficient matrices are no special case (Golub and Van Loan,
        Matrix Computations, 5.5). Results have the same bits at every width.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> a = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]])
        >>> td.CpuEngine.serial().linalg.lstsq(a, np.array([1.0, 3.0, 5.0]))[0].round(12)
        array([1., 2.])
        """
        left = matrices(a, "lstsq", 0)
        right = operand(b, "lstsq", 1)
        vector = right.ndim == 1
        if right.ndim == 0:
            raise MatrixShapeError(
                "lstsq: operand 1 is a scalar; give a vector (M,) or matrices (..., M, K)", operation="lstsq", operand=1
            )
        if vector:
            right = right[:, np.newaxis]
        m, n = left.shape[-2:]
        if right.shape[-2] != m:
            raise MatrixShapeError(
                f"lstsq: operand 0 has matrices of {m} by {n} and operand 1 has {right.shape[-2]} rows (only a "
                "one-dimensional b is a vector); make them equal",
                operation="lstsq",
                operand=1,
                expected=m,
                actual=right.shape[-2],
            )
        try:
            if left.ndim > 2 and right.ndim > 2:
                np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        except ValueError:
            raise BroadcastError(
                f"lstsq: operand 0 has batch axes {left.shape[:-2]} and operand 1 {right.shape[:-2]}, which do not "
                "broadcast; make the lengths equal or one of them 1",
                operation="lstsq",
                operand=1,
            ) from None
        dtype = left.dtype
        if dtype is not right.dtype:
            dtype = np.result_type(left, right)
            left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
        engine = self._engine
        if check_finite:
            refuse_non_finite(right, "lstsq", 1)
        u, s, vh = self.svd(left, full_matrices=False, check_finite=check_finite)
        relative = max(m, n) * epsilon(s.dtype) if rcond is None else rcond
        with np.errstate(all="ignore"):
            kept = s > s[..., :1] * relative
            if kept.all():
                inverted = 1 / s
            else:
                inverted = np.where(kept | np.isnan(s), 1 / s, 0).astype(s.dtype, copy=False)
            parts = engine.matmul(adjoint(u), right) * inverted[..., np.newaxis]
            x = engine.matmul(adjoint(vh), parts)
        rank = np.add.reduce(kept, axis=-1, dtype=np.intp)
        if m > n and np.all(rank == n):
            off = right - engine.matmul(left, x)
            residuals = np.sum(off.real**2 + off.imag**2 if dtype.kind == "c" else off**2, axis=-2)
        else:
            residuals = np.empty((*x.shape[:-2], 0), s.dtype)
        return (x[..., 0] if vector else x), residuals, rank, s
