"""Numbers and tables as the page shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from result import OURS, Result


def seconds(value: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.0f} ns"


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}" if value < 10 else f"{value:.3g}"


def percent(value: float) -> str:
    """A fraction."""
    return f"{100 * value:.0f} %"


def giga(value: float) -> str:
    """A rate in units of 1e9."""
    return f"{value / 1e9:.3g}"


def mebibytes(value: float) -> str:
    """Memory."""
    return f"{value / 2**20:.1f} MiB"


def pair(median: str, best: str) -> str:
    """A median and a best round."""
    return f"{median} / {best}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> list[str]:
    """A table whose first columns are words and whose others are numbers."""
    rule = ["---" if column < words else "---:" for column in range(len(head))]
    return [f"| {' | '.join(row)} |" for row in (head, rule, *rows)] + [""]


def present(results: Sequence[Result], names: Iterable[str]) -> list[str]:
    """Those of the contenders that took part in anything."""
    return [name for name in names if any(result.has(name) for result in results)]


def against(result: Result, peers: Sequence[str]) -> tuple[str, str]:
    """The fastest of some peers and the ratio to it, by medians and by best rounds."""
    fastest, at_best = result.fastest(peers), result.fastest(peers, best=True)
    if fastest is None or at_best is None:
        return "", ""
    return fastest, pair(times(result.ratio(fastest)), times(result.ratio(at_best, best=True)))


def fraction(result: Result, limit: str) -> str:
    """How near a result comes to a limit, by medians and by best rounds."""
    if not result.has(limit):
        return ""
    return pair(percent(result.ratio(limit)), percent(result.ratio(limit, best=True)))


def comparison(
    results: Sequence[Result],
    peers: Sequence[str],
    limit: str | None = None,
    *,
    what: str = "",
    number: Callable[[Result, str], str] = lambda result, name: giga(result.rate(name)),
    groups: Sequence[tuple[str, Sequence[str]]] = (),
) -> list[str]:
    """A number for everybody, the fraction of a limit, and the ratio to the fastest of each group of peers.

    A group of one is a column, others are two: who was the fastest, and the ratio.
    """
    peers = present(results, peers)
    groups = groups or (("fastest peer", peers),)
    head = [what, OURS, *peers, *([f"of {limit}"] if limit is not None else [])]
    for name, group in groups:
        head += [f"over {name}"] if len(group) == 1 else [name, "ratio to it"]
    rows = []
    for result in results:
        row = [result.title, *(number(result, name) if result.has(name) else "" for name in (OURS, *peers))]
        if limit is not None:
            row.append(fraction(result, limit))
        for _, group in groups:
            row += against(result, group)[1 if len(group) == 1 else 0 :]
        rows.append(row)
    return table(head, rows)


def threaded(threads: int) -> str:
    """The width in words."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def by_width(results: Sequence[Result]) -> Iterator[tuple[int, list[Result]]]:
    """The results of each width that there is."""
    for threads in sorted({result.threads for result in results}):
        yield threads, [result for result in results if result.threads == threads]
