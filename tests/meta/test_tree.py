"""Guards on the tree itself. Each asserts how many things it looked at."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOMS = ("core", "team", "kernels", "strided", "contract", "linalg", "engine", "lanes", "python", "testkit")
#: A longer file needs a second file with a better name, or a reason in this table.
LONGEST = 800
LONGER: dict[str, str] = {}


def ignored(repository: Path, paths: list[Path]) -> set[Path]:
    """What git ignores of them: environments and build folders. Where there is no repository, folders named like these."""
    if not (repository / ".git").exists():
        return {path for path in paths if {".venv", "target", "build"} & set(path.relative_to(repository).parts)}
    names = "\0".join(str(path.relative_to(repository)) for path in paths)
    found = subprocess.run(
        ["git", "check-ignore", "--stdin", "-z"],
        cwd=repository,
        input=names,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.returncode in (0, 1), found.stderr  # 1: none is ignored
    return {repository / name for name in found.stdout.split("\0") if name}


def sources(repository: Path) -> list[Path]:
    paths = [
        path
        for folder, pattern in (
            ("rust", "*.rs"),
            ("python", "*.py"),
            ("tests", "*.py"),
            ("benches", "*.py"),
            ("benches", "*.rs"),
        )
        for path in sorted((repository / folder).rglob(pattern))
    ]
    left_out = ignored(repository, paths)
    return [path for path in paths if path not in left_out]


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_says_what_it_is_for(repository: Path, room: str) -> None:
    text = (repository / "rust" / room / "README.md").read_text(encoding="utf-8")
    assert len(text.split()) >= 6, f"rust/{room}/README.md has {len(text.split())} words"


def test_files_are_short(repository: Path) -> None:
    lengths = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(repository)
    }
    assert len(lengths) >= 60
    long = {name: count for name, count in lengths.items() if count > LONGEST and name not in LONGER}
    assert long == {}
    stale = [name for name in LONGER if lengths.get(name, 0) <= LONGEST]
    assert stale == []
    median = sorted(lengths.values())[len(lengths) // 2]
    assert median <= 250


def test_ignored_folders_are_not_looked_at(repository: Path) -> None:
    native = repository / "benches" / "peers" / "native"
    kept, made = native / "src" / "main.rs", native / "target" / "release" / "made.rs"
    environment = repository / "benches" / "peers" / ".venv" / "lib" / "utils.py"
    assert ignored(repository, [kept, made, environment]) == {made, environment}
    assert not any({".venv", "target"} & set(path.relative_to(repository).parts) for path in sources(repository))


def test_no_file_is_a_drawer(repository: Path) -> None:
    names = [path.stem for path in sources(repository)]
    assert len(names) >= 60
    assert set(names).isdisjoint({"utils", "util", "helpers", "misc", "common"})


def test_nothing_unfinished_and_no_machine_in_the_text(repository: Path) -> None:
    wrong = re.compile(r"\bTO" + r"DO\b|\bFIX" + r"ME\b|raise NotImplemented" + r"Error|/ro" + r"ot/|/wo" + r"rk/")
    looked = 0
    found = []
    contenders = repository / "benches" / "peers" / "contenders"
    for path in sources(repository):
        looked += 1
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            # There it is an answer, which the tables show: the peer does not do what it was asked.
            answers = path.parent == contenders and line.endswith('Error("does not do this")')
            if wrong.search(line) and not answers:
                found.append(f"{path.relative_to(repository)}:{number}: {line.strip()}")
    assert looked >= 60
    assert found == []


def test_no_room_reads_the_environment_or_starts_a_nameless_thread(repository: Path) -> None:
    # Widths come from the caller, and a thread has a name and a stack size: std::thread::Builder.
    wrong = re.compile(r"env::var|thread::spawn\(|\brayon\b|ThreadPoolBuilder", re.IGNORECASE)
    files = sorted((repository / "rust").glob("*/src/**/*.rs"))
    assert len(files) >= 40
    found = []
    for path in files:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip() == "#[cfg(test)]":
                break
            if wrong.search(line) and not line.lstrip().startswith("//"):
                found.append(f"{path.relative_to(repository)}:{number}: {line.strip()}")
    assert found == []


def test_every_unsafe_block_says_why_it_is_sound(repository: Path) -> None:
    # clippy denies a block without a comment; this guards that the lint stays on, in every room.
    workspace = tomllib.loads((repository / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert workspace["lints"]["clippy"]["undocumented_unsafe_blocks"] == "deny"
    assert workspace["lints"]["clippy"]["missing_safety_doc"] == "deny"
    assert workspace["lints"]["rust"]["unsafe_op_in_unsafe_fn"] == "deny"
    for room in ROOMS:
        manifest = tomllib.loads((repository / "rust" / room / "Cargo.toml").read_text(encoding="utf-8"))
        assert manifest["lints"] == {"workspace": True}, room


def test_no_rayon_in_the_lock_file(repository: Path) -> None:
    lock = tomllib.loads((repository / "Cargo.lock").read_text(encoding="utf-8"))
    names = {package["name"] for package in lock["package"]}
    assert len(names) >= 30
    assert "faer" in names
    assert names.isdisjoint({"rayon", "rayon-core"})


def test_the_build_is_for_every_machine(repository: Path) -> None:
    # Kernels are chosen at run time: a flag for one processor must not slip into the build.
    assert not (repository / ".cargo" / "config.toml").exists()
    for name in ("Cargo.toml", "Makefile", "pyproject.toml"):
        assert "target-cpu" not in (repository / name).read_text(encoding="utf-8")
