"""What the machine itself can do."""

from __future__ import annotations

from typing import Any

from case import Case, limit
from result import Result
from section import Section
from tables import by_width, giga, pair, table

KERNELS = tuple((isa, dtype) for dtype in ("float64", "float32") for isa in ("avx512", "avx2"))
PASSES = {
    "memcpy": "memcpy of 256 MiB, read and written",
    "read": "read and sum",
    "write": "fill, past the caches",
    "update": "add a constant in place, read and written",
    "triad": "triad, two read and one written",
    "streamed-triad": "triad, written past the caches",
}


class Limits(Section):
    """FMA peaks and memory bandwidths."""

    key = "limits"
    title = "Limits of the machine"

    def cases(self) -> list[Case]:
        """All limits of each width, in rounds of their own; many of them take part in other cases, too."""
        found = []
        for threads in (1, 2):
            kernels = tuple(
                limit(threads, "fma", f"FMA {dtype} {isa}", isa=isa, dtype=dtype, flops=1e9) for isa, dtype in KERNELS
            )
            passes = tuple(limit(threads, work, what, bytes=1e9) for work, what in PASSES.items())
            found.append(Case(self.key, "limits", {}, (*kernels, *passes), threads, 1e9, 1e9))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        widths = list(by_width(results))
        names = dict.fromkeys(name for _, own in widths for name in own[0].seconds)
        rows = [
            [
                name,
                "GFLOP/s" if name.startswith("FMA") else "GB/s",
                *(
                    pair(giga(own[0].rate(name)), giga(own[0].rate(name, best=True))) if own[0].has(name) else ""
                    for _, own in widths
                ),
            ]
            for name in names
        ]
        head = ["", "", *(f"{threads} thread{'s' if threads > 1 else ''}" for threads, _ in widths)]
        return table(head, rows, words=2)
