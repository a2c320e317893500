"""Metrics: prometheus-client instruments from the catalogue, their exposition, and the ways out.

Importing this package loads nothing; each name below brings prometheus-client (about 80 ms) when used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry import lazy

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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.names(__name__, _HOME)
