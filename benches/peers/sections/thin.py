"""Operations that memory bounds."""

from __future__ import annotations

from typing import Any

from case import PYTHON_PEERS, RUST_PEERS, Case, all_at, limit
from result import Result, both
from section import Goal, Section
from tables import by_width, comparison, giga, percent, threaded

PEERS = (*PYTHON_PEERS, *RUST_PEERS)
N = 4096
#: Work, title, subscripts, shapes, bytes moved, and the machine's own pass over as much memory of the same kind.
CASES = (
    ("matvec", "matrix-vector of 4096", "ij,j->i", [[N, N], [N]], 8.0 * N * N, "read"),
    ("dot", "dot of 4096² elements", "i,i->", [[N * N], [N * N]], 16.0 * N * N, "read"),
    ("outer", "outer product of 4096, out=", "i,j->ij", [[N], [N]], 8.0 * N * N, "write"),
    ("rank2", "rank-2 update of 4096, beta 1", "ik,jk->ij", [[N, 2], [N, 2]], 16.0 * N * N, "update"),
)
LIMIT = "bandwidth"


class Thin(Section):
    """Matrix-vector, dot, outer product and rank-2 update."""

    key = "thin"
    title = "Memory-bound operations, 4096"

    def cases(self) -> list[Case]:
        """Each beside the machine's own pass."""
        found = []
        for threads in (1, 2):
            for work, title, subscripts, shapes, size, kind in CASES:
                own = {"subscripts": subscripts, "shapes": shapes, "dtype": "float64"}
                contenders = (*all_at(threads, work, *PEERS), limit(threads, kind, LIMIT, bytes=size))
                found.append(Case(self.key, title, own, contenders, threads, bytes=size))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Of the bandwidth."""
        found = []
        for threads, own in by_width(results):
            for result in own:
                if result.has(LIMIT):
                    value = both([result], lambda one, best: one.ratio(LIMIT, best=best))
                    what = f"{result.title}, of the bandwidth, {threaded(threads)}"
                    found.append(Goal(what, 0.95, value[0][0], value[1][0], percent))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = [
            "GB/s, float64. The bandwidth is that of the machine's own pass over as much memory: reading and summing for",
            "matrix-vector and dot, filling past the caches for the outer product, adding a constant in place for the update.",
            "",
        ]
        for threads, own in by_width(results):
            found += [f"### {threaded(threads)}", ""]
            found += comparison(
                own, PEERS, LIMIT, what="operation", number=lambda result, name: giga(result.bandwidth(name))
            )
        return found
