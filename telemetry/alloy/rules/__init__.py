"""Checks beyond Alloy's own: what it starts with, and what then goes wrong."""

from __future__ import annotations

from telemetry.alloy.rules.catalogue import RULES, Options

__all__ = ["RULES", "Options"]
