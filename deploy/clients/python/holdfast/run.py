"""A claimed job, and what its handler has of the run."""

from __future__ import annotations

import threading
from typing import Any, Callable, Optional

from .errors import Cancelled, Fatal, LeaseLost, Snooze, Stopped, TimedOut
from .limits import MAX_PROGRESS, MAX_RESULT, snapshot
from .wire import Claimed


class Run:
    """What a handler has of its run, besides the job."""

    def __init__(self, progressed: Callable[[Any], None]) -> None:
        self._progressed = progressed
        self._ended = threading.Event()
        self._cause: Optional[BaseException] = None

    @property
    def cause(self) -> Optional[BaseException]:
        """Why the run is not wanted any more: a LeaseLost, Cancelled, TimedOut or Stopped.

        None as long as it is wanted.
        """
        return self._cause

    def wait(self, seconds: Optional[float] = None) -> bool:
        """Sleeps, and returns at once with True when the run is not wanted any more."""
        return self._ended.wait(seconds)

    def check(self) -> None:
        """Raises the cause if the run is not wanted any more."""
        if self._cause is not None:
            raise self._cause

    def progress(self, value: Any) -> None:
        """Reports how the run gets on, which others see as the job's progress.

        Any JSON value up to 64 KiB. About once a second the latest one is sent.
        """
        self._progressed(snapshot("progress", value, MAX_PROGRESS))

    def _end(self, cause: BaseException) -> None:
        if self._cause is None:
            self._cause = cause
            self._ended.set()


Handler = Callable[[Claimed, Run], Any]


class Held:
    """A claimed job: held until its turn comes, then in the hands of its handler."""

    def __init__(self, job: Claimed, now: float, lease: float, progressed: Callable[[Held, Any], None]) -> None:
        self.job = job
        self.run = Run(lambda value: progressed(self, value))
        self.lease_end = now + lease  # by this machine's clock
        self.started: Optional[float] = None
        self.lost = False  # the node said so: there is nothing left to report
        self.progress: Any = None  # to be sent with the next heartbeat
        self.deadline: Optional[float] = None
        if job.timeout_ms > 0:
            # A little more tightly than the node, and like it from the claim on, so
            # that the failure that is kept is the handler's own, not just "timeout".
            timeout = job.timeout_ms / 1000
            self.deadline = now + timeout - min(timeout / 20, 0.5)

    def end(self, cause: BaseException) -> None:
        """Tells the handler that its run is not wanted any more."""
        self.run._end(cause)

    def time_out(self) -> None:
        """Tells the handler that it took too long."""
        self.deadline = None
        self.end(TimedOut(f"the run took longer than the job's timeout ({self.job.timeout_ms} ms)"))

    def handle(self, handler: Handler) -> tuple[Any, Optional[BaseException]]:
        """Calls the handler and returns its result and its error."""
        try:
            value = handler(self.job, self.run)
            # As it is now: the handler may change it later.
            return (None if value is None else snapshot("result", value, MAX_RESULT)), None
        except BaseException as err:  # a handler that exits has failed too
            return None, err


def kind_of(error: Optional[BaseException], cause: Optional[BaseException]) -> str:
    """How a run ended.

    A handler that finished its work is believed, also when its run ended before;
    one that broke off because it was told to is not blamed.
    """
    if error is None:
        return "ack"
    if isinstance(error, Snooze):
        return "snooze"
    if isinstance(error, Fatal):
        return "fail"
    if isinstance(cause, (Stopped, Cancelled, LeaseLost)):
        return "release"
    return "fail"
