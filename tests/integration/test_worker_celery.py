"""Celery with a real broker and a pool of processes: a task is one trace from publishing to its run and its retry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

import telemetry
from telemetry.testing import Receiver
from telemetry.worker import celery
from tests.backends.process import eventually
from tests.backends.redis import MISSING, Redis

pytestmark = pytest.mark.timeout(180)
ROOT = Path(__file__).parents[2]
APPS = Path(__file__).with_name("apps")

QUIET = ("--without-gossip", "--without-mingle", "--without-heartbeat")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path)
    yield server.url
    server.kill()


@pytest.fixture
def worker(broker: str, tmp_path: Path, telemetry_receiver: Receiver) -> Iterator[subprocess.Popen[bytes]]:
    """`celery worker` with one process in its pool; it publishes nothing by itself."""
    with (tmp_path / "celery.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "1", "-P", "prefork", *QUIET],
            cwd=tmp_path,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={
                **os.environ,
                **telemetry_receiver.environ(),
                "BROKER": broker,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{APPS}",
                "FLEETGLASS_METRICS_LISTEN": "off",
                "FLEETGLASS_STDOUT": "off",
                "FLEETGLASS_LINGER": "30",  # only what is flushed at the end arrives
            },
        )
    yield process
    if process.poll() is None:
        process.kill()
        process.wait(30)


@pytest.fixture
def app(broker: str) -> Iterator[Celery]:
    """The side that publishes, in this process."""
    made = Celery("shop", broker=broker)
    celery.install()
    yield made
    made.close()
    celery.uninstall()


@pytest.mark.slow
def test_a_task_is_one_trace_whose_worker_delivers_all_of_it_before_it_ends(
    app, worker, tmp_path, telemetry_captured, telemetry_receiver
):
    with telemetry.span("request"):
        sent = app.send_task("resize", (80,))
        app.send_task("broken")
        app.send_task("again")
        app.send_task("ignored")
    done = ("resizing 80", "no such image", "got it")
    # Celery's own end: a warm shutdown finishes what runs, then the process of the pool leaves.
    assert eventually(lambda: _empty(app), timeout=90), (tmp_path / "celery.log").read_text()
    worker.terminate()
    assert worker.wait(60) == 0, (tmp_path / "celery.log").read_text()

    here = {span.name: span for span in telemetry_captured.spans}
    there = telemetry_receiver.spans
    lines = telemetry_receiver.lines
    assert {span.trace_id for span in there if span.name.startswith("process")} == {here["request"].trace_id}
    (resize,) = [span for span in there if span.name == "process resize"]
    assert resize.parent_id == here["send resize"].span_id
    assert resize.attributes["messaging.system"] == here["send resize"].attributes["messaging.system"] == "celery"
    assert resize.attributes["messaging.message.id"] == sent.id
    assert [span.parent_id for span in there if span.name == "wait resize"] == [here["send resize"].span_id]
    (line,) = [line for line in lines if line.fields["msg"] == done[0]]
    assert line.fields.items() >= {"job_id": sent.id, "tag": "resize", "group": "heavy"}.items()
    assert line.fields["trace_id"] == resize.trace_id

    (broken,) = [span for span in there if span.name == "process broken"]
    assert broken.attributes["job.outcome"] == "failure"
    assert broken.events[0].attributes["exception.message"] == done[1]

    first, second = sorted((span for span in there if span.name == "process again"), key=lambda span: span.start_ns)
    assert first.parent_id == second.parent_id == here["send again"].span_id
    assert [link.span_id for link in second.links] == [first.span_id]
    assert [span.attributes["job.outcome"] for span in (first, second)] == ["failure", "success"]
    assert [line.fields["msg"] for line in lines if line.fields["msg"] == done[2]] == [done[2]]
    (ignored,) = [span for span in there if span.name == "process ignored"]
    assert ignored.attributes["job.outcome"] == "success"


def _empty(app: Celery) -> bool:
    """Nothing waits, and nothing is held that is not acknowledged yet."""
    with app.connection_for_read() as connection:
        client = connection.default_channel.client
        return not client.llen("celery") and not client.hlen("unacked") and client.exists("_kombu.binding.celery")


def test_publishing_that_fails_leaves_nothing_behind_for_the_next(telemetry_captured):
    made = Celery("shop", broker="redis://127.0.0.1:1/0")
    adapter = celery._Adapter("")
    headers: dict = {"id": "1"}
    adapter.before_publish("first", headers)
    adapter.before_publish("second", {"id": "2"})
    adapter.after_publish({"id": "2"})
    assert {span.name: span.parent_id for span in telemetry_captured.spans} == {"send first": "", "send second": ""}
    made.close()


def test_a_task_that_is_due_later_waits_from_then_on():
    assert celery._due("2026-01-01T00:00:10+00:00") == 1767225610.0
