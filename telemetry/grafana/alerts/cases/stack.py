"""Cases of the alerts on the programs between and behind the services."""

from __future__ import annotations

from telemetry.grafana.alerts.cases.records import Case, Firing, Scope, counter, gauge, gone, later


def target_down(scope: Scope) -> tuple[Case, ...]:
    """One of two targets fails from 20 to 50; one of a job that no value names fails all the time."""
    down = f'up{{job="{scope.job}", instance="a:80"}}'
    others = {down.replace("a:80", "b:80"): gauge((90, 1)), 'up{job="another", instance="c:80"}': gauge((90, 0))}
    trouble = {down: gauge((20, 1), (30, 0), (40, 1)), **others}
    firing = Firing({"job": scope.job, "instance": "a:80"}, f"{scope.job} on a:80 can't be scraped.")
    ended = {down: gone(gauge((20, 1), (5, 0)))}
    return (
        Case("not early", trouble, (scope.at(29),)),
        Case("fires", trouble, (scope.at(30, firing),)),
        Case("resolves", trouble, (scope.at(49, firing), scope.at(50))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((25, 1)))}, (scope.at(60), scope.guard(60))),
    )


def _lost(scope: Scope, metric: str, labels: dict[str, str], said: str, hold: int) -> tuple[Case, ...]:
    """A counter is born at 30 with a burst of 900, as those of Alloy and Loki are, or stood still and grows at 30.

    One that was high before and stands still says nothing.
    """
    pairs = ", ".join(f'{key}="{value}"' for key, value in labels.items())
    of = f'job="{scope.job}", instance="a:80"'
    born = f"{metric}{{{of}{', ' if pairs else ''}{pairs}}}"
    still = born.replace("a:80", "b:80")
    up = {f"up{{{of}}}": gauge((120, 1)), f"up{{{of}}}".replace("a:80", "b:80"): gauge((120, 1))}
    trouble = {born: later(30, gauge((90, 900))), still: gauge((120, 5000)), **up}
    grows = {born: counter((30, 0), (1, 900), (80, 0), start=100), still: gauge((120, 5000)), **up}
    where = {"instance": "a:80"} if "instance" in scope.alert.summary else {}
    firing = Firing({"job": scope.job, **where, **labels}, said.format(job=scope.job))
    ended = {born: later(30, gone(gauge((2, 900)))), **{series: gone(gauge((32, 1))) for series in up}}
    return (
        Case("not early", trouble, (scope.at(29 + hold),)),
        Case("fires", trouble, (scope.at(30 + hold, firing),)),
        Case("fires", grows, (scope.at(29 + hold + 1), scope.at(31 + hold, firing))),
        Case("resolves", trouble, (scope.at(44, firing), scope.at(45))),
        Case("resolves", grows, (scope.at(45, firing), scope.at(46))),
        Case("data missing", {**ended, scope.sign(): gone(gauge((32, 1)))}, (scope.at(60), scope.guard(60))),
    )


def alloy(scope: Scope) -> tuple[Case, ...]:
    """A limit stage drops 900 lines."""
    said = "{job} dropped 900 log lines in ten minutes: ratelimit_drop_stage."
    return _lost(scope, "loki_process_dropped_lines_total", {"reason": "ratelimit_drop_stage"}, said, 2)


def loki(scope: Scope) -> tuple[Case, ...]:
    """Loki refuses 900 lines."""
    said = "{job} refused 900 log lines in ten minutes: line_too_long."
    return _lost(scope, "loki_discarded_samples_total", {"reason": "line_too_long"}, said, 2)


def victoriametrics(scope: Scope) -> tuple[Case, ...]:
    """VictoriaMetrics leaves 900 samples out."""
    said = "{job} ignored 900 samples in ten minutes: too_many_labels."
    return _lost(scope, "vm_rows_ignored_total", {"reason": "too_many_labels"}, said, 2)


def rules_failing(scope: Scope) -> tuple[Case, ...]:
    """900 evaluations fail."""
    said = "{job} on a:80: 900 evaluations of rules failed in ten minutes."
    return _lost(scope, "vmalert_execution_errors_total", {}, said, 5)
