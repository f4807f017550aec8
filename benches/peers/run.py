"""Compare treadle with its peers on this machine and write ``docs/performance.md``.

python benches/peers/run.py            # everything, some minutes
python benches/peers/run.py --quick    # fewer rounds and smaller matrices, printed
python benches/peers/run.py --only svd # sections and titles that contain the word
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from cases import Case, Runner, cases
from report import page

ROOT = Path(__file__).resolve().parents[2]
#: A machine may set these to work around old libraries; a current numpy is measured as it comes.
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
IMPORT_PROBE = (
    "import time; a = time.perf_counter(); import numpy; b = time.perf_counter(); import treadle; "
    "print(1e3 * (b - a), 1e3 * (time.perf_counter() - b))"
)


def environment(threads: int) -> dict[str, str]:
    """Environment of a child: BLAS and OpenMP at so many threads, before anything is imported."""
    kept = {key: value for key, value in os.environ.items() if key not in DROPPED}
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return {**kept, **dict.fromkeys(limits, str(threads))}


class Workers:
    """The processes, started when first asked, ended together."""

    def __init__(self) -> None:
        self.running: dict[Runner, subprocess.Popen[str]] = {}

    def ask(self, runner: Runner, work: str, arguments: dict[str, Any] | None = None) -> Any:
        """Ask one process for one timed loop."""
        if runner not in self.running:
            self.running[runner] = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("worker.py")), runner.peer, str(runner.threads)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment(runner.threads),
            )
        process = self.running[runner]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"work": work, "arguments": arguments or {}}) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{runner.peer} with {runner.threads} threads ended in {work} {arguments}")
        return json.loads(line)

    def close(self) -> None:
        """End every process and wait for it."""
        for process in self.running.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self.running.values():
            process.wait(30)


def measure(case: Case, workers: Workers, rounds: int) -> list[dict[str, Any]]:
    """Interleaved rounds of one case; a ratio is the median of the rounds' ratios."""
    ours: list[float] = []
    theirs: list[list[float]] = [[] for _ in case.theirs]
    for number in range(rounds + 1):
        mine = workers.ask(case.ours, case.work, case.arguments)
        others = [workers.ask(runner, work, case.arguments) for _, runner, work, _ in case.theirs]
        if number > 0:  # the first round warms caches and clocks
            ours.append(mine)
            for times, other in zip(theirs, others, strict=True):
                times.append(other)
    return [
        {
            "section": case.section,
            "title": case.title,
            "against": name,
            "ours": statistics.median(ours),
            "theirs": statistics.median(times),
            "ratio": statistics.median(other / mine for mine, other in zip(ours, times, strict=True)),
            "asked": asked,
            "rounds": rounds,
        }
        for (name, _, _, asked), times in zip(case.theirs, theirs, strict=True)
    ]


def measure_import(rounds: int) -> dict[str, float]:
    """Median import times, each in a new process."""
    found = []
    for _ in range(rounds):
        result = subprocess.run(
            [sys.executable, "-c", IMPORT_PROBE], capture_output=True, text=True, check=True, env=environment(1)
        )
        found.append([float(part) for part in result.stdout.split()])
    return {
        "numpy_ms": statistics.median(row[0] for row in found),
        "treadle_ms": statistics.median(row[1] for row in found),
    }


def measure_team() -> dict[str, str]:
    """The ``name value`` lines of the team's own bench."""
    cargo = shutil.which("cargo")
    if cargo is None:
        return {}
    result = subprocess.run(
        [cargo, "bench", "--locked", "--quiet", "-p", "treadle-team", "--bench", "fork_join"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    pairs = (line.split() for line in result.stdout.splitlines())
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def processor() -> str:
    """Name of the processor."""
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine(workers: Workers) -> dict[str, str]:
    """What the numbers were read on."""
    ours, theirs = workers.ask(Runner("treadle", 1), "about"), workers.ask(Runner("numpy", 2), "about")
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "processor": f"{processor()}, {cpus} CPUs allowed",
        "system": f"{platform.system()} {platform.machine()}, CPython {theirs['python']}",
        "treadle": ours["treadle"],
        "numpy": f"{theirs['numpy']}, {theirs.get('blas', 'unknown BLAS')}",
    }


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description="Compare treadle with its peers on this machine.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller matrices; prints the page")
    parser.add_argument("--only", metavar="WORD", default="", help="sections and titles that contain the word; prints")
    parser.add_argument("--output", metavar="FILE", type=Path, help="where the page goes")
    options = parser.parse_args()
    word = options.only.lower()
    chosen = [
        case
        for case in cases()
        if (case.quick or not options.quick) and word in f"{case.section} {case.title} {case.work}".lower()
    ]
    workers = Workers()
    rows: list[dict[str, Any]] = []
    try:
        about = machine(workers)
        for case in chosen:
            found = measure(case, workers, 3 if options.quick else case.rounds)
            rows += found
            for row in found:
                sys.stderr.write(f"{row['section']}: {row['title']}: {row['ratio']:.2f} of {row['against']}\n")
    finally:
        workers.close()
    imports = measure_import(3 if options.quick else 11) if word in "import" else {}
    team = measure_team() if word in "fork and join of the team" else {}
    text = page(about, rows, imports, team, "make bench")
    target = options.output
    if target is None and not options.quick and not word:
        target = ROOT / "docs" / "performance.md"
    if target is None:
        sys.stdout.write(text)
    else:
        target.write_text(text, encoding="utf-8")
        sys.stderr.write(f"written: {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
