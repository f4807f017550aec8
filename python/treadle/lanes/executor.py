"""``LaneExecutor``: lanes behind the interface of :mod:`concurrent.futures`."""

from __future__ import annotations

import contextlib
import logging
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from .. import _native
from ..exceptions import LaneError
from .local import check_lanes
from .pool import Lanes
from .service import LaneFuture, Service, prune

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("concurrent.futures")


class LaneExecutor(Executor):
    """A :class:`concurrent.futures.Executor` over lanes, for code that wants ``submit`` and futures.

    A call runs as ``fn(*args, **kwargs)`` in whichever lane is free, in the order of the submits; ``fn`` finds the
    lane's engine in :func:`current_lane`. The lanes are in use from here until :meth:`shutdown`.

    Parameters
    ----------
    lanes : Lanes
        The lanes. Their number is the number of calls that run at once.
    initializer : callable, optional
        Called as ``initializer(*initargs)`` once in each lane before its first call. When it raises, the executor is
        broken: what waits, and each later submit, gets :exc:`concurrent.futures.BrokenExecutor`.
    initargs : tuple, optional
        Its arguments.

    Raises
    ------
    LaneError
        The lanes are in use or closed.
    LaneThreadError
        A lane's thread could not be started.

    See Also
    --------
    map_in_lanes : Ordered results, lowest failing index, checkpoints, and far less cost for each item.

    Notes
    -----
    It behaves as :class:`concurrent.futures.ThreadPoolExecutor` does, but for these points:

    - Lanes start at once and are never more or fewer; calls carry a copy of the context variables of their submit.
    - ``result()`` and ``exception()`` without a timeout, asked inside a lane for a call that no lane has begun, run the
      call there and then. So calls may submit calls and wait for them at any depth. Calls that wait for each other in a
      circle are a ``LaneError``. (:func:`concurrent.futures.wait` knows nothing of this, and can wait for ever there.)
    - ``shutdown(cancel_futures=True)`` also cancels the lanes' ``control``, for running calls that look at it.
    - Leaving a ``with`` block by ``KeyboardInterrupt`` or ``SystemExit`` cancels what has not begun; so does Ctrl-C
      while :meth:`shutdown` waits.
    - A process that was forked cannot submit (``ForkedEngineError``), and a child that was forked by a call ends with it.

    The interpreter ends when all submitted calls have; a call that waits on its ``control`` without a timeout is
    released then.

    Examples
    --------
    >>> import treadle as td
    >>> with td.Lanes([td.CpuEngine.serial(), td.CpuEngine.serial()]) as lanes, td.LaneExecutor(lanes) as executor:
    ...     future = executor.submit(lambda x: td.current_lane().engine.dot(x, x), [1.0, 2.0])
    ...     float(future.result()), list(executor.map(pow, [2, 3], [5, 2]))
    (5.0, [32, 9])
    """

    def __init__(
        self,
        lanes: _native.Lanes,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: tuple[Any, ...] = (),
    ) -> None:
        check_lanes(lanes)
        if initializer is not None and not callable(initializer):
            raise TypeError(f"initializer must be callable, not {type(initializer).__qualname__}")
        prune()
        self._service = service = Service(lanes, initializer, tuple(initargs))
        service.start()
        #: As ThreadPoolExecutor has it; other packages read it.
        self._max_workers = len(lanes)
        if isinstance(lanes, Lanes):
            lanes._last_user = weakref.ref(service)
        # Dropped without a shutdown: the lanes do what was submitted and end.
        weakref.finalize(self, service.close).atexit = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have ``fn(*args, **kwargs)`` called in a lane.

        Parameters
        ----------
        fn : callable
            What is called.
        *args, **kwargs
            Its arguments.

        Returns
        -------
        concurrent.futures.Future
            Of what it returns or raises.

        Raises
        ------
        RuntimeError
            After :meth:`shutdown`, or when the interpreter ends.
        concurrent.futures.BrokenExecutor
            The initializer or a lane has failed.

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes, td.LaneExecutor(lanes) as executor:
        ...     executor.submit(pow, 2, exp=5).result()
        32
        """
        future: LaneFuture[T] = LaneFuture()
        self._service.put(future, fn, args, kwargs)
        return future

    def shutdown(
        self,
        wait: bool = True,  # noqa: FBT001 - as Executor has it
        *,
        cancel_futures: bool = False,
    ) -> None:
        """Take no further calls, and give the lanes back when those that were submitted have ended.

        Parameters
        ----------
        wait : bool, optional
            Return when all lanes have ended and were joined.
        cancel_futures : bool, optional
            Cancel the calls that have not begun, and the ``control`` of those that run.

        Raises
        ------
        LaneError
            With ``wait=True`` from inside one of the lanes, which cannot wait for itself. The executor is shut down.

        Examples
        --------
        >>> import treadle as td
        >>> with td.Lanes([td.CpuEngine.serial()]) as lanes:
        ...     executor = td.LaneExecutor(lanes)
        ...     future = executor.submit(pow, 2, 5)
        ...     executor.shutdown()
        ...     future.done(), lanes.busy
        (True, False)
        """
        self._service.close(cancel=cancel_futures)
        if wait:
            self._service.join()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stops = kind is not None and not issubclass(kind, Exception)
        try:
            self.shutdown(cancel_futures=stops)
        except LaneError:
            if kind is None:
                raise

    @property
    def _broken(self) -> str | None:
        return self._service.broken

    def __repr__(self) -> str:
        with contextlib.suppress(AttributeError):
            return f"<LaneExecutor: {self._max_workers} lanes, {self._service.state}>"
        return "<LaneExecutor: not made>"
