"""Grafana Alloy between services and stores, by its metrics about itself: what it takes, drops, and still holds.

Names are those of Alloy 1.18. A counter of failures of the collector's own exporters, and one of lines that a stage
dropped, begins with the first failure, so ``alive`` stands in for it while that Alloy is scraped.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, increase, now, rate, series, total
from telemetry.grafana.records import Query

_ALLOY = "job, instance"
_STAGE = "loki_process_dropped_lines_total"
_WRITE = "loki_write_dropped_entries_total"
_SENT = "prometheus_remote_storage_queue_highest_sent_timestamp_seconds"
_TAKEN = "prometheus_remote_storage_queue_highest_timestamp_seconds"
_BEHIND = f"{_TAKEN}{{{MINE}}} - {_SENT}{{{MINE}}}"
_COMPONENTS = f'alloy_component_controller_running_components{{{MINE}, health_type!="healthy"}}'
_SIGNALS = {"spans": "spans", "log_records": "lines", "metric_points": "points"}


def _alive(by: str) -> str:
    return f"0 * {total(f'alloy_build_info{{{MINE}}}', by)}"


def _received(kind: str, word: str) -> Query:
    return series(
        f"alloy_received_{kind}",
        total(rate(f"otelcol_receiver_accepted_{kind}_total"), _ALLOY),
        f"{{{{instance}}}} {word}",
        f"OTLP {word} taken in, a second.",
    )


def _refused(kind: str, word: str) -> Query:
    counts = " + ".join(total(rate(f"otelcol_receiver_{how}_{kind}_total"), _ALLOY) for how in ("refused", "failed"))
    return series(
        f"alloy_refused_{kind}",
        counts,
        f"{{{{instance}}}} {word}",
        f"OTLP {word} that Alloy did not take, a second.",
        rests_at_zero=True,
    )


def _unsent(kind: str, word: str) -> Query:
    lost = total(rate(f"otelcol_exporter_send_failed_{kind}_total"), f"{_ALLOY}, component_path")
    return series(
        f"alloy_unsent_{kind}",
        f"{lost} or {_alive(_ALLOY)}",
        f"{{{{instance}}}} {{{{component_path}}}} {word}",
        f"OTLP {word} that a store did not take, a second.",
        rests_at_zero=True,
    )


CONFIG_FAILED: Final = now(
    "alloy_config_failed",
    f"sum(1 - alloy_config_last_load_successful{{{MINE}}})",
    "failed",
    "Alloys whose last configuration could not be loaded.",
    rests_at_zero=True,
)
UNHEALTHY: Final = now(
    "alloy_unhealthy",
    f"{total(_COMPONENTS, '')} or {_alive('')}",
    "components",
    "Components of Alloy that are not healthy.",
    rests_at_zero=True,
)
LINES_DROPPED_NOW: Final = now(
    "alloy_lines_dropped_now",
    f"({total(increase(_STAGE), '')} or {_alive('')}) + ({total(increase(_WRITE), '')} or {_alive('')})",
    "lines",
    "Log lines that Alloy dropped in the time shown, in a stage or for want of a Loki.",
    rests_at_zero=True,
)
BEHIND_NOW: Final = now(
    "alloy_behind_now",
    f"max({_BEHIND})",
    "behind",
    "How far the samples that were sent last are behind those that were taken last.",
    rests_at_zero=True,
)
RECEIVED: Final = tuple(_received(kind, word) for kind, word in _SIGNALS.items())
REFUSED: Final = tuple(_refused(kind, word) for kind, word in _SIGNALS.items())
UNSENT: Final = tuple(_unsent(kind, word) for kind, word in _SIGNALS.items() if kind != "metric_points")
QUEUE_USED: Final = series(
    "alloy_queue_used",
    f"max by ({_ALLOY}, component_path) (otelcol_exporter_queue_size{{{MINE}}}"
    f" / clamp_min(otelcol_exporter_queue_capacity{{{MINE}}}, 1))",
    "{{instance}} {{component_path}}",
    "The share of an exporter's queue that is taken.",
)
STAGE_DROPPED: Final = series(
    "alloy_stage_dropped",
    f"{total(rate(_STAGE), f'{_ALLOY}, component_path, reason')} or {_alive(_ALLOY)}",
    "{{instance}} {{component_path}} {{reason}}",
    "Lines that a stage dropped, a second: a limit, or a rule of yours.",
    rests_at_zero=True,
)
WRITE_DROPPED: Final = series(
    "alloy_write_dropped",
    total(rate(_WRITE), f"{_ALLOY}, reason"),
    "{{instance}} {{reason}}",
    "Lines that Loki did not take, a second.",
    rests_at_zero=True,
)
SAMPLES_SENT: Final = series(
    "alloy_samples_sent",
    total(rate("prometheus_remote_storage_samples_total"), _ALLOY),
    "{{instance}} sent",
    "Samples sent by remote write, a second.",
)
SAMPLES_FAILED: Final = series(
    "alloy_samples_failed",
    total(rate("prometheus_remote_storage_samples_failed_total"), _ALLOY),
    "{{instance}} given up",
    "Samples that the store refused for good, a second.",
    rests_at_zero=True,
)
SAMPLES_RETRIED: Final = series(
    "alloy_samples_retried",
    total(rate("prometheus_remote_storage_samples_retried_total"), _ALLOY),
    "{{instance}} tried again",
    "Samples that had to be sent again, a second.",
    rests_at_zero=True,
)
SAMPLES_PENDING: Final = series(
    "alloy_samples_pending",
    total(f"prometheus_remote_storage_samples_pending{{{MINE}}}", _ALLOY),
    "{{instance}}",
    "Samples that wait in the queue of remote write.",
)
BEHIND: Final = series(
    "alloy_behind", f"max by ({_ALLOY}) ({_BEHIND})", "{{instance}}", "How far remote write is behind."
)
MEMORY: Final = series(
    "alloy_memory",
    f"max by ({_ALLOY}) (alloy_resources_process_resident_memory_bytes{{{MINE}}})",
    "{{instance}}",
    "Memory that an Alloy holds.",
)
QUERIES: Final = (
    CONFIG_FAILED,
    UNHEALTHY,
    LINES_DROPPED_NOW,
    BEHIND_NOW,
    *RECEIVED,
    *REFUSED,
    *UNSENT,
    QUEUE_USED,
    STAGE_DROPPED,
    WRITE_DROPPED,
    SAMPLES_SENT,
    SAMPLES_FAILED,
    SAMPLES_RETRIED,
    SAMPLES_PENDING,
    BEHIND,
    MEMORY,
)
"""All of them: they are asked of an Alloy's series, not of a service's."""
