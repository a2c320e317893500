"""Alerts on the observer itself: nobody leads, reads fail, nothing has been read for long."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry.grafana.alerts.observed import alert, top
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.values import Fleet

RUNBOOK: Final = "fleet.md"
DASHBOARD: Final = "fleetglass-queue"
FAILING: Final = 0.2
"""Share of ten minutes in which a part was unread and that is worth a look."""
OLD: Final = 600
"""Seconds without a read after which queue or workers are unwatched."""


def alerts(fleet: Fleet) -> Iterator[Alert]:
    """That nobody answers at all is the guard's to tell: ``absent.observer_absent``."""
    up = "queue_observer_up"
    yield alert(
        fleet,
        "fleet-read-failing",
        # The maximum first: one that just took over is not excused by what its predecessor read.
        f"1 - avg_over_time(({top(fleet, up, 'part')})[10m:30s])",
        "The share of ten minutes in which a part could not be read.",
        name="FleetReadFailing",
        title="Reads of the fleet fail",
        above=FAILING,
        hold=120,
        keep=0,
        severity="warning",
        shows="percent",
        summary="{{job}} could not read {{part}} for {{value}} of ten minutes.",
        description="While it can't be read its figures are absent, and alerts on them are silent. "
        "fleet_queue_observer_errors_total has the reason.",
        runbook=f"{RUNBOOK}#fleet-read-failing",
        dashboard=DASHBOARD,
    )
    parts = 'part=~"queue|workers"' if fleet.queue else 'part="workers"'
    last = top(fleet, "queue_observer_last_success_timestamp_seconds", "part", parts)
    yield alert(
        fleet,
        "fleet-read-old",
        # Who never read anything has no last success; clocks that differ show in the first half only.
        f'time() - {last} > {OLD} or max by (part) (max_over_time(fleet_{up}{{job="{fleet.job}", {parts}}}[10m])) == 0',
        "Parts that nobody has read for ten minutes.",
        name="FleetReadOld",
        title="Nobody reads the fleet",
        hold=300,
        severity="critical",
        summary="{{job}}: nobody has read {{part}} for ten minutes.",
        description="Jobs may wait and workers be gone, and no alert on them can fire. Critical for queue and workers; "
        "the other parts are told by FleetReadFailing alone.",
        runbook=f"{RUNBOOK}#fleet-read-old",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "fleet-observer-without-leader",
        f"1 - {top(fleet, 'queue_observer_leader')}",
        "1 while exporters answer and none of them reads.",
        name="FleetObserverWithoutLeader",
        title="No observer leads",
        above=0.5,
        hold=120,
        severity="warning",
        summary="{{job}}: observers answer, and none of them has the lease to read.",
        description="Each waits for another, or none can write the lease. Nothing is read meanwhile.",
        runbook=f"{RUNBOOK}#fleet-observer-without-leader",
        dashboard=DASHBOARD,
    )
