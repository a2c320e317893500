"""The *Queue* dashboard: is it moving, what waits under which tag, how long, and what becomes of what runs."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.boards.common import (
    ALL_FLEET,
    ANY_IS_BAD,
    ANY_IS_ODD,
    OLD,
    SHARE_FAILED,
    SOURCES,
    instance,
    job,
    to_board,
)
from telemetry.grafana.queries import queue
from telemetry.grafana.records import Column, Dashboard, Explore, Jump, Meaning, Panel, Row, Step, Variable

TELLS: Final = (
    "fleet_queue_observer_leader",
    "fleet_job_executed_total",
    "fleet_worker_heartbeat_last_success_timestamp_seconds",
    "fleet_queue_requeues_total",
)
"""What exporters, workers and reapers tell of themselves: their jobs are offered."""
STALE: Final = (Step("green"), Step("yellow", 150), Step("red", 300))
"""How old what was read may be, in seconds: the slowest part is read each minute."""


def grouped(*metrics: str) -> Variable:
    """Groups of workers. A tag that several share, or none has, is under no group, and is shown with all of them."""
    named = metrics[0] if len(metrics) == 1 else f'__name__=~"{"|".join(metrics)}"'
    chosen = f'{named}{{job=~"${{job}}"}}' if len(metrics) == 1 else f'{{{named}, job=~"${{job}}"}}'
    return Variable(name="group", kind="labels", title="Group", choices=f"{chosen}, group", default=".*")


def tagged(metric: str) -> Variable:
    """Tags."""
    return Variable(name="tag", kind="labels", title="Tag", choices=f'{metric}{{job=~"${{job}}"}}, tag', default=".+")


_TAG = "${__field.labels.tag}"
_RUN = f'span.messaging.operation.type="process" && span.messaging.destination.name="{_TAG}"'
_OF_JOB = '{service_name="${__field.labels.job}"} |= "job_id=" | logfmt'

TO_RUNS: Final = Explore("Runs under the tag", "traces", f"{{{_RUN}}}")
TO_FAILED_RUNS: Final = Explore("Runs that did not succeed", "traces", f'{{{_RUN} && span.job.outcome!="success"}}')
TO_RUNS_OF_OUTCOME: Final = Explore(
    "Runs that ended so", "traces", f'{{{_RUN} && span.job.outcome="${{__field.labels.outcome}}"}}'
)
TO_SLOW_RUNS: Final = Explore("Slow runs", "traces", f"{{{_RUN} && duration>10s}}")
TO_LONG_WAITS: Final = Explore("Long waits", "traces", f'{{name="wait {_TAG}" && duration>1s}}')
TO_LINES_OF_TAG: Final = Explore("Lines of its jobs", "logs", f'{_OF_JOB} | tag="{_TAG}"')
TO_JOB_LINES: Final = Explore("Lines of jobs", "logs", _OF_JOB)
TO_FLEET: Final = to_board("Who serves it", "fleetglass-fleet", tag=_TAG)
_ROW_OF_TAG: Final[tuple[Jump | Explore, ...]] = (
    to_board("Who serves it", "fleetglass-fleet", tag="${__data.fields.Tag}"),
    Explore(
        "Its runs",
        "traces",
        '{span.messaging.operation.type="process" && span.messaging.destination.name="${__data.fields.Tag}"}',
    ),
    Explore(
        "Lines of its jobs",
        "logs",
        '{service_name=~".+"} |= "job_id=" | logfmt | tag="${__data.fields.Tag}"',
    ),
)

DASHBOARD: Final = Dashboard(
    uid="fleetglass-queue",
    title="Queue",
    description="Is the queue moving: what waits and runs under which tag, for how long, and what becomes of it?",
    tags=("fleetglass", "queue"),
    variables=(
        *SOURCES,
        job(*TELLS),
        instance(*TELLS),
        grouped("fleet_queue_pending", "fleet_job_executed_total"),
        tagged("fleet_queue_pending"),
    ),
    rows=(
        Row(
            title="Is it OK?",
            about="How old the oldest job is, what waits and runs, whether somebody serves it, whether reapers and "
            "the observer are at work.",
            panels=(
                Panel(
                    id=1,
                    title="Oldest job",
                    kind="stat",
                    description="How long the oldest job has waited. Normal: seconds, and 0 when nothing waits. "
                    "Minutes: see below under which tag, then who serves it. The runbook on queues goes on from there.",
                    queries=(queue.OLDEST_NOW,),
                    unit="s",
                    no_value="no observer",
                    steps=OLD,
                    links=(ALL_FLEET,),
                    width=4,
                ),
                Panel(
                    id=2,
                    title="Waiting",
                    kind="stat",
                    description="Jobs that are due and unclaimed, up to 1000 for each tag. Normal: what it was last "
                    "week at this hour. Growing: more comes than workers take.",
                    queries=(queue.WAITING_NOW,),
                    unit="none",
                    no_value="no observer",
                    width=4,
                ),
                Panel(
                    id=3,
                    title="Running",
                    kind="stat",
                    description="Jobs that run. Normal: below workers times their concurrency. 0 while jobs wait: "
                    "nobody claims; see who is alive.",
                    queries=(queue.RUNNING_NOW,),
                    unit="none",
                    no_value="no observer",
                    links=(ALL_FLEET,),
                    width=4,
                ),
                Panel(
                    id=4,
                    title="Tags nobody serves",
                    kind="stat",
                    description="Tags under which jobs wait for nobody. Normal: 0. More: the fleet dashboard says "
                    "which and why; no group has the tag, its workers are gone, or they don't claim.",
                    queries=(queue.UNSERVED_NOW,),
                    unit="none",
                    no_value="not known yet",
                    steps=ANY_IS_BAD,
                    links=(ALL_FLEET,),
                    width=4,
                ),
                Panel(
                    id=5,
                    title="Overdue",
                    kind="stat",
                    description="Running jobs that nobody has pinged for 90 s. Normal: 0, or a few for seconds after "
                    "a worker died. Lasting: no reaper runs.",
                    queries=(queue.OVERDUE_NOW,),
                    unit="none",
                    no_value="not told",
                    steps=ANY_IS_BAD,
                    width=4,
                ),
                Panel(
                    id=6,
                    title="Age of this data",
                    kind="stat",
                    description="How long ago the database was read, by the part that is oldest. Normal: about a "
                    "minute. More: reads fail, and what was not read is not shown; the closed row below says why.",
                    queries=(queue.DATA_AGE,),
                    unit="s",
                    decimals=0,
                    no_value="no observer",
                    steps=STALE,
                    width=4,
                ),
            ),
        ),
        Row(
            title="What waits and runs",
            about="Each tag in a table, then what waits, for how long, and what runs, over time.",
            panels=(
                Panel(
                    id=7,
                    title="Tags",
                    kind="table",
                    description="Each tag now. Normal: nothing old, overdue or at its limit. A tag without a group is "
                    "shared by several, or nobody's. A click leads to its workers, runs and lines.",
                    queries=(
                        queue.WAITING_OF_TAG,
                        queue.CAPPED_OF_TAG,
                        queue.OLDEST_OF_TAG,
                        queue.DUE_SINCE_OF_TAG,
                        queue.RUNNING_OF_TAG,
                        queue.WAIT_P95_OF_TAG,
                        queue.FAILED_OF_TAG,
                        queue.AT_LIMIT_OF_TAG,
                        queue.OVERDUE_OF_TAG,
                    ),
                    no_value="-",
                    columns=(
                        Column(field="tag", title="Tag", links=_ROW_OF_TAG),
                        Column(field="group", title="Group"),
                        Column(field="waiting_of_tag", title="Waiting", unit="none"),
                        Column(
                            field="capped_of_tag",
                            title="Over 1000",
                            unit="none",
                            meanings=(Meaning("0", "no", "text"), Meaning("1", "yes", "yellow")),
                        ),
                        Column(field="oldest_of_tag", title="Oldest", unit="s", steps=OLD),
                        Column(field="due_since_of_tag", title="Due", unit="dateTimeFromNow"),
                        Column(field="running_of_tag", title="Running", unit="none"),
                        Column(field="wait_p95_of_tag", title="Wait p95", unit="s"),
                        Column(field="failed_of_tag", title="Failed", unit="none", steps=ANY_IS_ODD),
                        Column(field="at_limit_of_tag", title="At limit", unit="none", steps=ANY_IS_ODD),
                        Column(field="overdue_of_tag", title="Overdue", unit="none", steps=ANY_IS_BAD),
                    ),
                    sorted_by="Oldest",
                    width=24,
                ),
                Panel(
                    id=8,
                    title="Waiting",
                    kind="timeseries",
                    description="Jobs that are due and unclaimed, up to 1000 for each tag. Normal: jagged and low. A "
                    "ramp: too few workers, or none that serves the tag. Flat at 1000: there are more than that.",
                    queries=(queue.WAITING_BY_TAG,),
                    unit="none",
                    no_value="no observer",
                    links=(TO_FLEET, TO_RUNS),
                    width=8,
                ),
                Panel(
                    id=9,
                    title="Oldest job",
                    kind="timeseries",
                    description="How long the oldest job has waited. Normal: saw teeth near 0. A ramp of one second a "
                    "second: nothing is claimed under that tag.",
                    queries=(queue.OLDEST_BY_TAG,),
                    unit="s",
                    no_value="no observer",
                    steps=OLD,
                    links=(TO_FLEET, TO_LONG_WAITS),
                    width=8,
                ),
                Panel(
                    id=10,
                    title="Running",
                    kind="timeseries",
                    description="Jobs that run. Normal: follows what waits. At a plateau while jobs wait: all workers "
                    "are busy; let the group grow.",
                    queries=(queue.RUNNING_BY_TAG,),
                    unit="none",
                    no_value="no observer",
                    links=(TO_FLEET, TO_RUNS),
                    width=8,
                ),
            ),
        ),
        Row(
            title="Waits and runs",
            about="How long jobs wait, by the table and by the workers; how long they run, and how they end.",
            panels=(
                Panel(
                    id=11,
                    title="Waits, by the table",
                    kind="timeseries",
                    description="From due to claim, for jobs claimed in the last five minutes. Normal: below a "
                    "second. A job that was given back counts its lost run as wait, unless the queue counts restarts.",
                    queries=(queue.OBSERVED_P50, queue.OBSERVED_P95),
                    unit="s",
                    no_value="nothing claimed",
                    links=(TO_LONG_WAITS, TO_FLEET),
                    width=8,
                ),
                Panel(
                    id=12,
                    title="Waits, by the workers",
                    kind="timeseries",
                    description="From due to first claim, as workers measured it. Normal: below a second. More: too "
                    "few workers. A long wait is a span in the job's trace; a click lists them.",
                    queries=(queue.MEASURED_P50, queue.MEASURED_P95),
                    unit="s",
                    no_value="no worker tells",
                    links=(TO_LONG_WAITS, TO_RUNS, TO_LINES_OF_TAG),
                    width=8,
                ),
                Panel(
                    id=13,
                    title="Runs",
                    kind="timeseries",
                    description="From claim to the end of the run. Normal: what it was last week. Longer: look at the "
                    "spans of a slow run, then at the host that it ran on.",
                    queries=(queue.RUN_P50, queue.RUN_P95),
                    unit="s",
                    no_value="no worker tells",
                    links=(TO_SLOW_RUNS, TO_RUNS, TO_LINES_OF_TAG),
                    width=8,
                ),
                Panel(
                    id=14,
                    title="Ended",
                    kind="timeseries",
                    description="Runs that ended, a second. Normal: success alone. lost: the job was taken away, so "
                    "its worker was slow to ping; cancelled: a drain had less time than the job needs.",
                    queries=(queue.EXECUTED_BY_OUTCOME,),
                    unit="ops",
                    no_value="no worker tells",
                    links=(TO_RUNS_OF_OUTCOME, TO_LINES_OF_TAG),
                ),
                Panel(
                    id=15,
                    title="Not successful",
                    kind="timeseries",
                    description="The share of runs that failed, were cancelled or lost. Normal: 0. More: one click "
                    "leads to those runs, each trace to its lines.",
                    queries=(queue.UNSUCCESSFUL_SHARE,),
                    unit="percentunit",
                    no_value="no worker tells",
                    reach=0.02,
                    steps=SHARE_FAILED,
                    links=(TO_FAILED_RUNS, TO_LINES_OF_TAG),
                ),
            ),
        ),
        Row(
            title="What goes wrong",
            about="Jobs that failed, died or are about to be given up; their lines and their traces.",
            panels=(
                Panel(
                    id=16,
                    title="Failed, at their limit, overdue",
                    kind="timeseries",
                    description="Jobs that failed in five minutes, that may not be given back once more, that nobody "
                    "pings. Normal: 0. At their limit: these jobs may be what kills workers; look at their last runs.",
                    queries=(queue.FAILED_BY_TAG, queue.AT_LIMIT_BY_TAG, queue.OVERDUE_BY_TAG),
                    unit="none",
                    no_value="not told",
                    links=(TO_FAILED_RUNS, TO_FLEET),
                ),
                Panel(
                    id=17,
                    title="Given back, given up",
                    kind="timeseries",
                    description="What our reapers did, a second. Normal: 0. Given back: workers die, or are too slow "
                    "to ping. Given up: after that often. A reaper of the platform's own is not seen here.",
                    queries=(queue.REQUEUED_BY_TAG, queue.GIVEN_UP_BY_TAG),
                    unit="ops",
                    no_value="nothing tells",
                    links=(ALL_FLEET, TO_JOB_LINES),
                    width=8,
                ),
                Panel(
                    id=18,
                    title="Given back, given up",
                    kind="stat",
                    description="What our reapers did in the time shown, the first one of a tag included, which a "
                    "rate can't show. Normal: 0. Given up: those jobs did not run to their end, and nobody tries "
                    "again.",
                    queries=(queue.REQUEUED_NOW, queue.GIVEN_UP_NOW),
                    unit="none",
                    decimals=0,
                    no_value="nothing tells",
                    steps=ANY_IS_ODD,
                    width=4,
                    height=8,
                ),
                Panel(
                    id=19,
                    title="Lines of failed jobs",
                    kind="logs",
                    description="Error lines of jobs, newest first. Normal: few. Each has the job's id and a trace id "
                    "that leads to its trace, from enqueueing to the end of the run.",
                    queries=(queue.FAILURE_LINES,),
                    no_value="no error lines of jobs",
                ),
                Panel(
                    id=20,
                    title="Runs that failed or took long",
                    kind="traces",
                    description="Traces of jobs that did not succeed or ran for more than a minute. Normal: few. The "
                    "deepest failed span is where it began; the run's lines are one click from its span.",
                    queries=(queue.TROUBLED_RUNS,),
                    no_value="no such runs",
                ),
            ),
        ),
        Row(
            title="Claims and clocks",
            about="Whether the database takes what workers write, and whether clocks agree.",
            collapsed=True,
            panels=(
                Panel(
                    id=21,
                    title="Claims and completions not taken",
                    kind="timeseries",
                    description="What the database did not take from workers, a second; they try again. Normal: 0. "
                    "connection, timeout: it is away or hangs; refused: a table, a column or a right is missing.",
                    queries=(queue.CLAIMS_FAILED, queue.COMPLETIONS_FAILED),
                    unit="ops",
                    no_value="nothing tells",
                    links=(TO_JOB_LINES,),
                    width=8,
                ),
                Panel(
                    id=22,
                    title="Claimed before due, by the table",
                    kind="timeseries",
                    description="Jobs of the last five minutes whose claim is earlier than their due time. Normal: 0. "
                    "More: somebody writes one of the two by a clock of its own; take the database's.",
                    queries=(queue.SKEWED_BY_TAG,),
                    unit="none",
                    no_value="not told",
                    links=(TO_FLEET, TO_RUNS),
                    width=8,
                ),
                Panel(
                    id=23,
                    title="Claimed before due, by the workers",
                    kind="stat",
                    description="Jobs that workers claimed before they were due, in the time shown; their wait counts "
                    "as 0. Normal: 0. More: the clock of whoever enqueues is ahead.",
                    queries=(queue.SKEWED_NOW,),
                    unit="none",
                    decimals=0,
                    no_value="nothing tells",
                    steps=ANY_IS_ODD,
                    width=8,
                    height=8,
                ),
            ),
        ),
        Row(
            title="The queue's table",
            about="Whether vacuum keeps up, and what keeps it from doing so: reads and claims slow down with dead "
            "rows.",
            collapsed=True,
            panels=(
                Panel(
                    id=24,
                    title="Rows",
                    kind="timeseries",
                    description="Rows alive and dead. Normal: dead ones are taken away within a minute. Dead ones "
                    "that pile up slow down every claim; see what holds a snapshot.",
                    queries=(queue.LIVE_ROWS, queue.DEAD_ROWS),
                    unit="none",
                    no_value="not told",
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=25,
                    title="Last autovacuum",
                    kind="timeseries",
                    description="How long ago autovacuum went through the table. Normal: a minute or so under load. "
                    "Hours under load: lower the table's autovacuum_vacuum_scale_factor.",
                    queries=(queue.VACUUM_AGE,),
                    unit="s",
                    no_value="never, or not told",
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=26,
                    title="Oldest snapshot",
                    kind="timeseries",
                    description="The age of the oldest transaction that keeps dead rows. Normal: seconds. Minutes: a "
                    "dump, a session idle in a transaction, or a replica's feedback; end it.",
                    queries=(queue.SNAPSHOT_AGE,),
                    unit="s",
                    no_value="needs pg_read_all_stats",
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=27,
                    title="Oldest snapshot, in transactions",
                    kind="timeseries",
                    description="The same in transactions, with replication slots and prepared ones. Normal: "
                    "thousands. Millions: a slot that nobody reads; drop it.",
                    queries=(queue.SNAPSHOT_TRANSACTIONS,),
                    unit="none",
                    no_value="needs pg_read_all_stats",
                    links=(ALL_FLEET,),
                ),
                Panel(
                    id=28,
                    title="Replica behind",
                    kind="timeseries",
                    description="How far the replica is behind that an observer reads. Normal: below a second; "
                    "nothing where the primary is read. More: what is shown here is as old as that.",
                    queries=(queue.REPLICA_LAG,),
                    unit="s",
                    no_value="a primary is read",
                    links=(ALL_FLEET,),
                ),
            ),
        ),
        Row(
            title="The observer",
            about="Whether the database is read, how long that takes, and why it fails.",
            collapsed=True,
            panels=(
                Panel(
                    id=29,
                    title="Parts that are read",
                    kind="states",
                    description="Whether the last read of each part worked. Normal: read. Failed: the gauges of that "
                    "part are gone meanwhile, and nothing is taken for 0; the reasons stand beside this.",
                    queries=(queue.UP_BY_PART,),
                    unit="none",
                    no_value="no observer",
                    meanings=(Meaning("0", "failed", "red"), Meaning("1", "read", "green")),
                    links=(ALL_FLEET,),
                ),
                Panel(
                    id=30,
                    title="Reads failed",
                    kind="timeseries",
                    description="Reads that failed, a second. Normal: 0. lock_timeout: DDL held the table; "
                    "permission, schema: once on stderr with what differs; `fleetglass queue doctor` says the rest.",
                    queries=(queue.READS_FAILED,),
                    unit="ops",
                    no_value="no observer",
                    links=(ALL_FLEET,),
                ),
                Panel(
                    id=31,
                    title="Age of the data",
                    kind="timeseries",
                    description="How long ago each part was read. Normal: saw teeth of 15 s, of a minute for detail "
                    "and catalogue. A ramp: it fails, or the observer hangs.",
                    queries=(queue.DATA_AGE_BY_PART,),
                    unit="s",
                    no_value="no observer",
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=32,
                    title="Reads take",
                    kind="timeseries",
                    description="How long the last read took. Normal: below 0.1 s. More: an index is missing, or dead "
                    "rows pile up; `fleetglass queue doctor` tells which.",
                    queries=(queue.READS_TAKE,),
                    unit="s",
                    no_value="no observer",
                    links=(ALL_FLEET,),
                    width=8,
                ),
                Panel(
                    id=33,
                    title="Exporters",
                    kind="timeseries",
                    description="Exporters that run, and those that read. Normal: one reads where one is elected, all "
                    "do where none is. None reads: the lease is held by one that is gone, for 45 s at most.",
                    queries=(queue.EXPORTERS, queue.LEADERS),
                    unit="none",
                    no_value="no observer",
                    links=(ALL_FLEET,),
                    width=5,
                ),
                Panel(
                    id=34,
                    title="Tags cut off",
                    kind="stat",
                    description="Whether the queue holds more tags than are looked at; the rest is in no figure. "
                    "Normal: no. Yes: somebody makes tags of ids; take those out.",
                    queries=(queue.TAGS_CUT,),
                    unit="none",
                    no_value="no observer",
                    meanings=(Meaning("0", "no", "green"), Meaning("1", "yes", "red")),
                    width=3,
                    height=8,
                ),
            ),
        ),
    ),
)
