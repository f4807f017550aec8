"""What a call costs by itself."""

from __future__ import annotations

from typing import Any

from case import Case, Contender, Runner, all_at
from result import OURS, Result
from section import Goal, Section
from tables import comparison, seconds, times

ONE = Runner("treadle", 1)
NUMPY = Runner("numpy", 1)
#: Title, our work, the others, and the asked time.
CASES: tuple[tuple[str, str, tuple[Contender, ...], float | None], ...] = (
    ("warm `engine.matmul(a, b)`", "matmul", (Contender("numpy", NUMPY, "matmul"),), None),
    (
        'warm `engine.einsum("ij,jk->ik", a, b)`',
        "einsum",
        all_at(1, "einsum", "numpy", "opt_einsum", "torch", "jax", "pytblis", "tcontract")[1:],
        250e-9,
    ),
    ("warm `plan(a, b)`", "plan", all_at(1, "einsum", "opt_einsum", "tcontract")[1:], 180e-9),
    ("first einsum: parse, plan, run", "first", all_at(1, "first", "numpy", "opt_einsum", "tcontract")[1:], 5e-6),
)


class Calls(Section):
    """Calls on 4x4 arrays."""

    key = "calls"
    title = "Calls on 4x4 arrays, float64, new result"

    def cases(self) -> list[Case]:
        """Warm, and the first one."""
        own = {"subscripts": "ij,jk->ik", "shapes": [[4, 4], [4, 4]], "dtype": "float64"}
        return [
            Case(self.key, title, own, (Contender(OURS, ONE, work), *others), rounds=11)
            for title, work, others, _ in CASES
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Absolute times, and ratios to numpy."""
        own = [result for result in results if result.has(OURS)]
        asked = {title: limit for title, _, _, limit in CASES if limit is not None}
        found = [
            Goal(
                result.title, asked[result.title], result.time(OURS), result.time(OURS, best=True), seconds, below=True
            )
            for result in own
            if result.title in asked
        ]
        return found + [
            Goal(f"{result.title} over {what}", least, result.ratio("numpy"), result.ratio("numpy", best=True), times)
            for result, (what, least) in zip(own, (("`a @ b`", 4.0), ("`np.einsum`", 8.0)), strict=False)
            if result.has("numpy")
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        peers = ("numpy", "opt_einsum", "torch", "jax", "pytblis", "tcontract")
        return [
            "opt_einsum's warm call is an expression made beforehand, its first one `opt_einsum.contract`; jax is compiled",
            "beforehand; tcontract is called from Rust, warm with its plan made beforehand.",
            "",
            *comparison(
                [result for result in results if result.has(OURS)],
                peers,
                what="call",
                number=lambda result, name: seconds(result.time(name)),
            ),
        ]
