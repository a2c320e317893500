"""Processes: whether they can be scraped, how many there are, what they use (prometheus-client's process metrics)."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.queries.selectors import MINE, rate
from telemetry.grafana.records import Query

YOUNG: Final = 600
"""Seconds after its start in which a process counts as new."""

DOWN_NOW: Final = Query(
    name="down_now",
    language="promql",
    expression=f"sum(1 - up{{{MINE}}})",
    shape="table",
    legend="down",
    about="Targets whose last scrape failed.",
    rests_at_zero=True,
)
UP_OF_JOB: Final = Query(
    name="up_of_job",
    language="promql",
    expression=f"sum by (job) (up{{{MINE}}})",
    shape="table",
    about="Targets that can be scraped.",
)
DOWN_OF_JOB: Final = Query(
    name="down_of_job",
    language="promql",
    expression=f"sum by (job) (1 - up{{{MINE}}})",
    shape="table",
    about="Targets whose last scrape failed.",
    rests_at_zero=True,
)
STARTED_BY_JOB: Final = Query(
    name="started_by_job",
    language="promql",
    # Not changes(): VictoriaMetrics and Prometheus disagree on whether a new series has changed.
    expression=f"sum by (job) (time() - process_start_time_seconds{{{MINE}}} < bool {YOUNG})",
    shape="series",
    legend="{{job}}",
    about="Processes that started in the last ten minutes.",
)
CPU_BY_INSTANCE: Final = Query(
    name="cpu_by_instance",
    language="promql",
    expression=f"sum by (job, instance) ({rate('process_cpu_seconds_total')})",
    shape="series",
    legend="{{job}} {{instance}}",
    about="Cores that a process keeps busy.",
)
MEMORY_BY_INSTANCE: Final = Query(
    name="memory_by_instance",
    language="promql",
    expression=f"sum by (job, instance) (process_resident_memory_bytes{{{MINE}}})",
    shape="series",
    legend="{{job}} {{instance}}",
    about="Memory that a process holds.",
)
DESCRIPTORS_BY_INSTANCE: Final = Query(
    name="descriptors_by_instance",
    language="promql",
    expression=(f"max by (job, instance) (process_open_fds{{{MINE}}} / clamp_min(process_max_fds{{{MINE}}}, 1))"),
    shape="series",
    legend="{{job}} {{instance}}",
    about="The share of file descriptors that a process may open and has open.",
)
