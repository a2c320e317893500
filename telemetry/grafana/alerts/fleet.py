"""Alerts on a platform's queue, its workers, and the observer that tells of both, for each fleet of the values file.

Every figure of an observer's is asked for as the maximum over all exporters of the job: those that stand by tell
nothing, and where nobody is elected all tell the same, so a second exporter doubles nothing, and an alert goes on when
another takes the lead. A figure that could not be read is absent, so what compares it is silent; that it could not be
read is told by alerts of its own (``observer``).
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts import observer, queue, workers
from telemetry.grafana.alerts.records import Group
from telemetry.grafana.alerts.values import Fleet

INTERVAL: Final = 30
"""Seconds between evaluations: a group without workers is told after 60, which are two of them."""


def groups(fleet: Fleet) -> tuple[Group, ...]:
    """The groups of one fleet, by subject; only of what its platform has."""
    return (
        Group(name=f"fleetglass-queue-{fleet.job}", interval=INTERVAL, rules=tuple(queue.alerts(fleet))),
        Group(name=f"fleetglass-workers-{fleet.job}", interval=INTERVAL, rules=tuple(workers.alerts(fleet))),
        Group(name=f"fleetglass-observer-{fleet.job}", interval=INTERVAL, rules=tuple(observer.alerts(fleet))),
    )
