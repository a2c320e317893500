"""What a sink promises the Shipper, what it answers, and the bounds it is kept within."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

ENTRY_OVERHEAD = 320
"""Bytes that a queued entry takes beside its encoded text: objects and allocator. Measured by bench B7."""

CALL_TIMEOUT = 10.0
"""Seconds that one call to a backend may take."""


class Verdict(msgspec.Struct, frozen=True):
    """What a backend made of one request.

    ``delivered``: all but ``rejected`` records are stored. ``retry``: none is known to be, the same bytes
    may be sent again, after ``retry_after`` seconds if given. ``split``: some record is refused, it is not
    said which. ``rejected``: none will ever be taken.
    """

    kind: Literal["delivered", "retry", "split", "rejected"]
    rejected: int = 0
    retry_after: float | None = None
    message: str = ""


class Sink(Protocol):
    """Encodes and sends; never queues, never retries. Used by one thread at a time."""

    name: str
    signal: str
    max_age: float | None
    """Seconds after which the backend would refuse a record, or None."""

    def encode(self, entries: list[Any]) -> bytes:
        """One request body for ``entries``. May raise: the Shipper then finds the entry at fault."""
        ...

    def send(self, body: bytes, timeout: float) -> Verdict:
        """Send one body. May raise OSError and the like for a connection that failed: that is a retry."""
        ...

    def close(self) -> None:
        """Close what is open; ``send`` may be called again all the same (a forked child does)."""
        ...


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one Shipper. Bytes count what entries are said to cost, queued and in flight together."""

    queue_bytes: int = 32 * 1024 * 1024
    queue_records: int = 50_000
    batch_bytes: int = 1024 * 1024
    linger: float = 1.0
    max_tries: int = 10
    first_backoff: float = 0.5
    max_backoff: float = 300.0
    requests_per_batch: int = 64
    """How many requests one refused batch may be split into before the rest is given up as rejected."""


class SinkHealth(msgspec.Struct, frozen=True):
    """How a sink fares: ``last_delivery`` is Unix seconds or None, ``last_error`` a sentence or empty."""

    signal: str
    sink: str
    last_delivery: float | None
    last_error: str
