"""Traces: the OpenTelemetry API is the API; OTLP carries what it makes."""

from __future__ import annotations

from telemetry.traces.propagation import extract, inject
from telemetry.traces.spans import span, trace_id, traced

__all__ = ["extract", "inject", "span", "trace_id", "traced"]
