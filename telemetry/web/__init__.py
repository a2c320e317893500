"""The API server's side: one ASGI pass for span, metrics and access line; a Litestar plugin; health.

``TelemetryMiddleware`` wraps any ASGI application. ``TelemetryPlugin`` (``telemetry.web.litestar``) does
the same for Litestar and adds ``/metrics``, ``/healthz`` and ``/readyz``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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


def __getattr__(name: str) -> Any:
    # Litestar and msgspec are loaded by those who use them only: a Starlette service has no Litestar.
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'telemetry.web' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
