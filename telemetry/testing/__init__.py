"""What a user's tests import: a real receiver for the three signals, its faults, and a capture in memory.

    from telemetry.testing import Receiver, Status

    with Receiver() as receiver:
        receiver.behave(Status(503, retry_after=1), times=2)
        ...
        receiver.wait_for(spans=1)

The pytest plugin (``telemetry_receiver``, ``telemetry_captured``) comes with the installation. Names are
fetched on first use: pytest loads this package in every session, also where no test needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry import lazy

if TYPE_CHECKING:
    from telemetry.testing.captured import Captured
    from telemetry.testing.faults import (
        Blackhole,
        Fault,
        Hang,
        Partial,
        Raw,
        Redirect,
        Refuse,
        RefuseRecord,
        Reset,
        Slow,
        Status,
        Step,
    )
    from telemetry.testing.receiver import Receiver
    from telemetry.testing.records import Counts, LogLine, Request, Sample, Span, SpanEvent, SpanLink

_HOME = {
    "Blackhole": "telemetry.testing.faults",
    "Captured": "telemetry.testing.captured",
    "Counts": "telemetry.testing.records",
    "Fault": "telemetry.testing.faults",
    "Hang": "telemetry.testing.faults",
    "LogLine": "telemetry.testing.records",
    "Partial": "telemetry.testing.faults",
    "Raw": "telemetry.testing.faults",
    "Receiver": "telemetry.testing.receiver",
    "Redirect": "telemetry.testing.faults",
    "Refuse": "telemetry.testing.faults",
    "RefuseRecord": "telemetry.testing.faults",
    "Request": "telemetry.testing.records",
    "Reset": "telemetry.testing.faults",
    "Sample": "telemetry.testing.records",
    "Slow": "telemetry.testing.faults",
    "Span": "telemetry.testing.records",
    "SpanEvent": "telemetry.testing.records",
    "SpanLink": "telemetry.testing.records",
    "Status": "telemetry.testing.faults",
    "Step": "telemetry.testing.faults",
}

__all__ = [
    "Blackhole",
    "Captured",
    "Counts",
    "Fault",
    "Hang",
    "LogLine",
    "Partial",
    "Raw",
    "Receiver",
    "Redirect",
    "Refuse",
    "RefuseRecord",
    "Request",
    "Reset",
    "Sample",
    "Slow",
    "Span",
    "SpanEvent",
    "SpanLink",
    "Status",
    "Step",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.names(__name__, _HOME)
