"""Factorisations: single ones, batches of small ones, and calls."""

from __future__ import annotations

import sys
from typing import Any

from case import Case, Contender, Runner, all_at
from factorisations import FUNCTIONS
from result import Result, both, over_fastest
from section import Goal, Section
from tables import by_width, comparison, percent, seconds, threaded, times

import treadle as td

PEERS = ("numpy", "scipy")
ALONE, UNCHECKED = "treadle, 1 thread", "without the finite check"
#: Asked of one thread in double precision, from 256 to 1024.
ASKED = {
    "cholesky": 2.5,
    **dict.fromkeys(("lu", "solve", "inv", "det"), 1.5),
    "qr": 1.4,
    **dict.fromkeys(("eigh", "eigvalsh", "svd", "svdvals", "eig"), 1.2),
}
OTHERS = ("eigvals", "schur", "lstsq", "pinv", "expm")
#: Asked of 10,000 matrices of 4x4, and of one.
ASKED_4 = {"svd": 8.0, "eigh": 6.0, **dict.fromkeys(("solve", "inv", "det", "cholesky", "qr", "lu"), 5.0)}
ASKED_CALL = {"svd": 5.0, "eigh": 4.0, "qr": 8.0, "solve": 6.0}


def missing() -> list[str]:
    """Functions that this version does not have."""
    with td.CpuEngine.serial() as engine:
        return [name for name in FUNCTIONS if not hasattr(engine.linalg, name)]


def note() -> list[str]:
    """What the page says about them, and whoever waits."""
    names = missing()
    if not names:
        return []
    return [f"Missing in this version: {', '.join(names)}.", ""]


def case(section: str, function: str, shape: list[int], dtype: str, threads: int, **options: Any) -> Case:
    """One function on one operand."""
    words = " x ".join([str(length) for length in shape[:-2]] + [f"{shape[-1]}"])
    own = {"function": function, "shape": shape, "dtype": dtype}
    alone = (Contender(ALONE, Runner("treadle", 1), "linalg"),) if threads > 1 else ()
    unchecked = (Contender(UNCHECKED, Runner("treadle", threads), "linalg", (("options", {"check_finite": False}),)),)
    extra = unchecked if options.pop("unchecked", False) else ()
    contenders = (*all_at(threads, "linalg", *PEERS), *alone, *extra)
    return Case(section, f"{function} {words} {dtype}", own, contenders, threads, **options)


class Factorisations(Section):
    """One matrix at a time."""

    key = "linalg"
    title = "Linear algebra"

    def cases(self) -> list[Case]:
        """Three sizes in double precision, one in the other types, one and two threads."""
        absent = missing()
        if absent:
            sys.stderr.write(f"linalg: missing in this version: {', '.join(absent)}\n")
        found = []
        for threads in (1, 2):
            for function in (*ASKED, *OTHERS):
                if function in absent:
                    continue
                for n in (256, 512, 1024):
                    if function in OTHERS and n > 512:
                        continue
                    quick = n <= 256
                    kept = {"rounds": 3 if n >= 512 else 5, "quick": quick, "unchecked": n == 256 and threads == 1}
                    found.append(case(self.key, function, [n, n], "float64", threads, **kept))
                if threads == 1 and function in ASKED:
                    found += [
                        case(self.key, function, [256, 256], dtype, 1, rounds=5, quick=False)
                        for dtype in ("float32", "complex64", "complex128")
                    ]
        if "full_piv_lu" not in absent:
            found.append(case(self.key, "full_piv_lu", [256, 256], "float64", 1, rounds=5))
        return found

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over the better peer with one thread, over ourselves with two."""
        found = []
        for function, asked in ASKED.items():
            own = [result for result in results if result.arguments["function"] == function and result.fastest(PEERS)]
            for dtypes, least, what in (
                (("float64",), asked, "float64"),
                (("float32", "complex64", "complex128"), 1.0, "the other types"),
            ):
                of = [one for one in own if one.threads == 1 and one.arguments["dtype"] in dtypes]
                if of:
                    worst = map(min, both(of, lambda result, best: over_fastest(result, PEERS, best=best)))
                    found.append(
                        Goal(f"{function}, {what}, over the better peer, the worst, 1 thread", least, *worst, times)
                    )
            for n, least in ((512, 1.5), (1024, 1.7)):
                of = [one for one in own if one.threads == 2 and one.arguments["shape"][-1] == n]
                if of:
                    worst = map(min, both(of, lambda result, best: result.ratio(ALONE, best=best)))
                    wanted = 1.2 if function == "eig" else least
                    found.append(Goal(f"{function} {n}, two threads over one", wanted, *worst, times))
                    worst = map(min, both(of, lambda result, best: over_fastest(result, PEERS, best=best)))
                    found.append(Goal(f"{function} {n}, over the better peer, 2 threads", 1.1, *worst, times))
        checked = [result for result in results if result.has(UNCHECKED)]
        if checked:
            # What the check adds to the time without it.
            most = [max(one) for one in both(checked, lambda result, best: 1 / result.ratio(UNCHECKED, best=best) - 1)]
            found.append(Goal("finite check at 256, of the time, the largest", 0.03, *most, percent, below=True))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = [*note(), "Times of a call with a new result; scipy's with `check_finite=True`, its default.", ""]
        for threads, own in by_width(results):
            peers = (*PEERS, ALONE, UNCHECKED)
            found += [f"### {threaded(threads)}", ""]
            found += comparison(
                own,
                peers,
                what="function",
                number=lambda result, name: seconds(result.time(name)),
                groups=(("better peer", PEERS),),
            )
        return found


class MatrixBatches(Section):
    """Batches of small matrices."""

    key = "matrix-batches"
    title = "Batches of small factorisations, float64"

    def cases(self) -> list[Case]:
        """10,000 of 4x4, 2,000 of 16x16, 100 of 64x64."""
        absent = missing()
        return [
            case(self.key, function, [count, n, n], "float64", threads, rounds=3, quick=n == 4)
            for threads in (1, 2)
            for count, n in ((10_000, 4), (2_000, 16), (100, 64))
            for function in ASKED
            if function not in absent
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over numpy with one thread, over ourselves with two."""
        found = []
        for n, count in ((4, 10_000), (16, 2_000), (64, 100)):
            own = [result for result in results if result.arguments["shape"][-1] == n]
            for result in own:
                function = result.arguments["function"]
                asked = ASKED_4.get(function) if n == 4 else 2.0 if n == 16 else 1.2
                if result.threads == 1 and asked is not None and result.fastest(PEERS):
                    value = both([result], lambda one, best: over_fastest(one, PEERS, best=best))
                    found.append(Goal(f"{count} of {n}x{n}: {function}", asked, value[0][0], value[1][0], times))
            two = [result for result in own if result.threads == 2 and result.has(ALONE)]
            if two and n == 4:
                worst = map(min, both(two, lambda result, best: result.ratio(ALONE, best=best)))
                found.append(Goal(f"{count} of {n}x{n}, two threads over one, the worst", 1.9, *worst, times))
        return found

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """A table for each width."""
        found = note()
        for threads, own in by_width(results):
            found += [f"### {threaded(threads)}", ""]
            found += comparison(
                own,
                (*PEERS, ALONE),
                what="batch",
                number=lambda result, name: seconds(result.time(name)),
                groups=(("better peer", PEERS),),
            )
        return found


class MatrixCalls(Section):
    """One small matrix."""

    key = "matrix-calls"
    title = "One factorisation of a 4x4 matrix, float64"

    def cases(self) -> list[Case]:
        """Every function."""
        absent = missing()
        return [
            case(self.key, function, [4, 4], "float64", 1, rounds=7)
            for function in (*ASKED, *OTHERS)
            if function not in absent
        ]

    def goals(self, results: list[Result], apart: dict[str, Any]) -> list[Goal]:
        """Over numpy."""
        return [
            Goal(
                f"one 4x4 {result.arguments['function']} over numpy",
                ASKED_CALL[result.arguments["function"]],
                result.ratio("numpy"),
                result.ratio("numpy", best=True),
                times,
            )
            for result in results
            if result.arguments["function"] in ASKED_CALL and result.has("numpy")
        ]

    def lines(self, results: list[Result], apart: dict[str, Any]) -> list[str]:
        """One table."""
        return [
            *note(),
            *comparison(
                results,
                PEERS,
                what="call",
                number=lambda result, name: seconds(result.time(name)),
                groups=(("better peer", PEERS),),
            ),
        ]


FACTORISATIONS: tuple[Section, ...] = (Factorisations(), MatrixBatches(), MatrixCalls())
