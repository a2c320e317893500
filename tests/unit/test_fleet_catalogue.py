"""What an author declared and an operator changed, as the tags that jobs really get."""

from __future__ import annotations

import pytest

from telemetry.fleet.catalogue import Use, effective
from telemetry.fleet.coverage import Demand, Inputs, coverage
from telemetry.fleet.model import Windows, Worker, WorkerGroup


@pytest.mark.parametrize(
    ("use", "tags"),
    [
        pytest.param(Use(workspace="w", app="cpu"), {"cpu"}, id="the app's tag"),
        pytest.param(Use(workspace="w", app="cpu", action="gpu"), {"gpu"}, id="an action's goes before its app's"),
        pytest.param(Use(workspace="w", app="cpu", action="gpu", override="mem"), {"mem"}, id="an operator reroutes"),
        pytest.param(Use(workspace="w", app="cpu", capabilities=("browser",)), {"browser"}, id="a capability routes"),
        pytest.param(
            Use(workspace="w", app="cpu", override="mem", capabilities=("browser",)),
            {"browser"},
            id="a capability and an override conflict, and nothing goes by the override",
        ),
        pytest.param(Use(workspace="w", capabilities=("browser", "arm")), {"browser", "arm"}, id="two capabilities"),
        pytest.param(Use(workspace="acme", app="$workspace-cpu"), {"acme-cpu"}, id="a tag with the workspace in it"),
        pytest.param(Use(workspace="w"), set(), id="no tag at all"),
        pytest.param(Use(workspace="big", app="cpu"), {"big-only"}, id="a workspace with a group to itself"),
        pytest.param(
            Use(workspace="big", app="cpu", action="gpu", override="mem", capabilities=("browser",)),
            {"big-only"},
            id="of such a workspace nothing goes elsewhere",
        ),
    ],
)
def test_a_job_s_tag(use: Use, tags: set[str]) -> None:
    assert effective([use], {"big": "big-only"}).tags == tags


def test_capabilities_are_known_even_where_they_route_nothing() -> None:
    found = effective([Use(workspace="big", capabilities=("browser",)), Use(workspace="w", app="cpu")], {"big": "t"})
    assert found.capabilities == {"browser"}
    assert found.tags == {"t", "cpu"}


def judged(group: WorkerGroup, *workers: Worker) -> str:
    (found,) = coverage(
        Inputs(
            demand={"browser": Demand(pending=1, oldest=1.0)},
            groups={group.name: group},
            workers=workers,
            catalogue=frozenset({"browser"}),
        ),
        Windows(),
    )
    return found.reason


def test_coverage_of_a_capability_is_that_of_its_tag() -> None:
    able = WorkerGroup(name="browsers", capabilities=("browser",), desired_replicas=1)
    disabled = WorkerGroup(name="browsers", capabilities=("browser",), desired_replicas=1, enabled=False)
    serving = Worker(id="b-1", group="browsers", age=1.0, tags=("browser",))
    assert judged(disabled) == "no_route"
    assert judged(able) == "no_live_workers"
    assert judged(able, serving) == "covered"
    # What was asked for is one fact, which tags a worker subscribes to another.
    assert judged(able, Worker(id="b-2", group="browsers", age=1.0, tags=("other",))) == "no_live_workers"


def test_a_tag_that_is_also_a_capability_is_one_route() -> None:
    assert WorkerGroup(name="g", tags=("browser", "cpu"), capabilities=("browser",)).routes == ("browser", "cpu")
