"""Cases of the metric alerts on browser errors."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone


def _errors(scope: Scope, kind: str) -> str:
    return f'frontend_errors_total{{job="{scope.job}", instance="a:80", kind="{kind}"}}'


def spike(scope: Scope) -> tuple[Case, ...]:
    """From 70 to 90 there are 50 errors a minute where one was usual; 25 a minute of another kind always were."""
    error, usual = _errors(scope, "error"), _errors(scope, "react")
    trouble = {error: counter((70, 1), (20, 50), (60, 1)), usual: counter((150, 25))}

    def firing(count: int) -> Firing:
        summary = f"browser errors of kind error happened {count} times in five minutes, more than usual."
        return Firing({"job": scope.job, "kind": "error"}, f"{scope.job}: {summary}")

    ended = {error: gone(counter((70, 1), (3, 50)))}
    return (
        # 103 after two minutes (2 * 50 + 3) are the first count above 100.
        Case("not early", trouble, (scope.at(73),)),
        Case("fires", trouble, (scope.at(74, firing(201)),)),
        # At 91 the hour before has a third as many: the spike becomes what is usual, and the alert has been read.
        Case("resolves", trouble, (scope.at(95, firing(250)), scope.at(96))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((74, 1)))}, (scope.at(90), scope.guard(90))),
    )


def refusing(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 40 a third of the reports is refused for one reason, and a fifth of them for another all the time."""
    labels = f'job="{scope.job}", instance="a:80"'
    accepted = f'frontend_reports_total{{{labels}, result="accepted"}}'
    refused = f'frontend_reports_total{{{labels}, result="unauthorized"}}'
    noise = f'frontend_reports_total{{{labels}, result="noise"}}'
    trouble = {accepted: counter((90, 6)), refused: counter((20, 0), (20, 4), (50, 0)), noise: counter((90, 2))}

    def firing(share: str) -> Firing:
        summary = f"{scope.job} refuses {share} of the browser reports: unauthorized."
        return Firing({"job": scope.job, "result": "unauthorized"}, summary)

    few = {series: counter((90, 1)) for series in (accepted, refused)}
    ended = {series: gone(counter((24, 6))) for series in (accepted, refused)}
    return (
        Case("not early", trouble, (scope.at(30),)),
        # 19 or 20 reports in ten minutes say nothing, though half of them are refused.
        Case("not early", few, (scope.at(60),)),
        Case("fires", trouble, (scope.at(31, firing("33.33%")),)),
        Case("resolves", trouble, (scope.at(49, firing("23.08%")), scope.at(50))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((25, 1)))}, (scope.at(50), scope.guard(50))),
    )


def not_shared(scope: Scope) -> tuple[Case, ...]:
    """One of two replicas is alone from 20 to 40."""
    alone = f'frontend_store_up{{job="{scope.job}", instance="a:80"}}'
    trouble = {alone: gauge((20, 1), (20, 0), (20, 1)), alone.replace("a:80", "b:80"): gauge((60, 1))}
    summary = f"{scope.job} on a:80 can't reach the store of shared limits and limits alone."
    firing = Firing({"job": scope.job, "instance": "a:80"}, summary)
    ended = {alone: gone(gauge((20, 1), (4, 0)))}
    return (
        Case("not early", trouble, (scope.at(24),)),
        Case("fires", trouble, (scope.at(25, firing),)),
        Case("resolves", trouble, (scope.at(44, firing), scope.at(45))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((24, 1)))}, (scope.at(40), scope.guard(40))),
    )
