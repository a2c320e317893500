"""Procrastinate on a real PostgreSQL: a job is one trace, whose lines carry its fields, and its runs are counted."""

from __future__ import annotations

import asyncio
import logging

import pytest
from procrastinate import App, PsycopgConnector, exceptions
from procrastinate.worker import Worker

import telemetry
from telemetry.worker import procrastinate

pytestmark = pytest.mark.timeout(120)
log = logging.getLogger("shop")


def application(database: str, **more) -> App:
    app = App(connector=PsycopgConnector(conninfo=database), **more)

    @app.task(name="resize")
    async def resize(width: int) -> None:
        log.info("resizing %d", width)

    @app.task(name="blocking")
    def blocking() -> None:
        log.info("blocking")

    @app.task(name="flaky", retry=1)
    async def flaky() -> None:
        raise ValueError("no")

    @app.task(name="aborting")
    async def aborting() -> None:
        raise exceptions.JobAborted

    return app


async def run(app: App) -> None:
    await app.run_worker_async(wait=False, install_signal_handlers=False, listen_notify=False)


async def test_a_job_is_one_trace_and_its_lines_carry_its_fields(database, telemetry_captured):
    app = procrastinate.install(application(database), group="heavy")
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        with telemetry.span("request"):
            job_id = await app.tasks["resize"].defer_async(width=80)
        await app.tasks["blocking"].defer_async()
        await run(app)
        stored = await app.job_manager.list_jobs_async(id=job_id)
    spans = {span.name: span for span in telemetry_captured.spans}
    request, send, wait, process = (spans[name] for name in ("request", "send resize", "wait resize", "process resize"))
    assert send.parent_id == request.span_id
    assert wait.parent_id == process.parent_id == send.span_id
    assert process.trace_id == request.trace_id
    assert process.attributes["messaging.message.id"] == str(job_id)
    lines = {line.fields["msg"]: line.fields for line in telemetry_captured.lines}
    assert lines["resizing 80"].items() >= {"job_id": str(job_id), "tag": "resize", "group": "heavy"}.items()
    assert lines["resizing 80"]["trace_id"] == process.trace_id
    # A task that is no coroutine runs in a thread, and in its span all the same.
    assert lines["blocking"]["trace_id"] == spans["process blocking"].trace_id
    assert telemetry_captured.value("fleet_job_executed_total", tag="resize", group="heavy", outcome="success") == 1
    assert telemetry_captured.value("fleet_job_wait_seconds_count", tag="resize", group="heavy") == 1
    assert [job.status for job in stored] == ["succeeded"]


async def test_many_jobs_at_once_are_sent_by_one_span(database, telemetry_captured):
    app = procrastinate.install(application(database))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.tasks["resize"].batch_defer_async({"width": 1}, {"width": 2})
        await app.tasks["resize"].batch_defer_async()
        await run(app)
    (send,) = [span for span in telemetry_captured.spans if span.name == "send resize"]
    runs = [span for span in telemetry_captured.spans if span.name == "process resize"]
    assert [span.parent_id for span in runs] == [send.span_id] * 2
    assert send.attributes["messaging.batch.message_count"] == 2


def test_a_job_that_is_deferred_without_an_event_loop_is_one_trace_too(database, telemetry_captured):
    app = procrastinate.install(application(database))
    with app.open():
        app.schema_manager.apply_schema()
        app.tasks["resize"].defer(width=3)

    async def work() -> None:
        async with app.open_async():
            await run(app)

    asyncio.run(work())
    spans = {span.name: span for span in telemetry_captured.spans}
    assert spans["process resize"].parent_id == spans["send resize"].span_id


async def test_each_try_is_a_run_of_the_same_trace_and_an_abort_is_no_failure(database, telemetry_captured):
    app = procrastinate.install(application(database))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.tasks["flaky"].defer_async()
        await app.tasks["aborting"].defer_async()
        await run(app)
    tries = [span for span in telemetry_captured.spans if span.name == "process flaky"]
    assert [span.attributes["job.attempts"] for span in tries] == [0, 1]
    assert len({span.trace_id for span in tries}) == 1
    assert {span.attributes["job.outcome"] for span in tries} == {"failure"}
    assert telemetry_captured.value("fleet_job_wait_seconds_count", tag="flaky", group="") == 1
    assert telemetry_captured.value("fleet_job_executed_total", tag="aborting", group="", outcome="cancelled") == 1


async def test_a_job_from_before_the_upgrade_runs_in_a_trace_of_its_own(database, telemetry_captured):
    old = application(database)
    async with old.open_async():
        await old.schema_manager.apply_schema_async()
        await old.tasks["resize"].defer_async(width=5)
    app = procrastinate.install(application(database))
    async with app.open_async():
        await run(app)
    (process,) = [span for span in telemetry_captured.spans if span.name == "process resize"]
    assert not process.parent_id
    assert process.attributes["job.outcome"] == "success"


async def test_middleware_of_the_application_stays_inside_of_ours(database, telemetry_captured):
    async def theirs(call_next, _context, _worker: Worker):
        log.info("theirs")
        return await call_next()

    app = procrastinate.install(application(database, worker_defaults={"worker_middleware": [theirs]}))
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.tasks["resize"].defer_async(width=5)
        await run(app)
    (line,) = [line for line in telemetry_captured.lines if line.fields["msg"] == "theirs"]
    assert line.fields["tag"] == "resize"
