"""The hierarchy of errors: one code a class, one table for Rust and Python, everything pickles."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import treadle as td
from treadle import _native, exceptions

CLASSES = {
    name: getattr(exceptions, name)
    for name in exceptions.__all__
    if issubclass(getattr(exceptions, name), td.TreadleError)
}

#: The builtin or numpy classes that a caller would catch, by API.
PARENTS = {
    "ShapeError": ValueError,
    "SubscriptsError": ValueError,
    "BroadcastError": ValueError,
    "PathError": ValueError,
    "SizeOverflowError": OverflowError,
    "AxisError": np.exceptions.AxisError,
    "MatrixShapeError": np.linalg.LinAlgError,
    "DTypeError": TypeError,
    "ArgumentError": ValueError,
    "AliasingError": ValueError,
    "UnsupportedError": NotImplementedError,
    "LinAlgError": np.linalg.LinAlgError,
    "SingularMatrixError": np.linalg.LinAlgError,
    "NotPositiveDefiniteError": np.linalg.LinAlgError,
    "NotConvergedError": np.linalg.LinAlgError,
    "NonFiniteError": np.linalg.LinAlgError,
    "EngineError": RuntimeError,
    "EngineClosedError": RuntimeError,
    "EngineBusyError": RuntimeError,
    "EngineBrokenError": RuntimeError,
    "ReentrantCallError": RuntimeError,
    "ForkedEngineError": RuntimeError,
    "ProviderError": RuntimeError,
    "ProviderNotFoundError": ImportError,
    "ProviderVersionError": RuntimeError,
    "DeviceError": RuntimeError,
    "DeviceOutOfMemoryError": MemoryError,
    "LaneError": RuntimeError,
    "NoEngineError": ValueError,
    "LaneThreadError": RuntimeError,
    "LaneTaskError": RuntimeError,
    "LaneCancelledError": RuntimeError,
    "PmapError": RuntimeError,
    "OutOfMemoryError": MemoryError,
    "InternalError": RuntimeError,
}


def test_the_table_of_codes_is_the_set_of_classes() -> None:
    table = _native._error_codes()
    assert len(table) >= 35
    assert {code: cls.code for code, cls in ((c, CLASSES[n]) for c, n in table.items())} == {c: c for c in table}
    assert set(table.values()) == set(CLASSES) - {"TreadleError"}
    assert set(PARENTS) == set(CLASSES) - {"TreadleError"}


@pytest.mark.parametrize("name", sorted(PARENTS))
def test_each_class_is_raised_by_the_core_and_caught_by_its_builtin(name: str) -> None:
    cls = CLASSES[name]
    with pytest.raises(PARENTS[name]) as caught:
        _native._raise(cls.code)
    error = caught.value
    assert type(error) is cls
    assert isinstance(error, td.TreadleError)
    assert (error.code, error.operation, error.operand) == (cls.code, "test", 1)
    assert error.detail == {"index": 2}
    assert str(error) == "test: raised by a test"


@pytest.mark.parametrize("name", sorted(CLASSES))
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_each_class_pickles_and_comes_back_equal(name: str, protocol: int) -> None:
    error = CLASSES[name]("a message", operation="einsum", operand=3, index=7, expected="x", actual="y", kind="wire")
    twin = pickle.loads(pickle.dumps(error, protocol))
    assert type(twin) is type(error)
    assert twin == error
    assert hash(twin) == hash(error)
    assert (str(twin), twin.operation, twin.operand, twin.detail) == ("a message", "einsum", 3, error.detail)
    assert copy.copy(error) == error
    assert twin != CLASSES[name]("another message", operation="einsum", operand=3)


def test_facts_are_attributes_with_defaults() -> None:
    assert td.DTypeError("m").expected is None
    assert td.DTypeError("m", expected="a", actual="b").actual == "b"
    assert td.LinAlgError("m").index is None
    assert td.SingularMatrixError("m", index=4).index == 4
    task = td.LaneTaskError("m", index=1, lane=2, rank=3, item_repr="x")
    assert (task.index, task.lane, task.rank, task.item_repr) == (1, 2, 3, "x")
    assert td.PmapError("m", kind="wire").kind == "wire"
    axis = td.AxisError("m", axis=3, ndim=2)
    assert (axis.axis, axis.ndim, str(axis)) == (3, 2, "m")


def test_warnings_have_their_place() -> None:
    assert issubclass(td.TreadleWarning, UserWarning)
    assert issubclass(td.PerformanceWarning, td.TreadleWarning)
    assert issubclass(td.OversubscriptionWarning, td.TreadleWarning)
