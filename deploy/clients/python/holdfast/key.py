"""Idempotency keys."""

from __future__ import annotations

import secrets
import time
import uuid


def new_key() -> str:
    """A key in the form of a UUIDv7 (RFC 9562, section 5.7).

    Milliseconds come first, so that keys made together lie together in the node's
    index, then 74 random bits.
    """
    value = int(time.time() * 1000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    return str(uuid.UUID(int=value))
