"""Requests that a web service answers."""

from __future__ import annotations

from telemetry.catalogue.spec import MetricSpec

# Advised boundaries of the semantic conventions for http.server.request.duration, in seconds
# (opentelemetry.io/docs/specs/semconv/http/http-metrics).
HTTP_DURATION_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

METRICS: tuple[MetricSpec, ...] = (
    MetricSpec(
        name="http_server_active_requests",
        kind="gauge",
        labels=("http_request_method",),
        help="HTTP requests being served now.",
        origin="telemetry.web.exchange",
    ),
    MetricSpec(
        name="http_server_request_duration_seconds",
        kind="histogram",
        unit="seconds",
        labels=("http_request_method", "http_route", "http_response_status_code"),
        buckets=HTTP_DURATION_BUCKETS,
        help="Time from the request's arrival to the end of its response.",
        origin="telemetry.web.exchange",
    ),
    MetricSpec(
        name="http_server_streams_total",
        kind="counter",
        labels=("transport", "http_route", "http_response_status_code"),
        help="Event streams and websockets that have ended; how long they lasted is no latency.",
        origin="telemetry.web.exchange",
    ),
)
