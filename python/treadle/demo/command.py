"""Options of the demo, and its exit status: 0, 1 when the computation failed, 2 for a wrong option or file."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import treadle as td
from treadle.demo.report import as_json, as_table, draw, picture_format
from treadle.demo.sweep import run_sweep
from treadle.demo.temperatures import default_temperatures, read_temperatures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from treadle.demo.sweep import Sweep

__all__ = ["main"]

_DEFAULT_PICTURE = Path("ising_trg.png")


def _at_least(minimum: int) -> Any:
    def count(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            msg = f"{text!r} is not a whole number"
            raise argparse.ArgumentTypeError(msg) from None
        if value < minimum:
            msg = f"{value} is below {minimum}"
            raise argparse.ArgumentTypeError(msg)
        return value

    return count


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Free energy, energy and specific heat of the 2-D Ising model by tensor renormalisation, "
        "over lanes, beside Onsager's exact solution.",
        epilog="Across ranks: mpiexec -n 2 python -m mpi4py -m treadle demo",
    )
    parser.add_argument(
        "--temperatures",
        metavar="FILE",
        type=Path,
        help="one temperature per line (J / k_B), # starts a comment",
    )
    parser.add_argument("--bond-dimension", metavar="N", type=_at_least(2), default=12, help="default: 12")
    parser.add_argument("--steps", metavar="N", type=_at_least(1), default=24, help="halvings: 2^N spins (default: 24)")
    parser.add_argument(
        "--lanes",
        metavar="N",
        type=_at_least(1),
        help="lanes of this process (default: as many as CPUs allow)",
    )
    parser.add_argument(
        "--threads",
        metavar="N",
        type=_at_least(1),
        default=1,
        help="threads of each lane's engine (default: 1)",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"picture (default: {_DEFAULT_PICTURE})")
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    parser.add_argument("--json", metavar="FILE", help="write the numbers as JSON; - is standard output")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress bar and no remarks")
    return parser


def _communicator() -> Any:
    """Return the world of ``mpiexec ... python -m mpi4py``, or None: nothing here imports mpi4py of its own accord."""
    if "mpi4py" not in sys.modules:
        return None
    from mpi4py import MPI

    return MPI.COMM_WORLD if MPI.Is_initialized() and MPI.COMM_WORLD.Get_size() > 1 else None


def _lanes_by_default(threads: int, comm: Any) -> int:
    """As many lanes as the CPUs that this process may use allow, shared fairly by the ranks of one machine."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    ranks = 1
    if comm is not None:
        from mpi4py import MPI

        node = comm.Split_type(MPI.COMM_TYPE_SHARED)
        ranks = node.Get_size()
        node.Free()
    return max(1, cpus // (threads * ranks))


def _check_writable(option: str, path: Path) -> None:
    """Refuse, before anything is computed, a path that nothing can be written to."""
    if not path.absolute().parent.is_dir():
        msg = f"{option}: {path.parent} is no folder"
        raise ValueError(msg)
    if path.is_dir():
        msg = f"{option}: {path} is a folder"
        raise ValueError(msg)


def _picture(options: argparse.Namespace) -> Path | None:
    """Path of the picture to draw, or None; ValueError where one was asked for that cannot be drawn."""
    available = importlib.util.find_spec("matplotlib") is not None
    if options.no_plot:
        if options.output is not None:
            msg = "--output and --no-plot exclude each other"
            raise ValueError(msg)
        return None
    if options.output is None:
        return _DEFAULT_PICTURE if available else None
    if not available:
        msg = "--output needs matplotlib, which is not installed: pip install matplotlib"
        raise ValueError(msg)
    _check_writable("--output", options.output)
    try:
        picture_format(options.output)
    except ValueError as error:
        msg = f"--output: {error}"
        raise ValueError(msg) from None
    return Path(options.output)


def _write(sweep: Sweep, options: argparse.Namespace, picture: Path | None) -> None:
    if options.json is not None:
        text = json.dumps(as_json(sweep), indent=1)
        if options.json == "-":
            sys.stdout.write(text + "\n")
        else:
            Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.json != "-":
        sys.stdout.write(as_table(sweep) + "\n")
    if picture is not None:
        draw(sweep, picture)
        if not options.quiet:
            sys.stderr.write(f"picture: {picture}\n")
    elif not options.no_plot and not options.quiet:
        sys.stderr.write("no picture: matplotlib is not installed (pip install matplotlib)\n")


def main(argv: Sequence[str] | None = None, *, prog: str | None = None) -> int:
    """Run the demo with command-line arguments and return its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments; those of the process by default.
    prog : str, optional
        Name of the program in the usage text.

    Returns
    -------
    int
        0, 1 when the computation failed, 2 for a wrong option or a wrong file.

    Examples
    --------
    >>> from treadle.demo import main
    >>> main(["--bond-dimension", "4", "--steps", "6", "--lanes", "1", "--no-plot", "-q"])  # doctest: +ELLIPSIS
    2-D Ising model, square lattice, tensor renormalisation group
    bond dimension 4, 2^6 spins, 24 temperatures, 1 rank...
    """
    parser = _parser(prog)
    options = parser.parse_args(argv)
    comm = _communicator()
    root = comm is None or comm.Get_rank() == 0
    temperatures: tuple[float, ...] = ()
    picture: Path | None = None
    problem = None
    try:
        temperatures = (
            default_temperatures() if options.temperatures is None else read_temperatures(options.temperatures)
        )
        picture = _picture(options)
        if options.json not in (None, "-"):
            _check_writable("--json", Path(options.json))
    except ValueError as error:
        problem = str(error)
    if comm is not None:
        # All ranks stop when one cannot go on, and not before the root has said why.
        problem = next((text for text in comm.allgather(problem) if text is not None), None)
    if problem is not None:
        if root:
            sys.stderr.write(f"{parser.prog}: error: {problem}\n")
            sys.stderr.flush()
        if comm is not None:
            comm.Barrier()
        return 2
    count = options.lanes or _lanes_by_default(options.threads, comm)
    try:
        with contextlib.ExitStack() as stack:
            engines = [stack.enter_context(td.CpuEngine(threads=options.threads)) for _ in range(count)]
            lanes = stack.enter_context(td.Lanes(engines))
            sweep = run_sweep(
                temperatures,
                lanes,
                bond_dimension=options.bond_dimension,
                steps=options.steps,
                comm=comm,
                progress=not options.quiet and importlib.util.find_spec("tqdm") is not None,
            )
        if sweep is not None:
            _write(sweep, options, picture)
    except (td.TreadleError, OSError) as error:
        if root:
            sys.stderr.write(f"{parser.prog}: error: {error}\n")
        return 1
    except KeyboardInterrupt:
        if root:
            sys.stderr.write(f"{parser.prog}: interrupted\n")
        return 130
    return 0
