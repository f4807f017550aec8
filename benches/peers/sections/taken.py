"""Products on two threads while another process keeps one CPU busy."""

from __future__ import annotations

from typing import Any

from case import Case, Contender, Runner, all_at
from result import Result, both
from section import Goal, Section
from tables import comparison, times

ALONE = "treadle, 1 thread"
PEERS = ("numpy", "torch", "jax", "pytblis", "gemm")


class Taken(Section):
    """Two threads on what is left of two CPUs."""

    key = "taken"
    title = "Products on two threads with one core taken by another process"

    def cases(self) -> list[Case]:
        """Ours at one thread takes part, in the same state."""
        found = []
        for dtype in ("float64", "float32"):
            for n in (256, 1024, 2048):
                own = {"subscripts": "ij,jk->ik", "shapes": [[n, n], [n, n]], "dtype": dtype}
                contenders = (
                    *all_at(2, "matmul", *PEERS),
                    Contender(ALONE, Runner("treadle", 1), "matmul"),
                )
                case = Case(self.key, f"{n} {dtype}", own, contenders, 2, 2.0 * n**3, quick=n < 2048, taken=True)
                found.append(case)
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Not below one thread; over numpy."""
        if not results:
            return []
        alone = map(min, both(results, lambda result, best: result.ratio(ALONE, best=best)))
        found = [Goal("two threads with one core taken, over one thread, the worst", 1.0, *alone, times)]
        versus = [result for result in results if result.has("numpy")]
        if versus:
            numpy = map(min, both(versus, lambda result, best: result.ratio("numpy", best=best)))
            found.append(Goal("two threads with one core taken, over numpy, the worst", 1.3, *numpy, times))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        del apart
        return [
            f"GFLOP/s, new result. A process spins on one of the CPUs; `{ALONE}` is measured in the same state.",
            "",
            *comparison(results, (*PEERS, ALONE), what="product", groups=(("numpy", ("numpy",)), (ALONE, (ALONE,)))),
        ]
