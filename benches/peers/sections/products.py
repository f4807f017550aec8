"""Matrix products and batches of them."""

from __future__ import annotations

from typing import Any

from case import PYTHON_PEERS, RUST_PEERS, Case, Contender, Runner, all_at, limit
from result import Result, both, over_fastest
from section import Goal, Section
from tables import by_width, comparison, percent, threaded, times

PEERS = (*PYTHON_PEERS, *RUST_PEERS)
PEAK = "FMA peak"
REAL, COMPLEX = ("float64", "float32"), ("complex128", "complex64")


def product(section: str, n: int, dtype: str, threads: int, *, out: bool, title: str, **options: Any) -> Case:
    """One square product."""
    flops = (8.0 if dtype in COMPLEX else 2.0) * n**3
    own = {"subscripts": "ij,jk->ik", "shapes": [[n, n], [n, n]], "dtype": dtype, "out": out}
    contenders = (*all_at(threads, "matmul", *PEERS), limit(threads, "fma", PEAK, flops=flops))
    return Case(section, title, own, contenders, threads, flops, **options)


class Gemm(Section):
    """Square products of 256 to 2048."""

    key = "gemm"
    title = "Matrix products"

    def cases(self) -> list[Case]:
        """Into an array that is there, and with a new result."""
        found = []
        for threads in (1, 2):
            for out in (True, False):
                for dtype in (*REAL, *COMPLEX):
                    sizes = (256, 512, 1024, 2048) if dtype in REAL else (256, 1024)
                    for n in sizes:
                        title = f"{n} {dtype}, {'out=' if out else 'new'}"
                        quick = n <= 1024 and out
                        found.append(product(self.key, n, dtype, threads, out=out, title=title, rounds=5, quick=quick))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Of the peak, and against every peer."""
        found = []
        asked = {1: (("", 0.95, 256),), 2: (("256", 0.90, 256), ("1024, 2048", 0.93, 1024))}
        for threads, own in by_width(results):
            there = [result for result in own if result.arguments["out"] and result.has(PEAK)]
            for words, fraction, size in asked[threads]:
                of = [
                    result
                    for result in there
                    if result.arguments["dtype"] in REAL
                    and (not words or (result.arguments["shapes"][0][0] >= 1024) == (size >= 1024))
                    and (words != "256" or result.arguments["shapes"][0][0] == 256)
                ]
                if of:
                    least = map(min, both(of, lambda result, best: result.ratio(PEAK, best=best)))
                    sizes = f" {words}" if words else ""
                    what = f"GEMM f64, f32{sizes}, of the peak, the worst, {threaded(threads)}"
                    found.append(Goal(what, fraction, *least, percent))
            complex_ones = [result for result in there if result.arguments["dtype"] in COMPLEX]
            if complex_ones and threads == 1:
                least = map(min, both(complex_ones, lambda result, best: result.ratio(PEAK, best=best)))
                found.append(
                    Goal(f"GEMM c128, c64, of the peak, the worst, {threaded(threads)}", 0.93, *least, percent)
                )
            versus = [result for result in own if result.fastest(PEERS) is not None]
            if versus:
                least = map(min, both(versus, lambda result, best: over_fastest(result, PEERS, best=best)))
                found.append(Goal(f"GEMM against the fastest peer, the worst, {threaded(threads)}", 1.0, *least, times))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width and kind of result."""
        found = ["GFLOP/s; a complex product counts 8 n³.", ""]
        for threads, own in by_width(results):
            for out in (True, False):
                part = [result for result in own if result.arguments["out"] is out]
                if part:
                    kind = "into an array that is there" if out else "new result"
                    found += [f"### {threaded(threads)}, {kind}", "", *comparison(part, PEERS, PEAK, what="product")]
        return found


class Small(Section):
    """Products of 64, 16 and 4."""

    key = "small"
    title = "Small products"
    #: What the crates' calls from Rust and numpy's into an array that is there stand for: the kernels' own rates.
    kernels = (*RUST_PEERS, "numpy, out=")

    def cases(self) -> list[Case]:
        """Calls from Python with a new result; the crates are called from Rust, into an array that is there."""
        found = []
        for dtype in REAL:
            for n in (64, 16, 4):
                own = {"subscripts": "ij,jk->ik", "shapes": [[n, n], [n, n]], "dtype": dtype}
                there = (("out", True),)
                contenders = (
                    *all_at(1, "matmul", *PYTHON_PEERS),
                    Contender("numpy, out=", Runner("numpy", 1), "matmul", there),
                    *(Contender(peer, Runner(peer, 1), "matmul", there) for peer in RUST_PEERS),
                    limit(1, "fma", PEAK, flops=2.0 * n**3),
                )
                found.append(Case(self.key, f"{n} {dtype}", own, contenders, 1, 2.0 * n**3, rounds=11))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """At 64 the kernels' rates, at 16 every peer, at 4 numpy's operator."""
        found = []
        for n, what, peers, asked, shown in (
            (64, "64: of the best peer's kernel rate", self.kernels, 0.95, percent),
            (16, "16: over every Python peer", PYTHON_PEERS, 1.0, times),
            (4, "4: over `a @ b`", ("numpy",), 4.0, times),
        ):
            own = [result for result in results if result.arguments["shapes"][0][0] == n and result.fastest(peers)]
            if own:
                least = map(min, both(own, lambda result, best: over_fastest(result, peers, best=best)))  # noqa: B023
                found.append(Goal(f"product of {what}, new array, f64 and f32", asked, *least, shown))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        return [
            "GFLOP/s of a call from Python with a new result. The crates and `numpy, out=` write into an array that is",
            "there, the crates called from Rust: that is their kernels' own rate.",
            "",
            *comparison(
                results,
                (*PYTHON_PEERS, *self.kernels),
                PEAK,
                what="product",
                groups=(("fastest Python call", PYTHON_PEERS), ("fastest kernel", self.kernels)),
            ),
        ]


class Batches(Section):
    """Batches of products."""

    key = "batches"
    title = "Batches of products"

    def cases(self) -> list[Case]:
        """At two threads ours at one thread takes part, too."""
        found = []
        for threads in (1, 2):
            for batch, n in ((256, 32), (64, 64), (8, 256)):
                flops = 2.0 * batch * n**3
                shapes = [[batch, n, n], [batch, n, n]]
                own = {"subscripts": "bij,bjk->bik", "shapes": shapes, "dtype": "float64"}
                alone = (Contender("treadle, 1 thread", Runner("treadle", 1), "matmul"),) if threads > 1 else ()
                contenders = (
                    *all_at(threads, "matmul", *PEERS),
                    *alone,
                    limit(threads, "fma", PEAK, flops=flops),
                )
                found.append(Case(self.key, f"{batch} x {n}³", own, contenders, threads, flops))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over the best peer with one thread, over ourselves with two."""
        found = []
        for threads, own in by_width(results):
            versus = [result for result in own if result.fastest(PEERS)]
            if threads == 1 and versus:
                least = map(min, both(versus, lambda result, best: over_fastest(result, PEERS, best=best)))
                found.append(Goal("batches over the best peer, the worst, 1 thread", 1.2, *least, times))
            if threads == 2:
                least = map(min, both(own, lambda result, best: result.ratio("treadle, 1 thread", best=best)))
                found.append(Goal("batches on two threads over one, the worst", 1.9, *least, times))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = ["GFLOP/s, float64, new result.", ""]
        for threads, own in by_width(results):
            peers = (*PEERS, "treadle, 1 thread")
            found += [f"### {threaded(threads)}", ""]
            found += comparison(own, peers, PEAK, what="batch", groups=(("fastest peer", PEERS),))
        return found
