"""Streams, event streams, websockets, and clients that leave: one span each, and no errors of ours."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.trace import StatusCode

from telemetry.web import TelemetryMiddleware
from tests.asgi_driver import request, watching, websocket

START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}
PLAIN = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/octet-stream")]}


def streaming(start, chunks, pause=0.0):
    async def app(scope, receive, send):
        await send(start)
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if pause:
                await asyncio.sleep(pause)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


async def test_a_thousand_events_are_one_span_and_no_latency():
    """opentelemetry-python-contrib 505, 2343: a three-chunk stream gave seven spans."""
    with watching() as seen:
        await request(TelemetryMiddleware(streaming(START, [b"data: x\n\n"] * 1000)))
        assert len(seen.spans) == len(seen.lines) == 1
        assert seen.lines[0].bytes == 9000
        assert seen.requests() == 0
        assert seen.metric("http_server_streams_total", transport="event_stream") == 1
        assert seen.active == 0


async def test_a_download_in_pieces_is_a_request_like_any_other():
    with watching() as seen:
        await request(TelemetryMiddleware(streaming(PLAIN, [b"x" * 1000] * 3)))
        assert (len(seen.spans), seen.requests(), seen.lines[0].bytes) == (1, 1, 3000)
        assert seen.metric("http_server_streams_total") == 0


async def test_an_event_stream_that_is_refused_at_once_counts_as_a_request():
    async def app(scope, receive, send):
        await send({**START, "status": 200})
        await send({"type": "http.response.body", "body": b""})

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert seen.requests() == 1


async def test_a_file_that_the_server_sends_itself_ends_the_request_and_has_a_size():
    """Granian's http.response.pathsend."""

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5120")]})
        await send({"type": "http.response.pathsend", "path": "/srv/file"})
        assert len(seen.spans) == 1

    with watching() as seen:
        assert (await request(TelemetryMiddleware(app))).error is None
        assert seen.lines[0].bytes == 5120


async def test_a_client_that_leaves_a_stream_ends_it_and_is_no_error():
    async def app(scope, receive, send):
        async def listen():
            while (await receive())["type"] != "http.disconnect":
                pass

        await send(START)
        left = asyncio.ensure_future(listen())
        while not left.done():
            await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
            await asyncio.sleep(0)
        assert len(seen.spans) == 1  # before the application has noticed

    with watching() as seen:
        answer = await request(TelemetryMiddleware(app), leaves_after=5)
        assert answer.error is None
        (span,) = seen.spans
        assert span.status.status_code is StatusCode.UNSET
        assert span.attributes["fleetglass.outcome"] == "client_disconnect"
        assert (seen.lines[0].status, seen.lines[0].outcome) == (200, "client_disconnect")
        assert seen.active == 0


async def test_a_client_that_leaves_before_the_answer_is_499_and_no_error():
    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        raise asyncio.CancelledError

    with watching() as seen:
        answer = await request(TelemetryMiddleware(app), leaves_after=0)
        assert isinstance(answer.error, asyncio.CancelledError)
        assert seen.requests(http_response_status_code="499") == 1
        assert seen.spans[0].status.status_code is StatusCode.UNSET
        assert seen.lines[0].outcome == "client_disconnect"


@pytest.mark.parametrize("error", [OSError, ConnectionResetError, BrokenPipeError])
async def test_a_send_that_fails_because_the_client_is_gone_is_no_error(error):
    """ASGI 2.4: a server raises OSError from send() after a disconnect."""
    with watching() as seen:
        answer = await request(TelemetryMiddleware(streaming(PLAIN, [b"x"] * 10)), leaves_after=3, send_fails=error)
        assert isinstance(answer.error, error)
        assert seen.spans[0].status.status_code is StatusCode.UNSET
        assert seen.lines[0].outcome == "client_disconnect"
        assert seen.active == 0


async def test_an_oserror_of_the_applications_own_is_an_error():
    async def app(scope, receive, send):
        raise ConnectionRefusedError("database")

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert seen.spans[0].attributes["error.type"] == "ConnectionRefusedError"
        assert seen.spans[0].status.status_code is StatusCode.ERROR


async def test_a_real_fault_after_a_disconnect_is_still_an_error():
    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        raise KeyError("cleanup")

    with watching() as seen:
        await request(TelemetryMiddleware(app), leaves_after=0)
        assert seen.spans[0].status.status_code is StatusCode.ERROR


async def test_a_group_of_nothing_but_disconnects_is_no_error():
    class ClientDisconnect(Exception):
        pass

    async def app(scope, receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass
        raise BaseExceptionGroup("unhandled", [ClientDisconnect(), asyncio.CancelledError()])

    with watching() as seen:
        await request(TelemetryMiddleware(app), leaves_after=0)
        assert seen.spans[0].status.status_code is StatusCode.UNSET


async def test_a_request_cancelled_when_the_grace_period_ends_says_so():
    async def app(scope, receive, send):
        raise asyncio.CancelledError("Task cancelled, timeout graceful shutdown exceeded")

    with watching() as seen:
        await request(TelemetryMiddleware(app))
        assert seen.lines[0].outcome == "server_shutdown"
        assert seen.requests(http_response_status_code="503") == 1


async def test_listening_for_a_disconnect_after_the_answer_changes_nothing():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})
        assert (await receive())["type"] == "http.request"
        assert (await receive())["type"] == "http.disconnect"

    with watching() as seen:
        await request(TelemetryMiddleware(app), leaves_after=2)
        assert not hasattr(seen.lines[0], "outcome")


async def test_a_websocket_is_one_span_and_no_latency():
    async def app(scope, receive, send):
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": message["text"]})

    frames = [{"type": "websocket.receive", "text": "hi"}] * 100
    with watching() as seen:
        await websocket(TelemetryMiddleware(app), "/ws", [*frames, {"type": "websocket.disconnect", "code": 1000}])
        (span,) = seen.spans
        assert span.attributes["http.response.status_code"] == 101
        assert span.attributes["network.protocol.name"] == "websocket"
        assert span.status.status_code is StatusCode.UNSET
        assert seen.requests() == 0
        assert seen.metric("http_server_streams_total", transport="websocket", http_response_status_code="101") == 1
        assert (seen.lines[0].status, seen.lines[0].close_code) == (101, 1000)
        assert seen.active == 0


async def test_a_websocket_client_that_vanishes_is_no_error():
    class WebSocketDisconnect(Exception):
        pass

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        raise WebSocketDisconnect

    with watching() as seen:
        await websocket(TelemetryMiddleware(app), "/ws", [{"type": "websocket.disconnect", "code": 1006}])
        assert seen.spans[0].status.status_code is StatusCode.UNSET
        assert seen.lines[0].outcome == "client_disconnect"


@pytest.mark.parametrize("code", [1011, 4500])
async def test_a_websocket_that_the_server_closes_for_a_fault_of_its_own_is_an_error(code):
    """Litestar closes with 4000 + 500 where a handler raised."""

    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": code})

    with watching() as seen:
        await websocket(TelemetryMiddleware(app), "/ws", [])
        assert seen.spans[0].status.status_code is StatusCode.ERROR
        assert seen.spans[0].attributes["error.type"] == str(code)


async def test_a_refused_handshake_is_a_short_request():
    async def app(scope, receive, send):
        await receive()
        await send({"type": "websocket.close", "code": 1008})

    with watching() as seen:
        await websocket(TelemetryMiddleware(app), "/ws", [])
        assert seen.requests(http_response_status_code="403") == 1
        assert seen.metric("http_server_streams_total") == 0
        assert seen.spans[0].status.status_code is StatusCode.UNSET


async def test_active_requests_return_to_zero_whatever_happens():
    async def raising(scope, receive, send):
        raise SystemExit(3)

    async def odd(scope, receive, send):
        await send({"kind": "no type at all"})

    async def twice(scope, receive, send):
        for _ in range(3):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    with watching() as seen:
        for app in (raising, twice, streaming(START, [b"x"])):
            await request(TelemetryMiddleware(app))
        task = asyncio.ensure_future(request(TelemetryMiddleware(streaming(START, [b"x"] * 9, pause=1))))
        await asyncio.sleep(0.01)
        assert seen.active == 1
        task.cancel()
        await asyncio.wait({task})
        assert seen.active == 0
        assert len(seen.spans) == 4


@pytest.mark.expects_fault("web.send")
async def test_a_message_that_makes_no_sense_reaches_the_server_all_the_same():
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": "two hundred", "headers": []})
        await send({"type": "http.response.body", "body": b""})

    with watching() as seen:
        answer = await request(TelemetryMiddleware(app))
        assert len(answer.messages) == 2
        assert seen.active == 0
