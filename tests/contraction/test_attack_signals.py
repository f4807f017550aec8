"""Ctrl-C during long products: answered within a second on every route, and the engine goes on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

#: Interrupts one call after 0.3 s and prints how long it went on. A process of its own, so that a deaf call ends with it.
CHILD = """
import os
import signal
import sys
import threading
import time
import numpy as np
import treadle as td

case, threads = sys.argv[1], int(sys.argv[2])
ones = np.ones
engine = td.CpuEngine(threads)
with_out = np.zeros((4096, 4096)) if case == "gemm, beta" else None
a = ones((4096, 4096)) if case in ("matmul", "einsum", "gemm, beta", "plan") else None
calls = {
    "matmul": lambda: engine.matmul(a, a),
    "einsum": lambda: engine.einsum("ij,kj->ki", a, a[::-1]),
    "gemm, beta": lambda: engine.gemm(a, a, out=with_out, beta=1),
    "plan": lambda: engine.plan("ij,jk->ik", a, a)(a, a),
    "scrambled": lambda: engine.einsum("abcd,dbef->cafe", *[ones((64, 64, 64, 64), "f4")] * 2),
    "complex": lambda: engine.matmul(*[ones((2500, 2500), "c16")] * 2),
    "integers": lambda: engine.matmul(*[ones((2500, 2500), "i8")] * 2),
    "reference": lambda: engine.einsum("ij,jk->ik", *[ones((1500, 1500))] * 2, route="reference"),
    "matrix and vector": lambda: engine.matmul(np.broadcast_to(ones(1), (2**18, 2**18)), ones(2**18)),
    "small batch": lambda: engine.einsum("bij,bjk->ik", *[np.broadcast_to(ones((8, 8)), (2**26, 8, 8))] * 2),
    "column sums": lambda: engine.einsum("ij,ij->j", *[np.broadcast_to(ones(1), (2**18, 2**18))] * 2),
    "network": lambda: engine.einsum("abc,cde,efg,gha->bdfh", *[ones((60, 60, 60))] * 4, optimize=False),
    "slices": lambda: engine.einsum("abc,cde,efg,gha->bdfh", *[ones((50, 50, 50))] * 4, memory_limit=2000),
}
call = calls[case]
sent = []

def interrupt():
    sent.append(time.perf_counter())
    os.kill(os.getpid(), signal.SIGINT)

timer = threading.Timer(0.3, interrupt)
timer.start()
try:
    while True:
        call()
except KeyboardInterrupt:
    took = time.perf_counter() - sent[0]
timer.join()
assert engine.state == "open"
for n in (3, 300):
    assert (engine.matmul(ones((n, n)), ones((n, n))) == n).all()
print(took)
"""
CASES = (
    *("matmul", "scrambled", "small batch", "network"),
    *(
        pytest.param(case, marks=pytest.mark.slow)
        for case in (
            *("einsum", "gemm, beta", "plan", "complex", "integers", "reference", "matrix and vector", "column sums"),
            "slices",
        )
    ),
)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_contraction_within_a_second(
    run_python: Callable[..., subprocess.CompletedProcess[str]], case: str, threads: int
) -> None:
    done = run_python("-c", CHILD, case, str(threads), timeout=60)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 1
