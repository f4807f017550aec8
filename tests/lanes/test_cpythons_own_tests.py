"""CPython's own tests of executors, run against ``LaneExecutor`` where the interpreter came with them.

Many distributions leave them out; test_executor.py asks the same of it in its own words, everywhere.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treadle as td

HERE = Path(__file__).resolve().parent

#: Where LaneExecutor differs, and why.
DIFFERENCES = {
    "::test_idle_thread_reuse": "all lanes start at once; none is left out because another is idle",
    "::test_threads_terminate": "waits for semaphores: it expects three threads after three calls, and there are five lanes",
    "::test_thread_names_assigned": "a lane is named lane-0, lane-1 and so on; there is no thread_name_prefix",
    "::test_thread_names_default": "a lane is named lane-0, lane-1 and so on",
}
FILES = ("test_thread_pool.py", "test_init.py", "test_shutdown.py", "test_wait.py", "test_as_completed.py")


def installed() -> Path | None:
    try:
        found = importlib.util.find_spec("test.test_concurrent_futures")
    except ModuleNotFoundError:
        return None
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0])


@pytest.mark.skipif(installed() is None, reason="this interpreter came without test.test_concurrent_futures")
@pytest.mark.timeout(170)
def test_they_pass_on_lanes() -> None:
    folder = installed()
    assert folder is not None
    options = [
        "-p",
        "in_place_of_threads",
        "-p",
        "no:cacheprovider",
        "-q",
        "--timeout=60",
        "-W",
        "ignore",
        "-k",
        "ThreadPool",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(str(folder / name) for name in FILES)],
        capture_output=True,
        text=True,
        check=False,
        timeout=160,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(HERE), str(Path(td.__file__).parents[1])]),
            "TREADLE_DIFFERENCES": json.dumps(DIFFERENCES),
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed
    assert int(passed[1]) >= 40, done.stdout
