"""The root of a map across ranks: drives its machine between the items, the communicator, the lanes and the results."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from .. import _native
from ..exceptions import LaneCancelledError, LaneError
from .options import Progress
from .outcome import DONE, FAILED, FATAL, WIRE, Failed, Verdict, item_text
from .presence import GRACE_SECONDS, PING_SECONDS, SILENCE_SECONDS, Presence
from .rank import SHORTEST_SLEEP, Ended, Interrupts, Lodge, Sleeper
from .recording import Entry, Recording
from .wire import Arrived, Packed, Wire, pack, unpack, weight

#: One message has about so many bytes of items, unless a single one has more.
TASK_BYTES = 16 << 20
#: So many batches are handed out, or results found in a checkpoint, before messages, signals and the clock get a look.
_ROUNDS = 256
#: The index of what belongs to no item.
_NO_INDEX = (1 << 64) - 1


class Root:
    """Reads the items, and judges what comes back; what goes where and when is the machine's."""

    def __init__(
        self,
        rank: int,
        size: int,
        wire: Wire | None,
        begin: Callable[[], Lodge] | None,
        items: Iterator[Any],
        interrupts: Interrupts,
        presence: Presence | None,
        abort: Callable[[str], None],
        *,
        lanes: int,
        on_error: str | Callable[[int, Any, BaseException], Any],
        batch_size: int | str,
        prefetch: bool,
        deadline: float | None,
        progress: Progress | None,
        total: int | None,
        streams: bool = False,
        window: int | None = None,
        recording: Recording | None = None,
    ) -> None:
        self._rank = rank
        self._wire = wire
        self._items: Iterator[Any] = items if recording is None else recording.entries
        self._interrupts = interrupts
        self._presence = presence
        self._abort = abort
        self._on_error = on_error
        self._progress = progress
        self._total = total
        self._recording = recording
        now = time.monotonic()
        self._machine = _native.RankRoot(
            now,
            rank=rank,
            ranks=size,
            lanes=lanes if begin is not None else 0,
            batch=None if batch_size == "auto" else int(batch_size),
            prefetch=prefetch,
            on_failure=on_error if isinstance(on_error, str) else "handle",
            deadline=None if deadline is None else now + deadline,
            streams=streams,
            window=window,
            total=total,
            ping=PING_SECONDS,
            silence=None if presence is not None and presence.sees_all else SILENCE_SECONDS,
            grace=GRACE_SECONDS,
        )
        #: Whether the next item was finished earlier, and the digests of those that are under way.
        self._is_known = False
        self._digests: dict[int, bytes] = {}
        #: Items that a handler is to see again.
        self._held: dict[int, Any] = {}
        self._exhausted = False
        self._stopped_at: int | None = None
        self._broke: tuple[str, BaseException] | None = None
        self._broken_at: float | None = None
        self._cancelled: str | None = None
        self._reported = 0
        #: How many results were taken, and those that stand in for what a deadline or a cancel left open after them.
        self.taken = 0
        self.filled: list[Any] = []
        self.lodge: Lodge | None = None
        self.failures: dict[int, Failed] = {}
        if begin is not None:
            try:
                self.lodge = begin()
                self.failures = self.lodge.failures
            except BaseException as error:
                self._machine.leave()
                self._end_at_once(Failed(-1, FATAL, error, rank=rank))
        self._sleeper = Sleeper(self.lodge)

    # --- the loop ----------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Take what has come, give what is wanted, and sleep when there is neither."""
        busy = self._absorb_local()
        busy |= self._absorb_messages()
        self._look_around()
        busy |= self._hand_out()
        self._post()
        if self._machine.settled:
            return
        self._sleeper.rest(busy=busy, pending=0 if self._wire is None else self._wire.pending)

    @property
    def is_settled(self) -> bool:
        """Whether everything that was handed out has come back."""
        return self._machine.settled

    def take(self) -> list[Any]:
        """Return the results that are next in order."""
        got = self._machine.take()
        self.taken += len(got)
        return got

    def take_one(self) -> tuple[Any] | None:
        """Return the next result in order, in a tuple."""
        got = self._machine.take_one()
        self.taken += got is not None
        return got

    def stop(self) -> None:
        """Start nothing any more."""
        self._machine.stop_at(time.monotonic(), 0)
        self._follow()

    def _absorb_messages(self) -> bool:
        if self._wire is None:
            return False
        machine, now, busy = self._machine, time.monotonic(), False
        for arrived in self._wire.poll():
            busy = True
            if arrived.frame is None:
                machine.garbled(now, arrived.source, arrived.fault)
                continue
            for index, how, packed, rank in self._received(now, arrived):
                self._arrive(index, how, packed, rank)
        return busy

    def _received(self, now: float, arrived: Arrived) -> list[tuple[int, int, Packed | None, int]]:
        assert arrived.frame is not None
        return self._machine.receive(now, arrived.source, arrived.frame, arrived.attached)

    def _look_around(self) -> None:
        """Watch signals, the deadline, other processes, and a control that somebody else cancelled."""
        machine, now = self._machine, time.monotonic()
        if (raised := self._interrupts.look()) is not None:
            self._end_at_once(Failed(-1, FATAL, raised, rank=self._rank))
        for rank in () if self._presence is None else self._presence.gone(now):
            machine.lost(now, rank, "its process has ended")
        machine.tick(now)
        if machine.expired and self._cancelled is None:
            self._cancelled = "the deadline of the map is over"
        if machine.cancelled or (self.lodge is not None and self.lodge.was_cancelled):
            self._cancelled = self._cancelled or "the map was cancelled"
            machine.stop_at(now, 0)
        self._follow()
        if machine.broken:
            self._broken_at = self._broken_at or now
            if now > self._broken_at + GRACE_SECONDS:
                _, rank, _, text = machine.outcome()
                self._abort(f"rank {rank} broke away ({text}), and the others did not end")

    def _follow(self) -> None:
        """Let the own lanes stop where the map does."""
        cutoff = self._machine.cutoff
        if cutoff is None or cutoff == self._stopped_at:
            return
        self._stopped_at = cutoff
        if self.lodge is not None:
            self.lodge.stop_at(cutoff)

    def _post(self) -> None:
        if self._wire is not None:
            self._wire.post(self._machine.outbox())
            self._wire.settle()

    def finish(self, *, closed: bool = False) -> Verdict:
        """End the lanes of every rank, and tell each what came of the map."""
        machine = self._machine
        machine.end(time.monotonic())
        self._post()
        if self.lodge is not None and (error := self.lodge.join()) is not None:
            failed = self.failures[-1] = Failed(-1, FATAL, error, rank=self._rank)
            machine.end_at_once(time.monotonic(), failed)
        while not machine.drained:
            busy = self._absorb_messages()
            self._look_around()
            self._post()
            if not busy and not machine.drained:
                time.sleep(SHORTEST_SLEEP)
        verdict = self._verdict()
        if closed and not machine.broken:
            verdict = Verdict()
        verdict = self._finish_recording(verdict)
        machine.conclude(time.monotonic(), verdict.is_error, pack(verdict.state()))
        self._post()
        while self._wire is not None and not self._wire.settle():
            if machine.broken:
                # A rank that cannot be reached keeps its messages; they are left behind with the communicator.
                break
            time.sleep(SHORTEST_SLEEP)
        return verdict

    @property
    def is_broken(self) -> bool:
        """Whether a rank broke away, so that the communicator cannot be brought to an end."""
        return self._machine.broken

    def leftovers(self) -> list[Any]:
        """Return what MPI may still use."""
        return [] if self._wire is None else self._wire.leftovers()

    # --- handing out -------------------------------------------------------------------------------------------

    def _hand_out(self) -> bool:
        machine = self._machine
        before = machine.next_index
        for _ in range(_ROUNDS):
            want = machine.want()
            if want is None:
                break
            rank, count = want
            own = rank == self._rank
            tasks = self._read(count, own=own)
            if not tasks:
                continue
            machine.give(time.monotonic(), rank, [(index, packed) for index, _, packed in tasks])
            if own:
                assert self.lodge is not None
                for index, item, _ in tasks:
                    self.lodge.add(index, item)
        return machine.next_index > before

    def _read(self, count: int, *, own: bool) -> list[tuple[int, Any, Packed]]:
        """Read so many items, or fewer when they end, fail, are large, or have results already."""
        machine, tasks, size = self._machine, list[tuple[int, Any, Packed]](), 0
        index = machine.next_index
        while len(tasks) < count and size < TASK_BYTES:
            if not self._is_known and not self._read_one(index, tasks, own=own):
                break
            if self._is_known:
                # What was read before it is handed out first; items keep their order.
                if not tasks:
                    self._skip(index)
                break
            if self._wire is not None and not own:
                size += weight(tasks[-1][2])
            index += 1
        return tasks

    def _skip(self, index: int) -> None:
        """The next item was finished earlier: its result comes from the checkpoint."""
        assert self._recording is not None
        self._is_known = False
        try:
            value = self._recording.stored(index)
        except BaseException as error:  # the value's own code raised it, whatever it is
            self._fail(Failed(index, WIRE, error, rank=self._rank))
            return
        self._machine.skip(value)
        self._report()

    def _read_one(self, index: int, tasks: list[tuple[int, Any, Packed]], *, own: bool) -> bool:
        """Read one item: it becomes a task, or its result is known; False when the items end or fail."""
        try:
            item = next(self._items)
        except StopIteration:
            self._machine.close()
            self._exhausted = True
            return False
        except Exception as error:
            self._fail(Failed(index, FAILED, error, rank=self._rank))
            return False
        except BaseException as error:
            self._end_at_once(Failed(index, FATAL, error, rank=self._rank))
            return False
        if self._recording is not None:
            entry: Entry = item
            if entry.done:
                self._is_known = True
                return True
            item = entry.item
            if entry.digest is not None:
                self._digests[index] = entry.digest
        # Items for the root's own lanes are packed as well: whether one fails must not depend on its rank.
        try:
            packed = pack(item)
            if own:
                unpack(packed)
        except BaseException as error:  # the item's own code raised it, whatever it is
            self._fail(Failed(index, WIRE, error, rank=self._rank, item=item_text(item)))
            return False
        if callable(self._on_error):
            self._held[index] = item
        tasks.append((index, item, packed))
        return True

    def _fail(self, failed: Failed) -> None:
        self._machine.fail(time.monotonic(), failed.index, failed)
        self._follow()

    def _end_at_once(self, failed: Failed) -> None:
        self._machine.end_at_once(time.monotonic(), failed)
        self._follow()

    # --- taking back -------------------------------------------------------------------------------------------

    def _absorb_local(self) -> bool:
        if self.lodge is None:
            return False
        ended: list[Ended] = self.lodge.take_ended()
        for index, how, value, packed, seconds in ended:
            if self._machine.local(index, how, seconds):
                self._judge(index, how, value, packed)
        return bool(ended)

    def _arrive(self, index: int, how: int, packed: Packed | None, rank: int) -> None:
        """Look into what came from another rank."""
        value: Any = None
        if packed is not None:
            try:
                value = unpack(packed)
            except BaseException as error:  # the value's own code raised it, whatever it is
                how, value = WIRE, Failed(index, WIRE, error, rank=rank)
            else:
                if how != DONE:
                    value = Failed.of(value)
        if index == _NO_INDEX:
            self._end_at_once(value)
            return
        self._judge(index, how, value, packed)

    def _judge(self, index: int, how: int, value: Any, packed: Packed | None) -> None:
        machine = self._machine
        item = self._held.pop(index, None) if self._held else None
        if self._recording is not None:
            how, value = self._record(index, how, value, packed)
        judgement = machine.judge(index, how)
        if judgement == "keep":
            machine.keep(index, value)
        elif judgement == "fail":
            self._fail(value)
        elif judgement == "end":
            self._end_at_once(value)
        elif judgement == "return":
            machine.keep(index, value.error)
        elif judgement == "handle":
            self._handle(index, item, value)
        self._report()

    def _record(self, index: int, how: int, value: Any, packed: Packed | None) -> tuple[int, Any]:
        """Put a result into the checkpoint, also one that comes too late for the map; return what came of the item."""
        assert self._recording is not None
        digest = self._digests.pop(index, None)
        if how != DONE or digest is None or packed is None:
            return how, value
        try:
            # A pickle without buffers beside it is what the file has.
            payload = self._recording.pickled(index, value) if packed[1] else packed[0]
        except LaneError as error:
            return WIRE, Failed(index, WIRE, error, rank=self._rank)
        if not self._recording.keep(index, digest, value, payload):
            self.stop()
        return how, value

    def _handle(self, index: int, item: Any, failed: Failed) -> None:
        handler: Any = self._on_error
        try:
            self._machine.keep(index, handler(index, item, failed.error))
        except Exception as error:
            self._fail(Failed(index, failed.how, error, lane=failed.lane, rank=failed.rank, item=failed.item))
        except BaseException as error:
            self._end_at_once(Failed(index, FATAL, error, rank=self._rank))

    def _report(self) -> None:
        """Tell the progress of every item that has come back, one by one."""
        if self._progress is None or self._machine.done == self._reported:
            return
        self._reported += 1
        try:
            self._progress(self._reported, self._total)
        except Exception as error:
            self._progress = None
            self._broke = (f"the progress callback failed: {type(error).__qualname__}: {error}", error)
            self.stop()
        except BaseException as error:
            self._progress = None
            self._end_at_once(Failed(-1, FATAL, error, rank=self._rank))

    # --- the end -----------------------------------------------------------------------------------------------

    def _verdict(self) -> Verdict:
        """Return what came of the map."""
        outcome = self._machine.outcome()
        if outcome[0] in ("fatal", "failed"):
            return Verdict(outcome[1])
        if outcome[0] != "fine":
            kind, rank, index, text = outcome
            return Verdict(other=breach(kind, rank, index, text))
        if self._broke is not None:
            message, cause = self._broke
            verdict = Verdict(other=("PmapError", message, {"kind": "protocol", "rank": self._rank}))
            verdict.cause = cause
            return verdict
        if self._cancelled is None:
            return Verdict()
        return self._unfinished()

    def _finish_recording(self, verdict: Verdict) -> Verdict:
        """Close the checkpoint; what it did not take ends the map with an error, or is a note on the error there is."""
        if self._recording is None:
            return verdict
        try:
            self._recording.finish()
        except LaneError as error:
            if verdict.is_error and (verdict.other is None or verdict.other[0] != "LaneCancelledError"):
                verdict.note = str(error)
                return verdict
            verdict = Verdict(other=("PmapError", str(error), {"kind": "protocol", "rank": self._rank}))
            verdict.cause, verdict.fields = error, error.detail
        return verdict

    def _unfinished(self) -> Verdict:
        """Fill in what a deadline or a cancel left open, or say which item was the first."""
        machine = self._machine
        rest = dict(machine.rest())
        machine_next = machine.next_index
        # Items that were never read are unfinished as well, as far as their number is known.
        count = machine_next if self._exhausted else max(machine_next, self._total or 0)
        if not self._exhausted and self._on_error == "raise":
            count = max(count, machine_next + 1)
        for index in range(self.taken, count):
            if index in rest:
                self.filled.append(rest[index])
                continue
            error = LaneCancelledError(f"item {index} was not finished: {self._cancelled}", index=index)
            if self._on_error == "raise":
                return Verdict(other=("LaneCancelledError", str(error), {"index": index}))
            if not callable(self._on_error):
                self.filled.append(error)
                continue
            try:
                self.filled.append(self._on_error(index, None, error))
            except BaseException as own:
                how = FAILED if isinstance(own, Exception) else FATAL
                return Verdict(Failed(index, how, own, rank=self._rank))
        return Verdict()


def breach(kind: str, rank: int, index: int | None, text: str) -> tuple[str, str, dict[str, Any]]:
    """Return class, message and fields of the error for a rank that broke away."""
    held = "" if index is None else f"; the first item that it had is {index}"
    if kind == "lost":
        message = f"rank {rank} is lost: {text}{held}"
        return ("PmapError", message, {"kind": "rank_lost", "rank": rank, "index": index})
    message = f"rank {rank} and this map no longer understand each other: {text}{held}"
    return ("PmapError", message, {"kind": "protocol", "rank": rank, "index": index})
