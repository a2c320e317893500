"""Test files for ``vmalert-tool unittest``, from the cases: a rule file and a test file for each alert."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from telemetry.grafana.alerts import rulefiles
from telemetry.grafana.alerts.cases import CASES
from telemetry.grafana.alerts.cases.records import STAND_IN, Case, Check, Firing, Scope
from telemetry.grafana.alerts.records import Alert, RuleSet
from telemetry.grafana.alerts.rules import rule_set
from telemetry.grafana.alerts.values import Fleet, Values


class Unit(msgspec.Struct, frozen=True):
    """The tests of one alert about one job, as the text of two files; ``tests`` names the other ``rules.yaml``."""

    name: str
    rules: str
    tests: str

    def write(self, folder: Path) -> Path:
        """Write both into a folder of their own in ``folder``; the path of the test file."""
        home = folder / self.name
        home.mkdir(parents=True, exist_ok=True)
        (home / "rules.yaml").write_text(self.rules, encoding="utf-8")
        path = home / "tests.yaml"
        path.write_text(self.tests, encoding="utf-8")
        return path


def units(values: Values) -> Iterator[Unit]:
    """The tests of every alert of ``values`` that vmalert evaluates."""
    for scope in scopes(values):
        name = rulefiles.file_name(f"{scope.alert.uid}.{scope.job}")
        rules = rulefiles.vmalert(scope.rules, scope.values)
        yield Unit(name, rules, _tests(scope, CASES[scope.alert.name](scope)))


def scopes(values: Values) -> Iterator[Scope]:
    """Each alert with values that hold only what it is about.

    What is the same for all services is tested once, by a stand-in for one of them.
    """
    for service in values.services:
        narrow = msgspec.structs.replace(values, services=(service,), exporters=(), fleets=())
        for scope in _scopes(narrow, service.name):
            if scope.alert.labels.get("job") == service.name:
                yield scope
    for exporter in values.exporters:
        narrow = msgspec.structs.replace(values, services=(), exporters=(exporter,), fleets=())
        for scope in _scopes(narrow, exporter.job):
            if scope.alert.labels.get("job") == exporter.job or scope.alert.guard == "ExporterAbsent":
                yield scope
    for fleet in values.fleets:
        yield from _of_fleet(values, fleet)
    narrow = msgspec.structs.replace(values, services=(STAND_IN,), exporters=(), fleets=())
    for scope in _scopes(narrow, STAND_IN.name):
        if "job" not in scope.alert.labels:
            yield scope


def _of_fleet(values: Values, fleet: Fleet) -> Iterator[Scope]:
    """The alerts of one fleet, by its own thresholds; a stand-in is its workers."""
    fleet = msgspec.structs.replace(fleet, workers=(STAND_IN.name,) if fleet.workers else ())
    narrow = msgspec.structs.replace(values, services=(STAND_IN,), exporters=(), fleets=(fleet,))
    for scope in _scopes(narrow, fleet.job):
        if scope.alert.uid.endswith(f"-{fleet.job}"):
            told_by_workers = "job" not in scope.alert.labels
            yield msgspec.structs.replace(scope, job=STAND_IN.name) if told_by_workers else scope


def _scopes(values: Values, job: str) -> Iterator[Scope]:
    rules = rule_set(values)
    for group in rules.metrics:
        for alert in group.rules:
            if isinstance(alert, Alert):
                yield Scope(alert, job, values, _needed(rules, alert))


def _needed(rules: RuleSet, alert: Alert) -> RuleSet:
    """``alert`` and its guard in their groups, and the recordings that it reads: the rest costs time."""
    wanted = {alert.name, alert.guard}
    if alert.guard == "FleetObserverAbsent":
        # It is silent for another reason, too: its figures could not be read.
        wanted.add("FleetReadFailing")
    reads = "slo:" in alert.condition
    found = []
    for group in rules.metrics:
        whole = reads and group.name.startswith("fleetglass-slo")
        kept = tuple(rule for rule in group.rules if whole or (isinstance(rule, Alert) and rule.name in wanted))
        if kept:
            found.append(msgspec.structs.replace(group, rules=kept))
    return RuleSet(metrics=tuple(found), logs=())


def _tests(scope: Scope, cases: tuple[Case, ...]) -> str:
    (step,) = {case.step for case in cases}
    content = {
        "rule_files": ["rules.yaml"],
        "evaluation_interval": rulefiles.duration(step),
        "group_eval_order": [group.name for group in scope.rules.metrics],
        "tests": [_test(scope, together) for together in _together(cases)],
    }
    return rulefiles.document(content, "vmalert-tool unittest")


def _together(cases: tuple[Case, ...]) -> Iterator[tuple[Case, ...]]:
    """Cases over the same series, which one run can check at their moments: days of evaluations take their time."""
    left = list(cases)
    while left:
        same = tuple(case for case in left if case.series == left[0].series)
        left = [case for case in left if case not in same]
        yield same


def _test(scope: Scope, cases: tuple[Case, ...]) -> dict[str, Any]:
    checks = sorted((check for case in cases for check in case.checks), key=lambda check: check.at)
    return {
        "name": f"{scope.alert.title}: {', '.join(dict.fromkeys(case.kind for case in cases))}",
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in cases[0].series.items()],
        "alert_rule_test": [_check(scope, check) for check in checks],
    }


def _check(scope: Scope, check: Check) -> dict[str, Any]:
    return {
        "eval_time": rulefiles.duration(check.at),
        "groupname": _group_of(scope.rules, check.alert),
        "alertname": check.alert.name,
        "exp_alerts": [_expected(scope, firing, firing.alert or check.alert) for firing in check.firing],
    }


def _expected(scope: Scope, firing: Firing, alert: Alert) -> dict[str, Any]:
    return {
        "exp_labels": {**rulefiles.labels(alert), **firing.labels},
        "exp_annotations": {**rulefiles.notes(alert, scope.values, ".Value"), "summary": firing.summary},
    }


def _group_of(rules: RuleSet, alert: Alert) -> str:
    return next(group.name for group in rules.metrics if alert in group.rules)
