"""The ledger and what else the library says about itself: ``emitted = delivered + dropped{reason} + pending``."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, NEVER, increase, rate, total
from telemetry.grafana.records import Query

EMITTED: Final = "telemetry_records_emitted_total"
DELIVERED: Final = "telemetry_records_delivered_total"
DROPPED: Final = "telemetry_records_dropped_total"
DEGRADED: Final = "telemetry_records_degraded_total"
PENDING: Final = "telemetry_records_pending"
FAULTS: Final = "telemetry_internal_faults_total"
OVERFLOWS: Final = "telemetry_label_overflow_total"

_ROW = "job, signal, sink"


def _installed(by: str) -> str:
    """0 for each group that has the library: a fault that never happened has no series of its own."""
    return f"0 * {total(f'telemetry_build_info{{{MINE}}}', by)}"


LOST_NOW: Final = Query(
    name="lost_now",
    language="promql",
    expression=total(increase(DROPPED), ""),
    shape="table",
    legend="lost",
    about="Log lines, spans and pushed batches given up in the time shown.",
    rests_at_zero=True,
)
DELIVERED_SHARE: Final = Query(
    name="delivered_share",
    language="promql",
    expression=f"1 - {total(increase(DROPPED), '')} / clamp_min({total(increase(EMITTED), '')}, {NEVER})",
    shape="table",
    legend="kept",
    about="The share of records emitted in the time shown that was not given up.",
)
PENDING_NOW: Final = Query(
    name="pending_now",
    language="promql",
    expression=total(f"{PENDING}{{{MINE}}}", ""),
    shape="table",
    legend="pending",
    about="Records queued or on their way.",
)
UNACCOUNTED: Final = Query(
    name="unaccounted",
    language="promql",
    expression=(
        f"sum(abs({total(f'{EMITTED}{{{MINE}}}', f'{_ROW}, instance')}"
        f" - {total(f'{DELIVERED}{{{MINE}}}', f'{_ROW}, instance')}"
        f" - {total(f'{DROPPED}{{{MINE}}}', f'{_ROW}, instance')}"
        f" - {total(f'{PENDING}{{{MINE}}}', f'{_ROW}, instance')}))"
    ),
    shape="table",
    legend="unaccounted",
    about="Records that were emitted and are neither delivered, dropped nor pending: there are none.",
    rests_at_zero=True,
)
DEGRADED_NOW: Final = Query(
    name="degraded_now",
    language="promql",
    expression=total(increase(DEGRADED), ""),
    shape="table",
    legend="mended",
    about="Records that had to be mended before they went out, in the time shown.",
    rests_at_zero=True,
)
FAULTS_NOW: Final = Query(
    name="faults_now",
    language="promql",
    expression=f"{total(increase(FAULTS), '')} or {_installed('')}",
    shape="table",
    legend="faults",
    about="Faults inside the library in the time shown.",
    rests_at_zero=True,
)
OVERFLOWS_NOW: Final = Query(
    name="overflows_now",
    language="promql",
    expression=f"{total(increase(OVERFLOWS), '')} or {_installed('')}",
    shape="table",
    legend="overflows",
    about="Label values beyond the limit that were replaced in the time shown.",
    rests_at_zero=True,
)
EMITTED_BY_ROW: Final = Query(
    name="emitted_by_row",
    language="promql",
    expression=total(rate(EMITTED), _ROW),
    shape="series",
    legend="{{job}} {{signal}} to {{sink}}",
    about="Records handed to a sink, a second.",
)
DELIVERED_BY_ROW: Final = Query(
    name="delivered_by_row",
    language="promql",
    expression=total(rate(DELIVERED), _ROW),
    shape="series",
    legend="{{job}} {{signal}} to {{sink}}",
    about="Records that a backend confirmed, a second.",
)
DROPPED_BY_REASON: Final = Query(
    name="dropped_by_reason",
    language="promql",
    expression=total(rate(DROPPED), f"{_ROW}, reason"),
    shape="series",
    legend="{{job}} {{signal}} to {{sink}}: {{reason}}",
    about="Records given up, a second, by why.",
    rests_at_zero=True,
)
DROPPED_BY_JOB: Final = Query(
    name="dropped_by_job",
    language="promql",
    expression=total(rate(DROPPED), "job, signal"),
    shape="series",
    legend="{{job}} {{signal}}",
    about="Records given up, a second.",
    rests_at_zero=True,
)
PENDING_BY_ROW: Final = Query(
    name="pending_by_row",
    language="promql",
    expression=total(f"{PENDING}{{{MINE}}}", _ROW),
    shape="series",
    legend="{{job}} {{signal}} to {{sink}}",
    about="Records queued or on their way.",
)
DEGRADED_BY_ROW: Final = Query(
    name="degraded_by_row",
    language="promql",
    expression=total(rate(DEGRADED), _ROW),
    shape="series",
    legend="{{job}} {{signal}} to {{sink}}",
    about="Records mended before they went out, a second.",
    rests_at_zero=True,
)
EMITTED_OF_ROW: Final = Query(
    name="emitted_of_row",
    language="promql",
    expression=total(increase(EMITTED), _ROW),
    shape="table",
    about="Emitted in the time shown.",
)
DELIVERED_OF_ROW: Final = Query(
    name="delivered_of_row",
    language="promql",
    expression=total(increase(DELIVERED), _ROW),
    shape="table",
    about="Delivered in the time shown.",
)
DROPPED_OF_ROW: Final = Query(
    name="dropped_of_row",
    language="promql",
    expression=total(increase(DROPPED), _ROW),
    shape="table",
    about="Dropped in the time shown.",
    rests_at_zero=True,
)
PENDING_OF_ROW: Final = Query(
    name="pending_of_row",
    language="promql",
    expression=total(f"{PENDING}{{{MINE}}}", _ROW),
    shape="table",
    about="Pending now.",
)
FAULTS_BY_PART: Final = Query(
    name="faults_by_part",
    language="promql",
    expression=f"{total(rate(FAULTS), 'job, where')} or {_installed('job')}",
    shape="series",
    legend="{{job}} {{where}}",
    about="Faults of the library, a second, by the part that reports them; a line at 0 for each service that has it.",
    rests_at_zero=True,
)
OVERFLOWS_BY_LABEL: Final = Query(
    name="overflows_by_label",
    language="promql",
    expression=f"{total(rate(OVERFLOWS), 'job, metric, label')} or {_installed('job')}",
    shape="series",
    legend="{{job}} {{metric}} {{label}}",
    about="Label values replaced, a second; a line at 0 for each service that has the library.",
    rests_at_zero=True,
)
PROBED: Final = Query(
    name="probed",
    language="promql",
    # One sample for each run, so it has to be looked for further back than a query for now looks.
    expression=f"time() - max(max_over_time(telemetry_probe_timestamp_seconds{{{MINE}}}[$__range]))",
    shape="table",
    legend="ago",
    about="How long ago a sample of `fleetglass probe` came through.",
)
VERSIONS: Final = Query(
    name="versions",
    language="promql",
    expression=f"count by (job, version) (telemetry_build_info{{{MINE}}})",
    shape="table",
    about="Processes by the version of the library that they run.",
)
