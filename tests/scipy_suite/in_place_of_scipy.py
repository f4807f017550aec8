"""A pytest plug-in, for a process of its own, that puts functions of ``engine.linalg`` in the place of scipy.linalg's.

The names to replace stand in ``TREADLE_REPLACE``, the named differences as JSON in ``TREADLE_DIFFERENCES``: a test whose
id ends with a key is expected to fail, and one that passes all the same is an error, so the list cannot grow stale.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest
import scipy.linalg

import treadle as td

if importlib.util.find_spec("hypothesis") is None:
    for _name in ("hypothesis", "hypothesis.extra", "hypothesis.extra.numpy", "hypothesis.strategies"):
        sys.modules[_name] = MagicMock(name=_name)

ENGINE = td.CpuEngine(threads=2)
#: Arguments of scipy that choose how, not what: there is no way to overwrite, and no driver.
HOW = ("overwrite_a", "overwrite_b", "lapack_driver")


def _cholesky(a: Any, lower: bool = False, **options: Any) -> Any:
    return ENGINE.linalg.cholesky(a, upper=not lower, **options)


_OURS: dict[str, Callable[..., Any]] = {"cholesky": _cholesky}


def replacement(name: str) -> Callable[..., Any]:
    """Ours under scipy's signature."""
    ours = _OURS.get(name) or getattr(ENGINE.linalg, name)

    @functools.wraps(getattr(scipy.linalg, name))
    def call(*arguments: Any, **options: Any) -> Any:
        return ours(*arguments, **{key: value for key, value in options.items() if key not in HOW})

    return call


def pytest_configure(config: pytest.Config) -> None:
    """Replace before any test module is imported."""
    for mark in ("skip_xp_backends", "xslow", "thread_unsafe", "fail_slow", "parallel_threads", "array_api_backends"):
        config.addinivalue_line("markers", f"{mark}: scipy's")
    for name in os.environ["TREADLE_REPLACE"].split(","):
        setattr(scipy.linalg, name, replacement(name))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the named differences."""
    differences: dict[str, str] = json.loads(os.environ["TREADLE_DIFFERENCES"])
    unused = set(differences)
    for item in items:
        for key, reason in differences.items():
            if item.nodeid.endswith(key) or item.nodeid.partition("[")[0].endswith(key):
                unused.discard(key)
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if unused:
        raise pytest.UsageError(f"named differences that match no test: {sorted(unused)}")


def pytest_sessionfinish() -> None:
    """Whatever scipy's tests did, the engine is open."""
    assert ENGINE.state == "open"
    ENGINE.close()
