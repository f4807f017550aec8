"""Maps across MPI ranks."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from result import Result
from rounds import HERE, Workers, environment
from section import Goal, Section
from tables import giga, percent, seconds, table, times

#: What a job of rank_jobs.py is called, its ranks, and the module that starts it.
JOBS = (
    ("small", 2, "mpi4py"),
    ("futures", 2, "mpi4py.futures"),
    ("large", 2, "mpi4py"),
    ("chains", 3, "mpi4py"),
    ("lanes", 1, "mpi4py"),
    ("waiting", 2, "mpi4py"),
)


def _rate(value: float) -> str:
    return f"{giga(value)} GB/s"


class Ranks(Section):
    """Jobs of their own, in turn."""

    key = "ranks"
    title = "Ranks"

    def measure_apart(self, workers: Workers, *, quick: bool) -> dict[str, Any]:
        """Each number of each round."""
        beside = Path(sys.executable).parent / "mpiexec"
        launcher = str(beside) if beside.exists() else shutil.which("mpiexec")
        if launcher is None:
            return {}
        found: dict[str, list[float]] = {}
        for _ in range(1 if quick else 3):
            for what, ranks, module in JOBS:
                result = subprocess.run(
                    [launcher, "-n", str(ranks), sys.executable, "-m", module, str(HERE / "rank_jobs.py"), what],
                    capture_output=True,
                    text=True,
                    check=True,
                    timeout=300,
                    stdin=subprocess.DEVNULL,
                    env=environment(1),
                )
                for name, value in json.loads(result.stdout).items():
                    found.setdefault(name, []).append(value)
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Absolute times and rates, and two ratios."""
        if not apart:
            return []
        small, auto, futures = (apart[f"small {name}"] for name in (1, "auto", "futures"))
        chains, lanes, large = apart["chains ranks"], apart["chains lanes"], apart["large, prefetch"]

        def goal(what: str, asked: float, values: list[float], shown: Any, *, below: bool = False) -> Goal:
            return Goal(what, asked, statistics.median(values), (min if below else max)(values), shown, below=below)

        def ratio(above: list[float], under: list[float]) -> list[float]:
            return [a / b for a, b in zip(above, under, strict=True)]

        return [
            goal('`pmap_lanes` on 2 ranks, small items, `batch_size="auto"`, each', 20e-6, auto, seconds, below=True),
            goal("the same, `batch_size=1`", 20e-6, small, seconds, below=True),
            goal("the same over MPIPoolExecutor", 10.0, ratio(futures, small), times),
            goal("arrays of 8 MiB there and back, `prefetch=True`", 2e9, large, _rate),
            goal(
                "64 chains with an SVD on 3 ranks, over two serial lanes", 1.15, ratio(chains, lanes), times, below=True
            ),
            goal("a root that waits, of a core", 0.02, apart["waiting"], percent, below=True),
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        if not apart:
            return ["mpi4py or `mpiexec` is not installed.", ""]
        shown = {"large": _rate, "large, prefetch": _rate, "waiting": percent}
        rows = [[name, shown.get(name, seconds)(statistics.median(values))] for name, values in apart.items()]
        return table(["what", "median"], rows)
