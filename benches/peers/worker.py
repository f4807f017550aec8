"""A process that times one case when asked: a line of JSON in, a line of JSON out.

``worker.py PEER THREADS``. BLAS is limited by the environment that ``run.py`` gives this process, before numpy is
imported.
"""

from __future__ import annotations

import concurrent.futures
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

PEER, THREADS = sys.argv[1], int(sys.argv[2])
#: A timed loop is at least this long, so that the clock and the loop's start do not count.
LEAST_SECONDS = 0.04


SETTLE_SECONDS = 0.1


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


def pair(n: int, dtype: str) -> tuple[Any, Any]:
    """Two square matrices."""
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, n)).astype(dtype), rng.standard_normal((n, n)).astype(dtype)


def chain_inputs(chains: int, n: int) -> list[tuple[Any, Any, Any, Any]]:
    """Four matrices for each chain."""
    rng = np.random.default_rng(0)
    scale = n**-0.5
    return [tuple(scale * rng.standard_normal((n, n)) for _ in range(4)) for _ in range(chains)]


def works() -> dict[str, Callable[[dict[str, Any]], Callable[[], object]]]:
    """What this peer can do: a name, and a function that prepares a call."""
    return treadle_works() if PEER == "treadle" else numpy_works()


def numpy_works() -> dict[str, Callable[[dict[str, Any]], Callable[[], object]]]:
    """Numpy and Python's own executor."""

    def matmul(arguments: dict[str, Any]) -> Callable[[], object]:
        a, b = pair(arguments["n"], arguments["dtype"])
        return lambda: a @ b

    def einsum(arguments: dict[str, Any]) -> Callable[[], object]:
        a, b = pair(arguments["n"], arguments["dtype"])
        function = np.einsum
        return lambda: function("ij,jk->ik", a, b)

    def chain(item: tuple[Any, Any, Any, Any]) -> Any:
        a, b, c, d = item
        return np.linalg.svd(a @ b @ c @ d)[1]

    def chains(arguments: dict[str, Any]) -> Callable[[], object]:
        items = chain_inputs(arguments["chains"], arguments["n"])
        executor = concurrent.futures.ThreadPoolExecutor(2)
        return lambda: list(executor.map(chain, items))

    def nothing(arguments: dict[str, Any]) -> Callable[[], object]:
        items = list(range(arguments["items"]))
        executor = concurrent.futures.ThreadPoolExecutor(2)
        return lambda: list(executor.map(lambda item: item, items))

    return {"matmul": matmul, "einsum": einsum, "chains-executor": chains, "nothing-executor": nothing}


def treadle_works() -> dict[str, Callable[[dict[str, Any]], Callable[[], object]]]:
    """Engines and lanes."""
    import treadle as td

    engine = td.CpuEngine(threads=THREADS)

    def matmul(arguments: dict[str, Any]) -> Callable[[], object]:
        a, b = pair(arguments["n"], arguments["dtype"])
        method = engine.matmul
        return lambda: method(a, b)

    def einsum(arguments: dict[str, Any]) -> Callable[[], object]:
        a, b = pair(arguments["n"], arguments["dtype"])
        method = engine.einsum
        return lambda: method("ij,jk->ik", a, b)

    def chain(item: tuple[Any, Any, Any, Any], own: Any) -> Any:
        a, b, c, d = item
        return own.linalg.svd(own.matmul(own.matmul(own.matmul(a, b), c), d))[1]

    def chains(count: int, arguments: dict[str, Any]) -> Callable[[], object]:
        items = chain_inputs(arguments["chains"], arguments["n"])
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(count)])
        return lambda: td.map_in_lanes(chain, items, lanes)

    def nothing(arguments: dict[str, Any]) -> Callable[[], object]:
        items = list(range(arguments["items"]))
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(2)])
        return lambda: td.map_in_lanes(lambda item, engine: item, items, lanes)

    return {
        "matmul": matmul,
        "einsum": einsum,
        "chains-lanes": lambda arguments: chains(arguments["lanes"], arguments),
        "chains-one-lane": lambda arguments: chains(1, arguments),
        "nothing-lanes": nothing,
    }


def about() -> dict[str, Any]:
    """What this process runs on."""
    import threadpoolctl

    pools = threadpoolctl.threadpool_info()
    found: dict[str, Any] = {"numpy": np.__version__, "python": sys.version.split()[0]}
    for pool in pools:
        if pool["user_api"] == "blas":
            kernel, threads = pool.get("architecture", "unknown kernel"), pool["num_threads"]
            found["blas"] = f"{pool['internal_api']} {pool['version']}, {kernel}, {threads} threads"
    if PEER == "treadle":
        import treadle as td

        with td.CpuEngine(threads=1) as engine:
            found["treadle"] = f"{td.__version__}, {td.cpu_provider_id()}, {engine.isa}"
    return found


def main() -> None:
    """Answer until the input ends."""
    known = works()
    prepared: tuple[str, Callable[[], object]] | None = None
    for line in sys.stdin:
        question = json.loads(line)
        if question["work"] == "about":
            answer: Any = about()
        else:
            key = json.dumps(question, sort_keys=True)
            if prepared is None or prepared[0] != key:
                prepared = (key, known[question["work"]](question["arguments"]))
                prepared[1]()  # plans, buffers and threads are warm
            if THREADS > 1:
                # A BLAS's workers spin for some 30 ms after their last product, on the core that the other process
                # needs; and a team that slept is spread over the cores only after its first millisecond.
                time.sleep(SETTLE_SECONDS)
                prepared[1]()
            answer = timed(prepared[1])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
