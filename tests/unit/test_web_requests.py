"""One request: its span, its measurement, its access line, and what becomes of them when it goes wrong."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

import telemetry
from telemetry.traces.provider import PROVIDER
from telemetry.web import TelemetryMiddleware
from tests.asgi_driver import request, watching


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"hello"})


def answering(status):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


async def test_one_request_gives_one_span_one_measurement_and_one_access_line():
    with watching() as seen:
        app = TelemetryMiddleware(hello, route=lambda scope: "/users/{id}")
        answer = await request(app, "GET", "/users/7?token=abc", headers=[("user-agent", "curl/8"), ("host", "a.b")])
        assert (answer.status, answer.body) == (200, b"hello")
        (span,) = seen.spans
        assert span.name == "GET /users/{id}"
        assert span.attributes == {
            "http.request.method": "GET",
            "url.path": "/users/7",
            "url.scheme": "http",
            "network.protocol.version": "1.1",
            "server.address": "a.b",
            "server.port": 80,
            "user_agent.original": "curl/8",
            "client.address": "192.0.2.7",
            "http.route": "/users/{id}",
            "http.response.status_code": 200,
        }
        assert span.status.status_code is StatusCode.UNSET
        assert seen.requests(http_request_method="GET", http_route="/users/{id}", http_response_status_code="200") == 1
        (line,) = seen.lines
        assert line.getMessage() == "GET /users/{id} 200"
        assert (line.method, line.route, line.path, line.status) == ("GET", "/users/{id}", "/users/7", 200)
        assert (line.bytes, line.client) == (5, "192.0.2.7")
        assert 0 < line.duration_ms < 1000
        assert seen.active == 0


async def test_lines_of_a_request_carry_its_trace_id(telemetry_receiver):
    def within() -> str:
        return telemetry.trace_id()

    async def app(scope, receive, send):
        logging.getLogger("app").warning("inside %s", within())
        await hello(scope, receive, send)

    with watching(loki_url=telemetry_receiver.url) as seen:
        await request(TelemetryMiddleware(app), "GET", "/")
        assert seen.telemetry.flush(30)
        trace_id = f"{seen.spans[0].context.trace_id:032x}"
        assert trace_id
    texts = [line.line for line in telemetry_receiver.lines]
    assert len([t for t in texts if "logger=access" in t and f"trace_id={trace_id}" in t]) == 1
    assert len([t for t in texts if f"inside {trace_id}" in t and f"trace_id={trace_id}" in t]) == 1


async def test_without_setup_requests_pass_through_and_nothing_is_loaded():
    pipeline = sys.modules.pop("telemetry.pipeline", None)
    try:
        answer = await request(TelemetryMiddleware(hello), "GET", "/")
        assert answer.body == b"hello"
        assert "telemetry.pipeline" not in sys.modules
    finally:
        if pipeline is not None:
            sys.modules["telemetry.pipeline"] = pipeline


def test_importing_the_middleware_before_setup_leaves_multiprocess_metrics_open():
    """prometheus-client decides about multiprocess mode when it is imported."""
    code = (
        "import sys; from telemetry.web import TelemetryMiddleware; from telemetry.web import TelemetryPlugin;"
        "print([m for m in ('prometheus_client', 'opentelemetry', 'telemetry.pipeline') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_middleware_made_before_setup_and_used_across_two_of_them_follows():
    app = TelemetryMiddleware(hello)
    assert (await request(app)).status == 200
    for _ in range(2):
        with watching() as seen:
            await request(app)
            assert len(seen.spans) == len(seen.lines) == 1
    assert (await request(app)).status == 200


@pytest.mark.parametrize("status", [400, 401, 404, 409, 499])
async def test_a_4xx_is_not_the_servers_error(status):
    with watching() as seen:
        await request(TelemetryMiddleware(answering(status)))
        assert seen.spans[0].status.status_code is StatusCode.UNSET
        assert "error.type" not in seen.spans[0].attributes


async def test_a_5xx_without_an_exception_is_an_error_by_its_status():
    with watching() as seen:
        await request(TelemetryMiddleware(answering(503)))
        assert seen.spans[0].status.status_code is StatusCode.ERROR
        assert seen.spans[0].attributes["error.type"] == "503"


async def test_an_exception_is_recorded_and_raised_on():
    async def app(scope, receive, send):
        raise LookupError("no such shelf")

    with watching() as seen:
        answer = await request(TelemetryMiddleware(app))
        assert isinstance(answer.error, LookupError)
        (span,) = seen.spans
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes["error.type"] == "LookupError"
        assert span.attributes["http.response.status_code"] == 500
        assert span.events[0].attributes["exception.message"] == "no such shelf"
        assert seen.requests(http_response_status_code="500") == 1
        assert seen.lines[0].outcome == "error"
        assert seen.active == 0


async def test_an_exception_raised_after_its_500_was_sent_is_recorded_too():
    """Starlette's ServerErrorMiddleware answers first and raises then."""

    async def app(scope, receive, send):
        await answering(500)(scope, receive, send)
        raise ValueError("late")

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert [event.name for event in seen.spans[0].events] == ["exception"]
        assert seen.requests() == len(seen.lines) == 1


async def test_a_server_that_logs_the_exception_outside_of_the_span_logs_its_trace_id(telemetry_receiver):
    async def app(scope, receive, send):
        raise LookupError("no such shelf")

    with watching(loki_url=telemetry_receiver.url) as seen:
        answer = await request(TelemetryMiddleware(app))
        logging.getLogger("uvicorn.error").error("Exception in ASGI application", exc_info=answer.error)
        assert seen.telemetry.flush(30)
        trace_id = f"{seen.spans[0].context.trace_id:032x}"
    (line,) = [line.line for line in telemetry_receiver.lines if "no such shelf" in line.line]
    assert f"trace_id={trace_id}" in line


async def test_a_background_task_is_no_part_of_the_latency_and_its_failure_no_failure_of_the_request():
    async def app(scope, receive, send):
        await hello(scope, receive, send)
        assert len(seen.spans) == 1
        await asyncio.sleep(0.05)
        raise RuntimeError("mail server down")

    with watching() as seen:
        answer = await request(TelemetryMiddleware(app))
        assert isinstance(answer.error, RuntimeError)
        assert seen.lines[0].duration_ms < 50
        assert seen.spans[0].status.status_code is StatusCode.UNSET


async def test_a_body_cut_off_by_an_exception_is_an_error_under_the_status_that_was_sent():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError("cursor closed")

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert seen.spans[0].status.status_code is StatusCode.ERROR
        assert (seen.lines[0].status, seen.lines[0].outcome) == (200, "error")


async def test_an_application_that_returns_without_answering_counts_as_500():
    async def app(scope, receive, send):
        return

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert seen.requests(http_response_status_code="500") == 1
        assert seen.spans[0].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/healthz/", "/readyz?verbose"])
async def test_health_and_metrics_paths_leave_no_trace(path):
    with watching() as seen:
        assert (await request(TelemetryMiddleware(hello), "GET", path)).status == 200
        assert (seen.spans, seen.lines, seen.requests()) == ([], [], 0)


async def test_excluded_paths_below_a_prefix_and_behind_a_root_path():
    with watching() as seen:
        app = TelemetryMiddleware(hello, exclude=["/static/*", "/ping"])
        for path in ("/static/app.js", "/static/", "/ping"):
            await request(app, "GET", path)
        await request(app, "GET", "/api/ping", root_path="/api")
        assert seen.spans == []
        await request(app, "GET", "/statics")
        await request(app, "GET", "/pings")
        assert len(seen.spans) == 2


async def test_a_middleware_inside_another_passes_through():
    with watching() as seen:
        app = TelemetryMiddleware(TelemetryMiddleware(TelemetryMiddleware(hello)))
        await request(app)
        assert (len(seen.spans), len(seen.lines), seen.requests(), seen.active) == (1, 1, 1, 0)


async def test_a_path_that_only_the_inner_middleware_excludes_is_excluded():
    with watching() as seen:
        app = TelemetryMiddleware(TelemetryMiddleware(hello, exclude=["/internal/metrics"]))
        await request(app, "GET", "/internal/metrics")
        assert (seen.spans, seen.lines, seen.requests(), seen.active) == ([], [], 0, 0)
        outer = TelemetryMiddleware(TelemetryMiddleware(hello), exclude=["/quiet"])
        await request(outer, "GET", "/quiet")
        assert seen.spans == []


async def test_access_lines_only_where_asked_for():
    with watching(role="script") as seen:
        await request(TelemetryMiddleware(hello))
        assert (seen.lines, len(seen.spans)) == ([], 1)
        await request(TelemetryMiddleware(hello, access_log=True))
        assert len(seen.lines) == 1
    with watching(access_log=False) as seen:
        await request(TelemetryMiddleware(hello))
        assert seen.lines == []


async def test_the_response_names_its_trace_where_asked_for():
    kept = {"type": "http.response.start", "status": 200, "headers": [(b"x", b"y")]}

    async def app(scope, receive, send):
        await send(kept)
        await send({"type": "http.response.body"})

    with watching(server_timing=True) as seen:
        answer = await request(TelemetryMiddleware(app))
        context = seen.spans[0].context
        flags = f"{context.trace_flags:02x}"
        assert context.trace_flags.sampled
        expected = f'traceparent;desc="00-{context.trace_id:032x}-{context.span_id:016x}-{flags}"'
        assert answer.header("server-timing") == expected
        assert kept["headers"] == [(b"x", b"y")]  # a cached response must not carry another request's trace
        assert (await request(TelemetryMiddleware(app, server_timing=False))).header("server-timing") is None


async def test_traceparent_tracestate_and_baggage_are_taken_up():
    from opentelemetry import baggage

    found = {}

    async def app(scope, receive, send):
        found["plan"] = baggage.get_baggage("plan")
        await hello(scope, receive, send)

    headers = [
        ("host", "a.b"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "vendor=1"),
        ("tracestate", "other=2"),
        ("baggage", "plan=gold"),
    ]
    with watching() as seen:
        await request(TelemetryMiddleware(app), headers=headers)
        (span,) = seen.spans
        assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
        assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
        assert span.context.trace_state.to_header() == "vendor=1,other=2"
        assert found == {"plan": "gold"}


@pytest.mark.parametrize("value", ["", "junk", "00-" + "0" * 32 + "-b7ad6b7169203331-01", "00-zz-01", "x" * 10_000])
async def test_a_broken_traceparent_starts_a_new_trace(value):
    with watching() as seen:
        answer = await request(TelemetryMiddleware(hello), headers=[("traceparent", value)])
        assert answer.status == 200
        assert seen.spans[0].parent is None


async def test_a_server_started_inside_a_span_does_not_make_every_request_its_child():
    with watching() as seen, telemetry.span("main"):
        await request(TelemetryMiddleware(hello))
        assert seen.spans[0].parent is None


@pytest.mark.parametrize("headers", [[], [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]])
async def test_inside_another_instrumentation_of_the_same_request_there_is_one_trace(headers):
    """FastAPI's own, or the contrib ASGI middleware, outside of ours."""
    from opentelemetry import propagate
    from opentelemetry.trace import SpanKind

    async def outer(scope, receive, send):
        parent = propagate.extract({k.decode(): v.decode() for k, v in scope["headers"]})
        with PROVIDER.get_tracer("other").start_as_current_span("GET", parent, SpanKind.SERVER):
            await TelemetryMiddleware(hello)(scope, receive, send)

    with watching() as seen:
        await request(outer, headers=headers)
        ours, theirs = seen.spans
        assert ours.parent.span_id == theirs.context.span_id


async def test_a_request_made_in_process_has_the_parent_that_it_brings():
    async def outer(scope, receive, send):
        with telemetry.span("client"):
            carrier = telemetry.inject()
            found.append(telemetry.trace_id())
            await request(TelemetryMiddleware(hello), headers=list(carrier.items()))
        await hello(scope, receive, send)

    found = []
    with watching() as seen:
        await request(TelemetryMiddleware(outer))
        inner, whole = seen.spans
        assert inner.context.trace_id == whole.context.trace_id
        assert inner.parent.is_remote


async def test_the_context_ends_with_the_request():
    with watching():
        before = trace.get_current_span()
        await request(TelemetryMiddleware(hello))
        assert trace.get_current_span() is before


async def test_concurrent_requests_keep_their_own_span():
    seen_ids = {}

    async def app(scope, receive, send):
        mine = telemetry.trace_id()
        for _ in range(5):
            await asyncio.sleep(0)
            assert telemetry.trace_id() == mine
        seen_ids[scope["path"]] = mine
        await hello(scope, receive, send)

    with watching() as seen:
        wrapped = TelemetryMiddleware(app)
        await asyncio.gather(*(request(wrapped, "GET", f"/{n}") for n in range(50)))
        assert len(set(seen_ids.values())) == 50
        by_path = {s.attributes["url.path"]: f"{s.context.trace_id:032x}" for s in seen.spans}
        assert by_path == seen_ids


async def test_the_access_line_is_the_requests_also_when_another_task_sends_the_end():
    async def app(scope, receive, send):
        async def sender():
            with telemetry.span("render"):
                await hello(scope, receive, send)

        await asyncio.ensure_future(sender())

    found = []

    class Current(logging.Handler):
        def emit(self, record):
            found.append(trace.get_current_span().get_span_context().span_id)

    with watching() as seen:
        logging.getLogger("access").addHandler(Current())
        await request(TelemetryMiddleware(app))
        assert found == [seen.spans[0].context.span_id]


async def test_a_request_that_is_not_sampled_is_measured_and_logged_all_the_same():
    with watching(sampler="always_off") as seen:
        await request(TelemetryMiddleware(hello))
        assert (seen.spans, seen.requests(), len(seen.lines)) == ([], 1, 1)


async def test_exemplars_come_once_a_second_in_each_bucket_and_only_of_sampled_requests():
    from telemetry.metrics import registry

    def exemplars():
        (family,) = (f for f in registry.REGISTRY.collect() if f.name == "http_server_request_duration_seconds")
        return [
            sample.exemplar.labels["trace_id"]
            for sample in family.samples
            if sample.exemplar and sample.labels.get("http_route") == "/exemplary"
        ]

    with watching(sampler="always_off"):
        app = TelemetryMiddleware(hello, route=lambda scope: "/exemplary")
        await request(app)
        assert exemplars() == []
    with watching() as seen:
        for _ in range(20):
            await request(app)
        ids = exemplars()
        assert ids
        assert ids[0] == f"{seen.spans[0].context.trace_id:032x}"


@pytest.mark.parametrize("status", [0, 99, 600, 999])
async def test_a_status_that_is_none_becomes_other_in_the_label(status):
    with watching() as seen:
        await request(TelemetryMiddleware(answering(status)))
        assert seen.requests() == 1
        assert seen.requests(http_response_status_code="_OTHER" if status else "500") == 1


async def test_a_path_of_half_surrogates_arrives_with_everything_else(telemetry_receiver):
    with watching(**telemetry_receiver.settings()) as seen:
        app = TelemetryMiddleware(hello, route=lambda scope: "/\ud800")
        await request(app, "GET", "/\udcff" * 2000, client=("", 0))
        assert seen.telemetry.flush(30)
        assert [span.name for span in telemetry_receiver.spans] == ["GET /?"]
        assert len(telemetry_receiver.spans[0].attributes["url.path"]) == 1024
        assert len(telemetry_receiver.lines) == 1


async def test_no_cycle_is_left_for_the_collector():
    """A request that only the cycle collector can free makes every pause of it longer."""
    import gc
    import weakref

    class Body(bytes):
        pass

    kept = []

    async def app(scope, receive, send):
        kept.append(weakref.ref(scope["extensions"]))
        await hello(scope, receive, send)

    class Extensions(dict):
        pass

    with watching():
        gc.collect()
        gc.disable()
        try:
            await request(TelemetryMiddleware(app), extensions=Extensions())
            await asyncio.sleep(0)
            assert kept[0]() is None
        finally:
            gc.enable()
