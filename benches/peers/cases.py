"""What is measured, against whom, and what is asked of the ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Runner:
    """One side of a comparison: a peer in a process of its own, with so many threads."""

    peer: str
    threads: int


@dataclass(frozen=True)
class Case:
    """One comparison. ``ours`` is timed against each of ``theirs`` in interleaved rounds."""

    section: str
    title: str
    work: str
    arguments: dict[str, Any]
    ours: Runner
    theirs: tuple[tuple[str, Runner, str, float | None], ...]  # name, runner, work, asked ratio
    rounds: int = 9
    quick: bool = True


def cases() -> list[Case]:
    """Every case, in the order of the page."""
    one, two = Runner("treadle", 1), Runner("treadle", 2)
    numpy_one, numpy_two = Runner("numpy", 1), Runner("numpy", 2)
    found = [
        Case(
            "A call on 4x4 arrays, float64, new result",
            "engine.matmul(a, b)",
            "matmul",
            {"n": 4, "dtype": "float64"},
            one,
            (("a @ b", numpy_one, "matmul", 4.0),),
            rounds=15,
        ),
        Case(
            "A call on 4x4 arrays, float64, new result",
            'engine.einsum("ij,jk->ik", a, b)',
            "einsum",
            {"n": 4, "dtype": "float64"},
            one,
            (("np.einsum", numpy_one, "einsum", 8.0),),
            rounds=15,
        ),
    ]
    for threads, ours, theirs in ((1, one, numpy_one), (2, two, numpy_two)):
        plural = "thread" if threads == 1 else "threads"
        found += [
            Case(
                f"Matrix product, new result, {threads} {plural}",
                f"{n} {dtype}",
                "matmul",
                {"n": n, "dtype": dtype},
                ours,
                (("numpy", theirs, "matmul", 1.0),),
                quick=n <= 1024,
            )
            for dtype in ("float64", "float32")
            for n in (256, 512, 1024, 2048)
        ]
    found.append(
        Case(
            "64 chains of three products and an SVD, 256x256 float64",
            "two serial lanes",
            "chains-lanes",
            {"lanes": 2, "chains": 64, "n": 256},
            one,
            (
                ("one serial lane", one, "chains-one-lane", 1.9),
                ("ThreadPoolExecutor(2), BLAS at one thread", numpy_one, "chains-executor", 1.0),
            ),
            rounds=5,
        )
    )
    found.append(
        Case(
            "A callback that does nothing, for each item of 20,000",
            "map_in_lanes, two lanes",
            "nothing-lanes",
            {"items": 20_000},
            one,
            (("ThreadPoolExecutor(2).map", numpy_one, "nothing-executor", 4.0),),
        )
    )
    return found
