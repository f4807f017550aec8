"""Faults that an attack found, each with the smallest input that shows it and the right answer."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import treadle as td

Make = Callable[..., npt.NDArray[Any]]


# --- a held operand in neither C nor Fortran order, through a pickle -------------------------------------------


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("dtype", ["float64", "complex64", "float16"])
def test_a_pickled_plan_keeps_its_constants_values(engine: td.CpuEngine, order: tuple[int, ...], dtype: str) -> None:
    """Pickling an array keeps its values and not its strides: the strides planned for are the unpickled array's."""
    held = np.arange(24).reshape(2, 3, 4).astype(dtype).transpose(order)
    vector = np.ones(held.shape[2], dtype)
    plan = engine.plan("abc,c->ab", held, vector, constants=[0])
    again = engine.plan(pickle.loads(pickle.dumps(plan)))
    assert (plan(vector) == held.sum(axis=2)).all()
    assert (again(vector) == held.sum(axis=2)).all()
    twice = engine.plan(pickle.loads(pickle.dumps(again)))
    assert (twice(vector) == held.sum(axis=2)).all()


# --- an accumulator of a wider dtype than the product ----------------------------------------------------------


WIDER = [
    *(("bool", "int64", 7), ("int8", "int16", 3000), ("int32", "int64", 2**40), ("uint8", "uint64", 2**63)),
    *(("int32", "float64", 0.5), ("float16", "float64", 2.0**30 + 1), ("float32", "float64", 2.0**30 + 1)),
    *(("float32", "complex64", 1 + 5j), ("float64", "complex128", 1 + 5j), ("complex64", "complex128", 2.0**40 + 1j)),
]


@pytest.mark.parametrize(("dtype", "wider", "old"), WIDER)
@pytest.mark.parametrize("verb", ["einsum", "einsum, dtype", "gemm", "plan"])
def test_an_out_that_is_read_is_never_narrowed(
    engine: td.CpuEngine, dtype: str, wider: str, old: Any, verb: str
) -> None:
    """With beta the old contents count as they stand: added in the dtype of out, or refused before any write."""
    a = np.ones((3, 3), dtype)
    before = np.full((3, 3), old, wider)
    out = before.copy()
    # The product is 3 when it is made in the wider dtype; true in bool.
    right = [(before + np.array(n).astype(wider)).astype(wider) for n in ((3, 1) if dtype == "bool" else (3,))]
    try:
        if verb == "einsum":
            engine.einsum("ij,jk->ik", a, a, out=out, beta=1)
        elif verb == "einsum, dtype":
            engine.einsum("ij,jk->ik", a, a, out=out, beta=1, dtype=dtype)
        elif verb == "gemm":
            engine.gemm(a, a, out=out, beta=1)
        else:
            engine.plan("ij,jk->ik", a, a)(a, a, out=out, beta=1)
    except td.DTypeError:
        assert (out == before).all()
    else:
        assert any((out == value).all() for value in right), out[0, 0]


# --- complex accumulators that hold infinity -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("route", ["auto", "reference"])
@pytest.mark.parametrize(
    "text",
    [
        *("ij,jk->ik", "ij,ij->ij", "ij,j->i", "i,i->", "i,j->ij", "ij->ij", "ij->i", "ii->", "ij->ji"),
        "ij,jk,kl->il",
    ],
)
def test_beta_one_adds_and_does_not_multiply(engine: td.CpuEngine, dtype: str, route: str, text: str) -> None:
    """``inf + 1j`` plus a finite product stays ``inf`` with a finite imaginary part; one times it would be NaN there."""
    terms, output = text.split("->")
    for n in (1, 2, 5, 40):
        arrays = [np.ones((n,) * len(term), dtype) for term in terms.split(",")]
        product = np.einsum(text, *arrays)
        out = np.full((n,) * len(output), complex(np.inf, 1), dtype)
        engine.einsum(text, *arrays, out=out, beta=1, route=route)
        assert np.isposinf(out.real).all(), n
        assert (out.imag == 1 + product.imag).all(), n
        # The other way round: the product is infinite and what it is added to is not.
        arrays[0][...] = complex(np.inf, 1)
        with np.errstate(invalid="ignore"):
            product = np.einsum(text, *arrays)
        out[...] = 1 + 2j
        engine.einsum(text, *arrays, out=out, beta=1, route=route)
        assert np.array_equal(out.real, product.real + 1, equal_nan=True), n
        assert np.array_equal(out.imag, product.imag + 2, equal_nan=True), n


@pytest.mark.parametrize("most", [1, 4])
def test_slices_add_up_infinities_in_complex_results(engine: td.CpuEngine, most: int) -> None:
    """The parts of a sum are added, so that an infinity among them is not turned into NaN."""
    a, b, c = (np.ones((3, 3), np.complex128) for _ in range(3))
    out = np.full((3, 3), complex(np.inf, 1))
    plan = engine.plan("ij,jk,kl->il", a, b, c, memory_limit=most)
    assert plan.slices
    plan(a, b, c, out=out, beta=1)
    assert np.isposinf(out.real).all()
    assert (out.imag == 1).all()


# --- floating-point warnings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda e, h, _: e.matmul(h, h),
        lambda e, h, _: e.matmul(h, h, out=np.zeros((4, 4), np.float16)),
        lambda e, h, _: e.einsum("ij,jk->ik", h, h),
        lambda e, h, _: e.einsum("ij->", h * 100),
        lambda e, h, _: e.plan("ij,jk->ik", h, h)(h, h),
        lambda e, h, _: e.outer(h, h),
        lambda e, h, _: e.gemm(h, h, alpha=2),
        lambda e, _, d: e.matmul(d, d, dtype="float32"),
        lambda e, _, d: e.einsum("ij,jk->ik", d, d, dtype="float32", casting="same_kind"),
        lambda e, _, d: e.einsum("ij,jk->ik", d * np.nan, d, dtype="int32", casting="unsafe"),
        lambda e, _, d: e.plan("ij,jk->ik", d, d, dtype="float32", casting="same_kind")(d, d),
        lambda e, _, d: e.plan("ij,jk->ik", d, (4, 4), dtype="float32", casting="same_kind", constants=[0]),
        lambda e, _, d: e.matmul(d, d, out=np.zeros((4, 4), np.float32)),
    ],
)
def test_no_floating_point_warning_and_no_errstate(engine: td.CpuEngine, call: Callable[..., Any]) -> None:
    """API.md: no floating-point warnings are issued and ``np.errstate`` is not consulted, in conversions neither."""
    half, double = np.full((4, 4), 300, np.float16), np.full((4, 4), 1e300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(all="warn"):
            call(engine, half, double)
        with np.errstate(all="raise"):
            call(engine, half, double)


# --- memory that numpy's conversions cannot have ---------------------------------------------------------------


CONVERSIONS = """
import resource
import sys
from pathlib import Path
import numpy as np
import treadle as td

case = sys.argv[1]
engine = td.CpuEngine(1, buffer_bytes=0)
n = 1500
a = np.ones((n, n))
half, single, swapped = a.astype("f2"), a.astype("f4"), a.astype(a.dtype.newbyteorder())
out, half_out = np.full((n, n), 7.0), np.full((n, n), 7, "f2")
plan = engine.plan("ij,jk->ik", single, single)
calls = {
    "operand, half": lambda: engine.matmul(half, half, out=half_out),
    "operand, mixed": lambda: engine.matmul(single, a, out=out),
    "operand, swapped": lambda: engine.matmul(swapped, a, out=out),
    "result": lambda: plan(single, single, out=out),
    "constant": lambda: engine.plan("ij,jk->ik", (5, n), a, constants=[1]),
}
import warnings
warnings.simplefilter("ignore")
# The package's own modules are there before memory is short.
engine.matmul(np.ones((3, 3), "f2"), np.ones((3, 3), ">f4"))
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
now = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (now, hard))
try:
    calls[case]()
    verdict = "ran"
except MemoryError as error:
    verdict = type(error).__name__
resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
assert (out == 7).all() and (half_out == 7).all()
assert verdict == "OutOfMemoryError", verdict
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
@pytest.mark.parametrize("case", ["operand, half", "operand, mixed", "operand, swapped", "result", "constant"])
def test_a_conversion_without_memory_is_our_error(
    run_python: Callable[..., subprocess.CompletedProcess[str]], case: str
) -> None:
    done = run_python("-c", CONVERSIONS, case)
    assert done.returncode == 0, done.stderr


def test_a_result_that_cannot_be_had_names_its_operation(engine: td.CpuEngine) -> None:
    one = np.broadcast_to(np.ones(()), (2**24,))
    column, row = one[:, None], one[None]
    for verb, operands in (
        ("outer", (one, one)),
        ("matmul", (column, row)),
        ("gemm", (column, row)),
        ("kron", (one, one)),
    ):
        with pytest.raises(td.OutOfMemoryError, match=f"^{verb}: ") as caught:
            getattr(engine, verb)(*operands)
        assert caught.value.operation == verb
    with pytest.raises(td.SizeOverflowError, match="^matmul: ") as overflow:
        engine.matmul(np.broadcast_to(np.ones(()), (2**31, 1)), np.broadcast_to(np.ones(()), (1, 2**31)))
    assert overflow.value.operation == "matmul"


# --- Ctrl-C where the look for it was missing ------------------------------------------------------------------


DEAF = """
import os
import signal
import sys
import threading
import time
import numpy as np
import treadle as td

case = sys.argv[1]
long = np.broadcast_to(np.ones(1), (2**37,))
# Products of some seconds each.
batch = np.ones((8, 2200, 2200)) if "batch" in case else None
outer = td.CpuEngine(2, batch="outer", isa="scalar")
auto = td.CpuEngine(2, isa="scalar")
calls = {
    "one sum": lambda: auto.einsum("i->", long),
    "one dot": lambda: auto.einsum("i,i->", long, long),
    "batch, outer": lambda: outer.matmul(batch, batch),
    "batch, auto": lambda: auto.matmul(batch, batch),
}

def interrupt():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)
    os._exit(3)

threading.Thread(target=interrupt, daemon=True).start()
try:
    calls[case]()
    os._exit(4)
except KeyboardInterrupt:
    assert auto.state == outer.state == "open"
    assert auto.matmul(np.eye(3), np.eye(3))[0, 0] == 1
    os._exit(0)
"""


@pytest.mark.parametrize("case", ["one sum", "one dot", "batch, outer", "batch, auto"])
def test_ctrl_c_ends_a_long_item_within_a_second(
    run_python: Callable[..., subprocess.CompletedProcess[str]], case: str
) -> None:
    """Inside one long sum, and inside the large items of a batch that is spread over the threads."""
    done = run_python("-c", DEAF, case, timeout=60)
    assert done.returncode == 0, "deaf" if done.returncode == 3 else done.stderr


# --- smaller ones ----------------------------------------------------------------------------------------------


def test_out_widens_what_the_operands_promote_to(engine: td.CpuEngine) -> None:
    """numpy's promotion of extension dtypes depends on the order; the operands' own comes first."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    operands = [np.ones(2), np.ones(2, ml_dtypes.bfloat16), np.ones(2, np.uint64)]
    assert engine.einsum("i,i,i->", *operands) == 2
    assert engine.einsum("i,i,i->", *operands, out=np.zeros(())) == 2


@pytest.mark.parametrize("name", ["alpha", "beta"])
@pytest.mark.parametrize("value", [np.array("x"), np.float64, np.array([1.0, 2.0]), "1", None.__class__])
def test_factors_that_are_no_numbers_are_typed_errors(engine: td.CpuEngine, name: str, value: Any) -> None:
    a = np.ones((2, 2))
    plan = engine.plan("ij,jk->ik", a, a)
    for call in (
        lambda **factor: engine.gemm(a, a, out=np.zeros((2, 2)), **factor),
        lambda **factor: engine.einsum("ij,jk->ik", a, a, out=np.zeros((2, 2)), **factor),
        lambda **factor: plan(a, a, out=np.zeros((2, 2)), **factor),
    ):
        with pytest.raises(td.DTypeError, match=name):
            call(**{name: value})


def test_an_operand_that_is_copied_first_is_still_an_operand(engine: td.CpuEngine) -> None:
    """An out over the memory of a byte-swapped or misaligned operand shares its elements all the same."""
    swapped = np.ones((3, 3), np.dtype(np.float64).newbyteorder())
    raw = np.zeros(100, np.uint8)
    misaligned = raw[1:73].view(np.float64).reshape(3, 3)
    for operand in (swapped, misaligned):
        out = operand.view(np.float64)
        before = raw.tobytes(), swapped.tobytes()
        for call in (
            lambda: engine.matmul(operand, np.eye(3), out=out),
            lambda: engine.einsum("ij,jk->ik", np.eye(3), operand, out=out),
            lambda: engine.plan("ij,jk->ik", (3, 3), (3, 3))(operand, np.eye(3), out=out),
            lambda: engine.gemm(operand, np.eye(3), out=out),
        ):
            with pytest.raises(td.AliasingError):
                call()
            assert (raw.tobytes(), swapped.tobytes()) == before
