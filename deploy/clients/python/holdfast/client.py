"""Calls to a node."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any, Optional, TypeVar, Union, overload
from urllib.parse import quote

from .errors import error_of
from .key import new_key
from .limits import MAX_WAIT, dumps
from .nodes import Nodes
from .resend import Resend
from .transport import Call, Cut, Transport
from .wire import (
    Ack,
    ClaimRequest,
    Claims,
    DeadGroups,
    DeadRequest,
    DeadStep,
    Enqueued,
    Extend,
    Fail,
    Filter,
    Health,
    Job,
    Jobs,
    Minute,
    Node,
    Queue,
    QueuePatch,
    Ready,
    Release,
    ReplicationStatus,
    Result,
    Snoozing,
    Spec,
    Version,
    from_wire,
    to_wire,
)

_ANSWER_JOB = 8 << 20  # bytes of one claimed job: a payload of 1 MiB, escaped at worst
_KEEP: Any = object()

T = TypeVar("T")


class Client:
    """Calls a node, or the primary among several. Any thread may use it.

    urls is one such as http://127.0.0.1:7780, several in a list, or separated by
    commas. timeout is for an answer, in seconds, on top of the wait that a call
    asks for. tries is how often a call is sent at most while that is safe.
    """

    def __init__(
        self,
        urls: Union[str, Sequence[str]],
        *,
        token: str = "",
        timeout: float = 30.0,
        tries: int = 5,
        context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._nodes = Nodes(urls)
        self._transport = Transport(self._nodes, token, timeout, context)
        self._resend = Resend()
        self._tries = tries

    @property
    def url(self) -> str:
        """The address of the node that the next call goes to."""
        return self._nodes.current

    def close(self) -> None:
        """Closes connections that are idle. The client may be used again."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def enqueue(self, specs: Spec) -> Enqueued: ...

    @overload
    def enqueue(self, specs: Sequence[Spec]) -> list[Enqueued]: ...

    def enqueue(self, specs: Union[Spec, Sequence[Spec]]) -> Union[Enqueued, list[Enqueued]]:
        """Adds a job, or several: all or none.

        A request whose answer was lost is sent again: each job has an idempotency
        key, so that it is made once.
        """
        if isinstance(specs, Spec):
            return self._enqueue([specs])[0]
        return self._enqueue(specs) if specs else []

    def _enqueue(self, specs: Sequence[Spec]) -> list[Enqueued]:
        made = [not spec.idempotency_key for spec in specs]
        wire = [to_wire(spec if spec.idempotency_key else replace(spec, idempotency_key=new_key())) for spec in specs]
        jobs = self._enqueue_once(wire, self._tries)
        self._resend.enqueued(wire, len(dumps(wire)))
        for job, own in zip(jobs, made):
            # Nobody else has a key that was made here: what it found is the job of
            # an earlier try of this very call.
            if own:
                job.duplicate = False
        return jobs

    def _enqueue_once(self, wire: list[Any], tries: int) -> list[Enqueued]:
        # The single form names a wrong field without "jobs[0]" in front.
        single = len(wire) == 1
        body = wire[0] if single else wire
        answer = self._call(Call("POST", "/v1/jobs", body=body, repeatable=True), tries=tries)
        jobs = [answer] if single else answer["jobs"]
        _check("jobs", jobs, len(wire))
        return [from_wire(Enqueued, job) for job in jobs]

    def claim(self, request: Union[str, ClaimRequest], *, tries: Optional[int] = None, cut: Optional[Cut] = None) -> Claims:
        """Asks for jobs, from a queue or as the request says. No job is no error."""
        req = ClaimRequest([request]) if isinstance(request, str) else request
        call = Call(
            "POST", "/v1/claims", body=to_wire(req), wait=(req.wait_ms or 0) / 1000, limit=(max(req.max or 1, 1) + 1) * _ANSWER_JOB
        )
        claims = from_wire(Claims, self._call(call, tries=tries, cut=cut))
        _checked("acks", claims.acks, len(req.acks or []))
        _checked("fails", claims.fails, len(req.fails or []))
        return claims

    @overload
    def ack(self, acks: Union[str, Ack]) -> Result: ...

    @overload
    def ack(self, acks: Sequence[Ack], *, tries: Optional[int] = None) -> list[Result]: ...

    def ack(self, acks: Any, *, tries: Optional[int] = None) -> Any:
        """Finishes runs that ended well.

        Of this and the four below: a lease or an item alone raises its error, a
        list gets a Result for each item, in its order.
        """
        return self._settle("acks", acks, Ack, tries)

    @overload
    def fail(self, fails: Fail) -> Result: ...

    @overload
    def fail(self, fails: Sequence[Fail], *, tries: Optional[int] = None) -> list[Result]: ...

    def fail(self, fails: Any, *, tries: Optional[int] = None) -> Any:
        """Reports runs that ended badly: their jobs are tried again, or are dead."""
        return self._settle("fails", fails, Fail, tries)

    @overload
    def release(self, releases: Union[str, Release]) -> Result: ...

    @overload
    def release(self, releases: Sequence[Release], *, tries: Optional[int] = None) -> list[Result]: ...

    def release(self, releases: Any, *, tries: Optional[int] = None) -> Any:
        """Gives jobs back without costing them an attempt."""
        return self._settle("releases", releases, Release, tries)

    @overload
    def snooze(self, snoozes: Snoozing) -> Result: ...

    @overload
    def snooze(self, snoozes: Sequence[Snoozing], *, tries: Optional[int] = None) -> list[Result]: ...

    def snooze(self, snoozes: Any, *, tries: Optional[int] = None) -> Any:
        """Puts jobs off without costing them an attempt."""
        return self._settle("snoozes", snoozes, Snoozing, tries)

    @overload
    def extend(self, extends: Union[str, Extend]) -> Result: ...

    @overload
    def extend(
        self, extends: Sequence[Extend], *, tries: Optional[int] = None, timeout: Optional[float] = None
    ) -> list[Result]: ...

    def extend(self, extends: Any, *, tries: Optional[int] = None, timeout: Optional[float] = None) -> Any:
        """Prolongs leases. A result's cancel tells that the job's cancellation was asked for."""
        return self._settle("extends", extends, Extend, tries, repeatable=True, timeout=timeout)

    def _settle(
        self, kind: str, items: Any, item: Any, tries: Optional[int], repeatable: bool = False, timeout: Optional[float] = None
    ) -> Any:
        if isinstance(items, str):
            items = item(items)
        if isinstance(items, item):
            (result,) = self._settle(kind, [items], item, tries, repeatable, timeout)
            if result.error:
                raise result.error
            return result
        if not items:
            return []
        call = Call("POST", f"/v1/{kind}", body={kind: to_wire(items)}, repeatable=repeatable)
        results = self._call(call, tries=tries, timeout=timeout)["results"]
        return _checked(kind, [from_wire(Result, r) for r in results], len(items))

    def job(self, id: str) -> Job:
        """A job with its payload and the runs that did not end well."""
        return self._one(Job, Call("GET", _job(id), repeatable=True))

    def wait(self, id: str, seconds: float) -> Job:
        """A job when it is done, dead or cancelled, or as it is after so many seconds."""
        end = time.monotonic() + seconds
        while True:
            began = time.monotonic()
            wait = min(max(end - began, 0.0), MAX_WAIT)
            job = self._one(Job, Call("GET", _job(id), {"wait_ms": int(wait * 1000)}, wait=wait, repeatable=True))
            # A node that stops answers at once, and is not to be asked in a tight loop.
            if job.ended or wait < MAX_WAIT or time.monotonic() - began < MAX_WAIT / 2:
                return job

    def retry(self, id: str, payload: Any = _KEEP) -> Job:
        """Makes a dead job claimable again; a payload takes the place of the job's."""
        return self._one(Job, Call("POST", _job(id, "/retry"), body={} if payload is _KEEP else {"payload": payload}))

    def cancel(self, id: str) -> Job:
        """Cancels a job: at once unless it runs, else its worker is told."""
        return self._one(Job, Call("POST", _job(id, "/cancel")))

    def archive(self, id: str) -> Job:
        """Takes a dead job out of the counts and lists of dead jobs."""
        return self._one(Job, Call("POST", _job(id, "/archive")))

    def delete(self, id: str) -> None:
        """Removes a job and all that belongs to it, unless it runs."""
        self._call(Call("DELETE", _job(id)))

    def jobs(self, filter: Optional[Filter] = None) -> Jobs:
        """A page of jobs."""
        query = {name: "true" if v is True else v for name, v in asdict(filter or Filter()).items() if v}
        return self._one(Jobs, Call("GET", "/v1/jobs", query, repeatable=True))

    def pages(self, filter: Optional[Filter] = None) -> Iterator[list[Job]]:
        """All pages from filter.after on, none of them empty."""
        given = filter or Filter()
        while True:
            page = self.jobs(given)
            if page.jobs:
                yield page.jobs
            if not page.next:
                return
            given = replace(given, after=page.next)

    def queues(self) -> list[Queue]:
        """Every queue with its counts."""
        return [from_wire(Queue, q) for q in self._call(Call("GET", "/v1/queues", repeatable=True))["queues"]]

    def queue(self, name: str) -> Queue:
        """A queue with all its settings."""
        return self._one(Queue, Call("GET", _queue(name), repeatable=True))

    def update_queue(self, name: str, patch: QueuePatch) -> Queue:
        """Changes settings of a queue, for the jobs that are there too."""
        return self._one(Queue, Call("PATCH", _queue(name), body=dict(patch), repeatable=True))

    def pause(self, queue: str) -> Queue:
        """Stops a queue from handing out jobs."""
        return self._one(Queue, Call("POST", _queue(queue, "/pause"), repeatable=True))

    def resume(self, queue: str) -> Queue:
        """Ends a pause."""
        return self._one(Queue, Call("POST", _queue(queue, "/resume"), repeatable=True))

    def throughput(self, queue: str, since_ms: int) -> list[Minute]:
        """The minutes since a time in which a queue did something, oldest first."""
        call = Call("GET", _queue(queue, "/throughput"), {"since_ms": int(since_ms)}, repeatable=True)
        return [from_wire(Minute, m) for m in self._call(call)["minutes"]]

    def dead_groups(self, request: Optional[DeadRequest] = None) -> DeadGroups:
        """Dead jobs that the request selects, by queue and kind of error: up to request.limit groups (100)."""
        query = to_wire(request or DeadRequest())
        query = {name: value for name, value in query.items() if name not in ("dry_run", "after")}
        return self._one(DeadGroups, Call("GET", "/v1/dead/groups", query, repeatable=True))

    def retry_dead(self, request: DeadRequest) -> DeadStep:
        """One step of retrying the dead jobs that the request selects."""
        return self._one(DeadStep, Call("POST", "/v1/dead/retry", body=to_wire(request)))

    def archive_dead(self, request: DeadRequest) -> DeadStep:
        """One step of archiving the dead jobs that the request selects."""
        return self._one(DeadStep, Call("POST", "/v1/dead/archive", body=to_wire(request)))

    def health(self, queue: str = "") -> Health:
        """The numbers of all queues, or of one."""
        return self._one(Health, Call("GET", "/v1/health", {"queue": queue} if queue else None, repeatable=True))

    def replication(self) -> ReplicationStatus:
        """How the copy of the node's database stands."""
        return self._one(ReplicationStatus, Call("GET", "/v1/replication", repeatable=True))

    def node(self) -> Node:
        """Who answers at the URL."""
        return self._one(Node, Call("GET", "/v1/node", repeatable=True))

    def ready(self) -> Ready:
        """Whether the node serves; one that answers that it does not is no error."""
        return self._one(Ready, Call("GET", "/readyz", accept=503, repeatable=True))

    def version(self) -> Version:
        """The version of the node."""
        return self._one(Version, Call("GET", "/version", repeatable=True))

    def _one(self, cls: type[T], call: Call) -> T:
        return from_wire(cls, self._call(call))

    def _call(
        self, call: Call, *, tries: Optional[int] = None, timeout: Optional[float] = None, cut: Optional[Cut] = None
    ) -> Any:
        def after(headers: Any) -> None:
            self._resend.answered(headers, lambda specs: self._enqueue_once(specs, 1))

        return self._transport.call(call, after, tries or self._tries, timeout, cut)


def _job(id: str, action: str = "") -> str:
    return f"/v1/jobs/{quote(str(id), safe='')}{action}"


def _queue(name: str, action: str = "") -> str:
    return f"/v1/queues/{quote(name, safe='')}{action}"


def _check(kind: str, results: Any, sent: int) -> None:
    if len(results) != sent:
        raise RuntimeError(f"{kind}: {sent} were sent, {len(results)} answered")


def _checked(kind: str, results: list[Result], sent: int) -> list[Result]:
    _check(kind, results, sent)
    for r in results:
        if not r.ok and r.error is None:
            r.error = error_of("internal", "the node gave no reason")
    return results
