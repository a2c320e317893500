"""The queue of jobs: what waits and runs as the observer counts it, waits and runs as workers measured them.

Exporters of one queue are one or several, elected or not, and all say the same: a gauge of theirs is the maximum over
them before anything is added up. What workers and reapers count is each one's own, and summed.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, NEVER, alive, increase, now, rate, series, total
from telemetry.grafana.records import Query

CHOSEN: Final = 'group=~"${group}", tag=~"${tag}"'
"""The tags that the reader has chosen."""
TAG: Final = 'tag=~"${tag}"'
UNSERVED: Final = 'reason=~"no_route|no_live_workers|stuck"'
"""The verdicts on a tag that mean: what waits there goes on waiting."""

PENDING: Final = "fleet_queue_pending"
OLDEST: Final = "fleet_queue_oldest_age_seconds"
EXECUTED: Final = "fleet_job_executed_total"
WAIT: Final = "fleet_job_wait_seconds_bucket"
RUN: Final = "fleet_job_run_seconds_bucket"

_UNSUCCESSFUL = 'outcome!="success"'
_BY_TAG = "group, tag"
_BY_WORKERS = "job, group, tag"


def told(metric: str, by: str, matchers: str = "") -> str:
    """A gauge of the observer, once for each ``by``, however many exporters there are."""
    selector = f"{metric}{{{MINE}, {matchers}}}" if matchers else f"{metric}{{{MINE}}}"
    return f"max by ({by}) ({selector})" if by else f"max({selector})"


def _of_tag(metric: str) -> str:
    return told(metric, _BY_TAG, CHOSEN)


def _quantile(q: float, bucket: str) -> str:
    return f"histogram_quantile({q:g}, {total(rate(bucket, CHOSEN), f'{_BY_WORKERS}, le')})"


# --- is it OK?

OLDEST_NOW: Final = now(
    "oldest_now",
    f"max({_of_tag(OLDEST)})",
    "oldest",
    "The age of the oldest job that is due and unclaimed.",
    rests_at_zero=True,
)
WAITING_NOW: Final = now(
    "waiting_now", f"sum({_of_tag(PENDING)})", "waiting", "Jobs that are due and unclaimed.", rests_at_zero=True
)
RUNNING_NOW: Final = now("running_now", f"sum({_of_tag('fleet_queue_running')})", "running", "Jobs that run.")
UNSERVED_NOW: Final = now(
    "unserved_with_backlog",
    f"sum({told('fleet_tag_coverage', 'tag', f'{UNSERVED}, {TAG}')}"
    f" * on (tag) clamp_max({told(PENDING, 'tag', CHOSEN)}, 1))",
    "tags",
    "Tags under which jobs wait, and that nobody serves.",
    rests_at_zero=True,
)
OVERDUE_NOW: Final = now(
    "overdue_now",
    f"sum({_of_tag('fleet_queue_overdue_jobs')})",
    "overdue",
    "Running jobs that nobody has pinged for the zombie timeout.",
    rests_at_zero=True,
)
DATA_AGE: Final = now(
    "data_age",
    f"time() - min({told('fleet_queue_observer_last_success_timestamp_seconds', 'part')})",
    "ago",
    "How long ago the part was read that was read longest ago.",
)
OLDEST_OF_ALL: Final = now(
    "oldest_of_all",
    f"max({told(OLDEST, _BY_TAG)})",
    "oldest",
    "The age of the oldest job that is due and unclaimed, under any tag.",
    rests_at_zero=True,
)

# --- what waits and runs, by tag

WAITING_OF_TAG: Final = now(
    "waiting_of_tag", _of_tag("fleet_queue_pending_exact"), "", "Jobs that are due and unclaimed, all of them."
)
CAPPED_OF_TAG: Final = now(
    "capped_of_tag",
    _of_tag("fleet_queue_pending_capped"),
    "",
    "Whether more wait than are counted at each scrape.",
    rests_at_zero=True,
)
OLDEST_OF_TAG: Final = now("oldest_of_tag", _of_tag(OLDEST), "", "How long the oldest of them has waited.")
DUE_SINCE_OF_TAG: Final = now(
    "due_since_of_tag",
    f"{_of_tag('fleet_queue_oldest_timestamp_seconds')} * 1000",
    "",
    "Since when the oldest is due, in milliseconds as Grafana counts; nothing where none waits.",
)
RUNNING_OF_TAG: Final = now("running_of_tag", _of_tag("fleet_queue_running"), "", "Jobs that run.")
WAIT_P95_OF_TAG: Final = now(
    "wait_p95_of_tag",
    _of_tag("fleet_queue_wait_p95_seconds"),
    "",
    "19 of 20 jobs of the last five minutes were claimed faster than this.",
)
FAILED_OF_TAG: Final = now(
    "failed_of_tag",
    _of_tag("fleet_queue_failed_jobs"),
    "",
    "Jobs that failed in the last five minutes.",
    rests_at_zero=True,
)
AT_LIMIT_OF_TAG: Final = now(
    "at_limit_of_tag",
    _of_tag("fleet_queue_restart_limit_jobs"),
    "",
    "Jobs that were taken back as often as they may be.",
    rests_at_zero=True,
)
OVERDUE_OF_TAG: Final = now(
    "overdue_of_tag", _of_tag("fleet_queue_overdue_jobs"), "", "Running jobs that nobody pings.", rests_at_zero=True
)
WAITING_BY_TAG: Final = series(
    "waiting_by_tag", _of_tag(PENDING), "{{tag}} {{group}}", "Jobs that are due and unclaimed, up to 1000 for each tag."
)
OLDEST_BY_TAG: Final = series(
    "oldest_by_tag", _of_tag(OLDEST), "{{tag}} {{group}}", "How long the oldest job has waited."
)
RUNNING_BY_TAG: Final = series("running_by_tag", _of_tag("fleet_queue_running"), "{{tag}} {{group}}", "Jobs that run.")

# --- waits and runs

OBSERVED_P50: Final = series(
    "observed_wait_p50",
    _of_tag("fleet_queue_wait_p50_seconds"),
    "{{tag}} {{group}} p50",
    "Half of the jobs claimed in the last five minutes waited less than this.",
)
OBSERVED_P95: Final = series(
    "observed_wait_p95",
    _of_tag("fleet_queue_wait_p95_seconds"),
    "{{tag}} {{group}} p95",
    "19 of 20 jobs claimed in the last five minutes waited less than this.",
)
MEASURED_P50: Final = series(
    "measured_wait_p50", _quantile(0.5, WAIT), "{{tag}} {{group}} p50", "Half of the first claims came sooner."
)
MEASURED_P95: Final = series(
    "measured_wait_p95", _quantile(0.95, WAIT), "{{tag}} {{group}} p95", "19 of 20 first claims came sooner."
)
RUN_P50: Final = series("run_p50", _quantile(0.5, RUN), "{{tag}} {{group}} p50", "Half of the runs took less.")
RUN_P95: Final = series("run_p95", _quantile(0.95, RUN), "{{tag}} {{group}} p95", "19 of 20 runs took less.")
EXECUTED_BY_OUTCOME: Final = series(
    "executed_by_outcome",
    total(rate(EXECUTED, CHOSEN), "job, tag, outcome"),
    "{{tag}} {{outcome}}",
    "Runs that ended, a second, by how.",
)
UNSUCCESSFUL_SHARE: Final = series(
    "unsuccessful_share",
    f"({total(rate(EXECUTED, f'{_UNSUCCESSFUL}, {CHOSEN}'), 'job, tag')}"
    f" or 0 * {total(rate(EXECUTED, CHOSEN), 'job, tag')})"
    f" / clamp_min({total(rate(EXECUTED, CHOSEN), 'job, tag')}, {NEVER})",
    "{{tag}}",
    "The share of runs that did not succeed.",
    rests_at_zero=True,
)

# --- what goes wrong

FAILED_BY_TAG: Final = series(
    "failed_by_tag",
    _of_tag("fleet_queue_failed_jobs"),
    "{{tag}} {{group}} failed",
    "Jobs that ended in failure in the last five minutes.",
    rests_at_zero=True,
)
AT_LIMIT_BY_TAG: Final = series(
    "at_limit_by_tag",
    _of_tag("fleet_queue_restart_limit_jobs"),
    "{{tag}} {{group}} at their limit",
    "Jobs that were taken back as often as they may be.",
    rests_at_zero=True,
)
OVERDUE_BY_TAG: Final = series(
    "overdue_by_tag",
    _of_tag("fleet_queue_overdue_jobs"),
    "{{tag}} {{group}} overdue",
    "Running jobs that nobody pings: a reaper takes them.",
    rests_at_zero=True,
)
REQUEUED_BY_TAG: Final = series(
    "requeued_by_tag",
    f"{total(rate('fleet_queue_requeues_total', TAG), 'job, tag')} or {alive('job')}",
    "{{job}} {{tag}} given back",
    "Jobs of dead workers that a reaper of ours gave back, a second; a line at 0 for what tells of itself.",
    rests_at_zero=True,
)
GIVEN_UP_BY_TAG: Final = series(
    "given_up_by_tag",
    f"{total(rate('fleet_queue_given_up_total', TAG), 'job, tag')} or {alive('job')}",
    "{{job}} {{tag}} given up",
    "Jobs that a reaper of ours ended, a second; a line at 0 for what tells of itself.",
    rests_at_zero=True,
)
REQUEUED_NOW: Final = now(
    "requeued_now",
    f"{total(increase('fleet_queue_requeues_total', TAG), '')} or {alive('')}",
    "given back",
    "Jobs of dead workers that our reapers gave back in the time shown.",
    rests_at_zero=True,
)
GIVEN_UP_NOW: Final = now(
    "given_up_now",
    f"{total(increase('fleet_queue_given_up_total', TAG), '')} or {alive('')}",
    "given up",
    "Jobs that our reapers ended in the time shown, since they had been given back as often as they may be.",
    rests_at_zero=True,
)
FAILURE_LINES: Final = Query(
    name="job_failure_lines",
    language="logql",
    expression=(
        '{service_name=~"${job}"} |= "job_id=" | logfmt | job_id!="" | tag=~"${tag}"'
        ' | detected_level=~"error|critical|fatal"'
    ),
    shape="lines",
    about="Lines of level error and above that a job wrote, each with its trace id.",
)
TROUBLED_RUNS: Final = Query(
    name="troubled_runs",
    language="traceql",
    expression=(
        '{resource.service.name=~"${job}" && span.messaging.operation.type="process"'
        ' && span.messaging.destination.name=~"${tag}" && (span.job.outcome!="success" || duration>1m)}'
    ),
    shape="traces",
    about="Traces of jobs that did not succeed, or ran for longer than a minute.",
)

# --- clocks, and what workers meet

SKEWED_NOW: Final = now(
    "skewed_now",
    f"{total(increase('fleet_job_clock_skew_total', TAG), '')} or {alive('')}",
    "jobs",
    "Jobs that our workers claimed before they were due, in the time shown.",
    rests_at_zero=True,
)
SKEWED_BY_TAG: Final = series(
    "skewed_by_tag",
    _of_tag("fleet_queue_clock_skewed_jobs"),
    "{{tag}} {{group}}",
    "Jobs of the last five minutes that anybody claimed before they were due.",
    rests_at_zero=True,
)


def _not_taken(name: str, what: str, about: str) -> Query:
    return series(
        name,
        f"{total(rate(f'fleet_job_{what}_failures_total'), 'job, reason')} or {alive('job')}",
        f"{{{{job}}}} {what} {{{{reason}}}}",
        about,
        rests_at_zero=True,
    )


CLAIMS_FAILED: Final = _not_taken(
    "claims_failed", "claim", "Claims that the database did not take, a second; a line at 0 for what tells of itself."
)
COMPLETIONS_FAILED: Final = _not_taken(
    "completions_failed",
    "completion",
    "Completions that the database did not take, a second; a line at 0 for what tells of itself.",
)

# --- the table

LIVE_ROWS: Final = series("live_rows", told("fleet_queue_live_rows", ""), "live", "Rows that are alive.")
DEAD_ROWS: Final = series("dead_rows", told("fleet_queue_dead_rows", ""), "dead", "Rows that wait for a vacuum.")
VACUUM_AGE: Final = series(
    "vacuum_age",
    f"time() - {told('fleet_queue_last_autovacuum_timestamp_seconds', '')}",
    "autovacuum",
    "How long ago autovacuum went through the table.",
)
SNAPSHOT_AGE: Final = series(
    "snapshot_age",
    told("fleet_queue_oldest_snapshot_age_seconds", ""),
    "oldest snapshot",
    "The age of the oldest transaction that keeps dead rows.",
)
SNAPSHOT_TRANSACTIONS: Final = series(
    "snapshot_transactions",
    told("fleet_queue_oldest_snapshot_transactions", ""),
    "oldest snapshot",
    "The same in transactions, with replication slots and prepared ones.",
)
REPLICA_LAG: Final = series(
    "replica_lag",
    told("fleet_queue_replica_lag_seconds", ""),
    "behind",
    "How far the replica is behind that an observer reads.",
)

# --- the observer

UP_BY_PART: Final = series(
    "observer_up_by_part", told("fleet_queue_observer_up", "part"), "{{part}}", "1 where the last read worked."
)
DATA_AGE_BY_PART: Final = series(
    "data_age_by_part",
    f"time() - {told('fleet_queue_observer_last_success_timestamp_seconds', 'part')}",
    "{{part}}",
    "How long ago each part was read.",
)
READS_TAKE: Final = series(
    "reads_take",
    told("fleet_queue_observer_query_duration_seconds", "part"),
    "{{part}}",
    "How long the last read took, of the slowest exporter.",
)
READS_FAILED: Final = series(
    "reads_failed",
    total(rate("fleet_queue_observer_errors_total"), "part, reason"),
    "{{part}} {{reason}}",
    "Reads that failed, a second, by why.",
    rests_at_zero=True,
)
LEADERS: Final = series(
    "observer_leaders",
    f"sum(fleet_queue_observer_leader{{{MINE}}})",
    "read",
    "Exporters that read the database: 1 of those with an election, each of those without.",
)
EXPORTERS: Final = series(
    "observer_exporters", f"count(fleet_queue_observer_leader{{{MINE}}})", "run", "Exporters that run."
)
TAGS_CUT: Final = now(
    "tags_cut",
    told("fleet_queue_tags_cut", ""),
    "cut",
    "1 where the queue holds more tags than are looked at.",
    rests_at_zero=True,
)
