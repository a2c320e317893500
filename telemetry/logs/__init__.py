"""Logs: stdlib ``logging`` is the API; one record becomes one line, on stdout and in one network sink."""

from __future__ import annotations

from telemetry.logs.context import bind, carry
from telemetry.logs.event import ReadyLine
from telemetry.logs.formatters import ConsoleFormatter, JsonFormatter, LogfmtFormatter
from telemetry.logs.install import takeover

__all__ = [
    "ConsoleFormatter",
    "JsonFormatter",
    "LogfmtFormatter",
    "ReadyLine",
    "bind",
    "carry",
    "takeover",
]
