"""A table of docutils from rows of cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from docutils import nodes


def table(heads: Sequence[str], widths: Sequence[int], rows: Iterable[Sequence[Sequence[nodes.Node]]]) -> nodes.table:
    """The table; a cell is what stands in its paragraph."""
    found = nodes.table()
    group = nodes.tgroup(cols=len(heads))
    found += group
    group += [nodes.colspec(colwidth=width) for width in widths]
    head, body = nodes.thead(), nodes.tbody()
    group += [head, body]
    head += _row([[nodes.inline(text, text)] for text in heads])
    body += [_row(cells) for cells in rows]
    return found


def _row(cells: Sequence[Sequence[nodes.Node]]) -> nodes.row:
    row = nodes.row()
    row += [nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells]
    return row
