"""Tag coverage: each reason, and the rows that are easily got wrong, by name."""

from __future__ import annotations

import pytest

from telemetry.fleet.coverage import Coverage, Demand, Inputs, coverage
from telemetry.fleet.model import Windows, Worker, WorkerGroup

W = Windows()
STANDING = WorkerGroup(name="standing", tags=("t",), desired_replicas=2)
TO_ZERO = WorkerGroup(name="elastic", tags=("t",), autoscale_min=0, autoscale_max=3)
SERVER = Worker(id="w", group="standing", age=1.0, tags=("t",))


def verdict(*groups: WorkerGroup, workers=(), demand=None, catalogue=frozenset({"t"}), **more) -> Coverage:
    inputs = Inputs(
        demand={"t": demand} if demand else {},
        groups={group.name: group for group in groups},
        workers=tuple(workers),
        catalogue=catalogue,
        **more,
    )
    (found,) = [each for each in coverage(inputs, W) if each.tag == "t"]
    return found


def judged(*args, **more) -> tuple[str, str]:
    found = verdict(*args, **more)
    return found.reason, found.level


def test_somebody_serves_it():
    assert judged(STANDING, workers=[SERVER]) == ("covered", "ok")


def test_one_that_drains_serves_nobody_new():
    drained = Worker(id="w", group="standing", age=1.0, tags=("t",), draining_for=1.0)
    assert judged(STANDING, workers=[drained]) == ("no_live_workers", "danger")


def test_one_that_was_lost_serves_nobody():
    assert judged(STANDING, workers=[Worker(id="w", group="standing", age=61, tags=("t",))])[0] == "no_live_workers"


def test_no_group_is_registered_for_a_tag_of_the_catalogue():
    assert judged() == ("no_route", "danger")


def test_no_group_is_registered_for_a_tag_with_waiting_jobs():
    assert judged(demand=Demand(pending=1, oldest=1.0), catalogue=None) == ("no_route", "danger")


@pytest.mark.parametrize(
    "group",
    [
        WorkerGroup(name="off", tags=("t",), desired_replicas=2, enabled=False),
        WorkerGroup(name="none", tags=("t",), desired_replicas=0),
    ],
)
def test_a_group_that_can_have_no_workers_is_no_route(group):
    assert judged(group) == ("no_route", "danger")


def test_a_worker_without_a_route_still_covers():
    assert judged(workers=[SERVER]) == ("covered", "ok")


def test_scaled_to_zero_is_idle_until_work_has_waited_longer_than_a_start_takes():
    assert judged(TO_ZERO) == ("idle", "ok")
    assert judged(TO_ZERO, demand=Demand(pending=4, oldest=119.0)) == ("idle", "ok")
    assert judged(TO_ZERO, demand=Demand(pending=4, oldest=121.0)) == ("no_live_workers", "danger")


def test_a_route_that_nobody_asks_for_is_worth_knowing_and_no_more():
    assert judged(STANDING, catalogue=frozenset()) == ("idle", "info")
    assert judged(TO_ZERO, catalogue=None) == ("idle", "info")
    assert judged(STANDING, catalogue=frozenset(), workers=[SERVER]) == ("covered", "ok")


def test_old_work_that_nobody_claims_is_stuck_though_somebody_serves():
    old = Demand(pending=3, oldest=400.0)
    assert judged(STANDING, workers=[SERVER], demand=old) == ("stuck", "danger")
    claimed = Demand(pending=3, oldest=400.0, last_claim=599.0)
    assert judged(STANDING, workers=[SERVER], demand=claimed) == ("covered", "ok")
    assert judged(STANDING, workers=[SERVER], demand=old, slo=500.0) == ("covered", "ok")


@pytest.mark.parametrize(("tagless", "reason"), [("serve_none", "no_live_workers"), ("serve_all", "covered")])
def test_a_worker_without_tags_serves_none_or_all(tagless, reason):
    nobody = Worker(id="w", group="standing", age=1.0)
    assert judged(STANDING, workers=[nobody], tagless=tagless)[0] == reason


def test_a_tag_named_twice_by_a_worker_counts_once():
    twice = Worker(id="w", group="standing", age=1.0, tags=("t", "t"))
    assert verdict(STANDING, workers=[twice]).serving == 1


def test_all_routes_are_named_and_one_that_must_stand_is_enough_for_danger():
    found = verdict(TO_ZERO, STANDING)
    assert found.groups == ("elastic", "standing")
    assert found.reason == "no_live_workers"


def test_tags_come_from_catalogue_queue_and_registry_in_order():
    inputs = Inputs(
        demand={"q": Demand(pending=1, oldest=1.0)},
        groups={"g": WorkerGroup(name="g", tags=("r",), desired_replicas=1)},
        workers=(),
        catalogue=frozenset({"c"}),
    )
    found = coverage(inputs, W)
    assert [(each.tag, each.declared, each.pending) for each in found] == [
        ("c", True, 0),
        ("q", False, 1),
        ("r", False, 0),
    ]
