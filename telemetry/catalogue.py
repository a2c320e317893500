"""Every metric the project emits, once: name, kind, unit, labels, help, buckets, origin.

The registry makes instruments from this table and refuses what is not in it, the reference page is
written from it, and dashboards and alerts may name only what stands here. It knows nobody.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["counter", "gauge", "histogram", "info"]

PREFIXES = ("telemetry_", "frontend_", "fleet_", "http_server_")
"""Name prefixes that are ours: below them only catalogued metrics may be registered."""

OVERFLOW_VALUE = "__other__"
"""What the cardinality guard writes in place of a label value beyond the limit."""

# Advised boundaries of the semantic conventions for http.server.request.duration, in seconds
# (opentelemetry.io/docs/specs/semconv/http/http-metrics).
HTTP_DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

JOB_WAIT_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""From a claim at once to a queue that is stuck, in seconds."""
JOB_RUN_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 43_200.0)
"""From a call to a night's training, in seconds."""


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One metric family.

    ``name`` is the name as queried: a counter's ends in ``_total``, an info's in ``_info``.
    ``unit`` is the Prometheus base unit (``seconds``, ``bytes``) or empty; it then ends the name.
    ``buckets`` are a histogram's upper bounds in ``unit``, without ``+Inf``.
    ``multiprocess`` says how a gauge of several processes is put together (prometheus_client's modes).
    ``origin`` is the module that emits it.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""
    buckets: tuple[float, ...] = ()
    multiprocess: Literal["livesum", "livemax", "livemin", "livemostrecent"] = "livesum"
    origin: str

    @property
    def family(self) -> str:
        """Name of the metric family in OpenMetrics: without ``_total`` or ``_info``."""
        if self.kind == "counter":
            return self.name.removesuffix("_total")
        return self.name.removesuffix("_info") if self.kind == "info" else self.name


LABELS: dict[str, str] = {
    "cause": "`expired`, `evicted`, `shutdown`, `adopted` (its opener was gone) or `store_lost`",
    "group": "group of workers; empty where a job belongs to none, and for a tag that several groups serve",
    "http_request_method": "request method in capitals, `_OTHER` when it is not a known one",
    "http_route": "route template (`/users/{id}`), `unmatched` when no route took the request",
    "http_response_status_code": "status code of the response, as three digits",
    "item": "`logs`, `measurements`, `events`, `traces`, or `replays` (exceptions that came before)",
    "kind": "what the browser caught: `error`, `unhandledrejection`, `react`, `other`",
    "label": "name of the label whose values went over the limit",
    "metric": "name of the metric that was guarded",
    "outcome": "of a run: `success`, `failure`, `cancelled`, or `lost` (its completion was fenced off)",
    "part": "what was read: `queue` (pending), `detail` (running, waits, exact counts), `workers` (and what was asked "
    "for) or `catalogue`",
    "reason": "why: of a dropped record one of the ledger's closed list; of noise `extension`, `script_error` or "
    "`resize_observer`; of a store's error `timeout`, `connection`, `refused` or `late`; of a heartbeat that failed "
    "`timeout`, `connection` or `refused`; of a read that failed `connection`, `deadline`, `statement_timeout`, "
    "`lock_timeout`, `permission`, `schema` or `refused`; of a tag `covered`, `no_route` (no group has it), "
    "`no_live_workers`, `idle` or `stuck` (served, due, and not claimed)",
    "result": "of a report `accepted` (logged), `duplicate` (counted as a repeat), `noise`, or why it was refused; of "
    "a stack `resolved`, `unmapped` (no map knows it), `dropped` (too many waited) or `failed`",
    "signal": "`logs`, `traces` or `metrics`",
    "sink": "name of the network sink",
    "state": "`ok`, `missing`, `scaled`, `draining` or `unregistered`",
    "tag": "tag of a job, by which workers choose; `__other__` for those beyond the 200 with most jobs",
    "transport": "`event_stream` or `websocket`",
    "version": "version of this library",
    "where": "part of the library that reported the fault",
}
"""What each label means; every label in the catalogue stands here."""


def _index(*specs: MetricSpec) -> dict[str, MetricSpec]:
    return {spec.name: spec for spec in specs}


_ROW = ("signal", "sink")
_QUEUE = ("group", "tag")

METRICS: dict[str, MetricSpec] = _index(
    MetricSpec(
        name="fleet_job_clock_skew_total",
        kind="counter",
        labels=("tag",),
        help="Jobs that were claimed before they were due by the database's clock; their wait counts as 0.",
        origin="telemetry.worker.jobs",
    ),
    MetricSpec(
        name="fleet_job_executed_total",
        kind="counter",
        labels=("tag", "group", "outcome"),
        help="Runs of jobs that ended, by how.",
        origin="telemetry.worker.jobs",
    ),
    MetricSpec(
        name="fleet_job_run_seconds",
        kind="histogram",
        unit="seconds",
        labels=("tag", "group", "outcome"),
        buckets=JOB_RUN_BUCKETS,
        help="Time from the claim of a job to the end of its run.",
        origin="telemetry.worker.jobs",
    ),
    MetricSpec(
        name="fleet_job_wait_seconds",
        kind="histogram",
        unit="seconds",
        labels=("tag", "group"),
        buckets=JOB_WAIT_BUCKETS,
        help="Time from when a job was due to its first claim, by the database's clock.",
        origin="telemetry.worker.jobs",
    ),
    MetricSpec(
        name="fleet_queue_clock_skewed_jobs",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs of the last five minutes that were claimed before they were due by the database's clock.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_dead_rows",
        kind="gauge",
        help="Dead rows of the queue's table that no vacuum has taken away yet.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_failed_jobs",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs that ended in failure in the last five minutes.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_given_up_total",
        kind="counter",
        labels=("tag",),
        help="Jobs that this reaper ended, since they had been given back as often as they may be.",
        origin="telemetry.worker.reaper",
    ),
    MetricSpec(
        name="fleet_queue_last_autovacuum_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        help="When autovacuum last went through the queue's table, as Unix time.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_live_rows",
        kind="gauge",
        help="Rows of the queue's table that are alive, as the database estimates.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_observer_errors_total",
        kind="counter",
        labels=("part", "reason"),
        help="Reads that failed, by what was to be read and why.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_observer_last_success_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        labels=("part",),
        help="When this was last read, as Unix time by the database's clock.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_observer_leader",
        kind="gauge",
        help="1 for the exporter that reads the database, 0 for those that stand by.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_observer_query_duration_seconds",
        kind="gauge",
        unit="seconds",
        labels=("part",),
        help="How long the last read took.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_observer_up",
        kind="gauge",
        labels=("part",),
        help="1 when the last read worked, 0 when it failed: its gauges are then absent.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_oldest_age_seconds",
        kind="gauge",
        unit="seconds",
        labels=_QUEUE,
        help="Age of the oldest job that is due and unclaimed, 0 when there is none; by the database's clock.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_oldest_snapshot_age_seconds",
        kind="gauge",
        unit="seconds",
        help="Age of the oldest transaction whose snapshot keeps dead rows from being taken away.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_oldest_snapshot_transactions",
        kind="gauge",
        help="The same in transactions, those of replication slots and prepared ones included.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_oldest_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        labels=_QUEUE,
        help="When the oldest job that is due and unclaimed became due, as Unix time; nothing when there is none.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_overdue_jobs",
        kind="gauge",
        labels=_QUEUE,
        help="Running jobs that their worker has not pinged for the zombie timeout: a reaper takes them back.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_pending",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs that are due and unclaimed, counted up to 1000 for each tag.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_pending_capped",
        kind="gauge",
        labels=_QUEUE,
        help="1 where there are more jobs than were counted.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_pending_exact",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs that are due and unclaimed, all of them, counted once a minute.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_replica_lag_seconds",
        kind="gauge",
        unit="seconds",
        help="How far the replica that is read is behind; nothing on a primary, or where a replica receives nothing.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_requeues_total",
        kind="counter",
        labels=("tag",),
        help="Jobs of dead workers that this reaper gave back to the queue.",
        origin="telemetry.worker.reaper",
    ),
    MetricSpec(
        name="fleet_queue_restart_limit_jobs",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs in the queue that were taken back as often as they may be: they may be what kills workers.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_running",
        kind="gauge",
        labels=_QUEUE,
        help="Jobs that run, without those that only wait for others.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_tags_cut",
        kind="gauge",
        help="1 when the queue holds more tags than are looked at; the rest is in no figure.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_wait_p50_seconds",
        kind="gauge",
        unit="seconds",
        labels=_QUEUE,
        help="Median of the wait from due to claim, for jobs claimed in the last five minutes.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_queue_wait_p95_seconds",
        kind="gauge",
        unit="seconds",
        labels=_QUEUE,
        help="95th percentile of the wait from due to claim, for jobs claimed in the last five minutes.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_tag_coverage",
        kind="gauge",
        labels=("tag", "reason"),
        help="1 for the verdict on a tag, 0 for the others: whether somebody serves it, or why nobody does.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_tag_serving",
        kind="gauge",
        labels=("tag",),
        help="Active workers that serve a tag.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_active",
        kind="gauge",
        labels=("group",),
        help="Living workers that take jobs.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_alive",
        kind="gauge",
        labels=("group",),
        help="Workers whose last ping is at most the alive window old.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_busy",
        kind="gauge",
        labels=("group",),
        help="Living workers that run a job.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_clock_skewed",
        kind="gauge",
        labels=("group",),
        help="Living workers whose ping lies in the database's future.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_desired_max",
        kind="gauge",
        labels=("group",),
        help="Most replicas that were asked for.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_desired_min",
        kind="gauge",
        labels=("group",),
        help="Fewest replicas that were asked for.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_draining",
        kind="gauge",
        labels=("group",),
        help="Living workers that finish what they run and take nothing new.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_drift",
        kind="gauge",
        labels=("group", "state"),
        help="1 for the badge of a group, 0 for the others: whether what runs matches what was asked for.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_drift_danger",
        kind="gauge",
        labels=("group",),
        help="1 where work waits for a group that was scaled to nothing, and nobody comes.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_drift_since_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        labels=("group",),
        help="Since when the badge has been what it is, as Unix time, as far as this exporter saw.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_drift_valid",
        kind="gauge",
        labels=("group",),
        help="1 where a badge is given, 0 where what was read does not allow one.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_enabled",
        kind="gauge",
        labels=("group",),
        help="1 for a group that may run at all.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_jobs_executed",
        kind="gauge",
        labels=("group",),
        help="Jobs that the living workers have run since they started; falls when one leaves.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_last_ping_age_seconds",
        kind="gauge",
        unit="seconds",
        labels=("group",),
        help="Age of the freshest ping; nothing without a living worker.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_lost",
        kind="gauge",
        labels=("group",),
        help="Workers that fell silent within the last quarter of an hour without taking their leave.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_running_jobs",
        kind="gauge",
        labels=("group",),
        help="Jobs that the living workers run.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_group_versions",
        kind="gauge",
        labels=("group",),
        help="Distinct versions among the living workers; more than one is skew.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_groups_broken",
        kind="gauge",
        help="Rows of the registry that can't be right, such as a minimum above its maximum.",
        origin="telemetry.fleet.observer",
    ),
    MetricSpec(
        name="fleet_worker_heartbeat_failures_total",
        kind="counter",
        labels=("reason",),
        help="Heartbeats of this worker that did not arrive, by why.",
        origin="telemetry.worker.heartbeat",
    ),
    MetricSpec(
        name="fleet_worker_heartbeat_last_success_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        multiprocess="livemin",
        help="When the heartbeat of this worker last arrived, as Unix time.",
        origin="telemetry.worker.heartbeat",
    ),
    MetricSpec(
        name="frontend_errors_total",
        kind="counter",
        labels=("kind",),
        help="Browser errors accepted, counted as often as the page says they occurred.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_faro_ignored_total",
        kind="counter",
        labels=("item",),
        help="Items of Faro batches that are no new browser errors: other signals, and exceptions sent again.",
        origin="ingest.faro",
    ),
    MetricSpec(
        name="frontend_noise_total",
        kind="counter",
        labels=("reason",),
        help="Browser error reports dropped as noise, by what they were.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_reports_total",
        kind="counter",
        labels=("result",),
        help="Browser error reports received, by what became of them.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_sourcemaps_total",
        kind="counter",
        labels=("result",),
        help="Stacks of new browser errors given to the source map worker, by what became of them.",
        origin="ingest.errors",
    ),
    MetricSpec(
        name="frontend_store_errors_total",
        kind="counter",
        labels=("reason",),
        help="Calls to the store of shared limits that failed; limits then hold for each replica alone.",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_store_up",
        kind="gauge",
        multiprocess="livemin",
        help="Whether limits are shared through the store now (1) or this replica limits alone (0).",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_windows_closed_total",
        kind="counter",
        labels=("cause",),
        help="Closing lines written for repeats that were counted, by why the window was closed.",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="frontend_windows_open",
        kind="gauge",
        help="Windows in which repeats of a browser error are counted instead of logged now.",
        origin="ingest.limits",
    ),
    MetricSpec(
        name="http_server_active_requests",
        kind="gauge",
        labels=("http_request_method",),
        help="HTTP requests being served now.",
        origin="telemetry.web.exchange",
    ),
    MetricSpec(
        name="http_server_request_duration_seconds",
        kind="histogram",
        unit="seconds",
        labels=("http_request_method", "http_route", "http_response_status_code"),
        buckets=HTTP_DURATION_BUCKETS,
        help="Time from the request's arrival to the end of its response.",
        origin="telemetry.web.exchange",
    ),
    MetricSpec(
        name="http_server_streams_total",
        kind="counter",
        labels=("transport", "http_route", "http_response_status_code"),
        help="Event streams and websockets that have ended; how long they lasted is no latency.",
        origin="telemetry.web.exchange",
    ),
    MetricSpec(
        name="target_info",
        kind="info",
        help="Attributes of the process that is scraped, one label each; join with it by job and instance.",
        origin="telemetry.metrics.exposition",
    ),
    MetricSpec(
        name="telemetry_build_info",
        kind="info",
        labels=("version",),
        help="Version of this library; the value is always 1.",
        origin="telemetry.metrics.accounts",
    ),
    MetricSpec(
        name="telemetry_internal_faults_total",
        kind="counter",
        labels=("where",),
        help="Faults inside the library, which it keeps from the application.",
        origin="telemetry.faults",
    ),
    MetricSpec(
        name="telemetry_label_overflow_total",
        kind="counter",
        labels=("metric", "label"),
        help=f"Times a label value beyond the limit was replaced by {OVERFLOW_VALUE}.",
        origin="telemetry.metrics.guard",
    ),
    MetricSpec(
        name="telemetry_probe_timestamp_seconds",
        kind="gauge",
        unit="seconds",
        help="When `fleetglass probe` sent this sample, as Unix time; only the probe emits it.",
        origin="telemetry.probe",
    ),
    MetricSpec(
        name="telemetry_records_degraded_total",
        kind="counter",
        labels=_ROW,
        help="Records that had to be mended (cut, unformattable, bad characters) and went out all the same.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_delivered_total",
        kind="counter",
        labels=_ROW,
        help="Records that a backend confirmed.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_dropped_total",
        kind="counter",
        labels=(*_ROW, "reason"),
        help="Records given up, by reason.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_emitted_total",
        kind="counter",
        labels=_ROW,
        help="Log lines, spans and pushed sample batches handed to a network sink.",
        origin="telemetry.ledger",
    ),
    MetricSpec(
        name="telemetry_records_pending",
        kind="gauge",
        labels=_ROW,
        help="Records queued or on their way: emitted, and neither delivered nor dropped yet.",
        origin="telemetry.ledger",
    ),
)
"""All metrics by name, in order of name."""
