"""Rules on alerts and recordings: Prometheus, vmalert, VMRule, PrometheusRule, Loki's ruler, Grafana-managed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from telemetry.grafana.lint import promql
from telemetry.grafana.lint.documents import Place
from telemetry.grafana.lint.expressions import Asked, World
from telemetry.grafana.lint.expressions import lint as lint_query
from telemetry.grafana.lint.findings import Finding, names
from telemetry.grafana.lint.things import Group, Rule

ANNOTATIONS: Final = ("summary", "description", "runbook_url", "dashboard_uid")
DEFAULT_INTERVAL: Final = 60.0
"""Seconds between evaluations where a group doesn't say: the default of Prometheus, vmalert and Loki's ruler."""
_VALUE = re.compile(r"\$value\b|\$values\b|\{\{[^}]*\.Value\b")


def lint(groups: list[Group], world: World) -> Iterator[Finding]:
    """All findings on rule groups that need no dashboards."""
    for group in groups:
        yield from _group(group)
        for rule in group.rules:
            for expression in rule.expressions:
                if not expression.text:
                    yield rule.place.found("rule-expression", "The rule has no expression.")
                asked = Asked(expression.text, expression.language, expression.place, False, True)
                yield from lint_query(asked, world)
            if rule.alert:
                yield from _alert(rule, group)
            if rule.managed:
                yield from _managed(rule)
        yield from _order(group)
    yield from _twice(groups)


def recorded(groups: list[Group]) -> frozenset[str]:
    """Names of the series that rules record."""
    return frozenset(rule.name for group in groups for rule in group.rules if not rule.alert)


def _group(group: Group) -> Iterator[Finding]:
    if not group.name:
        yield group.place.found("alert-duplicate", "Give the group a name.")
    if group.managed and not isinstance(group.place.value.get("folder"), str):
        yield group.place.found("managed-alert", "Name the folder that Grafana keeps the group in (`folder`).")
    if group.managed and group.interval is None:
        yield group.place.found("managed-alert", "Say how often the group is evaluated (`interval`).")


def _alert(rule: Rule, group: Group) -> Iterator[Finding]:
    found = rule.place.found
    if not rule.labels.get("severity"):
        yield found("alert-severity", "Add the label `severity`.")
    missing = [name for name in ANNOTATIONS if not rule.annotations.get(name) and not _other_name(rule, name)]
    if missing:
        yield found("alert-annotations", f"Add the annotations {', '.join(missing)}.")
    for name, value in rule.labels.items():
        if isinstance(value, str) and _VALUE.search(value):
            message = f"The label {name} holds the value, which makes a new alert each time: say it in an annotation."
            yield (rule.place / "labels" / name).found("alert-value-label", message)
    interval = group.interval or DEFAULT_INTERVAL
    hold = rule.hold or 0.0
    if hold < 2 * interval:
        says = f"`for` is {hold:g} s" if rule.hold is not None else "There is no `for`"
        message = f"{says}, and the group is evaluated every {interval:g} s: take at least {2 * interval:g} s."
        yield found("alert-for", message)


def _other_name(rule: Rule, name: str) -> bool:
    """Grafana's own annotation for a dashboard counts as well."""
    return name == "dashboard_uid" and bool(rule.annotations.get("__dashboardUid__"))


def _managed(rule: Rule) -> Iterator[Finding]:
    data: dict[str, Any] = rule.place.value
    found = rule.place.found
    wanted = ["uid", "title", *(("condition", "for", "noDataState", "execErrState") if rule.alert else ())]
    missing = [key for key in wanted if key not in data]
    if missing:
        yield found("managed-alert", f"Say {', '.join(missing)}.")
    uid = data.get("uid")
    if isinstance(uid, str) and not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", uid):
        yield (rule.place / "uid").found("managed-alert", "A uid has at most 40 letters, digits, - and _.")
    listed = data.get("data")
    queries = [query for query in listed if isinstance(query, dict)] if isinstance(listed, list) else []
    refs = {str(query.get("refId")) for query in queries}
    condition = data.get("condition")
    if isinstance(condition, str) and condition not in refs:
        message = f"The condition {condition!r} is none of the queries {names(refs)}."
        yield (rule.place / "condition").found("managed-alert", message)
    for index, query in enumerate(queries):
        if str(query.get("datasourceUid")) not in {"__expr__", "-100"} and "relativeTimeRange" not in query:
            message = f"Query {query.get('refId')} has no relativeTimeRange."
            yield (rule.place / "data" / index).found("managed-alert", message)


def _order(group: Group) -> Iterator[Finding]:
    made = {rule.name for rule in group.rules if not rule.alert}
    for rule in group.rules:
        for expression in rule.expressions:
            if expression.language != "promql":
                continue
            used = {selector.metric for selector in promql.read(expression.text).selectors()} & made
            if used:
                message = f"{names(used)} is recorded in the same group: move this rule to a later one."
                yield expression.place.found("rule-order", message)


def _twice(groups: list[Group]) -> Iterator[Finding]:
    seen: dict[tuple[str, str, str], Group] = {}
    uids: dict[str, Rule] = {}
    for group in groups:
        folder = str(group.place.value.get("folder")) if group.managed else ""
        first = seen.setdefault((_file(group.place), group.name, folder), group)
        if group.name and first is not group:
            yield group.place.found(
                "alert-duplicate", f"The group {group.name!r} stands in line {_line(first.place)} too."
            )
        counts = Counter(_identity(rule) for rule in group.rules if rule.name)
        for rule in group.rules:
            uid = rule.place.value.get("uid") if rule.managed else None
            if isinstance(uid, str):
                other = uids.setdefault(uid, rule)
                if other is not rule:
                    message = (
                        f"The uid {uid!r} is also that of {other.name!r} in {_file(other.place)}:{_line(other.place)}."
                    )
                    yield rule.place.found("alert-duplicate", message)
            elif rule.name and counts[_identity(rule)] > 1:
                yield rule.place.found("alert-duplicate", "The rule stands twice in its group.")


def _identity(rule: Rule) -> tuple[object, ...]:
    labels = tuple(sorted((str(name), str(value)) for name, value in rule.labels.items()))
    return rule.name, tuple(each.text for each in rule.expressions), labels


def _file(place: Place) -> str:
    return f"{place.document.file}{place.document.inside}"


def _line(place: Place) -> int:
    return place.document.line(place.path)
