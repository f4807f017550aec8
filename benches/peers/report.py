"""The page that the numbers go to."""

from __future__ import annotations

from typing import Any


def seconds(value: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.0f} ns"


def nanoseconds(text: str) -> str:
    """A number of nanoseconds, readable."""
    value = float(text)
    return f"-{seconds(-value * 1e-9)}" if value < 0 else seconds(value * 1e-9)


def verdict(ratio: float, asked: float | None) -> str:
    """Whether the ratio reached what was asked."""
    if asked is None:
        return ""
    return f"{asked:g} ({'reached' if ratio >= asked else 'missed'})"


#: Lines of the team's bench that answer what is asked: key, what it is, the limit in nanoseconds.
TEAM = (
    ("meet_hot_median", "both threads meet, hot, median", 600),
    ("chunks_hot_median", "a section of two empty chunks, hot, median", 600),
    ("chunks_2x100us_idle_over_serial", "two chunks of 100 us after 1 ms of rest, median, over serial", 60_000),
    ("chunks_2x100us_taken_over_serial", "the same with the other core taken, median, over serial", 60_000),
    ("chunks_taken_p99", "two empty chunks with the other core taken, 99th percentile", 600_000),
    ("chunks_2x100us_taken_max", "two chunks of 100 us with the other core taken, longest", None),
    ("meet_taken_max", "both threads are made to meet with the other core taken, longest", None),
)


def page(
    machine: dict[str, str],
    rows: list[dict[str, Any]],
    imports: dict[str, float],
    team: dict[str, str],
    command: str,
) -> str:
    """The whole page."""
    lines = [
        "# Performance",
        "",
        f"Written by `{command}`, never by hand. Each peer and width is a process of its own; they are asked in",
        "turn, and a number is the median of the rounds. **Only ratios within this run carry over to anything.** A",
        "ratio above 1 means that treadle is faster.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in machine.items()),
        "",
    ]
    section = ""
    for row in rows:
        if row["section"] != section:
            section = row["section"]
            lines += [
                f"## {section}",
                "",
                "| treadle | | against | | ratio | asked |",
                "|---|---:|---|---:|---:|---|",
            ]
        lines.append(
            f"| {row['title']} | {seconds(row['ours'])} | {row['against']} | {seconds(row['theirs'])} "
            f"| {row['ratio']:.3g} | {verdict(row['ratio'], row['asked'])} |"
        )
        if row is rows[-1] or rows[rows.index(row) + 1]["section"] != section:
            lines.append("")
    if imports:
        reached = "reached" if imports["treadle_ms"] < 40 else "missed"
        lines += [
            "## Import",
            "",
            f"`import treadle` after numpy takes {imports['treadle_ms']:.1f} ms (asked: under 40 ms, {reached}); numpy "
            f"itself took {imports['numpy_ms']:.0f} ms.",
            "",
        ]
    if team:
        lines += ["## Fork and join of the team, two threads", "", "| what | time | asked |", "|---|---:|---|"]
        for key, what, limit in TEAM:
            if key in team:
                asked = ""
                if limit is not None:
                    reached = "reached" if float(team[key]) < limit else "missed"
                    asked = f"under {seconds(limit * 1e-9)} ({reached})"
                lines.append(f"| {what} | {nanoseconds(team[key])} | {asked} |")
        lines += ["", "All lines of `cargo bench -p treadle-team`, in ns:", "", "```text"]
        lines += [f"{key} {value}" for key, value in team.items()]
        lines += ["```", ""]
    return "\n".join(lines)
