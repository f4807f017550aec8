"""What the rounds of one case gave."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

OURS = "treadle"


@dataclass
class Result:
    """Seconds of each contender in each round.

    ``seconds`` has results in C order; ``views`` the same calls without the copy that makes them so, where a
    contender's own result is a permuted view.
    """

    section: str
    title: str
    threads: int
    arguments: dict[str, Any]
    flops: float
    bytes: float
    seconds: dict[str, list[float]]
    views: dict[str, list[float]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether this contender took part."""
        return bool(self.seconds.get(name))

    def time(self, name: str, *, best: bool = False, view: bool = False) -> float:
        """Median of the rounds, or the best one."""
        rounds = self.seconds[name]
        if view:
            rounds = self.views.get(name) or rounds
        return min(rounds) if best else statistics.median(rounds)

    def rate(self, name: str = OURS, *, best: bool = False) -> float:
        """FLOP per second."""
        return self.flops / self.time(name, best=best)

    def bandwidth(self, name: str = OURS, *, best: bool = False) -> float:
        """Bytes per second."""
        return self.bytes / self.time(name, best=best)

    def ratio(self, name: str, *, best: bool = False, view: bool = False, ours: str = OURS) -> float:
        """How many times as long as treadle a contender takes: the median over rounds, or of the best rounds."""
        if best:
            return self.time(name, best=True, view=view) / self.time(ours, best=True, view=view)
        theirs = (self.views.get(name) if view else None) or self.seconds[name]
        mine = (self.views.get(ours) if view else None) or self.seconds[ours]
        return statistics.median(their / my for their, my in zip(theirs, mine, strict=True))

    def fastest(self, names: Iterable[str], *, best: bool = False, view: bool = False) -> str | None:
        """The contender that takes the least time."""
        there = [name for name in names if self.has(name)]
        return min(there, key=lambda name: self.time(name, best=best, view=view), default=None)

    def to_json(self) -> dict[str, Any]:
        """Everything, for the file of ``--json``."""
        return asdict(self)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean; NaN of nothing."""
    found = list(values)
    return statistics.geometric_mean(found) if found else float("nan")


def over_fastest(result: Result, peers: Iterable[str], *, best: bool, view: bool = False) -> float:
    """The ratio to the fastest of some peers, of which one took part."""
    fastest = result.fastest(peers, best=best, view=view)
    return float("nan") if fastest is None else result.ratio(fastest, best=best, view=view)


def both(results: Iterable[Result], value: Callable[[Result, bool], float]) -> tuple[list[float], list[float]]:
    """A value of each result, by medians and by best rounds."""
    found = list(results)
    return [value(result, False) for result in found], [value(result, True) for result in found]
