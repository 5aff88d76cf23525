"""One run of a Worker."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from logging import Logger
from typing import Any, Callable, Optional

from .client import Client
from .errors import LeaseLost, Stopped, refused
from .heartbeat import Heartbeat
from .lane import Lane
from .outcome import Batch, Outcome
from .run import Handler, Held, kind_of
from .settling import Settling
from .transport import Cut
from .wire import Ack, Claimed, ClaimRequest, Claims, Fail

_POLL_WAIT = 20.0  # seconds of a claim that waits for a job
_EMPTY_PAUSE = 0.5
_SETTLE_GRACE = 5.0  # for the last acks, after the handlers
_RECALL = 0.8  # for the answer to a claim that was called back


@dataclass
class Options:
    """What a Worker was told, completed."""

    queues: list[str]
    handlers: dict[str, Handler]
    default: Optional[Handler]
    concurrency: int
    prefetch: int
    lease: float
    grace: float
    name: str
    logger: Logger


class Shift:
    """The loop: do what can be done, wait for something to change.

    The thread of run owns all that is here. Calls to the node and handlers run in
    threads of a pool and hand back what to do with their answer as a function for
    the owner to call. So nothing here is locked.
    """

    def __init__(self, client: Client, options: Options, events: queue.SimpleQueue[Callable[[], None]], stop: threading.Event, hurry: threading.Event) -> None:
        self.client = client
        self.options = options
        self.runs: dict[str, Held] = {}  # by lease: those that run and those that are held
        self.held: list[Held] = []  # claimed beyond the concurrency
        self.stopping = False
        self.settling = Settling(self)
        self.heartbeat = Heartbeat(self)
        self._events = events
        self._stop_asked = stop
        self._hurry_asked = hurry
        # Handlers, and a thread for each of the three lanes.
        self._pool = ThreadPoolExecutor(options.concurrency + 3, thread_name_prefix="holdfast")
        self._claim = Lane()  # asks for jobs
        self._claim_waits = False  # the claim under way may wait long for its answer
        self._cut = Cut()  # of that claim
        self._cut_at: Optional[float] = None
        self._grace_end = float("inf")
        self._expelled = False  # handlers were told to stop
        self._last_end = 0.0  # when a handler last returned
        self._failure: Optional[BaseException] = None
        self._interrupt: Optional[KeyboardInterrupt] = None

    def run(self) -> None:
        """Works until it is stopped, and everything has been reported."""
        try:
            while True:
                now = time.monotonic()
                if self._failure or self._stop_asked.is_set():
                    self._stop(now, self.options.grace)
                if self._interrupt or self._hurry_asked.is_set():
                    self._stop(now, 0.0)
                self._step(now)
                if self._finished():
                    break
                self._wait(now)
        finally:
            # No handler runs and nothing is left to report; what may still be under
            # way, such as a heartbeat, ends by its timeout.
            self._pool.shutdown(wait=False)
        if self._interrupt or self._failure:
            raise self._interrupt or self._failure  # type: ignore[misc]

    def _wait(self, now: float) -> None:
        try:
            event = self._events.get(timeout=self._until_next(now))
        except queue.Empty:
            return
        except KeyboardInterrupt as err:
            if self._interrupt is not None:
                raise
            self._interrupt = err  # raised when the jobs are given back
            return
        event()

    def call(self, f: Callable[[], Any], then: Callable[[Any, Optional[BaseException]], None]) -> None:
        """Runs f in the pool and hands its result, or its error, to then."""

        def job() -> None:
            try:
                value, err = f(), None
            except BaseException as e:
                value, err = None, e
            self._events.put(lambda: then(value, err))

        self._pool.submit(job)

    def log(self, level: str, message: str, **fields: Any) -> None:
        """Logs a message with its data behind it."""
        data = "".join(f" {name}={value!r}" if name == "err" else f" {name}={value}" for name, value in fields.items() if value is not None)
        getattr(self.options.logger, level)("%s worker=%s%s", message, self.options.name, data)

    def last_call(self, now: float) -> bool:
        """Whether a shift that stops has no more time to report."""
        return now >= self._report_end()

    @property
    def claim_carries(self) -> bool:
        """Whether a claim is under way after which the next can carry outcomes."""
        return self._claim.busy and not self._claim_waits and not self.stopping

    def _step(self, now: float) -> None:
        if self.stopping and not self._expelled and now >= self._grace_end:
            self._expelled = True
            for held in self.runs.values():
                held.end(Stopped("the worker stops"))
        if self._cut_at is not None and now >= self._cut_at:
            self._cut_at = None
            self._cut.end()
        for held in self.runs.values():
            if held.started is not None and held.deadline is not None and now >= held.deadline:
                held.time_out()
        self.settling.give_up(now)
        self._start_held(now)
        self._start_claim(now)
        self.settling.start(now)
        self.heartbeat.start(now)

    def _report_end(self) -> float:
        # A handler may take some time to heed the end of its run; its job is given
        # back all the same.
        return max(self._grace_end, self._last_end) + _SETTLE_GRACE

    def _finished(self) -> bool:
        if not self.stopping or self.runs:
            return False
        if self.last_call(time.monotonic()):  # a call that hangs is left to its timeout
            return True
        return not self._claim.busy and not self.settling.lane.busy and not self.settling.pending

    def _until_next(self, now: float) -> float:
        times = [self._claim.next, self.settling.lane.next, self.heartbeat.lane.next]
        times += [held.deadline for held in self.runs.values() if held.deadline is not None and held.started is not None]
        if self._cut_at is not None:
            times.append(self._cut_at)
        if self.stopping:
            times += [self._grace_end, self._report_end()]
        return min([3600.0] + [t - now for t in times if t > now])

    def _stop(self, now: float, grace: float) -> None:
        # Begins the end of the shift, or hastens it. A claim that waits is called
        # back; a short one carries acks and is let through.
        if self.stopping:
            if now + grace < self._grace_end:
                self._grace_end = now + grace
                self.log("info", "stopping now", running=len(self.runs))
            return
        self.stopping = True
        self._grace_end = now + grace
        for held in self.held:
            del self.runs[held.job.lease]
            self._give_back(held.job, now)
        self.held = []
        if self._claim.busy and self._claim_waits:
            self._cut.recall()
            self._cut_at = now + _RECALL
        self.log("info", "stopping", running=len(self.runs), grace=grace)

    def _start_claim(self, now: float) -> None:
        # Outcomes that wait go along, which saves them a request and a commit. Such
        # a claim does not wait for jobs: its answer, and with it the word that the
        # acks are kept, would come only with the next job.
        o = self.options
        free = o.concurrency + o.prefetch - len(self.runs)
        if self.stopping or free <= 0 or not self._claim.ready(now):
            return
        req = ClaimRequest(o.queues, o.name, free, lease_ms=int(o.lease * 1000))
        carried = self.settling.take_carried(Batch())
        self._claim_waits = not carried
        cut = None
        if self._claim_waits:
            req.wait_ms = int(_POLL_WAIT * 1000)
            cut = self._cut = Cut()
        else:
            req.acks = [c.item for c in carried if isinstance(c.item, Ack)] or None
            req.fails = [c.item for c in carried if isinstance(c.item, Fail)] or None
        self._claim.busy = True
        self.call(
            lambda: self.client.claim(req, tries=1, cut=cut),
            lambda claims, err: self._claimed(carried, claims, err, now),
        )

    def _claimed(self, carried: list[Outcome], claims: Claims, err: Optional[BaseException], since: float) -> None:
        now = time.monotonic()
        self._claim.busy = False
        if err is not None:
            self.settling.unsettled(carried, err)
            self._claim_failed(now, bool(carried), err)
            return
        if self._claim.fails > 0:
            self.log("info", "the node answers again", tries=self._claim.fails)
        self._claim.succeeded()
        self.settling.carried(carried, claims, now)
        if not claims.jobs and self._claim_waits and now - since < _EMPTY_PAUSE:
            # A node that stops answers at once. So does one that is not to be waited
            # for, and must not be asked in a tight loop either.
            self._claim.next = now + _EMPTY_PAUSE
        for job in claims.jobs:
            self._take(job, now)

    def _take(self, job: Claimed, now: float) -> None:
        if self.stopping:
            self._give_back(job, now)
            return
        if not self.runs:
            self.heartbeat.rest(now)
        held = Held(job, now, self.options.lease, self._progressed)
        self.runs[job.lease] = held
        self.held.append(held)

    def _progressed(self, held: Held, value: Any) -> None:
        self._events.put(lambda: self.heartbeat.progressed(held, value))

    def _give_back(self, job: Claimed, now: float) -> None:
        self.settling.pending.append(Outcome("release", job, now + self.options.lease))

    def _claim_failed(self, now: float, carrying: bool, err: BaseException) -> None:
        if self.stopping:
            return  # it was called back
        if refused(err):
            # An outcome may be to blame; the next claim goes without.
            if not carrying:
                self._failure = err
            return
        if self._claim.fails == 0:
            self.log("warning", "the node does not answer; trying again", err=err)
        self._claim.failed(now)

    def _start_held(self, now: float) -> None:
        while self.held and len(self.runs) - len(self.held) < self.options.concurrency:
            self._start(self.held.pop(0), now)

    def _start(self, held: Held, now: float) -> None:
        held.started = now
        handler = self._handler(held.job.type)

        def ended(value: Any, bug: Optional[BaseException]) -> None:
            result, error = (None, bug) if bug is not None else value
            self._ended(held, result, error, now)

        self.call(lambda: held.handle(handler), ended)

    def _handler(self, kind: str) -> Handler:
        handler = self.options.handlers.get(kind) or self.options.default
        if handler is not None:
            return handler

        def unknown(job: Claimed, run: Any) -> None:
            known = ", ".join(sorted(self.options.handlers))
            raise LookupError(f"unknown job type {kind!r}; this worker handles {known}")

        return unknown

    def _ended(self, held: Held, result: Any, error: Optional[BaseException], since: float) -> None:
        # Decides what becomes of a job whose handler returned.
        now = time.monotonic()
        job = held.job
        del self.runs[job.lease]
        self._last_end = now
        cause = held.run.cause
        about = {"job": job.id, "queue": job.queue, "type": job.type, "run": job.run, "attempt": job.attempt, "ms": int((now - since) * 1000)}
        if held.lost:
            self.log("warning", "job finished", **about, outcome="dropped", err=error)
            return
        kind = kind_of(error, cause)
        outcome = {"ack": "done", "release": "released", "snooze": "snoozed", "fail": "failed"}[kind]
        self.log("warning" if kind == "fail" else "info", "job finished", **about, outcome=outcome, err=cause if kind == "release" else error)
        # A node that was down gives every lease another 30 s when it is back, so an
        # ack may still be taken after the lease ended by the clock here.
        give_up = held.lease_end + self.options.lease
        self.settling.pending.append(Outcome(kind, job, give_up, result, error, cause))

    def withdraw(self, held: Held, cause: BaseException, lost: bool) -> None:
        """Ends a run that is not wanted any more. A job that is held is given back if it is still ours."""
        held.lost = held.lost or lost
        if held.started is not None:
            held.end(cause)
        elif held in self.held:
            self.held.remove(held)
            del self.runs[held.job.lease]
            if not lost:
                self._give_back(held.job, time.monotonic())

    def withdraw_expired(self, now: float) -> None:
        """Without word from the node for as long as a lease, another may have the job."""
        for held in list(self.runs.values()):
            if not held.lost and now >= held.lease_end:
                self.withdraw(held, LeaseLost("no word from the node for as long as the lease", "lease_lost"), lost=False)
