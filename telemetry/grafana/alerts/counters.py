"""Counters that should stand still: what they grew by, also when their first sample was the burst."""

from __future__ import annotations


def grown(metric: str, by: str, window: str) -> str:
    """PromQL for what ``metric`` grew by in ``window``, summed ``by``; no series where it stood still.

    A counter with labels is often born with its first event. ``increase`` then knows no step: Prometheus finds 0, and
    VictoriaMetrics takes a first value of more than a few for an old one. So a series that wasn't there a window ago
    counts whole, unless its target wasn't scraped then either (a new process, or a gap in the scrapes).
    """
    born = f"({metric} unless {metric} offset {window} and on (job, instance) up offset {window})"
    return f"sum by ({by}) (increase({metric}[{window}]) > 0 or {born} > 0)"
