"""Cases of the alerts on the queue."""

from __future__ import annotations

from typing import Final

from telemetry.grafana.alerts import queue
from telemetry.grafana.alerts.cases.observed import BEGIN, EPOCH, case, firing, lasting, series, spans, standard
from telemetry.grafana.alerts.cases.records import MINUTE, Case, Check, Scope, counter, gauge, gone, later
from telemetry.grafana.alerts.observed import STEP
from telemetry.grafana.alerts.values import Fleet

_TAG: Final = {"group": "stand-in", "tag": "render"}
_OF: Final = '{group="stand-in", tag="render"}'


def _fleet(scope: Scope) -> Fleet:
    return scope.values.fleets[0]


def late(scope: Scope) -> tuple[Case, ...]:
    """A tag goes a minute over the objective; one that is as old as it may be is not late, nor is a scaled group's."""
    slo, age = _fleet(scope).slo, f"queue_oldest_age_seconds{_OF}"
    scaled = [f'queue_oldest_age_seconds{{group="{name}", tag="x"}}' for name in _fleet(scope).scaled_groups]
    fires = firing(scope, lasting(slo + 60), **_TAG)
    quiet = {age: slo, **dict.fromkeys(scaled, 9 * slo)}
    return standard(scope, "queue", {age: 0}, {age: slo + 60}, fires, quiet)


def _uncovered(scope: Scope, reason: str) -> tuple[Case, ...]:
    """A job waits for nobody. Boards alone tell of a tag without jobs, and of one that was scaled to nothing."""
    pending, verdict = f"queue_pending{_OF}", f'tag_coverage{{tag="render", reason="{reason}"}}'
    idle = 'tag_coverage{tag="render", reason="idle"}'
    return standard(
        scope,
        "queue",
        {pending: 0, verdict: 0},
        {pending: 1, verdict: 1},
        firing(scope, "1", **_TAG),
        {pending: 0, verdict: 1},
        {pending: 7, verdict: 0},
        {pending: 7, verdict: 0, idle: 1},
        # Jobs of another tag are no reason.
        {'queue_pending{group="stand-in", tag="other"}': 7, verdict: 1},
    )


def unrouted(scope: Scope) -> tuple[Case, ...]:
    """No group has the tag."""
    return _uncovered(scope, "no_route")


def unserved(scope: Scope) -> tuple[Case, ...]:
    """Its groups have nobody."""
    return _uncovered(scope, "no_live_workers")


def stuck(scope: Scope) -> tuple[Case, ...]:
    """Nobody claims what has waited for 700 s. What is as old and is claimed from is late, not stuck."""
    age, verdict = f"queue_oldest_age_seconds{_OF}", 'tag_coverage{tag="render", reason="stuck"}'
    fires = firing(scope, lasting(700), **_TAG)
    return standard(scope, "queue", {age: 0, verdict: 0}, {age: 700, verdict: 1}, fires, {age: 700, verdict: 0})


def tags_cut(scope: Scope) -> tuple[Case, ...]:
    """There are more tags than are looked at."""
    return standard(scope, "queue", {"queue_tags_cut": 0}, {"queue_tags_cut": 1}, firing(scope), {"queue_tags_cut": 0})


def overdue(scope: Scope) -> tuple[Case, ...]:
    """One zombie more than is all right."""
    jobs, least = f"queue_overdue_jobs{_OF}", _fleet(scope).overdue
    fires = firing(scope, f"{least + 1:.0f}", **_TAG)
    return standard(scope, "detail", {jobs: 0}, {jobs: least + 1}, fires, {jobs: least})


def at_limit(scope: Scope) -> tuple[Case, ...]:
    """A job that may not be given back once more."""
    jobs = f"queue_restart_limit_jobs{_OF}"
    return standard(scope, "detail", {jobs: 0}, {jobs: 1}, firing(scope, "1", **_TAG), {jobs: 0})


def snapshot(scope: Scope) -> tuple[Case, ...]:
    """A dump holds its snapshot. Neither that alone, nor dead rows alone, says anything.

    A replication slot has an age in transactions only. A role that may not see sessions has neither.
    """
    dead, age, transactions = (
        "queue_dead_rows",
        "queue_oldest_snapshot_age_seconds",
        "queue_oldest_snapshot_transactions",
    )
    most, oldest = _fleet(scope).dead_rows, _fleet(scope).snapshot_age
    rows = most + 5000
    fires = firing(scope, f"{rows:.0f}")
    slot = {dead: rows, age: 0, transactions: queue.TRANSACTIONS + 1}
    first = BEGIN * MINUTE + scope.alert.hold
    held = {series(scope, figure): spans((BEGIN, 0), (60, value)) for figure, value in slot.items()}
    return (
        *standard(
            scope,
            "detail",
            {dead: 0, age: 1, transactions: 10},
            {dead: rows, age: oldest + 60, transactions: 10},
            fires,
            {dead: rows, age: oldest, transactions: queue.TRANSACTIONS},
            {dead: most, age: oldest + 60, transactions: 10},
            {dead: rows},
        ),
        case(scope, "fires", held, Check(first - STEP, scope.alert), Check(first, scope.alert, (fires,))),
    )


def vacuum(scope: Scope) -> tuple[Case, ...]:
    """Autovacuum never came, or not for an hour; where it comes, dead rows are no reason, and few of them never are."""
    dead, live, at = "queue_dead_rows", "queue_live_rows", "queue_last_autovacuum_timestamp_seconds"
    most = _fleet(scope).dead_rows + queue.DEAD_SHARE * 1000
    fires = firing(scope, f"{most + 1:.0f}")
    stale = {series(scope, dead): spans((120, most + 1)), series(scope, live): spans((120, 1000))}
    stale[series(scope, at)] = spans((120, EPOCH + MINUTE))
    first = MINUTE + queue.UNVACUUMED + scope.alert.hold
    return (
        *standard(
            scope,
            "detail",
            {dead: 0, live: 1000},
            {dead: most + 1, live: 1000},
            fires,
            {dead: most, live: 1000},
            {dead: most + 1, live: 1000, at: EPOCH + MINUTE},
        ),
        case(scope, "fires", stale, Check(first - STEP, scope.alert), Check(first, scope.alert, (fires,))),
    )


def _grown(scope: Scope, metric: str, most: float) -> tuple[Case, ...]:
    """At 30 a reaper counts its first jobs, too few to fire; another one has counted before, and counts the rest.

    What both had counted long ago says nothing. A first sample may be a burst, which ``increase`` takes for an old one.
    """
    labels = f'job="{scope.job}", tag="render"'
    born, old = (f'{metric}{{{labels}, instance="{at}:80"}}' for at in "ab")
    up = {f'up{{job="{scope.job}", instance="{at}:80"}}': gauge((120, 1)) for at in "ab"}
    few, rest = (most - 1, 2) if most >= 1 else (most, 1)
    trouble = {born: later(30, gauge((90, few))), old: counter((29, 0), (1, rest), (90, 0), start=700), **up}
    edge = {born: later(30, gauge((90, most))), old: gauge((120, 700)), **up}
    fires = firing(scope, f"{few + rest:.0f}", job=scope.job, tag="render")
    hold, keep = scope.alert.hold // MINUTE, scope.alert.keep // MINUTE
    ended = {
        name: gone(text) for name, text in ((born, later(30, gauge((1, few)))), (old, counter((29, 0), (1, rest))))
    }
    ended |= {name: gone(gauge((31, 1))) for name in up}
    return (
        case(scope, "not early", trouble, Check((30 + hold) * MINUTE - STEP, scope.alert)),
        case(scope, "not early", edge, *(scope.at(minutes) for minutes in range(30, 60, 3))),
        case(scope, "fires", trouble, scope.at(30 + hold, fires)),
        case(
            scope,
            "fires",
            {born: later(30, gauge((90, most + 900))), **up},
            scope.at(30 + hold, firing(scope, f"{most + 900:.0f}", job=scope.job, tag="render")),
        ),
        case(
            scope,
            "resolves",
            trouble,
            Check((45 + keep) * MINUTE - STEP, scope.alert, (fires,)),
            scope.at(45 + keep),
        ),
        case(
            scope,
            "data missing",
            {**ended, scope.sign(): gone(gauge((31, 1)))},
            scope.at(60),
            scope.guard(60),
        ),
    )


def requeued(scope: Scope) -> tuple[Case, ...]:
    """Reapers give jobs back."""
    return _grown(scope, "fleet_queue_requeues_total", _fleet(scope).requeues)


def given_up(scope: Scope) -> tuple[Case, ...]:
    """Reapers end jobs."""
    return _grown(scope, "fleet_queue_given_up_total", 0)


def failing(scope: Scope) -> tuple[Case, ...]:
    """From 20 to 60 a tag fails 20 times a minute, half as often again as is all right; another one fails all along.

    The other has 10 failures in ten minutes and nothing else, which is too few to say anything; 11 are not.
    """
    most, window = _fleet(scope).failures, 10
    succeeded = 20 * (1 - most) / most / 1.5

    def run(outcome: str, tag: str = "render") -> str:
        labels = f'job="{scope.job}", instance="a:80", group="stand-in", tag="{tag}"'
        return f'fleet_job_executed_total{{{labels}, outcome="{outcome}"}}'

    def share(minutes: int) -> float:
        """When failures have come for so many of ten minutes."""
        return 20 * minutes / (20 * minutes + window * succeeded)

    bad = next(minutes for minutes in range(1, window + 1) if share(minutes) > most and 20 * minutes > 10)
    trouble = {
        run("success"): counter((100, succeeded)),
        run("failure"): counter((20, 0), (40, 20), (40, 0)),
        run("failure", "rare"): counter((100, 1)),
    }
    hold, keep = scope.alert.hold // MINUTE, scope.alert.keep // MINUTE
    labels = {"job": scope.job, **_TAG}

    def fires(minutes: int) -> tuple[Check, Check]:
        """The evaluation before, and the one at which it fires, when ten minutes have so many bad ones."""
        seen = firing(scope, f"{100 * share(min(minutes, window)):.4g}%", **labels)
        return Check((20 + minutes) * MINUTE - STEP, scope.alert), scope.at(20 + minutes, seen)

    before, at = fires(bad + hold)
    ended = {name: gone(counter((22, 20))) for name in (run("success"), run("failure"))}
    last = 60 + window - bad + keep
    enough = firing(scope, "100%", **labels)
    return (
        case(scope, "not early", trouble, before),
        case(scope, "fires", trouble, at),
        case(scope, "fires", {run("failure"): counter((100, 1.1))}, scope.at(60, enough)),
        case(
            scope,
            "resolves",
            trouble,
            Check(last * MINUTE, scope.alert, (firing(scope, f"{100 * share(bad):.4g}%", **labels),)),
            scope.at(last + 1),
        ),
        case(scope, "data missing", {**ended, scope.sign(): gone(gauge((23, 1)))}, scope.at(60), scope.guard(60)),
    )
