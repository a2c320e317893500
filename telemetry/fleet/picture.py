"""The fleet as it can be judged from what was read: pure functions over one read of each part.

A part that could not be read is None here, and what follows from it is unknown: absent, and never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from telemetry.catalogue import OVERFLOW_VALUE
from telemetry.fleet import tags as naming
from telemetry.fleet.coverage import DANGERS, Coverage, Demand, Inputs, coverage
from telemetry.fleet.drift import Drift, Reading, Work, drift
from telemetry.fleet.model import Observed, Windows, Worker, WorkerGroup, observe_all
from telemetry.fleet.queue import Details
from telemetry.fleet.queue import Reading as Queue
from telemetry.fleet.tags import Tags
from telemetry.fleet.workers import Roll

STRANGERS: Final = 50
"""How many groups that nobody asked for have series of their own; the rest is one, ``__other__``."""


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """What was read, each part None when it failed or is too old.

    ``settled``: reads of workers have worked without a break for so long that silence may be believed. ``catalogue``
    is None when the platform gives none; ``capabilities`` are those that its apps need. ``registry`` is the last that
    was read, for names of series alone; ``seen`` are the tags that the queue had lately.
    """

    queue: Queue | None = None
    detail: Details | None = None
    workers: Roll | None = None
    catalogue: frozenset[str] | None = None
    capabilities: frozenset[str] = frozenset()
    settled: bool = False
    registry: Mapping[str, WorkerGroup] = {}
    seen: frozenset[str] = frozenset()

    @property
    def abilities(self) -> frozenset[str]:
        """All capabilities that somebody needs or has; each is routed by the tag of its name."""
        return self.capabilities.union(*(group.capabilities for group in self.registry.values()))


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """By what it is judged. ``slo`` is the age in seconds that the oldest job of a tag may reach."""

    windows: Windows = Windows()
    serve_all: bool = False
    slo: float = 300.0


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """The fleet, judged. ``drifts`` holds a state for every group that is listed, *unknown* too.

    ``observed`` is None when workers could not be read; ``covered`` when workers or queue could not, or silence may
    not be believed yet.
    """

    parts: Parts
    tags: Tags
    observed: Mapping[str, Observed] | None = None
    drifts: Mapping[str, Drift] = {}
    covered: tuple[Coverage, ...] | None = None


def judge(parts: Parts, rules: Rules) -> Picture:
    """All that can be said of ``parts``."""
    declared = (parts.catalogue or frozenset()) | {tag for group in parts.registry.values() for tag in group.routes}
    pending = {tag: each.count for tag, each in parts.queue.tags.items()} if parts.queue else {}
    names = naming.choose(declared, parts.seen, pending, naming.owners(parts.registry))
    roll = parts.workers
    if roll is None:
        return Picture(parts=parts, tags=names)
    groups = roll.groups or {}
    known = frozenset(groups) | frozenset(roll.broken)
    observed = observe_all(groups, _bounded(roll.workers, known), rules.windows)
    reading = Reading(settled=parts.settled, registry=roll.groups is not None)
    drifts = {}
    for name, seen in observed.items():
        group = groups.get(name)
        found = (
            # Its row can't be right, so nobody knows what was asked for.
            Drift(state="unknown", rule="0")
            if name in roll.broken
            else drift(group, seen, _work(group, parts, rules), windows=rules.windows, reading=reading)
        )
        if found is not None:
            drifts[name] = found
    return Picture(
        parts=parts,
        tags=names,
        observed=observed,
        drifts=drifts,
        covered=_covered(parts, rules) if parts.settled and parts.queue is not None else None,
    )


def shown(covered: tuple[Coverage, ...], limit: int = naming.LIMIT) -> dict[str, Coverage]:
    """Verdicts by label: those of danger first, then by what waits; the worst of the rest is ``__other__``."""
    ranked = sorted(covered, key=lambda each: (each.reason not in DANGERS, -each.pending, each.tag))
    found = {each.tag: each for each in ranked[:limit]}
    if len(ranked) > limit:
        found[OVERFLOW_VALUE] = ranked[limit]
    return found


def demand(parts: Parts) -> dict[str, Demand]:
    """What waits under each tag."""
    if parts.queue is None:
        return {}
    detail = parts.detail
    passed = max(0.0, parts.queue.at - detail.at) if detail else 0.0
    found = {}
    for tag, each in parts.queue.tags.items():
        # Unread, the last claim counts as just now: that nothing is claimed must be seen, not assumed.
        last: float | None = 0.0
        if detail is not None:
            claim = detail.tags[tag].last_claim if tag in detail.tags else None
            last = None if claim is None else claim + passed
        found[tag] = Demand(pending=each.count, oldest=each.oldest_age, last_claim=last)
    return found


def _covered(parts: Parts, rules: Rules) -> tuple[Coverage, ...]:
    assert parts.workers is not None, "the caller looked"
    # Tags that only future jobs wait under are no demand yet.
    inputs = Inputs(
        demand={tag: each for tag, each in demand(parts).items() if each.pending},
        groups=parts.workers.groups or {},
        workers=parts.workers.workers,
        catalogue=parts.catalogue,
        tagless="serve_all" if rules.serve_all else "serve_none",
        slo=rules.slo,
    )
    return coverage(inputs, rules.windows)


def _work(group: WorkerGroup | None, parts: Parts, rules: Rules) -> Work | None:
    if parts.queue is None:
        return None
    tags = group.routes if group else ()
    if group and not tags and rules.serve_all:
        tags = tuple(parts.queue.tags)
    ages = [
        age for tag in tags if (each := parts.queue.tags.get(tag)) is not None and (age := each.oldest_age) is not None
    ]
    return Work(oldest=max(ages, default=None))


def _bounded(workers: tuple[Worker, ...], known: frozenset[str]) -> tuple[Worker, ...]:
    """The same workers, those of all but ``STRANGERS`` unknown groups as one group."""
    strangers = Counter(worker.group for worker in workers if worker.group not in known)
    if len(strangers) <= STRANGERS:
        return workers
    kept = {name for name, _ in sorted(strangers.items(), key=lambda item: (-item[1], item[0]))[:STRANGERS]} | known
    return tuple(
        worker if worker.group in kept else msgspec.structs.replace(worker, group=OVERFLOW_VALUE) for worker in workers
    )
