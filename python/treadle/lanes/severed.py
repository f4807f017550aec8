"""Communicators that a map could not bring to an end, because a rank broke away."""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import Any, NoReturn

#: The exit status of a job that could not be brought to a common end.
ABORT_STATUS = 75
#: How long a process that ends without MPI's own end leaves the others.
LAST_SECONDS = 1.0

#: What MPI may still write to or read from.
_kept: list[list[Any]] = []


def keep(leftovers: list[Any]) -> None:
    """Keep what MPI may still use, and end this process without MPI's own end, which would wait for the lost rank."""
    if not _kept:
        atexit.register(_leave)
    _kept.append(leftovers)


def _leave() -> None:
    sys.stdout.flush()
    sys.stderr.write(
        "treadle: a rank broke away from a map, so MPI cannot be ended; this process ends with status "
        f"{ABORT_STATUS}, and the launcher ends the job\n"
    )
    sys.stderr.flush()
    # The launcher ends the others when the first is gone; they may be saving what they have.
    time.sleep(LAST_SECONDS)
    os._exit(ABORT_STATUS)


def abort(comm: Any, why: str) -> NoReturn:
    """End the job, because the other ranks would wait for ever."""
    sys.stdout.flush()
    sys.stderr.write(f"treadle: the job is aborted: {why}\n")
    sys.stderr.flush()
    comm.Abort(ABORT_STATUS)
    os._exit(ABORT_STATUS)
