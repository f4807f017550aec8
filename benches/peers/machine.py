"""What the numbers were read on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from case import PYTHON_PEERS, RUST_PEERS, Runner
from rounds import PeerError, Workers, allowed_cpus


def processor() -> str:
    """Name of the processor."""
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def about(workers: Workers, peers: list[str] | None) -> dict[str, Any]:
    """The machine and the versions of all contenders, or why one takes no part."""
    found: dict[str, Any] = {
        "processor": f"{processor()}, {len(allowed_cpus())} CPUs allowed",
        "system": f"{platform.system()} {platform.machine()}",
    }
    for peer in ("treadle", *PYTHON_PEERS, *RUST_PEERS):
        if peers is not None and peer not in ("treadle", "numpy", *peers):
            continue
        try:
            found.update(workers.ask(Runner(peer, 1), "about"))
        except PeerError as error:
            found[peer] = f"takes no part: {error}"
    return found
