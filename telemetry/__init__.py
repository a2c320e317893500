"""Fleetglass telemetry: traces, logs and metrics of one process under one identity.

``import telemetry`` loads nothing but this file; each name below is fetched on first use, so that a
process which only imports a library of ours pays nothing for the SDKs behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from telemetry import lazy

if TYPE_CHECKING:
    from telemetry.config import Config, ConfigError
    from telemetry.logs import ReadyLine, bind, carry
    from telemetry.logs.structlog import structlog_processor
    from telemetry.pipeline import Telemetry, active, setup
    from telemetry.traces import extract, inject, span, trace_id, traced

_HOME = {
    "Config": "telemetry.config",
    "ConfigError": "telemetry.config",
    "ReadyLine": "telemetry.logs",
    "Telemetry": "telemetry.pipeline",
    "active": "telemetry.pipeline",
    "bind": "telemetry.logs",
    "carry": "telemetry.logs",
    "extract": "telemetry.traces",
    "inject": "telemetry.traces",
    "setup": "telemetry.pipeline",
    "span": "telemetry.traces",
    "structlog_processor": "telemetry.logs.structlog",
    "trace_id": "telemetry.traces",
    "traced": "telemetry.traces",
}

__all__ = [
    "Config",
    "ConfigError",
    "ReadyLine",
    "Telemetry",
    "active",
    "bind",
    "carry",
    "extract",
    "inject",
    "setup",
    "span",
    "structlog_processor",
    "trace_id",
    "traced",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy.names(__name__, _HOME)
