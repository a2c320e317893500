"""The rules of a values file: every alert and recording there is, in groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from telemetry.grafana.alerts import absent, fleet, frontend, slo, stack, telemetry
from telemetry.grafana.alerts.records import Alert, Group, RuleSet
from telemetry.grafana.alerts.values import Values

INTERVAL = 60
"""Seconds between evaluations; every ``for`` is at least two of them."""


def rule_set(values: Values) -> RuleSet:
    """The rules for ``values``. The same values give the same rules, in the same order."""
    metrics = [
        *slo.groups(values.services),
        Group(name="fleetglass-telemetry", interval=INTERVAL, rules=telemetry.ALERTS),
        Group(name="fleetglass-frontend", interval=INTERVAL, rules=_of("promql", frontend.ALERTS)),
        Group(name="fleetglass-stack", interval=INTERVAL, rules=_stack(values)),
        *(group for each in values.fleets for group in fleet.groups(each)),
        Group(name="fleetglass-absent", interval=INTERVAL, rules=tuple(absent.guards(values))),
    ]
    logs = [Group(name="fleetglass-logs", interval=INTERVAL, rules=tuple(_logs(values)))]
    return RuleSet(metrics=_filled(metrics), logs=_filled(logs))


def _of(language: str, alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    return tuple(alert for alert in alerts if alert.query.language == language)


def _stack(values: Values) -> tuple[Alert, ...]:
    """Those whose program is enabled."""
    kinds = {exporter.kind for exporter in values.exporters}
    found = [stack.target_down(values)] if values.jobs else []
    for kind, alert in (
        ("alloy", stack.ALLOY_DROPS),
        ("loki", stack.LOKI_DISCARDS),
        ("victoriametrics", stack.METRICS_IGNORED),
        ("vmalert", stack.RULES_FAIL),
    ):
        if kind in kinds:
            found.append(alert)
    return tuple(found)


def _logs(values: Values) -> Iterable[Alert]:
    """The alerts on lines, one for each service that writes browser errors."""
    for service in values.services:
        if service.browser_errors:
            for alert in _of("logql", frontend.ALERTS):
                yield _for_service(alert, service.name)


def _for_service(alert: Alert, service: str) -> Alert:
    query = msgspec.structs.replace(
        alert.query, name=f"{alert.query.name}_{service}", expression=alert.query.filled({"service": service})
    )
    return msgspec.structs.replace(
        alert,
        uid=grafana_uid(f"{alert.uid}-{service}"),
        title=f"{alert.title}, {service}",
        query=query,
        labels={**alert.labels, "job": service},
    )


def grafana_uid(wanted: str) -> str:
    """``wanted`` as a uid that Grafana takes: 40 of letters, digits, ``-`` and ``_``; two names stay two."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in wanted)
    if plain == wanted and len(plain) <= 40:
        return plain
    return f"{plain[:31]}-{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"


def _filled(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(group for group in groups if group.rules)
