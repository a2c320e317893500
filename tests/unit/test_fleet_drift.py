"""Drift badges: each row of the table, and the rows that are easily got wrong, by name."""

from __future__ import annotations

import msgspec
import pytest

from telemetry.fleet.drift import Drift, Reading, Work, drift
from telemetry.fleet.model import Observed, Windows, Worker, WorkerGroup, observe, observe_all

W = Windows()
FIXED = WorkerGroup(name="heavy", desired_replicas=3, drain_timeout=600)
ELASTIC = WorkerGroup(name="heavy", autoscale_min=1, autoscale_max=4)
TO_ZERO = WorkerGroup(name="heavy", autoscale_min=0, autoscale_max=3)
OFF = WorkerGroup(name="heavy", desired_replicas=3, enabled=False)
QUIET = Work()


def seen(**more) -> Observed:
    return Observed(group="heavy", **more)


def active(count: int, draining: int = 0) -> Observed:
    return seen(alive=count + draining, active=count, draining=draining, draining_for=None)


def draining(count: int, seconds: float) -> Observed:
    return seen(alive=count, draining=count, draining_for=seconds)


def badge(group, observed, work=QUIET, reading=None) -> Drift | None:
    return drift(group, observed, work, windows=W, reading=reading or Reading())


@pytest.mark.parametrize(
    ("case", "group", "observed", "state", "rule"),
    [
        ("nobody asked for it", None, active(2), "unregistered", "1"),
        ("nobody asked for it, and it drains", None, draining(1, 5), "unregistered", "1"),
        ("switched off while somebody works", OFF, active(3), "draining", "2"),
        ("switched off while somebody drains for days", OFF, draining(1, 99_999), "draining", "2"),
        ("all are on their way out", FIXED, draining(3, 10), "draining", "2"),
        ("the drain takes its whole time and the slack", FIXED, draining(3, 630), "draining", "2"),
        ("the drain takes longer than it may", FIXED, draining(3, 630.1), "missing", "2a"),
        ("switched off and gone", OFF, seen(), "ok", "3"),
        ("nobody came", FIXED, seen(), "missing", "4"),
        ("scaled to nothing, and nothing to do: 0 of 0-3 is in sync", TO_ZERO, seen(), "ok", "6"),
        ("one too few", FIXED, active(2), "scaled", "7"),
        ("one too many", FIXED, active(4), "scaled", "7"),
        ("one too few, and one on its way out", FIXED, active(2, draining=1), "scaled", "7"),
        ("as asked for", FIXED, active(3), "ok", "8"),
        ("as asked for, and an old one on its way out", FIXED, active(3, draining=1), "ok", "8"),
        ("within the range", ELASTIC, active(2), "ok", "8"),
        ("at the edge of the range", ELASTIC, active(4), "ok", "8"),
        ("above the range", ELASTIC, active(5), "scaled", "7"),
        ("up from nothing", TO_ZERO, active(1), "ok", "8"),
    ],
)
def test_the_table(case, group, observed, state, rule):
    found = badge(group, observed)
    assert found is not None
    assert (found.state, found.rule) == (state, rule), case


def test_scaled_says_in_which_direction():
    assert badge(FIXED, active(2)).direction == "under"
    assert badge(FIXED, active(4)).direction == "over"


def test_an_overdue_drain_of_a_group_that_may_be_empty_is_no_missing_group():
    assert badge(TO_ZERO, draining(1, 700)) == Drift(state="draining", rule="2a", overdue=True)


def test_a_group_nobody_asked_for_and_nobody_lives_in_is_not_listed():
    assert badge(None, seen()) is None
    assert badge(None, seen(lost=("w-1",))) is None


@pytest.mark.parametrize(("oldest", "state"), [(None, "ok"), (119.0, "ok"), (120.0, "ok"), (121.0, "missing")])
def test_scaled_to_zero_is_missing_only_when_work_has_waited_longer_than_a_start_takes(oldest, state):
    found = badge(TO_ZERO, seen(), Work(oldest))
    assert found.state == state
    assert found.danger == (state == "missing")


def test_an_unreadable_queue_leaves_only_groups_at_zero_unknown():
    assert badge(TO_ZERO, seen(), None).state == "unknown"
    assert badge(FIXED, seen(), None).state == "missing"
    assert badge(FIXED, active(3), None).state == "ok"
    assert badge(WorkerGroup(name="heavy", desired_replicas=0), seen(), None).state == "ok"


@pytest.mark.parametrize("lost", ["fresh", "settled", "registry"])
@pytest.mark.parametrize("observed", [active(3), seen(), draining(1, 1)])
def test_what_can_not_be_trusted_gives_no_badge_but_unknown(lost, observed):
    reading = msgspec.structs.replace(Reading(), **{lost: False})
    for group in (FIXED, None, OFF):
        assert badge(group, observed, reading=reading) == Drift(state="unknown", rule="0")


# Rolling up


def worker(name: str = "w", group: str = "heavy", age: float = 1.0, **more) -> Worker:
    return Worker(id=name, group=group, age=age, **more)


def test_life_ends_after_the_window_and_is_remembered_for_a_while():
    assert [worker(age=age).life(W) for age in (-7, 0, 60, 60.1, 900, 900.1)] == [
        "alive",
        "alive",
        "alive",
        "tombstone",
        "tombstone",
        "gone",
    ]


def test_a_group_is_rolled_up_to_the_same_few_values_whatever_its_size():
    workers = [
        worker("a", running_jobs=2, current_job="j1", jobs_executed=10, version="2"),
        worker("b", age=3, jobs_executed=5, version="1"),
        worker("c", draining_for=40.0, running_jobs=1, version="1"),
        worker("d", age=61, running_jobs=9, jobs_executed=99, version="0"),
        worker("e", age=1000),
        worker("f", group="light"),
    ]
    assert observe("heavy", workers, W) == Observed(
        group="heavy",
        alive=3,
        active=2,
        draining=1,
        busy=2,
        running_jobs=3,
        jobs_executed=15,
        last_ping_age=1.0,
        versions=("1", "2"),
        lost=("d",),
    )


def test_the_active_time_of_a_group_ends_with_the_last_one_to_drain():
    both = [worker("a", draining_for=500.0), worker("b", draining_for=3.0)]
    assert observe("heavy", both, W).draining_for == 3.0
    assert observe("heavy", [*both, worker("c")], W).draining_for is None


def test_a_clock_that_runs_ahead_counts_as_skew_and_as_age_zero():
    found = observe("heavy", [worker(age=-90.0), worker("b", age=-4.0)], W)
    assert (found.alive, found.skewed, found.last_ping_age) == (2, 1, 0.0)


def test_ten_thousand_rotated_workers_leave_as_many_groups_as_there_are():
    rotated = [worker(f"w-{number}", age=1000.0 + number) for number in range(10_000)]
    found = observe_all({"heavy": FIXED}, [*rotated, worker("now")], W)
    assert list(found) == ["heavy"]
    assert found["heavy"].lost == ()


def test_groups_that_lost_their_last_worker_are_still_shown_for_a_while():
    assert list(observe_all({}, [worker(age=61), worker(group="old", age=901)], W)) == ["heavy"]


def test_times_that_do_not_fit_together_are_told():
    assert W.problems(heartbeat=10, zombie_timeout=90) == ()
    assert "three heartbeats (75 s)" in W.problems(heartbeat=25, zombie_timeout=90)[0]
    assert "longer than the zombie timeout (30 s)" in W.problems(heartbeat=10, zombie_timeout=30)[0]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"autoscale_min": 1}, "both or neither"),
        ({"autoscale_max": 1}, "both or neither"),
        ({"autoscale_min": 3, "autoscale_max": 1}, "3 to 1 replicas is no range"),
        ({"desired_replicas": -1}, "is no range"),
    ],
)
def test_a_group_that_can_not_be_is_refused(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        WorkerGroup(name="heavy", **given)
