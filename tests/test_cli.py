"""``python -m treadle``: data on standard output, the rest on standard error, exit status 0, 1 or 2."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pytest

import treadle as td
from treadle import info, selftest
from treadle.__main__ import main


def test_info_as_text(run_python) -> None:
    result = run_python("-m", "treadle", "info")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    first = result.stdout.splitlines()[0].split()
    assert first == ["treadle", td.__version__]
    assert "treadle.cpu.native" in result.stdout


def test_info_as_json(run_python) -> None:
    result = run_python("-m", "treadle", "info", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["treadle"] == td.__version__
    assert found["provider"] == td.cpu_provider_id() == "treadle.cpu.native"
    assert "scalar" in found["isa"]["available"]
    assert found["isa"]["selected"] in found["isa"]["available"]
    # Every known set is either there or has a reason.
    assert set(found["isa"]["available"]).isdisjoint(found["isa"]["absent"])
    assert len(found["isa"]["available"]) + len(found["isa"]["absent"]) == 4
    assert all(found["isa"]["absent"].values())
    assert 1 <= found["cpus"]["allowed"] <= found["cpus"]["present"]
    assert found["engines"]["CpuEngine"]["available"] is True
    for engine in found["engines"].values():
        assert engine["available"] or engine["why"]
    assert found["mpi"]["vendor"] or found["mpi"]["why"]
    assert found["pools"]["found"] is not None or found["pools"]["why"]


def test_info_does_not_touch_mpi_in_its_process(run_python) -> None:
    pytest.importorskip("mpi4py")
    code = (
        "import sys\n"
        "from treadle.info import collect\n"
        "found = collect()['mpi']\n"
        "assert found['vendor'] or found['why'], found\n"
        "print('mpi4py' in sys.modules)\n"
        "from mpi4py import MPI\n"
        "print(MPI.Is_initialized(), collect()['mpi'] == found)\n"
    )
    result = run_python("-c", code)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["False", "True", "True"]


def test_info_says_why_a_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str):
        raise ModuleNotFoundError(f"no {name} here")

    def absent(name: str):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(importlib.metadata, "version", absent)
    found = info.collect()
    assert found["pools"] == {"found": None, "why": "threadpoolctl is not installed"}
    assert found["mpi"]["why"] == "mpi4py is not installed"
    assert found["packages"]["scipy"] is None
    text = info.render(found)
    assert "absent: threadpoolctl is not installed" in text
    assert "other engines     none in this version" in text
    assert "absent: mpi4py is not installed" in text


def test_info_gives_the_error_of_a_broken_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mpi4py")
    monkeypatch.setattr(info, "_MPI_PROBE", "raise RuntimeError('cannot load the MPI library')")
    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    assert info.collect()["mpi"]["why"] == "RuntimeError: cannot load the MPI library"


def test_show_versions_is_info(capsys: pytest.CaptureFixture[str]) -> None:
    td.show_versions()
    assert capsys.readouterr().out.splitlines()[0].split() == ["treadle", td.__version__]


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"treadle {td.__version__}\n"


def test_no_command_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "selftest" in captured.err


@pytest.mark.parametrize("arguments", [["unknown"], ["info", "--xml"], ["selftest", "extra"]])
def test_a_wrong_command_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert capsys.readouterr().out == ""


def test_bench_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench"]) == 1
    assert "make bench" in capsys.readouterr().err


def test_selftest(run_python) -> None:
    result = run_python("-m", "treadle", "selftest")
    assert result.returncode == 0, result.stdout
    lines = result.stdout.splitlines()
    assert lines[-1].startswith(f"{len(selftest.CHECKS)} passed, 0 failed") or "skipped" in lines[-1]
    assert len(lines) == len(selftest.CHECKS) + 1


def test_quick_selftest_leaves_out_the_slow_checks(capsys: pytest.CaptureFixture[str]) -> None:
    quick = [name for name, _, in_quick in selftest.CHECKS if in_quick]
    assert 5 <= len(quick) < len(selftest.CHECKS)
    assert main(["selftest", "--quick"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in quick)
    assert len(out.splitlines()) == len(quick) + 1


def test_a_failing_check_is_told_and_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise AssertionError("2 + 2 gives 5")

    monkeypatch.setattr(selftest, "CHECKS", (("sums", broken, True), ("nothing", lambda: None, True)))
    assert selftest.run() == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "FAILED   sums: AssertionError: 2 + 2 gives 5"
    assert lines[1].startswith("ok       nothing")
    assert lines[2] == "1 passed, 1 failed"


#: Checks that look at numbers, not at threads or errors.
NUMERIC = [(name, check) for name, check, _ in selftest.CHECKS if not name.startswith(("threads", "errors"))]


@pytest.mark.parametrize("check", [check for _, check in NUMERIC], ids=[name for name, _ in NUMERIC])
def test_no_numeric_check_passes_with_wrong_numbers(check, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(NUMERIC) >= 6

    class Zeros(td.CpuEngine):
        def einsum(self, *args, **kwargs):
            return 0 * super().einsum(*args, **kwargs)

        def matmul(self, *args, **kwargs):
            return 0 * super().matmul(*args, **kwargs)

        @property
        def linalg(self):
            raise AssertionError("no factorisation")

    monkeypatch.setattr(td, "CpuEngine", Zeros)
    with pytest.raises(Exception):  # noqa: B017 -- any failure will do
        check()
