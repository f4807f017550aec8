"""Directive ``error-table``: the classes of ``treadle.exceptions``, with what a caller may catch instead."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive
from error_rows import pieces, rows


class ErrorTable(Directive):
    """A table with one line a class."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        heads = ("class", "code", "is also", "when")
        table = nodes.table()
        group = nodes.tgroup(cols=len(heads))
        table += group
        group += [nodes.colspec(colwidth=width) for width in (20, 20, 25, 60)]
        head, body = nodes.thead(), nodes.tbody()
        group += [head, body]
        head += self._row(heads, literal=0)
        for row in rows():
            body += self._row(row, literal=3)
        return [table]

    @staticmethod
    def _row(cells: tuple[str, ...], literal: int) -> nodes.row:
        row = nodes.row()
        for position, text in enumerate(cells):
            cut = [(True, text)] if position < literal and text else pieces(text)
            inner = [nodes.literal(part, part) if code else nodes.inline(part, part) for code, part in cut]
            row += nodes.entry("", nodes.paragraph("", "", *inner))
        return row


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("error-table", ErrorTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
