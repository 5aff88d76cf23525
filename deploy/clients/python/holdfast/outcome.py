"""How a run ended, until the node knows."""

from __future__ import annotations

import math
import traceback
from typing import Any, Optional, Union

from .errors import Fatal, Later, Snooze, TimedOut
from .limits import MAX_BATCH_BYTES, MAX_DELAY, MAX_ERROR, MAX_ITEMS, dumps
from .wire import Ack, Claimed, Fail, Release, Snoozing, to_wire

Item = Union[Ack, Fail, Release, Snoozing]


class Outcome:
    """How a run ended: kind is ack, fail, release or snooze."""

    def __init__(
        self,
        kind: str,
        job: Claimed,
        give_up: float,
        result: Any = None,
        error: Optional[BaseException] = None,
        cause: Optional[BaseException] = None,
    ) -> None:
        self.kind = kind
        self.job = job
        self.give_up = give_up  # not sent after it
        self.sent = 0  # times without an answer
        self.alone = False  # to be sent by itself: a batch with it was refused
        self.item = _item(kind, job.lease, result, error, cause)
        self.bytes = len(dumps(to_wire(self.item))) if kind in ("ack", "fail") else 0

    @property
    def carried(self) -> bool:
        """Whether a claim can carry it. One that was sent before goes a way of its own."""
        return self.kind in ("ack", "fail") and self.sent == 0 and not self.alone

    def failed(self, error: BaseException) -> Outcome:
        """Makes a failure of it: a result that is not taken has a reason to be told."""
        o = Outcome("fail", self.job, self.give_up, error=Later(0, str(error)))
        assert isinstance(o.item, Fail)
        o.item.retry_in_ms = None
        o.sent, o.alone = self.sent, self.alone
        return o


def _item(kind: str, lease: str, result: Any, error: Optional[BaseException], cause: Optional[BaseException]) -> Item:
    if kind == "ack":
        return Ack(lease, result)
    if kind == "snooze":
        assert isinstance(error, Snooze)
        return Snoozing(lease, _delay(error.seconds))
    if kind == "release" or error is None:
        return Release(lease)
    item = Fail(lease, error_text(error, cause))
    if isinstance(error, Fatal):
        item.fatal = True
    elif isinstance(error, Later):
        item.retry_in_ms = _delay(error.seconds)
    return item


def _delay(seconds: float) -> int:
    return 0 if math.isnan(seconds) else int(min(max(seconds, 0.0), MAX_DELAY) * 1000)


class Batch:
    """Keeps a batch within what a node takes in one request."""

    def __init__(self) -> None:
        self.items: list[Outcome] = []
        self._bytes = 0
        self._full = False

    def take(self, o: Outcome) -> bool:
        """Takes o if it fits."""
        if self._full or len(self.items) == MAX_ITEMS or self._bytes + o.bytes > MAX_BATCH_BYTES or (o.alone and self.items):
            return False
        self.items.append(o)
        self._bytes += o.bytes
        self._full = o.alone
        return True


def error_text(error: BaseException, cause: Optional[BaseException] = None) -> str:
    """What a node keeps of an error: what and where, unless the handler gave a reason in words."""
    text = _described(error)
    if isinstance(cause, TimedOut) and not isinstance(error, (Fatal, TimedOut)):
        text = f"{cause}: {text}"
    return text.encode(errors="replace")[:MAX_ERROR].decode(errors="ignore")


def _described(error: BaseException) -> str:
    if isinstance(error, TimedOut):
        return str(error)
    if isinstance(error, (Fatal, Later)):
        reason = error.reason if isinstance(error.reason, BaseException) else error.__cause__
        if reason is None:
            return str(error)
        error = reason
    # The line that says most comes first: lists show it, and errors are grouped by
    # how they begin. The first frame is that of the worker.
    trace = error.__traceback__.tb_next if error.__traceback__ else None
    what = "".join(traceback.format_exception_only(type(error), error)).strip()
    where = "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))
    return f"{what}\n{where}".strip()
