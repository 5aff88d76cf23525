"""Extends the leases of a shift's runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Optional

from .errors import Cancelled, LeaseLost, refused
from .lane import Lane
from .limits import MAX_BATCH_BYTES, dumps
from .run import Held
from .wire import Extend, Result

if TYPE_CHECKING:
    from .shift import Shift

_PROGRESS_EVERY = 1.0  # seconds between reports of progress, at least


class Heartbeat:
    """Extends all leases in one request, at a third of their length."""

    def __init__(self, shift: Shift) -> None:
        self.lane = Lane()
        self._shift = shift
        self._every = shift.options.lease / 3  # leaves two more chances when one is lost
        self._last = 0.0  # when the last one was sent

    def rest(self, now: float) -> None:
        """Begins to count when there is something to extend again."""
        self.lane.next = now + self._every

    def progressed(self, held: Held, value: Any) -> None:
        """Keeps what a handler reported for a heartbeat soon."""
        if self._shift.runs.get(held.job.lease) is held:
            held.progress = value
            self._soon()

    def _soon(self) -> None:
        if self.lane.fails == 0:
            self.lane.next = min(self.lane.next, self._last + _PROGRESS_EVERY)

    def start(self, now: float) -> None:
        """Sends the next one when it is time."""
        shift = self._shift
        if not shift.runs or not self.lane.ready(now):
            return
        batch = [held for held in shift.runs.values() if not held.lost]
        if not batch:
            self.rest(now)
            return
        lease_ms = int(shift.options.lease * 1000)
        items = []
        size = 0
        for held in batch:
            item = Extend(held.job.lease, lease_ms)
            more = 0 if held.progress is None else len(dumps(held.progress))
            if more and size + more <= MAX_BATCH_BYTES:
                size += more
                item.progress, held.progress = held.progress, None
            items.append(item)
        self.lane.busy = True
        self._last = now
        # A request that hangs must not cost the lease its next heartbeats.
        shift.call(
            lambda: shift.client.extend(items, tries=1, timeout=self._every),
            lambda results, err: self._beaten(now, batch, items, results, err),
        )

    def _beaten(self, sent: float, batch: list[Held], items: list[Extend], results: Any, err: Optional[BaseException]) -> None:
        now = time.monotonic()
        shift = self._shift
        self.lane.busy = False
        if err is not None:
            for held, item in zip(batch, items):
                # Unless it is what the node refuses, or a newer one has come.
                if held.progress is None and not refused(err):
                    held.progress = item.progress
            if self.lane.fails == 0:
                shift.log("warning", "leases not extended; trying again", runs=len(batch), err=err)
            self.lane.failed(now)
            self.lane.next = min(self.lane.next, now + self._every)
        else:
            self.lane.succeeded()
            self.lane.next = sent + self._every
            if any(held.progress is not None for held in shift.runs.values()):  # it came meanwhile
                self._soon()
            for held, result in zip(batch, results):
                self._extended(held, sent, result)
        shift.withdraw_expired(now)

    def _extended(self, held: Held, sent: float, result: Result) -> None:
        shift = self._shift
        job = held.job
        if isinstance(result.error, LeaseLost):
            if shift.runs.get(job.lease) is held:
                shift.log("warning", "lease lost; the handler is told", job=job.id, queue=job.queue, run=job.run)
            shift.withdraw(held, result.error, lost=True)
        elif result.error is not None:
            shift.log("warning", "lease not extended", job=job.id, queue=job.queue, run=job.run, err=result.error)
        else:
            held.lease_end = sent + shift.options.lease
            if result.cancel:
                shift.withdraw(held, Cancelled("the job was cancelled"), lost=False)
