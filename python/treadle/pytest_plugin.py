"""The pytest plug-in: engines and lanes as fixtures, at every width that the command line asks for.

``treadle_engine`` is an open :class:`~treadle.CpuEngine`; a test that takes it runs once a width of
``--treadle-threads`` (default ``1,2``). ``treadle_lanes`` is an open :class:`~treadle.Lanes` of serial engines, once
a count of ``--treadle-lanes`` (default ``2``).
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    import treadle as td

__all__ = ["treadle_engine", "treadle_lanes"]


def _counts(text: str) -> list[int]:
    counts = [int(part) for part in text.split(",") if part.strip()]
    if not counts or min(counts) < 1:
        raise ValueError(text)
    return counts


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--treadle-threads`` and ``--treadle-lanes``."""
    group = parser.getgroup("treadle")
    group.addoption(
        "--treadle-threads",
        default="1,2",
        metavar="N[,N...]",
        help="widths that tests with the fixture treadle_engine run at (default: 1,2)",
    )
    group.addoption(
        "--treadle-lanes",
        default="2",
        metavar="N[,N...]",
        help="numbers of lanes that tests with the fixture treadle_lanes run at (default: 2)",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the fixtures by the counts of the command line."""
    for fixture, option, word in (
        ("treadle_engine", "--treadle-threads", "threads"),
        ("treadle_lanes", "--treadle-lanes", "lanes"),
    ):
        if fixture in metafunc.fixturenames:
            text = metafunc.config.getoption(option)
            try:
                counts = _counts(text)
            except ValueError:
                msg = f"{option}={text}: numbers of 1 or more are expected, separated by commas"
                raise pytest.UsageError(msg) from None
            metafunc.parametrize(fixture, counts, indirect=True, ids=[f"{word}={n}" for n in counts])


@pytest.fixture
def treadle_engine(request: pytest.FixtureRequest) -> Iterator[td.CpuEngine]:
    """Open engine of the asked width, closed after the test."""
    import treadle as td

    with td.CpuEngine(threads=request.param) as engine:
        yield engine


@pytest.fixture
def treadle_lanes(request: pytest.FixtureRequest) -> Iterator[td.Lanes]:
    """Lanes of serial engines, closed after the test."""
    import treadle as td

    with warnings.catch_warnings():
        # The count was asked for; a machine with fewer CPUs is no fault of the test.
        warnings.simplefilter("ignore", td.OversubscriptionWarning)
        lanes = td.Lanes([td.CpuEngine.serial() for _ in range(request.param)])
    with lanes:
        yield lanes
        engines = list(lanes.engines)
    for engine in engines:
        engine.close()
