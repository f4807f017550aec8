"""The example of docs/howto/dask-ray.md, on a local cluster."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="dask.distributed is not installed")
@pytest.mark.timeout(120)
def test_an_engine_for_each_worker_of_a_dask_cluster(run_python, repository: Path, tmp_path) -> None:
    done = run_python(repository / "docs" / "examples" / "dask_lanes.py", cwd=tmp_path, timeout=110)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "40 spectra from 5 tasks, 40 equal to those of this process bit by bit"
