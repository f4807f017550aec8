"""The CPUs that this process may use."""

from __future__ import annotations

import os

from .. import _native


def allowed_cpus() -> list[int]:
    """Return the CPUs of the affinity mask, as many as the quota of the control group lets run at once."""
    known = hasattr(os, "sched_getaffinity")
    cpus = sorted(os.sched_getaffinity(0)) if known else list(range(os.cpu_count() or 1))
    return cpus[: max(1, _native._allowed_cpu_count())]
