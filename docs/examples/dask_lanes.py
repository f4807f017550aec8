"""An engine for each worker of a dask cluster, built there from a specification that travelled with the task.

`dask.distributed` hands out the work. Each worker process has lanes over engines of its own; a task is a batch of items, which
the worker maps over its lanes. Nothing of an engine is pickled, only its `EngineSpec`.
"""

import numpy as np
from dask.distributed import Client, LocalCluster, WorkerPlugin, get_worker

import treadle as td


class Lanes(WorkerPlugin):
    """Lanes of a worker, made when it starts and closed when it ends."""

    name = "treadle-lanes"

    def __init__(self, spec, count):
        self.spec, self.count = spec, count

    def setup(self, worker):
        worker.treadle_lanes = td.Lanes([self.spec.build() for _ in range(self.count)])

    def teardown(self, worker):
        worker.treadle_lanes.close()
        for engine in worker.treadle_lanes.engines:
            engine.close()


def spectrum(seed, engine):
    matrix = np.random.default_rng(seed).standard_normal((24, 24))
    return engine.linalg.svd(engine.matmul(matrix, matrix.T)).S[:3]


def batch(seeds):
    """A task: it has the worker's lanes to itself, since a worker has one thread."""
    return td.map_in_lanes(spectrum, seeds, get_worker().treadle_lanes)


def main():
    with td.CpuEngine.serial() as engine:
        spec = engine.spec()
    seeds = list(range(40))
    batches = [seeds[first : first + 8] for first in range(0, len(seeds), 8)]
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, Client(cluster) as client:
        client.register_plugin(Lanes(spec, count=1))
        found = [row for part in client.gather(client.map(batch, batches)) for row in part]
    with td.Lanes([spec.build()]) as lanes:
        here = td.map_in_lanes(spectrum, seeds, lanes)
    same = sum(np.array_equal(a, b) for a, b in zip(found, here, strict=True))
    print(f"{len(found)} spectra from {len(batches)} tasks, {same} equal to those of this process bit by bit")


if __name__ == "__main__":
    main()
