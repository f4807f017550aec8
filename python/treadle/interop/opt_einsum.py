"""An engine as a backend of opt_einsum: ``opt_einsum.contract(..., backend="treadle")``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any

from treadle.engines import CpuEngine
from treadle.exceptions import ArgumentError, DTypeError, ProviderNotFoundError, ProviderVersionError

__all__ = ["register", "unregister"]

#: The functions that opt_einsum asks a backend for.
_FUNCTIONS = ("einsum", "tensordot", "transpose")
_registered: set[str] = set()


def _tables(operation: str) -> tuple[dict[Any, Any], dict[str, bool], dict[str, bool]]:
    """opt_einsum's functions by backend, and which backends have ``einsum`` and ``tensordot``."""
    try:
        from opt_einsum.backends import dispatch
    except ImportError as error:
        raise ProviderNotFoundError(
            f"{operation}: opt_einsum is not installed; pip install opt_einsum", operation=operation
        ) from error
    try:
        return dispatch._cached_funcs, dispatch._has_einsum, dispatch._has_tensordot
    except AttributeError as error:
        raise ProviderVersionError(
            f"{operation}: this opt_einsum keeps its backends elsewhere ({error}); 3.4 is known to work",
            operation=operation,
        ) from error


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"register: name is {name!r}; give a str", operation="register", argument="name")
    if name in ("auto", "object") or (
        name not in _registered and name != "treadle" and importlib.util.find_spec(name.partition(".")[0]) is not None
    ):
        raise ArgumentError(
            f"register: {name!r} is a backend of opt_einsum's own, or a package; give another name, such as 'treadle'",
            operation="register",
            argument="name",
        )


def _functions(engine: CpuEngine) -> dict[str, Callable[..., Any]]:
    def transpose(array: Any, axes: Sequence[int]) -> Any:
        return engine.einsum(array, list(range(len(axes))), list(axes))

    return {"einsum": engine.einsum, "tensordot": engine.tensordot, "transpose": transpose}


def register(engine: CpuEngine, name: str = "treadle") -> None:
    """Let opt_einsum contract on an engine: ``contract(..., backend=name)``.

    Parameters
    ----------
    engine : CpuEngine
        Runs every pairwise step. It is held until :func:`unregister`, or until another one takes its name.
    name : str, default "treadle"
        What ``backend=`` says. Lanes want a name each, for an engine runs one operation at a time.

    Raises
    ------
    ArgumentError
        For a name that opt_einsum knows already, or that a package has.
    ProviderNotFoundError
        If opt_einsum is not installed.
    ProviderVersionError
        If this opt_einsum has no place for a backend.

    Notes
    -----
    opt_einsum finds the path and calls the engine once a step; :meth:`CpuEngine.plan` with ``optimize=`` an optimizer of
    opt_einsum's plans the steps together. What the engine refuses (an object array, say) raises its error. With
    ``backend="auto"`` numpy arrays stay numpy's.

    Examples
    --------
    >>> import numpy as np, opt_einsum, treadle as td
    >>> td.interop.opt_einsum.register(td.CpuEngine.serial())
    >>> a = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> opt_einsum.contract("ij,jk,kl->il", a, a, a, backend="treadle")
    array([[ 37.,  54.],
           [ 81., 118.]])
    >>> td.interop.opt_einsum.unregister()
    """
    if not isinstance(engine, CpuEngine):
        raise DTypeError(
            f"register: engine is a {type(engine).__name__}; give a CpuEngine",
            operation="register",
            expected="CpuEngine",
            actual=type(engine).__name__,
        )
    functions, has_einsum, has_tensordot = _tables("register")
    _check_name(name)
    for function, implementation in _functions(engine).items():
        functions[function, name] = implementation
    has_einsum[name] = has_tensordot[name] = True
    _registered.add(name)


def unregister(name: str = "treadle") -> None:
    """Take a backend away again, and let go of its engine.

    Parameters
    ----------
    name : str, default "treadle"
        As it was registered; a name that was not is nothing to do.

    Examples
    --------
    >>> import treadle as td
    >>> td.interop.opt_einsum.unregister("nobody")
    """
    if name not in _registered:
        return
    functions, has_einsum, has_tensordot = _tables("unregister")
    for function in _FUNCTIONS:
        functions.pop((function, name), None)
    has_einsum.pop(name, None)
    has_tensordot.pop(name, None)
    _registered.discard(name)
