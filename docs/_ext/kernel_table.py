"""Directives ``kernel-tiles`` and ``kernel-blocks``: the table of micro-kernels that the extension module holds."""

from __future__ import annotations

from typing import Any, ClassVar

import kernel_rows
from docutils import nodes
from docutils.parsers.rst import Directive
from plain_table import table


def _cells(rows: list[list[str]]) -> list[list[list[nodes.Node]]]:
    return [
        [[nodes.literal(dtype, dtype)], *([nodes.inline(text, text)] for text in numbers)] for dtype, *numbers in rows
    ]


class KernelTiles(Directive):
    """The tile of every dtype on every instruction set of the build."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Build the table."""
        heads = ("dtype", *kernel_rows.isas())
        return [table(heads, [20] * len(heads), _cells(kernel_rows.tiles()))]


class KernelBlocks(Directive):
    """The blocks of every dtype on the machine that builds the pages."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Build the table and the line above it."""
        text = f"On the machine that made this page ({kernel_rows.machine()}):"
        rows = table(("dtype", "MC", "NC", "KC"), [20] * 4, _cells(kernel_rows.blocks()))
        return [nodes.paragraph(text, text), rows]


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("kernel-tiles", KernelTiles)
    app.add_directive("kernel-blocks", KernelBlocks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
