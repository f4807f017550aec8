"""What ``threading`` has to know about a lane's thread. Called by the extension, once for each lane and run."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextvars import Context


def run_as_lane(name: str, context: Context, entry: Callable[[], None]) -> None:
    """Run ``entry`` in ``context`` on this thread, which ``threading`` did not start, as if it had."""
    # threading makes a stand-in for a thread that it does not know; it gets the lane's name and goes with the run.
    thread = threading.current_thread()
    thread.name = name
    profile, trace = threading.getprofile(), threading.gettrace()
    try:
        if profile is not None:
            sys.setprofile(profile)
        if trace is not None:
            sys.settrace(trace)
        context.run(entry)
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        _forget(thread)


def _forget(thread: threading.Thread) -> None:
    """Take the stand-in out of ``threading.enumerate()``; the thread ends now."""
    # Python 3.11 and 3.12.0 keep stand-ins for ever, and a later thread with the same identity would inherit one.
    active = getattr(threading, "_active", None)
    lock = getattr(threading, "_active_limbo_lock", None)
    if active is None or lock is None:
        return
    with lock:
        if active.get(thread.ident) is thread:
            del active[thread.ident]


def end_forked_child(error: BaseException | None) -> None:
    """End a process that was forked inside a lane and came back from the callback. Never returns."""
    status = 0
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    elif error is not None:
        traceback.print_exception(error)
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(status)
