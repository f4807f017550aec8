"""What the pages show is what happens: every example in README.md and docs/ runs."""

from __future__ import annotations

import doctest
import importlib
import io
import re
from pathlib import Path

import pytest

import treadle as td
from treadle import exceptions

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if "_build" not in page.parts]


def blocks(page: Path, *, interactive: bool) -> list[str]:
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [block for block in found if (">>> " in block) == interactive]


def test_the_pages_were_found() -> None:
    assert len(PAGES) >= 20
    assert sum(len(blocks(page, interactive=True)) for page in PAGES) >= 6


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, interactive=True)], ids=lambda page: page.stem)
def test_sessions_print_what_they_show(page: Path) -> None:
    text = "\n".join(blocks(page, interactive=True))
    case = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report = io.StringIO()
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failures, attempted = doctest.DocTestRunner(optionflags=flags, verbose=False).run(case, out=report.write)
    assert attempted >= 1
    assert failures == 0, report.getvalue()


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "index.md"], ids=lambda page: page.stem)
def test_the_ten_lines_run(page: Path) -> None:
    (script,) = blocks(page, interactive=False)
    names: dict[str, object] = {}
    exec(compile(script, str(page), "exec"), names)
    norms = names["norms"]
    assert isinstance(norms, list)
    # The largest singular value of A A^T is the square of that of A.
    assert len(norms) == 20
    for matrix, norm in zip(names["sweep"], norms, strict=True):  # type: ignore[call-overload]
        with td.CpuEngine.serial() as engine:
            assert norm == pytest.approx(float(engine.linalg.svd(matrix).S[0]) ** 2, rel=1e-12)
    for engine in names["engines"]:  # type: ignore[attr-defined]
        engine.close()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_files_that_pages_name_exist() -> None:
    named = {
        name for page in PAGES for name in re.findall(r"`((?:tests|benches|python|docs)/[\w/.]+)`", page.read_text())
    }
    assert len(named) >= 10
    # What a build makes is not in a fresh clone.
    named = {name for name in named if "_build" not in name}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    names = set(td.__all__) - set(exceptions.__all__) - {"__version__"}
    assert len(names) >= 10
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_the_error_table_has_every_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_ext"))
    table = importlib.import_module("error_rows")
    rows = table.rows()
    assert {name for name, *_ in rows} == set(exceptions.__all__)
    assert all(summary for *_, summary in rows)
    cut = [piece for *_, summary in rows for piece in table.pieces(summary)]
    assert sum(code for code, _ in cut) >= 3
    assert [text for _, text in cut if "`" in text] == []
    codes = [code for _, code, *_ in rows if code]
    assert len(codes) == len(set(codes)) >= 25


def test_every_room_has_a_page() -> None:
    rooms = {path.name for path in (ROOT / "rust").iterdir() if path.is_dir()}
    pages = {path.stem for path in (ROOT / "docs" / "dev").glob("*.md")} - {"rooms", "checks"}
    assert pages == rooms
    assert len(rooms) == 10
