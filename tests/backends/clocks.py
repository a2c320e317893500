"""A wall clock that is wrong, for one process: all that asks ``time`` is told so, and what waits is not touched."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]


def wrong(seconds: float) -> dict[str, str]:
    """The environment of a Python process whose clock is ahead by so much, or behind."""
    return {"PYTHONPATH": f"{Path(__file__).with_name('clock')}:{ROOT}", "CLOCK_IS_OFF_BY": str(seconds)}
