"""Which tags have series of their own: as many as fit, the rest together.

Known are the tags of the catalogue, those that groups are registered for, and those seen in the queue lately. Known
tags without jobs stand at 0. Tags beyond the limit are counted as one, ``__other__``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from telemetry.catalogue import OVERFLOW_VALUE
from telemetry.fleet.model import WorkerGroup

LIMIT: Final = 200
FORGET: Final = 600.0
"""Seconds after which a tag that only the queue knew, and has no more jobs, loses its series."""


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """Names of tags as labels: ``kept`` have series of their own, ``groups`` says whose they are."""

    kept: frozenset[str]
    groups: Mapping[str, str]
    folded: bool = False

    def label(self, tag: str) -> str:
        """The value of the label ``tag``."""
        return tag if tag in self.kept else OVERFLOW_VALUE

    def group(self, tag: str) -> str:
        """The value of the label ``group``: empty for a tag that no group serves, or more than one."""
        return self.groups.get(tag, "") if tag in self.kept else ""

    def series(self) -> list[str]:
        """The tags that are always there, in order, ``__other__`` last when anything was folded into it."""
        return [*sorted(self.kept), *([OVERFLOW_VALUE] if self.folded else [])]


def choose(
    declared: Iterable[str],
    seen: Iterable[str],
    pending: Mapping[str, int],
    groups: Mapping[str, str],
    limit: int = LIMIT,
) -> Tags:
    """The ``limit`` tags with most jobs pending among the declared and the seen; on a tie the declared first."""
    first = frozenset(declared)
    known = first | frozenset(seen) | pending.keys()
    ranked = sorted(known - {OVERFLOW_VALUE}, key=lambda tag: (-pending.get(tag, 0), tag not in first, tag))
    return Tags(kept=frozenset(ranked[:limit]), groups=groups, folded=len(ranked) < len(known) or len(ranked) > limit)


def owners(groups: Mapping[str, WorkerGroup]) -> dict[str, str]:
    """The group of each tag; a tag that two groups share belongs to neither, or sums over groups would double it."""
    found: dict[str, str] = {}
    for name in sorted(groups):
        for tag in groups[name].routes:
            found[tag] = "" if tag in found else name
    return found


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """When each tag last had a job, in seconds by any one monotonic clock."""

    at: Mapping[str, float] = {}

    def saw(self, tags: Iterable[str], now: float) -> Seen:
        """After a read at ``now`` that found ``tags``; what was not found for long is forgotten."""
        kept = {tag: when for tag, when in self.at.items() if now - when <= FORGET}
        return Seen(at={**kept, **dict.fromkeys(tags, now)})
