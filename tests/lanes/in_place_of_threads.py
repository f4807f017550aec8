"""A pytest plug-in, for a process of its own, that puts lanes in the place of ``ThreadPoolExecutor``.

CPython's own tests of executors then test :class:`treadle.LaneExecutor`, also in the interpreters that they start. The named
differences stand as JSON in ``TREADLE_DIFFERENCES``: a test whose id ends with a key is expected to fail, and one that passes
all the same is an error, so the list cannot grow stale.
"""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread
import itertools
import json
import os
import warnings
from pathlib import Path
from typing import Any

import treadle as td

HERE = Path(__file__).resolve()
#: What a new interpreter begins with; it sees no PYTHONPATH.
BEFORE = f"import sys; sys.path[:0] = {[str(HERE.parent), str(Path(td.__file__).parents[1])]!r}; import {HERE.stem}\n"


class LaneThread:
    """What the tests ask of a worker's thread."""

    def __init__(self, executor: td.LaneExecutor, name: str) -> None:
        self.executor, self.name = executor._service, name

    def join(self) -> None:
        """Wait for its end."""
        self.executor.join()


class LanePool(td.LaneExecutor):
    """Lanes of its own, made from ThreadPoolExecutor's arguments."""

    def __init__(
        self,
        max_workers: int | None = None,
        thread_name_prefix: str = "",
        initializer: Any = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        if max_workers is None:
            cpus = getattr(os, "process_cpu_count", os.cpu_count)() or 1
            max_workers = min(32, cpus + 4)
        if max_workers <= 0:
            raise ValueError("max_workers must be greater than 0")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", td.OversubscriptionWarning)
            lanes = td.Lanes([td.CpuEngine.serial() for _ in range(max_workers)])
        super().__init__(lanes, initializer=initializer, initargs=initargs)
        self._threads = {LaneThread(self, f"lane-{index}") for index in range(max_workers)}


LanePool.__name__ = "ThreadPoolExecutor"
concurrent.futures.thread.ThreadPoolExecutor = LanePool
concurrent.futures.ThreadPoolExecutor = LanePool


def pytest_configure() -> None:
    """Before any test module is imported: new interpreters are told to do the same."""
    from test.support import script_helper

    original = script_helper.assert_python_ok

    def assert_python_ok(*arguments: str, **options: str) -> Any:
        code = arguments[-1]
        # The text may stand within a block of its own.
        return original(*arguments[:-1], BEFORE + code, **options)

    script_helper.assert_python_ok = assert_python_ok


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Mark the named differences."""
    import pytest

    differences, used = json.loads(os.environ["TREADLE_DIFFERENCES"]), set()
    for item, (name, reason) in itertools.product(items, differences.items()):
        if item.nodeid.endswith(name):
            used.add(name)
            # One that waits for what will not come is not run at all.
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True, run=not reason.startswith("waits")))
    if unused := set(differences) - used:
        raise pytest.UsageError(f"named differences that match no test: {sorted(unused)}")
