"""Null spaces, ranges and polar factors, as scipy's."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle import _native
from treadle.exceptions import ArgumentError, MatrixShapeError
from treadle.linalg._operation import Array, adjoint, epsilon, in_range, matrices, operation, step


def _common_rank(s: Array, shape: tuple[int, ...], rcond: Any, name: str) -> int:
    """The number of singular values that count, the same for every matrix of the batch."""
    relative = max(shape[-2:]) * epsilon(s.dtype) if rcond is None else np.asarray(rcond)[..., np.newaxis]
    ranks = np.count_nonzero(s > s[..., :1] * relative, axis=-1)
    flat = np.ravel(ranks)
    if flat.size == 0:
        return min(shape[-2:])
    other = np.flatnonzero(flat != flat[0])
    if other.size:
        index = int(other[0])
        raise MatrixShapeError(
            f"{name}: item 0 of the batch has rank {flat[0]} and item {index} has rank {flat[index]}, so that their results "
            "have different shapes; call it for each matrix",
            operation=name,
            operand=0,
            index=index,
        )
    return int(flat[0])


class Subspaces(_native.Linalg):
    """Null spaces, ranges and polar factors."""

    __slots__ = ()

    @step
    def null_space(self, A: Any, rcond: Any = None, *, check_finite: bool = True) -> Any:
        """Orthonormal basis of the null space.

        Parameters
        ----------
        A : array_like
            ``(..., M, N)``; the matrices of a batch need the same rank.
        rcond : float or array_like, optional
            Singular values up to this times the largest count as zero. Default ``max(M, N) * eps``.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            ``(..., N, N - rank)``.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes, or ranks that differ.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> abs(td.CpuEngine.serial().linalg.null_space(np.array([[1.0, 0.0]])))
        array([[0.],
               [1.]])
        """
        array = matrices(A, "null_space")
        _, s, vh = self.svd(array, full_matrices=True, check_finite=check_finite)
        rank = _common_rank(in_range(self, s, array), array.shape, rcond, "null_space")
        return adjoint(vh[..., rank:, :])

    @step
    def orth(self, A: Any, rcond: Any = None, *, check_finite: bool = True) -> Any:
        """Orthonormal basis of the range.

        Parameters
        ----------
        A : array_like
            ``(..., M, N)``; the matrices of a batch need the same rank.
        rcond : float or array_like, optional
            Singular values up to this times the largest count as zero. Default ``max(M, N) * eps``.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        ndarray
            ``(..., M, rank)``.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes, or ranks that differ.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> abs(td.CpuEngine.serial().linalg.orth(np.array([[2.0, 4.0], [0.0, 0.0]])))
        array([[1.],
               [0.]])
        """
        array = matrices(A, "orth")
        u, s, _ = self.svd(array, full_matrices=False, check_finite=check_finite)
        return u[..., : _common_rank(in_range(self, s, array), array.shape, rcond, "orth")]

    @operation
    def polar(self, a: Any, side: str = "right", *, check_finite: bool = True) -> tuple[Any, Any]:
        """Polar decomposition: ``a = u @ p`` (right) or ``a = p @ u`` (left).

        Parameters
        ----------
        a : array_like
            ``(..., M, N)``.
        side : {"right", "left"}, default "right"
            Where the positive factor stands.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        u : ndarray
            ``(..., M, N)``, with orthonormal columns or rows.
        p : ndarray
            Hermitian and positive semidefinite: ``(..., N, N)`` on the right, ``(..., M, M)`` on the left.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes.
        ArgumentError
            For another side.
        NonFiniteError, NotConvergedError
            With ``.index``, the lowest failing item of the batch.

        Notes
        -----
        From the singular value decomposition (Higham, Functions of Matrices, 8).

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> u, p = td.CpuEngine.serial().linalg.polar(np.diag([2.0, -3.0]))
        >>> p
        array([[2., 0.],
               [0., 3.]])
        """
        if side not in ("right", "left"):
            raise ArgumentError(
                f"polar: side is {side!r}; valid are 'right' and 'left'", operation="polar", argument="side"
            )
        array = matrices(a, "polar")
        w, s, vh = self.svd(array, full_matrices=False, check_finite=check_finite)
        engine = self._engine
        unitary = engine.matmul(w, vh)
        if side == "right":
            positive = engine.einsum("...ki,...kj->...ij", vh, vh * s[..., np.newaxis], conj=[True, False], order="C")
        else:
            positive = engine.einsum("...ik,...jk->...ij", w * s[..., np.newaxis, :], w, conj=[False, True], order="C")
        return unitary, positive
