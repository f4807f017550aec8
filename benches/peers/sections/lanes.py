"""Lanes, the import, and the thread team."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
from typing import Any

from case import Case, Contender, Runner
from result import OURS, Result
from rounds import HERE, Workers, environment
from section import Goal, Section
from tables import comparison, seconds, table, times

ONE, NUMPY = Runner("treadle", 1), Runner("numpy", 1)
CHAINS = {"lanes": 2, "chains": 64, "n": 256}
LOKY = "joblib, two loky processes"
CHAIN_RIVALS = (("one serial lane", 1.95), ("ThreadPoolExecutor(2), BLAS at one thread", 1.0), (LOKY, 1.0))
LOKY_FIRST = "joblib, its two processes started"
FIRST = "the same chains by a first call: lanes and engines made, processes started"
EXECUTOR = "ThreadPoolExecutor(2).map"
SUBMITS = "LaneExecutor.map"
THREADS = "two of threading.Thread"
RUN = "starting and ending a run of two lanes"
NOTHING = "a callback that does nothing, for each item of 20,000"
IMPORT_PROBE = (
    "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); import treadle; "
    "print(b - a, time.perf_counter() - b)"
)
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


class Lanes(Section):
    """Work in lanes."""

    key = "lanes"
    title = "Lanes"

    def cases(self) -> list[Case]:
        """Chains of products with an SVD, and a callback that does nothing."""
        return [
            Case(
                self.key,
                "64 chains of three products and an SVD, 256x256 float64",
                CHAINS,
                (
                    Contender(OURS, ONE, "chains-lanes"),
                    Contender(CHAIN_RIVALS[0][0], ONE, "chains-one-lane"),
                    Contender(CHAIN_RIVALS[1][0], NUMPY, "chains-executor"),
                    Contender(LOKY, Runner("joblib", 1), "chains-loky"),
                ),
                rounds=5,
            ),
            Case(
                self.key,
                FIRST,
                CHAINS,
                (
                    Contender(OURS, ONE, "first-chains-lanes"),
                    Contender(LOKY_FIRST, Runner("joblib", 1), "first-chains-loky"),
                ),
                rounds=3,
            ),
            Case(
                self.key,
                NOTHING,
                {"items": 20_000},
                (
                    Contender(OURS, ONE, "nothing-lanes"),
                    Contender(EXECUTOR, NUMPY, "nothing-executor"),
                    Contender(SUBMITS, ONE, "nothing-lane-executor"),
                ),
            ),
            Case(
                self.key,
                RUN,
                {"lanes": 2},
                (Contender(OURS, ONE, "run-lanes"), Contender(THREADS, NUMPY, "run-threads")),
            ),
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Two absolute times, and ratios."""
        asked = dict(CHAIN_RIVALS) | {EXECUTOR: 5.0, LOKY_FIRST: 1.5}
        limits = {RUN: 120e-6, NOTHING: 20_000 * 2e-6}
        return [
            *(
                Goal(result.title, limits[result.title], result.time(OURS), result.time(OURS), seconds, below=True)
                for result in results
                if result.title in limits and result.has(OURS)
            ),
            *self.ratios(results, asked),
        ]

    def ratios(self, results: list[Result], asked: dict[str, float]) -> list[Goal]:
        """Ratios to others."""
        return [
            Goal(
                f"two lanes, {result.title}, over {name}",
                asked[name],
                result.ratio(name),
                result.ratio(name, best=True),
                times,
            )
            for result in results
            for name in asked
            if result.has(name)
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        rivals = (*dict(CHAIN_RIVALS), LOKY_FIRST, EXECUTOR, SUBMITS, THREADS)
        return comparison(results, rivals, what="two lanes", number=lambda result, name: seconds(result.time(name)))


class Import(Section):
    """The import."""

    key = "import"
    title = "Import"

    def measure_apart(self, workers: Workers, *, quick: bool) -> dict[str, Any]:
        """Each in a new process."""
        found = []
        for _ in range(3 if quick else 11):
            result = subprocess.run(
                [sys.executable, "-c", IMPORT_PROBE], capture_output=True, text=True, check=True, env=environment(1)
            )
            found.append([float(part) for part in result.stdout.split()])
        return {"numpy": [row[0] for row in found], "treadle": [row[1] for row in found]}

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """An absolute time."""
        if not apart:
            return []
        own = apart["treadle"]
        return [Goal("`import treadle` after numpy", 0.04, statistics.median(own), min(own), seconds, below=True)]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A sentence."""
        own, numpy = (seconds(statistics.median(apart[name])) for name in ("treadle", "numpy"))
        return [f"`import treadle` after numpy takes {own}; numpy itself took {numpy}.", ""]


class Team(Section):
    """The team's own bench."""

    key = "team"
    title = "Fork and join of the team, two threads"

    def measure_apart(self, workers: Workers, *, quick: bool) -> dict[str, Any]:
        """Its ``name value`` lines, in nanoseconds."""
        cargo = shutil.which("cargo")
        if cargo is None or quick:
            return {}
        result = subprocess.run(
            [cargo, "bench", "--locked", "--quiet", "-p", "treadle-team", "--bench", "fork_join"],
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
            check=True,
            timeout=600,
        )
        pairs = (line.split() for line in result.stdout.splitlines())
        return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2}

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Absolute times."""
        return [
            Goal(what, 1e-9 * limit, 1e-9 * apart[key], 1e-9 * apart[key], seconds, below=True)
            for key, what, limit in TEAM
            if limit is not None and key in apart
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """What is asked, then everything."""
        rows = [[what, seconds(1e-9 * apart[key])] for key, what, _ in TEAM if key in apart]
        return [
            *table(["what", "time"], rows),
            "All lines of `cargo bench -p treadle-team`, in ns:",
            "",
            "```text",
            *(f"{key} {value:.0f}" for key, value in apart.items()),
            "```",
            "",
        ]
