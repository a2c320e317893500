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

import importlib
from typing import TYPE_CHECKING, Any

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
    "Blackhole": "faults",
    "Captured": "captured",
    "Counts": "records",
    "Fault": "faults",
    "Hang": "faults",
    "LogLine": "records",
    "Partial": "faults",
    "Raw": "faults",
    "Receiver": "receiver",
    "Redirect": "faults",
    "Refuse": "faults",
    "RefuseRecord": "faults",
    "Request": "records",
    "Reset": "faults",
    "Sample": "records",
    "Slow": "faults",
    "Span": "records",
    "SpanEvent": "records",
    "SpanLink": "records",
    "Status": "faults",
    "Step": "faults",
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


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'telemetry.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"telemetry.testing.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
