"""Where the root of a map across ranks looks for results that it has already, and puts those that it gets."""

from __future__ import annotations

from typing import Protocol

from .wire import Packed


class Recording(Protocol):
    """Results that outlive the map. Called on the root, by the thread that called the map."""

    def found(self, index: int, item: Packed) -> Packed | None:
        """Return the result of an item that was finished earlier; called once for each item, in order."""

    def finished(self, index: int, result: Packed) -> None:
        """Keep a result; called in the order in which results arrive."""

    def close(self) -> None:
        """Bring everything to safety; called once, however the map ends."""
