"""The demo against Onsager's exact solution, and its options, files and exit statuses."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import treadle as td
from treadle.demo import log_partition_per_site, main, observables, run_sweep
from treadle.demo.onsager import CRITICAL_TEMPERATURE, elliptic_integrals, exact
from treadle.demo.temperatures import TemperatureFileError, default_temperatures, read_temperatures

# Lanes wider than the machine are what some of these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore::treadle.OversubscriptionWarning")

CATALAN = 0.915965594177219015


class TestExactSolution:
    def test_free_energy_at_the_critical_point(self) -> None:
        # Onsager 1944: -f / T = ln(2) / 2 + 2 G / pi, G being Catalan's constant. The quadrature has its kink here.
        known = -CRITICAL_TEMPERATURE * (math.log(2) / 2 + 2 * CATALAN / math.pi)
        assert abs(exact(CRITICAL_TEMPERATURE).free_energy - known) < 1e-14

    def test_energy_at_the_critical_point(self) -> None:
        at = exact(CRITICAL_TEMPERATURE)
        assert abs(at.energy + math.sqrt(2)) < 1e-14
        assert at.specific_heat == math.inf

    @pytest.mark.parametrize("complement", [1e-12, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0])
    def test_elliptic_integrals(self, complement: float) -> None:
        special = pytest.importorskip("scipy.special")
        k, e = elliptic_integrals(complement)
        assert k == pytest.approx(special.ellipkm1(complement**2), rel=1e-14)
        assert e == pytest.approx(special.ellipe((1 - complement) * (1 + complement)), rel=1e-14)

    @pytest.mark.parametrize("temperature", [1.2, 2.0, 2.2, 2.4, 3.0, 6.0])
    def test_the_three_are_derivatives_of_one_another(self, temperature: float) -> None:
        # e = d(beta f) / d(beta) and c = de / dT by central differences: h**2 = 1e-8, times a fourth derivative that
        # is below 1e3 at 3 % from the critical point, and rounding of 1e-16 / h.
        h = 1e-4
        beta = 1 / temperature
        up, down = (x * exact(1 / x).free_energy for x in (beta + h, beta - h))
        assert exact(temperature).energy == pytest.approx((up - down) / (2 * h), abs=2e-6)
        warm, cold = exact(temperature + h).energy, exact(temperature - h).energy
        assert exact(temperature).specific_heat == pytest.approx((warm - cold) / (2 * h), abs=2e-6)

    def test_limits(self) -> None:
        cold, hot = exact(0.01), exact(1e4)
        assert cold == (-2.0, -2.0, 0.0)
        # High temperature: f = -T ln 2 - 1 / T, e = -2 / T, c = 2 / T**2, next terms smaller by T**-2.
        assert hot.free_energy == pytest.approx(-1e4 * math.log(2) - 1e-4, rel=1e-15)
        assert hot.energy == pytest.approx(-2e-4, rel=1e-6)
        assert hot.specific_heat == pytest.approx(2e-8, rel=1e-6)


class TestRenormalisation:
    @pytest.mark.parametrize(
        ("temperature", "free_energy", "energy", "specific_heat"),
        [
            # Away from the critical point the singular values fall off fast, so that 16 of them leave an error of the
            # free energy of some 1e-7; the finite system adds T ln(2) / 2**24 = 1e-7 below the critical temperature,
            # where it has two ground states. A derivative in beta amplifies the truncation by about 10 each time,
            # the difference formulas add less than 1e-6.
            (1.5, 1e-6, 1e-5, 1e-4),
            (3.5, 1e-6, 1e-5, 1e-4),
            # At 10 % from it the correlations are ten sites long and the truncation is some ten times larger.
            (2.0, 1e-5, 1e-4, 1e-3),
            (2.5, 1e-5, 1e-4, 1e-3),
        ],
    )
    def test_against_the_exact_solution(
        self, temperature: float, free_energy: float, energy: float, specific_heat: float
    ) -> None:
        with td.CpuEngine(threads=2) as engine:
            found = observables(temperature, engine, bond_dimension=16, steps=24)
        right = exact(temperature)
        assert abs(found.free_energy - right.free_energy) < free_energy
        assert abs(found.energy - right.energy) < energy
        assert abs(found.specific_heat - right.specific_heat) < specific_heat

    def test_a_larger_bond_dimension_is_closer(self, treadle_engine: td.CpuEngine) -> None:
        errors = [
            abs(observables(2.5, treadle_engine, bond_dimension=n, steps=20).free_energy - exact(2.5).free_energy)
            for n in (8, 12, 16)
        ]
        assert errors[0] > 5 * errors[1]
        assert errors[1] > 1.5 * errors[2]

    def test_a_tiny_torus_is_exact(self, treadle_engine: td.CpuEngine) -> None:
        # Two steps, nothing cut: the sum over the 16 states of four spins on the 2 x 2 torus, where each of the four
        # pairs of neighbours has two bonds: 2 states of energy -8, 12 of 0 and 2 of +8.
        beta = 0.3
        (found,) = log_partition_per_site([beta], treadle_engine, bond_dimension=16, steps=2)
        known = math.log(2 * math.exp(8 * beta) + 12 + 2 * math.exp(-8 * beta)) / 4
        assert found + 2 * beta == pytest.approx(known, rel=1e-13)

    def test_every_lane_and_width_gives_the_same_bits(self) -> None:
        found = []
        for widths in ((1,), (2, 1), (3,)):
            engines = [td.CpuEngine(threads=width) for width in widths]
            with td.Lanes(engines) as lanes:
                sweep = run_sweep([1.9, 2.4, 3.1], lanes, bond_dimension=8, steps=12)
            for engine in engines:
                engine.close()
            found.append(np.array(sweep.computed).tobytes())
        assert found[1] == found[0]
        assert found[2] == found[0]


class TestTemperatureFile:
    def write(self, folder: Path, text: str | bytes) -> Path:
        path = folder / "sweep.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def test_values_comments_and_empty_lines(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "# a sweep\n1.5\n\n  2.25  # near\r\n3e0\n")
        assert read_temperatures(path) == (1.5, 2.25, 3.0)

    def test_a_byte_order_mark_is_skipped(self, tmp_path: Path) -> None:
        assert read_temperatures(self.write(tmp_path, b"\xef\xbb\xbf2.0\n")) == (2.0,)

    @pytest.mark.parametrize(
        "line", ["2,5", "warm", "1.0 2.0", "nan", "inf", "-inf", "0", "-1.5", "1_0", "1e9", "1e-9"]
    )
    def test_a_wrong_line_is_named(self, tmp_path: Path, line: str) -> None:
        path = self.write(tmp_path, f"# three lines above\n1.0\n\n{line}\n2.0\n")
        with pytest.raises(TemperatureFileError) as caught:
            read_temperatures(path)
        assert str(path) in str(caught.value)
        assert "line 4" in str(caught.value)
        assert repr(line) in str(caught.value)

    @pytest.mark.parametrize("content", ["", "# nothing\n\n", b"\xff\xfe1\x00"])
    def test_a_file_without_temperatures_is_refused(self, tmp_path: Path, content: str | bytes) -> None:
        with pytest.raises(TemperatureFileError, match=r"sweep\.txt"):
            read_temperatures(self.write(tmp_path, content))

    def test_a_line_that_is_no_utf8_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(TemperatureFileError, match="line 3: not UTF-8"):
            read_temperatures(self.write(tmp_path, b"2.0\n\n# temp\xe9rature\n"))

    def test_lines_are_counted_as_in_an_editor(self, tmp_path: Path) -> None:
        with pytest.raises(TemperatureFileError, match="line 2: 'x'"):
            read_temperatures(self.write(tmp_path, "2.0\x0c\nx\n"))

    def test_a_long_wrong_line_is_cut(self, tmp_path: Path) -> None:
        with pytest.raises(TemperatureFileError, match=r"line 1: 'x{60}\.\.\.'"):
            read_temperatures(self.write(tmp_path, "x" * 10_000))

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(TemperatureFileError, match="none"):
            read_temperatures(tmp_path / "none")


def test_default_temperatures_avoid_the_critical_point() -> None:
    values = default_temperatures()
    assert len(values) == 24
    assert min(abs(value - CRITICAL_TEMPERATURE) for value in values) > 0.01


class TestCommand:
    def options(self, *more: str) -> list[str]:
        return ["--bond-dimension", "6", "--steps", "10", "--lanes", "2", "-q", *more]

    def test_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(self.options("--no-plot")) == 0
        captured = capsys.readouterr()
        lines = captured.out.splitlines()
        rows = [line.split() for line in lines if line[:9].strip().replace(".", "").isdigit()]
        assert [float(row[0]) for row in rows] == list(default_temperatures())
        assert all(len(row) == 7 for row in rows)
        assert "bond dimension 6, 2^10 spins, 24 temperatures, 1 rank" in lines[1]
        assert sum(line.startswith("lane ") for line in lines) == 2
        assert captured.err == ""

    def test_json_and_a_file_of_temperatures(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "sweep.txt"
        path.write_text(f"1.8 # cold\n{CRITICAL_TEMPERATURE!r}\n3.0\n", encoding="utf-8")
        assert main(self.options("--no-plot", "--json", "-", "--temperatures", str(path))) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["temperatures"] == [1.8, CRITICAL_TEMPERATURE, 3.0]
        assert found["exact"]["specific_heat"][1] is None
        assert len(found["lanes"]) == 2
        assert sum(lane["temperatures"] for lane in found["lanes"]) == 3
        # Bond dimension 6 on 2**10 spins, at 20 % below and 30 % above the critical temperature.
        for index in (0, 2):
            assert abs(found["computed"]["free_energy"][index] - found["exact"]["free_energy"][index]) < 2e-3

    def test_json_file_beside_the_table(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        target = tmp_path / "sweep.json"
        assert main(self.options("--no-plot", "--json", str(target))) == 0
        assert "largest deviation" in capsys.readouterr().out
        assert len(json.loads(target.read_text(encoding="utf-8"))["temperatures"]) == 24

    def test_picture(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("matplotlib")
        target = tmp_path / "sweep.png"
        assert main(self.options("--output", str(target))) == 0
        assert target.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        assert target.stat().st_size > 10_000
        capsys.readouterr()

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--bond-dimension", "1"],
            ["--bond-dimension", "many"],
            ["--steps", "0"],
            ["--lanes", "0"],
            ["--threads", "-1"],
            ["--unknown"],
        ],
    )
    def test_a_wrong_option_is_status_2(self, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert arguments[0] in captured.err

    def test_a_wrong_line_is_status_2_and_nothing_is_computed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "sweep.txt"
        path.write_text("1.0\n2.x\n", encoding="utf-8")
        assert main(self.options("--temperatures", str(path))) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert f"{path}, line 2: '2.x': not a number" in captured.err

    def test_a_picture_in_no_folder_is_status_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pytest.importorskip("matplotlib")
        assert main(self.options("--output", str(tmp_path / "none" / "a.png"))) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "is no folder" in captured.err

    @pytest.mark.parametrize("place", ["none/a.json", "."])
    def test_json_that_cannot_be_written_is_status_2_and_nothing_is_computed(
        self, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(self.options("--json", str(tmp_path / place))) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "--json: " in captured.err
        assert "folder" in captured.err

    @pytest.mark.parametrize(("name", "start"), [("picture", b"\x89PNG"), ("a.PNG", b"\x89PNG"), ("a.svg", b"<?xml")])
    def test_the_name_says_the_format_of_the_picture(self, name: str, start: bytes, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        path = tmp_path / name
        options = ["--bond-dimension", "2", "--steps", "2", "--lanes", "1", "-q"]
        assert main([*options, "--output", str(path)]) == 0
        assert path.read_bytes().startswith(start)

    def test_a_picture_in_an_unknown_format_is_status_2_and_nothing_is_computed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pytest.importorskip("matplotlib")
        path = tmp_path / "x.foo"
        assert main(self.options("--output", str(path))) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert f"--output: {path}: matplotlib writes pdf, png, svg, " in captured.err
        assert captured.err.endswith(", not foo\n")
        assert not path.exists()

    def test_a_picture_and_no_picture_is_status_2(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(self.options("--output", str(tmp_path / "a.png"), "--no-plot")) == 2
        assert "--output and --no-plot exclude each other" in capsys.readouterr().err

    def test_a_count_that_is_no_number(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            main(["--lanes", "two"])
        assert "argument --lanes: 'two' is not a whole number" in capsys.readouterr().err

    def test_the_critical_temperature_is_left_out_where_the_exact_value_diverges(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "sweep.txt"
        path.write_text(f"1.8\n{CRITICAL_TEMPERATURE!r}\n2.2695\n3.0\n", encoding="utf-8")
        assert main(self.options("--no-plot", "--temperatures", str(path))) == 0
        line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("  specific heat c"))
        assert re.search(r"e-0\d at T = (1\.8|3\.0)0000, leaving out 2 temperatures within 0\.001 of", line)
        path.write_text(f"{CRITICAL_TEMPERATURE!r}\n", encoding="utf-8")
        assert main(self.options("--no-plot", "--temperatures", str(path))) == 0
        assert "specific heat c  none, leaving out 1 temperature within" in capsys.readouterr().out


class TestAsAProgram:
    SMALL = ("--bond-dimension", "4", "--steps", "6", "--no-plot", "-q", "--json", "-")

    def test_the_example_file(self, run_python, repository: Path, tmp_path: Path) -> None:
        result = run_python(repository / "docs" / "examples" / "ising_trg.py", *self.SMALL, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert len(json.loads(result.stdout)["temperatures"]) == 24
        assert result.stderr == ""

    def test_the_command_of_the_package(self, run_python, tmp_path: Path) -> None:
        result = run_python("-m", "treadle", "demo", *self.SMALL, "--lanes", "1", cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert len(json.loads(result.stdout)["lanes"]) == 1

    @pytest.fixture
    def on_two_ranks(self, repository: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
        pytest.importorskip("mpi4py")
        mpiexec = shutil.which("mpiexec", path=str(Path(sys.executable).parent)) or shutil.which("mpiexec")
        if mpiexec is None:
            pytest.skip("no mpiexec")
        example = repository / "docs" / "examples" / "ising_trg.py"

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [mpiexec, "-n", "2", sys.executable, "-m", "mpi4py", str(example), *arguments]
            return subprocess.run(
                command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=120
            )

        return run

    @pytest.mark.mpi
    def test_a_wrong_line_ends_all_ranks(self, on_two_ranks, tmp_path: Path) -> None:
        path = tmp_path / "sweep.txt"
        path.write_text("1.0\nwarm\n", encoding="utf-8")
        result = on_two_ranks("--temperatures", str(path), "-q", "--no-plot")
        assert result.returncode == 2
        assert result.stdout == ""
        assert result.stderr.count(f"{path}, line 2: 'warm': not a number") == 1

    @pytest.mark.mpi
    def test_two_ranks_give_the_same_numbers(self, on_two_ranks, repository: Path, run_python, tmp_path: Path) -> None:
        alone = run_python(repository / "docs" / "examples" / "ising_trg.py", *self.SMALL, cwd=tmp_path)
        both = on_two_ranks(*self.SMALL, "--lanes", "1")
        assert both.returncode == 0, both.stderr
        one, two = json.loads(alone.stdout), json.loads(both.stdout)
        assert two["ranks"] == 2
        assert {lane["rank"] for lane in two["lanes"]} == {0, 1}
        assert sum(lane["temperatures"] for lane in two["lanes"]) == 24
        assert two["computed"] == one["computed"]
