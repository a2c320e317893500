"""Cases of the alerts on the observer: reads that fail, nothing read for long, nobody who leads."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts import observer
from telemetry.grafana.alerts.cases.observed import EPOCH, case, clock, firing, series, spans
from telemetry.grafana.alerts.cases.records import MINUTE, Case, Check, Scope, gone
from telemetry.grafana.alerts.observed import STEP

_UP: Final = 'queue_observer_up{part="workers"}'
_LAST: Final = 'queue_observer_last_success_timestamp_seconds{part="workers"}'


def failing(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 50 workers can't be read. Five of twenty half minutes are more than a fifth.

    Whoever takes over is judged by what it reads. Where two read and one of them can, all is well; and a minute and a
    half without a read is a restart of the database.
    """
    a, b = series(scope, _UP), series(scope, _UP, "b:80")
    trouble = {a: spans((20, 1), (30, 0), (30, 1)), scope.sign(): spans((80, 1))}
    heir = {a: gone(spans((20, 1))), b: spans((20, None), (30, 0)), scope.sign(): spans((80, 1))}
    first = 22 * MINUTE + scope.alert.hold
    some, whole = (firing(scope, share, part="workers") for share in ("45%", "100%"))
    return (
        case(scope, "not early", trouble, Check(first - STEP, scope.alert)),
        case(scope, "not early", {**trouble, b: spans((80, 1))}, scope.at(40)),
        case(scope, "not early", {a: spans((20, 1), (2, 0), (20, 1))}, *(scope.at(each) for each in range(20, 40))),
        case(scope, "fires", trouble, Check(first, scope.alert, (some,)), scope.at(40, whole)),
        case(scope, "fires", {**trouble, b: trouble[a]}, Check(first, scope.alert, (some,))),
        case(scope, "fires", heir, Check(first - STEP, scope.alert), Check(first, scope.alert, (some,))),
        case(
            scope,
            "resolves",
            trouble,
            scope.at(57, firing(scope, "25%", part="workers")),
            Check(57 * MINUTE + STEP, scope.alert),
        ),
        case(
            scope,
            "data missing",
            {a: gone(spans((20, 1), (2, 0))), scope.sign(): gone(spans((22, 1)))},
            scope.at(40),
            scope.guard(40),
        ),
    )


def old(scope: Scope) -> tuple[Case, ...]:
    """Nothing is read from 20 to 60. Catalogue and details may be as old, which is told by another alert.

    Whoever never read anything has no last success. One that says it reads, and whose last read is long ago by our
    clock, is told as well.
    """
    up, last = series(scope, _UP), series(scope, _LAST)
    trouble = {up: spans((20, 1), (40, 0), (30, 1)), last: clock(20, 40, 30), scope.sign(): spans((90, 1))}
    hold, end = scope.alert.hold // MINUTE, 60 * MINUTE + scope.alert.keep
    fires = firing(scope, part="workers")
    detail = {name.replace("workers", "detail"): text for name, text in trouble.items()}
    behind = {
        series(scope, figure, at): spans((90, value))
        for figure, value in ((_UP, 1), (_LAST, EPOCH + 600))
        for at in ("a:80", "b:80")
    }
    b = {series(scope, figure, "b:80"): text for figure, text in ((_UP, spans((90, 1))), (_LAST, clock(90)))}
    before = 600 + observer.OLD + scope.alert.hold
    return (
        case(scope, "not early", trouble, Check((29 + hold) * MINUTE - STEP, scope.alert)),
        case(scope, "not early", detail, scope.at(50)),
        case(scope, "not early", {**trouble, **b}, scope.at(50)),
        case(scope, "not early", behind, Check(before, scope.alert)),
        case(scope, "fires", trouble, scope.at(29 + hold, fires)),
        case(scope, "fires", {up: spans((90, 0))}, scope.at(hold, fires)),
        case(scope, "fires", behind, Check(before + STEP, scope.alert, (fires,))),
        case(scope, "resolves", trouble, Check(end - STEP, scope.alert, (fires,)), Check(end, scope.alert)),
        case(
            scope,
            "data missing",
            {
                up: gone(spans((20, 1), (2, 0))),
                last: gone(clock(20)),
                scope.sign(): gone(spans((22, 1))),
            },
            scope.at(60),
            scope.guard(60),
        ),
    )


def leaderless(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 40 both stand by; then the other one leads. A change of the lead within a minute is none."""
    a, b = (series(scope, "queue_observer_leader", at) for at in ("a:80", "b:80"))
    trouble = {a: spans((20, 1), (50, 0)), b: spans((40, 0), (30, 1))}
    change = {a: spans((20, 1), (50, 0)), b: spans((21, 0), (49, 1))}
    hold, end = scope.alert.hold, 40 * MINUTE + scope.alert.keep
    fires = firing(scope)
    return (
        case(scope, "not early", trouble, Check(20 * MINUTE + hold - STEP, scope.alert)),
        case(scope, "not early", change, *(scope.at(minutes) for minutes in range(20, 40))),
        case(scope, "fires", trouble, Check(20 * MINUTE + hold, scope.alert, (fires,))),
        case(scope, "resolves", trouble, Check(end - STEP, scope.alert, (fires,)), Check(end, scope.alert)),
        case(
            scope,
            "data missing",
            {each: gone(spans((20, 1), (1, 0))) for each in (a, b)},
            scope.at(40),
            scope.guard(40),
        ),
    )
