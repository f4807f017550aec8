"""Norms of vectors and matrices, as numpy's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle import _arrays, _native
from treadle._axes import normalised
from treadle.exceptions import ArgumentError, TreadleError
from treadle.linalg._operation import Array, is_plain, own, refuse_non_finite, step

INVALID_VECTOR = "valid for vectors are None, inf, -inf, 0 and other numbers"
INVALID_MATRIX = "valid for matrices are None, 'fro', 'nuc', inf, -inf, 1, -1, 2 and -2"


def _read(value: Any, name: str) -> Array:
    if is_plain(value):
        return value
    array = _arrays.as_readable(value, name, 0)
    return array if array.dtype.kind in "fcV" else array.astype(np.float64)


def _euclidean(engine: Any, x: Array, axes: int) -> Any:
    """The root of the sum of squares over the last `axes` axes."""
    labels = "abcdefghijklmnopqrstuvwxyz"[:axes]
    with np.errstate(all="ignore"):
        squares = engine.einsum(f"...{labels},...{labels}->...", x, x, conj=[True, False])
        result = np.sqrt(squares.real)
        info = np.finfo(result.dtype) if result.dtype.kind == "f" else None
        if info is None:
            return result
        # Squares beyond the range, or among the denormals: once more, scaled by the largest entry.
        low = math.sqrt(float(info.tiny) / float(info.eps))
        doubtful = ~((result > low) & (result < np.inf))
        if not doubtful.any():
            return result
        last = tuple(range(-axes, 0))
        largest = np.max(np.abs(x), axis=last, keepdims=True, initial=0)
        fit = np.isfinite(largest) & (largest > 0)
        scale = np.where(fit, np.exp2(np.floor(np.log2(np.where(fit, largest, 1)))), 1).astype(result.dtype)
        scaled = x / scale
        again = np.sqrt(engine.einsum(f"...{labels},...{labels}->...", scaled, scaled, conj=[True, False]).real)
        again = again * scale.reshape(result.shape)
        return np.where(doubtful & fit.reshape(result.shape), again, result)[()]


#: Sums of squares between these lost nothing to underflow or overflow.
_PLAIN = {"f": (1e-30, 1e38), "d": (1e-290, 1e308)}


def _flat(engine: Any, x: Array) -> Any:
    """The root of the sum of squares of a vector of real numbers."""
    low, high = _PLAIN.get(x.dtype.char, (1.0, 0.0))
    if low < high:
        square = engine.vdot(x, x)
        if low < square < high:
            return x.dtype.type(math.sqrt(square))
    return _euclidean(engine, x, 1)


#: The same for numpy's own dtype objects, with the type of the result.
_QUICK = {id(np.dtype(char)): (*_PLAIN[char], np.dtype(char).type) for char in _PLAIN}


def _quick(engine: Any, x: Array) -> Any:
    """As `_flat`, for arrays in C order that need no preparation; None where there is more to do."""
    known = _QUICK.get(id(x.dtype))
    if known is not None and x.flags.carray:
        low, high, scalar = known
        square = engine.vdot(x, x)
        if low < square < high:
            return scalar(math.sqrt(square))
    return None


def _last(x: Array, axes: tuple[int, ...]) -> Array:
    """The array with those axes last, which they mostly are."""
    count = len(axes)
    return x if axes == tuple(range(x.ndim - count, x.ndim)) else np.moveaxis(x, axes, range(-count, 0))


def _absolute(x: Array) -> Array:
    return np.abs(x)


def _vector(engine: Any, x: Array, order: Any, axis: int, *, keepdims: bool) -> Any:
    if isinstance(order, str):
        raise ArgumentError(f"norm: ord is {order!r}; {INVALID_VECTOR}", operation="norm", argument="ord")
    if order is None or order == 2:
        result = _euclidean(engine, _last(x, (axis,)), 1)
        return np.expand_dims(result, axis) if keepdims else result
    if order == math.inf:
        return _absolute(x).max(axis=axis, keepdims=keepdims, initial=0)
    if order == -math.inf:
        if x.shape[axis] == 0:
            raise ArgumentError(
                "norm: the smallest entry of an axis of length 0 does not exist; give another ord, or no empty array",
                operation="norm",
                argument="ord",
            )
        return _absolute(x).min(axis=axis, keepdims=keepdims)
    if order == 0:
        return np.sum((x != 0).astype(x.real.dtype), axis=axis, keepdims=keepdims)
    if order == 1:
        return np.sum(_absolute(x), axis=axis, keepdims=keepdims)
    absolute = _absolute(x)
    try:
        exponent = absolute.dtype.type(order)
    except (TypeError, ValueError):
        raise ArgumentError(f"norm: ord is {order!r}; {INVALID_VECTOR}", operation="norm", argument="ord") from None
    sums = np.sum(np.power(absolute, exponent), axis=axis, keepdims=keepdims)
    return np.power(sums, absolute.dtype.type(1) / exponent)


def _smallest(x: Array) -> Any:
    """The least entry of the last axis, which has one."""
    if x.shape[-1] == 0:
        raise ArgumentError(
            "norm: the smallest of no numbers does not exist; give another ord, or no empty matrix",
            operation="norm",
            argument="ord",
        )
    return x.min(axis=-1)


def _matrix(linalg: Any, x: Array, order: Any, *, check_finite: bool) -> Any:
    """The norm of matrices in the last two axes."""
    if isinstance(order, np.ndarray) and order.ndim > 0:
        raise ArgumentError(f"norm: ord is an array; {INVALID_MATRIX}", operation="norm", argument="ord")
    if order is None or order in ("fro", "f"):
        return _euclidean(linalg._engine, x, 2)
    if order in ("nuc", 2, -2):
        values = linalg.svdvals(x, check_finite=check_finite)
        if order == "nuc":
            return np.add.reduce(values, axis=-1)
        return values.max(axis=-1, initial=0) if order == 2 else _smallest(values)
    if order in (1, -1, math.inf, -math.inf):
        sums = np.add.reduce(_absolute(x), axis=-2 if order in (1, -1) else -1)
        return sums.max(axis=-1, initial=0) if order > 0 else _smallest(sums)
    raise ArgumentError(f"norm: ord is {order!r}; {INVALID_MATRIX}", operation="norm", argument="ord")


def norm_of(linalg: Any, x: Array, order: Any, axis: Any, *, keepdims: bool, check_finite: bool) -> Any:
    """Numpy's ``norm`` of an array that was read."""
    if axis is None:
        if order is None or (order in ("f", "fro") and x.ndim == 2) or (order == 2 and x.ndim == 1):
            # In the order of memory, and complex numbers as their parts.
            flat = x.ravel(order="K")
            if flat.dtype.kind == "c":
                flat = flat.view(flat.real.dtype)
            result = _flat(linalg._engine, flat)
            if check_finite and not np.isfinite(result):
                refuse_non_finite(x, "norm", core=x.ndim)
            return np.reshape(result, (1,) * x.ndim) if keepdims else result
        axes = tuple(range(x.ndim))
    else:
        named = axis if isinstance(axis, tuple) else (axis,)
        try:
            axes = tuple(int(entry) for entry in named)
        except (TypeError, ValueError):
            raise TypeError(f"norm: axis is {axis!r}; valid are None, an integer and a tuple of integers") from None
    if len(axes) not in (1, 2):
        raise ArgumentError(
            f"norm: {len(axes)} axes are named or there, and norms are over one axis or two; give axis=",
            operation="norm",
            argument="axis",
        )
    axes = tuple(normalised(axes, x.ndim, 0, "norm"))
    if check_finite:
        refuse_non_finite(_last(x, axes), "norm", core=len(axes))
    with np.errstate(all="ignore"):
        if len(axes) == 1:
            return _vector(linalg._engine, x, order, axes[0], keepdims=keepdims)
        result = _matrix(linalg, _last(x, axes), order, check_finite=check_finite)
        return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result


class Norms(_native.Linalg):
    """Norms."""

    __slots__ = ()

    def norm(
        self,
        x: Any,
        ord: Any = None,
        axis: Any = None,
        keepdims: bool = False,  # noqa: FBT001
        *,
        check_finite: bool = True,
    ) -> Any:
        """Norm of a vector or matrix.

        Parameters
        ----------
        x : array_like
            Any number of axes when `ord` and `axis` are None, else one or two are needed.
        ord : number or str, optional
            Of vectors: a number, inf or -inf; of matrices: ``"fro"``, ``"nuc"``, inf, -inf, 1, -1, 2 or -2. Default: the
            root of the sum of squares.
        axis : int or tuple of int, optional
            One axis for norms of vectors, two for norms of matrices.
        keepdims : bool, default False
            Keep those axes with length one.
        check_finite : bool, default True
            Refuse NaN and infinity; with False, norms are what numpy makes of them.

        Returns
        -------
        float or ndarray
            Real, of the precision of `x`. Sums of squares that leave the range are scaled, so that norms of 1e300 and of
            1e-300 are right.

        Raises
        ------
        ArgumentError, AxisError
            For an `ord` outside its closed set, or axes that are not there.
        NonFiniteError
            With ``.index``, the lowest item with NaN or infinity.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.norm(np.array([[3.0, 4.0], [6.0, 8.0]]), axis=1)
        array([ 5., 10.])
        """
        try:
            if ord is None and axis is None and type(x) is np.ndarray and not keepdims:
                quick = _quick(self._engine, x)
                if quick is not None:
                    return quick
            return norm_of(self, _read(x, "norm"), ord, axis, keepdims=keepdims, check_finite=check_finite)
        except TreadleError as error:
            own(error, "norm")
            raise

    @step
    def vector_norm(
        self, x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2, check_finite: bool = True
    ) -> Any:
        """Norm of vectors; several axes are one vector.

        Parameters
        ----------
        x : array_like
            Any number of axes.
        axis : int or tuple of int, optional
            The axes of a vector; all by default.
        keepdims : bool, default False
            Keep those axes with length one.
        ord : number, default 2
            As for :meth:`norm` of vectors.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        float or ndarray
            Real.

        Raises
        ------
        ArgumentError, AxisError, NonFiniteError
            As for :meth:`norm`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.vector_norm(np.ones((2, 2, 4)), axis=(0, 2), ord=1)
        array([8., 8.])
        """
        array = _read(x, "vector_norm")
        named = range(array.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = normalised(list(named), array.ndim, 0, "vector_norm")
        rest = [place for place in range(array.ndim) if place not in axes]
        moved = array.transpose(*rest, *axes)
        vectors = moved.reshape(*moved.shape[: len(rest)], math.prod(moved.shape[len(rest) :]))
        result = norm_of(self, vectors, ord, -1, keepdims=False, check_finite=check_finite)
        return np.expand_dims(result, tuple(sorted(axes))) if keepdims else result

    @step
    def matrix_norm(self, x: Any, /, *, keepdims: bool = False, ord: Any = "fro", check_finite: bool = True) -> Any:
        """Norm of the matrices in the last two axes.

        Parameters
        ----------
        x : array_like
            ``(..., M, N)``.
        keepdims : bool, default False
            Keep those axes with length one.
        ord : number or str, default "fro"
            As for :meth:`norm` of matrices.
        check_finite : bool, default True
            Refuse NaN and infinity.

        Returns
        -------
        float or ndarray
            ``(...)``, real.

        Raises
        ------
        ArgumentError, AxisError, NonFiniteError
            As for :meth:`norm`.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.matrix_norm(np.diag([3.0, 4.0]), ord=2)
        np.float64(4.0)
        """
        return norm_of(self, _read(x, "matrix_norm"), ord, (-2, -1), keepdims=keepdims, check_finite=check_finite)
