"""Alerts on queue and fleet: only what the values name, one voice whoever exports, thresholds as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import promql_parser as parser
import pytest
import yaml

from telemetry.catalogue import METRICS
from telemetry.grafana.alerts import fleet, rulefiles
from telemetry.grafana.alerts.alertmanager import alertmanager
from telemetry.grafana.alerts.cases.observed import clock, lasting, spans
from telemetry.grafana.alerts.observed import held
from telemetry.grafana.alerts.records import Alert
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.unittests import scopes, units
from telemetry.grafana.alerts.values import Fleet, Service, Values, ValuesError, parse
from telemetry.grafana.lint import promql

HEAD = "runbooks: https://r.example\ndashboards: https://g.example\nservices: [{name: worker}, {name: reaper}]\n"
OBSERVED = {name for name, spec in METRICS.items() if spec.origin == "telemetry.fleet.observer"}
BY_WORKERS = {"QueueJobsRequeued", "QueueJobsGivenUp", "QueueJobsFailing", "WorkerHeartbeatFailing"}
FULL = Fleet("observer", workers=("worker", "re.aper"), scaled_groups=("gpu.a", "gpu-b"))


def alerts(of: Fleet) -> list[Alert]:
    return [rule for group in fleet.groups(of) for rule in group.rules if isinstance(rule, Alert)]


def names(of: Fleet) -> set[str]:
    return {alert.name for alert in alerts(of)}


def values(*fleets: Fleet) -> Values:
    return Values(
        runbooks="https://r.example", dashboards="https://g.example", services=(Service("worker"),), fleets=fleets
    )


class TestWhatIsThere:
    def test_without_a_fleet_nothing_is_said_of_one(self) -> None:
        found = [alert.condition for alert in rule_set(values()).alerts]
        assert found
        assert not any("fleet_" in condition for condition in found)

    def test_a_platform_without_a_queue_has_workers_and_an_observer(self) -> None:
        found = names(Fleet("observer", queue=False))
        assert {"WorkerGroupMissing", "WorkersLost", "FleetReadFailing", "FleetReadOld"} <= found
        assert not {name for name in found if name.startswith("Queue")}
        (old,) = [alert for alert in alerts(Fleet("observer", queue=False)) if alert.name == "FleetReadOld"]
        assert 'part="workers"' in old.condition
        assert "queue|workers" not in old.condition

    def test_a_platform_without_a_registry_has_no_alert_on_what_was_asked_for(self) -> None:
        found = names(Fleet("observer", registry=False))
        assert {"QueueLate", "WorkerVersionSkew", "WorkersLost"} <= found
        assert not {name for name in found if name.startswith(("WorkerBadges", "WorkerGroup", "WorkerRegistry"))}

    def test_what_workers_tell_is_asked_of_those_that_are_named(self) -> None:
        assert not BY_WORKERS & names(Fleet("observer"))
        assert names(FULL) >= BY_WORKERS
        for alert in alerts(FULL):
            jobs = {matcher.value for each in promql.read(alert.condition).selectors() for matcher in each.matchers}
            if alert.name in BY_WORKERS:
                assert "worker|re\\.aper" in jobs
                assert "job" not in alert.labels
            else:
                assert "observer" in jobs
                assert alert.labels == {"job": "observer"}

    def test_each_fleet_has_its_own(self) -> None:
        found = rule_set(values(Fleet("a"), Fleet("b")))
        uids = [alert.uid for alert in found.alerts]
        assert len(uids) == len(set(uids))
        assert {"queue-late-a", "queue-late-b", "fleet-observer-absent-a", "fleet-observer-absent-b"} <= set(uids)
        groups = [group.name for group in found.metrics]
        assert len(groups) == len(set(groups))

    def test_nobody_is_told_of_a_scaled_group_twice(self) -> None:
        (late,) = [alert for alert in alerts(FULL) if alert.name == "QueueLate"]
        (selector,) = promql.read(late.condition).selectors()
        assert [(each.op, each.value) for each in selector.matchers if each.name == "group"] == [
            ("!~", "gpu\\.a|gpu-b")
        ]
        # The names of the two sets differ, so that a silence for one is none for the other.
        assert not {"WorkerGroupBehind", "WorkerGroupOverrun", "WorkerGroupLate", "WorkerGroupUnknown"} & names(FULL)


def observed(alert: Alert) -> Iterator[promql.Selector]:
    return (each for each in promql.read(alert.condition).selectors() if each.metric in OBSERVED)


@pytest.mark.parametrize("alert", alerts(FULL), ids=lambda alert: alert.uid)
class TestEach:
    def test_a_second_exporter_doubles_nothing(self, alert: Alert) -> None:
        for selector in observed(alert):
            nearest = [node for node in selector.around if isinstance(node, parser.AggregateExpr)]
            assert nearest, selector.metric
            assert str(nearest[-1].op).endswith("max"), selector.metric
        assert list(observed(alert)) or alert.name in BY_WORKERS

    def test_it_asks_for_the_series_of_its_platform_alone(self, alert: Alert) -> None:
        for selector in promql.read(alert.condition).selectors():
            if selector.metric != "up":  # joined by job and instance
                assert "job" in {matcher.name for matcher in selector.matchers}, selector.metric

    def test_it_is_evaluated_twice_before_it_fires(self, alert: Alert) -> None:
        assert alert.hold >= 2 * fleet.INTERVAL
        assert alert.hold % fleet.INTERVAL == 0


def test_severities_are_those_of_what_they_cost() -> None:
    by = {alert.name: alert.severity for alert in alerts(FULL)}
    assert {name for name, severity in by.items() if severity == "critical"} == {
        "QueueLate",
        "QueueTagUnrouted",
        "QueueTagUnserved",
        "QueueTagStuck",
        "WorkerGroupMissing",
        "WorkerGroupAsleep",
        "FleetReadOld",
    }
    assert {name for name, severity in by.items() if severity == "info"} == {
        "QueueTagsCut",
        "WorkerGroupOver",
        "WorkerGroupUnregistered",
    }


def test_thresholds_are_those_of_the_values_to_the_last_digit() -> None:
    odd = Fleet("o", workers=("worker",), slo=86_401, overdue=1_234_567, dead_rows=98_765_432, failures=0.125, lost=7)
    conditions = {alert.name: alert.condition for alert in alerts(odd)}
    assert conditions["QueueLate"].endswith(" > 86401")
    assert conditions["QueueJobsOverdue"].endswith(" > 1234567")
    assert conditions["QueueSnapshotHeld"].endswith(" > 98765432")
    assert "(98765432 + 0.4 * " in conditions["QueueVacuumMissing"]
    assert conditions["QueueJobsFailing"].endswith(" > 0.125")
    assert conditions["WorkersLost"].endswith(" > 7")


def test_times_become_whole_evaluations() -> None:
    assert [held(seconds) for seconds in (1, 60, 61, 89.5, 600)] == [60, 60, 90, 90, 600]
    slow = {alert.name: alert.hold for alert in alerts(Fleet("o", rollout=1801, scale_up=5, drain_timeout=570))}
    assert (slow["WorkerVersionSkew"], slow["WorkerGroupShort"], slow["WorkerGroupOver"]) == (1830, 1830, 1830)
    assert (slow["WorkerGroupAsleep"], slow["QueueTagUnserved"]) == (60, 60)
    assert slow["WorkerGroupDrainOverdue"] == 600
    # A minute without anybody is told whatever a release takes.
    assert slow["WorkerGroupMissing"] == 60


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fleets:\n  - {queue: true}\n", "alerts.yaml:5: fleets[0]: job is missing"),
        ("fleets:\n  - job: o\n    slo: 0\n", "alerts.yaml:6: fleets[0].slo: expected seconds, more than 0"),
        ("fleets:\n  - job: o\n    rollout: .inf\n", "alerts.yaml:6: fleets[0].rollout: expected seconds, more than 0"),
        ("fleets:\n  - job: o\n    slo: 5m\n", "alerts.yaml:6: fleets[0].slo: expected a number, got text"),
        ("fleets:\n  - job: o\n    lost: -1\n", "alerts.yaml:6: fleets[0].lost: expected a number from 0 on"),
        ("fleets:\n  - job: o\n    dead_rows: .nan\n", "alerts.yaml:6: fleets[0].dead_rows: expected a number from 0"),
        ("fleets:\n  - job: o\n    failures: 20\n", "alerts.yaml:6: fleets[0].failures: expected a share between 0"),
        ("fleets:\n  - job: o\n    slos: 3\n", "alerts.yaml:6: fleets[0].slos: no such key; did you mean slo?"),
        ("fleets:\n  - job: o\n    queue: 1\n", "alerts.yaml:6: fleets[0].queue: expected true or false, got a number"),
        (
            "fleets:\n  - job: o\n    workers: [worker, worke]\n",
            "alerts.yaml:6: fleets[0].workers[1]: nobody would tell of its silence: no service is called 'worke'; did",
        ),
        (
            "fleets:\n  - job: o\n    registry: false\n    scaled_groups: [gpu]\n",
            "alerts.yaml:7: fleets[0].scaled_groups: without a registry nobody says which tags are a group's",
        ),
        ("fleets:\n  - {job: o}\n  - {job: o}\n", "alerts.yaml:6: fleets[1].job: o stands here twice"),
        ("fleets:\n  - {job: a b}\n", "alerts.yaml:5: fleets[0].job: expected a name of letters"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(ValuesError) as caught:
        parse(HEAD + text, "alerts.yaml")
    assert str(caught.value).startswith(said)


def test_all_defaults_can_be_used() -> None:
    (read,) = parse(HEAD + "fleets: [{job: o}]\n").fleets
    assert read == Fleet("o")


def test_each_is_tested_by_the_thresholds_of_its_fleet() -> None:
    ours = values(msgspec.structs.replace(FULL, workers=("worker",), slo=77, failures=0.5))
    tested = {scope.alert.name: scope for scope in scopes(ours) if "fleet_" in scope.alert.condition}
    assert tested.keys() == names(FULL) | {"FleetObserverAbsent"}
    assert tested["QueueLate"].alert.above == 77
    assert tested["QueueLate"].job == "observer"
    # What workers tell has the job of whoever tells it; a stand-in is as good as each.
    assert tested["QueueJobsFailing"].job == "shop"
    (late,) = [unit for unit in units(ours) if unit.name.startswith("queue-late")]
    rules = [rule["alert"] for group in yaml.safe_load(late.rules)["groups"] for rule in group["rules"]]
    assert rules == ["QueueLate", "FleetReadFailing", "FleetObserverAbsent"], "others of its group only cost time"


def test_a_cause_holds_back_what_follows_from_it() -> None:
    example = Path(__file__).parents[2] / "examples" / "alerts" / "values.yaml"
    whole = parse(example.read_text(encoding="utf-8"))
    known = {alert.name for alert in rule_set(whole).alerts}
    held_back = yaml.safe_load(alertmanager(rule_set(whole), whole))["inhibit_rules"]
    for rule in held_back:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            name, _, value = matcher.partition("=")
            if name == "alertname":
                assert set(value.strip('~"').split("|")) <= known
    texts = {(rule["source_matchers"][0], rule["target_matchers"][0], *rule["equal"]) for rule in held_back}
    late = 'alertname="QueueLate"'
    assert ('alertname=~"QueueTagUnrouted|QueueTagUnserved|QueueTagStuck"', late, "job", "tag") in texts
    without = msgspec.structs.replace(whole, fleets=())
    assert late not in alertmanager(rule_set(without), without)


def test_a_cause_and_what_follows_from_it_have_the_labels_in_which_they_must_agree() -> None:
    """Labels that both lack count as equal, and one alert would hold back all."""
    by_name = {alert.name: alert for alert in alerts(FULL)}
    needed = {
        "group": ("WorkerGroupMissing", "WorkerGroupAsleep", "QueueTagUnserved", "QueueLate"),
        "tag": ("QueueTagUnrouted", "QueueTagUnserved", "QueueTagStuck", "QueueLate"),
        "part": ("FleetReadOld", "FleetReadFailing"),
    }
    for label, those in needed.items():
        for name in those:
            aggregated = [
                node
                for node, _ in promql.read(by_name[name].condition).nodes()
                if isinstance(node, parser.AggregateExpr)
            ]
            assert label in str(aggregated[0].modifier.labels)


def test_a_duration_is_told_as_people_say_it() -> None:
    (late,) = [alert for alert in alerts(FULL) if alert.name == "QueueLate"]
    summary = rulefiles.notes(late, values(FULL), ".Value")["summary"]
    assert summary == "The oldest job of {{ .Labels.tag }} has waited for {{ .Value | humanizeDuration }}."
    assert [lasting(seconds) for seconds in (7, 61, 3_600, 90_061)] == ["7s", "1m 1s", "1h 0m 0s", "1d 1h 1m 1s"]


def test_series_of_cases_are_written_as_unit_tests_have_them() -> None:
    assert spans((2, 1), (1, None), (3, 0)) == "1+0x1 stale 0+0x2"
    assert spans((2, None), (1, 1_000_001)) == "_x2 1000001+0x0"
    assert clock(2, 2, 1) == "946684800+60x1 946684860+0x1 946685040+60x0"
