"""``treadle.linalg.Linalg`` is shown under the name that people write, ``engine.linalg``."""

from __future__ import annotations

from typing import Any

from sphinx import addnodes


def _rename(app: Any, doctree: Any) -> None:
    for signature in doctree.findall(addnodes.desc_signature):
        if signature.get("fullname") == "Linalg":
            for kind, text in ((addnodes.desc_addname, "engine."), (addnodes.desc_name, "linalg")):
                for node in list(signature.findall(kind)):
                    node.replace_self(kind(text, text))
            signature["_toc_name"] = "engine.linalg"


def setup(app: Any) -> dict[str, bool]:
    """Register the renaming, before the table of contents is made."""
    app.connect("doctree-read", _rename, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
