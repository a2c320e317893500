"""Grafana Alloy configurations read and checked without Alloy.

``check`` takes files and folders and returns what is wrong with them, each finding with file, line, column and
what to do. It needs no Alloy: the syntax is parsed here, and what components take and give is a table.
"""

from __future__ import annotations

from telemetry.alloy.checking import Report, check, report
from telemetry.alloy.finding import Finding
from telemetry.alloy.imports import Unreadable
from telemetry.alloy.rules import RULES, Options

__all__ = ["RULES", "Finding", "Options", "Report", "Unreadable", "check", "report"]
