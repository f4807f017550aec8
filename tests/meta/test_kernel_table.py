"""The one table of micro-kernels: complete, sound, and the same in plans, in ``info`` and on the page."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import _native, info

TABLE = _native._kernel_table()
ISAS = sorted({kernel["isa"] for kernel in TABLE})
AVAILABLE = [kernel for kernel in TABLE if kernel["available"]]
DTYPES = {
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
    "complex64",
    "complex128",
}


def name(kernel: dict[str, Any]) -> str:
    return f"{kernel['dtype']}-{kernel['isa']}"


def test_every_dtype_is_there_once_for_every_instruction_set() -> None:
    assert "scalar" in ISAS
    assert set(ISAS) <= {"scalar", "avx2", "avx512", "neon"}
    assert len(DTYPES) == 13
    for isa in ISAS:
        dtypes = [kernel["dtype"] for kernel in TABLE if kernel["isa"] == isa]
        assert sorted(dtypes) == sorted(DTYPES)
    assert len(TABLE) == 13 * len(ISAS)


@pytest.mark.parametrize("kernel", TABLE, ids=name)
def test_sizes_fit_each_other_and_the_caches(kernel: dict[str, Any]) -> None:
    mr, nr, lanes, mc, kc, nc = (kernel[key] for key in ("mr", "nr", "lanes", "mc", "kc", "nc"))
    assert min(mr, nr, lanes, mc, kc, nc) >= 1
    assert (mr % lanes, mc % mr, nc % nr) == (0, 0, 0)
    size, caches = np.dtype(kernel["dtype"]).itemsize, _native._caches()
    # A panel of columns takes half of the first-level cache, or the least that is worth it; rows, half of the second.
    assert kc == 64 or kc * nr * size <= caches["l1"]
    assert mc == mr or mc * kc * size <= caches["l2"] // 2
    if kernel["dtype"] == "bool" and kernel["isa"] in {"avx512", "avx2"}:
        # Panels of bits are counted in words.
        assert lanes == 64
        return
    # A register of the processor; plain loops leave that to the compiler.
    width = lanes * (size // 2 if kernel["dtype"].startswith("complex") else size)
    assert width in {"avx512": {64}, "avx2": {32}, "neon": {16}, "scalar": {8, 16, 32}}[kernel["isa"]]


def test_the_caches_grow_with_the_level() -> None:
    caches = _native._caches()
    assert list(caches) == ["l1", "l2", "l3"]
    assert 16 << 10 <= caches["l1"] < caches["l2"] <= caches["l3"]


@pytest.mark.parametrize("kernel", AVAILABLE, ids=name)
def test_plans_name_what_the_table_has(kernel: dict[str, Any]) -> None:
    terms = 3 * kernel["kc"]
    with td.CpuEngine(threads=1, isa=kernel["isa"]) as engine:
        plan = engine.plan("ij,jk->ik", (300, terms), (terms, 310), dtype=kernel["dtype"], route="packed")
        found = re.search(r"tiles (\d+)x(\d+) (\w+) (\w+), blocks \d+x\d+x(\d+)", str(plan))
    assert found is not None
    mr, nr, dtype, isa, kc = found.groups()
    assert (int(mr), int(nr), dtype, isa) == (kernel["mr"], kernel["nr"], kernel["dtype"], kernel["isa"])
    assert int(kc) == kernel["kc"]


def test_what_is_available_is_what_engines_take() -> None:
    isas = info.collect()["isa"]
    assert {kernel["isa"] for kernel in AVAILABLE} == set(isas["available"])
    assert isas["selected"] in isas["available"]


def test_info_shows_the_kernels_of_the_best_set(run_python) -> None:
    result = run_python("-m", "treadle", "info")
    assert result.returncode == 0, result.stderr
    selected = info.collect()["isa"]["selected"]
    lines = [line.split() for line in result.stdout.splitlines()]
    shown = 0
    for kernel in TABLE:
        if kernel["isa"] == selected:
            row = [kernel["dtype"], str(kernel["mr"]), "x", f"{kernel['nr']},"]
            row += ["MC", f"{kernel['mc']},", "NC", f"{kernel['nc']},", "KC", str(kernel["kc"])]
            assert row in lines
            shown += 1
    assert shown == 13
    (caches,) = (line for line in result.stdout.splitlines() if line.startswith("caches "))
    assert f"L1 {_native._caches()['l1'] // 1024} KiB" in caches


def test_info_as_json_has_all_of_them(run_python) -> None:
    result = run_python("-m", "treadle", "info", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["kernels"] == TABLE
    assert found["caches"] == _native._caches()


def test_the_page_has_all_of_them(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(repository / "docs" / "_ext"))
    rows = importlib.import_module("kernel_rows")
    isas = rows.isas()
    assert sorted(isas) == ISAS
    tiles = {dtype: dict(zip(isas, sizes, strict=True)) for dtype, *sizes in rows.tiles()}
    assert set(tiles) == DTYPES
    for kernel in TABLE:
        assert tiles[kernel["dtype"]][kernel["isa"]] == f"{kernel['mr']} x {kernel['nr']}"
    assert rows.best() == info.collect()["isa"]["selected"]
    blocks = {dtype: [int(number) for number in numbers] for dtype, *numbers in rows.blocks()}
    assert blocks == {k["dtype"]: [k["mc"], k["nc"], k["kc"]] for k in TABLE if k["isa"] == rows.best()}
    page = (repository / "docs" / "reference" / "kernels.md").read_text(encoding="utf-8")
    assert "kernel-tiles::" in page
    assert "kernel-blocks::" in page
