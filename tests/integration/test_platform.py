"""The example platform as an operator has it: knobs are pressed, and what the console, boards and traces say of it.

Its processes push their metrics to VictoriaMetrics, and their traces and lines to a receiver.
"""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from examples.platform.running import Platform, environ_for, platform
from ingest.principal import Principal
from telemetry.grafana.boards import BOARDS
from telemetry.grafana.records import Query
from telemetry.testing import Receiver
from tests.backends.process import eventually, request
from tests.backends.servers import Sample, VictoriaMetrics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

OPERATOR = "operator"
# What only an observer of a replica tells; this platform has none.
OF_A_REPLICA = {"fleet_queue_replica_lag_seconds"}
CHOICES = {
    "job": "platform-.+",
    "instance": ".+",
    "group": ".*",
    "tag": ".+",
    "__rate_interval": "5m",
    "__range": "10m",
    "__auto": "5m",
}


def queries() -> list[Any]:
    """Each PromQL query of the boards that show a queue and its workers, once."""
    found: dict[str, Query] = {}
    for board in BOARDS:
        if board.uid in {"fleetglass-queue", "fleetglass-fleet"}:
            found |= {query.name: query for query in board.queries if query.language == "promql"}
    return [
        pytest.param(query, id=name)
        for name, query in found.items()
        if not any(metric in query.expression for metric in OF_A_REPLICA)
    ]


class Console:
    """The platform over HTTP, as an operator reads and presses it; ``told`` is what its processes sent."""

    def __init__(self, running: Platform, told: Receiver, store: VictoriaMetrics) -> None:
        self.platform, self.told, self.store = running, told, store

    def call(self, method: str, path: str, data: object = None, token: str = OPERATOR) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        body = None if data is None else json.dumps(data).encode()
        answer = request(method, self.platform.api + path, body, headers, timeout=30)
        return answer.status, json.loads(answer.body) if answer.body else None

    def enqueue(self, tag: str, **more: object) -> list[str]:
        status, answer = self.call("POST", "/api/jobs", {"tag": tag, **more})
        assert status == 202, answer
        return [str(job) for job in answer["jobs"]]

    def group(self, name: str) -> dict[str, Any]:
        """Badge, figures and workers of a group; what is unknown is empty."""
        _, fleet = self.call("GET", "/api/admin/fleet?workers=true")
        for each in fleet["groups"]:
            if each["group"] == name:
                facts = {key: each[key]["value"] or {} for key in ("badge", "observed", "desired")}
                workers = (each["workers"] or {}).get("value") or []
                return {"badge": facts["badge"].get("badge"), **facts["observed"], "workers": workers}
        return {"badge": None, "workers": []}

    def becomes(self, name: str, what: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The group once ``what`` holds of it, within a minute and a half."""
        last: list[dict[str, Any]] = []

        def look() -> bool:
            last[:] = [self.group(name)]
            return bool(what(last[0]))

        assert eventually(look, timeout=90, interval=0.2), last[0]
        return last[0]

    def tag(self, name: str) -> dict[str, Any] | None:
        _, coverage = self.call("GET", "/api/admin/coverage")
        return next((each for each in coverage["tags"]["value"] or [] if each["tag"] == name), None)

    def ended(self, job: str) -> str | None:
        """The status of a job that has ended."""
        with psycopg.connect(self.platform.url) as connection:
            row = connection.execute("SELECT status FROM job_completed WHERE job_id = %s", (job,)).fetchone()
            return str(row[0]) if row else None

    def ends(self, job: str) -> str | None:
        """The status of a job, once it has ended."""
        return eventually(lambda: self.ended(job), timeout=90, interval=0.2)

    def runs(self, job: str) -> dict[str, Any]:
        """The worker that has ``job`` in its hands, as the console says."""
        found = self.becomes("heavy", lambda group: any(each["current_job"] == job for each in group["workers"]))
        return next(each for each in found["workers"] if each["current_job"] == job)

    def ask(self, query: Query) -> list[Sample]:
        return self.store.query(query.filled(CHOICES))


@pytest.fixture(scope="module")
def console(victoria_metrics: VictoriaMetrics) -> Iterator[Console]:
    tokens = {
        OPERATOR: Principal("ops@acme.example", "acme", ("super_admin",)),
        "member": Principal("mina@acme.example", "acme", ("member",)),
    }
    with Receiver(keep="records") as told:
        destination = {**told.environ(), "FLEETGLASS_METRICS_PUSH_URL": victoria_metrics.url}
        with platform(environ_for(destination, tokens)) as running:
            yield Console(running, told, victoria_metrics)


@pytest.fixture(scope="module")
def settled(console: Console) -> Console:
    """Once silence may be believed, both groups are as they were asked for."""
    for name in ("light", "heavy"):
        console.becomes(name, lambda group: group["badge"] == "ok" and group["active"] == 1)
    return console


@pytest.fixture(scope="module")
def poison(settled: Console) -> str:
    """A job that kills whoever takes it: it goes around beside the other tests, which don't need the group light."""
    return settled.enqueue("mail", does="poison")[0]


def test_a_job_is_one_trace_across_three_processes_and_its_lines_are_found_by_it(settled):
    (job,) = settled.enqueue("mail", seconds=0.2)
    assert settled.ends(job) == "success"

    def trace() -> dict[str, Any]:
        for spans in settled.told.traces().values():
            if any(span.attributes.get("messaging.message.id") == job and span.kind == "consumer" for span in spans):
                return {span.name: span for span in spans}
        return {}

    wanted = {"POST /api/jobs", "send mail", "wait mail", "process mail", "mail at work"}
    assert eventually(lambda: wanted <= set(trace()), timeout=60), trace()
    spans = trace()
    assert {name: spans[name].resource["service.name"] for name in wanted} == {
        "POST /api/jobs": "platform-api",
        "send mail": "platform-api",
        "wait mail": "platform-worker",
        "process mail": "platform-worker",
        "mail at work": "platform-worker",
    }
    assert spans["process mail"].parent_id == spans["send mail"].span_id

    def lines() -> set[str]:
        here = [line for line in settled.told.lines if line.trace_id == spans["process mail"].trace_id]
        return {line.fields["msg"] for line in here if line.fields.get("job_id") == job}

    assert eventually(lambda: lines() == {"mail begins", "mail done"}, timeout=60), lines()


def test_a_worker_that_is_drained_finishes_its_job_and_has_a_successor(settled, poison):
    (job,) = settled.enqueue("render", seconds=8)
    worker = settled.runs(job)["id"]
    settled.platform.cluster.end("heavy-0", drain=True)
    drained = settled.becomes("heavy", lambda group: group["badge"] == "draining")
    assert (drained["active"], drained["draining"], drained["busy"]) == (0, 1, 1)
    assert settled.ends(job) == "success"
    after = settled.becomes("heavy", lambda group: group["badge"] == "ok")
    # It took its leave: nobody is lost.
    assert worker not in {each["id"] for each in after["workers"]}


def test_a_worker_that_is_killed_is_missed_and_replaced_and_its_job_runs_again(settled, poison):
    (job,) = settled.enqueue("render", seconds=4)
    worker = settled.runs(job)["id"]
    settled.platform.cluster.end("heavy-0", drain=False)
    missing = settled.becomes("heavy", lambda group: group["badge"] == "missing")
    assert {each["id"]: each["life"] for each in missing["workers"]}[worker] == "tombstone"
    settled.becomes("heavy", lambda group: group["badge"] == "ok" and group["lost"])
    assert settled.ends(job) == "success"

    def runs() -> list[Any]:
        spans = [span for span in settled.told.spans if span.attributes.get("messaging.message.id") == job]
        return [span for span in spans if span.kind == "consumer"]

    # The first run told nothing any more; the second names it.
    assert eventually(lambda: len(runs()) == 1, timeout=60)
    assert len(runs()[0].links) == 1


def test_a_tag_that_nobody_serves_is_a_danger_until_it_is_withdrawn(settled):
    tag = f"quantum-{uuid.uuid4().hex[:6]}"
    assert settled.call("PUT", f"/api/actions/{tag}")[0] == 204
    jobs = settled.enqueue(tag, count=2)
    assert eventually(lambda: (settled.tag(tag) or {}).get("pending") == 2, timeout=60), settled.tag(tag)
    found = settled.tag(tag)
    assert (found["reason"], found["level"], found["serving"]) == ("no_route", "danger", 0)
    assert settled.call("DELETE", f"/api/actions/{tag}")[0] == 204
    assert eventually(lambda: settled.tag(tag) is None, timeout=60), settled.tag(tag)
    assert {settled.ended(job) for job in jobs} == {"canceled"}


def test_a_group_that_is_scaled_is_out_of_step_until_its_workers_have_come(settled, poison):
    settled.becomes("heavy", lambda group: group["badge"] == "ok")
    assert settled.call("PATCH", "/api/groups/heavy", {"replicas": 2})[0] == 204
    settled.becomes("heavy", lambda group: group["badge"] == "scaled" and group["active"] == 1)
    settled.becomes("heavy", lambda group: group["badge"] == "ok" and group["active"] == 2)
    assert settled.call("PATCH", "/api/groups/heavy", {"replicas": 1})[0] == 204
    settled.becomes("heavy", lambda group: group["badge"] == "ok" and group["active"] == 1)


def test_knobs_are_for_operators(console):
    knobs = [
        ("POST", "/api/jobs", {"tag": "mail"}),
        ("PUT", "/api/actions/x", None),
        ("DELETE", "/api/actions/x", None),
        ("PATCH", "/api/groups/heavy", {"replicas": 2}),
        ("GET", "/api/admin/fleet", None),
    ]
    assert [console.call(*knob, token="nobody")[0] for knob in knobs] == [401] * len(knobs)
    assert [console.call(*knob, token="member")[0] for knob in knobs] == [403] * len(knobs)


def test_a_poison_job_is_given_up_after_its_last_restart(settled, poison):
    assert settled.ends(poison) == "lost"
    settled.becomes("light", lambda group: group["badge"] == "ok")


def test_a_backlog_makes_a_group_grow(settled, poison):
    settled.becomes("light", lambda group: group["badge"] == "ok")
    jobs = settled.enqueue("thumbnail", count=60, seconds=0.4)
    settled.becomes("light", lambda group: group["active"] == 3)
    assert {settled.ends(job) for job in jobs} == {"success"}


@pytest.mark.parametrize("query", queries())
def test_a_panel_of_queue_and_fleet_is_not_empty(settled, poison, query):
    """After all of the above. A run that failed, and one that is still under way, are among what panels ask for."""
    found = eventually(lambda: settled.ask(query), timeout=60, interval=0.5)
    assert found, query.filled(CHOICES)
    assert all(sample.value == sample.value for sample in found), "NaN is not drawn"


def test_a_database_that_dies_is_started_again_and_nothing_is_shown_in_its_place(settled):
    """The last one: what was pushed before stays, what is asked of the console does not."""
    settled.becomes("heavy", lambda group: group["badge"] == "ok")
    os.kill(settled.platform.database.pid, signal.SIGKILL)
    settled.becomes("heavy", lambda group: group["badge"] is None)
    settled.becomes("heavy", lambda group: group["badge"] == "ok" and group["active"] == 1)
    (job,) = settled.enqueue("mail", seconds=0.1)
    assert settled.ends(job) == "success"
