"""Cases of the burn rates: a service with a budget of 1 % for failures and of 5 % for slow answers.

Each alert's trouble is too small for the next faster one, and comes after as much good time as the faster windows hold,
so that only the alert's own windows and factor decide when it fires.
"""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts.cases.records import MINUTE, STAND_IN, Case, Firing, Scope, counter, gauge, gone

STEP: Final = 300
"""Seconds between evaluations where the windows are long: a day has 288 of them."""
_OF = f'job="{STAND_IN.name}", instance="a:80", http_request_method="GET", http_route="/"'
_COUNT = f"http_server_request_duration_seconds_count{{{_OF}, "
_GOOD = f'{_COUNT}http_response_status_code="200"}}'
_FAILED = f'{_COUNT}http_response_status_code="503"}}'
_QUICK = f'{_GOOD.replace("_count{", "_bucket{").removesuffix("}")}, le="0.5"}}'
_ALL = f'{_GOOD.replace("_count{", "_bucket{").removesuffix("}")}, le="+Inf"}}'


def _served(*spans: tuple[int, float, float]) -> dict[str, str]:
    """For each span of minutes: requests a minute that are answered in time, and that fail."""
    good = counter(*((minutes, served) for minutes, served, _ in spans))
    failed = counter(*((minutes, failed) for minutes, _, failed in spans))
    return {_GOOD: good, _QUICK: good, _ALL: good, _FAILED: failed}


def _slow(*spans: tuple[int, float, float]) -> dict[str, str]:
    """For each span of minutes: requests a minute that are answered in time, and too late."""
    everything = counter(*((minutes, quick + slow) for minutes, quick, slow in spans))
    quick = counter(*((minutes, quick) for minutes, quick, _ in spans))
    return {_GOOD: everything, _ALL: everything, _QUICK: quick}


def _firing(scope: Scope, factor: str, slo: str = "availability", window: str = "") -> Firing:
    """One budget burns; ``window`` names another rule than the one under test."""
    window = window or scope.alert.labels["window"]
    alert = next(each for each in scope.rules.alerts if each.labels.get("window") == window)
    short = {"1h": "5m", "6h": "30m", "1d": "2h", "3d": "6h"}[window]
    said = f"the budget for {slo} is spent {factor} times too fast (over {window}, and still over {short})."
    return Firing({"job": scope.job, "slo": slo}, f"{scope.job}: {said}", alert)


def _missing(scope: Scope, good: int, step: int) -> Case:
    """Everything fails for an hour, and then the service is gone, before the alert's ``for`` is over or after it."""
    ended = {series: gone(values) for series, values in _served((good, 1000, 0), (60, 0, 1000)).items()}
    over = good + 60
    ended[scope.sign()] = gone(gauge((over + 1, 1)))
    return Case("data missing", ended, (scope.at(over + 60), scope.guard(over + 60)), step)


def burn(scope: Scope) -> tuple[Case, ...]:
    """The cases of the alert's own windows."""
    cases = {"1h": _hour, "6h": _quarter, "1d": _day, "3d": _days}
    return cases[scope.alert.labels["window"]](scope)


def _hour(scope: Scope) -> tuple[Case, ...]:
    """20 % fail from 130 to 190: the hour is at 14.4 % when 43.2 of its minutes are bad."""
    trouble = _served((130, 1000, 0), (60, 800, 200), (60, 1000, 0))
    slow = _slow((130, 1000, 0), (60, 100, 900))
    # Twelve requests an hour, four of which fail: 33 times too fast, and nothing to get up for. Six of 18 are.
    few = _served((60, 0.2, 0), (20, 0, 0.2), (60, 0.2, 0))
    enough = _served((60, 0.3, 0), (20, 0, 0.3), (10, 0.3, 0))
    return (
        Case("not early", trouble, (scope.at(177),)),
        Case("not early", few, tuple(scope.at(minutes) for minutes in range(62, 90, 2))),
        Case("fires", trouble, (scope.at(178, _firing(scope, "15.3")),)),
        Case("fires", enough, (scope.at(78), scope.at(82, _firing(scope, "32.3")))),
        Case("fires", slow, (scope.at(182), scope.at(183, _firing(scope, "15.3", "latency")))),
        Case("resolves", trouble, (scope.at(196, _firing(scope, "19.5")), scope.at(197))),
        _missing(scope, 30, MINUTE),
    )


def _quarter(scope: Scope) -> tuple[Case, ...]:
    """10 % fail from 360 to 600: six hours are at 6 % when 216 of their minutes are bad."""
    trouble = _served((360, 1000, 0), (240, 900, 100), (60, 1000, 0))
    return (
        Case("not early", trouble, (scope.at(590),), STEP),
        Case("fires", trouble, (scope.at(595, _firing(scope, "6.5")),), STEP),
        Case("resolves", trouble, (scope.at(615, _firing(scope, "6.7")), scope.at(620)), STEP),
        _missing(scope, 130, STEP),
    )


def _day(scope: Scope) -> tuple[Case, ...]:
    """5 % fail from 1,440 on: a day is at 3 % when 864 of its minutes are bad. Three days were spent before that."""
    trouble = _served((1440, 1000, 0), (960, 950, 50), (120, 1000, 0))
    slower, early = (_firing(scope, factor, window="3d") for factor in ("2.0", "1.9"))
    return (
        Case("not early", trouble, (scope.at(2360, early),), STEP),
        Case("fires", trouble, (scope.at(2365, _firing(scope, "3.2"), slower),), STEP),
        Case("resolves", trouble, (scope.at(2450, _firing(scope, "3.3"), slower), scope.at(2455, slower)), STEP),
        _missing(scope, 60, STEP),
    )


def _days(scope: Scope) -> tuple[Case, ...]:
    """2.9 % fail from 1,800 to 3,000: all there is of three days is at 1 % when 948 minutes are bad."""
    trouble = _served((1800, 1000, 0), (1200, 971, 29), (360, 1000, 0))
    return (
        Case("not early", trouble, (scope.at(2925),), STEP),
        Case("fires", trouble, (scope.at(2930, _firing(scope, "1.1")),), STEP),
        Case("resolves", trouble, (scope.at(3240, _firing(scope, "1.1")), scope.at(3245)), STEP),
        _missing(scope, 60, STEP),
    )
