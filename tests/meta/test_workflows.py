"""The workflows cannot run here: they are read, and held to what a release needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

FILES = ("ci.yml", "wheels.yml")


def load(repository: Path, name: str) -> dict[Any, Any]:
    return yaml.safe_load((repository / ".github" / "workflows" / name).read_text(encoding="utf-8"))


def test_every_workflow_is_looked_at(repository: Path) -> None:
    assert sorted(path.name for path in (repository / ".github" / "workflows").iterdir()) == sorted(FILES)


@pytest.mark.parametrize("name", FILES)
def test_rights_are_stated_and_gates_can_fail(repository: Path, name: str) -> None:
    workflow = load(repository, name)
    assert workflow["permissions"] == {"contents": "read"}
    assert len(workflow["jobs"]) >= 2
    for job in workflow["jobs"].values():
        assert "continue-on-error" not in job
        assert all("continue-on-error" not in step for step in job.get("steps", []))
        assert job["timeout-minutes"] <= 120


@pytest.mark.parametrize("name", FILES)
def test_one_job_needs_all_and_fails_on_a_skipped_one(repository: Path, name: str) -> None:
    jobs = load(repository, name)["jobs"]
    success = jobs["success"]
    assert set(success["needs"]) == set(jobs) - {"success", "release"}
    assert success["if"] == "always()"


def test_wheels_are_built_for_every_promised_machine(repository: Path) -> None:
    jobs = load(repository, "wheels.yml")["jobs"]
    found = {(row["os"], row["target"]) for row in jobs["wheels"]["strategy"]["matrix"]["include"]}
    systems = {name.split("-")[0] for name, _ in found}
    assert systems == {"ubuntu", "macos", "windows"}
    for system in systems:
        targets = {target.split("-")[0] for name, target in found if name.startswith(system)}
        assert targets == {"x86_64", "aarch64"}, system
