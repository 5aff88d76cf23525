"""The JSON of the HTTP API as dataclasses.

Times and durations whose names end in _ms are integers of milliseconds, ids are
strings. In what is sent, None means the default; in answers, a time that has not
come, or what the node does not say.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Optional, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import HoldfastError, error_of

T = TypeVar("T")


@dataclass
class Backoff:
    """How long a failed job waits: kind is exponential, quadratic, fixed or list."""

    kind: str
    base_ms: Optional[int] = None
    max_ms: Optional[int] = None
    delays_ms: Optional[list[int]] = None


@dataclass
class Spec:
    """A job as a producer hands it in. Only queue is required."""

    queue: str
    type: Optional[str] = None
    payload: Any = None  # any JSON value up to 1 MiB
    priority: Optional[int] = None
    run_at_ms: Optional[int] = None
    delay_ms: Optional[int] = None
    max_attempts: Optional[int] = None
    timeout_ms: Optional[int] = None
    backoff: Optional[Backoff] = None
    idempotency_key: Optional[str] = None  # makes at most one job; the client makes one where there is none
    tags: Optional[dict[str, str]] = None
    expires_at_ms: Optional[int] = None
    durability: Optional[str] = None  # local or replicated
    traceparent: Optional[str] = None  # of W3C Trace Context; handed on with the claim


@dataclass
class Enqueued:
    """The answer to a Spec."""

    id: str = ""
    queue: str = ""
    type: str = ""
    state: str = ""
    duplicate: bool = False
    run_at_ms: int = 0
    created_at_ms: int = 0


@dataclass
class Ack:
    """A run ended well."""

    lease: str
    result: Any = None  # any JSON value up to 64 KiB


@dataclass
class Fail:
    """A run ended badly."""

    lease: str
    error: Optional[str] = None
    retry_in_ms: Optional[int] = None  # in the place of the job's back-off
    fatal: Optional[bool] = None  # no further attempt: the job is dead


@dataclass
class Release:
    """A job is given back without costing it an attempt."""

    lease: str


@dataclass
class Snoozing:
    """A job is put off without costing it an attempt."""

    lease: str
    delay_ms: int


@dataclass
class Extend:
    """A lease is prolonged, and progress may be reported."""

    lease: str
    lease_ms: Optional[int] = None
    progress: Any = None  # any JSON value up to 64 KiB


@dataclass
class ClaimRequest:
    """Acks and fails are settled first, in the same commit."""

    queues: list[str]  # in this order of preference
    worker: Optional[str] = None
    max: Optional[int] = None
    wait_ms: Optional[int] = None
    lease_ms: Optional[int] = None
    acks: Optional[list[Ack]] = None
    fails: Optional[list[Fail]] = None


@dataclass
class Claimed:
    """A job in the hands of a worker."""

    id: str = ""
    queue: str = ""
    type: str = ""
    payload: Any = None
    priority: int = 0
    run: int = 0
    attempt: int = 0
    max_attempts: int = 0
    timeout_ms: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    run_at_ms: int = 0
    created_at_ms: int = 0
    traceparent: str = ""
    lease: str = ""
    lease_until_ms: int = 0


@dataclass
class Result:
    """What became of one item of a batch."""

    id: str = ""  # the job that the lease names; empty: it names none, which is an error
    ok: bool = False
    state: str = ""
    run_at_ms: int = 0
    lease_until_ms: int = 0
    cancel: bool = False  # the job's cancellation was asked for
    error: Optional[HoldfastError] = None  # why it failed, such as a LeaseLost


@dataclass
class Claims:
    """The answer to a ClaimRequest. No job is no error."""

    jobs: list[Claimed] = field(default_factory=list)
    acks: list[Result] = field(default_factory=list)
    fails: list[Result] = field(default_factory=list)
    stopping: bool = False  # the node stops: it hands out no job, and ended the wait


@dataclass
class JobRun:
    """A run that did not end well."""

    run: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    outcome: str = ""  # failed, timeout, crashed, interrupted or cancelled
    worker: str = ""
    error: str = ""


@dataclass
class Job:
    """A job as it stands."""

    id: str = ""
    queue: str = ""
    type: str = ""
    state: str = ""
    priority: int = 0
    payload: Any = None
    run: int = 0
    attempt: int = 0
    max_attempts: int = 0
    failures: int = 0
    crashes: int = 0
    interruptions: int = 0
    timeout_ms: int = 0
    backoff: Optional[Backoff] = None
    locked_by: str = ""
    cancel_requested: bool = False
    last_error: Optional[str] = None
    error_fp: str = ""
    result: Any = None
    progress: Any = None
    tags: dict[str, str] = field(default_factory=dict)
    run_at_ms: int = 0
    created_at_ms: int = 0
    started_at_ms: Optional[int] = None
    lease_until_ms: Optional[int] = None
    finished_at_ms: Optional[int] = None
    expires_at_ms: Optional[int] = None
    archived_at_ms: Optional[int] = None
    traceparent: str = ""
    payload_hidden: bool = False  # the token lacks the scope payload: payload, result and progress are left out
    runs: list[JobRun] = field(default_factory=list)  # oldest first; not in lists

    @property
    def ended(self) -> bool:
        """Whether the job is done, dead or cancelled."""
        return self.state in ("done", "dead", "cancelled")


@dataclass
class Filter:
    """Selects jobs for a list; without a condition, all."""

    queue: Optional[str] = None
    state: Optional[str] = None
    type: Optional[str] = None
    tag: Optional[str] = None  # name, or name:value
    error: Optional[str] = None  # a fingerprint, as in error_fp
    after: Optional[str] = None  # next of the page before
    limit: Optional[int] = None  # of a page
    payload: bool = False
    archived: bool = False


@dataclass
class Jobs:
    """A page of a list; next is None at the end. It may be short, even empty, before."""

    jobs: list[Job] = field(default_factory=list)
    next: Optional[str] = None


@dataclass
class Counts:
    """A queue's jobs by state."""

    scheduled: int = 0
    queued: int = 0
    running: int = 0
    done: int = 0
    dead: int = 0
    cancelled: int = 0


@dataclass
class QueueSettings:
    """Hold for jobs that have no wishes of their own."""

    max_attempts: Optional[int] = None
    timeout_ms: Optional[int] = None
    lease_ms: Optional[int] = None
    backoff: Optional[Backoff] = None
    durability: Optional[str] = None
    max_depth: Optional[int] = None
    retention_ms: dict[str, int] = field(default_factory=dict)
    keep_last: dict[str, int] = field(default_factory=dict)


class QueuePatch(TypedDict, total=False):
    """What is absent stays as it is; None goes back to the default."""

    create: bool  # make the queue if it is not there
    max_attempts: Optional[int]
    timeout_ms: Optional[int]
    lease_ms: Optional[int]
    backoff: Optional[dict[str, Any]]
    durability: Optional[str]
    max_depth: Optional[int]
    retention_ms: dict[str, Optional[int]]  # by state; -1: for ever
    keep_last: dict[str, Optional[int]]


@dataclass
class Queue:
    """A queue. In a list its settings are those that differ from the default, of one queue all."""

    name: str = ""
    paused: bool = False
    counts: Counts = field(default_factory=Counts)
    oldest_queued_at_ms: Optional[int] = None
    settings: Optional[QueueSettings] = None
    own_settings: Optional[QueueSettings] = None  # of one queue: those that differ


@dataclass
class Minute:
    """What a queue did in a minute."""

    at_ms: int = 0
    enqueued: int = 0
    done: int = 0
    failed: int = 0
    dead: int = 0


@dataclass
class DeadRequest:
    """Selects dead jobs; without a condition, all."""

    queue: Optional[str] = None
    type: Optional[str] = None
    tag: Optional[str] = None
    error: Optional[str] = None
    since_ms: Optional[int] = None
    before_ms: Optional[int] = None
    dry_run: Optional[bool] = None  # count and change nothing
    limit: Optional[int] = None  # jobs that a step changes, 1 to 1000
    after: Optional[str] = None  # next of the step before


@dataclass
class DeadStep:
    """What a DeadRequest did, or would do; next is None at the end."""

    count: int = 0
    next: Optional[str] = None


@dataclass
class DeadGroup:
    """Dead jobs of a queue whose errors are of one kind."""

    queue: str = ""
    error_fp: str = ""  # the error of a DeadRequest for them; empty: they have no error
    jobs: int = 0
    sample: Job = field(default_factory=Job)  # the one that was enqueued last, without payload, result and progress


@dataclass
class DeadGroups:
    """Dead jobs by queue and kind of error."""

    groups: list[DeadGroup] = field(default_factory=list)  # those with the most jobs first
    kinds: int = 0  # groups in all, also those beyond the limit
    total: int = 0  # jobs in all of them
    partial: bool = False  # too many to look at all: the numbers are the least that they can be


@dataclass
class QueueHealth:
    """A queue in Health."""

    name: str = ""
    paused: bool = False
    scheduled: int = 0
    queued: int = 0
    running: int = 0
    done: int = 0
    dead: int = 0
    oldest_queued_at_ms: Optional[int] = None
    last_error: Optional[str] = None
    last_error_at_ms: Optional[int] = None


@dataclass
class Replication:
    """Where the node's file stands."""

    epoch: int = 0
    seq: int = 0
    replicated_seq: Optional[int] = None
    lag_ms: Optional[int] = None


@dataclass
class Health:
    """The numbers a person needs first."""

    queues: list[QueueHealth] = field(default_factory=list)
    replication: Replication = field(default_factory=Replication)


@dataclass
class ReplicationStatus:
    """How the copy of the node's database stands."""

    url: str = ""
    epoch: int = 0
    seq: int = 0
    replicated_seq: Optional[int] = None
    txid: str = ""
    lag_ms: int = 0
    last_error: Optional[str] = None


@dataclass
class Node:
    """Who answers."""

    node: str = ""
    role: str = ""  # primary or standby
    session: str = ""
    epoch: int = 0
    url: str = ""


@dataclass
class Ready:
    """Whether the node serves, and what is exposed although it does."""

    ready: bool = False
    reasons: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Version:
    """The version of the node."""

    version: str = ""
    commit: str = ""
    go: str = ""
    sqlite: str = ""
    schema: int = 0


def to_wire(value: Any) -> Any:
    """What is sent for a value: a dataclass without what is None."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((f.name, getattr(value, f.name)) for f in fields(value))
        return {name: to_wire(v) if name not in _PLAIN else v for name, v in named if v is not None}
    if isinstance(value, (list, tuple)):
        return [to_wire(v) for v in value]
    return value


_PLAIN = ("payload", "result", "progress")  # values of the user, sent as they are


def from_wire(cls: type[T], value: Any) -> T:
    """An answer as an instance of a dataclass. What it does not know is left out."""
    hints = _hints(cls)
    known = {name: _decode(hints[name], v) for name, v in value.items() if name in hints and v is not None}
    return cls(**known)


@lru_cache(maxsize=None)
def _hints(cls: type[Any]) -> dict[str, Any]:
    return get_type_hints(cls)


def _decode(hint: Any, value: Any) -> Any:
    if get_origin(hint) is Union:
        hint = next(arg for arg in get_args(hint) if arg is not type(None))
    if get_origin(hint) is list:
        (item,) = get_args(hint)
        return [_decode(item, v) for v in value]
    if hint is HoldfastError:
        return error_of(value.get("code", ""), value.get("message", ""))
    if isinstance(hint, type) and is_dataclass(hint):
        return from_wire(hint, value)
    return value
