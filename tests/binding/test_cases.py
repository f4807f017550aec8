"""C-PYB-06: the extension is what its name says, and importing it changes nothing about the interpreter."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

import treadle as td

IMPORT = """
import sys
import threading

enabled = getattr(sys, "_is_gil_enabled", lambda: True)
before = enabled()
threads = threading.active_count()
import treadle
assert enabled() == before
assert threading.active_count() == threads
assert "mpi4py" not in sys.modules
"""


def test_pyb_06_the_import_leaves_the_interpreter_as_it_is(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_python("-c", IMPORT, env={"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr


def test_pyb_06_the_extension_is_named_for_the_interface_that_it_was_built_for() -> None:
    from treadle import _native

    name = Path(str(_native.__file__)).name
    is_free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    assert name.startswith("_native.")
    assert ("abi3" in name) == (not is_free_threaded) or name.endswith(".pyd")
    assert td.__version__ == _native.__version__
