"""A lock on an open file that dies with its process."""

from __future__ import annotations

import contextlib
import errno
import os
import sys

#: What systems say when another holds the lock.
_HELD = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK}
#: What they say when the file system has no locks, as some of clusters.
_ABSENT = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}

if sys.platform == "win32":
    import msvcrt

    #: A byte that no file has; there a lock keeps readers out too.
    _PLACE = 1 << 62

    def lock_file(descriptor: int) -> bool | None:
        """Lock the file; False when another holds it, None where there are no locks."""
        os.lseek(descriptor, _PLACE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            if error.errno in _HELD or error.errno == errno.EDEADLK:
                return False
            raise
        return True

    def unlock_file(descriptor: int) -> None:
        """Give the lock back."""
        with contextlib.suppress(OSError):
            os.lseek(descriptor, _PLACE, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def lock_file(descriptor: int) -> bool | None:
        """Lock the file; False when another holds it, None where there are no locks."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                return False
            if error.errno in _ABSENT:
                return None
            raise
        return True

    def unlock_file(descriptor: int) -> None:
        """Give the lock back."""
        # A child that was forked holds the same lock, so closing the file is not enough.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
