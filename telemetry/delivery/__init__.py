"""One Shipper for each network sink: bounded, batched, retried, accounted, and never in its host's way.

``contract`` is what a sink promises and is bounded by, ``buffer`` the queue, ``shipper`` the thread that delivers.
"""

from __future__ import annotations

from telemetry.delivery.buffer import Buffer, Item
from telemetry.delivery.contract import CALL_TIMEOUT, ENTRY_OVERHEAD, Limits, Sink, SinkHealth, Verdict
from telemetry.delivery.shipper import SENDERS, Shipper

__all__ = [
    "CALL_TIMEOUT",
    "ENTRY_OVERHEAD",
    "SENDERS",
    "Buffer",
    "Item",
    "Limits",
    "Shipper",
    "Sink",
    "SinkHealth",
    "Verdict",
]
