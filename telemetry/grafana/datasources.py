"""Datasources for Grafana: one provisioning file with explicit uids and every link between logs, traces and metrics.

What it does and leaves out is known from use (docs/grafana-lint.md says why of each): ``$`` is doubled, since Grafana
replaces ``$name`` by the environment's; one derived field only, or a line has two links; no exemplars, which
VictoriaMetrics doesn't store; no ``prune``, which ends Grafana 13 at start.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from telemetry import manifest

METRICS_UID: Final = "VictoriaMetrics"
"""The uid that the Helm chart of the VictoriaMetrics stack gives as well."""
LOGS_UID: Final = "loki"
TRACES_UID: Final = "tempo"

_TENANT_HEADER: Final = "X-Scope-OrgID"
_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_]\w*\}|\$__(?:env|file|vault)\{[^}]*\}")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the three stores are.

    A URL or a tenant may hold ``${NAME}`` or ``$__file{…}``, which Grafana fills in at start. ``tenant`` is sent to
    Loki and Tempo as ``X-Scope-OrgID``; None sends none. ``replace`` deletes datasources of these names first: that
    is how a uid can change on a database that exists. ``scrape_interval`` is that of most targets; Grafana takes four
    times of it as the shortest ``$__rate_interval``.
    """

    metrics_url: str = "http://victoriametrics:8428"
    logs_url: str = "http://loki:3100"
    traces_url: str = "http://tempo:3200"
    tenant: str | None = None
    metrics_name: str = "VictoriaMetrics"
    logs_name: str = "Loki"
    traces_name: str = "Tempo"
    scrape_interval: str = "15s"
    replace: bool = False


def escaped(text: str) -> str:
    """``text`` as a provisioning file holds it: ``$`` doubled, but for what Grafana is to fill in."""
    parts: list[str] = []
    at = 0
    for match in _PLACEHOLDER.finditer(text):
        parts += [text[at : match.start()].replace("$", "$$"), match[0]]
        at = match.end()
    return "".join([*parts, text[at:].replace("$", "$$")])


def provisioning(settings: Settings) -> dict[str, Any]:
    """The content of the file, in the order in which it is written."""
    names = (settings.metrics_name, settings.logs_name, settings.traces_name)
    content: dict[str, Any] = {"apiVersion": 1}
    if settings.replace:
        content["deleteDatasources"] = [{"name": name, "orgId": 1} for name in names]
    content["datasources"] = [_metrics(settings), _logs(settings), _traces(settings)]
    return content


def text(settings: Settings) -> str:
    """The provisioning file; the same settings give the same bytes."""
    return manifest.dump(
        provisioning(settings), "For Grafana's provisioning/datasources, made by `fleetglass grafana datasources`."
    )


def _metrics(settings: Settings) -> dict[str, Any]:
    return {
        "name": escaped(settings.metrics_name),
        "uid": METRICS_UID,
        "type": "prometheus",
        "access": "proxy",
        "url": escaped(settings.metrics_url),
        "isDefault": True,
        "jsonData": {"httpMethod": "POST", "timeInterval": settings.scrape_interval},
    }


def _logs(settings: Settings) -> dict[str, Any]:
    field = {
        "name": "Trace",
        # Lines are logfmt or JSON; both hold the id as text, whichever way they came.
        "matcherRegex": escaped(r'trace_id"?\s*[=:]\s*"?([0-9a-f]{32})'),
        "url": "$${__value.raw}",
        "urlDisplayLabel": "Trace",
        "datasourceUid": TRACES_UID,
    }
    return _with_tenant(
        {
            "name": escaped(settings.logs_name),
            "uid": LOGS_UID,
            "type": "loki",
            "access": "proxy",
            "url": escaped(settings.logs_url),
            "jsonData": {"derivedFields": [field]},
        },
        settings.tenant,
    )


def _traces(settings: Settings) -> dict[str, Any]:
    requests = "http_server_request_duration_seconds"
    rate = f"sum(rate({requests}_count{{$$__tags}}[5m]))"
    failed = f'sum(rate({requests}_count{{$$__tags, http_response_status_code=~"5.."}}[5m]))'
    queries = {
        "Requests a second": rate,
        "Share of failed requests": f"{failed} / ({rate} > 0)",
        "95th percentile": f"histogram_quantile(0.95, sum by (le) (rate({requests}_bucket{{$$__tags}}[5m])))",
    }
    return _with_tenant(
        {
            "name": escaped(settings.traces_name),
            "uid": TRACES_UID,
            "type": "tempo",
            "access": "proxy",
            "url": escaped(settings.traces_url),
            "jsonData": {
                "tracesToLogsV2": {
                    "datasourceUid": LOGS_UID,
                    "spanStartTimeShift": "-2s",
                    "spanEndTimeShift": "2s",
                    "tags": [{"key": "service.name", "value": "service_name"}],
                    "customQuery": True,
                    # A filter on the text finds lines of files too, which have no trace_id beside them.
                    "query": '{$${__tags}} |= "$${__trace.traceId}" | logfmt',
                },
                "tracesToMetrics": {
                    "datasourceUid": METRICS_UID,
                    "spanStartTimeShift": "-10m",
                    "spanEndTimeShift": "10m",
                    "tags": [{"key": "service.name", "value": "job"}],
                    "queries": [{"name": name, "query": query} for name, query in queries.items()],
                },
                "serviceMap": {"datasourceUid": METRICS_UID},
                "nodeGraph": {"enabled": True},
            },
        },
        settings.tenant,
    )


def _with_tenant(source: dict[str, Any], tenant: str | None) -> dict[str, Any]:
    if tenant is None:
        return source
    options: Mapping[str, Any] = source["jsonData"]
    return {
        **source,
        "jsonData": {"httpHeaderName1": _TENANT_HEADER, **options},
        "secureJsonData": {"httpHeaderValue1": escaped(tenant)},
    }
