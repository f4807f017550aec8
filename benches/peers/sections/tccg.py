"""The tensor contractions of TCCG."""

from __future__ import annotations

import math
from typing import Any

from case import PYTHON_PEERS, RUST_PEERS, Case, all_at, limit
from result import Result, both, geometric_mean, over_fastest
from section import Goal, Section
from tables import by_width, comparison, pair, percent, threaded, times

#: The 24 contractions of the headline figure of the Tensor Contraction Code Generator's benchmark (P. Springer and
#: P. Bientinesi, "Design of a high-performance GEMM-like tensor-tensor multiplication", arXiv 1607.00145), from the
#: one bound by memory to the one bound by arithmetic: result, left, right. Sizes are reduced to tens of MB.
CASES = (
    ("abcde-efbad-cf", "a24 b16 c24 d16 e24 f32"),
    ("abcde-efcad-bf", "a24 b24 c16 d16 e24 f32"),
    ("abcd-dbea-ec", "a48 b40 c24 d40 e48"),
    ("abcde-ecbfa-fd", "a24 b16 c16 d24 e24 f32"),
    ("abcd-deca-be", "a48 b24 c40 d40 e48"),
    ("abc-bda-dc", "a160 b160 c24 d160"),
    ("abcd-ebad-ce", "a48 b40 c24 d40 e48"),
    ("abcdef-dega-gfbc", "a16 b12 c12 d16 e12 f12 g24"),
    ("abcdef-dfgb-geac", "a16 b12 c12 d16 e12 f12 g24"),
    ("abcdef-degb-gfac", "a16 b12 c12 d16 e12 f12 g24"),
    ("abcdef-degc-gfab", "a16 b12 c12 d16 e12 f12 g24"),
    ("abc-dca-bd", "a160 b24 c152 d160"),
    ("abcd-ea-ebcd", "a48 b40 c40 d48 e40"),
    ("abcd-eb-aecd", "a48 b40 c40 d48 e40"),
    ("abcd-ec-abed", "a48 b40 c40 d48 e40"),
    ("abc-adec-ebd", "a48 b48 c48 d40 e40"),
    ("ab-cad-dcb", "a160 b152 c160 d152"),
    ("ab-acd-dbc", "a160 b152 c160 d152"),
    ("abc-acd-db", "a160 b152 c152 d160"),
    ("abc-adc-bd", "a160 b152 c152 d160"),
    ("ab-ac-cb", "a1536 b1504 c1536"),
    ("abcd-aebf-fdec", "a40 b36 c40 d36 e40 f36"),
    ("abcd-eafd-fbec", "a40 b36 c40 d36 e40 f36"),
    ("abcd-aebf-dfce", "a40 b36 c40 d36 e40 f36"),
)
#: FLOP for each byte of operands and result (the result counts twice: it is new) from which arithmetic bounds a case:
#: its products then take some ten times as long as its memory traffic.
COMPUTE_BOUND = 20.0
PEAK = "FMA peak"


def arguments(contraction: str, sizes: str) -> tuple[dict[str, Any], float, float]:
    """Arguments, FLOP and bytes. Labels are reversed: row-major arrays then lie as TCCG's column-major ones."""
    size = {part[0]: int(part[1:]) for part in sizes.split()}
    result, left, right = (part[::-1] for part in contraction.split("-"))
    shapes = [[size[label] for label in part] for part in (left, right)]
    elements = [math.prod(size[label] for label in part) for part in (left, right, result, result)]
    found = {"subscripts": f"{left},{right}->{result}", "shapes": shapes, "dtype": "float64"}
    return found, 2.0 * math.prod(size.values()), 8.0 * sum(elements)


class Tccg(Section):
    """24 contractions with one and with two threads."""

    key = "tccg"
    title = "Tensor contractions: TCCG"

    def cases(self) -> list[Case]:
        """Every contraction at both widths."""
        found = []
        for threads in (1, 2):
            for contraction, sizes in CASES:
                own, flops, size = arguments(contraction, sizes)
                contenders = (
                    *all_at(threads, "contract", *PYTHON_PEERS, "tcontract"),
                    limit(threads, "fma", PEAK, flops=flops),
                )
                title = f"{contraction} `{own['subscripts']}`"
                found.append(Case(self.key, title, own, contenders, threads, flops, size, rounds=5))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Against the best Python peer of each case, the crate, and the peak."""
        found = []
        for threads, own in by_width(results):
            width = threaded(threads)
            versus = [result for result in own if result.fastest(PYTHON_PEERS) is not None]
            if versus:
                ratios = both(versus, lambda result, best: over_fastest(result, PYTHON_PEERS, best=best))
                means, least = map(geometric_mean, ratios), map(min, ratios)
                found.append(Goal(f"{len(versus)} TCCG cases over the best Python peer, {width}", 1.5, *means, times))
                found.append(Goal(f"the worst of them, {width}", 1.0, *least, times))
            crate = [result for result in own if result.has("tcontract")]
            if crate:
                means = map(geometric_mean, both(crate, lambda result, best: result.ratio("tcontract", best=best)))
                found.append(Goal(f"{len(crate)} TCCG cases over tcontract, {width}", 1.15, *means, times))
            bound = [result for result in own if result.flops / result.bytes >= COMPUTE_BOUND and result.has(PEAK)]
            if bound:
                least = map(min, both(bound, lambda result, best: result.ratio(PEAK, best=best)))
                found.append(
                    Goal(f"compute-bound TCCG cases ({len(bound)}), the worst, {width}", 0.88, *least, percent)
                )
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = [
            "The 24 contractions of the headline figure of TCCG's benchmark (Springer and Bientinesi, arXiv 1607.00145),",
            "float64, sizes reduced to tens of MB, labels reversed so that row-major arrays have TCCG's layout. GFLOP/s.",
            "Results are new arrays in C order: a peer whose own result is a permuted view is timed with the copy.",
            "",
        ]
        groups = (("best Python peer", PYTHON_PEERS), ("crate", RUST_PEERS))
        for threads, own in by_width(results):
            found += [f"### {threaded(threads)}", ""]
            found += comparison(own, (*PYTHON_PEERS, *RUST_PEERS), PEAK, what="contraction", groups=groups)
            versus = [result for result in own if result.fastest(PYTHON_PEERS) is not None]
            if versus:
                ratios = both(versus, lambda result, best: over_fastest(result, PYTHON_PEERS, best=best, view=True))
                means = pair(*(times(geometric_mean(part)) for part in ratios))
                found += [
                    f"Where permuted views count as results, treadle's and the peers', the mean ratio is {means}.",
                    "",
                ]
        return found
