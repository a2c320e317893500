"""Cases of the guards: for them, missing data is what they fire on, from the start or after a life."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone
from telemetry.grafana.alerts.records import Alert


def guard(scope: Scope) -> tuple[Case, ...]:
    """The sign is there for 20 minutes and away from 21 on; it comes back at 40."""
    sign = scope.alert.query.expression.removeprefix("absent(").removesuffix(")")
    firing = Firing({}, scope.alert.summary.replace("{{job}}", scope.job))
    life = {sign: f"{gone(gauge((21, 1)))} _x18 {gauge((20, 1))}"}
    # Another of the same kind is no sign of this one.
    other = {sign.replace(f'"{scope.job}"', '"another"'): gauge((60, 1))}
    return (
        Case("not early", {**life, **other}, (scope.at(25),)),
        Case("fires", {**life, **other}, (scope.at(26, firing),)),
        Case("resolves", life, (scope.at(39, firing), scope.at(40))),
        Case("data missing", other, (scope.at(4), scope.at(5, firing))),
    )


def slo_without_data(scope: Scope) -> tuple[Case, ...]:
    """The service talks from the start; requests come at 50, which makes its objectives known.

    Where buckets never come, as when the threshold is the bound of none, the objective for latency stays unknown.
    """
    count = f'http_server_request_duration_seconds_count{{job="{scope.job}", http_response_status_code="200"}}'
    bucket = count.replace("_count{", "_bucket{").replace("}", ', le="%s"}')
    requests = {series: f"_x50 {counter((40, 10))}" for series in (count, *(bucket % le for le in scope.bounds()))}
    talks = {scope.sign(): gauge((90, 1))}
    blind = [each for each in scope.rules.alerts if each.name == scope.alert.name]
    firing = {each.labels["slo"]: _unknown(scope, each) for each in blind}
    latency = [firing[slo] for slo in firing if slo == "latency"]
    return (
        Case("not early", {**talks, **requests}, (scope.at(29),)),
        Case("fires", {**talks, **requests}, (scope.at(30, *firing.values()),)),
        Case(
            "fires" if scope.alert.labels["slo"] == "latency" else "not early",
            {**talks, count: requests[count]},
            (scope.at(60, *latency),),
        ),
        Case("resolves", {**talks, **requests}, (scope.at(49, *firing.values()), scope.at(52))),
        Case("data missing", {scope.sign(): gone(gauge((10, 1)))}, (scope.at(60), scope.guard(60))),
    )


def _unknown(scope: Scope, alert: Alert) -> Firing:
    summary = alert.summary.replace("{{job}}", scope.job).replace("{{slo}}", alert.labels["slo"])
    return Firing({}, summary, alert)
