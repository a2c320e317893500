"""Alerts on the queue: jobs that wait too long or for nobody, jobs that die, and rows that no vacuum takes away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry.grafana.alerts.counters import grown
from telemetry.grafana.alerts.observed import alert, held, of_workers, top, where, workers_jobs
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.selectors import one_of
from telemetry.grafana.alerts.values import Fleet

RUNBOOK: Final = "queue.md"
DASHBOARD: Final = "fleetglass-queue"
LEAST_FAILURES: Final = 10
"""Failures in ten minutes below which a share says nothing."""
TRANSACTIONS: Final = 1_000_000
"""Age of a snapshot in transactions that counts as old: a replication slot has no age in seconds."""
UNVACUUMED: Final = 3600
"""Seconds without autovacuum after which dead rows say that it doesn't come."""
DEAD_SHARE: Final = 0.4
"""Dead rows that may lie beside each living one: PostgreSQL's autovacuum comes at half of that."""


def alerts(fleet: Fleet) -> Iterator[Alert]:
    """Those of a platform that has a queue; requeues and runs where it is said who runs jobs."""
    if fleet.queue:
        yield from _waiting(fleet)
        yield from _dying(fleet)
        yield from _table(fleet)
    if fleet.workers:
        yield from _told_by_workers(fleet)


def _waiting(fleet: Fleet) -> Iterator[Alert]:
    ours = f'group!~"{one_of(fleet.scaled_groups)}"' if fleet.scaled_groups else ""
    yield alert(
        fleet,
        "queue-late",
        top(fleet, "queue_oldest_age_seconds", "group, tag", ours),
        "The age of the oldest job that is due and unclaimed, by tag.",
        name="QueueLate",
        title="Queue late",
        above=fleet.slo,
        hold=300,
        severity="critical",
        shows="duration",
        summary="The oldest job of {{tag}} has waited for {{value}}.",
        description=f"It may wait for {fleet.slo:.12g} s. Too few workers run, or those that run don't take it.",
        runbook=f"{RUNBOOK}#queue-late",
        dashboard=DASHBOARD,
    )
    pending = top(fleet, "queue_pending", "group, tag")
    yield alert(
        fleet,
        "queue-tag-unrouted",
        f"{pending} {where(fleet, 'tag', 'tag_coverage', reason='no_route')}",
        "Jobs that wait under a tag which no enabled group has.",
        name="QueueTagUnrouted",
        title="Jobs for a tag that no group has",
        above=0,
        hold=120,
        severity="critical",
        summary="{{value}} jobs wait under {{tag}}, and no enabled group that may run has that tag.",
        description="They wait for ever. Counts end at 1000 for each tag; there may be more.",
        runbook=f"{RUNBOOK}#queue-tag-unrouted",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "queue-tag-unserved",
        f"{pending} {where(fleet, 'tag', 'tag_coverage', reason='no_live_workers')}",
        "Jobs that wait under a tag whose groups have no active worker.",
        name="QueueTagUnserved",
        title="Jobs for a tag that nobody serves",
        above=0,
        hold=held(fleet.scale_up),
        severity="critical",
        summary="{{value}} jobs wait under {{tag}}, and no worker that serves it is active.",
        description="Its groups should run, or should have come up for this work, and have not. Counts end at 1000.",
        runbook=f"{RUNBOOK}#queue-tag-unserved",
        dashboard=DASHBOARD,
    )
    oldest = top(fleet, "queue_oldest_age_seconds", "group, tag")
    yield alert(
        fleet,
        "queue-tag-stuck",
        f"{oldest} {where(fleet, 'tag', 'tag_coverage', reason='stuck')}",
        "The age of the oldest job of tags that are served and from which nobody claims.",
        name="QueueTagStuck",
        title="Tag stuck",
        hold=120,
        severity="critical",
        shows="duration",
        summary="Workers serve {{tag}} and claim nothing from it; its oldest job has waited for {{value}}.",
        description="Nothing of this tag was claimed for ten minutes, although workers that serve it are active.",
        runbook=f"{RUNBOOK}#queue-tag-stuck",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "queue-tags-cut",
        top(fleet, "queue_tags_cut"),
        "1 while the queue holds more tags than are looked at.",
        name="QueueTagsCut",
        title="Too many tags",
        above=0.5,
        hold=600,
        severity="info",
        summary="{{job}}: the queue holds more tags than are looked at; the rest is in no figure.",
        description="More than 2000 tags have jobs. No alert on the queue sees those beyond.",
        runbook=f"{RUNBOOK}#queue-tags-cut",
        dashboard=DASHBOARD,
    )


def _dying(fleet: Fleet) -> Iterator[Alert]:
    yield alert(
        fleet,
        "queue-jobs-overdue",
        top(fleet, "queue_overdue_jobs", "group, tag"),
        "Running jobs that their worker no longer pings, by tag.",
        name="QueueJobsOverdue",
        title="Zombie jobs stay",
        above=fleet.overdue,
        hold=300,
        severity="warning",
        summary="{{value}} running jobs of {{tag}} have no worker any more, and no reaper takes them back.",
        description="A reaper takes such jobs within seconds. Either none runs, or jobs lose their workers faster.",
        runbook=f"{RUNBOOK}#queue-jobs-overdue",
        dashboard=DASHBOARD,
    )
    yield alert(
        fleet,
        "queue-jobs-at-restart-limit",
        top(fleet, "queue_restart_limit_jobs", "group, tag"),
        "Jobs in the queue that were taken back as often as they may be, by tag.",
        name="QueueJobsAtRestartLimit",
        title="Jobs at their restart limit",
        above=0,
        hold=120,
        severity="warning",
        summary="{{value}} jobs of {{tag}} have lost their worker as often as they may.",
        description="They may be what kills workers. The next time they are given up.",
        runbook=f"{RUNBOOK}#queue-jobs-at-restart-limit",
        dashboard=DASHBOARD,
    )


def _table(fleet: Fleet) -> Iterator[Alert]:
    dead, live = top(fleet, "queue_dead_rows"), top(fleet, "queue_live_rows")
    age, transactions = (top(fleet, f"queue_oldest_snapshot_{unit}") for unit in ("age_seconds", "transactions"))
    yield alert(
        fleet,
        "queue-snapshot-held",
        f"{dead} and on () ({age} > {fleet.snapshot_age:.12g} or {transactions} > {TRANSACTIONS})",
        "Dead rows of the queue's table that an old snapshot keeps.",
        name="QueueSnapshotHeld",
        title="A snapshot holds dead rows",
        above=fleet.dead_rows,
        hold=300,
        severity="warning",
        summary="{{job}}: {{value}} dead rows lie in the queue's table, and an old snapshot keeps them.",
        description="Claims and reads go through all of them, and each claim adds one. A dump, a session that is idle "
        "in its transaction, a replica or a replication slot holds the snapshot.",
        runbook=f"{RUNBOOK}#queue-snapshot-held",
        dashboard=DASHBOARD,
    )
    vacuumed = top(fleet, "queue_last_autovacuum_timestamp_seconds")
    yield alert(
        fleet,
        "queue-vacuum-missing",
        f"{dead} > on () ({fleet.dead_rows:.12g} + {DEAD_SHARE} * {live}) "
        f"unless on () (time() - {vacuumed} < {UNVACUUMED})",
        "Dead rows of the queue's table while autovacuum has not come for an hour.",
        name="QueueVacuumMissing",
        title="No autovacuum on the queue",
        hold=900,
        severity="warning",
        summary="{{job}}: {{value}} dead rows lie in the queue's table, and autovacuum has not come for an hour.",
        description="Claims and reads go through all of them. Autovacuum is off for this table, waits for a lock, or "
        "is too slow to end.",
        runbook=f"{RUNBOOK}#queue-vacuum-missing",
        dashboard=DASHBOARD,
    )


def _told_by_workers(fleet: Fleet) -> Iterator[Alert]:
    ours = workers_jobs(fleet)
    yield of_workers(
        fleet,
        "queue-jobs-requeued",
        grown(f"fleet_queue_requeues_total{{{ours}}}", "job, tag", "15m"),
        "Jobs of dead workers that reapers gave back in a quarter of an hour, by tag.",
        name="QueueJobsRequeued",
        title="Jobs lose their workers",
        above=fleet.requeues,
        hold=60,
        severity="warning",
        summary="{{value}} jobs of {{tag}} lost their worker in 15 minutes and were given back.",
        description="Each ran in vain and waits again. Workers die, are killed, or can't reach the database.",
        runbook=f"{RUNBOOK}#queue-jobs-requeued",
        dashboard=DASHBOARD,
    )
    yield of_workers(
        fleet,
        "queue-jobs-given-up",
        grown(f"fleet_queue_given_up_total{{{ours}}}", "job, tag", "15m"),
        "Jobs that reapers ended in a quarter of an hour, since they had been given back too often.",
        name="QueueJobsGivenUp",
        title="Jobs given up",
        above=0,
        hold=60,
        severity="warning",
        summary="{{value}} jobs of {{tag}} were given up in 15 minutes: each had lost its worker too often.",
        description="They are ended as lost and will not run again by themselves. One may be what kills workers.",
        runbook=f"{RUNBOOK}#queue-jobs-given-up",
        dashboard=DASHBOARD,
    )
    by = "job, group, tag"
    failed = f'sum by ({by}) (increase(fleet_job_executed_total{{{ours}, outcome="failure"}}[10m]))'
    yield of_workers(
        fleet,
        "queue-jobs-failing",
        f"{failed} / sum by ({by}) (increase(fleet_job_executed_total{{{ours}}}[10m])) and {failed} > {LEAST_FAILURES}",
        "The share of runs that ended in failure in ten minutes, by tag.",
        name="QueueJobsFailing",
        title="Jobs fail",
        above=fleet.failures,
        hold=300,
        severity="warning",
        shows="percent",
        summary="{{value}} of the jobs of {{tag}} end in failure.",
        description="A release, what the jobs call, or what somebody enqueues. The logs of the runs say which.",
        runbook=f"{RUNBOOK}#queue-jobs-failing",
        dashboard=DASHBOARD,
    )
