"""The command line: ``python -m treadle info | selftest | demo | bench``.

Data go to standard output, everything else to standard error. The exit status is 0, 1 when something failed, 2 for a
wrong option.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m treadle", description="Tools of treadle.")
    parser.add_argument("--version", action="store_true", help="print the version and stop")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    info = commands.add_parser("info", help="versions, provider, instruction sets, kernels, CPUs, MPI, engines")
    info.add_argument("--json", action="store_true", help="as JSON")
    selftest = commands.add_parser("selftest", help="known values, threads and errors, checked in place")
    selftest.add_argument("--quick", action="store_true", help="leave out the checks that take longer")
    demo = commands.add_parser("demo", help="the 2-D Ising model over lanes", add_help=False)
    demo.add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("bench", help="where the benchmarks are")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["demo"]:
        # The demo has its own options, also as docs/examples/ising_trg.py.
        from treadle.demo import main as demo

        return demo(arguments[1:], prog="python -m treadle demo")
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.version:
        import treadle as td

        sys.stdout.write(f"treadle {td.__version__}\n")
        return 0
    if options.command == "info":
        from treadle.info import collect, render

        found = collect()
        sys.stdout.write((json.dumps(found, indent=1) if options.json else render(found)) + "\n")
        return 0
    if options.command == "selftest":
        from treadle.selftest import run

        return run(quick=options.quick)
    if options.command == "bench":
        sys.stderr.write(
            "the benchmarks are in benches/ of the sources, because they compare with other packages: make bench "
            "runs them and writes docs/performance.md\n"
        )
        return 1
    parser.print_usage(sys.stderr)
    sys.stderr.write("a command is needed: info, selftest, demo or bench\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
