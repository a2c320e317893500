"""The rules that a values file gives: complete, tested, leading somewhere, and free of what makes alerts lie."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import promql_parser
import pytest

from telemetry.grafana.alerts import slo
from telemetry.grafana.alerts.absent import SIGNS
from telemetry.grafana.alerts.cases import CASES
from telemetry.grafana.alerts.cases.records import KINDS, STAND_IN, Check, Scope
from telemetry.grafana.alerts.counters import grown
from telemetry.grafana.alerts.records import Alert, Recording
from telemetry.grafana.alerts.rules import grafana_uid, rule_set
from telemetry.grafana.alerts.unittests import scopes
from telemetry.grafana.alerts.values import Exporter, Kind, Latency, Service, Values, read
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.lint import names, promql

ROOT = Path(__file__).parents[2]
RUNBOOKS = ROOT / "docs" / "runbooks"
VALUES = read(ROOT / "examples" / "alerts" / "values.yaml")
KINDS_OF_EXPORTERS = [kind for kind in Kind.__args__ if kind != "other"]
# Every kind of exporter there is, so that no rule is left out.
FULL = msgspec.structs.replace(VALUES, exporters=tuple(Exporter(kind, f"{kind}-job") for kind in KINDS_OF_EXPORTERS))
RULES = rule_set(FULL)
ALERTS = list(RULES.alerts)
GROUPS = [*RULES.metrics, *RULES.logs]
PROMQL = [
    *((rule.name, rule.expression) for rule in RULES.recordings),
    *((alert.uid, alert.condition) for alert in ALERTS if alert.query.language == "promql"),
]

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert.uid)
each_expression = pytest.mark.parametrize("expression", [text for _, text in PROMQL], ids=[name for name, _ in PROMQL])


def headings(page: str) -> set[str]:
    found = re.findall(r"^#+ (.*)$", (RUNBOOKS / page).read_text(encoding="utf-8"), re.MULTILINE)
    return {heading.lower().replace(" ", "-") for heading in found}


def labels_of(expression: str) -> set[str]:
    return set(re.findall(r"\w+", expression))


@each_alert
def test_an_alert_says_what_why_and_where_to_look(alert: Alert) -> None:
    page, _, anchor = alert.runbook.partition("#")
    assert anchor in headings(page)
    assert alert.dashboard in {board.uid for board in BOARDS}
    assert alert.summary.endswith(".")
    assert alert.description.endswith(".")
    assert alert.query.about.endswith(".")
    places = set(re.findall(r"{{(\w+)}}", alert.summary)) - {"value"}
    # Recorded series keep the job that they were summed by.
    assert places <= labels_of(alert.condition) | alert.labels.keys() | (
        {"job"} if "slo:" in alert.condition else set()
    )
    assert not re.search(r"\$|{{", alert.description + "".join(alert.labels.values()))


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_an_alert_holds_for_two_evaluations_at_least(group) -> None:
    for rule in group.rules:
        if isinstance(rule, Alert):
            assert rule.hold >= 2 * group.interval, rule.uid
            assert rule.hold % group.interval == 0


@each_alert
def test_missing_data_is_told_by_a_guard_that_has_none_itself(alert: Alert) -> None:
    guards = [other for other in ALERTS if other.name == alert.guard]
    if alert.guard == "":
        assert re.fullmatch(r'absent\(\w+\{job="[^"]+"\}\)', alert.condition), "a guard reads no recording and no other"
    else:
        assert guards
        assert all(guard.guard == "" for guard in guards)


def test_every_service_and_exporter_has_a_guard_on_a_metric_of_its_own() -> None:
    guards = {alert.labels["job"]: alert for alert in ALERTS if alert.name in {"ServiceAbsent", "ExporterAbsent"}}
    assert tuple(guards) == FULL.jobs
    assert SIGNS.keys() == set(KINDS_OF_EXPORTERS)
    for exporter in FULL.exporters:
        assert guards[exporter.job].condition == f'absent({SIGNS[exporter.kind]}{{job="{exporter.job}"}})'
    severities = [guards[service.name].severity for service in FULL.services]
    assert severities == ["critical", "critical", "warning", "warning"]


def test_every_objective_is_told_when_it_cannot_be_judged() -> None:
    told = {(alert.labels["job"], alert.labels["slo"]) for alert in ALERTS if alert.name == "SloWithoutData"}
    assert told == {(service.name, objective) for service in FULL.services for objective in service.slos}


@each_expression
def test_an_expression_is_promql_that_prometheus_takes_too(expression: str) -> None:
    promql_parser.parse(expression)
    read = promql.read(expression)
    assert not promql.has_vector_zero(read)
    assert not list(promql.raw_counters(read))


@each_expression
def test_an_expression_names_what_is_told_or_recorded(expression: str) -> None:
    recorded = {rule.name for rule in RULES.recordings}
    known = names.catalogue()
    for selector in promql.read(expression).selectors():
        if selector.metric.startswith("slo:"):
            assert selector.metric in recorded
        else:
            assert known.find(selector.metric) is not None, selector.metric


def test_a_rule_reads_only_what_earlier_groups_recorded() -> None:
    seen: set[str] = set()
    for group in RULES.metrics:
        texts = [rule.expression if isinstance(rule, Recording) else rule.condition for rule in group.rules]
        read = {selector.metric for text in texts for selector in promql.read(text).selectors()}
        assert {name for name in read if name.startswith("slo:")} <= seen, group.name
        seen |= {rule.name for rule in group.rules if isinstance(rule, Recording)}


def fires(scope: Scope, check: Check) -> bool:
    """Whether the alert itself fires, not another of its name or its guard."""
    return any((firing.alert or check.alert) == scope.alert for firing in check.firing)


@pytest.mark.parametrize("scope", list(scopes(FULL)), ids=lambda scope: f"{scope.alert.uid}.{scope.job}")
def test_every_alert_has_four_kinds_of_test_that_look_at_it(scope: Scope) -> None:
    cases = CASES[scope.alert.name](scope)
    assert {case.kind for case in cases} == set(KINDS)
    for case in cases:
        seen = [fires(scope, check) for check in sorted(case.checks, key=lambda each: each.at)]
        guards = [check for check in case.checks if check.firing and check.alert.name == scope.alert.guard]
        if case.kind == "not early":
            assert not any(seen)
        elif case.kind == "fires":
            assert seen[-1]
        elif case.kind == "resolves":
            assert seen[0]
            assert not seen[-1]
        elif scope.alert.guard:
            assert guards
            assert not any(seen)
        else:
            assert seen[-1]


def test_every_metric_alert_is_in_a_test() -> None:
    tested = {scope.alert.name for scope in scopes(FULL)}
    assert tested == {alert.name for alert in ALERTS if alert.query.language == "promql"} == CASES.keys()


def test_uids_are_unique_and_fit_grafana() -> None:
    uids = [alert.uid for alert in ALERTS]
    assert len(set(uids)) == len(uids)
    for alert in ALERTS:
        if alert.query.language == "logql":
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", alert.uid)


def test_a_long_or_odd_name_becomes_a_uid_of_its_own() -> None:
    assert grafana_uid("frontend-error-spike-shop") == "frontend-error-spike-shop"
    long = [grafana_uid(f"frontend-error-spike-{'x' * 30}{end}") for end in "ab"]
    odd = [grafana_uid(name) for name in ("a/b", "a:b", "ä-b")]
    assert len({*long, *odd}) == 5
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,40}", uid) for uid in (*long, *odd))


def test_the_same_values_give_the_same_rules() -> None:
    assert rule_set(VALUES) == rule_set(read(ROOT / "examples" / "alerts" / "values.yaml"))


def test_values_without_objectives_have_no_rules_for_them() -> None:
    few = rule_set(Values(runbooks=VALUES.runbooks, dashboards=VALUES.dashboards, services=(Service("a"),)))
    assert [group.name for group in few.metrics] == [
        "fleetglass-telemetry",
        "fleetglass-frontend",
        "fleetglass-stack",
        "fleetglass-absent",
    ]
    assert few.logs == ()
    assert list(few.recordings) == []


class TestObjectives:
    def test_budgets_are_what_was_meant(self) -> None:
        service = Service("a", availability=0.999, latency=Latency(threshold=0.25, objective=0.95))
        found = [(rule.name, dict(rule.labels), rule.expression) for rule in slo.objectives((service,))]
        assert found == [
            ("slo:budget:ratio", {"job": "a", "slo": "availability"}, "vector(0.001)"),
            ("slo:budget:ratio", {"job": "a", "slo": "latency"}, "vector(0.05)"),
            ("slo:latency_threshold:info", {"job": "a", "le": "0.25"}, "vector(1)"),
        ]

    def test_a_whole_threshold_fits_a_bound_however_it_is_written(self) -> None:
        service = Service("a", latency=Latency(threshold=5.0, objective=0.95))
        assert [rule.labels["le"] for rule in slo.objectives((service,)) if "le" in rule.labels] == ["5.0", "5"]

    def test_the_windows_are_the_mixins_table(self) -> None:
        assert [(burn.long, burn.short, burn.factor, burn.hold, burn.severity) for burn in slo.BURNS] == [
            ("1h", "5m", 14.4, 2 * 60, "critical"),
            ("6h", "30m", 6, 15 * 60, "critical"),
            ("1d", "2h", 3, 60 * 60, "warning"),
            ("3d", "6h", 1, 3 * 60 * 60, "warning"),
        ]
        hours = {"1h": 1, "6h": 6, "1d": 24, "3d": 72}
        for burn in slo.BURNS:
            assert f"{burn.factor * hours[burn.long] / 720:.0%}".replace("%", " %") == burn.spent
        assert {burn.long for burn in slo.BURNS} | {burn.short for burn in slo.BURNS} == {
            *slo.FAST_WINDOWS,
            *slo.SLOW_WINDOWS,
        }

    def test_the_stand_in_can_burn_at_every_speed(self) -> None:
        assert STAND_IN.availability is not None
        assert STAND_IN.latency is not None
        assert 14.4 * (1 - STAND_IN.availability) < 1
        assert 14.4 * (1 - STAND_IN.latency.objective) < 1


def test_a_burst_in_a_newborn_counter_is_found_unless_nobody_looked_before() -> None:
    text = grown("lost_total", "job", "10m")
    promql_parser.parse(text)
    assert "unless lost_total offset 10m and on (job, instance) up offset 10m" in text


def test_a_job_with_a_dot_is_matched_as_it_is() -> None:
    values = Values(runbooks="https://r", dashboards="https://d", services=(Service("shop.api"), Service("web")))
    (down,) = [alert for alert in rule_set(values).alerts if alert.name == "TargetDown"]
    assert 'up{job=~"shop\\\\.api|web"}' in down.condition
    (selector,) = promql.read(down.condition).selectors()
    assert selector.matchers[0].value == "shop\\.api|web"


@pytest.mark.parametrize("page", sorted({alert.runbook.partition("#")[0] for alert in ALERTS}))
def test_queries_in_a_runbook_can_be_typed_as_they_are(page: str) -> None:
    text = (RUNBOOKS / page).read_text(encoding="utf-8")
    queries = re.findall(r"^ *```promql\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    queries += [quoted for quoted in re.findall(r"`([^`]+)`", text) if re.match(r"(topk|sum by) ?\(", quoted)]
    for query in queries:
        promql_parser.parse(query)
    if page in {"service-slo.md", "stack.md", "telemetry.md"}:
        assert queries


@each_alert
def test_a_runbook_says_what_it_means_and_how_to_silence_it(alert: Alert) -> None:
    page, _, anchor = alert.runbook.partition("#")
    text = (RUNBOOKS / page).read_text(encoding="utf-8")
    sections = {
        heading.lower().replace(" ", "-"): body
        for heading, body in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", text, re.MULTILINE)
    }
    assert "silence" in sections[anchor].lower()
    assert len(sections[anchor]) > 400
