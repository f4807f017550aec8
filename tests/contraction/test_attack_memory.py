"""Memory beyond operands and result, read from the operating system, and allocations that the machine refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

pytestmark = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="reads /proc")

#: Runs one contraction in a process of its own and prints the bytes that it needed beyond operands and result.
MEASURE = """
import sys
from pathlib import Path
import numpy as np
import treadle as td

text, shapes, dtypes, layout, threads, into = sys.argv[1:]
rng = np.random.default_rng(0)
dtypes = dtypes.split(",")

def make(shape, dtype):
    if layout == "swapped":
        array = rng.integers(0, 2, shape, dtype=np.int8).astype(dtype)
        return array.byteswap().view(array.dtype.newbyteorder())
    if layout == "stepped":
        array = rng.integers(0, 2, [2 * n for n in shape], dtype=np.int8)[(slice(None, None, -2),) * len(shape)]
        base = np.zeros([2 * n for n in shape], dtype)
        view = base[(slice(None, None, -2),) * len(shape)]
        view[...] = array
        return view
    array = rng.integers(0, 2, shape, dtype=np.int8).astype(dtype)
    return np.array(array, order="F") if layout == "F" else array

operands = [make(shape, dtypes[at % len(dtypes)]) for at, shape in enumerate(eval(shapes))]
inputs, output = text.split("->")
sizes = {l: n for term, array in zip(inputs.split(","), operands) for l, n in zip(term, array.shape)}
# Written once, so that its pages are there.
out = None if into == "new" else np.full([sizes[l] for l in output], 1, dtypes[-1] if into == "out" else into)
engine = td.CpuEngine(int(threads))
engine.matmul(np.ones((200, 200)), np.ones((200, 200)))
engine.matmul(np.ones((200, 200), "f2"), np.ones((200, 200), ">f4"))

def read(word):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(word))
    return 1024 * int(line.split()[1])

Path("/proc/self/clear_refs").write_text("5")
before = read("VmRSS")
options = {} if into == "new" else {"out": out, "casting": "unsafe"}
value = engine.einsum(text, *operands, **options)
extra = read("VmHWM") - before - (np.asarray(value).nbytes if into == "new" else 0)
print(extra)
"""
#: Operands of 16 to 60 MiB: a copy of one would show.
CASES = {
    "product": ("ij,jk->ik", [(2000, 2000), (2000, 2000)]),
    "product, transposed": ("ji,kj->ki", [(2000, 2000), (2000, 2000)]),
    "scrambled": ("abcd,dbef->cafe", [(40, 40, 40, 40), (40, 40, 40, 40)]),
    "scattered": ("abcdef,dfbghk->aghcek", [(12, 12, 12, 12, 12, 12), (12, 12, 12, 12, 12, 12)]),
    "batch inside": ("bij,jkb->kib", [(60, 200, 200), (200, 200, 60)]),
    "terms outside": ("iaj,ajk->ki", [(400, 40, 60), (40, 60, 400)]),
    "tall": ("ki,kj->ij", [(400_000, 8), (400_000, 8)]),
    "dot in other orders": ("abc,cab->", [(150, 150, 100), (100, 150, 150)]),
    "matrix and vector": ("ij,j->i", [(3000, 1000), (1000,)]),
    "diagonal": ("iij,jk->ik", [(200, 200, 60), (60, 200)]),
    "own labels": ("abcd,be->ae", [(50, 60, 50, 20), (60, 50)]),
    "sum": ("abc->b", [(200, 200, 60)]),
    "elementwise": ("abc,cba->bac", [(150, 150, 100), (100, 150, 150)]),
    "outer": ("ij,kl->ljki", [(40, 50), (50, 40)]),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(
    ("dtype", "layout", "threads", "into"),
    [
        ("float64", "stepped", 1, "new"),
        pytest.param("float64", "C", 1, "out", marks=pytest.mark.slow),
        pytest.param("complex128", "F", 2, "out", marks=pytest.mark.slow),
        pytest.param("int64", "C", 2, "new", marks=pytest.mark.slow),
        ("float16", "C", 1, "new"),
        ("float32,float64", "F", 1, "new"),
        pytest.param("float64", "swapped", 1, "out", marks=pytest.mark.slow),
        pytest.param("float16", "C", 1, "float64", marks=pytest.mark.slow),
        pytest.param("int32,float32", "C", 2, "float32", marks=pytest.mark.slow),
        pytest.param("complex64,float16", "F", 1, "new", marks=pytest.mark.slow),
    ],
)
def test_less_than_16_mib_a_thread_beyond_operands_and_result(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
    case: str,
    dtype: str,
    layout: str,
    threads: int,
    into: str,
) -> None:
    text, shapes = CASES[case]
    if layout == "stepped" and len(shapes[0]) > 4:
        pytest.skip("the whole of which it is a part would be too large")
    # Freed memory goes back at once, or the arrays of the preparation would pay for copies.
    environment = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_TRIM_THRESHOLD_": "0"}
    done = run_python(
        "-W", "ignore", "-c", MEASURE, text, str(shapes), dtype, layout, str(threads), into, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < threads * (16 << 20), f"{int(done.stdout) / 2**20:.1f} MiB"


FLATTENED = """
import sys
from pathlib import Path
import numpy as np
import treadle as td

case, dtype = sys.argv[1:]
a, b = np.ones((3000, 2000), dtype), np.ones((3000, 2000), "f8")
tall, few = np.ones((2000, 1000), dtype), np.ones(2)
square = np.ones((1500, 1500), dtype)
plan = td.CpuEngine(1).plan("ij,jk->ik", square, square)
calls = {
    "vdot": lambda engine: engine.vdot(a.T, b.T),
    "outer": lambda engine: engine.outer(tall.T, few),
    "plan": lambda engine: engine.plan(plan)(square, square),
    "chain": lambda engine: engine.multi_dot([square, square[:, :20], square[:20]]),
}
engine = td.CpuEngine(1)
small = np.ones((3, 2), dtype)
engine.vdot(small.T, small.T)
engine.outer(small.T, small)

def read(word):
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(word))
    return 1024 * int(line.split()[1])

Path("/proc/self/clear_refs").write_text("5")
before = read("VmRSS")
value = calls[case](engine)
print(read("VmHWM") - before - np.asarray(value).nbytes)
"""


@pytest.mark.parametrize("case", ["vdot", "outer", "plan", "chain"])
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_nothing_is_flattened_or_converted_as_a_whole(
    run_python: Callable[..., subprocess.CompletedProcess[str]], case: str, dtype: str
) -> None:
    environment = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_TRIM_THRESHOLD_": "0"}
    done = run_python("-W", "ignore", "-c", FLATTENED, case, dtype, env=environment)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 << 20, f"{int(done.stdout) / 2**20:.1f} MiB"


REFUSED = """
import resource
import sys
from pathlib import Path
import numpy as np
import treadle as td

case, threads = sys.argv[1], int(sys.argv[2])
a = np.ones((1500, 1500))
engine = td.CpuEngine(threads, buffer_bytes=0)
small = np.ones((3, 3))
engine.matmul(small, small)
out = np.full((1500, 1500), 7.0)
calls = {
    "new": lambda: engine.matmul(a, a),
    "panels": lambda: engine.gemm(a, a[::-1], out=out, alpha=2, beta=1),
    "intermediate": lambda: engine.einsum("ij,jk,kl->il", a, a, a, out=out),
}
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
now = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (now, hard))
try:
    calls[case]()
    verdict = "ran"
except td.OutOfMemoryError as error:
    verdict = "refused" if isinstance(error, MemoryError) else "no MemoryError"
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
assert verdict == "refused", verdict
assert (out == 7).all()
assert engine.state == "open"
calls[case]()
assert (engine.matmul(a, a) == 1500).all()
"""


@pytest.mark.parametrize("case", ["new", "panels", "intermediate"])
@pytest.mark.parametrize("threads", [1, 2])
def test_memory_that_cannot_be_had_is_an_error_before_any_write(
    run_python: Callable[..., subprocess.CompletedProcess[str]], case: str, threads: int
) -> None:
    """Under an address space that is used up: results, panels and intermediates alike."""
    done = run_python("-c", REFUSED, case, str(threads))
    assert done.returncode == 0, done.stderr


def stretched(*shape: int) -> npt.NDArray[Any]:
    """One element, seen as that many."""
    return np.broadcast_to(np.ones(()), shape)


@pytest.mark.parametrize(
    ("verb", "operands"),
    [
        ("outer", (stretched(2**31), stretched(2**31))),
        ("outer", (stretched(2**40), stretched(2**40))),
        ("kron", (stretched(2**30, 2), stretched(2, 2**30))),
        ("matmul", (stretched(2**31, 1), stretched(1, 2**31))),
        ("matmul", (stretched(2**20, 1, 2**20, 1), stretched(1, 2**20, 1, 2**10))),
        ("matmul", (np.zeros((2**40, 0)), np.zeros((0, 2**40)))),
        ("gemm", (stretched(2**30, 1), stretched(1, 2**30))),
        ("dot", (stretched(2**31, 1), stretched(1, 2**31))),
        ("matvec", (stretched(2**20, 1, 2**20, 1), stretched(2**30, 1))),
    ],
)
def test_shapes_that_no_array_has(engine: td.CpuEngine, verb: str, operands: tuple[Any, Any]) -> None:
    with pytest.raises(td.SizeOverflowError) as caught:
        getattr(engine, verb)(*operands)
    assert isinstance(caught.value, OverflowError)
    assert engine.state == "open"


def test_sums_over_nothing_have_results_whatever_the_other_sizes(engine: td.CpuEngine) -> None:
    assert engine.einsum("ij,jk->", np.zeros((2**31, 0)), np.zeros((0, 2**30))) == 0
    assert engine.plan("ij->i", (0, 2**62)).shape == (0,)
    assert engine.einsum("ai,bi->", stretched(2**31, 0), stretched(2**31, 0)) == 0
