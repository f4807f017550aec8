"""The CPUs that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path


def allowed_cpus() -> list[int]:
    """Return the CPUs of the affinity mask, as many as the quota of the control group lets run at once."""
    known = hasattr(os, "sched_getaffinity")
    cpus = sorted(os.sched_getaffinity(0)) if known else list(range(os.cpu_count() or 1))
    return cpus[: max(1, min(len(cpus), _quota() or len(cpus)))]


def _quota() -> int | None:
    """CPUs that the control group pays for, rounded up; None where nothing is limited."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else math.ceil(int(limit) / int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return None
