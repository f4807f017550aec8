"""Scripts under ``mpiexec``, each with a hard end for its whole process group."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PRELUDE = """
import json, sys, threading, time, warnings
warnings.simplefilter("ignore")
import treadle as td
from mpi4py import MPI

rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size

def make_lanes(count=1):
    return td.Lanes([td.CpuEngine.serial() for _ in range(count)])

def say(**what):
    sys.stdout.write(json.dumps({"rank": rank, **what}) + "\\n")
    sys.stdout.flush()

def outcome(*args, **options):
    \"\"\"What every rank says of one call.\"\"\"
    try:
        return {"value": td.pmap_lanes(*args, **options)}
    except BaseException as error:
        return {
            "type": type(error).__name__,
            "text": str(error),
            "kind": getattr(error, "kind", None),
            "index": getattr(error, "index", None),
            "on": getattr(error, "rank", None),
            "cause": type(error.__cause__).__name__,
        }
"""


@dataclass
class Job:
    """A job that has ended."""

    status: int
    out: str
    err: str

    def said(self, size: int) -> list[dict]:
        """What each rank said last, in the order of the ranks."""
        import json

        assert self.status == 0, self.err + self.out
        rows = {}
        # Lines of two ranks may be glued together.
        for line in self.out.replace("}{", "}\n{").splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                rows[row["rank"]] = row
        assert sorted(rows) == list(range(size)), self.out
        return [rows[rank] for rank in range(size)]


def _mpiexec() -> str | None:
    beside = Path(sys.executable).parent / "mpiexec"
    return str(beside) if beside.exists() else shutil.which("mpiexec")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/mpi" in item.path.as_posix():
            item.add_marker(pytest.mark.mpi)


@pytest.fixture(scope="session")
def mpi_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Job]:
    """Run a script on that many ranks; a hang ends with its whole process group."""
    pytest.importorskip("mpi4py")
    launcher = _mpiexec()
    if launcher is None:
        pytest.skip("mpiexec is not installed")
    folder = tmp_path_factory.mktemp("mpi")

    def run(size: int, script: str, *, timeout: float = 60, env: dict[str, str] | None = None) -> Job:
        path = folder / "script.py"
        path.write_text(PRELUDE + textwrap.dedent(script))
        job = subprocess.Popen(
            [launcher, "-n", str(size), sys.executable, "-m", "mpi4py", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
        try:
            out, err = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(job.pid, signal.SIGKILL)
            out, err = job.communicate()
            pytest.fail(f"no end after {timeout} s\n{out}\n{err}")
        finally:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        return Job(job.returncode, out, err)

    return run
