"""scipy's own tests of the functions that are taken from scipy, run against an engine in a process of its own.

Functions that ``engine.linalg`` does not have yet are named as missing in the run's output. Every difference is named with
its reason; a named test that passes fails the run (strict xfail), and a name that matches nothing is a usage error.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import scipy

import treadle as td

HERE = Path(__file__).resolve().parent
TESTS = Path(scipy.__file__).parent / "linalg" / "tests"
NO_SORT = "there is no sort="
ROUNDING = "an entry that rounding alone makes is compared with LAPACK's"
NO_SCALAR = "a scalar is no matrix (MatrixShapeError)"


@dataclass(frozen=True)
class Suite:
    """The tests of one function, how many pass at least, and what differs."""

    tests: tuple[str, ...]
    floor: int
    differences: dict[str, str] = field(default_factory=dict)
    #: Expressions for -k.
    chosen: str | None = None


SUITES = {
    "cholesky": Suite(("test_decomp_cholesky.py::TestCholesky",), 6, chosen="not overflow"),
    "null_space": Suite(("test_decomp.py::TestNullSpace",), 13),
    "orth": Suite(("test_decomp.py::test_orth", "test_decomp.py::test_orth_empty"), 6),
    "polar": Suite(("test_decomp_polar.py",), 30),
    "expm": Suite(("test_matfuncs.py::TestExpM",), 70, {"TestExpM::test_single_elt": NO_SCALAR}),
    "schur": Suite(
        ("test_decomp.py::TestSchur",),
        2,
        dict.fromkeys(
            (
                "TestSchur::test_sort",
                "TestSchur::test_sort_errors",
                "TestSchur::test_empty",
                "TestSchur::test_gh_13137_sort_str",
                "TestSchur::test_gh_13137_sort_custom",
            ),
            NO_SORT,
        ),
    ),
    "pinv": Suite(("test_basic.py::TestPinv",), 10, {"TestPinv::test_atol_rtol": "there is no atol=, as in numpy"}),
    "lu": Suite(
        ("test_decomp_lu.py::TestLU",), 17, {"TestLU::test_empty_edge_cases": "float16 is refused (DTypeError)"}
    ),
    "lu_factor": Suite(
        ("test_decomp_lu.py::TestLUFactor",),
        45,
        dict.fromkeys(("TestLUFactor::test_hrectangular", "TestLUFactor::test_hrectangular_complex"), ROUNDING),
    ),
    "lu_solve": Suite(("test_decomp_lu.py::TestLUSolve",), 27),
    "cho_factor": Suite(("test_decomp_cholesky.py::TestChoFactor",), 3),
    "solve_triangular": Suite(("test_basic.py::TestSolveTriangular",), 5),
}
#: The functions that this version has. A function that appears is run from then on, and stands here then.
PRESENT = set(SUITES)


def existing() -> set[str]:
    """Functions of ``engine.linalg`` that scipy has tests for."""
    with td.CpuEngine.serial() as engine:
        return {name for name in SUITES if hasattr(engine.linalg, name)}


def run_suite(name: str, suite: Suite, tmp_path: Path, timeout: float = 120) -> dict[str, int]:
    """Counts of scipy's tests by outcome, with that function replaced."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    places = [str(HERE), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "TREADLE_REPLACE": name,
        "TREADLE_DIFFERENCES": json.dumps(suite.differences),
        "PYTHONPATH": os.pathsep.join(place for place in places if place),
    }
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-ra", "--tb=short", "--assert=plain", "-W", "ignore"),
            *("-c", str(tmp_path / "pytest.ini"), "--rootdir", str(TESTS.parent.parent), "--noconftest"),
            *("-p", "no:cacheprovider", "-p", "in_place_of_scipy"),
            *(("-k", suite.chosen) if suite.chosen else ()),
            *(str(TESTS / test) for test in suite.tests),
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        timeout=timeout,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    summary = done.stdout.strip().splitlines()[-1]
    return {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", summary)}


def test_the_functions_that_are_here_are_the_ones_that_are_run() -> None:
    there = existing()
    print(f"scipy's tests run for {len(there)} of {len(SUITES)} functions; missing: {sorted(SUITES.keys() - there)}")
    assert there >= PRESENT


@pytest.mark.parametrize("name", sorted(SUITES))
def test_scipys_tests_pass_but_for_the_named_differences(name: str, tmp_path: Path) -> None:
    if name not in existing():
        assert name not in PRESENT
        print(f"{name} is missing")
        return
    suite = SUITES[name]
    counts = run_suite(name, suite, tmp_path)
    print(f"{name}: {counts}")
    assert counts.get("passed", 0) >= suite.floor
    assert counts.get("xfailed", 0) >= len(suite.differences)
    assert suite.differences or "xfailed" not in counts
    assert counts.keys() <= {"passed", "xfailed", "skipped", "deselected"}
