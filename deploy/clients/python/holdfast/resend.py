"""What a client enqueued and another primary may lack."""

from __future__ import annotations

import re
import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from .errors import temporary

_KEPT_BYTES = 32 << 20  # of specs that are kept until they are replicated; the oldest go first

Commit = tuple[int, int]  # epoch and number, the value of Holdfast-Seq


@dataclass
class _Batch:
    at: Commit
    specs: list[Any]
    size: int


class Resend:
    """Keeps what was enqueued until the node says that it is in object storage.

    When another primary begins, which may be without some of it, it is sent
    again: the idempotency keys make that safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: Optional[Commit] = None  # the newest that was seen
        self._kept: deque[_Batch] = deque()
        self._bytes = 0

    def enqueued(self, specs: list[Any], size: int) -> None:
        """Keeps specs that were just acknowledged."""
        with self._lock:
            if self._last is not None:
                self._keep(_Batch(self._last, specs, size))

    def answered(self, headers: Any, send: Callable[[list[Any]], Any]) -> None:
        """Looks at an answer, and sends again what an earlier epoch may have lost."""
        at = _parse(headers.get("Holdfast-Seq"))
        if at is None:
            return
        for batch in self._due(at, _parse(headers.get("Holdfast-Replicated-Seq"))):
            try:
                send(batch.specs)
            except Exception as err:
                # What cannot be sent now waits for the next answer.
                if temporary(err):
                    with self._lock:
                        self._keep(batch)
            else:
                with self._lock:
                    self._keep(replace(batch, at=self._last or at))

    def _keep(self, batch: _Batch) -> None:
        self._kept.append(batch)
        self._bytes += batch.size
        while self._bytes > _KEPT_BYTES:
            self._drop()

    def _drop(self) -> None:
        self._bytes -= self._kept.popleft().size

    def _due(self, at: Commit, safe: Optional[Commit]) -> list[_Batch]:
        with self._lock:
            if self._last is None or at > self._last:
                self._last = at
            if self._kept and self._kept[0].at[0] < self._last[0]:
                again = list(self._kept)
                self._kept.clear()
                self._bytes = 0
                return again
            while safe is not None and self._kept and self._kept[0].at[0] == safe[0] and self._kept[0].at <= safe:
                self._drop()
            return []


def _parse(text: Optional[str]) -> Optional[Commit]:
    found = re.fullmatch(r"(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
