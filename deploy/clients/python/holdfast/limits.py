"""Limits of a node on what a worker sends, and how it counts them."""

from __future__ import annotations

import json
import random
from typing import Any

MAX_RESULT = 64 << 10
MAX_PROGRESS = 64 << 10
MAX_ERROR = 8 << 10
MAX_ITEMS = 1000
MAX_QUEUES = 100
MAX_NESTING = 512
MAX_NAME = 128
MIN_LEASE = 1.0  # seconds, as all below
MAX_LEASE = 24 * 3600.0
MAX_WAIT = 60.0
MAX_DELAY = 10 * 365 * 24 * 3600.0
MAX_BATCH_BYTES = 8 << 20  # of the results, errors and progress in a batch


def dumps(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can show
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def snapshot(what: str, value: Any, limit: int) -> Any:
    """A copy of a value as JSON has it, within limit bytes; what names it in the error."""
    try:
        text = dumps(value)
    except (TypeError, ValueError, RecursionError) as err:
        raise TypeError(f"the {what} is no JSON value: {err}") from err
    if len(text) > limit:
        raise ValueError(f"the {what} is {len(text)} bytes; the limit is {limit}")
    if nesting(text) > MAX_NESTING:
        raise ValueError(f"the {what} is nested more than {MAX_NESTING} levels deep")
    return json.loads(text)


def nesting(text: bytes) -> int:
    """How deep the arrays and objects of a valid JSON text are nested."""
    depth = deepest = 0
    in_string = escaped = False
    for c in text:
        if in_string:
            if escaped:
                escaped = False
            elif c == 0x5C:
                escaped = True
            elif c == 0x22:
                in_string = False
        elif c == 0x22:
            in_string = True
        elif c in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif c in b"]}":
            depth -= 1
    return deepest


def retry_delay(n: int) -> float:
    """Seconds to wait after the n-th failed try, from 1.

    About 0.1 s, doubled each time up to 5 s. A random half keeps clients apart
    that lost one node.
    """
    d = min(0.1 * 2 ** min(n - 1, 10), 5.0)
    return d / 2 + random.random() * d / 2
