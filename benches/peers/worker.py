"""A process that times one case when asked: a line of JSON in, a line of JSON out.

``worker.py PEER THREADS``. Libraries are limited by the environment that ``rounds.py`` gives this process, before
they are imported; each result is compared with numpy's once, before it is timed.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

from operands import Prepared, difference

PEER, THREADS = sys.argv[1], int(sys.argv[2])
#: A timed loop is at least this long, so that the clock and the loop's start do not count.
LEAST_SECONDS = 0.04


def timed(call: Callable[[], object]) -> float:
    """Seconds a call takes, from a loop that is long enough."""
    count = 1
    while True:
        steps = range(count)
        start = time.perf_counter()
        for _ in steps:
            call()
        seconds = time.perf_counter() - start
        if seconds >= LEAST_SECONDS:
            return seconds / count
        count = max(2 * count, int(1.2 * count * LEAST_SECONDS / max(seconds, 1e-7)))


def settle(prepared: Prepared) -> Prepared:
    """Check the first result, and see whether it must be copied to be in C order."""
    result = prepared.call()
    values = prepared.as_numpy(result)
    if prepared.reference is not None:
        wrong = difference(values, prepared.reference())
        if wrong is not None:
            raise ValueError(wrong)
    if prepared.in_order is not None and not values.flags.c_contiguous:
        own, in_order = prepared.call, prepared.in_order
        prepared.call, prepared.view = lambda: in_order(own()), own
    return prepared


def answer(prepared: Prepared) -> dict[str, Any]:
    """Time a call that is ready."""
    if prepared.measured is not None:
        return {"seconds": prepared.measured()}
    if THREADS > 1:
        prepared.call()  # a team that slept is spread over the cores only after its first millisecond
    found = {"seconds": timed(prepared.call)}
    if prepared.view is not None:
        found["view_seconds"] = timed(prepared.view)
    return found


def main() -> None:
    """Answer until the input ends."""
    module = importlib.import_module(f"contenders.{PEER}")
    known: dict[str, Callable[[dict[str, Any]], Prepared]] = module.works(THREADS)
    sys.stdout.write('{"ready": true}\n')
    sys.stdout.flush()
    prepared: tuple[str, Prepared] | None = None
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if question["work"] == "about":
                found = module.about(THREADS)
            elif question["work"] not in known:
                found = {"error": "does not do this"}
            else:
                if prepared is None or prepared[0] != line:
                    prepared = None  # its arrays go before the next ones come
                    prepared = (line, settle(known[question["work"]](question["arguments"])))
                found = answer(prepared[1])
        except Exception as error:
            text = str(error) if isinstance(error, NotImplementedError) else f"{type(error).__name__}: {error}"
            found = {"error": text.splitlines()[0][:200]}
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
