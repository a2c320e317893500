"""Faults of ours never reach a request: each part broken in turn, the answer is the same."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from telemetry import faults
from telemetry.traces.provider import PROVIDER
from telemetry.web import TelemetryMiddleware, instruments, peers
from tests.asgi_driver import request, watching


async def hello(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


def broken(*_args, **_kwargs):
    raise ZeroDivisionError


async def served(app) -> None:
    answer = await request(app)
    assert (answer.status, answer.body, answer.error) == (200, b"hello", None)


@pytest.mark.expects_fault("web")
async def test_the_beginning_fails(monkeypatch):
    with watching() as seen:
        monkeypatch.setattr(peers, "server", broken)
        await served(TelemetryMiddleware(hello))
        assert seen.active == 0


@pytest.mark.expects_fault("web")
async def test_the_instruments_can_not_be_made(monkeypatch):
    with watching():
        monkeypatch.setattr(instruments.registry, "gauge", broken)
        await served(TelemetryMiddleware(hello))


@pytest.mark.expects_fault("web.metrics")
async def test_the_measurement_fails(monkeypatch):
    with watching() as seen:
        monkeypatch.setattr(instruments.Series, "observe", broken)
        await served(TelemetryMiddleware(hello))
        assert (len(seen.spans), len(seen.lines), seen.active) == (1, 1, 0)


@pytest.mark.expects_fault("web")
async def test_the_series_can_not_be_made(monkeypatch):
    with watching() as seen:
        monkeypatch.setattr(instruments.Instruments, "series", broken)
        await served(TelemetryMiddleware(hello))
        assert (len(seen.spans), seen.active) == (1, 0)


@pytest.mark.expects_fault("web.access")
async def test_a_filter_of_the_users_on_the_access_logger_raises():
    class Filter(logging.Filter):
        def filter(self, record):
            raise KeyError("user")

    with watching() as seen:
        logging.getLogger("access").addFilter(Filter())
        try:
            await served(TelemetryMiddleware(hello))
        finally:
            logging.getLogger("access").filters.clear()
        assert (len(seen.spans), seen.requests(), seen.active) == (1, 1, 0)


@pytest.mark.expects_fault("web.span")
async def test_a_span_processor_of_the_users_raises_at_the_end():
    class Broken(SpanProcessor):
        def on_end(self, span):
            raise RuntimeError("theirs")

    with watching() as seen:
        PROVIDER.add_span_processor(Broken())
        await served(TelemetryMiddleware(hello))
        assert (len(seen.lines), seen.requests(), seen.active) == (1, 1, 0)


@pytest.mark.expects_fault("web")
async def test_a_span_processor_of_the_users_raises_at_the_start():
    class Broken(SpanProcessor):
        def on_start(self, span, parent_context=None):
            raise RuntimeError("theirs")

    with watching() as seen:
        PROVIDER.add_span_processor(Broken())
        await served(TelemetryMiddleware(hello))
        assert seen.active == 0


@pytest.mark.expects_fault("web.access")
async def test_strict_mode_raises_them():
    with watching() as seen:
        seen_filter = logging.Filter()
        seen_filter.filter = broken
        logging.getLogger("access").addFilter(seen_filter)
        faults.set_strict(True)
        try:
            answer = await request(TelemetryMiddleware(hello))
        finally:
            faults.set_strict(False)
            logging.getLogger("access").filters.clear()
        assert isinstance(answer.error, faults.InternalFault)
        assert seen.active == 0


@pytest.mark.parametrize(
    ("host", "scheme", "expected"),
    [
        (b"shop.test", "https", ("shop.test", 443)),
        (b"shop.test:8080", "http", ("shop.test", 8080)),
        (b"[::1]:8080", "http", ("::1", 8080)),
        (b"[::1]", "http", ("::1", 80)),
        (b"[::1", "http", ("::1", 80)),
        (b"a:b:c", "http", ("a", None)),
        (b"a:99999999", "http", ("a", None)),
        (b"\xff\xfe:\xb2", "http", ("\xff\xfe", None)),
        (b":", "gopher", ("", None)),
    ],
)
def test_host_headers_of_all_kinds(host, scheme, expected):
    assert peers.server(host, scheme) == expected


async def test_a_scope_with_nothing_optional_in_it():
    scope = {"type": "http", "method": "GET", "path": "/", "headers": []}
    sent = []

    async def receive():
        return {"type": "http.request"}

    async def send(message):
        sent.append(message)

    with watching() as seen:
        await TelemetryMiddleware(hello)(scope, receive, send)
        assert len(sent) == 2
        assert "client.address" not in seen.spans[0].attributes
        assert scope.keys() == {"type", "method", "path", "headers"}
