"""What a console is told: every fact has its tier, source and age, and what is not known is told as not known."""

from __future__ import annotations

import msgspec
import pytest

from telemetry.fleet.console import MOST_TAGS, coverage_view, fleet_view
from telemetry.fleet.facts import CoverageView, Fact, FleetView, Group
from telemetry.fleet.model import Windows, Worker, WorkerGroup
from telemetry.fleet.picture import Parts, Rules, judge
from telemetry.fleet.queue import Pending, Reading
from telemetry.fleet.snapshot import Snapshot, Source
from telemetry.fleet.workers import Roll

HEAVY = WorkerGroup(name="heavy", tags=("gpu", "shared"), desired_replicas=2, drain_timeout=570.0)
SLEEPER = WorkerGroup(name="sleeper", tags=("night",), autoscale_min=0, autoscale_max=3)
GROUPS = {"heavy": HEAVY, "sleeper": SLEEPER}
WORKERS = (
    Worker(id="h-1", group="heavy", age=2.0, tags=("gpu", "shared"), version="1", running_jobs=1, current_job="j"),
    Worker(id="h-2", group="heavy", age=4.0, tags=("gpu",), version="2", node="n"),
    Worker(id="h-0", group="heavy", age=300.0, tags=("gpu",)),
    Worker(id="s-1", group="stranger", age=1.0, tags=("x",)),
    Worker(id="g-1", group="ghosts", age=200.0),
)
QUEUE = Reading(
    at=1000.0,
    tags={
        "gpu": Pending(count=1000, capped=True, oldest_age=40.0, oldest_at=960.0),
        "shared": Pending(count=2, oldest_age=50.0, oldest_at=950.0),
        "later": Pending(),
        "orphan": Pending(count=1, oldest_age=9.0, oldest_at=991.0),
    },
)
ROLL = Roll(at=1000.0, epoch="e", workers=WORKERS, groups=GROUPS)
SOURCES = {
    "queue": Source(condition="fresh", tables=("job_queue",), age=3.0, read_at=1000.0),
    "workers": Source(condition="fresh", tables=("worker_ping",), age=5.0, read_at=1000.0),
    "detail": Source(condition="fresh", tables=("job_queue", "job_completed"), age=30.0, read_at=970.0),
    "catalogue": Source(condition="fresh", tables=("catalogue",), age=40.0, read_at=960.0),
}
PARTS = Parts(queue=QUEUE, workers=ROLL, catalogue=frozenset({"gpu", "forgotten"}), settled=True, registry=GROUPS)


def snapshot(sources: dict[str, Source] | None = None, **parts) -> Snapshot:
    changed = msgspec.structs.replace(PARTS, **parts)
    return Snapshot(picture=judge(changed, Rules()), sources={**SOURCES, **(sources or {})}, registry="worker_group")


def groups(view: FleetView) -> dict[str, Group]:
    return {each.group: each for each in view.groups}


def where(fact: Fact) -> tuple[str, str, str, float | None, str]:
    return fact.state, fact.tier, fact.source, fact.age, fact.why


def facts(view: FleetView | CoverageView) -> list[Fact]:
    if isinstance(view, CoverageView):
        return [view.catalogue, view.waiting, view.tags]
    return [fact for each in view.groups for fact in (each.badge, each.desired, each.observed, each.backlog)]


def test_asked_for_seen_and_concluded_stand_side_by_side_each_with_where_from_and_how_old():
    found = groups(fleet_view(snapshot()))
    heavy = found["heavy"]
    assert where(heavy.desired) == ("known", "desired", "worker_group", 5.0, "")
    assert (heavy.desired.value.low, heavy.desired.value.high) == (2, 2)
    assert where(heavy.observed) == ("known", "observed", "worker_ping", 5.0, "")
    seen = heavy.observed.value
    assert (seen.alive, seen.active, seen.busy, seen.lost, seen.versions) == (2, 2, 1, 1, ("1", "2"))
    assert where(heavy.backlog) == ("known", "observed", "job_queue", 3.0, "")
    assert (heavy.backlog.value.pending, heavy.backlog.value.capped, heavy.backlog.value.oldest_age) == (1002, True, 50)
    assert where(heavy.badge) == ("known", "derived", "worker_group, worker_ping", 5.0, "")
    assert (heavy.badge.value.badge, heavy.badge.value.rule) == ("ok", "8")
    # A badge that rests on the queue, too, says so.
    assert where(found["sleeper"].badge) == ("known", "derived", "worker_group, worker_ping, job_queue", 5.0, "")
    assert heavy.workers is None


def test_a_group_that_nobody_asked_for_has_an_absent_wish_and_not_an_unknown_one():
    stranger = groups(fleet_view(snapshot()))["stranger"]
    assert where(stranger.desired) == ("absent", "desired", "worker_group", 5.0, "")
    assert stranger.badge.value.badge == "unregistered"
    assert stranger.backlog.state == "absent"


def test_a_group_of_which_only_lost_workers_are_left_is_shown_without_a_badge():
    ghosts = groups(fleet_view(snapshot(), workers=True))["ghosts"]
    assert ghosts.badge.state == "absent"
    assert (ghosts.observed.value.alive, ghosts.observed.value.lost) == (0, 1)
    assert [(each.id, each.life) for each in ghosts.workers.value] == [("g-1", "tombstone")]


def test_each_worker_is_told_where_it_is_asked_for():
    heavy = groups(fleet_view(snapshot(), workers=True))["heavy"]
    assert where(heavy.workers) == ("known", "observed", "worker_ping", 5.0, "")
    assert [(each.id, each.life, each.ping_age) for each in heavy.workers.value] == [
        ("h-0", "tombstone", 300.0),
        ("h-1", "alive", 2.0),
        ("h-2", "alive", 4.0),
    ]
    assert (heavy.workers.value[1].current_job, heavy.workers.value[2].node) == ("j", "n")
    windows = Windows(alive=400.0, tombstone=900.0)
    wide = msgspec.structs.replace(snapshot(), windows=windows)
    assert {each.life for each in groups(fleet_view(wide, workers=True))["heavy"].workers.value} == {"alive"}


@pytest.mark.parametrize("condition", ["failed", "stale", "unread", "elsewhere"])
def test_without_workers_names_are_still_known_and_nothing_else_of_them_is(condition):
    source = Source(
        condition=condition, tables=("worker_ping",), reason="connection" if condition == "failed" else None
    )
    view = fleet_view(snapshot({"workers": source}, workers=None), workers=True)
    assert set(groups(view)) == {"heavy", "sleeper"}
    for each in view.groups:
        for fact in (each.badge, each.desired, each.observed, each.workers):
            assert (fact.state, fact.value, fact.why, fact.age) == ("unknown", None, condition, None)
            assert fact.detail == ("connection" if condition == "failed" else "")
        assert each.backlog.state == "known"


def test_without_the_queue_only_what_needs_it_is_unknown():
    source = Source(condition="failed", tables=("job_queue",), age=2.0, reason="lock_timeout")
    found = groups(fleet_view(snapshot({"queue": source}, queue=None)))
    assert found["heavy"].badge.value.badge == "ok"
    for fact in (found["heavy"].backlog, found["sleeper"].badge):
        assert (fact.state, fact.value, fact.why, fact.detail) == ("unknown", None, "failed", "lock_timeout")
    assert found["sleeper"].badge.source == "worker_group, worker_ping, job_queue"


def test_just_after_an_outage_workers_are_counted_and_nothing_is_concluded():
    view = fleet_view(snapshot(settled=False))
    assert view.settled is False
    heavy = groups(view)["heavy"]
    assert heavy.observed.value.alive == 2
    assert where(heavy.badge) == ("unknown", "derived", "worker_group, worker_ping", 5.0, "settling")
    tags = coverage_view(snapshot(settled=False)).tags
    assert where(tags) == ("unknown", "derived", "worker_group, worker_ping, job_queue", 5.0, "settling")


def test_without_a_registry_nobody_knows_what_was_asked_for():
    roll = msgspec.structs.replace(ROLL, groups=None)
    shot = msgspec.structs.replace(snapshot(workers=roll, registry={}), registry="")
    heavy = groups(fleet_view(shot))["heavy"]
    assert where(heavy.desired) == ("unknown", "desired", "", 5.0, "no_registry")
    assert where(heavy.badge) == ("unknown", "derived", "worker_ping", 5.0, "no_registry")
    assert heavy.observed.value.alive == 2


def test_a_row_that_cannot_be_right_is_unknown_with_the_sentence_that_says_why():
    roll = msgspec.structs.replace(ROLL, groups={"sleeper": SLEEPER}, broken={"heavy": "3 to 1 replicas is no range"})
    heavy = groups(fleet_view(snapshot(workers=roll, registry={"sleeper": SLEEPER})))["heavy"]
    for fact in (heavy.desired, heavy.badge):
        assert (fact.state, fact.why, fact.detail) == ("unknown", "broken_row", "3 to 1 replicas is no range")
    assert heavy.observed.value.alive == 2


def test_every_unknown_fact_says_why_and_has_no_value_and_every_known_one_has_both():
    parts = [{}, {"queue": None}, {"workers": None}, {"settled": False}, {"catalogue": None}, {"registry": {}}]
    parts += [{"workers": msgspec.structs.replace(ROLL, groups=None)}, {"queue": None, "workers": None}]
    for changed in parts:
        sources = {name: Source(condition="failed") for name, value in changed.items() if value is None}
        shot = snapshot(sources, **changed)
        for fact in facts(fleet_view(shot)) + facts(coverage_view(shot)):
            assert (fact.why != "") == (fact.state == "unknown"), (changed, fact)
            assert (fact.value is not None) == (fact.state == "known"), (changed, fact)


def test_who_serves_which_tag_and_what_waits():
    view = coverage_view(snapshot())
    assert where(view.tags) == ("known", "derived", "worker_group, worker_ping, job_queue", 5.0, "")
    verdicts = {each.tag: (each.reason, each.level) for each in view.tags.value}
    assert verdicts["gpu"] == ("covered", "ok")
    assert verdicts["orphan"] == verdicts["forgotten"] == ("no_route", "danger")
    assert verdicts["night"] == ("idle", "info")
    assert "later" not in verdicts
    assert where(view.waiting) == ("known", "observed", "job_queue", 3.0, "")
    assert [(each.tag, each.pending, each.capped) for each in view.waiting.value] == [
        ("gpu", 1000, True),
        ("orphan", 1, False),
        ("shared", 2, False),
    ]
    assert where(view.catalogue) == ("known", "desired", "catalogue", 40.0, "")
    assert view.catalogue.value == ("forgotten", "gpu")
    assert view.cut is False


def test_without_a_catalogue_coverage_is_judged_and_says_so():
    view = coverage_view(snapshot({"catalogue": Source(condition="none")}, catalogue=None))
    assert (view.catalogue.state, view.catalogue.value) == ("absent", None)
    assert "judged over the queue and the registry alone" in view.catalogue.detail
    assert view.tags.state == "known"


def test_a_catalogue_that_could_not_be_read_is_unknown_and_not_absent():
    source = Source(condition="failed", tables=("catalogue",), age=1.0, reason="statement_timeout")
    view = coverage_view(snapshot({"catalogue": source}, catalogue=None))
    assert where(view.catalogue) == ("unknown", "desired", "catalogue", 1.0, "failed")


def test_tags_beyond_the_limit_are_cut_and_that_is_told():
    many = frozenset(f"t{number}" for number in range(MOST_TAGS + 1))
    view = coverage_view(snapshot(catalogue=many))
    assert len(view.catalogue.value) == len(view.tags.value) == MOST_TAGS
    assert view.cut is True
    assert coverage_view(snapshot(queue=msgspec.structs.replace(QUEUE, cut=True))).cut is True


def test_sources_are_told_in_full():
    source = Source(condition="failed", tables=("job_queue",), age=2.0, read_at=900.0, reason="deadline")
    found = {each.part: each for each in fleet_view(snapshot({"queue": source}, queue=None)).sources}
    assert list(found) == ["queue", "workers", "detail", "catalogue"]
    queue = found["queue"]
    assert (queue.condition, queue.tables, queue.age, queue.read_at, queue.reason) == (
        "failed",
        ("job_queue",),
        2.0,
        900.0,
        "deadline",
    )
