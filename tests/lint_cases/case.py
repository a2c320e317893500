"""One trap: a file that falls into it, what lint must say, and perhaps the same file without the trap."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from telemetry.grafana.lint.run import Options


class Case(NamedTuple):
    """``files`` by name; the finding stands in the first one, on the line that holds ``at`` (``shift`` lines away)."""

    name: str
    rule: str
    files: Mapping[str, str]
    at: str
    says: str
    where: str = ""
    level: str = "error"
    shift: int = 0
    good: Mapping[str, str] | None = None
    options: Options | None = None


BOARD: dict[str, Any] = {
    "uid": "shop",
    "title": "Shop",
    "editable": False,
    "schemaVersion": 41,
    "tags": ["shop"],
    "templating": {
        "list": [
            {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
            {
                "name": "job",
                "label": "Job",
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": {"query": "label_values(http_server_active_requests, job)", "refId": "A"},
                "multi": True,
                "includeAll": True,
                "allValue": ".+",
                "refresh": 2,
            },
            {
                "name": "instance",
                "label": "Instance",
                "type": "query",
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "query": 'label_values(up{job=~"$job"}, instance)',
                "multi": True,
                "allValue": ".+",
                "refresh": 2,
            },
        ]
    },
    "panels": [
        {
            "id": 1,
            "type": "stat",
            "title": "Up",
            "description": "Processes that answer. Normal: all.",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": 0, "y": 0, "w": 24, "h": 4},
            "fieldConfig": {
                "defaults": {
                    "unit": "short",
                    "noValue": "none",
                    "thresholds": {"mode": "absolute", "steps": [{"color": "red"}, {"color": "green", "value": 1}]},
                },
                "overrides": [],
            },
            "targets": [{"refId": "A", "expr": 'sum(up{job=~"$job", instance=~"$instance"})', "instant": True}],
        },
        {
            "id": 2,
            "type": "timeseries",
            "title": "Requests",
            "description": "Requests a second. Normal: with the day.",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "gridPos": {"x": 0, "y": 4, "w": 24, "h": 8},
            "fieldConfig": {"defaults": {"unit": "reqps", "min": 0, "noValue": "0"}, "overrides": []},
            "targets": [
                {
                    "refId": "A",
                    "expr": "sum by (job) (rate(http_server_request_duration_seconds_count"
                    '{job=~"$job", instance=~"$instance"}[$__rate_interval]))',
                    "legendFormat": "{{job}}",
                }
            ],
        },
    ],
}
"""A dashboard that no rule has anything to say about."""

SELECTOR = '{job=~"$job", instance=~"$instance"}'


def board(change: Callable[[dict[str, Any]], object] | None = None) -> str:
    """The dashboard as a file, after ``change``."""
    made = copy.deepcopy(BOARD)
    if change is not None:
        change(made)
    return json.dumps(made, indent=1)


def query(expression: str, *, logs: bool = False, kind: str = "timeseries", **more: Any) -> dict[str, str]:
    """A dashboard whose second panel asks ``expression``."""

    def change(made: dict[str, Any]) -> None:
        panel = made["panels"][1]
        panel["type"] = kind
        panel["targets"][0] = {"refId": "A", "expr": expression, "legendFormat": "{{x}}"} | more
        if logs:
            made["templating"]["list"].append(
                {"name": "loki_datasource", "label": "Loki data source", "type": "datasource", "query": "loki"}
            )
            source = made["templating"]["list"][0]
            source |= {"name": "prometheus_datasource", "label": "Prometheus data source"}
            panel["datasource"] = {"type": "loki", "uid": "${loki_datasource}"}

    return {"board.json": board(change)}


def rules(expression: str, *, alert: str = "", group: str = "", **more: str) -> dict[str, str]:
    """A rule file with one alert on ``expression``; ``alert`` and ``group`` are further lines of each."""
    return {
        "rules.yaml": f"""\
groups:
  - name: shop
    interval: 30s
{group}    rules:
      - alert: Broken
        expr: {expression}
        for: 5m
        labels: {{severity: warning}}
        annotations: {{summary: s, description: d, runbook_url: /r.md, dashboard_uid: shop}}
{alert}      - alert: Gone
        expr: absent(up{{job="shop"}})
        for: 5m
        labels: {{severity: warning}}
        annotations: {{summary: s, description: d, runbook_url: /r.md, dashboard_uid: shop}}
"""
    } | more
