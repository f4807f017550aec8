"""The processes that measure, and the interleaved rounds."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from case import RUST_PEERS, Case, Runner
from result import OURS, Result

HERE = Path(__file__).resolve().parent
#: A machine may set these to work around old libraries; a current numpy is measured as it comes.
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
THREAD_LIMITS = (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "TBLIS_NUM_THREADS",
    "RAYON_NUM_THREADS",
)
#: A BLAS's workers spin for some 30 ms after their last product, on the core that the next process needs.
SETTLE_SECONDS = 0.1
NATIVE = HERE / "native" / "target" / "release" / "native-peers"
PEERS_PYTHON = HERE / ".venv" / "bin" / "python"


#: What a worker answers to a work that its peer does not have.
UNKNOWN = "does not do this"


class PeerError(Exception):
    """A contender that takes no part, and why."""


def environment(threads: int) -> dict[str, str]:
    """Environment of a child: BLAS and OpenMP at so many threads, before anything is imported."""
    kept = {key: value for key, value in os.environ.items() if key not in DROPPED}
    return {**kept, **dict.fromkeys(THREAD_LIMITS, str(threads))}


def allowed_cpus() -> list[int]:
    """The CPUs of this process."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


class Workers:
    """The processes, started when first asked, ended together."""

    def __init__(self, peers_python: Path | None) -> None:
        self.running: dict[Runner, subprocess.Popen[str]] = {}
        self.failed: dict[str, str] = {}
        self.peers_python = peers_python
        self.last: Runner | None = None

    def command(self, runner: Runner) -> list[str]:
        """How a peer is started."""
        arguments = [runner.peer, str(runner.threads)]
        if runner.peer in (*RUST_PEERS, "limits"):
            if not NATIVE.is_file():
                raise PeerError("not built")
            return [str(NATIVE), *arguments]
        python = sys.executable
        if importlib.util.find_spec(runner.peer) is None:
            if self.peers_python is None:
                raise PeerError("not installed")
            python = str(self.peers_python)
        return [python, str(HERE / "worker.py"), *arguments]

    def start(self, runner: Runner) -> subprocess.Popen[str]:
        """Start a process and hear that it is ready."""
        process = subprocess.Popen(
            self.command(runner),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(runner.threads),
        )
        assert process.stdout is not None
        if json.loads(process.stdout.readline() or "{}").get("ready") is not True:
            process.kill()
            process.wait()
            raise PeerError("does not start")
        return process

    def ask(self, runner: Runner, work: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask one process for one timed loop."""
        if runner.peer in self.failed:
            raise PeerError(self.failed[runner.peer])
        try:
            if runner not in self.running:
                self.running[runner] = self.start(runner)
            if self.last is not None and self.last.threads > 1 and self.last != runner:
                time.sleep(SETTLE_SECONDS)
            self.last = runner
            process = self.running[runner]
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"work": work, "arguments": arguments or {}}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            if not line:
                raise PeerError(f"its process ended in {work}")
        except (PeerError, BrokenPipeError) as error:
            self.failed[runner.peer] = str(error)
            raise PeerError(str(error)) from error
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def restart(self, runner: Runner) -> None:
        """Let the next question go to a new process."""
        process = self.running.pop(runner, None)
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)

    def close(self) -> None:
        """End every process and wait for it."""
        for runner in list(self.running):
            self.restart(runner)


@contextlib.contextmanager
def spinning(taken: bool) -> Iterator[None]:
    """Another process that keeps one CPU busy."""
    if not taken:
        yield
        return
    code = "while True: pass"
    if hasattr(os, "sched_setaffinity"):
        code = f"import os; os.sched_setaffinity(0, {{{allowed_cpus()[-1]}}})\n{code}"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(0.2)
        yield
    finally:
        process.kill()
        process.wait()


def measure(case: Case, workers: Workers, rounds: int) -> Result | None:
    """Interleaved rounds of one case; None where treadle does not do it. A contender that fails is left out."""
    found = Result(case.section, case.title, case.threads, case.arguments, case.flops, case.bytes, {})
    with spinning(case.taken):
        for number in range(rounds + 1):
            for contender in case.contenders:
                if contender.name in found.left_out:
                    continue
                try:
                    answer = workers.ask(
                        contender.runner, contender.work, {**case.arguments, **dict(contender.arguments)}
                    )
                except PeerError as error:
                    if contender.name == OURS and str(error) == UNKNOWN:
                        return None
                    if contender.runner.peer == OURS:
                        sys.exit(f"{case.section}: {case.title}: treadle: {error}")
                    found.left_out[contender.name] = str(error)
                    found.seconds.pop(contender.name, None)
                    continue
                if number > 0:  # the first round warms caches and clocks
                    found.seconds.setdefault(contender.name, []).append(answer["seconds"])
                    if "view_seconds" in answer:
                        found.views.setdefault(contender.name, []).append(answer["view_seconds"])
    return found
