"""How many workers each group is to have: what somebody asked for, or what its backlog asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import psycopg
from psycopg.rows import class_row

# What KEDA would ask: the same view, the same predicate. See docs/scaling.md.
GROUPS = """
SELECT g.name, g.tags, g.drain_timeout_s::float8 AS grace, g.target_queue_depth AS target,
    g.cooldown_period::float8 AS cooldown, coalesce(g.autoscale_min, g.desired_replicas) AS low,
    coalesce(g.autoscale_max, g.desired_replicas) AS high, coalesce(sum(p.pending), 0)::float8 AS pending
FROM worker_group g LEFT JOIN telemetry.queue_pending p ON p.tag = ANY(g.tags)
WHERE g.enabled GROUP BY g.name
"""


class Group(msgspec.Struct, frozen=True):
    """A group and what waits for it. ``target`` is how many pending jobs one worker is for; None: it stays as it is."""

    name: str
    tags: list[str]
    grace: float
    target: int | None
    cooldown: float
    low: int
    high: int
    pending: float

    @property
    def wanted(self) -> int:
        """Replicas by the backlog alone."""
        needed = math.ceil(self.pending / self.target) if self.target else self.low
        return max(self.low, min(self.high, needed))


class Scaler:
    """Up at once, down when the cooldown has passed without need."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[int, float]] = {}

    def replicas(self, group: Group, now: float) -> int:
        """How many of ``group`` there are to be; ``now`` counts seconds by a monotonic clock."""
        held, since = self._held.get(group.name, (0, now))
        held = max(group.low, min(group.high, held))
        if group.wanted >= held or now - since > group.cooldown:
            held, since = group.wanted, now
        self._held[group.name] = held, since
        return held


def groups(connection: psycopg.Connection[Any]) -> Mapping[str, Group]:
    """The groups as the registry has them now."""
    with connection.cursor(row_factory=class_row(Group)) as cursor:
        return {group.name: group for group in cursor.execute(GROUPS)}
