"""Drives an ASGI application directly, message by message, and keeps what telemetry came of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import telemetry
from telemetry.metrics import registry
from telemetry.traces.provider import PROVIDER

App = Callable[[dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


@dataclass
class Answer:
    """What the server side got: ``error`` is what the application raised."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def status(self) -> int | None:
        return next((m["status"] for m in self.messages if m["type"].endswith("response.start")), None)

    @property
    def body(self) -> bytes:
        return b"".join(m.get("body", b"") for m in self.messages if m["type"] == "http.response.body")

    def header(self, name: str) -> str | None:
        for message in self.messages:
            for key, value in message.get("headers", ()):
                if key == name.encode():
                    return value.decode()
        return None


def http_scope(method: str, path: str, headers: Iterable[tuple[str, str]] = (), **more: Any) -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.encode(), v.encode("latin-1")) for k, v in headers] or [(b"host", b"shop.test:8080")],
        "client": ("192.0.2.7", 50000),
        "server": ("127.0.0.1", 8000),
        **more,
    }


async def request(
    app: Any,
    method: str = "GET",
    path: str = "/",
    *,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    send_fails: type[OSError] | None = None,
    leaves_after: int | None = None,
    **scope: Any,
) -> Answer:
    """One request. ``leaves_after`` messages the client is gone: ``receive`` says so, and with ``send_fails``
    ``send`` raises it."""
    answer = Answer()
    gone = False
    over = asyncio.Event()  # servers say http.disconnect too when the response is complete
    if leaves_after == 0:
        gone = True
        over.set()
    incoming = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop(0)
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal gone
        if gone and send_fails is not None:
            raise send_fails("gone")
        answer.messages.append(message)
        if leaves_after is not None and len(answer.messages) >= leaves_after:
            gone = True
            over.set()
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            over.set()
        await asyncio.sleep(0)

    try:
        await app(http_scope(method, path, headers, **scope), receive, send)
    except BaseException as error:
        answer.error = error
    return answer


async def websocket(app: Any, path: str, incoming: list[dict[str, Any]]) -> Answer:
    """One websocket whose client says ``incoming`` after the handshake."""
    answer = Answer()
    waiting = [{"type": "websocket.connect"}, *incoming]
    scope = {**http_scope("GET", path), "type": "websocket", "scheme": "ws", "subprotocols": []}
    del scope["method"]

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    async def send(message: dict[str, Any]) -> None:
        answer.messages.append(message)

    try:
        await app(scope, receive, send)
    except BaseException as error:
        answer.error = error
    return answer


async def lifespan(app: Any, during: Callable[[], Awaitable[None]] | None = None) -> Answer:
    """Startup and shutdown, as a server that insists on both answers does it."""
    answer = Answer()
    asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send(message: dict[str, Any]) -> None:
        answer.messages.append(message)
        said.put_nowait(message)

    task = asyncio.ensure_future(app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, asked.get, send))
    for event in ("lifespan.startup", "lifespan.shutdown"):
        asked.put_nowait({"type": event})
        reply = asyncio.ensure_future(said.get())
        await asyncio.wait({task, reply}, timeout=30, return_when=asyncio.FIRST_COMPLETED)
        reply.cancel()
        if task.done() or answer.messages[-1]["type"] == "lifespan.startup.failed":
            break
        if event == "lifespan.startup" and during is not None:
            await during()
    try:
        await asyncio.wait_for(task, 30)
    except Exception as error:
        answer.error = error
    return answer


class Lines(logging.Handler):
    """Access lines as records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Watched:
    """Spans, access lines and metric changes since the start of the block."""

    def __init__(self, exporter: InMemorySpanExporter, lines: Lines, telemetry: Any) -> None:
        self._exporter = exporter
        self._lines = lines
        self.telemetry = telemetry
        self._before = _samples()

    @property
    def spans(self) -> list[ReadableSpan]:
        return [s for s in self._exporter.get_finished_spans() if s.kind.name == "SERVER"]

    @property
    def lines(self) -> list[logging.LogRecord]:
        return self._lines.records

    def metric(self, name: str, **labels: str) -> float:
        """How much the samples called ``name`` with at least these labels have grown, all together."""
        total = 0.0
        for (sample, pairs), value in _samples().items():
            if sample == name and labels.items() <= dict(pairs).items():
                total += value - self._before.get((sample, pairs), 0.0)
        return total

    def requests(self, **labels: str) -> float:
        return self.metric("http_server_request_duration_seconds_count", **labels)

    def routes(self) -> set[str]:
        """Route labels of the histogram's series that have grown."""
        name = "http_server_request_duration_seconds_count"
        return {
            dict(pairs)["http_route"]
            for (sample, pairs), value in _samples().items()
            if sample == name and value > self._before.get((sample, pairs), 0.0)
        }

    @property
    def active(self) -> float:
        return self.metric("http_server_active_requests")


def _samples() -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in registry.REGISTRY.collect()
        for sample in family.samples
    }


@contextmanager
def watching(**settings: Any) -> Iterator[Watched]:
    """A telemetry that runs as shipped, whose spans and access lines are kept here as well."""
    exporter, lines = InMemorySpanExporter(), Lines()
    given = {"service": "shop", "role": "server", "stdout": "off", "sigterm": False, **settings}
    access = logging.getLogger("access")
    with telemetry.setup(**given) as running:
        PROVIDER.add_span_processor(SimpleSpanProcessor(exporter))
        access.addHandler(lines)
        try:
            yield Watched(exporter, lines, running)
        finally:
            access.removeHandler(lines)
