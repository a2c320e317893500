"""Does what runs match what was asked for? One badge for each group of workers, by one table.

The table stands in docs/fleet.md, its rows numbered as here; the first that applies wins. A badge has no memory:
how long a state must last before somebody is woken is the alert's business, so that all replicas agree.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from telemetry.fleet.model import Observed, Windows, WorkerGroup

Badge = Literal["ok", "missing", "scaled", "draining", "unregistered"]
State = Badge | Literal["unknown"]

BADGES: Final[tuple[Badge, ...]] = ("ok", "missing", "scaled", "draining", "unregistered")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """How far what was read can be trusted.

    ``fresh``: the last read worked, and is at most two intervals old. ``settled``: reads have worked without a break
    for the alive window since the database came back; before that, workers that could not write look lost.
    ``registry``: somebody says what was asked for.
    """

    fresh: bool = True
    settled: bool = True
    registry: bool = True

    @property
    def trusted(self) -> bool:
        """Whether badges may be given at all."""
        return self.fresh and self.settled and self.registry


class Work(msgspec.Struct, frozen=True):
    """What waits for a group: ``oldest`` is the age of its oldest due job in seconds, None when nothing is due."""

    oldest: float | None = None


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The badge of a group, and by which ``rule`` of the table.

    ``direction`` goes with *scaled*; ``overdue`` with *draining* that takes longer than it may; ``danger`` says that
    work waits and nobody will come.
    """

    state: State
    rule: str
    direction: Literal["", "under", "over"] = ""
    overdue: bool = False
    danger: bool = False


def drift(
    group: WorkerGroup | None,
    observed: Observed,
    work: Work | None,
    *,
    windows: Windows,
    reading: Reading,
) -> Drift | None:
    """The badge of one group; None for one that is not listed: not asked for, and nobody alive.

    ``group`` is None when nobody asked for it. ``work`` is None when the queue could not be read: then a group that
    was scaled to nothing can't be judged, and every other still can.
    """
    if not reading.trusted:
        return Drift(state="unknown", rule="0")
    if group is None:
        return Drift(state="unregistered", rule="1") if observed.alive else None
    if not group.enabled:
        return Drift(state="draining", rule="2") if observed.alive else Drift(state="ok", rule="3")
    if observed.active == 0:
        return _without_active(group, observed, work, windows)
    low, high = group.band
    if observed.active < low:
        return Drift(state="scaled", rule="7", direction="under")
    if observed.active > high:
        return Drift(state="scaled", rule="7", direction="over")
    return Drift(state="ok", rule="8")


def _without_active(group: WorkerGroup, observed: Observed, work: Work | None, windows: Windows) -> Drift:
    low, high = group.band
    if observed.draining_for is not None:
        if observed.draining_for <= group.drain_timeout + windows.drain_slack:
            return Drift(state="draining", rule="2")
        return Drift(state="missing" if low else "draining", rule="2a", overdue=not low)
    if low:
        return Drift(state="missing", rule="4")
    if high and work is None:
        return Drift(state="unknown", rule="0")
    if high and work is not None and work.oldest is not None and work.oldest > windows.scale_up:
        return Drift(state="missing", rule="5", danger=True)
    return Drift(state="ok", rule="6")
