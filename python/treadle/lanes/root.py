"""The root of a map across ranks: reads the items, hands them out in order, and puts the results in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ..exceptions import LaneCancelledError
from . import wire
from .options import Progress
from .outcome import DONE, FAILED, FATAL, SKIPPED, WIRE, Failed, Verdict, item_text
from .rank import SHORTEST_SLEEP, Interrupts, Lodge, Sleeper
from .wire import BROKEN, DRAIN, END, READY, RESULT, STOP, TASK, Wire, pack, unpack

#: What "auto" aims at: a batch that keeps a lane busy for so long, and no more items than this in one.
AUTO_SECONDS, AUTO_ITEMS = 5e-3, 1024
_NEVER = 1 << 62


class Root:
    """Hands out items in increasing order, so that everything below a failing index was handed out and finishes."""

    def __init__(
        self,
        rank: int,
        size: int,
        wire: Wire,
        lodge: Lodge | None,
        lanes: int,
        items: Iterator[Any],
        interrupts: Interrupts,
        *,
        on_error: str | Callable[[int, Any, BaseException], Any],
        batch_size: int | str,
        prefetch: bool,
        deadline: float | None,
        progress: Progress | None,
        total: int | None,
    ) -> None:
        self._rank = rank
        self._wire = wire
        self._lodge = lodge
        self._items: Iterator[Any] | None = items
        self._interrupts = interrupts
        self._on_error = on_error
        self._auto = batch_size == "auto"
        self._batch = 1 if self._auto else int(batch_size)
        self._ahead = 2 if prefetch else 1
        self._deadline = None if deadline is None else time.monotonic() + deadline
        self._progress = progress
        self._total = total
        #: Lanes of each rank that takes items; a rank appears when it has said that it is ready.
        self._lanes: dict[int, int] = {rank: lanes} if lodge is not None else {}
        self._outstanding: dict[int, int] = {}
        #: Whether every rank was told the end.
        self.is_ended = False
        self._heard: set[int] = set()
        self._drained: set[int] = set()
        self._others = [other for other in range(size) if other != rank]
        self._held: dict[int, tuple[int, Any]] = {}
        self._next = 0
        self._exhausted = False
        self._cutoff = _NEVER
        self._done = 0
        self._seconds = 0.0
        self._results: dict[int, Any] = {}
        self._failed: dict[int, Failed] = {}
        self._fatal: Failed | None = None
        self._broke: tuple[str, BaseException] | None = None
        self._cancelled: str | None = None
        #: The deadline is over: what comes back from now on is late.
        self._expired = False

    # --- the loop ----------------------------------------------------------------------------------------------

    def attend(self, control: Any) -> None:
        """Schedule until everything that was handed out has come back, then end the map on every rank."""
        lodge = self._lodge
        if lodge is not None:
            lodge.control = control
        try:
            self._schedule(Sleeper(lodge.wake if lodge is not None else threading.Event()))
            self._drain()
            self.is_ended = True
        finally:
            if lodge is not None:
                lodge.close()

    def _schedule(self, sleeper: Sleeper) -> None:
        while True:
            busy = self._absorb_local()
            while (message := self._wire.poll()) is not None:
                busy = True
                self._absorb(message)
            self._look_around()
            busy |= self._hand_out()
            self._wire.settle()
            if self._is_over():
                return
            sleeper.rest(busy=busy)

    def _drain(self) -> None:
        """Tell every rank that the map is over, and receive all that they still had to say."""
        for other in self._others:
            self._wire.send(other, END)
        while not self._wire.settle() or len(self._drained) < len(self._others):
            message = self._wire.poll()
            if message is None:
                time.sleep(SHORTEST_SLEEP)
            else:
                self._absorb(message)

    def withdraw(self, error: BaseException) -> None:
        """Go on without this rank's lanes, which did not start or did not last, and end the map."""
        self._lodge = None
        self._forget(self._rank)
        self._end_at_once(Failed(-1, FATAL, error, rank=self._rank))
        self.attend(None)

    def _forget(self, rank: int) -> None:
        """Expect nothing more from the lanes of ``rank``."""
        self._lanes.pop(rank, None)
        self._outstanding.pop(rank, None)
        for index in [index for index, (holder, _) in self._held.items() if holder == rank]:
            del self._held[index]

    def _is_over(self) -> bool:
        heard = len(self._heard) == len(self._others)
        return heard and self._items is None and not any(self._outstanding.values())

    def _look_around(self) -> None:
        """Watch signals, the deadline, and a control that somebody else cancelled."""
        if (raised := self._interrupts.look()) is not None:
            self._end_at_once(Failed(-1, FATAL, raised, rank=self._rank))
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._expired = True
            self._cancel("the deadline of the map is over")
        lodge = self._lodge
        if lodge is not None and lodge.control is not None and lodge.control.cancelled and not lodge.stopped:
            self._cancel("the map was cancelled")

    def _cancel(self, why: str) -> None:
        self._cancelled = self._cancelled or why
        self._stop_at(0)

    def _end_at_once(self, failed: Failed) -> None:
        self._fatal = self._fatal or failed
        self._stop_at(0)

    def _stop_at(self, cutoff: int) -> None:
        """Nothing at or above ``cutoff`` starts any more, on any rank."""
        if cutoff >= self._cutoff:
            return
        self._cutoff = cutoff
        self._items = None
        if self._lodge is not None:
            self._lodge.stop_at(cutoff)
        for other in self._others:
            self._wire.send(other, STOP, cutoff)

    # --- handing out -------------------------------------------------------------------------------------------

    def _hand_out(self) -> bool:
        """Give a batch to each rank that has room; the rank with the emptiest lanes comes first."""
        any_given = False
        while self._items is not None and self._cutoff == _NEVER:
            rank = min(self._lanes, key=self._load, default=None)
            if rank is None or self._load(rank) > self._ahead - 1e-9:
                break
            room = self._ahead * self._lanes[rank] * self._batch - self._outstanding.get(rank, 0)
            tasks = self._read(min(room, self._batch), own=rank == self._rank)
            if not tasks:
                break
            any_given = True
            self._give(rank, tasks)
        return any_given

    def _load(self, rank: int) -> float:
        lanes = self._lanes[rank]
        return self._outstanding.get(rank, 0) / (lanes * self._batch) if lanes else 1e9

    def _give(self, rank: int, tasks: list[tuple[int, Any, Any]]) -> None:
        self._outstanding[rank] = self._outstanding.get(rank, 0) + len(tasks)
        for index, item, _ in tasks:
            self._held[index] = (rank, item)
        if rank == self._rank:
            assert self._lodge is not None
            for index, item, _ in tasks:
                self._lodge.add(index, item)
            return
        content = [(index, packed[0], len(packed[1])) for index, _, packed in tasks]
        self._wire.send(rank, TASK, content, [buffer for _, _, packed in tasks for buffer in packed[1]])

    def _read(self, count: int, *, own: bool) -> list[tuple[int, Any, Any]]:
        """Read so many items, or fewer when they end or fail."""
        tasks: list[tuple[int, Any, Any]] = []
        while len(tasks) < count and self._items is not None:
            index = self._next
            try:
                item = next(self._items)
            except StopIteration:
                self._items = None
                self._exhausted = True
                break
            except Exception as error:
                self._fail(Failed(index, FAILED, error, rank=self._rank))
                break
            except BaseException as error:
                self._end_at_once(Failed(index, FATAL, error, rank=self._rank))
                break
            self._next += 1
            # Items for the root's own lanes are packed as well: whether one fails must not depend on its rank.
            try:
                packed = pack(item)
                if own:
                    unpack(packed)
            except BaseException as error:  # the item's own code raised it, whatever it is
                self._fail(Failed(index, WIRE, error, rank=self._rank, item=item_text(item)))
                break
            tasks.append((index, item, packed))
        return tasks

    def _fail(self, failed: Failed) -> None:
        self._failed[failed.index] = failed
        self._stop_at(failed.index)

    # --- taking back -------------------------------------------------------------------------------------------

    def _absorb_local(self) -> bool:
        if self._lodge is None:
            return False
        ended = self._lodge.take_ended() or self._lodge.lost()
        for index, how, value, _, seconds in ended:
            self._book(self._rank, index, how, value, seconds)
        return bool(ended)

    def _absorb(self, message: wire.Message) -> None:
        rank = message.source
        if message.kind == READY:
            self._heard.add(rank)
            self._lanes[rank] = message.content
        elif message.kind == BROKEN:
            self._heard.add(rank)
            state, alive = message.content
            self._end_at_once(Failed.of(state))
            if not alive:
                self._forget(rank)
        elif message.kind == DRAIN:
            self._drained.add(rank)
        elif message.kind == STOP:
            self._cancel("the map was cancelled")
        elif message.kind == RESULT:
            place = 0
            for index, how, data, count, seconds in message.content:
                buffers = message.buffers[place : place + count]
                place += count
                value: Any = None
                if how == DONE:
                    try:
                        value = unpack((data, buffers))
                    except BaseException as error:  # the value's own code raised it, whatever it is
                        value = Failed(index, WIRE, error, rank=rank)
                        how = WIRE
                elif data is not None:
                    value = Failed.of(data)
                self._book(rank, index, how, value, seconds)

    def _book(self, rank: int, index: int, how: int, value: Any, seconds: float) -> None:
        if index not in self._held:
            return
        self._outstanding[rank] -= 1
        _, item = self._held.pop(index)
        if how == SKIPPED:
            return
        self._done += 1
        self._seconds += seconds
        if self._auto:
            mean = max(self._seconds / self._done, 1e-9)
            self._batch = int(min(AUTO_ITEMS, max(1.0, AUTO_SECONDS / mean)))
        if self._expired and how != FATAL:
            pass
        elif how == DONE:
            self._results[index] = value
        elif how == FATAL:
            self._end_at_once(value)
        elif how == WIRE or self._on_error == "raise":
            self._fail(value)
        elif self._on_error == "return":
            self._results[index] = value.error
        else:
            self._handle(index, item, value)
        self._report()

    def _handle(self, index: int, item: Any, failed: Failed) -> None:
        handler: Any = self._on_error
        try:
            self._results[index] = handler(index, item, failed.error)
        except Exception as error:
            self._fail(Failed(index, failed.how, error, lane=failed.lane, rank=failed.rank, item=failed.item))
        except BaseException as error:
            self._end_at_once(Failed(index, FATAL, error, rank=self._rank))

    def _report(self) -> None:
        if self._progress is None:
            return
        try:
            self._progress(self._done, self._total)
        except Exception as error:
            self._progress = None
            self._broke = (f"the progress callback failed: {type(error).__qualname__}: {error}", error)
            self._stop_at(0)
        except BaseException as error:
            self._progress = None
            self._end_at_once(Failed(-1, FATAL, error, rank=self._rank))

    # --- the end -----------------------------------------------------------------------------------------------

    def verdict(self) -> tuple[Verdict, list[Any]]:
        """Return what came of the map, and the ordered results."""
        if self._fatal is not None:
            return Verdict(self._fatal), []
        if self._failed:
            return Verdict(self._failed[min(self._failed)]), []
        if self._broke is not None:
            message, cause = self._broke
            verdict = Verdict(other=("PmapError", message, {"kind": "protocol", "rank": self._rank}))
            verdict.cause = cause
            return verdict, []
        results = []
        # Cut short, items that were never read are unfinished as well, as far as their number is known.
        cut = self._cancelled is not None and not self._exhausted
        count = self._next + 1 if cut and self._on_error == "raise" else self._next
        for index in range(max(count, self._total or 0) if cut else count):
            if index in self._results:
                results.append(self._results[index])
                continue
            message = f"item {index} was not finished: {self._cancelled}"
            if self._on_error == "raise":
                return Verdict(other=("LaneCancelledError", message, {"index": index})), []
            error = LaneCancelledError(message, index=index)
            if not callable(self._on_error):
                results.append(error)
                continue
            try:
                results.append(self._on_error(index, None, error))
            except BaseException as own:
                how = FAILED if isinstance(own, Exception) else FATAL
                return Verdict(Failed(index, how, own, rank=self._rank)), []
        return Verdict(), results
