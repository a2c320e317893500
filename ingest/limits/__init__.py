"""Limits of what a browser may send, and the windows in which its repeats are counted instead of logged.

``rules`` decides (pure), ``memory`` keeps the state of one process; ``scripts`` decides the same on a Valkey or Redis
server that replicas share, ``store`` calls them, ``shadows`` makes up for a store that is lost, ``shared`` knows
whether there is one. ``limits`` puts it together for the routes.
"""

from __future__ import annotations

from ingest.limits.limits import Limits
from ingest.limits.rules import Closing, Decision, Key, Sample, Seen, Thresholds

__all__ = ["Closing", "Decision", "Key", "Limits", "Sample", "Seen", "Thresholds"]
