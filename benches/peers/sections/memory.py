"""Memory beyond operands and result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from case import Runner
from result import Result
from rounds import PeerError, Workers
from section import Goal, Section
from tables import mebibytes, table, threaded

MIB = 2.0**20
#: Title, subscripts, shapes, result, dtype.
CASES: tuple[tuple[str, str, list[list[int]], list[int], str], ...] = (
    ("product of 4096", "ij,jk->ik", [[4096, 4096], [4096, 4096]], [4096, 4096], "float64"),
    ("product of transposed 4096", "ji,kj->ki", [[4096, 4096], [4096, 4096]], [4096, 4096], "float64"),
    (
        "abcde-efbad-cf of TCCG, larger",
        "dabfe,fc->edcba",
        [[32, 32, 32, 32, 32], [32, 32]],
        [32, 32, 32, 32, 32],
        "float64",
    ),
    (
        "abcd-aebf-dfce of TCCG, larger",
        "fbea,ecfd->dcba",
        [[56, 56, 56, 56], [56, 56, 56, 56]],
        [56, 56, 56, 56],
        "float64",
    ),
    ("complex product of 2048", "ij,jk->ik", [[2048, 2048], [2048, 2048]], [2048, 2048], "complex128"),
    ("batch of 64 products of 512", "bij,bjk->bik", [[64, 512, 512], [64, 512, 512]], [64, 512, 512], "float64"),
    ("matrix-vector of 8192", "ij,j->i", [[8192, 8192], [8192]], [8192], "float64"),
)


class Memory(Section):
    """Peak of the resident memory over what operands and result have."""

    key = "memory"
    title = "Memory beyond operands and result"

    def measure_apart(self, workers: Workers, *, quick: bool) -> dict[str, Any]:
        """Each case in a process that has contracted nothing of that size before."""
        if not Path("/proc/self/clear_refs").is_file():
            return {}
        found = []
        for threads in (1, 2):
            runner = Runner("treadle", threads)
            for title, subscripts, shapes, result, dtype in CASES[: 3 if quick else None]:
                workers.restart(runner)
                arguments = {"subscripts": subscripts, "shapes": shapes, "result": result, "dtype": dtype}
                try:
                    peak = workers.ask(runner, "memory", arguments)["seconds"]
                except PeerError as error:
                    raise SystemExit(f"memory: {title}: treadle: {error}") from error
                found.append({"title": title, "threads": threads, "subscripts": subscripts, "bytes": peak})
        return {"peaks": found}

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """A bound for each thread."""
        peaks = [row["bytes"] / row["threads"] for row in apart.get("peaks", ())]
        if not peaks:
            return []
        return [
            Goal("memory beyond operands and result, a thread", 16 * MIB, max(peaks), max(peaks), mebibytes, below=True)
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        rows = [
            [f"{row['title']} `{row['subscripts']}`", threaded(row["threads"]), mebibytes(row["bytes"])]
            for row in apart.get("peaks", ())
        ]
        return [
            "By how much the process's peak (`VmHWM`) rises over what operands and an `out=` that is there have, in the first",
            "contraction of the process.",
            "",
            *table(["contraction", "", "treadle"], rows, words=2),
        ]
