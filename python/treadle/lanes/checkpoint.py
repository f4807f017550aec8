"""A file of finished results: a log of records that a killed process leaves readable.

A plain log and not a database, by measurement (docs/howto/checkpoints.md): a record is one ``write``, so a result is safe
from the death of the process when ``append`` returns, and an ``fsync`` for many records makes it safe from the death of
the machine. A record that was cut short or damaged is recognised by its checksums and left out.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..exceptions import LaneError, TreadleWarning
from .filelock import lock_file, unlock_file

#: How long results may wait for the fsync that they share.
SYNC_SECONDS = 1.0

MAGIC = b"treadle checkpoint\n"
VERSION = 1
#: Magic, version, the file's own random number, and the CRC of the three.
HEADER = struct.Struct("<19sI8sI")
#: Mark, index, length of the payload, digest of the item, digest of the payload, and the CRC of these and of the
#: file's number (a checkpoint inside a payload is no record of this one).
RECORD = struct.Struct("<4sQQ16s16sI")
MARK = b"\xf5TRr"
PIECE = 1 << 24
#: Where the files of this package are, and what may stand between them.
_INSIDE = (str(Path(__file__).parents[1]) + os.sep, contextlib.__file__)


def digest_of(pickled: Any) -> bytes:
    """Return the digest of a pickled item (any buffer): 16 bytes of BLAKE2b."""
    return hashlib.blake2b(pickled, digest_size=16).digest()


class Checkpoint:
    """Results that are finished, by the index and the digest of their item. Any thread may look up and append.

    ``open`` reads the file through and checks every record, so a damaged one is told before anything runs: it is left out
    with a ``TreadleWarning``, and its item is done again. One process has the file at a time.

    Raises
    ------
    LaneError
        The file is no checkpoint, is in use, is of other items, or cannot be read or written (a full disk); ``path`` and,
        for one item, ``index`` are among its fields. What was whole in the file stays whole.
    """

    path: str

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._fd = descriptor
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._offsets: dict[int, int] = {}
        self._number = b""
        self._end = 0
        self._synced = time.monotonic()
        self._dirty = False
        self._closed = False
        self._failed: LaneError | None = None

    @classmethod
    def open(cls, path: str | bytes | os.PathLike[Any]) -> Self:
        """Open a checkpoint, or make one."""
        name = os.fsdecode(os.fspath(path))
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(name, flags, 0o666)
        except (OSError, ValueError) as error:
            raise LaneError(f"the checkpoint {name!r} cannot be opened: {error}", path=name) from error
        made = cls(name, descriptor)
        try:
            with made._typed("opened"):
                made._take()
                made._read()
        except BaseException:
            os.close(descriptor)
            made._closed = True
            raise
        return made

    # --- what is there ----------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, index: int) -> bool:
        return index in self._offsets

    @property
    def last(self) -> int:
        """The highest index that is done, -1 without one."""
        return max(self._offsets, default=-1)

    def lookup(self, index: int, digest: bytes | None) -> bytes | None:
        """Return the payload of an item, or None if it is not done.

        Raises ``LaneError`` when the file has another item at that index. ``digest=None`` takes what is there.
        """
        offset = self._offsets.get(index)
        if offset is None:
            return None
        with self._typed("read"):
            head = self._read_at(offset, RECORD.size)
            _, _, length, stored, check, _ = RECORD.unpack(head)
            self.compare(index, digest, stored)
            payload = self._read_at(offset + RECORD.size, length)
        if digest_of(payload) != check:
            raise LaneError(
                f"the result of item {index} in the checkpoint {self.path!r} has changed since the file was opened",
                path=self.path,
                index=index,
            )
        return payload

    def check(self, index: int, digest: bytes) -> bool:
        """Whether the item is done; refuses another item at that index as ``lookup`` does."""
        offset = self._offsets.get(index)
        if offset is None:
            return False
        with self._typed("read"):
            self.compare(index, digest, RECORD.unpack(self._read_at(offset, RECORD.size))[3])
        return True

    def compare(self, index: int, digest: bytes | None, stored: bytes) -> None:
        """Refuse the file when it has another item at that index."""
        if digest is not None and digest != stored:
            raise LaneError(
                f"the checkpoint {self.path!r} is of other items: item {index} has the digest {digest.hex()}, in the "
                f"file it is {stored.hex()}; name another file, or remove this one to start again",
                path=self.path,
                index=index,
            )

    # --- what comes ------------------------------------------------------------------------------------------------

    def append(self, index: int, digest: bytes, payload: Any) -> None:
        """Add the result of an item, a buffer of bytes.

        After a failure (a full disk) the file ends with its last whole record, and every further append fails alike.
        """
        payload = memoryview(payload).cast("B")
        check = digest_of(payload)
        with self._lock:
            if self._failed is not None:
                raise self._failed
            if self._closed:
                raise LaneError(f"the checkpoint {self.path!r} was closed", path=self.path, index=index)
            try:
                with self._typed("written", index):
                    self._write(self._record(index, len(payload), digest, check), payload)
            except LaneError as error:
                self._failed = error
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._end)
                raise
            self._offsets[index] = self._end
            self._end += RECORD.size + len(payload)
            self._dirty = True
            due = time.monotonic() - self._synced >= SYNC_SECONDS
            if due:
                # Told before the lock is left, so that the other lanes do not come along.
                self._synced = time.monotonic()
        if due:
            self.flush()

    def flush(self) -> None:
        """Bring what was appended to the disk."""
        with self._lock:
            if self._closed or not self._dirty:
                return
            self._dirty = False
            # A descriptor of its own: the file may be closed meanwhile, and other lanes go on appending.
            descriptor = os.dup(self._fd)
        try:
            with self._typed("written"):
                os.fsync(descriptor)
        except LaneError as error:
            self._failed = self._failed or error
            raise
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Bring everything to the disk and let go of the file. Closing twice is nothing."""
        if self._closed or os.getpid() != self._pid:
            # A forked child shares the lock; it is not its to give back.
            return
        try:
            self.flush()
        finally:
            with self._lock:
                if not self._closed:
                    self._closed = True
                    unlock_file(self._fd)
                    os.close(self._fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._closed = True
            with contextlib.suppress(OSError):
                os.close(self._fd)

    # --- the file --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _typed(self, what: str, index: int | None = None) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            at = "" if index is None else f" with the result of item {index}"
            raise LaneError(
                f"the checkpoint {self.path!r} cannot be {what}{at}: {error.strerror or error}; what was in it is still there",
                path=self.path,
                index=index,
            ) from error

    def _take(self) -> None:
        held = lock_file(self._fd)
        if held is None:
            warnings.warn(
                f"the file system of the checkpoint {self.path!r} has no locks, so nothing keeps a second process from it",
                TreadleWarning,
                stacklevel=_outside(),
            )
        elif not held:
            raise LaneError(
                f"the checkpoint {self.path!r} is in use by another map; wait for it, or name another file",
                path=self.path,
            )

    def _record(self, index: int, length: int, digest: bytes, check: bytes) -> bytes:
        head = RECORD.pack(MARK, index, length, digest, check, 0)[:-4]
        return head + struct.pack("<I", zlib.crc32(self._number + head))

    def _write(self, head: bytes, payload: memoryview) -> None:
        os.lseek(self._fd, self._end, os.SEEK_SET)
        if len(payload) <= PIECE:
            _write_all(self._fd, memoryview(head + bytes(payload)))
        else:
            _write_all(self._fd, memoryview(head))
            _write_all(self._fd, payload)

    def _read_at(self, offset: int, length: int) -> bytes:
        if not hasattr(os, "pread"):
            with self._lock:
                os.lseek(self._fd, offset, os.SEEK_SET)
                return _read_all(lambda left, _: os.read(self._fd, left), length)
        return _read_all(lambda left, done: os.pread(self._fd, left, offset + done), length)

    def _read(self) -> None:
        """Find the records, drop a torn tail, and skip what is damaged."""
        size = os.fstat(self._fd).st_size
        start = self._read_at(0, min(size, HEADER.size))
        if len(start) < HEADER.size:
            if start[: len(MAGIC)] != MAGIC[: len(start)]:
                raise self._no_checkpoint()
            self._begin()
            return
        magic, version, self._number, crc = HEADER.unpack(start)
        if magic != MAGIC:
            raise self._no_checkpoint()
        if crc != zlib.crc32(start[:-4]):
            raise LaneError(
                f"the first bytes of the checkpoint {self.path!r} are damaged; it is left as it is", path=self.path
            )
        if version != VERSION:
            raise LaneError(
                f"the checkpoint {self.path!r} has version {version}, and this treadle reads {VERSION}", path=self.path
            )
        offset, damaged = HEADER.size, 0
        while offset < size:
            after = self._record_at(offset, size)
            if after is None:
                found = self._next_mark(offset + 1, size)
                if found is None:
                    break
                damaged += found - offset
                after = found
            offset = after
        if offset < size:
            self._warn(f"ends with {size - offset} bytes that are no whole record; they are dropped")
            os.ftruncate(self._fd, offset)
        if damaged:
            self._warn(f"has {damaged} damaged bytes; the items whose results they held are done again")
        self._end = offset

    def _record_at(self, offset: int, size: int) -> int | None:
        """Take the record at that offset, and return where it ends; None if there is none that is whole."""
        if offset + RECORD.size > size:
            return None
        head = self._read_at(offset, RECORD.size)
        mark, index, length, _, check, crc = RECORD.unpack(head)
        end: int = offset + RECORD.size + length
        if mark != MARK or crc != zlib.crc32(self._number + head[:-4]) or end > size:
            return None
        hashed, place = hashlib.blake2b(digest_size=16), offset + RECORD.size
        while place < end:
            piece = self._read_at(place, min(PIECE, end - place))
            if not piece:
                return None
            hashed.update(piece)
            place += len(piece)
        if hashed.digest() != check:
            return None
        self._offsets[index] = offset
        return end

    def _next_mark(self, offset: int, size: int) -> int | None:
        """The next offset at which a whole record stands."""
        while offset < size:
            piece = self._read_at(offset, min(PIECE, size - offset))
            at = piece.find(MARK)
            while at >= 0:
                if self._record_at(offset + at, size) is not None:
                    return offset + at
                at = piece.find(MARK, at + 1)
            # A mark may stand across the pieces.
            offset += max(1, len(piece) - len(MARK) + 1)
        return None

    def _begin(self) -> None:
        """Write the first bytes of a new file."""
        self._number = os.urandom(8)
        head = HEADER.pack(MAGIC, VERSION, self._number, 0)[:-4]
        os.ftruncate(self._fd, 0)
        os.lseek(self._fd, 0, os.SEEK_SET)
        _write_all(self._fd, memoryview(head + struct.pack("<I", zlib.crc32(head))))
        os.fsync(self._fd)
        self._end = HEADER.size
        # The name of a new file is safe when its folder is; not every system lets a folder be opened.
        with contextlib.suppress(OSError):
            folder = os.open(Path(self.path).resolve().parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _warn(self, what: str) -> None:
        warnings.warn(f"the checkpoint {self.path!r} {what}", TreadleWarning, stacklevel=_outside())

    def _no_checkpoint(self) -> LaneError:
        return LaneError(f"{self.path!r} is no checkpoint of treadle; it is left as it is", path=self.path)


def _outside() -> int:
    """Return the ``stacklevel`` of the first caller that is not in this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    return level


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data[: 1 << 30]) :]


def _read_all(read: Any, length: int) -> bytes:
    """Read that many bytes, or as many as there are."""
    pieces, done = [], 0
    while done < length:
        piece = read(min(length - done, 1 << 30), done)
        if not piece:
            break
        pieces.append(piece)
        done += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
