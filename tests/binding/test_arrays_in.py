"""What is read as an array: strided, misaligned, byte-swapped, buffers, interfaces and DLPack; and what comes back."""

from __future__ import annotations

import array
import gc
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td


@pytest.fixture(scope="module")
def engine() -> Iterator[td.CpuEngine]:
    with td.CpuEngine(2) as one:
        yield one


def misaligned(values: npt.NDArray[Any], offset: int = 1) -> npt.NDArray[Any]:
    """An equal array whose elements start at odd bytes."""
    memory = np.zeros(values.nbytes + offset, "uint8")
    view = memory[offset : offset + values.nbytes].view(values.dtype).reshape(values.shape)
    view[...] = values
    assert not view.flags.aligned or values.dtype.alignment == 1
    return view


# --- C-OUT-10: misaligned and byte-swapped ---------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64", "int64", "int16", "float16"])
def test_out_10_misaligned_and_swapped_operands(engine: td.CpuEngine, dtype: str) -> None:
    plain = np.arange(12).reshape(3, 4).astype(dtype)
    swapped = plain.astype(plain.dtype.newbyteorder())
    assert not swapped.dtype.isnative
    packed = np.zeros((3, 4), np.dtype([("pad", "i1"), ("x", dtype)], align=False))
    packed["x"] = plain
    expected = plain @ plain.T
    for odd in (
        misaligned(plain),
        misaligned(plain, 3),
        swapped,
        packed["x"],
        misaligned(plain)[::-1][::-1],
        np.asfortranarray(swapped),
    ):
        for value in (
            engine.matmul(odd, plain.T),
            engine.matmul(plain, odd.T),
            engine.matmul(odd, odd.T),
            engine.einsum("ij,kj->ik", odd, odd),
            engine.einsum("ij,kj->ik", odd, plain, route="reference"),
            engine.dot(odd, plain.T),
            engine.gemm(odd, odd, trans_b="T"),
        ):
            assert value.dtype == plain.dtype
            assert value.dtype.isnative
            assert (value == expected).all()
        assert engine.vdot(odd, odd) == np.vdot(plain, plain)
        assert (engine.einsum("ij->ji", odd) == plain.T).all()
        assert (engine.einsum("ij->j", odd[:, ::-1]) == plain.sum(axis=0)[::-1]).all()
        assert (engine.outer(odd, odd[0]) == np.outer(plain, plain[0])).all()


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int32"])
def test_out_10_misaligned_and_swapped_outs(engine: td.CpuEngine, dtype: str) -> None:
    """They work: written through a buffer, as numpy does, and accumulated into."""
    a = np.arange(4).reshape(2, 2).astype(dtype)
    for out in (
        misaligned(np.ones((2, 2), dtype)),
        np.ones((2, 2), np.dtype(dtype).newbyteorder()),
        np.ones((2, 2), np.dtype([("pad", "i1"), ("x", dtype)]))["x"],
    ):
        out[...] = 5
        assert engine.gemm(a, a, out=out, beta=2) is out
        assert (out == a @ a + 10).all()
        assert engine.matmul(a, a, out=out) is out
        assert (out == a @ a).all()
        assert engine.einsum("ij->ji", a, out=out) is out
        assert (out == a.T).all()
    record = np.zeros(2, np.dtype([("pad", "i1"), ("x", dtype)]))
    record["pad"] = 77
    engine.einsum("ij->j", a, out=record["x"])
    assert (record["x"] == a.sum(axis=0)).all()
    assert (record["pad"] == 77).all()


def test_out_10_odd_pointers_of_empty_arrays(engine: td.CpuEngine) -> None:
    for shape, other in (((0, 3), (3, 2)), ((2, 0), (0, 4)), ((0, 0), (0, 0))):
        one = pickle.loads(pickle.dumps(np.empty(shape), 5))
        two = pickle.loads(pickle.dumps(np.empty(other), 5))
        assert (engine.matmul(one, two) == np.zeros((shape[0], other[1]))).all()
        assert engine.einsum("ij,jk->ik", one, two).shape == (shape[0], other[1])
        assert engine.einsum("ij->", one) == 0
        assert engine.einsum("ij->ji", one).shape == shape[::-1]
    nothing = np.frombuffer(b"", "float64")
    assert engine.vdot(nothing, nothing) == 0
    frozen = pickle.loads(pickle.dumps(np.arange(6.0).reshape(2, 3), 5), buffers=None)
    assert (engine.matmul(frozen, frozen.T) == frozen @ frozen.T).all()


def test_a_large_copy_is_announced(engine: td.CpuEngine) -> None:
    big = np.ones((400, 400)).astype(">f8")
    with pytest.warns(td.PerformanceWarning, match=r"shape \(400, 400\) is copied because its byte order is foreign"):
        engine.matmul(big, np.ones((400, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        engine.matmul(big[:10].copy(), np.ones((400, 1)))


# --- buffers and interfaces ------------------------------------------------------------------------------------


def test_buffers_and_interfaces_are_read_in_place(engine: td.CpuEngine) -> None:
    values = array.array("d", [1.0, 2.0, 3.0])
    assert engine.vdot(values, values) == 14
    assert engine.vdot(memoryview(values), [1.0, 1.0, 1.0]) == 6
    shared = engine.einsum("i->i", values)
    values[0] = 10.0
    assert shared[0] == 10.0, "nothing was copied"
    assert engine.einsum("i->", bytearray(b"\x01\x02")) == 3

    class Interface:
        def __init__(self, held: npt.NDArray[Any]) -> None:
            self.held = held
            self.__array_interface__ = held.__array_interface__

    held = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    assert (engine.matmul(Interface(held), Interface(held.T)) == held @ held.T).all()

    class Struct:
        def __init__(self, held: npt.NDArray[Any]) -> None:
            self.held = held

        @property
        def __array_struct__(self) -> Any:
            return self.held.__array_struct__

    assert (engine.matmul(Struct(held), held.T) == held @ held.T).all()
    assert (engine.matmul([[1, 2], [3, 4]], ((1.0,), (2.0,))) == [[5.0], [11.0]]).all()
    assert engine.dot(2, 3) == 6
    assert engine.dot(np.float32(2), np.float32(3)).dtype == np.float32


# --- views and scalars -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "complex64", "int8", "bool", "float16"])
def test_one_operand_with_nothing_summed_is_a_view(engine: td.CpuEngine, dtype: str) -> None:
    a = np.arange(27).reshape(3, 3, 3).astype(dtype).copy()
    for subscripts in (
        "ijk",
        "ijk->ijk",
        "ijk->kji",
        "iij->ij",
        "iij->ji",
        "iii->i",
        "...ij->...ji",
        "...",
        "i...->...i",
    ):
        view = engine.einsum(subscripts, a)
        expected = np.einsum(subscripts, a)
        assert type(view) is np.ndarray
        assert view.base is a, subscripts
        assert expected.base is a
        assert view.shape == expected.shape
        assert view.strides == expected.strides
        assert view.flags.writeable
        assert view.flags.aligned
        assert view.flags.c_contiguous == expected.flags.c_contiguous
        assert view.flags.f_contiguous == expected.flags.f_contiguous
        assert not view.flags.owndata
        assert (view == expected).all()
    diagonal = engine.einsum("iii->i", a)
    diagonal[...] = 1
    assert (a[np.arange(3), np.arange(3), np.arange(3)] == 1).all()
    frozen = a.copy()
    frozen.flags.writeable = False
    assert not engine.einsum("ijk->kji", frozen).flags.writeable
    # A view of a view keeps the memory alive.
    view = engine.einsum("ijk->kji", np.arange(27).reshape(3, 3, 3).astype(dtype)[::-1])
    gc.collect()
    assert (view == np.arange(27).reshape(3, 3, 3).astype(dtype)[::-1].T).all()
    # Scaled, conjugated, into out, or on a forced route it is a new array.
    for options in ({"alpha": 2}, {"route": "reference"}, {"out": np.empty_like(a)}):
        if "alpha" in options and dtype == "bool":
            continue
        value = engine.einsum("ijk->kji", a, **options)
        assert not np.shares_memory(value, a)
    if dtype == "complex64":
        assert not np.shares_memory(engine.einsum("ijk->kji", a, conj=[True]), a)
        assert np.shares_memory(engine.einsum("ijk->kji", a, conj=[False]), a)
    # As in numpy's, a view keeps its dtype whatever is asked for, and its byte order.
    for other in ("float64", "complex128", "int8"):
        view, expected = engine.einsum("iij->ji", a, dtype=other), np.einsum("iij->ji", a, dtype=other)
        assert view.base is a
        assert view.dtype == expected.dtype == a.dtype
    swapped = a.astype(a.dtype.newbyteorder())
    view = engine.einsum("ijk->kji", swapped)
    assert view.base is swapped
    assert view.dtype.byteorder == np.einsum("ijk->kji", swapped).dtype.byteorder
    # Something summed: a new array.
    assert not np.shares_memory(engine.einsum("ijk->ij", a), a)


def test_views_into_subclasses_are_plain(engine: td.CpuEngine) -> None:
    a = np.arange(4.0).reshape(2, 2).copy()
    view = engine.einsum("ij->ji", a.view(np.matrix))
    assert type(view) is np.ndarray
    assert np.shares_memory(view, a)


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "complex64", "complex128", "int64", "uint8", "bool", "float16"]
)
def test_results_without_axes_are_numpy_scalars(engine: td.CpuEngine, dtype: str) -> None:
    v = np.ones(3, dtype)
    kind = np.dtype(dtype).type
    for value in (
        engine.einsum("i,i->", v, v),
        engine.einsum("i->", v),
        engine.einsum(",->", v[0], v[0]),
        engine.matmul(v, v),
        engine.dot(v, v),
        engine.dot(v[0], v[0]),
        engine.inner(v, v),
        engine.vdot(v, v),
        engine.vecdot(v, v),
        engine.tensordot(v, v, axes=1),
        engine.multi_dot([v, v]),
        engine.kron(v[0], v[0]),
    ):
        assert type(value) is kind
    out = np.zeros((), dtype)
    assert engine.einsum("i,i->", v, v, out=out) is out, "with out it is that array"
    assert engine.matmul(v, v, out=out) is out
    assert engine.dot(v, v, out=out) is out


def test_operands_may_be_one_array_and_are_never_written(engine: td.CpuEngine) -> None:
    a = np.arange(9.0).reshape(3, 3)
    a.flags.writeable = False
    assert (engine.matmul(a, a) == a @ a).all()
    assert (engine.einsum("ij,jk,kl->il", a, a, a) == a @ a @ a).all()
    stretched = np.broadcast_to(np.arange(3.0), (4, 3))
    assert (engine.matmul(stretched, a) == np.array(stretched) @ a).all()
    assert (engine.einsum("ij,ij->ij", stretched, stretched) == np.array(stretched) ** 2).all()


# --- DLPack ----------------------------------------------------------------------------------------------------


class Producer:
    """Nothing but ``__dlpack__``."""

    def __init__(self, held: npt.NDArray[Any]) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class OldProducer(Producer):
    """From before the newer keywords."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.held.__dlpack__(stream=stream)


class FixedProducer(Producer):
    """Takes no keyword at all."""

    def __dlpack__(self) -> Any:  # type: ignore[override]
        return self.held.__dlpack__()


def odd_strides() -> npt.NDArray[Any]:
    """Shape (10, 5, 1) whose last axis has a stride of three bytes."""
    return np.lib.stride_tricks.as_strided(np.arange(50.0).reshape(10, 5), (10, 5, 1), (40, 8, 3))


LAYOUTS: dict[str, Callable[[], npt.NDArray[Any]]] = {
    "plain": lambda: np.arange(12.0).reshape(3, 4),
    "reversed": lambda: np.arange(12.0).reshape(3, 4)[:, ::-1],
    "both": lambda: np.arange(24.0).reshape(4, 6)[::2, ::-2],
    "F": lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "odd stride of length one": odd_strides,
    "0-d": lambda: np.array(3.0),
    "empty": lambda: np.zeros((0, 3)),
    "offset": lambda: np.arange(20.0)[7:13].reshape(2, 3),
    "stretched": lambda: np.broadcast_to(np.arange(3.0), (4, 3)),
    "bool": lambda: np.array([[True, False], [True, True]]),
    "int32": lambda: np.arange(6, dtype="int32").reshape(2, 3),
    "uint8": lambda: np.arange(6, dtype="uint8").reshape(2, 3),
    "float16": lambda: np.arange(6, dtype="float16").reshape(2, 3),
    "complex64": lambda: (np.arange(6) * 1j).astype("complex64").reshape(2, 3),
}


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("producer", [Producer, OldProducer, FixedProducer])
def test_pyb_04_dlpack_producers(engine: td.CpuEngine, kind: str, producer: type[Producer]) -> None:
    held = LAYOUTS[kind]()
    expected = np.array(held)
    if not held.flags.writeable and producer is not Producer:
        # The older protocol has no word for read-only, so numpy does not export it: a clean refusal.
        with pytest.raises((td.DTypeError, BufferError)):
            engine.einsum("...->...", producer(held))
        return
    value = engine.einsum("...->...", producer(held))
    assert (value == expected).all()
    assert value.shape == expected.shape
    assert value.dtype == expected.dtype
    product = engine.einsum("...,...->", producer(held), producer(held))
    assert product == np.einsum("...,...->...", expected, expected).sum(dtype=expected.dtype) or expected.dtype == bool
    if held.ndim == 2:
        assert (engine.matmul(producer(held), producer(held.T)) == expected @ expected.T).all()
        assert engine.gemm(producer(held), held.T, out=np.empty_like(expected @ expected.T)) is not None


def test_pyb_04_the_producer_may_be_freed_before_the_result_is_read(engine: td.CpuEngine) -> None:
    view = engine.einsum("ij->ji", Producer(np.arange(60_000.0).reshape(200, 300)))
    gc.collect()
    junk = [np.full((200, 300), -1.0) for _ in range(8)]
    assert (view == np.arange(60_000.0).reshape(200, 300).T).all()
    del junk


@pytest.mark.parametrize(
    ("device", "name"),
    [(2, "CUDA"), (10, "ROCm"), (8, "Metal"), (7, "Vulkan"), (14, "device type 14"), (99, "device type 99")],
)
def test_pyb_05_an_array_on_a_device_is_refused_by_name(engine: td.CpuEngine, device: int, name: str) -> None:
    class OnDevice:
        asked = False

        def __dlpack__(self, **_: Any) -> Any:
            type(self).asked = True
            raise AssertionError("nothing may be transferred")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (device, 1)

    for call in (
        lambda: engine.matmul(OnDevice(), np.eye(2)),
        lambda: engine.einsum("ij->ji", OnDevice()),
        lambda: engine.vdot(np.ones(2), OnDevice()),
    ):
        with pytest.raises(td.DTypeError, match=f"{name}:1") as caught:
            call()
        assert isinstance(caught.value, TypeError)
    assert not OnDevice.asked


def test_pyb_05_a_producer_that_fails_is_a_clean_refusal(engine: td.CpuEngine) -> None:
    class Failing(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("not now")

    class Nonsense(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            return "no capsule"

    class BadDevice(Producer):
        def __dlpack_device__(self) -> Any:
            return "here"

    class NoDevice:
        def __dlpack__(self, **options: Any) -> Any:
            return np.eye(2).__dlpack__(**options)

    for bad in (Failing(np.eye(2)), Nonsense(np.eye(2)), BadDevice(np.eye(2))):
        with pytest.raises((td.DTypeError, BufferError), match="operand 1"):
            engine.matmul(np.eye(2), bad)
    assert (engine.matmul(np.eye(2), NoDevice()) == np.eye(2)).all()
    assert engine.state == "open"
