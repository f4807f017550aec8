"""The rooms and their arrows: no crate uses another that the design does not allow."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# The table of docs/dev/rooms.md. An arrow points from a room to what it may use.
ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "team": {"core"},
    "kernels": {"core"},
    "strided": {"core", "team", "kernels"},
    "contract": {"core", "team", "kernels", "strided"},
    "linalg": {"core", "team", "contract"},
    "engine": {"core", "team", "kernels", "strided", "contract", "linalg"},
    "lanes": {"core"},
    "python": {"core", "team", "kernels", "strided", "contract", "linalg", "engine", "lanes"},
    "testkit": {"core"},
}
# Crates from outside that only some rooms may know.
OUTSIDE: dict[str, set[str]] = {
    "pyo3": {"python"},
    "numpy": {"python"},
    "faer": {"linalg"},
    "loom": {"team"},
    "rayon": set(),
    "rayon-core": set(),
    "mpi": set(),
}


@pytest.fixture(scope="module")
def packages(repository: Path) -> list[dict[str, Any]]:
    cargo = shutil.which("cargo")
    if cargo is None:
        pytest.skip("cargo is not installed")
    found = subprocess.run(
        [cargo, "metadata", "--format-version", "1", "--no-deps", "--offline"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return json.loads(found.stdout)["packages"]


def room(package: dict[str, Any]) -> str:
    return str(package["name"]).removeprefix("treadle-")


def edges(packages: list[dict[str, Any]], kinds: set[str | None]) -> list[tuple[str, str]]:
    return [
        (room(package), dependency["name"])
        for package in packages
        for dependency in package["dependencies"]
        if dependency["kind"] in kinds
    ]


def test_the_rooms_are_those_of_the_table(packages: list[dict[str, Any]]) -> None:
    assert {room(package) for package in packages} == set(ALLOWED)
    assert all(package["name"].startswith("treadle-") for package in packages)
    assert len(packages) == 10


def test_every_arrow_is_allowed(packages: list[dict[str, Any]]) -> None:
    inside = [
        (source, target.removeprefix("treadle-"))
        for source, target in edges(packages, {None, "build"})
        if target.startswith("treadle-")
    ]
    wrong = [(source, target) for source, target in inside if target not in ALLOWED[source]]
    assert wrong == []
    # The guard has looked at something: every room but the lowest and the bench uses another.
    assert len(inside) >= 20
    assert {source for source, _ in inside} == set(ALLOWED) - {"core"}


def test_dev_dependencies_reach_the_testkit_only(packages: list[dict[str, Any]]) -> None:
    for source, target in edges(packages, {"dev"}):
        if target.startswith("treadle-"):
            used = target.removeprefix("treadle-")
            assert used in ALLOWED[source] | {"testkit"}, f"{source} tests with {used}"


def test_outside_crates_stay_in_their_rooms(packages: list[dict[str, Any]]) -> None:
    found = {(source, target) for source, target in edges(packages, {None, "build", "dev"}) if target in OUTSIDE}
    for source, target in found:
        assert source in OUTSIDE[target], f"{source} uses {target}"
    # Each of them is in the rooms that may know it, so that a line above that nobody needs any more is found.
    assert found == {(name, crate) for crate, names in OUTSIDE.items() for name in names}
    assert len(found) == 4


def test_no_crate_is_published_and_all_share_one_version(packages: list[dict[str, Any]]) -> None:
    assert {package["version"] for package in packages} == {packages[0]["version"]}
    assert all(package["publish"] == [] for package in packages)


def test_a_forbidden_arrow_is_found() -> None:
    # The check itself, on a table that breaks the rule.
    package = {"name": "treadle-core", "dependencies": [{"name": "treadle-team", "kind": None}]}
    ((source, target),) = edges([package], {None})
    assert target.removeprefix("treadle-") not in ALLOWED[source]
