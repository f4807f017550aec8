"""Condition numbers and ranks, as numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle import _native
from treadle.exceptions import ArgumentError, MatrixShapeError
from treadle.linalg._operation import (
    epsilon,
    in_range,
    matrices,
    need_square,
    operand,
    operation,
    refuse_non_finite,
    step,
)
from treadle.linalg.inverse import inverse_or_nan
from treadle.linalg.norms import norm_of


class Conditioning(_native.Linalg):
    """Condition numbers and ranks."""

    __slots__ = ()

    @operation
    def cond(self, x: Any, p: Any = None, *, check_finite: bool = True) -> Any:
        """Condition number of matrices, in a norm of choice.

        Parameters
        ----------
        x : array_like
            ``(..., M, N)``; square unless `p` is None, 2 or -2.
        p : number or str, optional
            The norm: None or 2 for the ratio of the largest to the smallest singular value, -2 for its inverse, or
            ``"fro"``, ``"nuc"``, inf, -inf, 1 or -1, by the inverse.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        float or ndarray
            ``(...)``; infinite for singular matrices.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes, empty matrices, or ones that are not square.
        ArgumentError
            For another norm.
        NonFiniteError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.cond(np.diag([4.0, 2.0]), 1)
        np.float64(2.0)
        """
        a = matrices(x, "cond")
        if math.prod(a.shape[-2:]) == 0:
            raise MatrixShapeError(
                f"cond: operand 0 has matrices of {a.shape[-2]} by {a.shape[-1]}, and empty ones have no condition number",
                operation="cond",
                operand=0,
            )
        with np.errstate(all="ignore"):
            if p is None or p in (2, -2):
                values = self.svdvals(a, check_finite=check_finite)
                first, last = values[..., 0], values[..., -1]
                result = last / first if p == -2 else first / last
            else:
                need_square(a, "cond")
                if check_finite:
                    refuse_non_finite(a, "cond")
                options: dict[str, Any] = {"keepdims": False, "check_finite": False}
                own = norm_of(self, a, p, (-2, -1), **options)
                result = own * norm_of(self, inverse_or_nan(self, a), p, (-2, -1), **options)
            # A singular matrix gives NaN on the way; only NaN of the input stays.
            undefined = np.isnan(result)
            if undefined.any():
                undefined = undefined & ~np.isnan(a).any(axis=(-2, -1))
                result = np.where(undefined, result.dtype.type(np.inf), result)[()]
        return result

    @step
    def matrix_rank(
        self,
        A: Any,
        tol: Any = None,
        hermitian: bool = False,  # noqa: FBT001
        *,
        rtol: Any = None,
        check_finite: bool = True,
    ) -> Any:
        """Rank of matrices: the number of singular values above a tolerance.

        Parameters
        ----------
        A : array_like
            ``(..., M, N)``, or fewer axes, whose rank is 1 unless all is zero.
        tol : float or array_like, optional
            Values up to this count as zero; ``(...)``. Default: `rtol` times the largest.
        hermitian : bool, default False
            The matrices are Hermitian, and the lower triangle is read.
        rtol : float or array_like, optional
            Relative to the largest singular value; default ``max(M, N) * eps``.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        int or ndarray
            ``(...)``.

        Raises
        ------
        ArgumentError
            For `tol` and `rtol` together.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.matrix_rank(np.ones((3, 3)))
        np.int64(1)
        """
        if tol is not None and rtol is not None:
            raise ArgumentError(
                "matrix_rank: tol and rtol were both given; give one of them", operation="matrix_rank", argument="rtol"
            )
        a = operand(A, "matrix_rank")
        if a.ndim < 2:
            if check_finite:
                refuse_non_finite(a, "matrix_rank", core=a.ndim)
            return int(bool(np.any(a != 0)))
        values = self.svd(a, compute_uv=False, hermitian=hermitian, check_finite=check_finite)
        if tol is None:
            if rtol is None:
                relative = np.asarray(max(a.shape[-2:]) * epsilon(values.dtype))
            else:
                relative = np.asarray(rtol)[..., np.newaxis]
            values = in_range(self, values, a)
            limit = values[..., :1] * relative
        else:
            limit = np.asarray(tol)[..., np.newaxis]
        return np.count_nonzero(values > limit, axis=-1)
