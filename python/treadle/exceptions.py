"""The errors and warnings of treadle.

Every error is a :class:`TreadleError` and, beside that, the builtin or numpy class that a caller would catch
anyway: ``except ValueError`` catches a :class:`ShapeError`, ``except numpy.linalg.LinAlgError`` a
:class:`SingularMatrixError`. Each class has a stable ``code``, and the code of a class is its own alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

__all__ = [
    "AliasingError",
    "ArgumentError",
    "AxisError",
    "BroadcastError",
    "DTypeError",
    "DeviceError",
    "DeviceOutOfMemoryError",
    "EngineBrokenError",
    "EngineBusyError",
    "EngineClosedError",
    "EngineError",
    "ForkedEngineError",
    "InternalError",
    "LaneCancelledError",
    "LaneError",
    "LaneTaskError",
    "LaneThreadError",
    "LinAlgError",
    "MatrixShapeError",
    "NoEngineError",
    "NonFiniteError",
    "NotConvergedError",
    "NotPositiveDefiniteError",
    "OutOfMemoryError",
    "OversubscriptionWarning",
    "PathError",
    "PerformanceWarning",
    "PmapError",
    "ProviderError",
    "ProviderNotFoundError",
    "ProviderVersionError",
    "ReentrantCallError",
    "ShapeError",
    "SingularMatrixError",
    "SizeOverflowError",
    "SubscriptsError",
    "TreadleError",
    "TreadleWarning",
    "UnsupportedError",
]


def _rebuild(cls: type[TreadleError], message: str, fields: dict[str, Any]) -> TreadleError:
    """Make an error again from what :meth:`TreadleError.__reduce__` kept."""
    return cls(message, **fields)


class TreadleError(Exception):
    """Base of every error that treadle raises.

    Parameters
    ----------
    message : str
        The sentence: operand, label, both numbers, remedy.
    operation : str, optional
        The function that refused, such as ``"einsum"``.
    operand : int, optional
        The position of the operand to blame, counted from 0.
    **detail : object
        Named facts: an index, a size, a dtype. They stand in ``error.detail`` and as attributes.

    Attributes
    ----------
    code : str
        Stable name of the kind of error; one class, one code.
    operation : str or None
        The function that refused.
    operand : int or None
        The position of the operand to blame.
    detail : dict
        The named facts.

    Examples
    --------
    >>> import treadle as td
    >>> error = td.BroadcastError("label 'b' is 4 and 6", operation="einsum", operand=1, label="b")
    >>> error.code, error.operand, error.detail
    ('broadcast', 1, {'label': 'b'})
    >>> isinstance(error, ValueError)
    True
    """

    code: ClassVar[str] = "treadle"
    #: Facts that every error of the class has, with what they are when nobody gave them.
    _facts: ClassVar[dict[str, Any]] = {}

    operation: str | None
    operand: int | None
    detail: dict[str, Any]

    def __init__(
        self,
        message: str = "",
        *,
        operation: str | None = None,
        operand: int | None = None,
        **detail: Any,
    ) -> None:
        super().__init__(message)
        self.operation = operation
        self.operand = operand
        self.detail = detail
        for name, default in self._facts.items():
            setattr(self, name, detail.get(name, default))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            detail = self.__dict__.get("detail", {})
            if name in detail:
                return detail[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def _fields(self) -> dict[str, Any]:
        return {"operation": self.operation, "operand": self.operand, **self.detail}

    def __reduce__(self) -> tuple[Any, ...]:
        # Fields that cannot travel (a cause, a traceback, notes) are the business of whoever moves the error.
        return (_rebuild, (type(self), str(self), self._fields()))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, TreadleError)
        return str(self) == str(other) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash((type(self), str(self)))


# --- shapes, dtypes, arguments ---------------------------------------------------------------------------------


class ShapeError(TreadleError, ValueError):
    """Shapes that do not fit the operation."""

    code = "shape"


class SubscriptsError(ShapeError):
    """Subscripts that are no einsum expression, or not one for these operands."""

    code = "subscripts"


class BroadcastError(ShapeError):
    """Two sizes that differ where they must agree or be one."""

    code = "broadcast"


class PathError(ShapeError):
    """A contraction path that does not fit the number of operands."""

    code = "path"


class SizeOverflowError(ShapeError, OverflowError):
    """Sizes whose product no array can have."""

    code = "size_overflow"


class AxisError(ShapeError, np.exceptions.AxisError):
    """An axis outside the array, or given twice."""

    code = "axis"

    def __init__(self, message: str = "", **fields: Any) -> None:
        # numpy's AxisError has its own initialiser and text; only its place in the hierarchy is wanted.
        TreadleError.__init__(self, message, **fields)
        self.axis = fields.get("axis")
        self.ndim = fields.get("ndim")

    __str__ = TreadleError.__str__


class MatrixShapeError(ShapeError, np.linalg.LinAlgError):
    """An array that is no matrix, or no square one, where linear algebra needs it."""

    code = "matrix_shape"


class DTypeError(TreadleError, TypeError):
    """A dtype, or an object, that the operation does not take.

    Attributes
    ----------
    expected : str or None
        What is taken.
    actual : str or None
        What was given.
    """

    code = "dtype"
    _facts: ClassVar[dict[str, Any]] = {"expected": None, "actual": None}
    expected: str | None
    actual: str | None


class ArgumentError(TreadleError, ValueError):
    """An option outside its closed set; the message lists the valid ones."""

    code = "argument"


class AliasingError(TreadleError, ValueError):
    """``out`` shares an element with an operand, overlaps itself, or is not writeable."""

    code = "aliasing"


class UnsupportedError(TreadleError, NotImplementedError):
    """What this engine, provider, strategy or dtype cannot do."""

    code = "unsupported"


# --- linear algebra --------------------------------------------------------------------------------------------


class LinAlgError(TreadleError, np.linalg.LinAlgError):
    """A matrix that the factorisation cannot take.

    Attributes
    ----------
    index : int or None
        The lowest failing item of the batch, flat in C order over the batch axes.
    """

    code = "linalg"
    _facts: ClassVar[dict[str, Any]] = {"index": None}
    index: int | None


class SingularMatrixError(LinAlgError):
    """An exactly zero pivot."""

    code = "singular_matrix"


class NotPositiveDefiniteError(LinAlgError):
    """A matrix without a Cholesky factor."""

    code = "not_positive_definite"


class NotConvergedError(LinAlgError):
    """An iteration that did not converge, or factors whose residual was refused."""

    code = "not_converged"


class NonFiniteError(LinAlgError):
    """NaN or infinity among the entries that would be read."""

    code = "non_finite"


# --- engines, providers, devices -------------------------------------------------------------------------------


class EngineError(TreadleError, RuntimeError):
    """An engine that cannot run the operation now."""

    code = "engine"


class EngineClosedError(EngineError):
    """The engine was closed."""

    code = "engine_closed"


class EngineBusyError(EngineError):
    """Another thread's operation runs on the engine, or another thread holds its lease."""

    code = "engine_busy"


class EngineBrokenError(EngineError):
    """An earlier operation panicked; ``engine.rebuild()`` makes the engine new."""

    code = "engine_broken"


class ReentrantCallError(EngineError):
    """An operation called from inside an operation of the same engine."""

    code = "reentrant_call"


class ForkedEngineError(EngineError):
    """The process was forked after the engine was made; ``engine.rebuild()`` makes it new."""

    code = "forked_engine"


class ProviderError(TreadleError, RuntimeError):
    """A numerical library behind an engine that failed."""

    code = "provider"


class ProviderNotFoundError(ProviderError, ImportError):
    """A numerical library that is not installed."""

    code = "provider_not_found"

    __reduce__ = TreadleError.__reduce__


class ProviderVersionError(ProviderError):
    """A numerical library of a version that does not fit."""

    code = "provider_version"


class DeviceError(TreadleError, RuntimeError):
    """A device that is missing, or that refused."""

    code = "device"


class DeviceOutOfMemoryError(DeviceError, MemoryError):
    """An allocation that the device refused."""

    code = "device_out_of_memory"


class OutOfMemoryError(TreadleError, MemoryError):
    """An allocation that the machine refused, before anything was written."""

    code = "out_of_memory"


class InternalError(TreadleError, RuntimeError):
    """A caught panic. The engine in which it happened is broken until ``rebuild()``."""

    code = "internal"


# --- lanes -----------------------------------------------------------------------------------------------------


class LaneError(TreadleError, RuntimeError):
    """A misuse of lanes."""

    code = "lane"


class NoEngineError(LaneError, ValueError):
    """Lanes without an engine."""

    code = "no_engine"


class LaneThreadError(LaneError):
    """A lane's thread that could not be started."""

    code = "lane_thread"


class LaneTaskError(LaneError):
    """An item of a map failed; the user's exception is its cause.

    Attributes
    ----------
    index : int or None
        The lowest failing index.
    lane : int or None
        The lane that ran the item.
    rank : int or None
        The rank that ran the item.
    item_repr : str or None
        The item, shortened.
    """

    code = "lane_task"
    _facts: ClassVar[dict[str, Any]] = {"index": None, "lane": None, "rank": None, "item_repr": None}
    index: int | None
    lane: int | None
    rank: int | None
    item_repr: str | None


class LaneCancelledError(LaneError):
    """An item that was not finished because the map was cancelled or ran out of time."""

    code = "lane_cancelled"
    _facts: ClassVar[dict[str, Any]] = {"index": None, "lane": None, "rank": None, "item_repr": None}
    index: int | None
    lane: int | None
    rank: int | None
    item_repr: str | None


class PmapError(LaneError):
    """A map across ranks that failed for a reason other than an item.

    Attributes
    ----------
    kind : str or None
        ``"reentrant"``, ``"preflight"``, ``"wire"``, ``"protocol"`` or ``"rank_lost"``.
    index : int or None
        The item concerned, if one is.
    rank : int or None
        The lowest rank concerned.
    """

    code = "pmap"
    _facts: ClassVar[dict[str, Any]] = {"kind": None, "index": None, "rank": None}
    kind: str | None
    index: int | None
    rank: int | None


# --- warnings --------------------------------------------------------------------------------------------------


class TreadleWarning(UserWarning):
    """Base of every warning of treadle."""


class PerformanceWarning(TreadleWarning):
    """Something that works, but costs a copy."""


class OversubscriptionWarning(TreadleWarning):
    """Widths that add up to more than the CPUs that the process may use."""
