"""Traces of any service of ours: those that failed, and those that took long."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.records import Query

FAILED_TRACES: Final = Query(
    name="failed_traces",
    language="traceql",
    expression='{resource.service.name=~"${job}" && status=error}',
    shape="traces",
    about="Traces with a span that failed, newest first.",
)
SLOW_TRACES: Final = Query(
    name="slow_traces",
    language="traceql",
    expression='{resource.service.name=~"${job}" && kind=server && duration>500ms}',
    shape="traces",
    about="Traces with a request that took longer than half a second.",
)
