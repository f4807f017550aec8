"""The sweep as a table, as JSON and as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from treadle.demo.onsager import CRITICAL_TEMPERATURE, CRITICAL_WIDTH, exact

if TYPE_CHECKING:
    from pathlib import Path

    from treadle.demo.sweep import Sweep

__all__ = ["as_json", "as_table", "draw", "picture_format"]

_QUANTITIES = (
    ("free_energy", "free energy f", "f"),
    ("energy", "energy e", "e"),
    ("specific_heat", "specific heat c", "c"),
)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def as_table(sweep: Sweep) -> str:
    """Table of the sweep: a line a temperature, each quantity beside its deviation from the exact one."""
    lines = [
        "2-D Ising model, square lattice, tensor renormalisation group",
        f"bond dimension {sweep.bond_dimension}, 2^{sweep.steps} spins, "
        f"{_counted(len(sweep.temperatures), 'temperature')}, {_counted(len(sweep.lanes), 'rank')}, "
        f"{sweep.seconds:.1f} s",
        "",
        f"{'T':>9}" + "".join(f"{symbol:>13}{'- exact':>10}" for _, _, symbol in _QUANTITIES),
    ]
    for temperature, ours, theirs in zip(sweep.temperatures, sweep.computed, sweep.exact, strict=True):
        cells = "".join(
            f"{value:13.8f}{value - reference:10.1e}" for value, reference in zip(ours, theirs, strict=True)
        )
        lines.append(f"{temperature:9.5f}{cells}")
    lines.append("")
    lines.append(f"largest deviation from Onsager's solution (critical temperature {CRITICAL_TEMPERATURE:.5f}):")
    for name, title, _ in _QUANTITIES:
        near = len(sweep.near_critical(name))
        if near == len(sweep.temperatures):
            text = "none"
        else:
            deviation, temperature = sweep.largest_deviation(name)
            text = f"{deviation:.1e} at T = {temperature:.5f}"
        if near:
            text += f", leaving out {_counted(near, 'temperature')} within {CRITICAL_WIDTH:g} of the critical one, "
            text += "where the exact value diverges"
        lines.append(f"  {title:<16} {text}")
    lines.append("")
    for rank, lanes in enumerate(sweep.lanes):
        for lane in lanes:
            where = f"rank {rank}, " if len(sweep.lanes) > 1 else ""
            lines.append(
                f"{where}lane {lane['index']}: {_counted(lane['threads'], 'thread')}, "
                f"{_counted(sweep.places.count((rank, lane['index'])), 'temperature')}"
            )
    return "\n".join(lines)


def as_json(sweep: Sweep) -> dict[str, object]:
    """The sweep as plain values; an infinite specific heat (at the critical temperature) becomes None."""

    def column(rows: tuple[tuple[float, ...], ...], index: int) -> list[float | None]:
        return [row[index] if math.isfinite(row[index]) else None for row in rows]

    return {
        "model": "2-D Ising, square lattice",
        "method": "tensor renormalisation group",
        "bond_dimension": sweep.bond_dimension,
        "steps": sweep.steps,
        "ranks": len(sweep.lanes),
        "lanes": [
            {
                "rank": rank,
                "lane": lane["index"],
                "threads": lane["threads"],
                "temperatures": sweep.places.count((rank, lane["index"])),
            }
            for rank, lanes in enumerate(sweep.lanes)
            for lane in lanes
        ],
        "seconds": sweep.seconds,
        "critical_temperature": CRITICAL_TEMPERATURE,
        "temperatures": list(sweep.temperatures),
        "computed": {name: column(sweep.computed, i) for i, (name, _, _) in enumerate(_QUANTITIES)},
        "exact": {name: column(sweep.exact, i) for i, (name, _, _) in enumerate(_QUANTITIES)},
    }


def picture_format(path: Path) -> str:
    """Format that a picture's name asks for, PNG without a suffix; ValueError where matplotlib does not write it."""
    from matplotlib.backend_bases import FigureCanvasBase

    wanted = path.suffix.removeprefix(".").lower()
    known = FigureCanvasBase.get_supported_filetypes()
    if wanted and wanted not in known:
        # The usual ones first.
        listed = sorted(known, key=lambda name: (name not in ("png", "pdf", "svg"), name))
        msg = f"{path}: matplotlib writes {', '.join(listed)}, not {wanted}"
        raise ValueError(msg)
    return wanted or "png"


def draw(sweep: Sweep, path: Path) -> None:
    """Draw the three quantities, computed and exact, and the deviations. Needs matplotlib."""
    from matplotlib.figure import Figure

    low, high = min(sweep.temperatures), max(sweep.temperatures)
    margin = 0.03 * (high - low) or 0.1
    grid = np.linspace(max(low - margin, low / 2), high + margin, 400)
    curves = [exact(float(temperature)) for temperature in grid]
    figure = Figure(figsize=(10.5, 5.6), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True, height_ratios=[3, 1])
    for column, (name, title, symbol) in enumerate(_QUANTITIES):
        ours = np.array([getattr(row, name) for row in sweep.computed])
        theirs = np.array([getattr(row, name) for row in sweep.exact])
        top, bottom = axes[0, column], axes[1, column]
        top.plot(grid, [getattr(row, name) for row in curves], color="0.55", linewidth=1.5, label="exact (Onsager)")
        top.plot(sweep.temperatures, ours, "o", color="#b5442d", markersize=4, label="treadle")
        top.set_title(f"{title} per site")
        if name == "specific_heat":
            top.set_ylim(0, 1.2 * float(ours.max()))
        finite = np.isfinite(theirs) & (ours != theirs)
        bottom.semilogy(
            np.array(sweep.temperatures)[finite],
            np.abs(ours - theirs)[finite],
            ".",
            color="#b5442d",
        )
        bottom.set_ylabel(f"|{symbol} - exact|")
        bottom.set_xlabel("temperature  (J / k$_B$)")
        for axis in (top, bottom):
            if low < CRITICAL_TEMPERATURE < high:
                axis.axvline(CRITICAL_TEMPERATURE, color="0.8", linewidth=1, zorder=0)
            axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False)
    figure.suptitle(
        f"2-D Ising model by tensor renormalisation, bond dimension {sweep.bond_dimension}, 2$^{{{sweep.steps}}}$ spins"
    )
    figure.savefig(path, format=picture_format(path), dpi=110)
