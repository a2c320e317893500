"""Workers of Celery, Procrastinate and arq in ``worker_ping``: there while they live, draining, gone, lapsed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from celery.concurrency import gevent
from procrastinate import App, PsycopgConnector

from telemetry.worker import celery, procrastinate
from telemetry.worker.presence import Presence
from telemetry.worker.roster import Roster
from tests.backends.process import eventually
from tests.backends.redis import MISSING, Redis
from tests.integration.arqs import APPS, QUIET, Arq
from tests.postgres.working import ROOT, rows

pytestmark = pytest.mark.timeout(240)
KINDS = ("celery", "celery on threads", "procrastinate", "arq")


@dataclass
class Library:
    """How to have a job run, and a worker that runs it; ``tags`` are the names of its tasks."""

    tags: set[str]
    enqueue: Callable[[str], object]
    command: list[str]
    environ: dict[str, str]
    folder: Path

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**self.environ, **QUIET},
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)

    @property
    def said(self) -> str:
        return (self.folder / "log").read_text("utf-8", "replace")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[str]:
    if shutil.which("redis-server") is None:
        pytest.skip(MISSING)
    server = Redis(tmp_path)
    yield server.url
    server.kill()


@pytest.fixture
def library(kind: str, queue: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Library]:
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}:{APPS}", "DATABASE_URL": queue}
    if kind == "procrastinate":
        app = App(connector=PsycopgConnector(conninfo=queue))

        async def schema() -> None:
            async with app.open_async():
                await app.schema_manager.apply_schema_async()

        def defer(name: str) -> None:
            async def deferring() -> None:
                async with app.open_async():
                    await app.configure_task(name).defer_async()

            asyncio.run(deferring())

        asyncio.run(schema())
        command = [sys.executable, "-m", "procrastinate", "--app=procrastinate_jobs.app", "worker", "-c", "3"]
        yield Library({"resize", "slow"}, defer, command, environ, tmp_path)
        return
    url = request.getfixturevalue("broker")
    if kind == "arq":
        arq = Arq(url, tmp_path, {"DATABASE_URL": queue, "COMPLETION_WAIT": "120"})
        tags = {"resize", "arq_jobs.again", "cut", "slow", "late", "parent", "cron:tick"}
        command = [sys.executable, "-m", "arq", "arq_jobs.WorkerSettings"]
        yield Library(tags, lambda name: arq.enqueue("traced", name), command, arq.environ, tmp_path)
        return
    sender = Celery("shop", broker=url)
    tags = {"resize", "broken", "again", "ignored", "slow"}
    quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
    pool = "threads" if kind == "celery on threads" else "prefork"
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-c", "3", "-P", pool, *quiet]
    yield Library(tags, sender.send_task, command, {**environ, "BROKER": url}, tmp_path)
    sender.close()


def row(url: str) -> dict:
    """The one row there is, or nothing."""
    found = rows(url, "SELECT *, ping_at > now() - interval '5 s' AS fresh FROM worker_ping")
    assert len(found) < 2, found
    return found[0] if found else {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_is_there_with_what_it_runs_says_that_it_drains_and_is_gone_when_it_ends(queue, library):
    with library.worker() as process:
        assert eventually(lambda: row(queue), timeout=90), library.said
        first = row(queue)
        assert (first["worker_group"], first["status"], first["version"]) == ("heavy", "active", "7")
        assert set(first["tags"]) == library.tags
        for _ in range(2):
            library.enqueue("slow")
        assert eventually(lambda: row(queue)["running_jobs"] == 2, timeout=60), library.said
        assert row(queue)["current_job"]
        process.terminate()
        assert eventually(lambda: row(queue)["status"] == "draining", timeout=60), library.said
        drained = row(queue)
        assert drained["draining_since"] is not None
        assert drained["running_jobs"] == 2
        assert eventually(lambda: row(queue)["ping_at"] > drained["ping_at"], timeout=60), "the heartbeat goes on"
        (library.folder / "go").touch()
        assert process.wait(90) == 0, library.said
    assert row(queue) == {}, library.said


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_it_has_run_is_counted_and_a_worker_that_was_killed_lapses(queue, library):
    (library.folder / "go").touch()
    with library.worker() as process:
        assert eventually(lambda: row(queue), timeout=90), library.said
        for _ in range(3):
            library.enqueue("slow")
        assert eventually(lambda: row(queue)["jobs_executed"] >= 3, timeout=60), library.said
        assert row(queue)["running_jobs"] == 0
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)
    assert eventually(lambda: not row(queue)["fresh"], timeout=60)
    assert row(queue)["status"] == "active", "the tombstone"


def test_a_worker_on_greenlets_has_no_heartbeat_and_says_so(queue, capfd):
    adapter = celery._Adapter("heavy", Presence.told(queue, "heavy", {}))
    adapter.worker_ready(sender=SimpleNamespace(pool=object.__new__(gevent.TaskPool), app=Celery("shop")))
    assert "no heartbeat for a worker on celery.concurrency.gevent" in capfd.readouterr().err
    assert row(queue) == {}


def test_arguments_of_a_heartbeat_without_an_address_are_refused_where_they_are_written():
    with pytest.raises(TypeError, match="tags= needs heartbeat="):
        celery.install(tags=("gpu",))
    with pytest.raises(TypeError, match="tags= needs heartbeat="):
        procrastinate.install(App(connector=PsycopgConnector()), tags=("gpu",))
    with pytest.raises(ValueError, match="heartbeat= needs group="):
        celery.install(heartbeat="postgresql://127.0.0.1:1/x")
    with pytest.raises(ValueError, match="deadline=11 s must be"):
        Presence.told("postgresql://127.0.0.1:1/x", "g", {"deadline": 11.0})


def test_the_tags_that_were_told_win_over_the_names_of_the_tasks(queue):
    presence = Presence.told(queue, "heavy", {"tags": ("gpu",), "interval": 60.0, "deadline": 20.0})
    assert presence is not None
    with presence.heartbeat(Roster(), ["resize"]):
        assert row(queue)["tags"] == ["gpu"]
