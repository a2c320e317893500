"""A picture of the fleet as metric families: what is unknown has none, and no number of workers makes more of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from prometheus_client.metrics_core import Metric

from telemetry.catalogue import METRICS, OVERFLOW_VALUE
from telemetry.fleet.coverage import REASONS
from telemetry.fleet.drift import BADGES
from telemetry.fleet.model import Observed
from telemetry.fleet.picture import Picture, shown
from telemetry.fleet.queue import Detail, Details, Pending, Reading
from telemetry.fleet.tags import Tags
from telemetry.metrics.accounts import family

ORIGIN: Final = "telemetry.fleet.observer"
FAMILIES: Final = tuple(name for name, spec in METRICS.items() if spec.origin == ORIGIN)
"""Names of all families that the observer may serve."""

_GROUP: Final[Mapping[str, Callable[[Observed], float | None]]] = {
    "fleet_worker_group_active": lambda seen: seen.active,
    "fleet_worker_group_alive": lambda seen: seen.alive,
    "fleet_worker_group_busy": lambda seen: seen.busy,
    "fleet_worker_group_clock_skewed": lambda seen: seen.skewed,
    "fleet_worker_group_draining": lambda seen: seen.draining,
    "fleet_worker_group_jobs_executed": lambda seen: seen.jobs_executed,
    "fleet_worker_group_last_ping_age_seconds": lambda seen: seen.last_ping_age,
    "fleet_worker_group_lost": lambda seen: len(seen.lost),
    "fleet_worker_group_running_jobs": lambda seen: seen.running_jobs,
    "fleet_worker_group_versions": lambda seen: len(seen.versions),
}
_DETAIL: Final[Mapping[str, Callable[[Detail], float | None]]] = {
    "fleet_queue_clock_skewed_jobs": lambda each: each.skewed,
    "fleet_queue_failed_jobs": lambda each: each.failed,
    "fleet_queue_overdue_jobs": lambda each: each.overdue,
    "fleet_queue_pending_exact": lambda each: each.pending,
    "fleet_queue_restart_limit_jobs": lambda each: each.at_limit,
    "fleet_queue_running": lambda each: each.running,
}


def families(picture: Picture, since: Mapping[str, float]) -> Iterator[Metric]:
    """All families of ``picture``; ``since`` says as Unix time when each group's badge was first seen as it is."""
    if picture.parts.queue is not None:
        yield from _pending(picture.parts.queue, picture.tags)
    if picture.parts.detail is not None:
        yield from _detail(picture.parts.detail, picture.tags)
    if picture.observed is not None:
        yield from _workers(picture, picture.observed, since)
    if picture.covered is not None:
        verdicts = shown(picture.covered).items()
        yield family(
            "fleet_tag_coverage",
            [((tag, reason), float(each.reason == reason)) for tag, each in verdicts for reason in REASONS],
        )
        yield family("fleet_tag_serving", [((tag,), each.serving) for tag, each in verdicts])


def _pending(reading: Reading, tags: Tags) -> Iterator[Metric]:
    folded = _folded(reading.tags, tags)
    rows = {(tags.group(tag), tag): folded.get(tag, []) for tag in tags.series()}
    yield family("fleet_queue_pending", [(key, sum(each.count for each in of)) for key, of in rows.items()])
    yield family(
        "fleet_queue_pending_capped", [(key, float(any(each.capped for each in of))) for key, of in rows.items()]
    )
    yield family(
        "fleet_queue_oldest_age_seconds",
        [(key, max((each.oldest_age or 0.0 for each in of), default=0.0)) for key, of in rows.items()],
    )
    yield family(
        "fleet_queue_oldest_timestamp_seconds",
        [(key, min(due)) for key, of in rows.items() if (due := _due(of))],
    )
    yield family("fleet_queue_tags_cut", [((), float(reading.cut))])


def _due(of: list[Pending]) -> list[float]:
    return [each.oldest_at for each in of if each.oldest_at is not None]


def _detail(details: Details, tags: Tags) -> Iterator[Metric]:
    folded = _folded(details.tags, tags)
    for name, read in _DETAIL.items():
        if read(details.nothing) is not None:  # or the platform's tables lack it
            figures = [
                ((tags.group(tag), tag), sum(read(each) or 0 for each in folded.get(tag, ()))) for tag in tags.series()
            ]
            yield family(name, figures)
    for place, name in enumerate(("fleet_queue_wait_p50_seconds", "fleet_queue_wait_p95_seconds")):
        yield family(
            name,
            [
                ((tags.group(tag), tag), of[0].waits[place])
                for tag, of in folded.items()
                # Quantiles of several tags are no quantile of their sum.
                if tag != OVERFLOW_VALUE and of[0].waits is not None
            ],
        )
    upkeep = details.upkeep
    if upkeep is not None:
        rows = {
            "fleet_queue_dead_rows": upkeep.dead,
            "fleet_queue_last_autovacuum_timestamp_seconds": upkeep.autovacuum_at,
            "fleet_queue_live_rows": upkeep.live,
            "fleet_queue_oldest_snapshot_age_seconds": upkeep.snapshot_age,
            "fleet_queue_oldest_snapshot_transactions": upkeep.snapshot_xids,
            "fleet_queue_replica_lag_seconds": upkeep.replica_lag,
        }
        yield from (family(name, [((), figure)]) for name, figure in rows.items() if figure is not None)


def _workers(picture: Picture, observed: Mapping[str, Observed], since: Mapping[str, float]) -> Iterator[Metric]:
    for name, read in _GROUP.items():
        rows = [((group,), figure) for group, seen in observed.items() if (figure := read(seen)) is not None]
        yield family(name, rows)
    roll = picture.parts.workers
    asked = roll.groups if roll is not None else None
    if asked is not None:
        yield family("fleet_worker_group_desired_min", [((name,), each.band[0]) for name, each in asked.items()])
        yield family("fleet_worker_group_desired_max", [((name,), each.band[1]) for name, each in asked.items()])
        yield family("fleet_worker_group_enabled", [((name,), float(each.enabled)) for name, each in asked.items()])
    if roll is not None:
        yield family("fleet_worker_groups_broken", [((), len(roll.broken))])
    judged = {name: each for name, each in picture.drifts.items() if each.state != "unknown"}
    yield family("fleet_worker_group_drift_valid", [((name,), float(name in judged)) for name in picture.drifts])
    yield family(
        "fleet_worker_group_drift",
        [((name, badge), float(each.state == badge)) for name, each in judged.items() for badge in BADGES],
    )
    yield family("fleet_worker_group_drift_danger", [((name,), float(each.danger)) for name, each in judged.items()])
    yield family(
        "fleet_worker_group_drift_since_timestamp_seconds",
        [((name,), since[name]) for name in judged if name in since],
    )


def _folded(of: Mapping[str, Any], tags: Tags) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for tag, each in of.items():
        found.setdefault(tags.label(tag), []).append(each)
    return found


def described() -> Iterable[Metric]:
    """Every family without samples, as a registry asks for them."""
    return [family(name, ()) for name in FAMILIES]
