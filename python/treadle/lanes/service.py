"""What the lanes of a ``LaneExecutor`` do: take calls from a queue until it ends."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future
from typing import Any, TypeVar

from .. import _native
from ..exceptions import ForkedEngineError, LaneError
from .pool import end_bodies
from .thread import end_forked_child

T = TypeVar("T")

_log = logging.getLogger("concurrent.futures")

#: Services whose lanes may still run; they are joined before the interpreter ends.
_running: set[Service] = set()
#: Whether the interpreter ends.
_ending = False


def _end_all() -> None:
    """Let all lanes do what was submitted, and join them: Python kills a thread that wants it after its end."""
    global _ending
    _ending = True
    end_bodies()
    for service in list(_running):
        service.close()
    for service in list(_running):
        service.join()


# Before the interpreter waits for its other threads: one of them may wait for a call.
try:
    threading._register_atexit(_end_all)  # type: ignore[attr-defined]
except (AttributeError, RuntimeError):
    atexit.register(_end_all)


def prune() -> None:
    """Forget the services whose lanes have ended."""
    for service in list(_running):
        if service.over:
            _running.discard(service)


class Claim:
    """Whose a call is: a lane's, or nobody's (``None``) when it was dropped."""

    __slots__ = ("lane",)

    def __init__(self, lane: int | None) -> None:
        self.lane = lane


class LaneFuture(Future[T]):
    """A future that a lane does not wait for while it could do the work itself."""

    #: The call while nobody has claimed it.
    _call: Call | None = None
    #: Who does the calls.
    _service: Service | None = None
    #: Under ``"lane"``, the lane that has claimed the call. A dictionary, for its ``setdefault`` is one step.
    _claim: dict[str, Claim]

    def result(self, timeout: float | None = None) -> T:
        """As ``Future.result``; see ``LaneExecutor``."""
        if timeout is not None or self._service is None:
            return super().result(timeout)
        with self._service.waiting_for(self):
            return super().result()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As ``Future.exception``; see ``LaneExecutor``."""
        if timeout is not None or self._service is None:
            return super().exception(timeout)
        with self._service.waiting_for(self):
            return super().exception()


class Call:
    """One submitted call."""

    __slots__ = ("args", "context", "fn", "future", "kwargs")

    def __init__(self, future: LaneFuture[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.future, self.fn, self.args, self.kwargs = future, fn, args, kwargs
        self.context = contextvars.copy_context()

    def run(self) -> None:
        """Call it and settle the future."""
        future = self.future
        # What a callback of the future raises, beyond Exception, is nothing that a lane may end with.
        try:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = self.context.run(self.fn, *self.args, **self.kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        except BaseException:
            _log.exception("exception while a future was settled")
        finally:
            # An exception holds its frames, and this one would hold the exception.
            del self, future


class Service:
    """The queue of an executor and the run that serves it. Holds no reference to the executor."""

    def __init__(
        self, lanes: _native.Lanes, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
    ) -> None:
        self.lanes = lanes
        self.initializer, self.initargs = initializer, initargs
        self.calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        # A collection of garbage may end a dropped executor, in the middle of anything.
        self.lock = threading.RLock()
        self.closed = False
        self.broken: str | None = None
        self.run: _native._LaneRun | None = None
        self.pid = os.getpid()
        #: What each lane waits for.
        self.waits: dict[int, LaneFuture[Any]] = {}

    def start(self) -> None:
        """Start the lanes."""
        if _ending:
            raise LaneError("the interpreter is ending; no lanes start now")
        self.run = _native._start_lanes(self.lanes, self._serve, self._lane_failed)
        _running.add(self)

    @property
    def over(self) -> bool:
        """Whether every lane has ended."""
        return self.run is None or self.run.control._lanes_running == 0 or os.getpid() != self.pid

    @property
    def state(self) -> str:
        """In a word."""
        return "broken" if self.broken else "shut down" if self.closed else "open"

    # --- from outside -----------------------------------------------------------------------------------------------

    def put(self, future: LaneFuture[Any], fn: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Queue a call."""
        if os.getpid() != self.pid:
            raise ForkedEngineError(
                "the process was forked after this executor was made; make one in the child, over its own lanes"
            )
        self._refuse()
        call = Call(future, fn, args, kwargs)
        future._call, future._service, future._claim = call, self, {}
        self.calls.put(call)
        if (self.closed or self.broken) and self._take(call, Claim(None)):
            # It came behind the words that end the lanes. Without a lock, since lanes would queue up for it.
            self._refuse()

    def _refuse(self) -> None:
        if self.broken:
            raise BrokenExecutor(self.broken)
        if _ending:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")
        if self.closed:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def close(self, *, cancel: bool = False) -> None:
        """Take no further calls; the lanes end when those that wait are done."""
        if os.getpid() != self.pid:
            self.closed = True
            return
        dropped: list[Call] = []
        with self.lock:
            was, self.closed = self.closed, True
            if cancel:
                dropped = self._drain()
            if cancel or not was:
                self._end_lanes()
        for call in dropped:
            call.future.cancel()
            # Those that wait for several futures at once hear of it by this.
            call.future.set_running_or_notify_cancel()
        if cancel and self.run is not None:
            self.run.control.cancel()

    def join(self) -> None:
        """Wait until the lanes have ended."""
        if self.run is not None and os.getpid() == self.pid:
            self.run.join(lambda: self.close(cancel=True))
            _running.discard(self)

    def leave(self, *, failed: bool) -> None:
        """The lanes are left: end with them."""
        self.close(cancel=failed)
        self.join()

    def _drain(self) -> list[Call]:
        """Take what waits."""
        calls, nobody = [], Claim(None)
        with contextlib.suppress(queue.Empty):
            while True:
                call = self.calls.get_nowait()
                if call is not None and self._take(call, nobody):
                    calls.append(call)
        return calls

    def _end_lanes(self) -> None:
        for _ in range(len(self.lanes)):
            self.calls.put(None)

    @staticmethod
    def _take(call: Call, claim: Claim) -> bool:
        """Make the call that claimant's, unless it is another's."""
        future = call.future
        if future._claim.setdefault("lane", claim) is not claim:
            return False
        future._call = None
        return True

    # --- in the lanes -----------------------------------------------------------------------------------------------

    def _serve(self, lane: _native.Lane) -> None:
        index = lane.index
        mine = Claim(index)
        try:
            if self.initializer is not None:
                try:
                    self.initializer(*self.initargs)
                except BaseException:
                    _log.critical("Exception in initializer:", exc_info=True)
                    self._break("the initializer of the executor failed in a lane")
                    return
            while True:
                call = self.calls.get()
                if call is None:
                    return
                if self._take(call, mine):
                    begun = time.perf_counter()
                    call.run()
                    if os.getpid() != self.pid:
                        end_forked_child(call.future.exception() if call.future.done() else None)
                    self.lanes._count(index, time.perf_counter() - begun)
                del call
        except BaseException:
            self._lane_failed()
            raise

    def _lane_failed(self) -> None:
        self._break("a lane of the executor failed")

    def _break(self, why: str) -> None:
        """Nothing is called any more; all that waits fails."""
        with self.lock:
            self.broken = self.broken or why
            dropped = self._drain()
            self._end_lanes()
        for call in dropped:
            if call.future.set_running_or_notify_cancel():
                call.future.set_exception(BrokenExecutor(why))

    @contextlib.contextmanager
    def waiting_for(self, future: LaneFuture[Any]) -> Any:
        """Wait for a call, and if one of the lanes does, run it first where nobody else has begun."""
        lane = None if future.done() else _native.current_lane()
        if lane is None or self.run is None or lane.control is not self.run.control:
            yield
            return
        call = future._call
        if call is not None and self._take(call, Claim(lane.index)):
            call.run()
            del call
            yield
            return
        del call
        with self.lock:
            self._refuse_circle(lane.index, future)
            before = self.waits.get(lane.index)
            self.waits[lane.index] = future
        try:
            yield
        finally:
            with self.lock:
                if before is None:
                    self.waits.pop(lane.index, None)
                else:
                    self.waits[lane.index] = before

    def _refuse_circle(self, lane: int, future: LaneFuture[Any]) -> None:
        """Refuse to wait for a call that waits, by way of others, for this lane; called with the lock."""
        awaited: LaneFuture[Any] | None = future
        while awaited is not None and not awaited.done():
            claim = awaited._claim.get("lane")
            if claim is None or claim.lane is None:
                return
            if claim.lane == lane:
                raise LaneError(
                    f"lane {lane} would wait for ever: the call that it asks for waits, itself or by way of others, for "
                    f"a call that this lane is in the middle of"
                )
            awaited = self.waits.get(claim.lane)
