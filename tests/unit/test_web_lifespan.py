"""The lifespan: logging taken over at start, everything sent at the end, whatever the application makes of it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette

from telemetry.web import TelemetryMiddleware
from telemetry.web.background import in_thread
from tests.asgi_driver import http_scope, lifespan, request, watching

BOTH = ["lifespan.startup.complete", "lifespan.shutdown.complete"]


def kinds(answer):
    return [message["type"] for message in answer.messages]


async def refusing(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def returning(scope, receive, send):
    return


async def ignorant(scope, receive, send):
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})


async def hasty(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})


async def mute_at_the_end(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()


@pytest.mark.parametrize("app", [refusing, returning, ignorant, hasty, mute_at_the_end])
async def test_an_application_without_a_lifespan_is_spoken_for(app, telemetry_receiver):
    with watching(loki_url=telemetry_receiver.url):
        wrapped = TelemetryMiddleware(app)

        async def during():
            await request(TelemetryMiddleware(refusing))

        answer = await lifespan(wrapped, during)
        assert (kinds(answer), answer.error) == (BOTH, None)
        assert any("GET unmatched 200" in line.line for line in telemetry_receiver.lines)


async def test_without_setup_the_lifespan_is_the_applications():
    answer = await lifespan(TelemetryMiddleware(Starlette()))
    assert (kinds(answer), answer.error) == (BOTH, None)


async def test_a_startup_that_fails_stays_a_failure_and_what_it_logged_arrives(telemetry_receiver):
    @asynccontextmanager
    async def broken(app):
        logging.getLogger("app").error("no database")
        raise RuntimeError("no database")
        yield

    with watching(loki_url=telemetry_receiver.url):
        answer = await lifespan(TelemetryMiddleware(Starlette(lifespan=broken)))
        assert kinds(answer) == ["lifespan.startup.failed"]
        assert isinstance(answer.error, RuntimeError)
        assert any("no database" in line.line for line in telemetry_receiver.lines)


async def test_a_startup_that_raises_without_a_message_stays_a_failure():
    async def app(scope, receive, send):
        await receive()
        raise RuntimeError("bad config")

    with watching():
        answer = await lifespan(TelemetryMiddleware(app))
        assert isinstance(answer.error, RuntimeError)
        assert answer.messages == []


async def test_what_shutdown_handlers_log_has_arrived_when_the_server_hears_of_the_end(telemetry_receiver):
    arrived = []

    @asynccontextmanager
    async def quiet_end(app):
        yield
        logging.getLogger("app").warning("last words")

    app = TelemetryMiddleware(Starlette(lifespan=quiet_end))

    async def watched(scope, receive, send):
        async def noting(message):
            if message["type"] == "lifespan.shutdown.complete":
                arrived.append(any("last words" in line.line for line in telemetry_receiver.lines))
            await send(message)

        await app(scope, receive, noting)

    with watching(loki_url=telemetry_receiver.url):
        assert kinds(await lifespan(watched)) == BOTH
        assert arrived == [True]


async def test_a_shutdown_that_fails_is_told_after_what_it_logged_was_sent(telemetry_receiver):
    @asynccontextmanager
    async def bad_end(app):
        yield
        logging.getLogger("app").error("pool would not close")
        raise RuntimeError("pool")

    with watching(loki_url=telemetry_receiver.url):
        answer = await lifespan(TelemetryMiddleware(Starlette(lifespan=bad_end)))
        assert kinds(answer) == ["lifespan.startup.complete", "lifespan.shutdown.failed"]
        assert any("would not close" in line.line for line in telemetry_receiver.lines)


async def test_a_hung_backend_holds_the_end_up_no_longer_than_the_deadline(telemetry_receiver):
    from telemetry.testing import Hang

    telemetry_receiver.behave(Hang(30))
    with watching(loki_url=telemetry_receiver.url, shutdown_timeout=0.5):
        app = TelemetryMiddleware(TelemetryMiddleware(Starlette()))

        async def during():
            logging.getLogger("app").warning("x")

        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        start = time.monotonic()
        answer = await lifespan(app, during)
        assert time.monotonic() - start < 10.0
        ticking.cancel()
        assert ticks > 5  # the event loop went on meanwhile
        assert kinds(answer) == BOTH


async def test_servers_that_configure_logging_late_are_taken_over_at_startup():
    import logging.config

    import uvicorn.config

    with watching(stdout="on"):
        before = logging.config.dictConfigClass
        logging.config.dictConfigClass = logging.config.DictConfigurator  # as fileConfig: no hook of ours
        try:
            logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
        finally:
            logging.config.dictConfigClass = before
        assert logging.getLogger("uvicorn").handlers
        await lifespan(TelemetryMiddleware(Starlette()))
        assert logging.getLogger("uvicorn").handlers == []
        assert logging.getLogger("uvicorn.access").propagate


async def test_other_scope_types_pass_through():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    with watching() as watched:
        await TelemetryMiddleware(app)({**http_scope("GET", "/"), "type": "webtransport"}, None, None)
        assert (seen, watched.spans) == (["webtransport"], [])


async def test_a_thread_that_is_given_up_on_does_not_trouble_a_closed_loop():
    def slow():
        time.sleep(0.05)
        return 1

    assert await in_thread(lambda: 7, "t") == 7
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0, "t")
    other = asyncio.new_event_loop()

    async def leave():
        in_thread(slow, "t")

    await asyncio.to_thread(lambda: (other.run_until_complete(leave()), other.close()))
    await asyncio.sleep(0.1)
