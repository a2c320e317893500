"""Alerts on the library's own delivery: records dropped or stuck, faults inside, labels cut off."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts.counters import grown
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.records import Query

RUNBOOK: Final = "telemetry.md"
DASHBOARD: Final = "fleetglass-telemetry"
DROPPED_SHARE: Final = 0.01
"""Share of the records of a sink that is dropped for one reason and worth a look."""

_ROW: Final = "job, signal, sink"
_DROPPED: Final = "telemetry_records_dropped_total"
_DELIVERED: Final = "telemetry_records_delivered_total"

DROPPED_SHARE_BY_REASON: Final = Query(
    name="dropped_share_by_reason",
    language="promql",
    expression=(
        f"sum by ({_ROW}, reason) (increase({_DROPPED}[10m])) / on ({_ROW}) group_left () "
        # Of what was settled, not of what was emitted: what is dropped now may have come in an hour ago.
        f"(sum by ({_ROW}) (increase({_DROPPED}[10m])) + sum by ({_ROW}) (increase({_DELIVERED}[10m])))"
    ),
    shape="table",
    about="The share of a sink's records that were given up for each reason.",
)
STUCK: Final = Query(
    name="stuck",
    language="promql",
    expression=(
        f"sum by (instance, {_ROW}) (min_over_time(telemetry_records_pending[10m])) > 0 "
        f"unless sum by (instance, {_ROW}) (increase({_DELIVERED}[10m])) > 0"
    ),
    shape="table",
    about="Records that wait in a process while none has been delivered for ten minutes.",
)
FAULTS: Final = Query(
    name="faults",
    language="promql",
    expression=grown("telemetry_internal_faults_total", "job, where", "15m"),
    shape="table",
    about="Faults inside the library in a quarter of an hour, by the part that reported them.",
)
OVERFLOW: Final = Query(
    name="overflow",
    language="promql",
    expression=grown("telemetry_label_overflow_total", "job, metric, label", "15m"),
    shape="table",
    about="Label values beyond the limit that were replaced, by metric and label.",
)

ALERTS: Final = (
    Alert(
        uid="telemetry-records-dropped",
        name="TelemetryRecordsDropped",
        title="Telemetry records dropped",
        query=DROPPED_SHARE_BY_REASON,
        above=DROPPED_SHARE,
        hold=300,
        keep=300,
        severity="warning",
        shows="percent",
        summary="{{job}} loses {{value}} of its {{signal}} to {{sink}}: {{reason}}.",
        description="What is dropped is gone. The reason says whether the backend is away, refuses records, or is too "
        "slow for what comes in.",
        runbook=f"{RUNBOOK}#telemetry-records-dropped",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
    Alert(
        uid="telemetry-records-stuck",
        name="TelemetryRecordsStuck",
        title="Telemetry records stuck",
        query=STUCK,
        hold=300,
        keep=300,
        severity="warning",
        summary="{{job}} on {{instance}} delivers no {{signal}} to {{sink}}; {{value}} records wait.",
        description="The backend is away, or refuses everything in a way that is tried again. When the queue is full, "
        "records are dropped.",
        runbook=f"{RUNBOOK}#telemetry-records-stuck",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
    Alert(
        uid="telemetry-internal-faults",
        name="TelemetryInternalFaults",
        title="Telemetry internal faults",
        query=FAULTS,
        hold=120,
        keep=300,
        severity="warning",
        summary="{{job}}: {{value}} faults inside the telemetry library in 15 minutes, in {{where}}.",
        description="The library keeps its faults from the application, so the application works; some records may be "
        "missing or wrong. stderr of the process says once what it was.",
        runbook=f"{RUNBOOK}#telemetry-internal-faults",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
    Alert(
        uid="telemetry-label-overflow",
        name="TelemetryLabelOverflow",
        title="Telemetry label overflow",
        query=OVERFLOW,
        hold=120,
        keep=300,
        severity="info",
        summary="{{job}}: {{metric}} has more values of {{label}} than allowed; {{value}} samples became __other__.",
        description="Sums stay right, but the values beyond the limit can't be told apart any more. Mostly an id or "
        "a path that got into a label.",
        runbook=f"{RUNBOOK}#telemetry-label-overflow",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    ),
)
