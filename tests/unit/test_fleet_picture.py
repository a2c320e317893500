"""What can be said of the fleet when a part of it could not be read, and which tags have series of their own."""

from __future__ import annotations

import pytest

from telemetry.fleet.coverage import Coverage
from telemetry.fleet.model import Worker, WorkerGroup
from telemetry.fleet.picture import STRANGERS, Parts, Picture, Rules, judge, shown
from telemetry.fleet.queue import Detail, Details, Pending, Reading
from telemetry.fleet.tags import FORGET, Seen, choose, owners
from telemetry.fleet.workers import Roll

HEAVY = WorkerGroup(name="heavy", tags=("gpu",), desired_replicas=1)
BURST = WorkerGroup(name="burst", tags=("cpu",), autoscale_min=0, autoscale_max=3)
LATE = Pending(count=2, oldest_age=400.0, oldest_at=600.0)


def picture(
    *groups: WorkerGroup,
    workers: tuple[Worker, ...] = (),
    queue: dict[str, Pending] | None = None,
    claims: dict[str, float] | None = None,
    rules: Rules | None = None,
    **more: object,
) -> Picture:
    """Judged; a queue or claims that are None could not be read."""
    named = {group.name: group for group in groups}
    parts = Parts(
        queue=None if queue is None else Reading(at=1000.0, tags=queue),
        detail=None
        if claims is None
        else Details(at=970.0, tags={tag: Detail(last_claim=ago) for tag, ago in claims.items()}),
        workers=Roll(at=1000.0, epoch="e", workers=workers, groups=named),
        registry=named,
        **{"settled": True, **more},
    )
    return judge(parts, rules or Rules())


def serving(tag: str, group: str = "heavy") -> Worker:
    return Worker(id="w", group=group, age=1.0, tags=(tag,))


def states(found: Picture) -> dict[str, str]:
    return {name: each.state for name, each in found.drifts.items()}


def reasons(found: Picture) -> dict[str, str] | None:
    return None if found.covered is None else {each.tag: each.reason for each in found.covered}


def test_workers_that_could_not_be_read_are_unknown_and_so_is_all_that_follows():
    found = judge(Parts(queue=Reading(at=0.0, tags={"gpu": LATE}), settled=True), Rules())
    assert found.observed is None
    assert found.drifts == {}
    assert found.covered is None


def test_without_the_queue_only_a_group_at_zero_can_not_be_judged():
    found = picture(HEAVY, BURST, queue=None)
    assert states(found) == {"burst": "unknown", "heavy": "missing"}
    assert found.covered is None


def test_before_silence_may_be_believed_nothing_is_concluded_from_it():
    found = picture(HEAVY, queue={"gpu": LATE}, settled=False)
    assert states(found) == {"heavy": "unknown"}
    assert found.covered is None
    assert found.observed["heavy"].alive == 0


def test_work_that_is_late_for_a_group_at_zero_is_its_own_and_nobody_else_s():
    assert states(picture(BURST, queue={"gpu": LATE})) == {"burst": "ok"}
    assert states(picture(BURST, queue={"cpu": LATE})) == {"burst": "missing"}


def test_a_group_without_tags_has_all_work_where_such_workers_serve_everything():
    everything = WorkerGroup(name="any", autoscale_min=0, autoscale_max=2)
    assert states(picture(everything, queue={"gpu": LATE})) == {"any": "ok"}
    assert states(picture(everything, queue={"gpu": LATE}, rules=Rules(serve_all=True))) == {"any": "missing"}


def test_a_claim_grows_older_between_the_minute_s_read_and_this_one():
    workers = (serving("gpu"),)
    assert reasons(picture(HEAVY, workers=workers, queue={"gpu": LATE}, claims={"gpu": 560.0})) == {"gpu": "covered"}
    assert reasons(picture(HEAVY, workers=workers, queue={"gpu": LATE}, claims={"gpu": 580.0})) == {"gpu": "stuck"}


@pytest.mark.parametrize(("claims", "reason"), [(None, "covered"), ({}, "stuck")])
def test_claims_that_were_not_read_are_not_claims_that_were_not_made(claims, reason):
    assert reasons(picture(HEAVY, workers=(serving("gpu"),), queue={"gpu": LATE}, claims=claims)) == {"gpu": reason}


def test_a_tag_that_only_future_jobs_wait_under_is_no_demand():
    assert reasons(picture(queue={"later": Pending()}, claims={})) == {}


def test_groups_that_nobody_asked_for_are_bounded_and_none_is_lost():
    workers = tuple(Worker(id=f"w{n}", group=f"g{n}", age=1.0) for n in range(200))
    found = picture(HEAVY, workers=workers, queue={})
    assert len(found.observed) == STRANGERS + 2
    assert sum(each.alive for each in found.observed.values()) == 200
    assert states(found)["__other__"] == "unregistered"


def test_a_group_whose_row_can_not_be_right_is_unknown_not_unregistered():
    roll = Roll(at=0.0, epoch="e", workers=(serving("gpu", "wrong"),), groups={}, broken={"wrong": "5 to 2"})
    assert states(judge(Parts(workers=roll, settled=True), Rules())) == {"wrong": "unknown"}


def test_the_busiest_tags_have_series_and_the_rest_are_one():
    tags = choose({"declared"}, {"seen"}, {"a": 5, "b": 1}, {}, limit=3)
    assert tags.kept == {"a", "b", "declared"}
    assert tags.series() == ["a", "b", "declared", "__other__"]
    assert tags.label("seen") == "__other__"
    assert choose({"a"}, {"b"}, {}, {}, limit=3).series() == ["a", "b"]


def test_a_tag_of_that_very_name_is_among_the_rest():
    tags = choose((), (), {"__other__": 3}, {})
    assert tags.kept == frozenset()
    assert tags.series() == ["__other__"]


def test_a_tag_that_two_groups_share_belongs_to_neither():
    second = WorkerGroup(name="second", tags=("gpu", "x", "x"), desired_replicas=1)
    third = WorkerGroup(name="third", tags=("gpu",), desired_replicas=1)
    assert owners({"heavy": HEAVY, "second": second}) == {"gpu": "", "x": "second"}
    assert owners({"heavy": HEAVY, "second": second, "third": third})["gpu"] == ""


def test_a_tag_without_jobs_keeps_its_series_for_ten_minutes():
    seen = Seen().saw(["a", "b"], 0.0).saw(["a"], 300.0)
    assert set(seen.saw([], FORGET).at) == {"a", "b"}
    assert set(seen.saw([], FORGET + 1).at) == {"a"}


def test_verdicts_of_danger_are_shown_first_and_the_worst_of_the_rest_stands_for_it():
    covered = tuple(
        Coverage(tag=f"{reason}-{n}", reason=reason, level="ok", pending=n)
        for reason in ("covered", "stuck")
        for n in range(3)
    )
    assert set(shown(covered, 2)) == {"stuck-2", "stuck-1", "__other__"}
    assert shown(covered, 2)["__other__"].reason == "stuck"
    assert "__other__" not in shown(covered, 6)
