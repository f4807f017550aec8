"""One rank of a map across ranks: its lanes, and the thread that talks to the root."""

from __future__ import annotations

import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Self

from .. import _native
from ..exceptions import InternalError, LaneCancelledError
from . import wire
from .outcome import DONE, FAILED, FATAL, SKIPPED, WIRE, Failed, item_text
from .wire import BROKEN, DRAIN, END, READY, RESULT, STOP, TASK, Wire, pack, unpack

#: The coordinator sleeps between these, the longer the longer nothing happens.
SHORTEST_SLEEP, LONGEST_SLEEP = 50e-6, 1e-3

#: An item that a lane has done: its index, how it ended, its value or failure, the value as it travels, the seconds.
Ended = tuple[int, int, Any, Any, float]


class Interrupts:
    """Keeps Ctrl-C away from the middle of a message; :meth:`look` runs the handler where nothing is half done."""

    def __init__(self) -> None:
        self._pending: list[tuple[Any, Any]] = []
        self._handler: Any = None
        self._installed = False

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self._handler = handler
                signal.signal(signal.SIGINT, lambda number, frame: self._pending.append((number, frame)))
                self._installed = True
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._handler)
            # What came after the last look is not lost.
            if (raised := self.look()) is not None:
                raise raised

    def look(self) -> BaseException | None:
        """Run the handler of what arrived; return what it raised."""
        raised = None
        while self._pending:
            try:
                self._handler(*self._pending.pop(0))
            except BaseException as error:
                raised = error
        return raised


class Lodge:
    """Items that wait for this rank's lanes, and what the lanes made of them."""

    def __init__(
        self,
        fn: Callable[[Any, Any], Any],
        *,
        retries: int,
        stop_on_error: bool,
        rank: int,
        lanes: int,
        count: Callable[[int, float], object],
    ) -> None:
        self._fn = fn
        #: Told the lane and the seconds of every item that ran.
        self._count = count
        self._retries = retries
        self._stop_on_error = stop_on_error
        self.rank = rank
        self._lanes = lanes
        self._queue: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._assigned: set[int] = set()
        self._cutoff = 1 << 62
        self.ended: deque[Ended] = deque()
        self.wake = threading.Event()
        self.control: Any = None
        #: The failures of this rank with their own exceptions, for the end of the map.
        self.failures: dict[int, Failed] = {}
        self.stopped = False

    def add(self, index: int, item: Any) -> None:
        """Give the lanes an item."""
        self._assigned.add(index)
        self._queue.put((index, item))

    def stop_at(self, cutoff: int) -> None:
        """No item at or above ``cutoff`` starts any more; bodies that look at their control are told."""
        self._cutoff = min(self._cutoff, cutoff)
        self.stopped = True
        if self.control is not None:
            self.control.cancel()

    def close(self) -> None:
        """Let the lanes end once they have nothing left."""
        for _ in range(self._lanes):
            self._queue.put(None)

    def take_ended(self) -> list[Ended]:
        """Return what the lanes have done since the last call."""
        got = []
        while self.ended:
            ended = self.ended.popleft()
            self._assigned.discard(ended[0])
            got.append(ended)
        return got

    def lost(self) -> list[Ended]:
        """Return items that will never end because lanes are gone, as failures; none while all lanes live."""
        if self.control is None or self.control._lanes_running >= self._lanes or self.ended:
            return []
        self.stop_at(0)
        got = []
        for index in sorted(self._assigned):
            error = InternalError(f"a lane of rank {self.rank} ended before item {index} was done")
            failed = Failed(index, FATAL, error, lane=None, rank=self.rank)
            self.failures[index] = failed
            got.append((index, FATAL, failed, None, 0.0))
        self._assigned.clear()
        return got

    def body(self, lane: Any) -> None:
        """Take items until there are none. Runs in each lane."""
        while (task := self._queue.get()) is not None:
            index, item = task
            begun = time.perf_counter()
            ended = self._evaluate(lane, index, item)
            if ended[1] != SKIPPED:
                self._count(lane.index, time.perf_counter() - begun)
            self.ended.append(ended)
            del task, item, ended
            self.wake.set()

    def _evaluate(self, lane: Any, index: int, item: Any) -> Ended:
        if index >= self._cutoff:
            return (index, SKIPPED, None, None, 0.0)
        begun = time.perf_counter()
        for left in range(self._retries, -1, -1):
            try:
                value = self._fn(item, lane.engine)
                break
            except Exception as caught:
                if not left or self._gives_up(lane, index, caught):
                    return self._failed(lane, index, item, FAILED, caught, begun)
            except BaseException as caught:
                if type(caught).__name__ == "PanicException":
                    error = InternalError(f"a fault inside treadle, in a callback: {caught}; please report it")
                    return self._failed(lane, index, item, FAILED, error, begun)
                return self._failed(lane, index, item, FATAL, caught, begun)
        # The value of the root's own lanes is packed as well: whether an item fails must not depend on its rank.
        try:
            packed = pack(value)
            unpack(packed)
        except BaseException as caught:  # the value's own code raised it, whatever it is
            return self._failed(lane, index, item, WIRE, caught, begun)
        return (index, DONE, value, packed, time.perf_counter() - begun)

    def _gives_up(self, lane: Any, index: int, error: Exception) -> bool:
        """Whether an item is not tried again although tries are left."""
        if index >= self._cutoff:
            return True
        # A failure above it also cancels the control, and must not decide whether this item fails.
        return lane.control.cancelled and (not self.stopped or isinstance(error, LaneCancelledError))

    def _failed(self, lane: Any, index: int, item: Any, how: int, error: BaseException, begun: float) -> Ended:
        failed = Failed(index, how, error, lane=lane.index, rank=self.rank, item=item_text(item))
        self.failures[index] = failed
        if how == FATAL:
            self.stop_at(0)
        elif self._stop_on_error or how == WIRE:
            self.stop_at(index)
        return (index, how, failed, None, time.perf_counter() - begun)


class Sleeper:
    """Sleeps longer and longer while nothing happens, and wakes at once when a lane has done something."""

    def __init__(self, wake: threading.Event) -> None:
        self._wake = wake
        self._next = SHORTEST_SLEEP

    def rest(self, *, busy: bool) -> None:
        """Sleep unless something just happened."""
        if busy:
            self._next = SHORTEST_SLEEP
            return
        if self._wake.wait(self._next):
            self._wake.clear()
            self._next = SHORTEST_SLEEP
        else:
            self._next = min(self._next * 1.5, LONGEST_SLEEP)


class Worker:
    """A rank that is not the root: asks for items, hands them to its lanes, sends back what came of them."""

    def __init__(self, wire: Wire, root: int, lodge: Lodge, lanes: int, interrupts: Interrupts) -> None:
        self._wire = wire
        self._root = root
        self._lodge = lodge
        self._lanes = lanes
        self._interrupts = interrupts
        self._over = False

    def attend(self, control: Any) -> None:
        """Talk to the root until it says that the map is over. The coordinator of this rank's lanes."""
        self._lodge.control = control
        try:
            self._wire.send(self._root, READY, self._lanes)
            self._talk()
        finally:
            self._lodge.close()

    def withdraw(self, error: BaseException) -> None:
        """Tell the root that this rank cannot go on, and wait for the end of the map."""
        if not self._over:
            self._break(error, alive=False)
            self._talk()

    def _break(self, error: BaseException, *, alive: bool) -> None:
        """End the map on every rank with ``error``; ``alive`` says that this rank's items still come back."""
        failed = Failed(-1, FATAL, error, rank=self._lodge.rank)
        self._lodge.failures[-1] = failed
        self._wire.send(self._root, BROKEN, (failed.state(), alive))

    def _talk(self) -> None:
        lodge, sleeper = self._lodge, Sleeper(self._lodge.wake)
        while not self._over:
            busy = self._send_ended(lodge.take_ended() or lodge.lost())
            while (message := self._wire.poll()) is not None:
                busy = True
                self._obey(message)
            if (raised := self._interrupts.look()) is not None:
                lodge.stop_at(0)
                self._break(raised, alive=True)
            if lodge.control is not None and lodge.control.cancelled and not lodge.stopped:
                # Not the map's own doing: a body called cancel().
                lodge.stopped = True
                self._wire.send(self._root, STOP)
            self._wire.settle()
            if not self._over:
                sleeper.rest(busy=busy)
        self._wire.send(self._root, DRAIN)
        while not self._wire.settle():
            time.sleep(SHORTEST_SLEEP)

    def _obey(self, message: wire.Message) -> None:
        lodge = self._lodge
        if message.kind == TASK:
            place = 0
            for index, data, count in message.content:
                buffers = message.buffers[place : place + count]
                place += count
                try:
                    item = unpack((data, buffers))
                except BaseException as error:  # the item's own code raised it, whatever it is
                    failed = Failed(index, WIRE, error, rank=lodge.rank)
                    lodge.failures[index] = failed
                    lodge.stop_at(index)
                    lodge.ended.append((index, WIRE, failed, None, 0.0))
                else:
                    lodge.add(index, item)
        elif message.kind == STOP:
            lodge.stop_at(message.content)
        elif message.kind == END:
            self._over = True

    def _send_ended(self, ended: list[Ended]) -> bool:
        if not ended:
            return False
        content: list[Any] = []
        buffers: list[Any] = []
        for index, how, value, packed, seconds in ended:
            if how == DONE:
                content.append((index, how, packed[0], len(packed[1]), seconds))
                buffers.extend(packed[1])
            else:
                content.append((index, how, value and value.state(), 0, seconds))
        self._wire.send(self._root, RESULT, content, buffers)
        return True


def run_rank(lanes: _native.Lanes, rank: int, lodge: Lodge, attend: Callable[[Any], Any]) -> BaseException | None:
    """Run the lanes of this rank with their coordinator; return what went wrong with the lanes themselves."""
    try:
        lanes._run_on_rank(lodge.body, attend, rank)
    except BaseException as error:
        return error
    return None
