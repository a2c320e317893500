"""Cases of the alerts on groups of workers."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts.cases.observed import Figures, case, clock, firing, standard
from telemetry.grafana.alerts.cases.records import MINUTE, Case, Check, Scope, counter, gauge, gone, later
from telemetry.grafana.alerts.observed import STEP

_OF: Final = '{group="gpu"}'
_LOW, _HIGH = f"worker_group_desired_min{_OF}", f"worker_group_desired_max{_OF}"
_ACTIVE, _ALIVE = f"worker_group_active{_OF}", f"worker_group_alive{_OF}"
_DANGER: Final = f"worker_group_drift_danger{_OF}"
_STATES: Final = ("ok", "missing", "scaled", "draining", "unregistered")


def _badge(state: str) -> dict[str, float]:
    return {f'worker_group_drift{{group="gpu", state="{each}"}}': float(each == state) for each in _STATES}


_ASLEEP: Final[Figures] = {_LOW: 0, _HIGH: 3, _ACTIVE: 0, _ALIVE: 0, _DANGER: 0, **_badge("ok")}
"""A group that was scaled to nothing, and for which nothing waits."""


def missing(scope: Scope) -> tuple[Case, ...]:
    """One is asked for and none is active. A group that may be at nothing is never missing in this way."""
    calm: Figures = {_LOW: 1, _ACTIVE: 1, **_badge("ok")}
    bad: Figures = {_LOW: 1, _ACTIVE: 0, **_badge("missing")}
    not_waking: Figures = {_LOW: 0, _ACTIVE: 0, _DANGER: 1, **_badge("missing")}
    return standard(scope, "workers", calm, bad, firing(scope, "1", group="gpu"), calm, _ASLEEP, not_waking)


def asleep(scope: Scope) -> tuple[Case, ...]:
    """Work waits for a group at nothing. Without work, it may sleep."""
    bad: Figures = {**_ASLEEP, **_badge("missing"), _DANGER: 1}
    missing_as_well: Figures = {_LOW: 2, _ACTIVE: 0, _DANGER: 0, **_badge("missing")}
    return standard(scope, "workers", _ASLEEP, bad, firing(scope, group="gpu"), _ASLEEP, missing_as_well)


def short(scope: Scope) -> tuple[Case, ...]:
    """Two of three are active. One too many is another alert's."""
    calm: Figures = {_LOW: 3, _HIGH: 3, _ACTIVE: 3, **_badge("ok")}
    bad: Figures = {**calm, _ACTIVE: 2, **_badge("scaled")}
    over: Figures = {**calm, _ACTIVE: 5, **_badge("scaled")}
    none: Figures = {**calm, _ACTIVE: 0, **_badge("missing")}
    return standard(scope, "workers", calm, bad, firing(scope, "1", group="gpu"), calm, over, none, _ASLEEP)


def over(scope: Scope) -> tuple[Case, ...]:
    """Four are active where three may be."""
    calm: Figures = {_LOW: 1, _HIGH: 3, _ACTIVE: 3, **_badge("ok")}
    bad: Figures = {**calm, _ACTIVE: 4, **_badge("scaled")}
    under: Figures = {**calm, _LOW: 2, _ACTIVE: 1, **_badge("scaled")}
    disabled: Figures = {**calm, _ACTIVE: 5, **_badge("draining")}
    return standard(scope, "workers", calm, bad, firing(scope, "1", group="gpu"), calm, under, disabled)


def drain_overdue(scope: Scope) -> tuple[Case, ...]:
    """Two drain for longer than any group may."""
    calm: Figures = {_ALIVE: 2, **_badge("ok")}
    bad: Figures = {_ALIVE: 2, **_badge("draining")}
    return standard(scope, "workers", calm, bad, firing(scope, "2", group="gpu"), calm, _ASLEEP)


def unregistered(scope: Scope) -> tuple[Case, ...]:
    """Two of a group that nobody knows; it is listed only while somebody is alive."""
    bad: Figures = {_ALIVE: 2, **_badge("unregistered")}
    calm: Figures = dict.fromkeys(bad)
    return standard(scope, "workers", calm, bad, firing(scope, "2", group="gpu"), {_ALIVE: 2, **_badge("ok")})


def broken(scope: Scope) -> tuple[Case, ...]:
    """A row with a minimum above its maximum."""
    rows = "worker_groups_broken"
    return standard(scope, "workers", {rows: 0}, {rows: 1}, firing(scope, "1"), {rows: 0})


def badges(scope: Scope) -> tuple[Case, ...]:
    """The only group that is listed can't be judged. One of two that can't is a broken row, which others tell."""
    one, two = (f'worker_group_drift_valid{{group="{group}"}}' for group in ("gpu", "broken"))
    return standard(scope, "workers", {one: 1}, {one: 0}, firing(scope), {one: 1, two: 0})


def skew(scope: Scope) -> tuple[Case, ...]:
    """Two versions. None at all is a group without workers."""
    versions = f"worker_group_versions{_OF}"
    fires = firing(scope, "2", group="gpu")
    return standard(scope, "workers", {versions: 1}, {versions: 2}, fires, {versions: 1}, {versions: 0})


def lost(scope: Scope) -> tuple[Case, ...]:
    """One more than may be lost."""
    workers, most = f"worker_group_lost{_OF}", scope.values.fleets[0].lost
    fires = firing(scope, f"{most + 1:.0f}", group="gpu")
    return standard(scope, "workers", {workers: 0}, {workers: most + 1}, fires, {workers: most})


def heartbeat(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 60 one worker's pings fail; one that is born at 20 never gets one through, and ends at 30.

    A third failed a few times when the database restarted, and has been heard since: it is well.
    """

    def told(metric: str, at: str, more: str = "") -> str:
        return f'fleet_worker_heartbeat_{metric}{{job="{scope.job}", instance="{at}:80"{more}}}'

    def failures(at: str) -> str:
        return told("failures_total", at, ', reason="connection"')

    def arrived(at: str) -> str:
        return told("last_success_timestamp_seconds", at)

    trouble = {
        failures("a"): counter((20, 0), (40, 5), (40, 0)),
        arrived("a"): clock(21, 39, 40),
        failures("b"): later(20, gone(counter((10, 5)))),
        failures("c"): counter((20, 0), (1, 5), (79, 0)),
        arrived("c"): clock(101),
    }
    single = {each: trouble[each] for each in (failures("a"), arrived("a"))}
    alone = {failures("c"): trouble[failures("c")], arrived("c"): trouble[arrived("c")]}
    both, one = (firing(scope, count, job=scope.job) for count in "21")
    hold, end = scope.alert.hold // MINUTE, 60 * MINUTE + scope.alert.keep
    first = 21 + hold
    ended = {failures("a"): gone(counter((20, 0), (1, 5))), arrived("a"): gone(clock(21))}
    return (
        case(scope, "not early", trouble, Check(first * MINUTE - STEP, scope.alert)),
        case(scope, "not early", alone, *(scope.at(minutes) for minutes in range(20, 40))),
        case(scope, "fires", trouble, scope.at(first, both)),
        case(scope, "fires", single, Check(first * MINUTE - STEP, scope.alert), scope.at(first, one)),
        case(scope, "resolves", trouble, Check(end - STEP, scope.alert, (one,)), Check(end, scope.alert)),
        case(scope, "data missing", {**ended, scope.sign(): gone(gauge((22, 1)))}, scope.at(60), scope.guard(60)),
    )
