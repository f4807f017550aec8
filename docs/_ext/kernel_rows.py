"""The micro-kernels of the build as rows of two tables."""

from __future__ import annotations

from treadle import _native

#: The best set of a processor first.
_ORDER = ("avx512", "avx2", "neon", "scalar")


def isas() -> list[str]:
    """The instruction sets that the build holds kernels for."""
    found = {kernel["isa"] for kernel in _native._kernel_table()}
    return sorted(found, key=_ORDER.index)


def tiles() -> list[list[str]]:
    """A line for each dtype: its name, and rows x columns of its tile on each of the sets."""
    found: dict[str, dict[str, str]] = {}
    for kernel in _native._kernel_table():
        found.setdefault(kernel["dtype"], {})[kernel["isa"]] = f"{kernel['mr']} x {kernel['nr']}"
    return [[dtype, *(sizes.get(isa, "") for isa in isas())] for dtype, sizes in found.items()]


def best() -> str:
    """The set that an engine takes by itself on this machine."""
    has = {kernel["isa"] for kernel in _native._kernel_table() if kernel["available"]}
    return min(has, key=_ORDER.index)


def blocks() -> list[list[str]]:
    """A line for each dtype on that set: its name, and MC, NC and KC."""
    return [
        [kernel["dtype"], *(str(kernel[name]) for name in ("mc", "nc", "kc"))]
        for kernel in _native._kernel_table()
        if kernel["isa"] == best()
    ]


def machine() -> str:
    """What the blocks follow from."""
    levels = (f"{level.upper()} {size / 1024:g} KiB" for level, size in _native._caches().items())
    return f"{best()}, {', '.join(levels)}"
