"""``treadle.testing`` and the pytest plug-in."""

from __future__ import annotations

import importlib.metadata
import threading

import numpy as np
import pytest

import treadle as td
from treadle.testing import LAYOUTS, ThreadCensus, assert_allclose, error_bound, random_array


class TestBounds:
    def test_a_correct_sum_passes(self) -> None:
        a = random_array((40, 300), "float32", seed=1)
        b = random_array((300, 30), "float32", seed=2)
        assert_allclose(a @ b, a.astype(float) @ b.astype(float), terms=300, scale=1.0, dtype="float32")

    @pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
    def test_the_bound_is_tight(self, dtype: str) -> None:
        right = np.ones(3, dtype)
        eps = np.finfo(dtype).eps
        room = 4 if np.dtype(dtype).kind == "c" else 2
        assert error_bound(9, dtype, 1.0) == pytest.approx(room * 10 * eps)
        assert_allclose(right + np.array(0.9 * room * 10 * eps, dtype), right, terms=9)
        with pytest.raises(AssertionError, match="3 of 3 elements"):
            assert_allclose(right + np.array(1.2 * room * 10 * eps, dtype), right, terms=9)

    def test_integers_are_exact(self) -> None:
        assert_allclose(np.array([1, 2]), np.array([1, 2]), terms=1000)
        with pytest.raises(AssertionError, match=r"worst at \(1,\): .*3.*expected .*2"):
            assert_allclose(np.array([1, 3]), np.array([1, 2]), terms=1000)

    def test_shape_and_dtype(self) -> None:
        with pytest.raises(AssertionError, match=r"shape \(2,\), expected \(1, 2\)"):
            assert_allclose(np.ones(2), np.ones((1, 2)))
        with pytest.raises(AssertionError, match="dtype float32, expected float64"):
            assert_allclose(np.ones(2, "f4"), np.ones(2), dtype="f8")

    def test_nan_and_infinity_stand_in_the_same_places(self) -> None:
        special = np.array([np.nan, np.inf, -np.inf, 1.0])
        assert_allclose(special, special)
        with pytest.raises(AssertionError, match="2 of 4"):
            assert_allclose(special, np.array([0.0, np.inf, np.inf, 1.0]))

    def test_nothing_to_compare(self) -> None:
        assert_allclose(np.empty((0, 3)), np.empty((0, 3)))


class TestRandomArray:
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "float64", "complex64", "complex128"])
    def test_layouts(self, layout: str, dtype: str) -> None:
        a = random_array((4, 5, 3), dtype, layout=layout, seed=7)
        assert a.shape == (4, 5, 3)
        assert a.dtype == np.dtype(dtype)
        assert len(np.unique(a)) > 1
        size = a.itemsize
        strides = {
            "C": (15 * size, 3 * size, size),
            "F": (size, 4 * size, 20 * size),
            "sliced": (120 * size, 12 * size, 2 * size),
            "reversed": (-15 * size, -3 * size, -size),
            "broadcast": (0, 3 * size, size),
        }
        assert a.strides == strides[layout]

    def test_the_seed_decides(self) -> None:
        assert np.array_equal(random_array(9, seed=3), random_array(9, seed=3))
        assert not np.array_equal(random_array(9, seed=3), random_array(9, seed=4))

    def test_integers_in_floats(self) -> None:
        a = random_array((50,), "complex64", integers=True)
        assert np.array_equal(a.real, np.round(a.real))
        assert np.abs(a.real).max() <= 4

    def test_an_unknown_layout_lists_the_valid_ones(self) -> None:
        with pytest.raises(ValueError, match="C, F, sliced, reversed, broadcast"):
            random_array(3, layout="diagonal")


@pytest.mark.skipif(not ThreadCensus.available(), reason="threads are counted in /proc")
class TestCensus:
    def test_it_sees_a_thread_come_and_go(self) -> None:
        go = threading.Event()
        with ThreadCensus() as census:
            census.assert_added(0)
            thread = threading.Thread(target=go.wait, daemon=True)
            thread.start()
            census.assert_added(1)
            assert len(census.names()) == 1
            with pytest.raises(AssertionError, match="1 new threads, expected 2"):
                census.assert_added(2, timeout=0.05)
            go.set()
            thread.join(10)
            census.assert_added(0)

    @pytest.mark.parametrize("threads", [1, 2, 3, 8])
    def test_an_engine_is_its_width(self, threads: int) -> None:
        with ThreadCensus() as census:
            engine = td.CpuEngine(threads=threads)
            census.assert_added(threads - 1)
            engine.close()
            census.assert_added(0)


class TestPlugin:
    TEST = """
        def test_width(treadle_engine):
            assert treadle_engine.state == "open"
            assert float(treadle_engine.einsum("i,i->", [1.0, 2.0], [3.0, 4.0])) == 11.0

        def test_count(treadle_lanes):
            import treadle as td
            found = td.map_in_lanes(lambda item, engine: (item, engine.threads), range(4), treadle_lanes)
            assert found == [(0, 1), (1, 1), (2, 1), (3, 1)]
    """

    @staticmethod
    def loaded() -> list[str]:
        """Options that load the plug-in where no installed package does."""
        points = importlib.metadata.entry_points(group="pytest11")
        return [] if any(point.name == "treadle" for point in points) else ["-p", "treadle.pytest_plugin"]

    def run(self, pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
        pytester.makepyfile(self.TEST)
        return pytester.runpytest_subprocess(*self.loaded(), "-v", *options)

    def test_widths_by_default(self, pytester: pytest.Pytester) -> None:
        result = self.run(pytester)
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["*test_width?threads=1?*", "*test_width?threads=2?*", "*test_count?lanes=2?*"])

    def test_widths_by_option(self, pytester: pytest.Pytester) -> None:
        result = self.run(pytester, "--treadle-threads=1,3,4", "--treadle-lanes=1,3")
        result.assert_outcomes(passed=5)
        result.stdout.fnmatch_lines(["*test_width?threads=4?*", "*test_count?lanes=3?*"])

    @pytest.mark.parametrize("option", ["--treadle-threads=0", "--treadle-threads=two", "--treadle-lanes="])
    def test_a_wrong_option_is_told(self, pytester: pytest.Pytester, option: str) -> None:
        result = self.run(pytester, option)
        assert result.ret != 0
        text = "\n".join(result.outlines + result.errlines)
        assert "numbers of 1 or more are expected" in text

    def test_the_fixtures_close_what_they_opened(self, pytester: pytest.Pytester) -> None:
        pytester.makeconftest("""
            seen = []

            def pytest_sessionfinish(session, exitstatus):
                states = [engine.state for engine in seen]
                assert states == ["closed"] * 4, states
                print("all four are closed")
        """)
        pytester.makepyfile("""
            from conftest import seen

            def test_engine(treadle_engine):
                seen.append(treadle_engine)

            def test_lanes(treadle_lanes):
                seen.extend(treadle_lanes.engines)
        """)
        result = pytester.runpytest_subprocess(*self.loaded(), "-s")
        result.assert_outcomes(passed=3)
        result.stdout.fnmatch_lines(["*all four are closed*"])
