"""What a fleet is made of: groups as they were asked for, workers as they were last heard of.

Ages count seconds by the database's clock, on both sides: ``now() - ping_at`` in the query, never the clock of the
machine that asks. A worker is *alive* while its last ping is at most a window old, *active* while it is alive and
takes jobs, a *tombstone* for a while after that; older rows are ignored, and never deleted by us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

SKEW: Final = -5.0
"""An age below this many seconds is a clock that runs ahead; it counts as 0, and as skewed."""

Life = Literal["alive", "tombstone", "gone"]


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """The times by which a fleet is judged, in seconds.

    ``alive``: a worker lives while its ping is at most so old. Three heartbeats fit into it, and it is at most the
    time after which the reaper takes jobs away. ``tombstone``: how long a lost worker is still shown.
    ``drain_slack``: how much longer than its time a drain may take before it is overdue. ``scale_up``: how long work
    may wait for a group that was scaled to nothing. ``stuck``: how long due work may go unclaimed.
    """

    alive: float = 60.0
    tombstone: float = 900.0
    drain_slack: float = 30.0
    scale_up: float = 120.0
    stuck: float = 600.0

    def problems(self, *, heartbeat: float, zombie_timeout: float) -> tuple[str, ...]:
        """What is wrong with these times, as sentences: an empty tuple when they fit together."""
        found = []
        if heartbeat * 3 > self.alive:
            found.append(f"three heartbeats ({heartbeat * 3:g} s) don't fit into the alive window ({self.alive:g} s)")
        if self.alive > zombie_timeout:
            found.append(
                f"the alive window ({self.alive:g} s) is longer than the zombie timeout ({zombie_timeout:g} s): "
                "workers would count as alive whose jobs were already taken away"
            )
        if self.tombstone < self.alive:
            found.append(f"tombstones ({self.tombstone:g} s) end before the alive window does ({self.alive:g} s)")
        return tuple(found)


class WorkerGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it was asked for. With ``autoscale_min`` and ``autoscale_max`` (both or neither) it may breathe.

    ``drain_timeout`` counts seconds: how long a worker may finish what it runs. ``capabilities`` are what its workers
    can do; jobs that need one are routed by a tag of that name.
    """

    name: str
    tags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    desired_replicas: int = 0
    autoscale_min: int | None = None
    autoscale_max: int | None = None
    drain_timeout: float = 600.0
    enabled: bool = True

    def __post_init__(self) -> None:
        if (self.autoscale_min is None) != (self.autoscale_max is None):
            raise ValueError(f"group {self.name}: autoscale_min and autoscale_max are given both or neither")
        low, high = self.band
        if not 0 <= low <= high:
            raise ValueError(f"group {self.name}: {low} to {high} replicas is no range")

    @property
    def routes(self) -> tuple[str, ...]:
        """The tags whose jobs are meant for this group, those of its capabilities too, each once."""
        return tuple(dict.fromkeys((*self.tags, *self.capabilities)))

    @property
    def band(self) -> tuple[int, int]:
        """How many replicas are right: from, and up to."""
        if self.autoscale_min is None or self.autoscale_max is None:
            return self.desired_replicas, self.desired_replicas
        return self.autoscale_min, self.autoscale_max

    @property
    def autoscales(self) -> bool:
        """Whether a scaler moves it."""
        return self.autoscale_max is not None


class Worker(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process by its last ping. One row is one process, and one process is one replica.

    ``age`` is that of the ping; ``draining_for`` how long it has taken no new jobs, None while it does; both in
    seconds. ``current_job`` is the oldest of ``running_jobs``.
    """

    id: str
    group: str
    age: float
    tags: tuple[str, ...] = ()
    version: str = ""
    node: str = ""
    draining_for: float | None = None
    running_jobs: int = 0
    current_job: str = ""
    jobs_executed: int = 0
    up_for: float = 0.0

    @property
    def skewed(self) -> bool:
        """Whether the clock that wrote the ping runs ahead of the database's."""
        return self.age < SKEW

    def life(self, windows: Windows) -> Life:
        """What the ping says about the process."""
        if self.age <= windows.alive:
            return "alive"
        return "tombstone" if self.age <= windows.tombstone else "gone"


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of one group, rolled up: as many values for a thousand workers as for one.

    ``last_ping_age`` is that of the freshest ping in seconds, None without a living worker. ``draining_for`` is how
    long the group has had living workers and none of them active, None while that is not so. ``jobs_executed`` is a
    sum over the living, so it falls when one leaves. ``versions`` are those of the living, in order; more than one is
    skew.
    """

    group: str
    alive: int = 0
    active: int = 0
    draining: int = 0
    busy: int = 0
    running_jobs: int = 0
    jobs_executed: int = 0
    last_ping_age: float | None = None
    draining_for: float | None = None
    versions: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    skewed: int = 0


def observe(group: str, workers: Iterable[Worker], windows: Windows) -> Observed:
    """What there is of ``group`` among ``workers``."""
    mine = [worker for worker in workers if worker.group == group]
    alive = [worker for worker in mine if worker.life(windows) == "alive"]
    draining = [worker.draining_for for worker in alive if worker.draining_for is not None]
    active = len(alive) - len(draining)
    return Observed(
        group=group,
        alive=len(alive),
        active=active,
        draining=len(draining),
        busy=sum(worker.running_jobs > 0 for worker in alive),
        running_jobs=sum(worker.running_jobs for worker in alive),
        jobs_executed=sum(worker.jobs_executed for worker in alive),
        last_ping_age=min((max(0.0, worker.age) for worker in alive), default=None),
        # The last one to stop taking jobs ended the group's active time.
        draining_for=min(draining) if draining and not active else None,
        versions=tuple(sorted({worker.version for worker in alive if worker.version})),
        lost=tuple(sorted(worker.id for worker in mine if worker.life(windows) == "tombstone")),
        skewed=sum(worker.skewed for worker in alive),
    )


def observe_all(groups: Mapping[str, WorkerGroup], workers: Iterable[Worker], windows: Windows) -> dict[str, Observed]:
    """Every group that was asked for or has somebody alive or lately lost, by name."""
    by_group: dict[str, list[Worker]] = {name: [] for name in groups}
    for worker in workers:
        if worker.life(windows) != "gone":
            by_group.setdefault(worker.group, []).append(worker)
    return {name: observe(name, by_group[name], windows) for name in sorted(by_group)}
