"""What this installation is and what this machine offers; what is absent comes with the reason."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import numpy as np

from treadle import _native
from treadle._native import CpuEngine
from treadle.exceptions import UnsupportedError

__all__ = ["collect", "render", "show_versions"]

_ISAS = ("scalar", "avx2", "avx512", "neon")
_OTHER_ENGINES = ("BlasEngine", "XlaEngine", "WebGpuEngine", "CudaEngine")
_NEIGHBOURS = (
    "numpy",
    "scipy",
    "opt_einsum",
    "cotengra",
    "quimb",
    "mpi4py",
    "tqdm",
    "matplotlib",
    "ml_dtypes",
    "threadpoolctl",
)


# What is imported inside the functions below costs some 25 ms, and ``import treadle`` imports this module.


def _version(distribution: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _isas() -> dict[str, Any]:
    """Which kernels this machine runs: each set is asked for."""
    available, absent = [], {}
    engine = CpuEngine(threads=1)
    selected = engine.isa
    engine.close()
    for isa in _ISAS:
        try:
            CpuEngine(threads=1, isa=isa).close()
        except UnsupportedError:
            absent[isa] = "not an instruction set of this machine"
        else:
            available.append(isa)
    return {"selected": selected, "available": available, "absent": absent}


def _size(count: int) -> str:
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:g} {unit}"
    return f"{count} bytes"


def _kernel_rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    """The caches, and a line for each kernel of the instruction set that an engine takes by itself."""
    levels = (f"{level.upper()} {_size(count)}" for level, count in found["caches"].items())
    rows = [("caches", ", ".join(levels)), ("kernels", "tile, and blocks in rows (MC), columns (NC) and terms (KC)")]
    for kernel in found["kernels"]:
        if kernel["isa"] == found["isa"]["selected"]:
            blocks = f"MC {kernel['mc']:>5}, NC {kernel['nc']:>6}, KC {kernel['kc']:>4}"
            rows.append((f"  {kernel['dtype']}", f"{kernel['mr']:>3} x {kernel['nr']}, {blocks}"))
    return rows


def _pools() -> dict[str, Any]:
    """Thread pools that other libraries hold in this process: numpy's BLAS, and OpenMP."""
    try:
        threadpoolctl = importlib.import_module("threadpoolctl")
    except ModuleNotFoundError:
        return {"found": None, "why": "threadpoolctl is not installed"}
    except ImportError as error:
        return {"found": None, "why": str(error)}
    keys = ("user_api", "internal_api", "version", "num_threads", "threading_layer", "architecture")
    return {
        "found": [{k: pool[k] for k in keys if k in pool} for pool in threadpoolctl.threadpool_info()],
        "why": None,
    }


_MPI_PROBE = """
import json
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
print(json.dumps(MPI.get_vendor()))
"""


def _mpi() -> dict[str, Any]:
    """Vendor and version of the MPI library behind mpi4py.

    Where this process has not loaded it already, another one is asked: loading it here would either initialise MPI or
    leave it uninitialised for whoever uses it next.
    """
    import json
    import subprocess

    found: dict[str, Any] = {"vendor": None, "version": None, "mpi4py": _version("mpi4py"), "why": None}
    if found["mpi4py"] is None:
        return {**found, "why": "mpi4py is not installed"}
    if "mpi4py.MPI" in sys.modules:
        vendor, version = sys.modules["mpi4py.MPI"].get_vendor()
    else:
        try:
            result = subprocess.run(
                [sys.executable, "-c", _MPI_PROBE],
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
                stdin=subprocess.DEVNULL,
            )
            vendor, version = json.loads(result.stdout)
        except subprocess.CalledProcessError as error:
            lines = error.stderr.strip().splitlines() or [f"exit status {error.returncode}"]
            return {**found, "why": lines[-1]}
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            return {**found, "why": str(error)}
    return {**found, "vendor": vendor, "version": ".".join(str(part) for part in version)}


def _engines() -> dict[str, Any]:
    import treadle as td

    engines: dict[str, Any] = {"CpuEngine": {"available": True, "why": None}}
    for name in _OTHER_ENGINES:
        present = hasattr(td, name)
        engines[name] = {"available": present, "why": None if present else "not part of this version"}
    return engines


def _present_cpus() -> int | None:
    return os.cpu_count()


def collect() -> dict[str, Any]:
    """Everything that :func:`show_versions` prints, as plain values.

    Returns
    -------
    dict
        Keys ``treadle``, ``python``, ``platform``, ``machine``, ``provider``, ``isa``, ``caches``, ``kernels``, ``cpus``,
        ``packages``, ``pools``, ``mpi`` and ``engines``. What is absent is None and has a ``why`` beside it. ``kernels``
        has the micro-kernels of every instruction set that this build holds, ``caches`` the bytes from which their
        blocks follow.

    Examples
    --------
    >>> from treadle.info import collect
    >>> collect()["provider"]
    'treadle.cpu.native'
    """
    import platform

    import treadle as td

    return {
        "treadle": td.__version__,
        "python": {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "gil": getattr(sys, "_is_gil_enabled", lambda: True)(),
        },
        "platform": platform.platform(),
        "machine": platform.machine(),
        "provider": _native.cpu_provider_id(),
        "isa": _isas(),
        "caches": _native._caches(),
        "kernels": _native._kernel_table(),
        "cpus": {"allowed": _native._allowed_cpu_count(), "present": _present_cpus()},
        "packages": {name: np.__version__ if name == "numpy" else _version(name) for name in _NEIGHBOURS},
        "pools": _pools(),
        "mpi": _mpi(),
        "engines": _engines(),
    }


def render(found: dict[str, Any]) -> str:
    """Text of what :func:`collect` found, a line a fact.

    Parameters
    ----------
    found : dict
        What :func:`collect` returned.

    Returns
    -------
    str
        Lines without a closing newline.

    Examples
    --------
    >>> from treadle.info import collect, render
    >>> render(collect()).splitlines()[0].split()[0]
    'treadle'
    """
    isa, python = found["isa"], found["python"]
    rows = [
        ("treadle", found["treadle"]),
        ("CPU provider", found["provider"]),
        ("instruction sets", f"{isa['selected']} selected of {', '.join(isa['available'])}"),
        *(("", f"{name}: {why}") for name, why in isa["absent"].items()),
        *_kernel_rows(found),
        ("CPUs", f"{found['cpus']['allowed']} allowed, {found['cpus']['present']} present"),
        (
            "python",
            f"{python['implementation']} {python['version']}{'' if python['gil'] else ', free-threaded'}",
        ),
        ("platform", found["platform"]),
    ]
    rows += [(name, version or "not installed") for name, version in found["packages"].items()]
    mpi = found["mpi"]
    rows.append(("MPI", f"{mpi['vendor']} {mpi['version']}" if mpi["vendor"] else f"absent: {mpi['why']}"))
    if found["pools"]["found"] is None:
        rows.append(("other pools", f"absent: {found['pools']['why']}"))
    else:
        for pool in found["pools"]["found"]:
            text = f"{pool['internal_api']} {pool.get('version') or ''}, {pool['num_threads']} threads"
            rows.append(("other pools", text + (f", {pool['architecture']}" if pool.get("architecture") else "")))
    rows += [(name, "available") for name, engine in found["engines"].items() if engine["available"]]
    missing = [name for name, engine in found["engines"].items() if not engine["available"]]
    if len(missing) == len(_OTHER_ENGINES):
        rows.append(("other engines", "none in this version"))
    elif missing:
        rows.append(("other engines", f"not in this version: {', '.join(missing)}"))
    return "\n".join(f"{name:<17} {text}" for name, text in rows)


def show_versions() -> None:
    """Print versions, provider, instruction sets, kernels, CPUs, other libraries' thread pools, MPI and engines.

    What ``python -m treadle info`` prints, and what a bug report should contain.

    Returns
    -------
    None
        The text goes to standard output.

    See Also
    --------
    treadle.cpu_provider_id

    Examples
    --------
    >>> import treadle as td
    >>> td.show_versions()  # doctest: +ELLIPSIS
    treadle ...
    """
    sys.stdout.write(render(collect()) + "\n")
