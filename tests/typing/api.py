"""The public API as type checkers see it: ``make types`` runs mypy strict and pyright strict over this file.

Never executed. Every public name is used once, with the type that a caller relies on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Literal, assert_type

import psycopg
from litestar import Litestar
from opentelemetry.context import Context
from opentelemetry.trace import Span

import telemetry
from telemetry import testing, web, worker


def configuration() -> None:
    config = telemetry.Config(service="shop", role="server", queue_bytes=1024)
    assert_type(config.service, str)
    assert_type(config.loki_url, str | None)
    assert_type(config.scrub_keys, tuple[str, ...])
    try:
        telemetry.setup("shop", loki_url="http://loki:3100")
    except telemetry.ConfigError as error:
        for problem in error.problems:
            assert_type(problem.name, str)
            assert_type(problem.expected, str)


def pipeline() -> None:
    with telemetry.setup(service="shop", role="worker", linger=0.5) as tel:
        assert_type(tel, telemetry.Telemetry)
        assert_type(tel.config, telemetry.Config)
        assert_type(tel.identity.service, str)
        assert_type(tel.identity.job, str)
        assert_type(tel.flush(), bool)
        assert_type(tel.flush(2.0), bool)
        assert_type(tel.shutdown(timeout=1.0), bool)
        assert_type(tel.metrics(), tuple[bytes, str])
        assert_type(tel.metrics("application/openmetrics-text"), tuple[bytes, str])
        for row in tel.health().rows:
            assert_type(row.signal, str)
            assert_type(row.delivered, int)
            assert_type(row.dropped, dict[str, int])
    assert_type(telemetry.active(), telemetry.Telemetry | None)


@telemetry.bind(queue="default")
def decorated(size: int) -> str:
    return str(size)


@telemetry.traced
def plain(size: int) -> str:
    return str(size)


@telemetry.traced("named", size=3)
async def named(size: int) -> str:
    return str(size)


async def logs() -> None:
    with telemetry.bind(job_id=7) as bound:
        assert_type(bound, telemetry.bind)
    assert_type(decorated(1), str)
    line = telemetry.ReadyLine(line="ts=… level=error", fields={"kind": "error", "repeat": 1}, trace_id=None)
    assert_type(line.trace_id, str | None)
    logging.getLogger("frontend").error("frontend-error", extra={"ready_line": line})
    processor: Callable[..., object] = telemetry.structlog_processor
    assert callable(processor)


async def traces() -> None:
    assert_type(telemetry.span("work", size=3), AbstractContextManager[Span])
    with telemetry.span("work") as span:
        assert_type(span, Span)
    assert_type(plain(1), str)
    assert_type(await named(1), str)
    assert_type(telemetry.trace_id(), str)
    assert_type(telemetry.inject(), MutableMapping[str, str])
    assert_type(telemetry.extract({}), Context)


def carried(executor_submit: Callable[[Callable[[int], str], int], object]) -> None:
    assert_type(telemetry.carry(plain)(1), str)
    executor_submit(telemetry.carry(plain), 1)


async def application(scope: Any, receive: Any, send: Any) -> None: ...


async def database() -> None: ...


async def web_server() -> None:
    tel = telemetry.setup("shop", role="server")
    readiness = web.Readiness({"database": database}, telemetry=telemetry.active)
    readiness.register("queue", database, budget=0.5)
    readiness.drain()
    report = await readiness.report()
    assert_type(report.ready, bool)
    app = web.TelemetryMiddleware(application, tel, exclude=["/healthz"], server_timing=True, access_log=False)
    endpoints = (web.HealthEndpoint(), web.MetricsEndpoint(tel), web.ReadinessEndpoint(readiness))
    for endpoint in endpoints:
        assert_type(await endpoint.answer({"type": "http"}), tuple[int, str, bytes])
    Litestar([], plugins=[web.TelemetryPlugin(tel, pings=readiness, metrics_path=None)])
    await app({"type": "http"}, _receive, _send)


async def _receive() -> dict[str, Any]:
    return {}


async def _send(message: Any) -> None: ...


def faults() -> None:
    kinds: list[testing.Fault] = [
        testing.Blackhole(),
        testing.Hang("body", seconds=1.0),
        testing.Partial(2),
        testing.Raw(b"nonsense"),
        testing.Redirect("/elsewhere"),
        testing.Refuse(),
        testing.RefuseRecord(lambda record: isinstance(record, testing.LogLine)),
        testing.Reset("answer"),
        testing.Slow(1024),
        testing.Status(503, retry_after=1.5),
    ]
    with testing.Receiver() as receiver:
        for kind in kinds:
            assert_type(receiver.behave(kind, times=1), testing.Step)
        receiver.recover()
        assert_type(receiver.url, str)
        assert_type(receiver.settings(), dict[str, str])
        assert_type(receiver.wait_for(spans=1), bool)
        assert_type(receiver.counts, testing.Counts)
        assert_type(receiver.requests, list[testing.Request])


def captured(telemetry_captured: testing.Captured) -> None:
    for span in telemetry_captured.spans:
        assert_type(span, testing.Span)
        assert_type(span.trace_id, str)
        assert_type(span.events, tuple[testing.SpanEvent, ...])
        assert_type(span.links, tuple[testing.SpanLink, ...])
        assert_type(span.status, Literal["unset", "ok", "error"])
    for line in telemetry_captured.lines:
        assert_type(line, testing.LogLine)
        assert_type(line.labels, Mapping[str, Any])
    for sample in telemetry_captured.samples:
        assert_type(sample, testing.Sample)
        assert_type(sample.value, float)


def jobs() -> None:
    with telemetry.bind(), worker.enqueue_span("gpu", job_id=1) as column:
        assert_type(column, dict[str, str])
    assert_type(worker.carry(), dict[str, str])
    for brought in (worker.read(column), worker.read("{}"), worker.read(None), worker.read_columns("00-…", None)):
        assert_type(brought, worker.Carrier)
        assert_type(brought.redelivered, bool)
    with worker.job_span(column, job_id="1", tag="gpu", group="heavy", waited=0.5, attempt=2) as run:
        assert_type(run, worker.Run)
        assert_type(run.carrier, dict[str, str])
        run.outcome = "cancelled"
    assert set(worker.OUTCOMES) >= {"success", "failure"}


async def workers(url: str, row: tuple[int, datetime]) -> None:
    def work(job: worker.Job) -> None:
        assert_type(job.tag, str)
        assert_type(job.waited, float)
        assert_type(job.run, worker.Run)

    async def await_it(job: worker.Job) -> None:
        assert_type(job.started_at, datetime)

    tables = worker.Tables(job_queue="jobs.queue", job_id_type="bigint")
    loop = worker.JobLoop(url, group="heavy", tags=("gpu",), grace=570, concurrency=4, tables=tables, node="n1")
    loop.run(work)
    loop.drain()
    assert_type(loop.worker, str)
    await worker.AsyncJobLoop(url, group="heavy", tags=("gpu",)).run(await_it)
    with (
        worker.Drain(grace=570) as drain,
        worker.Heartbeat(url, group="heavy", worker=worker.worker_id(), roster=drain.roster),
    ):
        assert_type(drain.roster, worker.Roster)
        assert_type(drain.claiming, bool)
        assert_type(drain.wait(1.0), bool)
        assert_type(await drain.pause(1.0), bool)
        with drain.job(*row) as held:
            assert_type(held, worker.Held)
            try:
                with held.cancellable():
                    pass
            except worker.JobCancelled:
                assert_type(held.reason, Literal["success", "failure", "cancelled", "lost"] | None)
        drain.begin()
    async with worker.AsyncHeartbeat(url, group="heavy", roster=worker.Roster()) as heartbeat:
        assert_type(await heartbeat.beat(), bool)
    with psycopg.connect(url, autocommit=True) as connection:
        reaped = worker.Reaper(zombie_timeout=90.0).reap(connection)
        assert_type(reaped, worker.Reaped)
