"""Which other web origins may call the service from a page, and what their browsers are told (CORS).

Around the whole application, so that errors carry the headers as well: a page that can't read a 429 doesn't
know when to come back (https://github.com/litestar-org/litestar/issues/103).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ingest.answers import Answer, Headers, problem
from telemetry.web.protocol import ASGIApp, Message, Receive, Scope, Send

ALLOWED_HEADERS: Final = (
    "authorization",
    "baggage",
    "content-encoding",
    "content-type",
    "idempotency-key",
    "traceparent",
    "tracestate",
    "x-api-key",
    "x-faro-session-id",
    "x-workspace",
)
"""Request headers that pages may send: credentials, trace context, and what Grafana's Faro Web SDK adds.

A header of the SDK that is missing here fails every preflight: https://github.com/grafana/faro-web-sdk/issues/386
"""

_MAX_AGE_SECONDS = 7200  # the longest that Chromium keeps a preflight
_VARY = b"origin"
_EXPOSED = b"retry-after"
_REFUSED = problem(
    403,
    "Forbidden",
    "Pages of this origin may not call the service: see FLEETGLASS_ALLOWED_ORIGINS.",
    [(b"vary", _VARY)],
)


class CORS:
    """ASGI middleware: preflights answered, answers marked for the allowed origins, others left unmarked.

    ``origins`` are exact, as browsers write them in ``Origin``; ``also`` are further headers that their pages may
    send, beside ``ALLOWED_HEADERS``. Credentials are allowed, since cookies may say who is speaking. An answer that
    allows every origin already, as the client's modules do, stays as it is.
    """

    def __init__(self, app: ASGIApp, origins: Iterable[str], *, also: Iterable[str] = ()) -> None:
        self._app = app
        self._headers = {origin.encode(): _headers(origin.encode()) for origin in origins}
        allowed = ", ".join(sorted({*ALLOWED_HEADERS, *(name.lower() for name in also)})).encode()
        self._preflights = {origin: _preflight(headers, allowed) for origin, headers in self._headers.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight, or mark what the application answers."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = _one(scope, b"origin")
        if origin and scope["method"] == "OPTIONS" and _one(scope, b"access-control-request-method"):
            await self._preflights.get(origin, _REFUSED).send(send)
            return
        marks = self._headers.get(origin, [])

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": _marked(message.get("headers", ()), marks)}
            await send(message)

        await self._app(scope, receive, marked)


def _headers(origin: bytes) -> Headers:
    return [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-credentials", b"true"),
        (b"access-control-expose-headers", _EXPOSED),
    ]


def _preflight(headers: Headers, allowed: bytes) -> Answer:
    return Answer(
        204,
        [
            *headers[:2],
            (b"access-control-allow-methods", b"GET, POST"),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", str(_MAX_AGE_SECONDS).encode()),
            (b"vary", _VARY),
        ],
    )


def _one(scope: Scope, wanted: bytes) -> bytes:
    """The value of the only header of that name; empty when there is none, or more than one."""
    values = [value for name, value in scope["headers"] if name == wanted]
    return values[0] if len(values) == 1 else b""


def _marked(headers: Iterable[Any], marks: Headers) -> Headers:
    """The headers with ``marks``, and with ``Origin`` among those that the answer varies by, for caches."""
    kept = [(bytes(name), bytes(value)) for name, value in headers]
    if any(name.lower() == b"access-control-allow-origin" for name, _ in kept):
        return kept
    varied = b", ".join([value for name, value in kept if name.lower() == b"vary"] + [_VARY])
    return [*((name, value) for name, value in kept if name.lower() != b"vary"), (b"vary", varied), *marks]
