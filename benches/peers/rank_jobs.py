"""What is measured across MPI ranks: ``mpiexec -n N python -m mpi4py rank_jobs.py WHAT`` prints JSON on rank 0."""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from operands import chain_inputs

SMALL, LARGE, LARGE_BYTES, WAIT = 4000, 16, 8 << 20, 3.0


def same(item: Any, engine: Any = None) -> Any:
    """Nothing but the way there and back."""
    del engine
    return item


def timed(act: Callable[[], Any], rounds: int) -> float:
    """The median of some calls, after one that warms."""
    found = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        act()
        found.append(time.perf_counter() - start)
    return statistics.median(found[1:])


def in_ranks(what: str) -> dict[str, float]:
    """What this library does, on every rank."""
    import treadle as td

    lanes = td.Lanes([td.CpuEngine.serial()])

    def chain(item: tuple[Any, Any, Any, Any], own: Any) -> Any:
        a, b, c, d = item
        return own.linalg.svd(own.matmul(own.matmul(own.matmul(a, b), c), d))[1]

    if what == "small":
        return {
            f"small {batch}": timed(partial(td.pmap_lanes, same, range(SMALL), lanes, batch_size=batch), 5) / SMALL
            for batch in (1, "auto")
        }
    if what == "large":
        items = [np.ones(LARGE_BYTES // 8) for _ in range(LARGE)]
        return {
            f"large{', prefetch' * ahead}": 2
            * LARGE
            * LARGE_BYTES
            / timed(partial(td.pmap_lanes, same, items, lanes, root_computes=False, prefetch=ahead), 3)
            for ahead in (False, True)
        }
    if what == "chains":
        items = chain_inputs(64, 256)
        return {"chains ranks": timed(lambda: td.pmap_lanes(chain, items, lanes), 2)}
    if what == "lanes":
        items = chain_inputs(64, 256)
        two = td.Lanes([td.CpuEngine.serial() for _ in range(2)])
        return {"chains lanes": timed(lambda: td.map_in_lanes(chain, items, two), 2)}
    start = time.process_time()
    td.pmap_lanes(lambda item, engine: time.sleep(item), [WAIT], lanes, root_computes=False)
    return {"waiting": (time.process_time() - start) / WAIT}


def in_futures() -> dict[str, float]:
    """What mpi4py.futures does, on its first rank."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor() as executor:
        return {"small futures": timed(lambda: list(executor.map(same, range(SMALL // 4))), 3) / (SMALL // 4)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # more threads than CPUs, which is meant
    if sys.argv[1] == "futures":
        sys.stdout.write(json.dumps(in_futures()) + "\n")
    else:
        found = in_ranks(sys.argv[1])
        from mpi4py import MPI

        if MPI.COMM_WORLD.rank == 0:
            sys.stdout.write(json.dumps(found) + "\n")
