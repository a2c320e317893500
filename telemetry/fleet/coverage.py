"""Is there a tag that nobody serves? One verdict for each tag that is known from anywhere.

A tag is known because an action of the platform has it (the catalogue), because jobs with it wait (the queue), or
because a group is registered for it (a route). The table stands in docs/fleet.md. The coverage of capabilities is
the same function over the tags that they are routed by.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from telemetry.fleet.model import Windows, Worker, WorkerGroup

Reason = Literal["covered", "no_route", "no_live_workers", "idle", "stuck"]
Level = Literal["ok", "info", "danger"]
TaglessWorkers = Literal["serve_none", "serve_all"]
"""What a worker without tags does: in windforce nothing, in windforce-core everything."""

REASONS: Final[tuple[Reason, ...]] = ("covered", "no_route", "no_live_workers", "idle", "stuck")
DANGERS: Final[frozenset[Reason]] = frozenset({"no_route", "no_live_workers", "stuck"})


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What waits under one tag.

    ``pending`` counts due jobs, ``oldest`` is the age of the oldest in seconds, ``last_claim`` how many seconds ago
    one was claimed (None: not within what was looked at).
    """

    pending: int = 0
    oldest: float | None = None
    last_claim: float | None = None


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one tag.

    ``groups`` are the enabled ones that may serve it, ``serving`` counts the active workers that do, ``declared``
    says that the catalogue has it.
    """

    tag: str
    reason: Reason
    level: Level
    groups: tuple[str, ...] = ()
    serving: int = 0
    pending: int = 0
    declared: bool = False


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot: catalogue, queue, registry and workers, all read at once.

    ``catalogue`` is None when the platform gives none; then the queue and the registry alone say which tags there
    are. ``slo`` is the age in seconds that the oldest job of a tag may reach.
    """

    demand: Mapping[str, Demand]
    groups: Mapping[str, WorkerGroup]
    workers: tuple[Worker, ...]
    catalogue: frozenset[str] | None = None
    tagless: TaglessWorkers = "serve_none"
    slo: float = 300.0


def coverage(inputs: Inputs, windows: Windows) -> tuple[Coverage, ...]:
    """Every known tag, in order."""
    declared = inputs.catalogue or frozenset()
    routes = _routes(inputs)
    serving, serving_all = _serving(inputs, windows)
    tags = declared | inputs.demand.keys() | routes.keys()
    return tuple(
        _verdict(
            tag,
            demand=inputs.demand.get(tag, Demand()),
            groups=tuple(routes.get(tag, ())),
            serving=serving.get(tag, 0) + serving_all,
            declared=tag in declared,
            slo=inputs.slo,
            windows=windows,
        )
        for tag in sorted(tags)
    )


def _verdict(
    tag: str,
    *,
    demand: Demand,
    groups: tuple[WorkerGroup, ...],
    serving: int,
    declared: bool,
    slo: float,
    windows: Windows,
) -> Coverage:
    wanted = declared or demand.pending > 0
    reason = _reason(demand, groups, serving, slo, windows, wanted=wanted)
    level: Level = "danger" if reason in DANGERS else "ok" if wanted or reason == "covered" else "info"
    return Coverage(
        tag=tag,
        reason=reason,
        level=level,
        groups=tuple(group.name for group in groups),
        serving=serving,
        pending=demand.pending,
        declared=declared,
    )


def _reason(
    demand: Demand,
    groups: tuple[WorkerGroup, ...],
    serving: int,
    slo: float,
    windows: Windows,
    *,
    wanted: bool,
) -> Reason:
    oldest = demand.oldest if demand.pending else None
    if serving:
        unclaimed = demand.last_claim is None or demand.last_claim > windows.stuck
        return "stuck" if oldest is not None and oldest > slo and unclaimed else "covered"
    if not wanted:
        # A route that nobody asks for is worth knowing, and no more; drift tells when its group is missing.
        return "idle"
    if not groups:
        return "no_route"
    if any(group.band[0] > 0 for group in groups) or (oldest is not None and oldest > windows.scale_up):
        return "no_live_workers"
    return "idle"


def _routes(inputs: Inputs) -> dict[str, list[WorkerGroup]]:
    routes: dict[str, list[WorkerGroup]] = {}
    for name in sorted(inputs.groups):
        group = inputs.groups[name]
        if group.enabled and group.band[1] > 0:
            for tag in group.routes:
                routes.setdefault(tag, []).append(group)
    return routes


def _serving(inputs: Inputs, windows: Windows) -> tuple[dict[str, int], int]:
    """How many active workers serve each tag, and how many serve every tag."""
    by_tag: dict[str, int] = {}
    everything = 0
    for worker in inputs.workers:
        # One that drains finishes what it has; it will claim nothing any more.
        if worker.life(windows) != "alive" or worker.draining_for is not None:
            continue
        if not worker.tags:
            everything += inputs.tagless == "serve_all"
        for tag in frozenset(worker.tags):
            by_tag[tag] = by_tag.get(tag, 0) + 1
    return by_tag, everything
