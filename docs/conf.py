"""Configuration of the pages."""

import sys
from pathlib import Path

import treadle

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "treadle"
author = "the treadle developers"
copyright = "the treadle developers"
version = release = treadle.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "engine_linalg",
    "error_table",
    "kernel_table",
]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"treadle {version}"
html_static_path: list[str] = []

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
