"""What every test may use: the package's own plug-in, and helpers to run Python in a clean process."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# An installed treadle registers its plug-in by an entry point; a source tree on the path does not.
_installed = any(point.name == "treadle" for point in importlib.metadata.entry_points(group="pytest11"))
pytest_plugins = ["pytester"] if _installed else ["pytester", "treadle.pytest_plugin"]


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a new interpreter with arguments; output is captured, a hang ends after ``timeout`` seconds."""

    def run(
        *arguments: str | Path, cwd: Path | None = None, timeout: float = 120, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            timeout=timeout,
            env={**os.environ, **(env or {})},
        )

    return run
