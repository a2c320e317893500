"""One request from the first byte to the last: its span, its metrics and its access line.

The object wraps ``receive`` and ``send`` and looks at nothing but what status, size and end need. Whatever
goes wrong in here is reported as an internal fault; the request goes on.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind, StatusCode

from telemetry import faults, scrub
from telemetry.logs.event import left_span
from telemetry.web import methods, peers, routes
from telemetry.web.instruments import Instruments, Series
from telemetry.web.protocol import FASTAPI_OWN, MARK, Message, Receive, Scope, Send

if TYPE_CHECKING:
    from contextvars import Token

    from telemetry.logs.place import Place

OK: Final = ""
CLIENT_DISCONNECT: Final = "client_disconnect"
SERVER_SHUTDOWN: Final = "server_shutdown"
ERROR: Final = "error"

# What nginx logs for a client that left before it was answered; no response carries it.
CLIENT_CLOSED_REQUEST: Final = 499
_LONGEST_PATH: Final = 1024
_ROOT: Final = Context()


def _serves_the_same(around: trace.Span, parent: Context) -> bool:
    """Whether the current span is another instrumentation's for this very request.

    Otherwise the current span is no ancestor: a server may have been started inside one. A request made
    in process, inside another request, brings a parent of its own.
    """
    if getattr(around, "kind", None) is not SpanKind.SERVER or not around.is_recording():
        return False
    remote = trace.get_current_span(parent).get_span_context()
    if not remote.is_valid:
        return True
    outer = getattr(around, "parent", None)
    return outer is not None and outer.span_id == remote.span_id


class Exchange:
    """An HTTP request; ``WebsocketExchange`` differs in its messages and its end."""

    __slots__ = (
        "_bytes",
        "_done",
        "_ended",
        "_instruments",
        "_method",
        "_outcome",
        "_path",
        "_pieces",
        "_receive",
        "_recording",
        "_response_headers",
        "_root_path",
        "_scope",
        "_send",
        "_sent",
        "_span",
        "_started",
        "_status",
        "_token",
        "error",
        "ignored",
    )

    transport = "event_stream"

    def __init__(self, instruments: Instruments, scope: Scope, receive: Receive, send: Send) -> None:
        """Start the span and make it current; ``close`` must follow."""
        self._started = perf_counter()
        self._instruments = instruments
        self._scope = scope
        self._receive = receive
        self._send = send
        self._path: str = scope["path"]
        self._root_path: str = scope.get("root_path", "")
        self._status = 0
        self._bytes = 0
        self._ended = 0.0
        self._pieces = False
        self._response_headers: Any = ()
        self._sent = self._done = False
        self._outcome = OK
        self.error: BaseException | None = None
        """What the application raised, also where its framework turned it into a response."""
        self.ignored = False
        """True when a middleware inside found the path excluded."""
        headers = dict(scope["headers"])
        said: str = scope.get("method", "GET")
        method = self._method = said if said in methods.KNOWN else methods.OTHER
        attributes = self._attributes(scope, headers, method)
        if method is methods.OTHER:
            attributes["http.request.method_original"] = said[:64]
        parent = _ROOT
        if not instruments.trace_headers.isdisjoint(headers):
            parent = instruments.textmap.extract(scope["headers"], _ROOT, peers.HEADERS)
        around = trace.get_current_span()
        if around is not trace.INVALID_SPAN and _serves_the_same(around, parent):
            parent = otel_context.get_current()
        scope.setdefault(FASTAPI_OWN, None)
        span = self._span = instruments.tracer.start_span(methods.word(method), parent, SpanKind.SERVER, attributes)
        self._recording = span.is_recording()
        context = trace.set_span_in_context(span, parent)
        instruments.active(method).inc()
        self._token: Token[Context] = otel_context.attach(context)

    def _attributes(self, scope: Scope, headers: dict[bytes, bytes], method: str) -> dict[str, Any]:
        path = self._path[:_LONGEST_PATH]
        if not path.isascii():  # half a surrogate pair can't be encoded
            path = path.encode("utf-8", "replace").decode()
        scheme: str = scope.get("scheme", "http")
        attributes: dict[str, Any] = {
            "http.request.method": method,
            "url.path": scrub.text(path),
            "url.scheme": scheme,
            "network.protocol.version": scope.get("http_version", "1.1"),
        }
        host = headers.get(b"host")
        if host:
            address, port = peers.server(host, scheme)
            attributes["server.address"] = address
            if port is not None:
                attributes["server.port"] = port
        agent = headers.get(b"user-agent")
        if agent:
            attributes["user_agent.original"] = agent[:512].decode("latin-1")
        client = scope.get("client")
        if client and client[0]:
            attributes["client.address"] = client[0]
        return attributes

    async def receive(self) -> Message:
        """The server's ``receive``, watched for a client that leaves before the response has ended."""
        message: Message = await self._receive()
        try:
            self._received(message)
        except Exception as error:
            faults.report("web.receive", error)
        return message

    def _received(self, message: Message) -> None:
        if message["type"] == "http.disconnect" and not (self._sent or self._done):
            self._outcome = CLIENT_DISCONNECT
            if self._status:  # a stream that nobody reads any more has ended, whenever its application notices
                self._finish()

    async def send(self, message: Message) -> None:
        """The server's ``send``; the request is finished after its last message."""
        try:
            message = self._sending(message)
        except Exception as error:
            faults.report("web.send", error)
        try:
            await self._send(message)
        except OSError as error:  # since ASGI 2.4 a server says so that the client is gone
            self._outcome = CLIENT_DISCONNECT
            self.error = error
            raise
        if self._sent and not self._done:
            # After a 500, Starlette raises what caused it: wait for that, with the time taken now.
            if self._status < 500 or self.error is not None:
                self._finish()
            elif not self._ended:
                self._ended = perf_counter()

    def _sending(self, message: Message) -> Message:
        kind = message["type"]
        if kind == "http.response.body":
            self._bytes += len(message.get("body", b""))
            if message.get("more_body", False):
                self._pieces = True
            else:
                self._sent = True
        elif kind == "http.response.start":
            self._status = int(message["status"])
            self._response_headers = message.get("headers", ())
            if self._instruments.server_timing:
                return self._with_server_timing(message)
        elif kind == "http.response.pathsend":  # the server sends a file: granian
            self._bytes = self._content_length()
            self._sent = True
        return message

    def failed(self, error: BaseException) -> None:
        """Note what the application raised; the caller raises it again."""
        try:
            left_span(error)
        except Exception as fault:
            faults.report("web", fault)
        if self._done:
            return  # a background task, after the response: the server tells of it
        if isinstance(error, asyncio.CancelledError) and self._outcome == OK:
            # Uvicorn cancels what outlives its grace period, and says so in the message.
            shutdown = any("shutdown" in str(part) for part in error.args)
            self._outcome = SERVER_SHUTDOWN if shutdown else CLIENT_DISCONNECT
        elif not self._from_disconnect(error):
            self._outcome = ERROR
            self.error = error

    def _from_disconnect(self, error: BaseException) -> bool:
        if self._outcome not in {CLIENT_DISCONNECT, SERVER_SHUTDOWN}:
            return False
        if isinstance(error, BaseExceptionGroup):
            return all(self._from_disconnect(inner) for inner in error.exceptions)
        # Starlette raises ClientDisconnect where the server raised OSError or said http.disconnect.
        return isinstance(error, asyncio.CancelledError) or error is self.error or "Disconnect" in type(error).__name__

    def close(self, *, detach: bool = True) -> None:
        """The application has returned: finish what its messages left open, and end the context."""
        if not self._done:
            self._finish()
        if detach:
            otel_context.detach(self._token)
        # The scope holds this object and the server's objects hold the scope: without this, every
        # request would be garbage that only the cycle collector can free.
        self._scope.pop(MARK, None)
        if self._scope.get(FASTAPI_OWN, self) is None:
            del self._scope[FASTAPI_OWN]

    def _finish(self) -> None:
        self._done = True
        now = perf_counter()
        seconds = (self._ended or now) - self._started
        try:
            self._instruments.active(self._method).dec()
        except Exception as error:
            faults.report("web.metrics", error)
        if self.ignored:
            return
        try:
            status = self._final_status()
            route = self._route()
            series = self._instruments.series(self._method, route, status)
        except Exception as error:
            faults.report("web", error)
            self._span.end()
            return
        try:
            self._measure(series, seconds, now, status)
        except Exception as error:
            faults.report("web.metrics", error)
        if self._instruments.access is not None:
            try:
                self._log(self._instruments.access, series, seconds, status)
            except Exception as error:
                faults.report("web.access", error)
        try:
            self._end_span(series, status)
        except Exception as error:
            faults.report("web.span", error)

    def _final_status(self) -> int:
        if self._status:
            return self._status
        if self._outcome == CLIENT_DISCONNECT:
            return CLIENT_CLOSED_REQUEST
        return 503 if self._outcome == SERVER_SHUTDOWN else 500

    def _route(self) -> str | None:
        custom = self._instruments.route
        if custom is not None:
            try:
                found = custom(self._scope)
            except Exception as error:
                faults.report("web.route", error)
            else:
                if found is not None:
                    return str(found)
        return routes.template(self._scope, self._path, self._root_path)

    def _measure(self, series: Series, seconds: float, now: float, status: int) -> None:
        if self._is_stream():
            self._instruments.stream_ended(self.transport, series.route, status)
            return
        context = self._span.get_span_context() if self._recording else None
        series.observe(seconds, now, context if context is not None and context.trace_flags.sampled else None)

    def _is_stream(self) -> bool:
        """An event stream sent in pieces: how long it lasted is the reader's choice, not our latency."""
        if not self._pieces:
            return False
        return any(
            name.lower() == b"content-type" and value.lower().startswith(b"text/event-stream")
            for name, value in self._response_headers
        )

    def _log(self, access: Place, series: Series, seconds: float, status: int) -> None:
        if not access.enabled:
            return
        fields: dict[str, Any] = {
            "method": self._method,
            "route": series.route,
            "path": self._path[:_LONGEST_PATH],
            "status": status,
            "duration_ms": round(seconds * 1000, 3),
            "bytes": self._bytes,
        }
        client = self._scope.get("client")
        if client and client[0]:
            fields["client"] = client[0]
        if self._outcome:
            fields["outcome"] = self._outcome
        self._extend(fields)
        if trace.get_current_span() is self._span:
            access.log(fields, series.message)
            return
        # The last message may come from another task, inside a span of the application's own.
        token = otel_context.attach(trace.set_span_in_context(self._span))
        try:
            access.log(fields, series.message)
        finally:
            otel_context.detach(token)

    def _extend(self, fields: dict[str, Any]) -> None:
        """More fields for the access line."""

    def _end_span(self, series: Series, status: int) -> None:
        span = self._span
        if self._recording:
            span.update_name(series.span_name)
            span.set_attributes(series.attributes)
            if self._outcome in {CLIENT_DISCONNECT, SERVER_SHUTDOWN}:
                span.set_attribute("fleetglass.outcome", self._outcome)
            elif self._outcome == ERROR or status >= 500:
                self._mark_failed(status)
        span.end()

    def _mark_failed(self, status: int) -> None:
        error = self.error
        if error is None:
            self._span.set_attribute("error.type", self._error_type(status))
            self._span.set_status(StatusCode.ERROR)
            return
        kind = type(error)
        self._span.record_exception(error)
        self._span.set_attribute("error.type", kind.__qualname__)
        self._span.set_status(StatusCode.ERROR, kind.__qualname__)

    def _error_type(self, status: int) -> str:
        return str(status)

    def _content_length(self) -> int:
        for name, value in self._response_headers:
            if name.lower() == b"content-length" and value.isdigit():
                return int(value)
        return 0

    def _with_server_timing(self, message: Message) -> Message:
        context = self._span.get_span_context()
        if not context.is_valid:
            return message
        value = f'traceparent;desc="00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"'
        # A copy: a framework may keep the message, and send it again to the next client.
        return {**message, "headers": [*message.get("headers", ()), (b"server-timing", value.encode())]}
