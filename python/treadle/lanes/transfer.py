"""Payloads between all ranks of a communicator at once: data of any length in pieces, and no rank spins."""

from __future__ import annotations

from typing import Any

import numpy as np

from .preflight import wait_for
from .wire import Packed, pieces, room

_LENGTHS_TAG, _DATA_TAG = 2, 3


def _lengths(packed: Packed) -> Any:
    return np.array([len(packed[0]), *map(len, packed[1])], np.int64)


def broadcast(comm: Any, packed: Packed | None, root: int) -> Packed:
    """Give every rank the payload of the root. Collective."""
    count = np.array([0 if packed is None else 1 + len(packed[1])], np.int64)
    wait_for([comm.Ibcast(count, root)])
    lengths = np.empty(int(count[0]), np.int64) if packed is None else _lengths(packed)
    wait_for([comm.Ibcast(lengths, root)])
    segments = [room(int(length)) for length in lengths] if packed is None else [packed[0], *packed[1]]
    for segment in segments:
        for piece in pieces(segment):
            wait_for([comm.Ibcast([piece, _byte()], root)])
    return packed if packed is not None else (segments[0], segments[1:])


def send(comm: Any, packed: Packed, dest: int) -> list[tuple[Any, Any]]:
    """Start to send a payload; return the requests, with what must stay alive until they are over."""
    lengths = _lengths(packed)
    count = np.array([len(lengths)], np.int64)
    sent = [(comm.Isend(count, dest, _LENGTHS_TAG), count), (comm.Isend(lengths, dest, _LENGTHS_TAG), lengths)]
    for segment in (packed[0], *packed[1]):
        sent += [(comm.Isend([piece, _byte()], dest, _DATA_TAG), piece) for piece in pieces(segment)]
    return sent


def receive(comm: Any, source: int) -> Packed:
    """Receive a payload that ``source`` sends."""
    count = np.empty(1, np.int64)
    wait_for([comm.Irecv(count, source, _LENGTHS_TAG)])
    lengths = np.empty(int(count[0]), np.int64)
    wait_for([comm.Irecv(lengths, source, _LENGTHS_TAG)])
    segments = [room(int(length)) for length in lengths]
    requests = []
    for segment in segments:
        requests += [comm.Irecv([piece, _byte()], source, _DATA_TAG) for piece in pieces(segment)]
    wait_for(requests)
    return segments[0], segments[1:]


def _byte() -> Any:
    from mpi4py import MPI

    return MPI.BYTE
