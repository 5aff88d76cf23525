"""Errors of the node, and what a handler raises or finds as the cause of its end."""

from __future__ import annotations

from typing import Union


class HoldfastError(Exception):
    """An error answer of the node."""

    def __init__(self, message: str, code: str = "", status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.code = code
        self.status = status  # of the HTTP answer; 0 for an item of a batch
        self.retry_after = retry_after  # seconds
        self.primary = ""  # of a NotPrimary: where the primary is


class Invalid(HoldfastError):
    """400: the request is wrong; the message says where."""


class ReplicatedUnavailable(HoldfastError):
    """400: this node cannot give durability "replicated"."""


class Unauthorized(HoldfastError):
    """401: the token is missing, unknown, revoked or expired."""


class Forbidden(HoldfastError):
    """403: the token lacks a scope or the queue."""


class NotFound(HoldfastError):
    """404: no such job, queue or path."""


class MethodNotAllowed(HoldfastError):
    """405: the path exists, the method does not."""


class LeaseLost(HoldfastError):
    """409: the lease is not that of the job's present run."""


class IdempotencyConflict(HoldfastError):
    """409: the key belongs to a job with another body."""


class WrongState(HoldfastError):
    """409: the job's state does not allow it."""


class Exists(HoldfastError):
    """409: there is one of this name."""


class TooLarge(HoldfastError):
    """413: a payload, result or body is over its limit."""


class QueueFull(HoldfastError):
    """429: the queue has as many waiting jobs as its max_depth."""


class RateLimited(HoldfastError):
    """429: too many wrong access tokens from one address."""


class Internal(HoldfastError):
    """500: a fault of the node; its log says more."""


class UnknownOutcome(HoldfastError):
    """503: it may or may not have taken effect."""


class Unavailable(HoldfastError):
    """503: the node is starting or stopping."""


class NotPrimary(HoldfastError):
    """503: another node is the primary, and it is not known where."""


class ReplicationBehind(HoldfastError):
    """503: too much is on the node's own disk only."""


class Stale(HoldfastError):
    """503: what the edge has is older than the request allows."""


class DiskFull(HoldfastError):
    """507: no new jobs until space is free."""


_BY_CODE: dict[str, type[HoldfastError]] = {
    "invalid": Invalid,
    "replicated_unavailable": ReplicatedUnavailable,
    "unauthorized": Unauthorized,
    "forbidden": Forbidden,
    "not_found": NotFound,
    "method_not_allowed": MethodNotAllowed,
    "lease_lost": LeaseLost,
    "idempotency_conflict": IdempotencyConflict,
    "wrong_state": WrongState,
    "exists": Exists,
    "too_large": TooLarge,
    "queue_full": QueueFull,
    "rate_limited": RateLimited,
    "internal": Internal,
    "unknown_outcome": UnknownOutcome,
    "unavailable": Unavailable,
    "not_primary": NotPrimary,
    "replication_behind": ReplicationBehind,
    "stale": Stale,
    "disk_full": DiskFull,
}


def error_of(code: str, message: str, status: int = 0, retry_after: float = 0.0) -> HoldfastError:
    """The error of an error body, of the class of its code."""
    return _BY_CODE.get(code, HoldfastError)(message, code, status, retry_after)


class Unreachable(Exception):
    """No answer came: a write may or may not have taken effect."""

    def __init__(self, url: str, cause: object, sent: bool = True) -> None:
        super().__init__(f"no answer from {url}: {cause or type(cause).__name__}")
        self.url = url
        self.sent = sent  # False: there was no connection, so nothing happened


_UNDONE = ("unavailable", "not_primary", "replication_behind")


def temporary(err: BaseException) -> bool:
    """Whether the same call may succeed later without a change."""
    if isinstance(err, Unreachable):
        return True
    if not isinstance(err, HoldfastError):
        return False
    # A proxy in front of the node answers with one of these and no code of ours.
    return err.code in _UNDONE or err.code in ("unknown_outcome", "stale") or err.status in (502, 503, 504)


def undone(err: BaseException) -> bool:
    """Whether a call that failed so has surely done nothing."""
    if isinstance(err, Unreachable):
        return not err.sent
    return isinstance(err, HoldfastError) and err.code in _UNDONE


def refused(err: BaseException) -> bool:
    """Whether err is an answer that will be the same each time."""
    if not isinstance(err, HoldfastError):
        return False
    if err.status == 0:
        return err.code in ("invalid", "not_found", "too_large")
    return 400 <= err.status < 500 and err.status not in (408, 409, 425, 429)


Reason = Union[str, BaseException]


class Fatal(Exception):
    """Raised by a handler: no further attempt can mend it, the job is dead at once."""

    def __init__(self, reason: Reason = "") -> None:
        super().__init__(str(reason))
        self.reason = reason


class Later(Exception):
    """Raised by a handler: a failure whose next attempt is in so many seconds."""

    def __init__(self, seconds: float, reason: Reason = "") -> None:
        super().__init__(str(reason))
        self.seconds = seconds
        self.reason = reason


class Snooze(Exception):
    """Raised by a handler: no failure; the job comes back and the run costs no attempt."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"put off for {seconds} s")
        self.seconds = seconds


class Cancelled(Exception):
    """The cause of a run's end when somebody cancelled the job."""


class TimedOut(Exception):
    """The cause of a run's end when it took longer than the job allows."""


class Stopped(Exception):
    """The cause of a run's end when the worker stops and its grace is over."""
