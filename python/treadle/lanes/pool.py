"""``Lanes``: engines that are lent to lane threads, one run at a time."""

from __future__ import annotations

import atexit
import contextlib
import operator
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, SupportsIndex, TypeVar

from .. import _native
from ..exceptions import ArgumentError, LaneError, NoEngineError, OversubscriptionWarning
from .cpus import allowed_cpus

T = TypeVar("T")
C = TypeVar("C")

#: How long an interpreter that ends waits for the running items of other threads.
EXIT_SECONDS = 5.0

_made: weakref.WeakSet[Lanes] = weakref.WeakSet()


def end_bodies() -> None:
    """End the bodies of other threads' runs: the interpreter waits for these threads, and nobody else may end them."""
    _native.Lanes._threads_end()
    for lanes in list(_made):
        lanes._cancel_run(bodies_only=True)


# Before the interpreter waits for its other threads; what is only registered with atexit runs after that.
with contextlib.suppress(AttributeError, RuntimeError):
    threading._register_atexit(end_bodies)  # type: ignore[attr-defined]


@atexit.register
def _end_runs() -> None:
    """End the runs of daemon threads: Python kills a thread that still wants the interpreter after its end."""
    _native.Lanes._interpreter_ends()
    end = time.monotonic() + EXIT_SECONDS
    running = [lanes for lanes in list(_made) if lanes._cancel_run(bodies_only=False)]
    while any(lanes.busy for lanes in running) and time.monotonic() < end:
        time.sleep(1e-3)
    if running:
        # Their callers leave the run after its lanes are free again.
        time.sleep(1e-2)


class Lanes(_native.Lanes):
    """Lanes over engines of the caller's: lane ``i`` always has ``engines[i]``.

    A lane is one thread for the time of one run, and the engine lent to it. ``Lanes`` own no thread: a run starts
    one for each engine and joins them before it returns, so ``L`` lanes over engines of width ``W`` are exactly ``L``
    lane threads and ``L * (W - 1)`` workers. Engines stay warm between runs.

    Parameters
    ----------
    engines : iterable of engines
        One for each lane, all different. Widths may differ; a serial engine is fine.
    stack_bytes : int, optional
        The stack of a lane's thread.

    Attributes
    ----------
    engines : tuple
        The engines, in the order of the lanes.
    busy : bool
        Whether a run is using the lanes.
    closed : bool
        Whether the lanes were closed.

    Notes
    -----
    Lane threads carry a copy of the caller's context variables, the names "lane-0", "lane-1" and so on, and the
    trace and profile hooks of :mod:`threading`.

    A callback may fork. A child that comes back from the callback ends there, with status 0 (or 1 and a traceback
    after an exception): the run is the parent's. Lanes that a child inherits raise ``ForkedEngineError``.

    Examples
    --------
    >>> import treadle as td
    >>> with td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()]) as lanes:
    ...     td.map_in_lanes(lambda item, engine: item * item, range(5), lanes)
    [0, 1, 4, 9, 16]
    """

    _owned = False
    #: The last stream over these lanes, or the service of the last executor.
    _last_user: weakref.ref[Any] | None = None

    def __init__(self, engines: Iterable[Any], *, stack_bytes: int = 16 << 20) -> None:
        _made.add(self)
        threads = sum(row["threads"] for row in self.describe())
        cpus = len(allowed_cpus())
        if threads > cpus:
            warnings.warn(
                f"{len(self)} lanes have {threads} threads together, and this process may use {cpus} CPUs; give the "
                f"engines fewer threads, or make fewer lanes (Lanes.over() splits the CPUs)",
                OversubscriptionWarning,
                stacklevel=2,
            )

    @classmethod
    def over(
        cls,
        cpus: int | Iterable[int] | None = None,
        *,
        lanes: int | None = None,
        threads: int | None = None,
        pin: bool = False,
    ) -> Lanes:
        """Split CPUs into lanes of CPU engines, which belong to the lanes and are closed with them.

        Parameters
        ----------
        cpus : int or iterable of int, optional
            How many CPUs, or which ones; all that this process may use by default.
        lanes : int, optional
            How many lanes; as many as there are CPUs (or groups of ``threads`` CPUs) by default.
        threads : int, optional
            The width of each engine. By default the CPUs are split evenly, the first lanes taking what is over.
        pin : bool, optional
            Pin each engine's workers to CPUs of its own.

        Returns
        -------
        Lanes

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes.over(2, lanes=2) as lanes:
        ...     [engine.threads for engine in lanes.engines]
        [1, 1]
        """
        from .. import CpuEngine

        chosen = _chosen(cpus)
        lanes, threads = _count("lanes", lanes), _count("threads", threads)
        if not chosen:
            raise NoEngineError("cpus is empty; a lane needs at least one CPU")
        if lanes is None:
            lanes = max(1, len(chosen) // (threads or 1))
        if threads is None:
            share, over = divmod(len(chosen), lanes)
            widths = [max(1, share + (index < over)) for index in range(lanes)]
        else:
            widths = [threads] * lanes
        if pin and sum(widths) > len(chosen):
            raise ArgumentError(
                f"pin=True needs a CPU for each thread: {sum(widths)} threads and {len(chosen)} CPUs; "
                f"use fewer lanes or threads, or pin=False"
            )
        engines: list[Any] = []
        try:
            first = 0
            for width in widths:
                affinity = chosen[first : first + width] if pin else None
                engines.append(CpuEngine(threads=width, affinity=affinity))
                first += width
            made = cls(engines)
        except BaseException:
            for engine in engines:
                engine.close()
            raise
        made._owned = True
        return made

    def close(self) -> None:
        """Refuse further runs, and close the engines if they belong to the lanes. Closing twice is nothing.

        Examples
        --------
        >>> import treadle as td
        >>> engine = td.CpuEngine.serial()
        >>> lanes = td.Lanes([engine])
        >>> lanes.close()
        >>> lanes.closed, engine.state
        (True, 'open')
        """
        if self._close() and self._owned:
            for engine in self.engines:
                engine.close()

    def __enter__(self) -> Self:
        if self.closed:
            raise LaneError("the lanes were closed; make new Lanes over open engines")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # An iterator of imap_in_lanes or an executor that is still at hand ends here; otherwise the refusal to close
        # lanes in use would hide the exception that leaves the block.
        user = None if self._last_user is None else self._last_user()
        try:
            if user is not None:
                # Another thread that is inside a stream's next() keeps it; then the lanes refuse to close. And what a
                # checkpoint has to say hides no exception that leaves the block.
                with contextlib.suppress(ValueError, *(() if kind is None else (LaneError,))):
                    if hasattr(user, "leave"):
                        user.leave(failed=kind is not None)
                    else:
                        user.close()
        finally:
            self.close()

    def describe(self) -> list[dict[str, Any]]:
        """Return what each lane is and has done.

        Returns
        -------
        list of dict
            For each lane ``index``, ``threads``, ``items`` (items or bodies that were run, over all runs) and
            ``busy_seconds`` (time in them). A map across ranks counts this rank's items.

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
        ...     squares = td.map_in_lanes(lambda item, engine: item * item, range(5), lanes)
        ...     [(row["index"], row["threads"], row["items"]) for row in lanes.describe()]
        [(0, 1, 5)]
        """
        return super().describe()

    def run(self, body: Callable[[_native.Lane], T]) -> list[T]:
        """Call ``body(lane)`` once in each lane.

        Parameters
        ----------
        body : callable
            Gets a ``Lane`` with ``index``, ``engine``, ``control`` and ``rank``.

        Returns
        -------
        list
            The values, in the order of the lanes.

        Raises
        ------
        LaneTaskError
            A body raised. All lanes were joined; the error is that of the lowest lane (one that raised
            ``LaneCancelledError`` counts only when no other failed), which stands in ``index`` and ``lane``.
        LaneThreadError
            A thread could not be started; the lanes that were started have been cancelled and joined.

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()]) as lanes:
        ...     lanes.run(lambda lane: lane.index)
        [0, 1]
        """
        return super().run(body)

    def run_with_coordinator(
        self, body: Callable[[_native.Lane], T], coordinator: Callable[[_native.LaneControl], C]
    ) -> tuple[C, list[T]]:
        """Call ``body(lane)`` in each lane while ``coordinator(control)`` runs on the calling thread.

        When the coordinator leaves, by return or by exception, the control is cancelled and the lanes are joined. It
        is also cancelled by a lane that raises and by ``control.cancel()``; a coordinator that waits on the control
        is released by those, and when every lane has ended.

        Parameters
        ----------
        body : callable
            As in :meth:`run`.
        coordinator : callable
            Gets the ``LaneControl`` of the run.

        Returns
        -------
        tuple
            The coordinator's value, and the list of the lanes' values.

        Raises
        ------
        LaneTaskError
            A body raised, as in :meth:`run`.
        Exception
            What the coordinator raised, when every lane ended cleanly.

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
        ...     lanes.run_with_coordinator(lambda lane: lane.control.wait(10), lambda control: "done")
        ('done', [True])
        """
        return super().run_with_coordinator(body, coordinator)

    def __repr__(self) -> str:
        widths = ", ".join(str(row["threads"]) for row in self.describe())
        state = "closed" if self.closed else "busy" if self.busy else "open"
        return f"<Lanes: {len(self)} of widths {widths}, {state}>"


def _count(name: str, value: Any) -> int | None:
    """Return an option that counts something."""
    if value is None:
        return None
    try:
        count = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer or None, not {type(value).__qualname__}") from None
    if count < 1:
        raise ArgumentError(f"{name} is {count}; it must be at least 1")
    return count


def _chosen(cpus: int | Iterable[int] | None) -> list[int]:
    """Return the CPUs to split."""
    allowed = allowed_cpus()
    if cpus is None:
        return allowed
    if isinstance(cpus, SupportsIndex):
        cpus = operator.index(cpus)
        if cpus < 1:
            raise ArgumentError(f"cpus is {cpus}; it must be at least 1")
        if cpus > len(allowed):
            raise ArgumentError(f"cpus is {cpus}, and this process may use {len(allowed)}: {allowed}")
        return allowed[:cpus]
    chosen = list(cpus)
    for cpu in chosen:
        if cpu not in allowed:
            raise ArgumentError(f"CPU {cpu!r} is not among those that this process may use: {allowed}")
    if len(set(chosen)) != len(chosen):
        raise ArgumentError(f"cpus names a CPU twice: {chosen}")
    return chosen
