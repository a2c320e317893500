"""Alertmanager's configuration: who is told of what vmalert and Prometheus find. The same people as Grafana tells.

Alertmanager reads no environment variables. A secret is a file named after its placeholder, in the folder that the
values name, as Kubernetes mounts a Secret.
"""

from __future__ import annotations

from typing import Any, Final

from telemetry.grafana.alerts.records import RuleSet
from telemetry.grafana.alerts.rulefiles import document
from telemetry.grafana.alerts.values import ContactPoint, Email, PagerDuty, Slack, Values, ValuesError

_TITLE = "{{ .Status | toUpper }}: {{ .CommonLabels.alertname }}{{ with .CommonLabels.job }}, {{ . }}{{ end }}"
_TEXT = (
    "{{ range .Alerts }}{{ .Annotations.summary }}\n{{ .Annotations.description }}\n"
    "<{{ .Annotations.runbook_url }}|runbook> · <{{ .Annotations.dashboard_url }}|dashboard>\n{{ end }}"
)

# What is told already, and by what: the matchers of both, and the labels in which they agree.
_TOLD_ONCE: Final = (
    # One burn is told once, by its fastest windows; a service that is gone has other alerts than its own.
    (
        'alertname="ErrorBudgetBurn", severity="critical"',
        'alertname="ErrorBudgetBurn", severity="warning"',
        "job",
        "slo",
    ),
    ('alertname="ServiceAbsent"', 'alertname="TargetDown"', "job"),
    ('alertname="ExporterAbsent"', 'alertname="TargetDown"', "job"),
)
_OF_FLEETS: Final = (
    # Jobs wait because nobody is there to take them: one page, by its cause.
    ('alertname=~"WorkerGroupMissing|WorkerGroupAsleep"', 'alertname=~"QueueTagUnserved|QueueLate"', "job", "group"),
    ('alertname=~"QueueTagUnrouted|QueueTagUnserved|QueueTagStuck"', 'alertname="QueueLate"', "job", "tag"),
    ('alertname="FleetReadOld"', 'alertname="FleetReadFailing"', "job", "part"),
    ('alertname="FleetObserverAbsent"', 'alertname="TargetDown"', "job"),
)


def alertmanager(rules: RuleSet, values: Values) -> str:
    """A configuration file for Alertmanager 0.27 or newer. Raises ValuesError where the values name nobody to tell."""
    if values.routing is None:
        raise ValuesError("there is no routing, and so nobody whom Alertmanager could tell")
    mail = any(isinstance(point, Email) for point in values.contact_points)
    if mail and not values.alertmanager.smarthost:
        raise ValuesError("a contact point is an email: say alertmanager.smarthost (host:port) and alertmanager.sender")
    content: dict[str, Any] = {}
    if mail:
        content["global"] = {
            "smtp_smarthost": values.alertmanager.smarthost,
            "smtp_from": values.alertmanager.sender,
        }
    routing = values.routing
    content["route"] = {
        "receiver": routing.default,
        "group_by": list(routing.group_by),
        "group_wait": routing.group_wait,
        "group_interval": routing.group_interval,
        "repeat_interval": routing.repeat_interval,
        "routes": [
            {"receiver": route.to, "matchers": [f'{name}="{_quoted(value)}"' for name, value in route.match.items()]}
            for route in routing.routes
        ],
    }
    content["inhibit_rules"] = [
        _inhibit(source, target, *equal)
        for source, target, *equal in (*_TOLD_ONCE, *(_OF_FLEETS if values.fleets else ()))
    ]
    content["receivers"] = [_receiver(point, values.alertmanager.secrets) for point in values.contact_points]
    return document(content, "Alertmanager")


def _inhibit(source: str, target: str, *equal: str) -> dict[str, Any]:
    return {"source_matchers": source.split(", "), "target_matchers": target.split(", "), "equal": list(equal)}


def _receiver(point: ContactPoint, secrets: str) -> dict[str, Any]:
    def file(placeholder: str) -> str:
        return f"{secrets.rstrip('/')}/{placeholder.removeprefix('${').removesuffix('}')}"

    if isinstance(point, Email):
        return {
            "name": point.name,
            "email_configs": [{"to": ", ".join(point.addresses), "send_resolved": True}],
        }
    if isinstance(point, Slack):
        slack = {"api_url_file": file(point.url), "send_resolved": True, "title": _TITLE, "text": _TEXT}
        return {"name": point.name, "slack_configs": [slack]}
    if isinstance(point, PagerDuty):
        pager = {
            "routing_key_file": file(point.integration_key),
            "send_resolved": True,
            "severity": "{{ .CommonLabels.severity }}",
        }
        return {"name": point.name, "pagerduty_configs": [pager]}
    secret = point.url.startswith("${")
    hook: dict[str, Any] = {"url_file": file(point.url)} if secret else {"url": point.url}
    hook["send_resolved"] = True
    if point.token is not None:
        hook["http_config"] = {"authorization": {"type": "Bearer", "credentials_file": file(point.token)}}
    return {"name": point.name, "webhook_configs": [hook]}


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
