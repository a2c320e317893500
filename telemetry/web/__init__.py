"""The API server's side: one ASGI pass for span, metrics and access line; a Litestar plugin; health.

``TelemetryMiddleware`` wraps any ASGI application. ``TelemetryPlugin`` (``telemetry.web.litestar``) does
the same for Litestar and adds ``/metrics``, ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry import lazy

if TYPE_CHECKING:
    from telemetry.web.asgi import TelemetryMiddleware
    from telemetry.web.endpoints import HealthEndpoint, MetricsEndpoint, ReadinessEndpoint
    from telemetry.web.health import Readiness
    from telemetry.web.litestar import TelemetryPlugin

_HOME = {
    "Readiness": "telemetry.web.health",
    "TelemetryMiddleware": "telemetry.web.asgi",
    "TelemetryPlugin": "telemetry.web.litestar",
    "HealthEndpoint": "telemetry.web.endpoints",
    "MetricsEndpoint": "telemetry.web.endpoints",
    "ReadinessEndpoint": "telemetry.web.endpoints",
}

__all__ = [
    "HealthEndpoint",
    "MetricsEndpoint",
    "Readiness",
    "ReadinessEndpoint",
    "TelemetryMiddleware",
    "TelemetryPlugin",
]

# Litestar and msgspec are loaded by those who use them only: a Starlette service has no Litestar.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.names(__name__, _HOME)
