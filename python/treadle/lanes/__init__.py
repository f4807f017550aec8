"""Lanes over engines that the caller holds, and maps over lanes and ranks."""

from .._native import Lane, LaneControl, current_lane
from .executor import LaneExecutor
from .local import map_in_lanes
from .pool import Lanes
from .rank_stream import ipmap_lanes
from .ranks import pmap_lanes
from .streaming import imap_in_lanes

__all__ = [
    "Lane",
    "LaneControl",
    "LaneExecutor",
    "Lanes",
    "current_lane",
    "imap_in_lanes",
    "ipmap_lanes",
    "map_in_lanes",
    "pmap_lanes",
]
