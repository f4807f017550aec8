"""Payloads as pickles with buffers beside them, and the messages of the machines over a communicator.

Every send is non-blocking and is looked after by :meth:`Wire.settle`, so that two ranks which send to each other do
not wait for each other. Nothing relies on the eager delivery of a message, and no receive waits for data to arrive.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import _native

#: No single MPI message is larger than this; larger ones are sent in pieces.
CHUNK_BYTES = 1 << 30
#: Buffers below this size stand in the pickle.
BESIDE_BYTES = 4 << 10
#: A value has no more buffers beside its pickle than this.
MOST_BUFFERS = 1 << 20
#: So many messages are taken before the caller gets to do something else.
_AT_ONCE = 64

_HEADER_TAG, _DATA_TAG = 0, 1

#: A value as it travels: the pickle, and the buffers that are not inside it.
Packed = tuple[Any, list[Any]]


def pack(value: Any) -> Packed:
    """Pickle a value; the data of arrays stays where it is, as buffers beside the pickle."""
    buffers: list[memoryview] = []

    def beside(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:  # it is not contiguous and has no flat view
            return True
        if raw.nbytes < BESIDE_BYTES or len(buffers) >= MOST_BUFFERS:
            return True
        buffers.append(raw)
        return False

    return pickle.dumps(value, protocol=5, buffer_callback=beside), buffers


def unpack(packed: Packed) -> Any:
    """Make the value again; arrays use the received buffers and are writeable."""
    return pickle.loads(packed[0], buffers=packed[1])


def weight(packed: Packed) -> int:
    """Return about how many bytes a payload makes on its way."""
    data, buffers = packed
    return len(data) + sum(map(len, buffers)) + 64 * len(buffers) + 32


def pieces(data: Any) -> Iterable[memoryview]:
    """Cut bytes into what one MPI message may carry."""
    view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
    for first in range(0, len(view), CHUNK_BYTES):
        yield view[first : first + CHUNK_BYTES]


def room(length: int) -> memoryview:
    """Return memory for so many bytes; it is not filled with zeros first."""
    return np.empty(length, np.uint8).data


class Arrived:
    """A message that is whole, or the story of bytes that are none."""

    __slots__ = ("attached", "fault", "frame", "requests", "source")

    def __init__(self, source: int, frame: _native.RankFrame | None, fault: str = "") -> None:
        self.source = source
        self.frame = frame
        self.fault = fault
        #: What follows the frame, and the receives of it that are under way.
        self.attached: list[memoryview] = []
        self.requests: list[Any] = []

    def is_whole(self) -> bool:
        """Tell whether everything that was attached is here."""
        while self.requests and self.requests[0].Test():
            del self.requests[0]
        return not self.requests


class Wire:
    """The messages of one map over a communicator of its own. Every call comes from the thread that called the map."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm
        self._status = MPI.Status()
        #: Requests that are under way, with what must stay alive until then.
        self._sending: deque[tuple[Any, Any]] = deque()
        #: Messages of each rank that wait for what is attached to them, in their order.
        self._partial: dict[int, deque[Arrived]] = {}

    def post(self, outbox: list[tuple[int, bytes, list[Any], list[Any]]]) -> None:
        """Start to send what a machine has to say."""
        for dest, head, inline, attached in outbox:
            self._start(dest, b"".join((head, *inline)) if inline else head, _HEADER_TAG)
            for data in attached:
                for piece in pieces(data):
                    self._start(dest, piece, _DATA_TAG)

    def _start(self, dest: int, data: Any, tag: int) -> None:
        request = self._comm.Isend([data, self._mpi.BYTE], dest=dest, tag=tag)
        self._sending.append((request, data))

    def settle(self) -> bool:
        """Forget the sends that are over; True when none is left."""
        sending = self._sending
        # They mostly end in their order; a rank that is slow does not keep the others' data alive for long.
        while sending and sending[0][0].Test():
            sending.popleft()
        if len(sending) > 1:
            self._sending = deque(pair for pair in sending if not pair[0].Test())
        return not self._sending

    @property
    def pending(self) -> int:
        """About how many bytes are on their way, which MPI moves only while it is called."""
        if not self._partial and not self._sending:
            return 0
        coming = sum(sum(map(len, one.attached)) for waiting in self._partial.values() for one in waiting)
        return coming + sum(len(data) for _, data in self._sending) + 1

    def poll(self) -> list[Arrived]:
        """Take what has arrived."""
        mpi, comm, status = self._mpi, self._comm, self._status
        got: list[Arrived] = []
        for _ in range(_AT_ONCE):
            if not comm.Iprobe(source=mpi.ANY_SOURCE, tag=_HEADER_TAG, status=status):
                break
            source = status.Get_source()
            frame = bytearray(status.Get_count(mpi.BYTE))
            comm.Recv([frame, mpi.BYTE], source=source, tag=_HEADER_TAG)
            arrived = self._read(source, frame)
            if arrived.requests or source in self._partial:
                self._partial.setdefault(source, deque()).append(arrived)
            else:
                got.append(arrived)
        if self._partial:
            for source in list(self._partial):
                waiting = self._partial[source]
                while waiting and waiting[0].is_whole():
                    got.append(waiting.popleft())
                if not waiting:
                    del self._partial[source]
        return got

    def _read(self, source: int, data: bytearray) -> Arrived:
        """Check a frame, and start to receive what is attached to it: lengths count only once they were checked."""
        try:
            frame = _native.RankFrame(data)
        except ValueError as error:
            return Arrived(source, None, str(error))
        arrived = Arrived(source, frame)
        try:
            arrived.attached = [room(length) for length in frame.attached]
        except (MemoryError, ValueError) as error:
            return Arrived(source, None, f"there is no memory for what it announces: {error}")
        for buffer in arrived.attached:
            for piece in pieces(buffer):
                request = self._comm.Irecv([piece, self._mpi.BYTE], source=source, tag=_DATA_TAG)
                arrived.requests.append(request)
        return arrived

    def leftovers(self) -> list[Any]:
        """Return what MPI may still write to or read from, for a communicator that cannot be brought to an end."""
        return [self._comm, *self._sending, *self._partial.values()]
