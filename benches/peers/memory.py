"""Peak memory of a call."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def field_bytes(name: str) -> int:
    """A field of the process's status."""
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise OSError(f"{STATUS} has no {name}")


def peak_bytes(call: Callable[[], object]) -> float:
    """By how much the resident memory rises above what it is now while ``call`` runs (Linux, glibc)."""
    ctypes.CDLL(None).malloc_trim(0)  # what is free but resident could be used again unseen
    CLEAR.write_text("5", encoding="ascii")  # the peak is what is resident now
    before = field_bytes("VmRSS")
    call()
    return float(max(0, field_bytes("VmHWM") - before))
