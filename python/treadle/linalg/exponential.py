"""The exponential of matrices.

Scaling and squaring with Pade approximants of degree 3 to 13, after Al-Mohy and Higham (SIAM J. Matrix Anal. Appl. 31, 2009,
algorithm 5.1): the scaling comes from the norms of powers of the matrix, which for matrices that are far from normal are
much smaller than powers of its norm.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from treadle import _native
from treadle.linalg._operation import Array, need_square, operand, operation, refuse_non_finite

#: The largest norm for which the approximant of a degree is exact to double precision (Higham 2005, table 2.3).
_THETA = {
    3: 1.495585217958292e-2,
    5: 2.539398330063230e-1,
    7: 9.504178996162932e-1,
    9: 2.097847961257068,
    13: 4.25,
}


@functools.cache
def _coefficients(m: int) -> list[float]:
    """Coefficients of the numerator of the diagonal approximant, divided by the last."""
    return [float(math.factorial(2 * m - j) // (math.factorial(m - j) * math.factorial(j))) for j in range(m + 1)]


def _one_norms(a: Array) -> Array:
    norms: Array = np.abs(a).sum(axis=-2).max(axis=-1, initial=0).astype(np.float64)
    return norms


class _Powers:
    """Even powers of a stack of matrices, made when they are asked for."""

    def __init__(self, engine: Any, a: Array) -> None:
        self.engine = engine
        self.made: dict[int, Array] = {1: a}

    def __getitem__(self, exponent: int) -> Array:
        if exponent not in self.made:
            half = 1 if exponent == 2 else exponent - exponent // 4 * 2 if exponent > 4 else 2
            self.made[exponent] = self.engine.matmul(self[half], self[exponent - half])
        return self.made[exponent]

    def root(self, exponent: int) -> Array:
        """The norm of a power, to the inverse of its exponent."""
        return _one_norms(self[exponent]) ** (1 / exponent)


def _extra_squarings(engine: Any, a: Array, scale: Array, m: int) -> Array:
    """How many more times a matrix is to be halved so that the error of degree `m` is below rounding."""
    absolute = np.abs(a) * scale[:, np.newaxis, np.newaxis].astype(a.real.dtype)
    norms = _one_norms(absolute)
    row = np.ones((a.shape[0], 1, a.shape[-1]), absolute.dtype)
    for _ in range(2 * m + 1):
        row = engine.matmul(row, absolute)
    power_norm = row.max(axis=(-2, -1), initial=0).astype(np.float64)
    # The leading coefficient of the backward error.
    log_c = -(math.log2(math.comb(2 * m, m)) + math.log2(math.factorial(2 * m + 1)))
    with np.errstate(all="ignore"):
        log_alpha = np.log2(power_norm) - np.log2(norms) + log_c
    wanted = np.ceil((log_alpha + 53) / (2 * m))
    wanted = np.where(np.isfinite(wanted), wanted, 0)
    extra: Array = np.maximum(wanted, 0).astype(int)
    return extra


def _decide(engine: Any, a: Array, powers: _Powers) -> tuple[Array, Array]:
    """Degree and squarings for each matrix."""
    count = a.shape[0]
    degree, squarings = np.full(count, 13), np.zeros(count, int)
    open_ = np.ones(count, bool)
    unscaled = np.ones(count)

    def settle(m: int, eta: Array) -> None:
        fits = open_ & (eta <= _THETA[m])
        if fits.any():
            chosen = np.flatnonzero(fits)
            fine = _extra_squarings(engine, a[chosen], unscaled[chosen], m) == 0
            degree[chosen[fine]] = m
            open_[chosen[fine]] = False

    with np.errstate(all="ignore"):
        d4, d6 = powers.root(4), powers.root(6)
        eta = np.maximum(d4, d6)
        settle(3, eta)
        settle(5, eta)
        if not open_.any():
            return degree, squarings
        d8 = powers.root(8)
        eta_8 = np.maximum(d6, d8)
        settle(7, eta_8)
        settle(9, eta_8)
        if not open_.any():
            return degree, squarings
        least = np.minimum(eta, eta_8)
        rest = np.flatnonzero(open_)
        needed = np.ceil(np.log2(least[rest] / _THETA[13]))
        squarings[rest] = np.maximum(np.where(np.isfinite(needed), needed, 0), 0).astype(int)
        squarings[rest] += _extra_squarings(engine, a[rest], np.exp2(-squarings[rest].astype(float)), 13)
    return degree, squarings


def _approximant(linalg: Any, powers: dict[int, Array], m: int) -> Array:
    """The diagonal Pade approximant of degree `m` for scaled powers."""
    engine = linalg._engine
    a = powers[1]
    eye = np.eye(a.shape[-1], dtype=a.dtype)
    b = _coefficients(m)
    if m == 13:
        a2, a4, a6 = powers[2], powers[4], powers[6]
        odd = engine.matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
        odd += b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye
        even = engine.matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2)
        even += b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    else:
        odd, even = b[1] * eye, b[0] * eye
        for exponent in range(2, m, 2):
            odd = odd + b[exponent + 1] * powers[exponent]
            even = even + b[exponent] * powers[exponent]
    odd = engine.matmul(a, odd)
    solution: Array = linalg.solve(even - odd, even + odd, check_finite=False)
    return solution


def _divided_differences(first: Array, second: Array) -> Array:
    """``(exp(y) - exp(x)) / (y - x)``, without cancellation."""
    half = (second - first) / 2
    with np.errstate(all="ignore"):
        quotient = np.where(half == 0, 1, np.sinh(half) / np.where(half == 0, 1, half))
    result: Array = np.exp((first + second) / 2) * quotient
    return result


def _fix_triangle(x: Array, a: Array, scale: float) -> None:
    """The diagonal of the exponential of an upper triangular matrix, and the entries beside it, exactly."""
    n = a.shape[-1]
    diagonal = np.einsum("...ii->...i", a) * scale
    beside = a[..., np.arange(n - 1), np.arange(1, n)] * scale
    with np.errstate(all="ignore"):
        x[..., np.arange(n), np.arange(n)] = np.exp(diagonal)
        between = beside * _divided_differences(diagonal[..., :-1], diagonal[..., 1:])
        there = x[..., np.arange(n - 1), np.arange(1, n)]
        # Where the exponentials leave the range, the product is as good as it gets.
        x[..., np.arange(n - 1), np.arange(1, n)] = np.where(np.isfinite(between), between, there)


def _of_group(linalg: Any, a: Array, made: dict[int, Array], m: int, s: int, kind: str) -> Array:
    """The exponential of matrices with the same degree and squarings, and all or none of them triangular."""
    engine = linalg._engine
    scaled = {exponent: power * a.real.dtype.type(2.0 ** (-s * exponent)) for exponent, power in made.items()}
    x = _approximant(linalg, scaled, m)
    if kind == "full":
        for _ in range(s):
            x = engine.matmul(x, x)
        return x
    # Code fragment 2.1 of the paper, for upper triangles.
    x, upper = (x, a) if kind == "upper" else (x.swapaxes(-1, -2).copy(), a.swapaxes(-1, -2))
    _fix_triangle(x, upper, 2.0**-s)
    for step in range(s - 1, -1, -1):
        x = engine.matmul(x, x)
        _fix_triangle(x, upper, 2.0**-step)
    x = np.triu(x)
    return x if kind == "upper" else x.swapaxes(-1, -2)


class Exponential(_native.Linalg):
    """The exponential."""

    __slots__ = ()

    @operation
    def expm(self, A: Any, *, check_finite: bool = True) -> Any:
        """Exponential of square matrices.

        Parameters
        ----------
        A : array_like
            ``(..., M, M)``.
        check_finite : bool, default True
            Refuse NaN and infinity; with False, a matrix that holds one gives NaN.

        Returns
        -------
        ndarray
            ``(..., M, M)``.

        Raises
        ------
        MatrixShapeError
            For fewer than two axes, or matrices that are not square.
        NonFiniteError
            With ``.index``, the lowest failing item of the batch.

        Notes
        -----
        Scaling and squaring (Al-Mohy and Higham, SIAM J. Matrix Anal. Appl. 31, 2009). Diagonal matrices are computed entry
        by entry, and triangular ones keep the diagonal exact. A matrix has the same result alone and in a batch, and
        the same bits at every width.

        Examples
        --------
        >>> import numpy as np, treadle as td
        >>> td.CpuEngine.serial().linalg.expm(np.array([[0.0, 1.0], [0.0, 0.0]]))
        array([[1., 1.],
               [0., 1.]])
        """
        a = operand(A, "expm")
        need_square(a, "expm")
        if check_finite:
            refuse_non_finite(a, "expm")
        n = a.shape[-1]
        stack = a.reshape(math.prod(a.shape[:-2]), n, n)
        result = np.empty(stack.shape, a.dtype)
        if stack.size == 0:
            return result.reshape(a.shape)
        finite = np.isfinite(stack).all(axis=(-2, -1))
        result[~finite] = np.nan
        lower = np.triu(np.ones((n, n), bool), 1)
        is_upper = ~np.any((stack != 0) & lower.T, axis=(-2, -1))
        is_lower = ~np.any((stack != 0) & lower, axis=(-2, -1))
        diagonal = finite & is_upper & is_lower
        if diagonal.any():
            result[diagonal] = 0
            with np.errstate(all="ignore"):
                entries = np.exp(np.einsum("kii->ki", stack[diagonal]))
            for place, row in zip(np.flatnonzero(diagonal), entries, strict=True):
                np.fill_diagonal(result[place], row)
        left = np.flatnonzero(finite & ~diagonal)
        if left.size:
            self._exponentials(stack, left, is_upper, is_lower, result)
        return result.reshape(a.shape)

    def _exponentials(self, stack: Array, left: Array, is_upper: Array, is_lower: Array, result: Array) -> None:
        """The exponentials of `stack[left]`, group by group."""
        a = stack[left]
        powers = _Powers(self._engine, a)
        degree, squarings = _decide(self._engine, a, powers)
        kinds = np.where(is_upper[left], "upper", np.where(is_lower[left], "lower", "full"))
        groups: dict[tuple[int, int, str], list[int]] = {}
        for place in range(len(left)):
            groups.setdefault((int(degree[place]), int(squarings[place]), str(kinds[place])), []).append(place)
        for (m, s, kind), places in groups.items():
            even = range(2, m, 2) if m < 13 else (2, 4, 6)
            made = {1: a[places], **{exponent: powers[exponent][places] for exponent in even}}
            with np.errstate(all="ignore"):
                result[left[places]] = _of_group(self, a[places], made, m, s, kind)
