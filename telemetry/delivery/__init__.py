"""One Shipper for each network sink: bounded, batched, retried, accounted, and never in its host's way.

``contract`` is what a sink promises and is bounded by, ``buffer`` the queue, ``shipper`` the thread that delivers,
``lineage`` what a forked child leaves to its parent at the end.
"""

from __future__ import annotations

from telemetry.delivery.buffer import Buffer, Item
from telemetry.delivery.contract import CALL_TIMEOUT, ENTRY_OVERHEAD, Limits, Sink, SinkHealth, Verdict
from telemetry.delivery.lineage import MOMENT, Lineage
from telemetry.delivery.shipper import SENDERS, Shipper

__all__ = [
    "CALL_TIMEOUT",
    "ENTRY_OVERHEAD",
    "MOMENT",
    "SENDERS",
    "Buffer",
    "Item",
    "Limits",
    "Lineage",
    "Shipper",
    "Sink",
    "SinkHealth",
    "Verdict",
]
