"""Whether the processes of other ranks still exist, as far as they run on the same machine."""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import sys
from pathlib import Path

#: How often the processes are looked at, in seconds.
LOOK_SECONDS = 0.25
#: A rank that said nothing for so long is lost, if its process cannot be looked at. A rank that is not the root's
#: judge is silent while its lanes hold the interpreter's lock, so this is long. None: silence is no sign.
SILENCE_SECONDS: float | None = 120.0
#: A rank that has nothing to say says so, in seconds.
PING_SECONDS = 1.0
#: After a rank has broken away, the others end within this time, or the job is aborted.
GRACE_SECONDS = 5.0

#: Machine, process, and when the process was started.
Card = tuple[int, int, int]


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _machine() -> int:
    """Return a number that processes share exactly when they can see each other's process numbers."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    text = "\0".join((socket.gethostname(), _read("/proc/sys/kernel/random/boot_id"), space, sys.platform))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def _begun(pid: int) -> int | None:
    """Return when a process was started, 0 where that cannot be told, None for one that is gone."""
    if sys.platform == "linux":
        stat = _read(f"/proc/{pid}/stat")
        # The name in parentheses may hold anything.
        fields = stat.rpartition(")")[2].split()
        if len(fields) < 20:
            return None if Path("/proc/self/stat").exists() else 0
        return None if fields[0] in "ZX" else int(fields[19])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:
        return 0
    return 0


def own_card() -> bytes:
    """Return what the other ranks have to know of this process."""
    pid = os.getpid()
    return struct.pack("<QQQ", _machine(), pid, _begun(pid) or 0)


class Presence:
    """The ranks whose processes can be looked at."""

    def __init__(self, cards: list[bytes], rank: int, watched: list[int]) -> None:
        read: list[Card] = [struct.unpack("<QQQ", card) for card in cards]
        self._here = {other: read[other][1:] for other in watched if read[other][0] == read[rank][0] and other != rank}
        self._next = 0.0
        #: Whether every watched rank can be looked at.
        self.sees_all = all(other in self._here for other in watched if other != rank)

    def gone(self, now: float) -> list[int]:
        """Return the ranks whose process has ended since the last look; each once."""
        if now < self._next:
            return []
        self._next = now + LOOK_SECONDS
        lost = [rank for rank, (pid, begun) in self._here.items() if _begun(pid) != begun]
        for rank in lost:
            del self._here[rank]
        return lost
