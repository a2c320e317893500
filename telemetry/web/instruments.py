"""What the middleware measures with, looked up once per ``setup()`` so that no request has to.

A series is everything that requests of one method, route and status share: the kept histogram child,
the span's name and closing attributes, and the text of the access line.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate

from telemetry import catalogue
from telemetry.logs import install
from telemetry.logs.place import Place
from telemetry.metrics import registry
from telemetry.traces.provider import PROVIDER
from telemetry.web import methods, routes

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from telemetry.pipeline import Telemetry

DURATION = "http_server_request_duration_seconds"
ACTIVE = "http_server_active_requests"
STREAMS = "http_server_streams_total"

# A route callable of the user's may return paths; the metrics guard bounds its labels, this bounds our memory.
_SERIES_LIMIT = 20_000
_EXEMPLAR_EVERY = 1.0
_BOUNDS = catalogue.METRICS[DURATION].buckets


class Series:
    """Requests of one method, route and status."""

    __slots__ = ("_due", "_labels", "_observe", "attributes", "message", "route", "span_name")

    def __init__(self, method: str, route: str | None, status: int) -> None:
        if route is not None and not route.isascii():
            route = route.encode("utf-8", "replace").decode()
        label = routes.UNMATCHED if route is None else route
        code = str(status) if 100 <= status <= 599 else methods.OTHER
        word = methods.word(method)
        self.route = label
        self.message = f"{word} {label} {code}"
        self.span_name = word if route is None else f"{word} {route}"
        self.attributes: dict[str, Any] = {"http.response.status_code": status}
        if route is not None:
            self.attributes["http.route"] = route
        self._labels = (method, label, code)
        self._observe: Callable[..., None] = self._first
        self._due = [0.0] * (len(_BOUNDS) + 1)

    def observe(self, seconds: float, now: float, context: SpanContext | None) -> None:
        """Count one request; with a sampled span's ``context`` as exemplar, once a second in each bucket.

        ``now`` is any clock in seconds. A Prometheus server keeps one exemplar per series and scrape, so
        more would cost twice the observation for nothing.
        """
        if context is not None:
            bucket = bisect_left(_BOUNDS, seconds)
            if now >= self._due[bucket]:
                self._due[bucket] = now + _EXEMPLAR_EVERY
                self._observe(seconds, {"trace_id": f"{context.trace_id:032x}", "span_id": f"{context.span_id:016x}"})
                return
        self._observe(seconds)

    def _first(self, seconds: float, exemplar: dict[str, str] | None = None) -> None:
        """The first observation makes the child: a series of streams only never has one."""
        self._observe = registry.histogram(DURATION).child(*self._labels).observe
        self._observe(seconds, exemplar)


class Instruments:
    """Tracer, metrics and access logger of one ``Telemetry``, with the choices of one middleware."""

    __slots__ = ("_active", "_series", "access", "route", "server_timing", "textmap", "trace_headers", "tracer")

    def __init__(
        self,
        telemetry: Telemetry | None,
        *,
        server_timing: bool | None = None,
        access_log: bool | None = None,
        route: Callable[[Mapping[str, Any]], str | None] | None = None,
    ) -> None:
        config = telemetry.config if telemetry is not None else None
        if server_timing is None:
            server_timing = config.server_timing if config is not None else False
        if access_log is None and config is not None:
            access_log = config.access_log if config.access_log is not None else config.role == "server"
        self.server_timing = server_timing
        self.access = Place(logging.getLogger("access"), logging.INFO, "", __file__, "access") if access_log else None
        if access_log:
            install.write_access_lines()
        self.route = route
        self.tracer = PROVIDER.get_tracer("telemetry.web")
        self.textmap = propagate.get_global_textmap()
        self.trace_headers = frozenset(name.lower().encode() for name in self.textmap.fields)
        self._series: dict[tuple[str, str | None, int], Series] = {}
        self._active: dict[str, Any] = {}

    def active(self, method: str) -> Any:
        """The gauge child of requests in flight."""
        child = self._active.get(method)
        if child is None:
            child = self._active[method] = registry.gauge(ACTIVE).child(method)
        return child

    def series(self, method: str, route: str | None, status: int) -> Series:
        """The series that a finished request belongs to; ``method`` is clamped already."""
        key = (method, route, status)
        series = self._series.get(key)
        if series is None:
            series = Series(method, route, status)
            if len(self._series) < _SERIES_LIMIT:
                self._series[key] = series
        return series

    def stream_ended(self, transport: str, route: str, status: int) -> None:
        """Count a websocket or event stream, whose length says nothing about latency."""
        registry.counter(STREAMS).child(transport, route, str(status)).inc()
