"""What a console is told of the fleet: facts, each with its tier, its source and its age.

Three tiers: *desired* is what somebody asked for, *observed* what was seen, *derived* what we conclude from both. A
fact is *known*, or *absent* (it is known that there is none), or *unknown*; then it has no value, and says why.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from telemetry.fleet.coverage import Coverage
from telemetry.fleet.drift import Badge
from telemetry.fleet.model import Life
from telemetry.fleet.snapshot import Condition

Tier = Literal["desired", "observed", "derived"]
State = Literal["known", "absent", "unknown"]
Why = Literal["", "stale", "failed", "unread", "elsewhere", "none", "settling", "no_registry", "broken_row"]
"""Why a fact is unknown. The first five as ``Condition`` says; ``settling``: reads have not worked for long enough
that silence may be believed; ``broken_row``: the group's row in the registry can't be right."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """What every fact says of itself. ``age`` counts seconds since the oldest read that it rests on began.

    Ages inside of a value are as of that read. ``source`` names tables; ``detail`` is a sentence for people.
    """

    state: State
    tier: Tier
    source: str
    age: float | None = None
    why: Why = ""
    detail: str = ""


class Desired(msgspec.Struct, frozen=True, kw_only=True):
    """A group as it was asked for: how many replicas, from and up to, and for which tags and capabilities."""

    low: int
    high: int
    enabled: bool
    tags: tuple[str, ...]
    drain_timeout: float
    capabilities: tuple[str, ...] = ()


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of a group, rolled up. ``lost`` counts those that were heard of lately and are not any more."""

    alive: int = 0
    active: int = 0
    draining: int = 0
    busy: int = 0
    running_jobs: int = 0
    lost: int = 0
    skewed: int = 0
    last_ping_age: float | None = None
    draining_for: float | None = None
    versions: tuple[str, ...] = ()


class Backlog(msgspec.Struct, frozen=True, kw_only=True):
    """Due, unclaimed jobs. ``capped``: there are more than ``pending``."""

    pending: int
    capped: bool
    oldest_age: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The badge of a group, by which ``rule`` of the table in docs/fleet.md."""

    badge: Badge
    rule: str
    direction: Literal["", "under", "over"]
    overdue: bool
    danger: bool


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One worker. Ages and durations count seconds."""

    id: str
    life: Life
    ping_age: float
    node: str
    version: str
    tags: tuple[str, ...]
    draining_for: float | None
    running_jobs: int
    current_job: str
    jobs_executed: int
    up_for: float


class DesiredFact(Fact, frozen=True, kw_only=True):
    """Absent for a group that nobody asked for."""

    value: Desired | None = None


class SeenFact(Fact, frozen=True, kw_only=True):
    """What is seen of a group."""

    value: Seen | None = None


class BacklogFact(Fact, frozen=True, kw_only=True):
    """What waits under the tags of a group; a tag of two groups counts for both. Absent where no row names tags."""

    value: Backlog | None = None


class VerdictFact(Fact, frozen=True, kw_only=True):
    """Absent for a group of which only lost workers are left."""

    value: Verdict | None = None


class ProcessesFact(Fact, frozen=True, kw_only=True):
    """Workers by name, lost ones too; only where they were asked for."""

    value: tuple[Process, ...] | None = None


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """All facts of a group."""

    group: str
    badge: VerdictFact
    desired: DesiredFact
    observed: SeenFact
    backlog: BacklogFact
    workers: ProcessesFact | None = None


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """How a part was last read. ``reason`` says why that failed, one of the closed list in docs/fleet.md."""

    part: str
    condition: Condition
    tables: tuple[str, ...]
    age: float | None
    read_at: float | None
    reason: str


class FleetView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``GET /api/admin/fleet``. ``settled``: silence of workers may be believed."""

    sources: tuple[Origin, ...]
    settled: bool
    groups: tuple[Group, ...]


class TagsFact(Fact, frozen=True, kw_only=True):
    """The tags of the platform's own catalogue; absent where it gives none."""

    value: tuple[str, ...] | None = None


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What waits under a tag."""

    tag: str
    pending: int
    capped: bool
    oldest_age: float | None


class WaitingFact(Fact, frozen=True, kw_only=True):
    """What waits, by tag; tags without due jobs are left out."""

    value: tuple[Waiting, ...] | None = None


class CoverageFact(Fact, frozen=True, kw_only=True):
    """The verdict on every tag that is known from anywhere."""

    value: tuple[Coverage, ...] | None = None


class CoverageView(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of ``GET /api/admin/coverage``. ``cut``: there are more tags than are told.

    ``capabilities`` are the verdicts on the tags that capabilities are routed by, which ``tags`` has too.
    """

    sources: tuple[Origin, ...]
    settled: bool
    catalogue: TagsFact
    waiting: WaitingFact
    tags: CoverageFact
    capabilities: CoverageFact
    cut: bool
