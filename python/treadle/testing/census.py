"""A census of the threads of this process, taken from the operating system."""

from __future__ import annotations

import os
import time
import unittest
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ThreadCensus"]

_TASKS = Path("/proc/self/task")


class ThreadCensus:
    """Counts the operating system's threads that appear inside a ``with`` block.

    It reads ``/proc``; elsewhere entering the block raises :class:`unittest.SkipTest`, which pytest and unittest
    report as a skipped test. Import numpy before the block: its BLAS starts threads of its own.

    Attributes
    ----------
    before : frozenset of int
        Identifiers of the threads that ran when the block was entered.

    Examples
    --------
    >>> import treadle as td
    >>> from treadle.testing import ThreadCensus
    >>> with ThreadCensus() as census:
    ...     with td.CpuEngine(threads=3):
    ...         census.assert_added(2)
    ...     census.assert_added(0)
    """

    def __init__(self) -> None:
        self.before: frozenset[int] = frozenset()

    @staticmethod
    def available() -> bool:
        """Whether this system can be asked.

        Returns
        -------
        bool
            True on Linux.

        Examples
        --------
        >>> from treadle.testing import ThreadCensus
        >>> ThreadCensus.available() in (True, False)
        True
        """
        return _TASKS.is_dir()

    @staticmethod
    def _running() -> frozenset[int]:
        return frozenset(int(name) for name in os.listdir(_TASKS))  # noqa: PTH208 -- names, not paths

    def __enter__(self) -> Self:
        if not self.available():
            msg = "threads are counted in /proc, which this system does not have"
            raise unittest.SkipTest(msg)
        self.before = self._running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def added(self) -> int:
        """Number of threads now that did not run when the block was entered.

        Returns
        -------
        int
            New threads; threads that have ended since do not count against them.

        Examples
        --------
        >>> from treadle.testing import ThreadCensus
        >>> with ThreadCensus() as census:
        ...     census.added()
        0
        """
        return len(self._running() - self.before)

    def names(self) -> list[str]:
        """Names of the new threads, sorted.

        Returns
        -------
        list of str
            As the system shows them, cut at 15 bytes.

        Examples
        --------
        >>> from treadle.testing import ThreadCensus
        >>> with ThreadCensus() as census:
        ...     census.names()
        []
        """
        found = []
        for task in self._running() - self.before:
            try:
                found.append((_TASKS / str(task) / "comm").read_text(encoding="utf-8").strip())
            except OSError:  # it ended in between
                continue
        return sorted(found)

    def assert_added(self, expected: int, *, timeout: float = 2.0) -> None:
        """Assert that exactly ``expected`` new threads run.

        Parameters
        ----------
        expected : int
            New threads, compared with the count at the start of the block.
        timeout : float
            Seconds to wait for it: a thread that was joined stays listed for an instant.

        Raises
        ------
        AssertionError
            With the names of the threads that were found.

        Examples
        --------
        >>> from treadle.testing import ThreadCensus
        >>> with ThreadCensus() as census:
        ...     census.assert_added(0)
        """
        __tracebackhide__ = True
        end = time.monotonic() + timeout
        while (count := self.added()) != expected:
            if time.monotonic() > end:
                msg = f"{count} new threads, expected {expected}: {self.names()}"
                raise AssertionError(msg)
            time.sleep(0.001)
