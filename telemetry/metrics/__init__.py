"""Metrics: prometheus-client instruments from the catalogue, their exposition, and the ways out.

Importing this package loads nothing; each name below brings prometheus-client (about 80 ms) when used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from telemetry.metrics.exposition import render
    from telemetry.metrics.guard import Guarded, guarded
    from telemetry.metrics.registry import counter, gauge, histogram

_HOME = {
    "Guarded": "telemetry.metrics.guard",
    "counter": "telemetry.metrics.registry",
    "gauge": "telemetry.metrics.registry",
    "guarded": "telemetry.metrics.guard",
    "histogram": "telemetry.metrics.registry",
    "render": "telemetry.metrics.exposition",
}

__all__ = ["Guarded", "counter", "gauge", "guarded", "histogram", "render"]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'telemetry.metrics' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
