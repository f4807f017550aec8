"""Directive ``error-table``: the classes of ``treadle.exceptions``, with what a caller may catch instead."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from error_rows import pieces, rows
from plain_table import table


class ErrorTable(Directive):
    """A table with one line a class."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        cells = [
            [*([nodes.literal(text, text)] if text else [] for text in names), self._sentence(summary)]
            for *names, summary in rows()
        ]
        return [table(("class", "code", "is also", "when"), (20, 20, 25, 60), cells)]

    @staticmethod
    def _sentence(text: str) -> list[nodes.Node]:
        return [nodes.literal(part, part) if code else nodes.inline(part, part) for code, part in pieces(text)]


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("error-table", ErrorTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
