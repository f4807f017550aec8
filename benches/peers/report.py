"""The page that the numbers go to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from result import Result
from section import Goal, Section
from tables import pair, table

HEAD = """# Performance

Written by `make bench`, never by hand. Each peer and width is a process of its own; they are asked in turn, round
after round. Numbers are medians of the rounds; where there are two, `a / b`, the second is from the best rounds
(a shared machine steals time). A ratio is how many times as long as treadle another takes, the median over the rounds.
**Only ratios within this run carry over to anything.** Every result was compared with numpy's before it was timed.
"""


def page(sections: Sequence[Section], found: dict[str, Any]) -> str:
    """The whole page."""
    results = [Result(**result) for result in found["results"]]
    lines = [HEAD, *table(("", ""), list(found["machine"].items()), words=2)]
    goals: list[Goal] = []
    body: list[str] = []
    for section in sections:
        own = [result for result in results if result.section == section.key]
        apart = found["apart"].get(section.key) or {}
        if not own and not apart:
            continue
        goals += section.goals(own, apart)
        body += [f"## {section.title}", "", *section.lines(own, apart)]
    if goals:
        rows = [
            (goal.what, goal.shown(goal.asked), pair(goal.shown(goal.median), goal.shown(goal.best)), goal.verdict)
            for goal in goals
        ]
        lines += ["## What is asked", "", *table(("", "asked", "found", ""), rows)]
    return "\n".join(lines + body).rstrip() + "\n"
