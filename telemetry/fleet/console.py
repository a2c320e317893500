"""The fleet as a console is told of it. Pure functions of a snapshot; ``facts`` has the words."""

from __future__ import annotations

from typing import Any, Final

from telemetry.fleet.drift import Drift
from telemetry.fleet.facts import (
    Backlog,
    BacklogFact,
    CoverageFact,
    CoverageView,
    Desired,
    DesiredFact,
    FleetView,
    Group,
    Origin,
    Process,
    ProcessesFact,
    Seen,
    SeenFact,
    TagsFact,
    Tier,
    Verdict,
    VerdictFact,
    Waiting,
    WaitingFact,
    Why,
)
from telemetry.fleet.model import Worker
from telemetry.fleet.observer import PARTS
from telemetry.fleet.profiles import Part
from telemetry.fleet.snapshot import Snapshot

MOST_TAGS: Final = 5000
"""How many tags are told at most."""


def fleet_view(snapshot: Snapshot, *, workers: bool = False) -> FleetView:
    """The fleet by group; with ``workers``, each process of each group as well."""
    picture, roll = snapshot.picture, snapshot.picture.parts.workers
    # Of a registry that can't be read now, the names are still known.
    names = {*picture.drifts, *picture.parts.registry, *(roll.broken if roll is not None else ())}
    names |= {name for name, seen in (picture.observed or {}).items() if seen.alive or seen.lost}
    return FleetView(
        sources=_origins(snapshot),
        settled=picture.parts.settled,
        groups=tuple(
            Group(
                group=name,
                badge=_badge(snapshot, name),
                desired=_desired(snapshot, name),
                observed=_observed(snapshot, name),
                backlog=_backlog(snapshot, name),
                workers=_processes(snapshot, name) if workers else None,
            )
            for name in sorted(names)
        ),
    )


def coverage_view(snapshot: Snapshot) -> CoverageView:
    """Who serves which tag."""
    parts, covered = snapshot.picture.parts, snapshot.picture.covered
    told = capable = CoverageFact(**_unknown(snapshot, "derived", ("workers", "queue"), "settling"))
    if covered is not None:
        of = _known(snapshot, "derived", ("workers", "queue"))
        told = CoverageFact(value=covered[:MOST_TAGS], **of)
        capable = CoverageFact(value=tuple(each for each in covered if each.tag in parts.abilities)[:MOST_TAGS], **of)
    cut = parts.queue is not None and parts.queue.cut
    return CoverageView(
        sources=_origins(snapshot),
        settled=parts.settled,
        catalogue=_catalogue(snapshot),
        waiting=_waiting(snapshot),
        tags=told,
        capabilities=capable,
        cut=cut or max(len(parts.catalogue or ()), len(covered or ())) > MOST_TAGS,
    )


def _catalogue(snapshot: Snapshot) -> TagsFact:
    known = snapshot.picture.parts.catalogue
    if snapshot.sources["catalogue"].condition == "none":
        detail = "The platform gives no catalogue: coverage is judged over the queue and the registry alone."
        return TagsFact(state="absent", tier="desired", source="", detail=detail)
    if known is None:
        return TagsFact(**_unknown(snapshot, "desired", ("catalogue",)))
    return TagsFact(value=tuple(sorted(known)[:MOST_TAGS]), **_known(snapshot, "desired", ("catalogue",)))


def _waiting(snapshot: Snapshot) -> WaitingFact:
    queue = snapshot.picture.parts.queue
    if queue is None:
        return WaitingFact(**_unknown(snapshot, "observed", ("queue",)))
    found = tuple(
        Waiting(tag=tag, pending=each.count, capped=each.capped, oldest_age=each.oldest_age)
        for tag, each in sorted(queue.tags.items())
        if each.count
    )
    return WaitingFact(value=found, **_known(snapshot, "observed", ("queue",)))


def _badge(snapshot: Snapshot, name: str) -> VerdictFact:
    picture = snapshot.picture
    parts, found = picture.parts, picture.drifts.get(name)
    if parts.workers is None:
        return VerdictFact(**_unknown(snapshot, "derived", ("workers",)))
    if found is None:
        return VerdictFact(state="absent", **_provenance(snapshot, "derived", ("workers",)))
    if found.state == "unknown":
        broken = parts.workers.broken.get(name, "")
        why: Why = (
            "broken_row"
            if broken
            else "no_registry"
            if parts.workers.groups is None
            else "settling"
            if not parts.settled
            else ""
        )
        if why:
            of = _provenance(snapshot, "derived", ("workers",))
            return VerdictFact(state="unknown", why=why, **{**of, "detail": broken})
        # The last rule that needs the queue could not read it.
        return VerdictFact(**_unknown(snapshot, "derived", ("workers", "queue")))
    rests: tuple[Part, ...] = ("workers", "queue") if _by_queue(found) else ("workers",)
    verdict = Verdict(
        badge=found.state, rule=found.rule, direction=found.direction, overdue=found.overdue, danger=found.danger
    )
    return VerdictFact(value=verdict, **_known(snapshot, "derived", rests))


def _by_queue(found: Drift) -> bool:
    """Whether the rule looks at what waits."""
    return found.rule in {"5", "6"}


def _desired(snapshot: Snapshot, name: str) -> DesiredFact:
    roll = snapshot.picture.parts.workers
    if roll is None:
        return DesiredFact(**_unknown(snapshot, "desired", ("workers",)))
    of = _provenance(snapshot, "desired", ("workers",))
    if roll.groups is None:
        return DesiredFact(state="unknown", why="no_registry", **of)
    if name in roll.broken:
        return DesiredFact(state="unknown", why="broken_row", **{**of, "detail": roll.broken[name]})
    group = roll.groups.get(name)
    if group is None:
        return DesiredFact(state="absent", **of)
    low, high = group.band
    desired = Desired(
        low=low,
        high=high,
        enabled=group.enabled,
        tags=group.tags,
        drain_timeout=group.drain_timeout,
        capabilities=group.capabilities,
    )
    return DesiredFact(state="known", value=desired, **of)


def _observed(snapshot: Snapshot, name: str) -> SeenFact:
    observed = snapshot.picture.observed
    if observed is None:
        return SeenFact(**_unknown(snapshot, "observed", ("workers",)))
    of = _known(snapshot, "observed", ("workers",))
    seen = observed.get(name)
    if seen is None:
        return SeenFact(value=Seen(), **of)
    return SeenFact(
        value=Seen(
            alive=seen.alive,
            active=seen.active,
            draining=seen.draining,
            busy=seen.busy,
            running_jobs=seen.running_jobs,
            lost=len(seen.lost),
            skewed=seen.skewed,
            last_ping_age=seen.last_ping_age,
            draining_for=seen.draining_for,
            versions=seen.versions,
        ),
        **of,
    )


def _backlog(snapshot: Snapshot, name: str) -> BacklogFact:
    parts = snapshot.picture.parts
    queue, group = parts.queue, parts.registry.get(name)
    if queue is None:
        return BacklogFact(**_unknown(snapshot, "observed", ("queue",)))
    if group is None:
        # Nobody says which tags are its own.
        return BacklogFact(state="absent", **_provenance(snapshot, "observed", ("queue",)))
    found = [queue.tags[tag] for tag in group.routes if tag in queue.tags]
    ages = [each.oldest_age for each in found if each.oldest_age is not None]
    backlog = Backlog(
        pending=sum(each.count for each in found),
        capped=any(each.capped for each in found),
        oldest_age=max(ages, default=None),
    )
    return BacklogFact(value=backlog, **_known(snapshot, "observed", ("queue",)))


def _processes(snapshot: Snapshot, name: str) -> ProcessesFact:
    roll = snapshot.picture.parts.workers
    if roll is None:
        return ProcessesFact(**_unknown(snapshot, "observed", ("workers",)))
    mine = sorted((worker for worker in roll.workers if worker.group == name), key=lambda worker: worker.id)
    found = tuple(_process(snapshot, worker) for worker in mine)
    return ProcessesFact(value=found, **_known(snapshot, "observed", ("workers",)))


def _process(snapshot: Snapshot, worker: Worker) -> Process:
    return Process(
        id=worker.id,
        life=worker.life(snapshot.windows),
        ping_age=max(0.0, worker.age),
        node=worker.node,
        version=worker.version,
        tags=worker.tags,
        draining_for=worker.draining_for,
        running_jobs=worker.running_jobs,
        current_job=worker.current_job,
        jobs_executed=worker.jobs_executed,
        up_for=worker.up_for,
    )


def _origins(snapshot: Snapshot) -> tuple[Origin, ...]:
    return tuple(
        Origin(
            part=part,
            condition=each.condition,
            tables=each.tables,
            age=each.age,
            read_at=each.read_at,
            reason=each.reason or "",
        )
        for part in PARTS
        for each in (snapshot.sources[part],)
    )


def _known(snapshot: Snapshot, tier: Tier, rests: tuple[Part, ...]) -> dict[str, Any]:
    return {"state": "known", **_provenance(snapshot, tier, rests)}


def _unknown(snapshot: Snapshot, tier: Tier, rests: tuple[Part, ...], otherwise: Why = "") -> dict[str, Any]:
    """Of the parts that it rests on, the first that is not fresh says why; ``otherwise`` when all are."""
    blamed = next((part for part in rests if snapshot.sources[part].condition != "fresh"), None)
    why: str = otherwise if blamed is None else snapshot.sources[blamed].condition
    detail = (snapshot.sources[blamed].reason or "") if blamed is not None else ""
    return {"state": "unknown", "why": why, **_provenance(snapshot, tier, rests), "detail": detail}


def _provenance(snapshot: Snapshot, tier: Tier, rests: tuple[Part, ...]) -> dict[str, Any]:
    """Tier, tables and the age of the oldest read; None when one was never read."""
    tables = dict.fromkeys(table for part in rests for table in _tables(snapshot, tier, part))
    ages = [snapshot.sources[part].age for part in rests]
    known = [age for age in ages if age is not None]
    return {"tier": tier, "source": ", ".join(tables), "age": max(known) if len(known) == len(ages) else None}


def _tables(snapshot: Snapshot, tier: Tier, part: Part) -> tuple[str, ...]:
    """Workers and registry are read together, and only what is derived rests on both."""
    own = snapshot.sources[part].tables
    registry = (snapshot.registry,) if snapshot.registry and part == "workers" else ()
    if part == "workers" and tier == "desired":
        return registry
    return own if tier == "observed" else (*registry, *own)
