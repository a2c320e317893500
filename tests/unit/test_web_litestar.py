"""The Litestar plugin: what it adds, what it sees that Litestar's own middleware does not, what it leaves alone."""

from __future__ import annotations

import logging

import msgspec
import pytest
from litestar import Litestar, Request, get
from litestar.config.cors import CORSConfig
from litestar.connection import ASGIConnection
from litestar.exceptions import HTTPException, NotAuthorizedException
from litestar.handlers.base import BaseRouteHandler
from litestar.middleware.authentication import AbstractAuthenticationMiddleware, AuthenticationResult
from litestar.response import ServerSentEvent
from opentelemetry.trace import StatusCode

from telemetry.web import Readiness, TelemetryMiddleware, TelemetryPlugin
from tests.asgi_driver import lifespan, request, watching


@get("/hello")
async def hello() -> str:
    return "hello"


@get("/boom")
async def boom() -> None:
    raise ValueError("wires crossed")


@get("/teapot")
async def teapot() -> None:
    raise HTTPException(status_code=418)


@get("/gateway")
async def gateway() -> None:
    raise HTTPException(status_code=502, detail="upstream")


@get("/events")
async def events() -> ServerSentEvent:
    async def numbers():
        for number in range(100):
            yield str(number)

    return ServerSentEvent(numbers())


HANDLERS = [hello, boom, teapot, gateway, events]


async def running(app, during):
    answer = await lifespan(app, during)
    assert [m["type"] for m in answer.messages] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_404_and_405_are_seen():
    """Litestar's own middleware sits behind its router and never sees them."""
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])

    async def during():
        for method, path in (("GET", "/hello"), ("GET", "/nope"), ("POST", "/hello")):
            await request(app, method, path)

    with watching() as seen:
        await running(app, during)
        assert [line.getMessage() for line in seen.lines] == [
            "GET /hello 200",
            "GET unmatched 404",
            "POST unmatched 405",
        ]
        assert len(seen.spans) == 3
        assert seen.active == 0


async def test_plugin_and_middleware_together_count_once():
    app = TelemetryMiddleware(Litestar(HANDLERS, plugins=[TelemetryPlugin()]))

    async def during():
        await request(app, "GET", "/hello")
        await request(app, "GET", "/boom")

    with watching() as seen:
        await running(app, during)
        assert (len(seen.spans), len(seen.lines), seen.requests(), seen.active) == (2, 2, 2, 0)
        assert [e.name for e in seen.spans[1].events] == ["exception"]


async def test_a_restarted_application_is_not_wrapped_twice():
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])

    async def during():
        await request(app, "GET", "/hello")

    with watching() as seen:
        await running(app, during)
        await running(app, during)
        assert len(seen.spans) == len(seen.lines) == 2


async def test_without_a_lifespan_it_begins_with_the_second_request():
    """Granian's asginl interface runs no lifespan; the class documents the middleware for that."""
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])
    with watching() as seen:
        for _ in range(3):
            assert (await request(app, "GET", "/hello")).status == 200
        assert len(seen.spans) == 2
        assert app.before_send == []


async def test_an_exception_that_becomes_a_500_is_on_the_span_and_logged_once(caplog):
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])

    async def during():
        await request(app, "GET", "/boom")

    with watching() as seen:
        await running(app, during)
        (span,) = seen.spans
        assert span.attributes["error.type"] == "ValueError"
        assert span.status.status_code is StatusCode.ERROR
        assert span.events[0].attributes["exception.message"] == "wires crossed"
        assert "outcome" not in vars(seen.lines[0])
        own = [r for r in caplog.records if r.name == "litestar"]
        assert [r.exc_info[0] for r in own] == [ValueError]


async def test_http_exceptions_below_500_are_answers_and_no_errors(caplog):
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])

    async def during():
        await request(app, "GET", "/teapot")
        await request(app, "GET", "/gateway")

    with watching() as seen:
        await running(app, during)
        teapot_span, gateway_span = seen.spans
        assert (teapot_span.status.status_code, len(teapot_span.events)) == (StatusCode.UNSET, 0)
        assert gateway_span.attributes["error.type"] == "HTTPException"
        assert len([r for r in caplog.records if r.name == "litestar"]) == 1


async def test_server_sent_events_are_one_span_and_no_latency():
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])

    async def during():
        await request(app, "GET", "/events")

    with watching() as seen:
        await running(app, during)
        assert (len(seen.spans), seen.requests()) == (1, 0)
        assert seen.metric("http_server_streams_total", http_route="/events") == 1


async def test_a_cors_preflight_that_litestar_answers_outside_its_router_is_seen():
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()], cors_config=CORSConfig(allow_origins=["https://a.test"]))
    headers = [("origin", "https://a.test"), ("access-control-request-method", "GET")]

    async def during():
        await request(app, "OPTIONS", "/hello", headers=headers)

    with watching() as seen:
        await running(app, during)
        assert len(seen.lines) == 1


def test_litestar_does_not_take_over_the_root_logger():
    """litestar 2.25 sets the root logger to INFO with a handler of its own unless told not to."""
    before = (logging.root.level, list(logging.root.handlers))
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])
    assert app.logging_config is None
    assert (logging.root.level, list(logging.root.handlers)) == before


async def test_metrics_health_and_readiness_are_served_and_leave_no_trace():
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])
    answers = {}

    async def during():
        await request(app, "GET", "/hello")
        for path in ("/metrics", "/healthz", "/readyz", "/readyz?verbose"):
            answers[path] = await request(app, "GET", path, headers=[("accept", "application/openmetrics-text")])

    with watching() as seen:
        await running(app, during)
        assert len(seen.spans) == len(seen.lines) == 1
        assert {path: answer.status for path, answer in answers.items()} == dict.fromkeys(answers, 200)
        assert answers["/metrics"].header("content-type").startswith("application/openmetrics-text")
        assert b'http_route="/hello"' in answers["/metrics"].body
        assert answers["/metrics"].body.endswith(b"# EOF\n")
        assert answers["/healthz"].body == b"ok\n"
        assert msgspec.json.decode(answers["/readyz?verbose"].body)["ready"] is True


async def test_routes_can_be_moved_and_left_out():
    app = Litestar(
        HANDLERS, plugins=[TelemetryPlugin(metrics_path="/internal/metrics", health_path=None, ready_path=None)]
    )
    statuses = {}

    async def during():
        for path in ("/internal/metrics", "/metrics", "/healthz", "/readyz"):
            statuses[path] = (await request(app, "GET", path)).status

    with watching() as seen:
        await running(app, during)
        assert statuses == {"/internal/metrics": 200, "/metrics": 404, "/healthz": 404, "/readyz": 404}
        assert len(seen.lines) == 3


class Door(AbstractAuthenticationMiddleware):
    async def authenticate_request(self, connection: ASGIConnection) -> AuthenticationResult:
        raise NotAuthorizedException


async def test_probes_get_past_litestars_authentication_middleware():
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()], middleware=[Door])
    statuses = {}

    async def during():
        for path in ("/hello", "/healthz", "/readyz", "/metrics"):
            statuses[path] = (await request(app, "GET", path)).status

    with watching():
        await running(app, during)
        assert statuses == {"/hello": 401, "/healthz": 200, "/readyz": 200, "/metrics": 200}


async def test_pings_decide_readiness_and_shutdown_drains():
    state = {"well": True}

    def database() -> None:
        if not state["well"]:
            raise ConnectionError("no route to db.internal")

    plugin = TelemetryPlugin(pings={"database": database})
    app = Litestar(HANDLERS, plugins=[plugin])
    answers = []

    async def during():
        answers.append(await request(app, "GET", "/readyz"))
        state["well"] = False
        answers.append(await request(app, "GET", "/readyz"))

    with watching():
        await running(app, during)
        assert [(a.status, a.body) for a in answers] == [(200, b"ready\n"), (503, b"failing\n")]
        assert plugin.readiness.draining


def test_a_readiness_of_ones_own_is_used():
    readiness = Readiness()
    assert TelemetryPlugin(pings=readiness).readiness is readiness


async def test_what_the_application_logs_at_shutdown_arrives(telemetry_receiver):
    async def goodbye() -> None:
        logging.getLogger("app").warning("closing the pool")

    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()], on_shutdown=[goodbye])
    with watching(**telemetry_receiver.settings()):
        await running(app, None)
        assert any("closing the pool" in line.line for line in telemetry_receiver.lines)


async def test_a_guard_of_the_applications_sees_the_span():
    ids = []

    def guard(connection: ASGIConnection, _: BaseRouteHandler) -> None:
        import telemetry

        ids.append(telemetry.trace_id())

    @get("/guarded", guards=[guard])
    async def guarded(request: Request) -> None:
        return

    app = Litestar([guarded], plugins=[TelemetryPlugin()])

    async def during():
        await request(app, "GET", "/guarded")

    with watching() as seen:
        await running(app, during)
        assert ids == [f"{seen.spans[0].context.trace_id:032x}"]


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_probes_answer_only_get_and_head(method):
    app = Litestar(HANDLERS, plugins=[TelemetryPlugin()])
    answers = []

    async def during():
        answers.append(await request(app, method, "/healthz"))
        answers.append(await request(app, "HEAD", "/healthz"))

    with watching():
        await running(app, during)
        assert [(a.status, a.body) for a in answers] == [(405, b"method not allowed\n"), (200, b"")]
