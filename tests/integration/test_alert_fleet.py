"""Alerts on queue and fleet on a real vmalert, over platforms whose trouble is known and over one that is at rest."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psycopg
import pytest

from telemetry.grafana.alerts import rulefiles
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Fleet, Service, Values
from telemetry.grafana.lint import promql
from tests.backends import postgres
from tests.backends.process import eventually
from tests.backends.servers import VictoriaMetrics
from tests.backends.vmalert import VmAlert
from tests.integration import estate_fleet
from tests.integration.estate_fleet import Platform
from tests.integration.test_alert_units import needed

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@dataclass
class Watched:
    """A vmalert that evaluates the rules of three fleets each second: one in trouble, one at rest, one of nobody."""

    vmalert: VmAlert
    values: Values
    busy: Platform
    rest: Platform

    def told(self, *jobs: str) -> dict[str, set[str]]:
        """What waits for its ``for`` or fires about a fleet, by alert: the tags, groups or parts."""
        found: dict[str, set[str]] = {}
        for rule in self.vmalert.rules():
            for labels in rule.alerts:
                if labels.get("job") in jobs:
                    which = labels.get("tag") or labels.get("group") or labels.get("part") or ""
                    found.setdefault(rule.name, set()).add(which)
        return found

    def becomes(self, expected: Mapping[str, set[str]], *jobs: str) -> None:
        assert eventually(lambda: self.told(*jobs) == expected, timeout=120, interval=0.5), self.told(*jobs)


def fleet(name: str) -> Fleet:
    return Fleet(f"observer-{name}", workers=(f"executor-{name}", f"strays-{name}"), requeues=0, lost=1)


@pytest.fixture(scope="module")
def watched(victoria_metrics: VictoriaMetrics, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    needed("vmalert")
    mark = uuid.uuid4().hex[:8]
    names = [f"{word}-{mark}" for word in ("busy", "rest")]
    fleets = (*map(fleet, names), Fleet(f"observer-nobody-{mark}"))
    values = Values(
        runbooks="https://docs.example/runbooks",
        dashboards="https://grafana.example",
        services=tuple(Service(worker) for each in fleets for worker in each.workers),
        fleets=fleets,
    )
    text = rulefiles.vmalert(rule_set(values), values)
    often = text.replace("interval: 1m", "interval: 1s").replace("interval: 30s", "interval: 1s")
    with postgres.running(estate_fleet.VACUUMING) as server:
        busy, rest = (
            Platform(name, estate_fleet.database(server, name), tmp_path_factory.mktemp(name), victoria_metrics)
            for name in names
        )
        with estate_fleet.in_trouble(busy), estate_fleet.at_rest(rest):
            vmalert = VmAlert.start(tmp_path_factory.mktemp("vmalert"), often, victoria_metrics.url)
            try:
                yield Watched(vmalert, values, busy, rest)
            finally:
                vmalert.stop()


def test_all_that_is_wrong_is_told_and_nothing_else_with_two_exporters_at_work(watched: Watched) -> None:
    name = watched.busy.name
    watched.becomes(
        {
            "QueueLate": {"jam", "burst"},
            "QueueTagUnrouted": {"orphan", "worn"},
            "QueueTagUnserved": {"gpu", "burst", "shared"},
            "QueueTagStuck": {"jam"},
            "QueueJobsOverdue": {"doomed"},
            "QueueJobsAtRestartLimit": {"worn"},
            "QueueJobsRequeued": {"doomed"},
            "QueueJobsGivenUp": {"doomed"},
            "WorkerGroupMissing": {"gpu"},
            "WorkerGroupAsleep": {"burst"},
            "WorkerGroupOver": {"light"},
            "WorkerGroupDrainOverdue": {"disabled", "leaving"},
            "WorkerGroupUnregistered": {"stray"},
            "WorkerRegistryBroken": {""},
            "WorkerVersionSkew": {"heavy"},
            "WorkersLost": {"heavy"},
        },
        f"observer-{name}",
        f"executor-{name}",
        f"strays-{name}",
    )


def test_a_platform_at_rest_is_silent(watched: Watched) -> None:
    watched.becomes({}, f"observer-{watched.rest.name}", f"executor-{watched.rest.name}")


def test_an_observer_that_nobody_hears_is_told(watched: Watched) -> None:
    job = watched.values.fleets[-1].job
    watched.becomes({"FleetObserverAbsent": {""}}, job)


def test_no_rule_fails_and_each_finds_the_metrics_that_it_names(watched: Watched) -> None:
    assert eventually(lambda: all(rule.evaluated for rule in watched.vmalert.rules()), timeout=60)
    assert {f"{rule.name}: {rule.error}" for rule in watched.vmalert.rules() if rule.error} == set()
    named = {
        selector.metric
        for alert in rule_set(watched.values).alerts
        for selector in promql.read(alert.condition).selectors()
        if selector.metric.startswith("fleet_")
    }
    assert len(named) > 20
    store = watched.busy.store
    jobs = f"{watched.busy.jobs}|{watched.rest.jobs}"

    def silent() -> set[str]:
        return {name for name in named if not store.series(f'{name}{{job=~"{jobs}"}}')}

    assert eventually(lambda: not silent(), timeout=60, interval=1), silent()


def test_reads_that_fail_are_told_and_make_no_other_alert_fire(watched: Watched) -> None:
    rest = watched.rest
    job = f"observer-{rest.name}"
    with psycopg.connect(rest.url) as ddl:
        # Nobody but the observer asks for these while nothing runs.
        ddl.execute("LOCK TABLE job_completed, action IN ACCESS EXCLUSIVE MODE")
        watched.becomes({"FleetReadFailing": {"detail", "catalogue"}}, job)
        assert rest.store.query(f'fleet_queue_dead_rows{{job="{job}"}}') == []
        assert rest.store.query(f'fleet_queue_pending{{job="{job}"}}') != []
