"""A pytest plug-in, for a process of its own, that puts an engine's methods in the place of numpy's functions.

The names to replace stand in ``TREADLE_REPLACE``, the named differences as JSON in ``TREADLE_DIFFERENCES``: a test whose
id ends with a key is expected to fail, and one that passes all the same is an error, so the list cannot grow stale.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import treadle as td

if importlib.util.find_spec("hypothesis") is None:
    # Some of numpy's modules import it for tests that are not run here.
    for _name in ("hypothesis", "hypothesis.extra", "hypothesis.extra.numpy", "hypothesis.strategies"):
        sys.modules[_name] = MagicMock(name=_name)

ENGINE = td.CpuEngine(threads=2)
#: Dtypes that treadle takes; the rest of numpy's letters are long double and object.
LETTERS = "?bhilBHILefdFD"


def _einsum(*arguments: Any, **options: Any) -> Any:
    if not arguments:
        # Python's own TypeError for a missing argument; numpy raises ValueError.
        raise ValueError("no subscripts")
    if "dtype" in options:
        # "An object array, summed as the data type": treadle takes no object array, so the caller converts.
        arguments = tuple(
            a.astype(options["dtype"]) if isinstance(a, np.ndarray) and a.dtype == object else a for a in arguments
        )
    return ENGINE.einsum(*arguments, **options)


def _einsum_path(*arguments: Any, **options: Any) -> Any:
    if not arguments:
        raise ValueError("no subscripts")
    return ENGINE.einsum_path(*arguments, **options)


_OURS = {"einsum": _einsum, "einsum_path": _einsum_path, "linalg.multi_dot": ENGINE.multi_dot}


def _single(almost_equal: Any) -> Any:
    """One digit less of single precision: numpy computes it in double, and ours is single throughout."""

    def call(a: Any, b: Any, single_decimal: int = 6, double_decimal: int = 12, **options: Any) -> None:
        almost_equal(a, b, single_decimal=single_decimal - 1, double_decimal=double_decimal, **options)

    return call


def pytest_configure() -> None:
    """Replace before any test module is imported: some take the function as a default argument or class attribute."""
    for name in os.environ["TREADLE_REPLACE"].split(","):
        holder, _, last = name.rpartition(".")
        target = np.linalg if holder == "linalg" else np
        ours = _OURS.get(name) or getattr(ENGINE.linalg if holder == "linalg" else ENGINE, last)
        setattr(target, last, ours)
        if holder == "linalg":
            setattr(np.linalg._linalg, last, ours)
    for kind, letters in np.typecodes.items():
        np.typecodes[kind] = "".join(letter for letter in letters if letter in LETTERS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the named differences, and narrow lists of dtypes to those that treadle takes."""
    differences: dict[str, str] = json.loads(os.environ["TREADLE_DIFFERENCES"])
    unused = set(differences)
    for module in {item.module for item in items if isinstance(item, pytest.Function)}:
        if module.__name__.endswith("linalg.tests.test_linalg"):
            module.assert_almost_equal = _single(module.assert_almost_equal)
    for item in items:
        cls = getattr(item, "cls", None)
        if cls is not None and isinstance(getattr(cls, "types", None), str):
            cls.types = "".join(letter for letter in cls.types if letter in LETTERS)
        for key, reason in differences.items():
            if item.nodeid.endswith(key):
                unused.discard(key)
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    if unused:
        raise pytest.UsageError(f"named differences that match no test: {sorted(unused)}")


def pytest_sessionfinish() -> None:
    """Whatever numpy's tests did, the engine is open."""
    assert ENGINE.state == "open"
    ENGINE.close()
