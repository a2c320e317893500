"""What Grafana evaluates and sends by itself, as its alert provisioning file: log alerts, contact points, routing.

Metric alerts are not here: vmalert evaluates them, close to the data, from files with unit tests. Grafana comes in for
LogQL, and for who is told. Shapes are those of Grafana 13's file provisioning (alert rules, contact points, policies).
"""

from __future__ import annotations

from typing import Any, Final

from telemetry.grafana.alerts.records import Alert, Group, Reaction, RuleSet
from telemetry.grafana.alerts.rulefiles import document, duration, labels, notes
from telemetry.grafana.alerts.rules import grafana_uid
from telemetry.grafana.alerts.values import ContactPoint, Routing, Values

FOLDER: Final = "Fleetglass"
_STATES: Final[dict[Reaction, str]] = {"ok": "OK", "alerting": "Alerting"}
# Seconds before now that the query may look at; the windows in it are five minutes.
_RANGE: Final = 600


def grafana(rules: RuleSet, values: Values) -> str:
    """A file for Grafana's ``provisioning/alerting``. Secrets are the placeholders that the values hold."""
    content: dict[str, Any] = {"apiVersion": 1}
    groups = [_group(group, values) for group in rules.logs]
    if groups:
        content["groups"] = groups
    if values.contact_points:
        content["contactPoints"] = [_contact_point(point) for point in values.contact_points]
    if values.routing is not None:
        content["policies"] = [_policy(values.routing)]
    return document(content, "Grafana's provisioning/alerting")


def _group(group: Group, values: Values) -> dict[str, Any]:
    return {
        "orgId": 1,
        "name": group.name,
        "folder": FOLDER,
        "interval": duration(group.interval),
        "rules": [_rule(rule, values) for rule in group.rules if isinstance(rule, Alert)],
    }


def _rule(alert: Alert, values: Values) -> dict[str, Any]:
    made: dict[str, Any] = {
        "uid": alert.uid,
        "title": alert.title,
        "condition": "B",
        "data": [_query(alert, values.datasources.logs), _threshold(alert)],
        "noDataState": _STATES[alert.on_no_data],
        "execErrState": _STATES[alert.on_error],
        "for": duration(alert.hold),
    }
    if alert.keep:
        made["keepFiringFor"] = duration(alert.keep)
    return {**made, "annotations": notes(alert, values, ".Values.A.Value"), "labels": labels(alert)}


def _query(alert: Alert, uid: str) -> dict[str, Any]:
    # The comparison stays in the query: Loki counts the series that come out of it.
    return {
        "refId": "A",
        "queryType": "instant",
        "relativeTimeRange": {"from": _RANGE, "to": 0},
        "datasourceUid": uid,
        "model": {
            "refId": "A",
            "datasource": {"type": "loki", "uid": uid},
            "editorMode": "code",
            "expr": alert.condition,
            "queryType": "instant",
        },
    }


def _threshold(alert: Alert) -> dict[str, Any]:
    """The same comparison once more: a rule of Grafana's needs a condition, and what A returns fires as it is."""
    return {
        "refId": "B",
        "relativeTimeRange": {"from": _RANGE, "to": 0},
        "datasourceUid": "__expr__",
        "model": {
            "refId": "B",
            "datasource": {"type": "__expr__", "uid": "__expr__"},
            "type": "threshold",
            "expression": "A",
            "conditions": [{"evaluator": {"type": "gt", "params": [alert.above or 0]}}],
        },
    }


def _contact_point(point: ContactPoint) -> dict[str, Any]:
    kind = str(point.__struct_config__.tag)
    return {
        "orgId": 1,
        "name": point.name,
        "receivers": [{"uid": grafana_uid(f"fleetglass-{point.name}"), "type": kind, "settings": point.settings}],
    }


def _policy(routing: Routing) -> dict[str, Any]:
    made: dict[str, Any] = {
        "orgId": 1,
        "receiver": routing.default,
        "group_by": list(routing.group_by),
        "group_wait": routing.group_wait,
        "group_interval": routing.group_interval,
        "repeat_interval": routing.repeat_interval,
    }
    if routing.routes:
        made["routes"] = [
            {"receiver": route.to, "object_matchers": [[name, "=", value] for name, value in route.match.items()]}
            for route in routing.routes
        ]
    return made
