"""arq itself on a real Redis: a job is one trace from its enqueueing to its run and its retry, whoever knows of us."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from telemetry.testing import Receiver
from telemetry.testing.records import Span
from telemetry.worker.arq import LAST_RUN_KEY
from tests.backends.process import eventually
from tests.backends.redis import MISSING, Redis
from tests.integration.arqs import Arq

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    running = Redis(tmp_path)
    yield running
    running.kill()


@pytest.fixture
def client(server: Redis) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as connected:
        yield connected


@pytest.fixture
def arq(server: Redis, tmp_path: Path, telemetry_receiver: Receiver) -> Arq:
    return Arq(server.url, tmp_path, telemetry_receiver.environ())


@pytest.fixture
def runs(telemetry_receiver: Receiver) -> Callable[[str], list[Span]]:
    """The runs of a function so far, in order."""

    def found(function: str) -> list[Span]:
        spans = [span for span in telemetry_receiver.spans if span.name == f"process {function}"]
        return sorted(spans, key=lambda span: span.start_ns)

    return found


def outcomes(spans: list[Span]) -> list[object]:
    return [span.attributes["job.outcome"] for span in spans]


def test_a_job_is_one_trace_from_the_pool_to_its_run_and_a_retry_links_to_the_run_before(
    arq, client, runs, telemetry_receiver
):
    resized, *_ = arq.enqueue("traced", "resize 80", "arq_jobs.again", "cut", "late", "parent")
    with arq.worker() as worker:
        assert eventually(lambda: not client.keys("arq:job:*"), timeout=90), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said

    spans = telemetry_receiver.spans
    (request,) = [span for span in spans if span.name == "request"]
    send, *_ = [span for span in spans if span.name == "send resize" and span.parent_id == request.span_id]
    assert send.attributes["job_id"] == resized
    run, nested = runs("resize")
    assert run.parent_id == send.span_id
    assert run.trace_id == request.trace_id
    assert run.attributes["messaging.message.id"] == resized
    assert run.attributes["messaging.system"] == send.attributes["messaging.system"] == "arq"
    assert {span.parent_id for span in spans if span.name == "wait resize"} == {send.span_id, nested.parent_id}
    lines = {line.fields["msg"]: line.fields for line in telemetry_receiver.lines}
    assert lines["resizing 80"].items() >= {"job_id": resized, "tag": "resize", "group": "heavy"}.items()
    assert lines["resizing 80"]["trace_id"] == run.trace_id

    # What a job enqueues by the worker's pool belongs to its trace.
    (parent,) = runs("parent")
    (within,) = [span for span in spans if span.span_id == nested.parent_id]
    assert within.parent_id == parent.span_id
    assert nested.trace_id == request.trace_id

    first, second = runs("arq_jobs.again")
    assert first.parent_id == second.parent_id
    assert [link.span_id for link in second.links] == [first.span_id]
    assert outcomes([first, second]) == ["failure", "success"]
    assert len([span for span in spans if span.name == "wait arq_jobs.again"]) == 1

    (cut,) = runs("cut")
    assert cut.attributes["job.outcome"] == "failure"
    assert cut.events[0].attributes["exception.message"] == "no such image"
    (late,) = runs("late")
    assert late.attributes["job.outcome"] == "failure"
    assert late.events[0].attributes["exception.type"] == "TimeoutError"
    (tick,) = runs("cron:tick")
    assert not tick.parent_id, "begins a trace where it runs"
    assert tick.attributes["job.outcome"] == "success", "the application's on_startup was called"
    assert not client.keys(f"{LAST_RUN_KEY}*"), "the last runs of jobs that are over are forgotten"
    counted = {
        (sample.labels["tag"], sample.labels["group"], sample.labels["outcome"]): sample.value
        for sample in telemetry_receiver.samples
        if sample.name == "fleet_job_executed_total"
    }
    assert counted["resize", "heavy", "success"] == 2
    assert counted["arq_jobs.again", "heavy", "failure"] == counted["arq_jobs.again", "heavy", "success"] == 1


def test_an_aborted_job_is_cancelled_and_no_failure(arq, client, runs):
    (slow,) = arq.enqueue("traced", "slow")
    with arq.worker() as worker:
        assert eventually(lambda: client.exists(f"{LAST_RUN_KEY}{slow}"), timeout=60), arq.said
        arq.enqueue("abort", slow)
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    assert outcomes(runs("slow")) == ["cancelled"]
    assert not client.keys(f"{LAST_RUN_KEY}*")


def test_a_worker_that_stops_cancels_its_job_and_the_next_run_links_to_that_one(arq, client, runs, tmp_path):
    (slow,) = arq.enqueue("traced", "slow")
    with arq.worker() as worker:
        assert eventually(lambda: client.exists(f"{LAST_RUN_KEY}{slow}"), timeout=60), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    (tmp_path / "go").touch()
    with arq.worker() as worker:
        assert eventually(lambda: not client.keys("arq:job:*"), timeout=60), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    first, second = runs("slow")
    assert outcomes([first, second]) == ["cancelled", "success"]
    assert [link.span_id for link in second.links] == [first.span_id]


def test_a_worker_that_was_killed_leaves_its_run_for_the_next_to_link_to(arq, client, runs, tmp_path):
    (slow,) = arq.enqueue("traced", "slow")
    with arq.worker() as worker:
        assert eventually(lambda: client.exists(f"{LAST_RUN_KEY}{slow}"), timeout=60), arq.said
        lost = client.get(f"{LAST_RUN_KEY}{slow}").decode().split("-")[2]
        worker.kill()
    (tmp_path / "go").touch()
    client.delete(f"arq:in-progress:{slow}")  # it lapses by itself, ten seconds after the longest timeout
    with arq.worker() as worker:
        assert eventually(lambda: not client.keys("arq:job:*"), timeout=60), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    (again,) = runs("slow")
    assert [link.span_id for link in again.links] == [lost]


def test_a_worker_without_us_runs_what_a_pool_of_ours_enqueued(arq, client, telemetry_receiver):
    arq.enqueue("traced", "resize 80")
    with arq.worker("Plain") as worker:
        assert eventually(lambda: not client.keys("arq:job:*"), timeout=60), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    assert "resizing 80" in [line.fields["msg"] for line in telemetry_receiver.lines]


@pytest.mark.parametrize("how", ["plain", "strict"])
def test_a_job_that_brings_no_trace_runs_in_one_of_its_own(how, arq, client, runs):
    """Enqueued by a pool without us, or through a serializer that takes nothing but what it knows."""
    arq.enqueue(how, "resize 80")
    with arq.worker() as worker:
        assert eventually(lambda: not client.keys("arq:job:*"), timeout=60), arq.said
        worker.terminate()
        assert worker.wait(60) == 0, arq.said
    (run,) = runs("resize")
    assert not run.parent_id
    assert run.attributes["job.outcome"] == "success"
