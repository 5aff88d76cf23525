"""Calls of a kind, one at a time."""

from __future__ import annotations

from .limits import retry_delay


class Lane:
    """A kind of call to the source, of which one is under way at a time."""

    def __init__(self) -> None:
        self.busy = False
        self.next = 0.0  # not before, by time.monotonic()
        self.fails = 0  # in a row

    def ready(self, now: float) -> bool:
        """Whether the next call may be made."""
        return not self.busy and now >= self.next

    def failed(self, now: float) -> None:
        """Notes a call that brought no answer."""
        self.fails += 1
        self.next = now + retry_delay(self.fails)

    def succeeded(self) -> None:
        """Notes one that did."""
        self.fails = 0
        self.next = 0.0
