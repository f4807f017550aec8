"""treadle: tensor computation on engines that the caller holds, and lanes over them.

>>> import numpy as np, treadle as td
>>> engines = [td.CpuEngine(threads=1) for _ in range(2)]
>>> with td.Lanes(engines) as lanes:
...     td.map_in_lanes(lambda item, engine: float(engine.dot(item, item)), [np.ones(2), np.ones(3)], lanes)
[2.0, 3.0]
"""

from __future__ import annotations

from treadle import exceptions
from treadle._native import PlanCache, Pool, __version__, cpu_provider_id
from treadle.engines import CpuEngine, EngineSpec
from treadle.exceptions import *  # noqa: F403
from treadle.info import show_versions
from treadle.lanes import (
    Lane,
    LaneControl,
    Lanes,
    current_lane,
    imap_in_lanes,
    map_in_lanes,
    pmap_lanes,
)

__all__ = [
    "CpuEngine",
    "EngineSpec",
    "Lane",
    "LaneControl",
    "Lanes",
    "PlanCache",
    "Pool",
    "__version__",
    "cpu_provider_id",
    "current_lane",
    "imap_in_lanes",
    "map_in_lanes",
    "pmap_lanes",
    "show_versions",
]
__all__ += exceptions.__all__
