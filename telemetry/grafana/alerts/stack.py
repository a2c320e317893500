"""Alerts on the programs between and behind the services: targets down, lines and samples lost, rules that fail."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts.counters import grown
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.selectors import one_of
from telemetry.grafana.alerts.values import Values
from telemetry.grafana.records import Query

RUNBOOK: Final = "stack.md"
DASHBOARD: Final = "fleetglass-telemetry"


def _query(name: str, expression: str, about: str) -> Query:
    return Query(name=name, language="promql", expression=expression, shape="table", about=about)


ALLOY_DROPS: Final = Alert(
    uid="alloy-lines-dropped",
    name="AlloyLinesDropped",
    title="Alloy drops lines",
    query=_query(
        "alloy_lines_dropped",
        grown("loki_process_dropped_lines_total", "job, reason", "10m"),
        "Lines that stages of Alloy dropped in ten minutes, by reason.",
    ),
    hold=120,
    keep=300,
    severity="warning",
    summary="{{job}} dropped {{value}} log lines in ten minutes: {{reason}}.",
    description="A limit or drop stage threw lines away, and only this counter tells: sums of repeat over browser "
    "errors are too low for that time.",
    runbook=f"{RUNBOOK}#alloy-drops-lines",
    dashboard=DASHBOARD,
    guard="ExporterAbsent",
)
LOKI_DISCARDS: Final = Alert(
    uid="loki-discards-lines",
    name="LokiDiscardsLines",
    title="Loki discards lines",
    query=_query(
        "loki_discards",
        grown("loki_discarded_samples_total", "job, reason", "10m"),
        "Lines that Loki refused in ten minutes, by reason.",
    ),
    hold=120,
    keep=300,
    severity="warning",
    summary="{{job}} refused {{value}} log lines in ten minutes: {{reason}}.",
    description="Lines over a limit of Loki's. Those over a rate limit are sent again by our library and by Alloy; "
    "all others are lost.",
    runbook=f"{RUNBOOK}#loki-discards-lines",
    dashboard=DASHBOARD,
    guard="ExporterAbsent",
)
METRICS_IGNORED: Final = Alert(
    uid="victoriametrics-ignores-samples",
    name="VictoriaMetricsIgnoresSamples",
    title="VictoriaMetrics ignores samples",
    query=_query(
        "samples_ignored",
        grown("vm_rows_ignored_total", "job, reason", "10m"),
        "Samples that VictoriaMetrics left out in ten minutes, by reason.",
    ),
    hold=120,
    keep=300,
    severity="warning",
    summary="{{job}} ignored {{value}} samples in ten minutes: {{reason}}.",
    description="The sender got a success, so nobody else knows. too_many_labels is a series with more than 40 labels, "
    "mostly resource attributes that were all promoted.",
    runbook=f"{RUNBOOK}#victoriametrics-ignores-samples",
    dashboard=DASHBOARD,
    guard="ExporterAbsent",
)
RULES_FAIL: Final = Alert(
    uid="rules-failing",
    name="RulesFailing",
    title="Rules failing",
    query=_query(
        "rules_failing",
        grown("vmalert_execution_errors_total", "job, instance", "10m"),
        "Evaluations of rules that failed in ten minutes.",
    ),
    hold=300,
    keep=300,
    severity="critical",
    summary="{{job}} on {{instance}}: {{value}} evaluations of rules failed in ten minutes.",
    description="An alert whose query fails does not fire. vmalert's page /vmalert/groups has each rule's error.",
    runbook=f"{RUNBOOK}#rules-failing",
    dashboard=DASHBOARD,
    guard="ExporterAbsent",
)


def target_down(values: Values) -> Alert:
    """A target of a job that the values name, whose scrape fails."""
    return Alert(
        uid="target-down",
        name="TargetDown",
        title="Target down",
        query=_query(
            "target_down",
            f'1 - min by (job, instance) (up{{job=~"{one_of(values.jobs)}"}})',
            "1 for targets whose last scrape failed, 0 for the others.",
        ),
        above=0.5,
        hold=600,
        keep=0,
        severity="warning",
        summary="{{job}} on {{instance}} can't be scraped.",
        description="What this target counts is missing everywhere. Others of its job may hide that: sums only get "
        "smaller.",
        runbook=f"{RUNBOOK}#target-down",
        dashboard=DASHBOARD,
        guard="ServiceAbsent",
    )
