"""The sweep: every temperature is an item, every lane an engine, every rank its own lanes."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import treadle as td
from treadle.demo.onsager import CRITICAL_TEMPERATURE, CRITICAL_WIDTH, exact
from treadle.demo.trg import Observables, observables

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Sweep", "run_sweep"]


class Sweep(NamedTuple):
    """A finished sweep, in the order of its temperatures."""

    temperatures: tuple[float, ...]
    computed: tuple[Observables, ...]
    exact: tuple[Observables, ...]
    bond_dimension: int
    steps: int
    #: What ``lanes.describe()`` says after the sweep, for each rank.
    lanes: tuple[list[dict[str, Any]], ...]
    #: Rank and lane that computed each temperature.
    places: tuple[tuple[int, int], ...]
    seconds: float

    def near_critical(self, quantity: str) -> tuple[float, ...]:
        """Temperatures at which a quantity is not compared with the exact solution.

        Parameters
        ----------
        quantity : str
            ``"free_energy"``, ``"energy"`` or ``"specific_heat"``.

        Returns
        -------
        tuple of float
            For the specific heat, which diverges at the critical temperature, those within 1e-3 of it; else none.

        Examples
        --------
        >>> import treadle as td
        >>> from treadle.demo import run_sweep
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
        ...     sweep = run_sweep([2.0, 2.2692], lanes, bond_dimension=4, steps=8)
        >>> sweep.near_critical("energy"), sweep.near_critical("specific_heat")
        ((), (2.2692,))
        """
        if quantity != "specific_heat":
            return ()
        return tuple(value for value in self.temperatures if abs(value - CRITICAL_TEMPERATURE) <= CRITICAL_WIDTH)

    def largest_deviation(self, quantity: str) -> tuple[float, float]:
        """Largest absolute deviation of a quantity from the exact solution, and its temperature.

        Parameters
        ----------
        quantity : str
            ``"free_energy"``, ``"energy"`` or ``"specific_heat"``.

        Returns
        -------
        deviation, temperature : float
            The temperature is in units of J / k_B. Those of :meth:`near_critical` are left out; ValueError when
            none is left.

        Examples
        --------
        >>> import treadle as td
        >>> from treadle.demo import run_sweep
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
        ...     sweep = run_sweep([0.5, 5.0], lanes, bond_dimension=4, steps=16)
        >>> sweep.largest_deviation("energy")[0] < 1e-2
        True
        """
        near = self.near_critical(quantity)
        return max(
            (abs(getattr(ours, quantity) - getattr(theirs, quantity)), temperature)
            for temperature, ours, theirs in zip(self.temperatures, self.computed, self.exact, strict=True)
            if temperature not in near
        )


def _solve(
    temperature: float, engine: td.CpuEngine, *, bond_dimension: int, steps: int
) -> tuple[Observables, tuple[int, int]]:
    """One item: the observables, and the rank and lane that this runs on."""
    found = observables(temperature, engine, bond_dimension=bond_dimension, steps=steps)
    lane = td.current_lane()
    return found, (0, 0) if lane is None else (lane.rank or 0, lane.index)


def run_sweep(
    temperatures: Sequence[float],
    lanes: td.Lanes,
    *,
    bond_dimension: int = 12,
    steps: int = 24,
    comm: Any = None,
    progress: bool = False,
) -> Sweep | None:
    """Compute every temperature over the lanes, and over the ranks of ``comm`` where there is one.

    Parameters
    ----------
    temperatures : sequence of float, shape (N,)
        Temperatures, in units of J / k_B.
    lanes : Lanes
        The lanes of this rank.
    bond_dimension, steps : int
        As in :func:`treadle.demo.log_partition_per_site`.
    comm : mpi4py.MPI.Comm, optional
        Without it the sweep runs in this process.
    progress : bool
        Show a bar.

    Returns
    -------
    Sweep or None
        None on every rank but the root.

    Examples
    --------
    >>> import treadle as td
    >>> from treadle.demo import run_sweep
    >>> with td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()]) as lanes:
    ...     sweep = run_sweep([1.0, 4.0], lanes, bond_dimension=8, steps=16)
    >>> sweep.largest_deviation("free_energy")[0] < 1e-4
    True
    """
    solve = functools.partial(_solve, bond_dimension=bond_dimension, steps=steps)
    start = time.perf_counter()
    found: list[tuple[Observables, tuple[int, int]]] | None
    if comm is None:
        found = td.map_in_lanes(solve, temperatures, lanes, progress=progress)
        described = [lanes.describe()]
    else:
        found = td.pmap_lanes(solve, temperatures, lanes, comm=comm, progress=progress)
        described = comm.gather(lanes.describe())
    if found is None:
        return None
    return Sweep(
        temperatures=tuple(temperatures),
        computed=tuple(values for values, _ in found),
        exact=tuple(exact(temperature) for temperature in temperatures),
        bond_dimension=bond_dimension,
        steps=steps,
        lanes=tuple(described),
        places=tuple(place for _, place in found),
        seconds=time.perf_counter() - start,
    )
