"""Alerts on groups of workers: what runs against what was asked for, versions, workers lost, heartbeats that fail.

A badge has no memory, so how long a state must last stands here. Groups that were scaled to nothing have the badge
*ok* and tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry.grafana.alerts.observed import alert, held, of_workers, top, where, workers_jobs
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.values import Fleet

RUNBOOK: Final = "fleet.md"
DASHBOARD: Final = "fleetglass-fleet"
SILENT: Final = 60
"""Seconds without a ping after which a worker counts as gone."""
DRAIN_SLACK: Final = 30
"""Seconds that a drain may take longer than it should, as the observer has it."""


def alerts(fleet: Fleet) -> Iterator[Alert]:
    """Those of a platform that says what was asked for; skew and losses of any."""
    if fleet.registry:
        yield from _asked_for(fleet)
    yield from _seen(fleet)
    if fleet.workers:
        yield _heartbeat(fleet)


def _asked_for(fleet: Fleet) -> Iterator[Alert]:
    low, high, active, alive = (
        top(fleet, f"worker_group_{each}", "group") for each in ("desired_min", "desired_max", "active", "alive")
    )

    def badge(state: str) -> str:
        return where(fleet, "group", "worker_group_drift", state=state)

    yield alert(
        fleet,
        "worker-group-missing",
        f"{low} {badge('missing')}",
        "Workers that were asked for, of groups that have none which is active.",
        name="WorkerGroupMissing",
        title="Worker group missing",
        above=0,
        hold=60,
        severity="critical",
        summary="{{group}} has no active worker; at least {{value}} are asked for.",
        description="Nobody takes the jobs that only this group serves.",
        runbook=f"{RUNBOOK}#worker-group-missing",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-group-asleep",
        top(fleet, "worker_group_drift_danger", "group"),
        "1 for groups that were scaled to nothing while work waits for them.",
        name="WorkerGroupAsleep",
        title="Worker group does not come up",
        above=0.5,
        hold=held(fleet.scale_up),
        severity="critical",
        summary="{{group}} was scaled to nothing; work waits for it, and nobody comes.",
        description="The scaler does not see the work, may not scale the group, or its pods can't be placed.",
        runbook=f"{RUNBOOK}#worker-group-asleep",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-group-short",
        f"{low} - {active} {badge('scaled')}",
        "Active workers that a group lacks of the fewest that were asked for.",
        name="WorkerGroupShort",
        title="Worker group short",
        above=0,
        hold=held(fleet.rollout),
        severity="warning",
        summary="{{group}} lacks {{value}} active workers of those that are asked for.",
        description="It has lasted for longer than a release takes.",
        runbook=f"{RUNBOOK}#worker-group-short",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-group-over",
        f"{active} - {high} {badge('scaled')}",
        "Active workers of a group beyond the most that were asked for.",
        name="WorkerGroupOver",
        title="Worker group over its limit",
        above=0,
        hold=held(fleet.rollout),
        severity="info",
        summary="{{group}} has {{value}} active workers more than are asked for.",
        description="It has lasted for longer than a release takes, with its surge. They cost, and nothing else.",
        runbook=f"{RUNBOOK}#worker-group-over",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-group-drain-overdue",
        f"{alive} {badge('draining')}",
        "Living workers of groups that have drained for longer than they may.",
        name="WorkerGroupDrainOverdue",
        title="Drain overdue",
        hold=held(fleet.drain_timeout + DRAIN_SLACK),
        severity="warning",
        summary="{{group}} should be gone, and {{value}} of its workers still live.",
        description="It drains for longer than any group may, or was disabled and its workers were not told.",
        runbook=f"{RUNBOOK}#worker-group-drain-overdue",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-group-unregistered",
        f"{alive} {badge('unregistered')}",
        "Living workers of groups that the registry does not have.",
        name="WorkerGroupUnregistered",
        title="Workers of an unknown group",
        hold=300,
        severity="info",
        summary="{{value}} workers say that they belong to {{group}}, which the registry does not have.",
        description="Nobody asked for them, so nothing is known of how many there should be.",
        runbook=f"{RUNBOOK}#worker-group-unregistered",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "worker-registry-broken",
        top(fleet, "worker_groups_broken"),
        "Rows of the registry that can't be right.",
        name="WorkerRegistryBroken",
        title="Registry broken",
        above=0,
        hold=300,
        severity="warning",
        summary="{{job}}: {{value}} rows of the registry can't be right, such as a minimum above its maximum.",
        description="These groups have no badge, so none of their alerts can fire.",
        runbook=f"{RUNBOOK}#worker-registry-broken",
        dashboard=DASHBOARD,
    )

    yield alert(
        fleet,
        "worker-badges-missing",
        # Of all groups: single ones are those of broken rows.
        f"1 - {top(fleet, 'worker_group_drift_valid')}",
        "1 while groups are listed and none of them has a badge.",
        name="WorkerBadgesMissing",
        title="No badges",
        above=0.5,
        hold=600,
        severity="warning",
        summary="{{job}}: no group has had a badge for ten minutes.",
        description="Workers are read, and silence may not be believed, or nobody says what was asked for. No alert on "
        "badges can fire meanwhile.",
        runbook=f"{RUNBOOK}#worker-badges-missing",
        dashboard=DASHBOARD,
    )


def _seen(fleet: Fleet) -> Iterator[Alert]:
    yield alert(
        fleet,
        "worker-version-skew",
        top(fleet, "worker_group_versions", "group"),
        "Distinct versions among the living workers of a group.",
        name="WorkerVersionSkew",
        title="Version skew",
        above=1,
        hold=held(fleet.rollout),
        severity="warning",
        summary="The workers of {{group}} run {{value}} versions, for longer than a release takes.",
        description="A release stopped in the middle, or old workers never went.",
        runbook=f"{RUNBOOK}#worker-version-skew",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "workers-lost",
        top(fleet, "worker_group_lost", "group"),
        "Workers that fell silent within a quarter of an hour without taking their leave.",
        name="WorkersLost",
        title="Workers lost",
        above=fleet.lost,
        hold=60,
        severity="warning",
        summary="{{value}} workers of {{group}} fell silent within 15 minutes without taking their leave.",
        description="They were killed, ran out of memory, or can't reach the database. Their jobs run again.",
        runbook=f"{RUNBOOK}#workers-lost",
        dashboard=DASHBOARD,
    )


def _heartbeat(fleet: Fleet) -> Alert:
    ours = workers_jobs(fleet)
    failed = f"sum by (job, instance) (increase(fleet_worker_heartbeat_failures_total{{{ours}}}[5m])) > 0"
    arrived = f"time() - fleet_worker_heartbeat_last_success_timestamp_seconds{{{ours}}} < {SILENT}"
    return of_workers(
        fleet,
        "worker-heartbeat-failing",
        # After a restart of the database every worker has failed for a while: those that were heard since are well.
        f"count by (job) ({failed} unless on (job, instance) {arrived})",
        "Workers whose heartbeats fail, and none of which has arrived for a minute.",
        name="WorkerHeartbeatFailing",
        title="Heartbeats fail",
        above=0,
        hold=120,
        severity="warning",
        summary="{{job}}: the heartbeats of {{value}} workers don't arrive.",
        description="They run, and count as gone: their jobs are taken away and run again elsewhere.",
        runbook=f"{RUNBOOK}#worker-heartbeat-failing",
        dashboard=DASHBOARD,
    )
