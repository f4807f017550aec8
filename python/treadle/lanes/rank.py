"""One rank of a map across ranks: its lanes, and the thread that talks to the root."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Self

from .. import _native
from ..exceptions import InternalError, LaneCancelledError
from .outcome import DONE, FAILED, FATAL, SKIPPED, WIRE, Failed, item_text
from .presence import GRACE_SECONDS, PING_SECONDS, Presence
from .wire import Arrived, Packed, Wire, pack, unpack, weight

#: The coordinator sleeps between these, the longer the longer nothing happens: about a twentieth of that time.
SHORTEST_SLEEP, LONGEST_SLEEP, LONGER = 50e-6, 5e-3, 1.05
#: Before it sleeps it looks so often whether something has come, once something has.
EAGER_LOOKS = 20
#: And for so many seconds while its own lanes have nothing to do, or while bytes are on their way, which MPI moves only
#: while it is called: so long, and as long as they take at this rate.
EAGER_IDLE, EAGER_TRANSFER, SLOWEST_BYTES = 200e-6, 20e-3, 200e6

#: An item that a lane has done: its index, how it ended, its value or failure, the value as it travels, the seconds.
Ended = tuple[int, int, Any, "Packed | None", float]


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
        lanes: _native.Lanes,
        *,
        retries: int,
        stop_on_error: bool,
        rank: int,
        is_root: bool,
    ) -> None:
        self._fn = fn
        self._lanes = lanes
        self.rank = rank
        self._is_root = is_root
        self._desk = _native.RankDesk(retries, stop_on_error)
        self._queue: SimpleQueue[tuple[int, Any] | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._assigned: set[int] = set()
        #: What a lane ended while the coordinator waited for it.
        self._first: Ended | None = None
        #: The failures of this rank with their own exceptions, for the end of the map.
        self.failures: dict[int, Failed] = {}
        self._closed = False
        # The lanes start last: they use all of this.
        self._run: _native.RankRun | None = None
        self._run = lanes._begin_on_rank(self._body, rank)
        self._control = self._run.control

    def __len__(self) -> int:
        return len(self._lanes)

    # --- for the coordinator -----------------------------------------------------------------------------------

    def add(self, index: int, item: Any) -> None:
        """Give the lanes an item."""
        self._assigned.add(index)
        self._queue.put((index, item))

    def stop_at(self, cutoff: int) -> None:
        """No item at or above ``cutoff`` starts any more; bodies that look at their control are told."""
        self._desk.stop_at(cutoff)
        self._control.cancel()

    @property
    def was_cancelled(self) -> bool:
        """Whether a body called cancel(), as opposed to the map's own stop."""
        return self._control.cancelled and not self._desk.stopped

    def rest(self, seconds: float) -> bool:
        """Sleep until a lane has done something; tell whether one has."""
        try:
            self._first = self._ended.get(timeout=seconds)
        except Empty:
            return False
        return True

    def take_ended(self) -> list[Ended]:
        """Return what the lanes have done since the last call."""
        got = []
        if self._first is not None:
            got.append(self._first)
            self._first = None
        while not self._ended.empty():
            got.append(self._ended.get())
        self._assigned.difference_update([ended[0] for ended in got])
        return got or self._lost()

    def _lost(self) -> list[Ended]:
        """Return items that will never end because lanes are gone, as failures; none while all lanes live."""
        if self._closed or self._control._lanes_running >= len(self) or not self._ended.empty():
            return []
        self.stop_at(0)
        got: list[Ended] = []
        for index in sorted(self._assigned):
            error = InternalError(f"a lane of rank {self.rank} ended before item {index} was done")
            failed = Failed(index, FATAL, error, lane=None, rank=self.rank)
            self.failures[index] = failed
            got.append((index, FATAL, failed, None, 0.0))
        self._assigned.clear()
        return got

    def fail_early(self, index: int, error: BaseException) -> None:
        """An item of this rank cannot be given to the lanes."""
        failed = Failed(index, WIRE, error, rank=self.rank)
        self.failures[index] = failed
        self.stop_at(index)
        self._ended.put((index, WIRE, failed, None, 0.0))

    @property
    def is_idle(self) -> bool:
        """Whether the lanes have nothing that they could still be running."""
        return not self._assigned or self._control._lanes_running == 0

    def close(self) -> None:
        """Let the lanes end once they have nothing left."""
        if not self._closed:
            self._closed = True
            for _ in range(len(self)):
                self._queue.put(None)

    def join(self) -> BaseException | None:
        """Wait for the lanes and give them back; return what went wrong with the lanes themselves."""
        self.close()
        run, self._run = self._run, None
        try:
            if run is not None:
                run.join()
        except BaseException as error:
            return error
        return None

    # --- in the lanes ------------------------------------------------------------------------------------------

    def _body(self, lane: Any) -> None:
        """Take items until there are none. Runs in each lane."""
        count, index_of_lane = self._lanes._count, lane.index
        while (task := self._queue.get()) is not None:
            ended = self._evaluate(lane, *task)
            if ended[1] != SKIPPED:
                count(index_of_lane, ended[4])
            self._ended.put(ended)
            del task, ended

    def _evaluate(self, lane: Any, index: int, item: Any) -> Ended:
        desk = self._desk
        if not desk.admits(index):
            return (index, SKIPPED, None, None, 0.0)
        begun, failures = time.perf_counter(), 0
        while True:
            try:
                value = self._fn(item, lane.engine)
                break
            except Exception as caught:
                gave_up = isinstance(caught, LaneCancelledError)
                if not desk.again(index, failures, lane.control.cancelled, gave_up):
                    return self._failed(lane, index, item, FAILED, caught, begun)
                failures += 1
            except BaseException as caught:
                if type(caught).__name__ == "PanicException":
                    error = InternalError(f"a fault inside treadle, in a callback: {caught}; please report it")
                    return self._failed(lane, index, item, FAILED, error, begun)
                return self._failed(lane, index, item, FATAL, caught, begun)
        seconds = time.perf_counter() - begun
        try:
            packed = pack(value)
            # The value of the root's own lanes never travels, but whether an item fails must not depend on its rank.
            if self._is_root:
                unpack(packed)
        except BaseException as caught:  # the value's own code raised it, whatever it is
            return self._failed(lane, index, item, WIRE, caught, begun)
        return (index, DONE, value if self._is_root else None, packed, seconds)

    def _failed(self, lane: Any, index: int, item: Any, how: int, error: BaseException, begun: float) -> Ended:
        failed = Failed(index, how, error, lane=lane.index, rank=self.rank, item=item_text(item))
        self.failures[index] = failed
        if self._desk.ended(index, how):
            self._control.cancel()
        return (index, how, failed, None, time.perf_counter() - begun)


class Sleeper:
    """Sleeps longer and longer while nothing happens; a few looks come first, and no more than a few.

    Ended by a lane that has done something, by the time, and never by a message: those are looked for in between.
    """

    def __init__(self, lodge: Lodge | None) -> None:
        self._lodge = lodge
        self._next = SHORTEST_SLEEP
        self._looks = 0
        self._since = 0.0

    def rest(self, *, busy: bool, pending: int) -> None:
        """Sleep unless something just happened; ``pending`` bytes are on their way."""
        if busy:
            self._next, self._looks = SHORTEST_SLEEP, 0
            return
        self._looks += 1
        if self._looks <= EAGER_LOOKS:
            if self._looks == 1:
                self._since = time.monotonic()
            time.sleep(0)
            return
        lodge = self._lodge
        if pending:
            eager = EAGER_TRANSFER + pending / SLOWEST_BYTES
        else:
            eager = EAGER_IDLE if lodge is None or lodge.is_idle else 0.0
        if eager and time.monotonic() - self._since < eager:
            time.sleep(0)
            return
        if lodge is None:
            time.sleep(self._next)
        elif lodge.rest(self._next):
            self._next, self._looks = SHORTEST_SLEEP, 0
            return
        self._next = min(self._next * LONGER, LONGEST_SLEEP)


class Worker:
    """A rank that is not the root: drives its machine between the communicator and the lanes."""

    def __init__(
        self,
        wire: Wire,
        root: int,
        rank: int,
        begin: Callable[[], Lodge],
        interrupts: Interrupts,
        presence: Presence,
        abort: Callable[[str], None],
    ) -> None:
        self._wire = wire
        self._root = root
        self._rank = rank
        self._interrupts = interrupts
        self._presence = presence
        self._abort = abort
        # The root may be away for long, in the caller's own code: its silence is no sign.
        self._machine = _native.RankWorker(
            time.monotonic(), root=root, ping=PING_SECONDS, silence=None, grace=GRACE_SECONDS
        )
        self.lodge: Lodge | None = None
        self.failures: dict[int, Failed] = {}
        try:
            self.lodge = begin()
            self.failures = self.lodge.failures
        except BaseException as error:
            self._fault(error, alive=False)
        else:
            self._machine.ready(time.monotonic(), len(self.lodge))

    def _fault(self, error: BaseException, *, alive: bool) -> None:
        """End the map on every rank with ``error``; ``alive`` says that this rank's items still come back."""
        failed = Failed(-1, FATAL, error, rank=self._rank)
        self.failures[-1] = failed
        self._machine.fault(time.monotonic(), pack(failed.state()), alive)

    def attend(self) -> tuple[Any, ...]:
        """Talk to the root until the map is over; return how it ended."""
        machine, wire, lodge = self._machine, self._wire, self.lodge
        sleeper, cancelled = Sleeper(lodge), False
        while not machine.over:
            busy = self._send_ended()
            for arrived in wire.poll():
                busy = True
                self._obey(arrived)
            if (raised := self._interrupts.look()) is not None:
                if lodge is not None:
                    lodge.stop_at(0)
                self._fault(raised, alive=True)
            now = time.monotonic()
            if lodge is not None and not cancelled and lodge.was_cancelled:
                cancelled = True
                machine.cancel(now)
            if self._presence.gone(now):
                machine.lost("its process has ended")
            machine.tick(now)
            wire.post(machine.outbox())
            wire.settle()
            if not machine.over:
                sleeper.rest(busy=busy, pending=wire.pending)
        closed = machine.closed()
        assert closed is not None
        self._end_lanes()
        return closed

    def _end_lanes(self) -> None:
        """Let the lanes end, wherever they are; a verdict comes early when a rank has broken away."""
        lodge = self.lodge
        if lodge is None:
            return
        if not lodge.is_idle:
            lodge.stop_at(0)
            until = time.monotonic() + GRACE_SECONDS
            while not lodge.is_idle:
                lodge.take_ended()
                if time.monotonic() > until:
                    self._abort(f"rank {self._rank} still runs an item that does not end")
                time.sleep(LONGEST_SLEEP)
        lodge.join()

    def settle(self) -> None:
        """Wait until the last messages have left; the root takes them, or is seen to be gone."""
        while not self._wire.settle():
            if self._presence.gone(time.monotonic()):
                return
            time.sleep(SHORTEST_SLEEP)

    def _obey(self, arrived: Arrived) -> None:
        machine, lodge, now = self._machine, self.lodge, time.monotonic()
        if arrived.source != self._root:
            return
        if arrived.frame is None:
            order, what = machine.garbled(now, arrived.fault)
        else:
            order, what = machine.receive(now, arrived.frame, arrived.attached)
        if order == "run" and lodge is not None:
            for index, packed in what:
                try:
                    item = unpack(packed)
                except BaseException as error:  # the item's own code raised it, whatever it is
                    lodge.fail_early(index, error)
                else:
                    lodge.add(index, item)
        elif order == "stop" and lodge is not None:
            lodge.stop_at(what)
        elif order == "end":
            if lodge is not None and (broke := lodge.join()) is not None:
                self._fault(broke, alive=False)
            machine.drain(now)

    def _send_ended(self) -> bool:
        if self.lodge is None:
            return False
        machine = self._machine
        for index, how, value, packed, seconds in self.lodge.take_ended():
            if how != DONE and how != SKIPPED:
                packed = pack(value.state())
            machine.ended(index, how, packed, seconds, 32 if packed is None else weight(packed))
        return machine.flush(time.monotonic())

    def leftovers(self) -> list[Any]:
        """Return what MPI may still use."""
        return self._wire.leftovers()
