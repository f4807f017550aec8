"""Products of integers and booleans."""

from __future__ import annotations

from typing import Any

from case import Case, all_at
from result import Result, both
from section import Goal, Section
from tables import by_width, comparison, seconds, times


class Integers(Section):
    """Products of 512."""

    key = "integers"
    title = "Products of integers and booleans, 512"

    def cases(self) -> list[Case]:
        """Against numpy, and the others that have them."""
        return [
            Case(
                self.key,
                dtype,
                {"subscripts": "ij,jk->ik", "shapes": [[512, 512], [512, 512]], "dtype": dtype},
                all_at(threads, "matmul", "numpy", "torch", "jax"),
                threads,
                2.0 * 512**3,
                rounds=3,
            )
            for threads in (1, 2)
            for dtype in ("int32", "int64", "bool")
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over numpy, which has one thread for them."""
        own = [result for result in results if result.threads == 1 and result.has("numpy")]
        if not own:
            return []
        least = map(min, both(own, lambda result, best: result.ratio("numpy", best=best)))
        return [Goal("int32, int64, bool product of 512 over numpy, the worst, 1 thread", 10.0, *least, times)]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = []
        for threads, own in by_width(results):
            found += [f"### {threads} thread{'s' if threads > 1 else ''}", ""]
            found += comparison(
                own,
                ("numpy", "torch", "jax"),
                what="dtype",
                number=lambda result, name: seconds(result.time(name)),
                groups=(("numpy", ("numpy",)), ("fastest peer", ("numpy", "torch", "jax"))),
            )
        return found
