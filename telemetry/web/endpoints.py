"""``/metrics``, ``/healthz`` and ``/readyz`` as small ASGI applications, for any framework to route to.

In Starlette: ``Route("/metrics", MetricsEndpoint())``. They answer GET and HEAD.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import msgspec

from telemetry.web.health import Readiness
from telemetry.web.protocol import Receive, Scope, Send
from telemetry.web.running import running

if TYPE_CHECKING:
    from telemetry.pipeline import Telemetry

_TEXT: Final = "text/plain; charset=utf-8"
_JSON: Final = "application/json"


class _Endpoint(ABC):
    """Answers GET and HEAD with one body; anything else is 405."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        method = scope.get("method")
        extra: list[tuple[bytes, bytes]] = []
        if method in {"GET", "HEAD"}:
            status, content_type, body = await self.answer(scope)
        else:
            status, content_type, body = 405, _TEXT, b"method not allowed\n"
            extra = [(b"allow", b"GET, HEAD")]
        headers = [
            (b"content-type", content_type.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"cache-control", b"no-store"),
            *extra,
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else body})

    @abstractmethod
    async def answer(self, scope: Scope) -> tuple[int, str, bytes]:
        """Status, content type and body."""


class MetricsEndpoint(_Endpoint):
    """The exposition, in the format that Accept asks for, rendered in a thread: a large one takes a second."""

    def __init__(self, telemetry: Telemetry | None = None) -> None:
        self._telemetry = telemetry

    async def answer(self, scope: Scope) -> tuple[int, str, bytes]:
        """200 with the metrics, or 503 while no telemetry runs."""
        telemetry = self._telemetry or running()
        if telemetry is None:
            return 503, _TEXT, b"telemetry.setup() has not been called\n"
        accept = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"accept")
        body, content_type = await asyncio.to_thread(telemetry.metrics, accept or None)
        return 200, content_type, body


class HealthEndpoint(_Endpoint):
    """Liveness: 200 from a process that can answer at all."""

    async def answer(self, scope: Scope) -> tuple[int, str, bytes]:
        """200."""
        return 200, _TEXT, b"ok\n"


class ReadinessEndpoint(_Endpoint):
    """Readiness: 200 or 503 with one word; with ``?verbose``, everything as JSON."""

    def __init__(self, readiness: Readiness) -> None:
        self._readiness = readiness

    async def answer(self, scope: Scope) -> tuple[int, str, bytes]:
        """200 when ready, 503 with ``draining`` or ``failing`` when not."""
        report = await self._readiness.report()
        status = 200 if report.ready else 503
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        if query.get("verbose", ["no"])[-1].lower() in {"", "1", "true", "yes"}:
            return status, _JSON, msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"
        return status, _TEXT, f"{report.reason}\n".encode()
