"""Cases of the metric alerts on browser errors."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone


def _errors(scope: Scope, kind: str) -> str:
    return f'frontend_errors_total{{job="{scope.job}", instance="a:80", kind="{kind}"}}'


def spike(scope: Scope) -> tuple[Case, ...]:
    """From 70 to 90 there are 50 errors a minute where one was usual; 25 a minute of another kind always were.

    A third kind is new, with 95 in five minutes. What grows to 3.6 times the usual is a spike until the hour before has
    taken it up.
    """
    error, usual, new = (_errors(scope, kind) for kind in ("error", "react", "other"))
    trouble = {
        error: counter((70, 1), (20, 50), (60, 1)),
        usual: counter((150, 25)),
        new: counter((70, 0), (20, 19), (60, 0)),
    }
    grown = {error: counter((70, 20), (20, 72), (60, 20))}

    def firing(count: int) -> Firing:
        summary = f"browser errors of kind error happened {count} times in five minutes, more than usual."
        return Firing({"job": scope.job, "kind": "error"}, f"{scope.job}: {summary}")

    ended = {error: gone(counter((70, 1), (3, 50)))}
    return (
        # 103 after two minutes (2 * 50 + 3) are the first count above 100.
        Case("not early", trouble, (scope.at(73),)),
        Case("fires", trouble, (scope.at(74, firing(201)),)),
        Case("fires", grown, (scope.at(75), scope.at(76, firing(360)))),
        Case("resolves", grown, (scope.at(84, firing(360)), scope.at(85))),
        # At 91 the hour before has a third as many: the spike becomes what is usual, and the alert has been read.
        Case("resolves", trouble, (scope.at(95, firing(250)), scope.at(96))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((74, 1)))}, (scope.at(90), scope.guard(90))),
    )


def refusing(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 40 a third of the reports is refused for one reason."""
    labels = f'job="{scope.job}", instance="a:80"'
    accepted = f'frontend_reports_total{{{labels}, result="accepted"}}'
    refused = f'frontend_reports_total{{{labels}, result="unauthorized"}}'
    noise = f'frontend_reports_total{{{labels}, result="noise"}}'
    trouble = {accepted: counter((90, 6)), refused: counter((20, 0), (20, 4.2), (50, 0)), noise: counter((90, 2))}

    def firing(share: str) -> Firing:
        summary = f"{scope.job} refuses {share} of the browser reports: unauthorized."
        return Firing({"job": scope.job, "result": "unauthorized"}, summary)

    few = {series: counter((90, 1)) for series in (accepted, refused)}
    enough = {accepted: counter((90, 1)), refused: counter((90, 1.2))}
    ended = {series: gone(counter((24, 6))) for series in (accepted, refused)}
    return (
        # 21 of 101 after five minutes are more than a fifth.
        Case("not early", trouble, (scope.at(29),)),
        # 20 reports in ten minutes say nothing, though half of them are refused; 22 do.
        Case("not early", few, (scope.at(60),)),
        Case("not early", {accepted: counter((90, 81)), refused: counter((90, 19))}, (scope.at(60),)),
        Case("fires", trouble, (scope.at(30, firing("34.43%")),)),
        Case("fires", enough, (scope.at(60, firing("54.55%")),)),
        Case("resolves", trouble, (scope.at(50, firing("20.79%")), scope.at(51))),
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
