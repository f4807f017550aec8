"""Lanes of any number, on machines of any size; every test here ends within a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import treadle as td


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/lanes" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(60))
            # More lanes than this machine has CPUs are the point of many tests.
            item.add_marker(pytest.mark.filterwarnings("ignore::treadle.exceptions.OversubscriptionWarning"))


@pytest.fixture
def make_lanes() -> Iterator[Callable[..., td.Lanes]]:
    """Lanes over that many serial engines, or over engines of those widths."""
    made: list[td.Lanes] = []

    def make(*widths: int, count: int = 2) -> td.Lanes:
        lanes = td.Lanes([td.CpuEngine(threads=width) for width in widths or (1,) * count])
        made.append(lanes)
        return lanes

    yield make
    for lanes in made:
        lanes.close()
        for engine in lanes.engines:
            engine.close()


@pytest.fixture(params=[1, 2, 3], ids=["lanes=1", "lanes=2", "lanes=3"])
def lanes(request: pytest.FixtureRequest, make_lanes: Callable[..., td.Lanes]) -> td.Lanes:
    return make_lanes(count=request.param)
