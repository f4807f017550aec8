"""Messages between ranks: a small header, a body of plain values, and raw buffers that are not copied through a pickle.

Every send is non-blocking and is looked after by :meth:`Wire.settle`, so that two ranks which send to each other do
not wait for each other. Nothing relies on the eager delivery of a message.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any

from ..exceptions import PmapError

#: No single MPI message is larger than this; larger ones are sent in pieces.
CHUNK_BYTES = 1 << 30
#: A body up to this size travels with its header.
INLINE_BYTES = 32 << 10

READY, TASK, RESULT, STOP, END, BROKEN, DRAIN = range(7)
KINDS = range(7)

_HEADER = struct.Struct("<4sHBBQ")
_MAGIC, _VERSION = b"TRDL", 1
_HEADER_TAG, _DATA_TAG = 0, 1

#: A value as it travels: the pickle, and the buffers that are not inside it.
Packed = tuple[bytes, list[Any]]


def pack(value: Any) -> Packed:
    """Pickle a value; arrays stay where they are, as buffers beside the pickle."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    try:
        return data, [buffer.raw() for buffer in buffers]
    except BufferError:
        # A buffer that is not contiguous has no flat view; then it is copied into the pickle.
        return pickle.dumps(value, protocol=5), []


def unpack(packed: Packed) -> Any:
    """Make the value again; arrays use the received buffers and are writeable."""
    return pickle.loads(packed[0], buffers=packed[1])


class Message:
    """A received message."""

    __slots__ = ("buffers", "content", "kind", "source")

    def __init__(self, source: int, kind: int, content: Any, buffers: list[bytearray]) -> None:
        self.source = source
        self.kind = kind
        self.content = content
        self.buffers = buffers


class Wire:
    """The messages of one map over a communicator of its own. Every call comes from the thread that called the map."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm
        self._status = MPI.Status()
        #: Requests that are under way, with what must stay alive until then.
        self._sending: list[tuple[Any, Any]] = []

    def send(self, dest: int, kind: int, content: Any = None, buffers: list[Any] | None = None) -> None:
        """Start to send ``content`` (plain values only) and ``buffers``."""
        buffers = buffers or []
        body = pickle.dumps((content, [len(buffer) for buffer in buffers]), protocol=5)
        inline = len(body) <= INLINE_BYTES
        head = _HEADER.pack(_MAGIC, _VERSION, kind, inline, len(body))
        self._post(dest, head + body if inline else head, _HEADER_TAG)
        for data in buffers if inline else [body, *buffers]:
            view = memoryview(data)
            for first in range(0, len(view), CHUNK_BYTES):
                self._post(dest, view[first : first + CHUNK_BYTES], _DATA_TAG)

    def _post(self, dest: int, data: Any, tag: int) -> None:
        request = self._comm.Isend([data, self._mpi.BYTE], dest=dest, tag=tag)
        self._sending.append((request, data))

    def settle(self) -> bool:
        """Forget the sends that are over; True when none is left."""
        if self._sending:
            self._sending = [(request, data) for request, data in self._sending if not request.Test()]
        return not self._sending

    def poll(self) -> Message | None:
        """Receive the next message, if one has arrived."""
        mpi, status = self._mpi, self._status
        if not self._comm.Iprobe(source=mpi.ANY_SOURCE, tag=_HEADER_TAG, status=status):
            return None
        source, size = status.Get_source(), status.Get_count(mpi.BYTE)
        head = bytearray(size)
        self._comm.Recv([head, mpi.BYTE], source=source, tag=_HEADER_TAG)
        if size < _HEADER.size:
            raise self._garbled(source, f"a header of {size} bytes instead of {_HEADER.size}")
        magic, version, kind, inline, length = _HEADER.unpack_from(head)
        if magic != _MAGIC or version != _VERSION or kind not in KINDS:
            raise self._garbled(source, f"magic {magic!r}, version {version}, kind {kind}")
        if inline and size != _HEADER.size + length:
            raise self._garbled(source, f"{size} bytes instead of {_HEADER.size + length}")
        body = bytes(head[_HEADER.size :]) if inline else bytes(self._receive(source, length))
        content, lengths = pickle.loads(body)
        return Message(source, kind, content, [self._receive(source, each) for each in lengths])

    def _receive(self, source: int, length: int) -> bytearray:
        data = bytearray(length)
        view = memoryview(data)
        for first in range(0, length, CHUNK_BYTES):
            piece = view[first : first + CHUNK_BYTES]
            self._comm.Recv([piece, self._mpi.BYTE], source=source, tag=_DATA_TAG)
        return data

    def _garbled(self, source: int, what: str) -> PmapError:
        return PmapError(f"rank {source} sent what is no message of this map: {what}", kind="protocol", rank=source)
