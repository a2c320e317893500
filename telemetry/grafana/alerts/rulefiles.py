"""Rule files in the format that Prometheus made and others took over: Prometheus, vmalert, VMRule, Loki's ruler.

Templates say ``.Labels.job`` and ``.Value``, never ``$labels``: no ``$`` stands in any file, so neither Flux nor
Grafana's own substitution can take something out of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from telemetry import manifest
from telemetry.grafana.alerts.records import Alert, Group, Recording, RuleSet, Shows
from telemetry.grafana.alerts.values import Values

_SHOWN: Final[Mapping[Shows, str]] = {
    "count": '{{{{ printf "%.0f" {value} }}}}',
    "duration": "{{{{ {value} | humanizeDuration }}}}",
    "factor": '{{{{ printf "%.1f" {value} }}}}',
    "percent": "{{{{ {value} | humanizePercentage }}}}",
}
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def vmalert(rules: RuleSet, values: Values) -> str:
    """A file for ``vmalert -rule``; its groups ask for the tenant where there is one."""
    return document({"groups": _vm_groups(rules, values)}, "vmalert")


def prometheus(rules: RuleSet, values: Values) -> str:
    """A file for ``rule_files`` of Prometheus 2.42 or newer."""
    return document({"groups": [_group(group, values) for group in rules.metrics]}, "Prometheus")


def vmrule(rules: RuleSet, values: Values) -> str:
    """A VMRule for the VictoriaMetrics operator, which gives it to VMAlert."""
    return document(
        {
            "apiVersion": "operator.victoriametrics.com/v1beta1",
            "kind": "VMRule",
            "metadata": {
                "name": "fleetglass",
                "labels": {
                    "app.kubernetes.io/name": "fleetglass",
                    # Nothing here is a variable of Flux's postBuild.
                    "kustomize.toolkit.fluxcd.io/substitute": "disabled",
                },
            },
            "spec": {"groups": _vm_groups(rules, values)},
        },
        "the VictoriaMetrics operator",
    )


def loki(rules: RuleSet, values: Values) -> str:
    """A file for Loki's ruler: the alerts on lines, where Grafana doesn't evaluate them."""
    tenant = values.tenants.logs or "fake"
    return document(
        {"groups": [_group(group, values) for group in rules.logs]},
        "Loki's ruler",
        f"It belongs into the folder {tenant}/ (the tenant) of the ruler's directory.",
    )


def document(content: Mapping[str, Any], reader: str, *more: str) -> str:
    """``content`` as YAML under a line that says where it comes from; the same content gives the same bytes."""
    head = [f"For {reader}, made by `fleetglass alerts render`: change the values file, not this one.", *more]
    return manifest.dump(content, "\n".join(head))


def _vm_groups(rules: RuleSet, values: Values) -> list[dict[str, Any]]:
    headers = [f"X-Scope-OrgID: {values.tenants.metrics}"] if values.tenants.metrics else []
    return [_group(group, values, {"headers": headers} if headers else {}) for group in rules.metrics]


def _group(group: Group, values: Values, more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    rules = [_recording(rule) if isinstance(rule, Recording) else _alert(rule, values) for rule in group.rules]
    return {"name": group.name, "interval": duration(group.interval), **(more or {}), "rules": rules}


def _recording(rule: Recording) -> dict[str, Any]:
    made: dict[str, Any] = {"record": rule.name, "expr": rule.expression}
    if rule.labels:
        made["labels"] = dict(rule.labels)
    return made


def _alert(alert: Alert, values: Values) -> dict[str, Any]:
    made: dict[str, Any] = {"alert": alert.name, "expr": alert.condition, "for": duration(alert.hold)}
    if alert.keep:
        made["keep_firing_for"] = duration(alert.keep)
    return {**made, "labels": labels(alert), "annotations": notes(alert, values, ".Value")}


def labels(alert: Alert) -> dict[str, str]:
    """The fixed labels of ``alert``; nothing that changes from one evaluation to the next."""
    return {"severity": alert.severity, **alert.labels}


def notes(alert: Alert, values: Values, value: str) -> dict[str, str]:
    """What people read; ``value`` is how the template language names the value of the series."""
    page, _, anchor = alert.runbook.partition("#")
    return {
        "summary": _text(alert, value),
        "description": alert.description,
        "runbook_url": f"{values.runbooks.rstrip('/')}/{page}#{anchor}",
        "dashboard_uid": alert.dashboard,
        "dashboard_url": f"{values.dashboards.rstrip('/')}/d/{alert.dashboard}",
    }


def _text(alert: Alert, value: str) -> str:
    def place(found: re.Match[str]) -> str:
        if found[1] == "value":
            return _SHOWN[alert.shows].format(value=value)
        # Labels that the rule sets are known here, and Prometheus doesn't show them to templates.
        return alert.labels.get(found[1]) or f"{{{{ .Labels.{found[1]} }}}}"

    return _PLACE.sub(place, alert.summary)


def duration(seconds: int) -> str:
    """``seconds`` as Prometheus writes them, in the largest unit that is exact."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def file_name(name: str) -> str:
    """``name`` as a file may be called: without slashes and colons."""
    return re.sub(r"[^\w.-]", "-", name)
