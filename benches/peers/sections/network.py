"""Networks of many tensors."""

from __future__ import annotations

from typing import Any

import networks
from case import PYTHON_PEERS, Case, Contender, Runner, all_at
from result import Result, both, geometric_mean, over_fastest
from section import Goal, Section
from tables import by_width, comparison, seconds, threaded, times

PEERS = (*PYTHON_PEERS, "tcontract")
SITES = 30
#: The same without a plan made beforehand.
EINSUM = "treadle, einsum"


def arguments() -> list[tuple[str, dict[str, Any]]]:
    """The networks, each with the path that everybody takes."""
    made = (
        ("random 3-regular graph, 40 tensors, bonds of 4", networks.regular_graph(40, 3, seed=4), lambda label: 4),
        ("random 3-regular graph, 60 tensors, bonds of 2", networks.regular_graph(60, 3, seed=1), lambda label: 2),
        ("overlap of two chains of 30, bonds of 48", networks.chain(SITES), lambda label: 2 if label < SITES else 48),
        ("lattice of 6 by 6, bonds of 4", networks.lattice(6, 6), lambda label: 4),
        ("lattice of 4 by 12, bonds of 6", networks.lattice(4, 12), lambda label: 6),
    )
    return [(title, networks.arguments_of(inputs, size)) for title, inputs, size in made]


class Networks(Section):
    """Closed networks of 36 to 60 tensors."""

    key = "networks"
    title = "Networks of 36 to 60 tensors"

    def cases(self) -> list[Case]:
        """Found once, for both widths."""
        made = arguments()
        return [
            Case(
                self.key,
                title,
                own,
                (*all_at(threads, "network", *PEERS), Contender(EINSUM, Runner("treadle", threads), "network-einsum")),
                threads,
                own["flops"],
            )
            for threads in (1, 2)
            for title, own in made
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over the best peer of each."""
        found = []
        for threads, own in by_width(results):
            versus = [result for result in own if result.fastest(PEERS)]
            if versus:
                ratios = both(versus, lambda result, best: over_fastest(result, PEERS, best=best))
                width = threaded(threads)
                means, least = map(geometric_mean, ratios), map(min, ratios)
                found.append(Goal(f"networks over the best peer, mean, {width}", 1.3, *means, times))
                found.append(Goal(f"networks over the best peer, the worst, {width}", 1.3, *least, times))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = [
            "Closed networks, float64, all along the same greedy path of opt_einsum, which is given. Everybody prepares it",
            "beforehand: treadle and tcontract as plans, opt_einsum, torch, jax (one program) and pytblis as expressions of",
            "opt_einsum. numpy alone has no more than 52 labels.",
            "",
        ]
        for threads, own in by_width(results):
            found += [f"### {threaded(threads)}", ""]
            found += comparison(
                own,
                (*PEERS, EINSUM),
                what="network",
                number=lambda result, name: seconds(result.time(name)),
                groups=(("fastest peer", PEERS),),
            )
        return found
