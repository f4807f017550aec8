"""Random arrays in every layout that a caller may hand over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LAYOUTS", "random_array"]

#: Layouts that :func:`random_array` makes: C and Fortran order, every second element of a larger array,
#: all axes reversed, and the first axis broadcast (stride 0).
LAYOUTS = ("C", "F", "sliced", "reversed", "broadcast")


def _values(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], *, integers: bool) -> Any:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":
        low = 0 if dtype.kind == "u" else -8
        return rng.integers(low, 9, shape).astype(dtype)
    if integers:
        real = rng.integers(-4, 5, shape).astype(np.float64)
        imag = rng.integers(-4, 5, shape).astype(np.float64)
    else:
        real, imag = rng.uniform(-1.0, 1.0, shape), rng.uniform(-1.0, 1.0, shape)
    return (real + 1j * imag if dtype.kind == "c" else real).astype(dtype)


def random_array(
    shape: int | Sequence[int],
    dtype: Any = "float64",
    *,
    seed: int = 0,
    layout: str = "C",
    integers: bool = False,
) -> Any:
    """Make a random array of a shape, dtype and layout; the same arguments always give the same values.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    dtype : dtype_like
        Any dtype that treadle takes.
    seed : int
        Seed of the generator.
    layout : {"C", "F", "sliced", "reversed", "broadcast"}
        Strides of the array, see :data:`LAYOUTS`.
    integers : bool
        Small integers in floating-point arrays, so that sums and products are exact.

    Returns
    -------
    ndarray
        Values in [-1, 1], or integers in [-8, 8] for integer dtypes.

    Examples
    --------
    >>> from treadle.testing import random_array
    >>> a = random_array((3, 4), "complex64", layout="reversed")
    >>> a.shape, a.dtype.name, a.strides
    ((3, 4), 'complex64', (-32, -8))
    """
    if layout not in LAYOUTS:
        msg = f"layout {layout!r} is none of {', '.join(LAYOUTS)}"
        raise ValueError(msg)
    full = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = np.dtype(dtype)
    rng = np.random.default_rng([seed, len(full), *full])
    if layout == "F":
        return np.asfortranarray(_values(rng, full, kind, integers=integers))
    if layout == "sliced":
        wide = _values(rng, tuple(2 * n for n in full), kind, integers=integers)
        return wide[tuple(slice(None, None, 2) for _ in full)]
    if layout == "reversed":
        return _values(rng, full, kind, integers=integers)[tuple(slice(None, None, -1) for _ in full)]
    if layout == "broadcast" and full:
        return np.broadcast_to(_values(rng, (1, *full[1:]), kind, integers=integers), full)
    return _values(rng, full, kind, integers=integers)
