"""The public API as type checkers see it: ``make types`` runs mypy strict and pyright strict over this file.

Never executed. Every public name is used once, with the type that a caller relies on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import assert_type

from opentelemetry.context import Context
from opentelemetry.trace import Span

import telemetry


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
