"""Which way each signal goes, and where it can be read back: decided from the settings alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import urlsplit

from telemetry.config import Config
from telemetry.config.targets import HttpTarget, OtlpTarget, Signal, split_credentials
from telemetry.probe.records import Kind, Origin, Query, Reader, Route

SIGNALS: tuple[Signal, ...] = get_args(Signal)
VARIABLES: Mapping[Signal, str] = {
    "traces": "FLEETGLASS_TEMPO_QUERY_URL",
    "logs": "FLEETGLASS_LOKI_QUERY_URL",
    "metrics": "FLEETGLASS_METRICS_QUERY_URL",
}

# Where each backend answers queries when it is left at its defaults.
_USUAL_PORT: Mapping[Signal, int] = {"traces": 3200, "logs": 3100, "metrics": 8428}
_READERS: Mapping[Signal, Reader] = {"traces": "tempo", "logs": "loki", "metrics": "metrics"}

# Ends of paths that a backend takes records at, and what its query API lies below instead.
_PUSH_PATHS: tuple[tuple[str, str, Reader], ...] = (
    ("/insert/loki/api/v1/push", "", "victorialogs"),
    ("/insert/opentelemetry/v1/logs", "", "victorialogs"),
    ("/loki/api/v1/push", "", "loki"),
    ("/otlp/v1/logs", "", "loki"),
    ("/api/v1/import/prometheus", "", "metrics"),
    ("/opentelemetry/v1/metrics", "", "metrics"),
    ("/opentelemetry/api/v1/push", "", "metrics"),
)
_VICTORIA_LOGS = "/select/logsql"


def plan(config: Config, settings: Mapping[str, Any]) -> tuple[Route, ...]:
    """One route for each signal. ``settings`` is the ``command`` section: query addresses and headers by name."""
    return tuple(_route(config, signal, settings) for signal in SIGNALS)


def _route(config: Config, signal: Signal, settings: Mapping[str, Any]) -> Route:
    otlp = config.otlp(signal)
    http = config.loki() if signal == "logs" else config.metrics_push() if signal == "metrics" else None
    if signal == "metrics" and (config.metrics_exporter == "none" or otlp is not None):
        http = None
    if http is None and otlp is None:
        return Route(signal=signal, unsent=_unsent(config, signal))
    query = _query(signal, http, otlp, settings)
    if http is not None:
        kind: Kind = "loki" if signal == "logs" else "push"
        path = "Loki push" if signal == "logs" else "push of Prometheus text"
        setting = "FLEETGLASS_LOKI_URL" if signal == "logs" else "FLEETGLASS_METRICS_PUSH_URL"
        return Route(
            signal=signal, kind=kind, path=path, url=http.url, setting=setting, headers=http.headers, query=query
        )
    assert otlp is not None
    grpc = otlp.protocol == "grpc"
    own = getattr(config, f"otlp_{signal}_endpoint")
    return Route(
        signal=signal,
        kind="otlp-grpc" if grpc else "otlp-http",
        path="OTLP over gRPC" if grpc else "OTLP over HTTP",
        url=otlp.endpoint,
        setting=f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT" if own else "OTEL_EXPORTER_OTLP_ENDPOINT",
        headers=otlp.headers,
        otlp=otlp,
        query=query,
    )


def _unsent(config: Config, signal: Signal) -> str:
    if config.disabled and signal == "traces":
        return "OTEL_SDK_DISABLED keeps traces in the process."
    if signal == "traces":
        return "No OTLP endpoint is set (OTEL_EXPORTER_OTLP_ENDPOINT), so no trace is exported."
    if signal == "logs" and config.otlp_endpoint:
        return "OTEL_LOGS_EXPORTER=none keeps lines off OTLP, and FLEETGLASS_LOKI_URL is not set: they go to stdout."
    if signal == "logs":
        return (
            "Neither FLEETGLASS_LOKI_URL nor an OTLP endpoint is set: lines go to stdout, which the probe can't follow."
        )
    return (
        "No push address is set (FLEETGLASS_METRICS_PUSH_URL, or OTEL_METRICS_EXPORTER=otlp): metrics wait at /metrics "
        "to be scraped, which the probe is too short-lived for."
    )


def _query(
    signal: Signal, http: HttpTarget | None, otlp: OtlpTarget | None, settings: Mapping[str, Any]
) -> Query | None:
    sent_to = http.url if http is not None else otlp.endpoint if otlp is not None else ""
    sent_headers = http.headers if http is not None else otlp.headers if otlp is not None else {}
    more: Mapping[str, str] = {name.lower(): value for name, value in (settings.get("query_headers") or {}).items()}
    name = {"traces": "tempo_query_url", "logs": "loki_query_url", "metrics": "metrics_query_url"}[signal]
    given = settings.get(name)
    if given:
        url, authorization = split_credentials(str(given))
        headers = _carried(sent_headers, same_host=urlsplit(url).hostname == urlsplit(sent_to).hostname)
        if authorization:
            headers["authorization"] = authorization
        reader: Reader = _READERS[signal]
        if signal == "logs" and _VICTORIA_LOGS in url:
            url, reader = url.partition(_VICTORIA_LOGS)[0], "victorialogs"
        return Query(reader, url.rstrip("/"), headers | dict(more), "setting", VARIABLES[signal])
    url, reader, origin = derived(signal, sent_to)
    return Query(reader, url, _carried(sent_headers, same_host=True) | dict(more), origin, VARIABLES[signal])


def derived(signal: Signal, sent_to: str) -> tuple[str, Reader, Origin]:
    """Base of the query API, whose it is, and how it is known, for what is sent to ``sent_to``.

    A backend that takes records itself answers queries beside them; of a collector only the host is taken, with the
    usual port of the backend.
    """
    parts = urlsplit(sent_to)
    path = parts.path.rstrip("/")
    for end, instead, reader in _PUSH_PATHS:
        fits = reader == _READERS[signal] or (reader == "victorialogs" and signal == "logs")
        if fits and path.endswith(end):
            below = path.removesuffix(end).replace("/insert/", "/select/") + instead
            return f"{parts.scheme}://{parts.netloc}{below}", reader, "push"
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{_USUAL_PORT[signal]}", _READERS[signal], "guess"


def _carried(headers: Mapping[str, str], *, same_host: bool) -> dict[str, str]:
    """Headers of the push that the query needs too: the tenant; the rest, credentials among it, to that host only."""
    return {name: value for name, value in headers.items() if same_host or name == "x-scope-orgid"}
