"""Claims jobs and runs their handlers."""

from __future__ import annotations

import logging
import os
import queue
import re
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Callable, Optional

from .client import Client
from .limits import MAX_ITEMS, MAX_LEASE, MAX_NAME, MAX_QUEUES, MIN_LEASE
from .run import Handler
from .shift import Options, Shift

__all__ = ["Handler", "Worker", "worker_name"]


def worker_name() -> str:
    """A name for a worker of this process, host:pid:random."""
    # The random part keeps two containers apart that share a host name and a pid.
    return f"{socket.gethostname()[:80] or 'unknown'}:{os.getpid()}:{secrets.token_hex(4)}"


class Worker:
    """Claims jobs of queues, in this order of preference, and runs their handlers.

    handlers are by the type of the job; default is for every other type, without
    it such a job fails. They run in threads, concurrency at a time; prefetch more
    jobs are held for the next free one. lease is how many seconds a job outlives a
    worker that is gone, grace how many handlers may go on after stop.
    """

    def __init__(
        self,
        client: Client,
        *,
        queues: Sequence[str],
        handlers: Optional[Mapping[str, Handler]] = None,
        default: Optional[Handler] = None,
        concurrency: int = 1,
        prefetch: int = 0,
        lease: float = 30.0,
        grace: float = 30.0,
        name: str = "",
        logger: Optional[logging.Logger] = None,
    ) -> None:
        self._client = client
        self._options = Options(
            queues=[queues] if isinstance(queues, str) else list(queues),
            handlers=dict(handlers or {}),
            default=default,
            concurrency=concurrency,
            prefetch=prefetch,
            lease=lease,
            grace=max(grace, 0.0),
            name=name or worker_name(),
            logger=logger or logging.getLogger("holdfast"),
        )
        problems = _problems(self._options)
        if problems:
            raise ValueError("worker: " + "; ".join(problems))
        self._events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._hurry = threading.Event()

    @property
    def name(self) -> str:
        """What the node knows the worker by."""
        return self._options.name

    def run(self) -> None:
        """Works until stop.

        Returns when every handler has returned and was reported, and raises when
        the node refuses the worker's claims as wrong. After a KeyboardInterrupt it
        gives its jobs back before it raises it.
        """
        Shift(self._client, self._options, self._events, self._stop, self._hurry).run()

    def stop(self, *_: Any) -> None:
        """Begins the end of run: no new jobs, and a grace for those that run.

        It may be called from any thread, and be a signal handler.
        """
        self._stop.set()
        self._events.put(_look)

    def stop_now(self, *_: Any) -> None:
        """Ends run without the grace: handlers are told, and their jobs given back."""
        self._hurry.set()
        self._events.put(_look)


def _look() -> None:
    # The loop looks at everything after each event.
    pass


_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")


def _problems(o: Options) -> list[str]:
    problems = []
    if not o.queues:
        problems.append("no queue to work on")
    if len(o.queues) > MAX_QUEUES:
        problems.append(f"{len(o.queues)} queues are more than {MAX_QUEUES}")
    problems += [_wrong("queue", name) for name in o.queues if not _valid(name)]
    problems += [f"queue {name!r} is named twice" for i, name in enumerate(o.queues) if name in o.queues[:i]]
    if not o.handlers and o.default is None:
        problems.append("no handler")
    problems += [_wrong("type", name) for name in o.handlers if not _valid(name)]
    problems += [f"the handler for type {name!r} cannot be called" for name, handler in o.handlers.items() if not callable(handler)]
    if o.default is not None and not callable(o.default):
        problems.append("the default handler cannot be called")
    if not 1 <= o.concurrency <= MAX_ITEMS:
        problems.append(f"concurrency {o.concurrency} is not between 1 and {MAX_ITEMS}")
    if not 0 <= o.prefetch <= MAX_ITEMS - o.concurrency:
        problems.append(f"prefetch {o.prefetch} is not between 0 and {MAX_ITEMS} less the concurrency")
    if not MIN_LEASE <= o.lease <= MAX_LEASE:
        problems.append(f"a lease of {o.lease} s is not between {MIN_LEASE} and {MAX_LEASE}")
    return problems


def _valid(name: str) -> bool:
    return len(name) <= MAX_NAME and _NAME.fullmatch(name) is not None


def _wrong(what: str, name: str) -> str:
    return f"{what} {name[:MAX_NAME]!r}: use letters, digits and . _ : - and begin with a letter or digit, at most {MAX_NAME} bytes"
