"""A section of the page: its cases, what is asked of them, and its tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from case import Case
from result import Result
from rounds import Workers


@dataclass(frozen=True)
class Goal:
    """What is asked, and what the medians and the best rounds gave."""

    what: str
    asked: float
    median: float
    best: float
    shown: Callable[[float], str]
    #: At most, instead of at least.
    below: bool = False

    def reaches(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value <= self.asked if self.below else value >= self.asked

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if self.reaches(self.median):
            return "reached"
        return "best rounds reach it" if self.reaches(self.best) else "**missed**"


class Section:
    """Nothing by itself; sections derive from it."""

    key = ""
    title = ""

    def cases(self) -> list[Case]:
        """What is measured in rounds."""
        return []

    def measure_apart(self, workers: Workers, *, quick: bool) -> dict[str, Any]:
        """What is measured otherwise."""
        del workers, quick
        return {}

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """What is asked."""
        del results, apart
        return []

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """The body, in Markdown."""
        del results, apart
        return []
