"""``POST /api/telemetry/errors``: method, principal, rate, declared size, type, counted size, decode, intake.

An ASGI route, since it must answer 401 before the body is read and count the bytes that really arrive,
whatever the framing says; it also costs less than half of what a Litestar handler does on this body.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from litestar.enums import ScopeType
from litestar.handlers import asgi
from litestar.handlers.asgi_handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send, WebSocketCloseEvent

from ingest.answers import Answer, declares_more, problem
from ingest.errors.intake import Intake, too_many
from ingest.errors.report import Report, Unreadable, is_readable, read
from ingest.principal import Gate, Principal, Refused
from telemetry.metrics.registry import counter

PATH: Final = "/api/telemetry/errors"
MAX_BODY_BYTES: Final = 16 * 1024
Result = Literal[
    "accepted",
    "duplicate",
    "noise",
    "unauthorized",
    "forbidden_origin",
    "forbidden",
    "rate_limited",
    "ceiling",
    "malformed",
    "too_large",
    "unsupported",
    "disconnected",
    "unavailable",
]
RESULTS: Final[tuple[Result, ...]] = get_args(Result)
"""What becomes of a report: label values of ``frontend_reports_total``. Other methods than POST send none."""


class NotTaken(Exception):
    """Nothing of a request is taken. ``result`` is the label value to count; without ``answer`` the client has left."""

    def __init__(self, result: Result, answer: Answer | None) -> None:
        super().__init__(result)
        self.result: Result = result
        self.answer = answer


_ACCEPTED = Answer(204)
CLOSED: WebSocketCloseEvent = {"type": "websocket.close", "code": 1000, "reason": ""}
_NOT_POST = problem(405, "Method Not Allowed", "Reports are sent with POST.", [(b"allow", b"POST")])
_TOO_LARGE = problem(413, "Content Too Large", f"A report has at most {MAX_BODY_BYTES:,} bytes.")
_COMPRESSED = problem(
    415,
    "Unsupported Media Type",
    "A report is sent uncompressed, without Content-Encoding.",
    [(b"accept-encoding", b"identity")],
)
_OTHER_TYPE = problem(
    415,
    "Unsupported Media Type",
    "A report is sent as application/json, as text/plain or without Content-Type.",
    [(b"accept-post", b"application/json, text/plain")],
)


def errors_route(gate: Gate, intake: Intake) -> ASGIRouteHandler:
    """The route, for an application of ours or a host's own Litestar application.

    ``gate`` names the caller and checks origin and workspace, ``intake`` takes what the caller sends. A host's
    own CSRF check, which a beacon can't pass, leaves the route alone: the gate looks at the origin itself.
    """
    reports = counter("frontend_reports_total").start(RESULTS)
    counts = {result: reports.child(result) for result in RESULTS}

    async def report_browser_error(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET:  # an ASGI route gets these as well
            await send(CLOSED)
            return
        if scope["method"] != "POST":
            await _NOT_POST.send(send)
            return
        try:
            principal, report = await _admit(scope, receive, gate, intake)
        except (Refused, NotTaken) as refused:
            counts[refused.result].inc()
            if refused.answer is not None:
                await refused.answer.send(send)
            return
        counts[await intake.take(report, principal)].inc()
        await _ACCEPTED.send(send)

    return asgi(PATH, name="report_browser_error", exclude_from_csrf=True, copy_scope=False)(report_browser_error)


async def _admit(scope: Any, receive: Receive, gate: Gate, intake: Intake) -> tuple[Principal, Report]:
    principal = await gate.admit(scope)
    decision = await intake.admit(principal)
    if decision.refused is not None:
        raise NotTaken(decision.refused, too_many(decision.refused, decision.retry_after))
    for name, value in scope["headers"]:
        if name == b"content-length" and declares_more(value, MAX_BODY_BYTES):
            raise NotTaken("too_large", _TOO_LARGE)
        if name == b"content-encoding" and value.strip().lower() not in {b"", b"identity"}:
            raise NotTaken("unsupported", _COMPRESSED)
        if name == b"content-type" and not is_readable(value):
            raise NotTaken("unsupported", _OTHER_TYPE)
    body = await _body(receive)
    try:
        return principal, read(body)
    except Unreadable as unreadable:
        raise NotTaken("malformed", problem(400, "Bad Request", str(unreadable))) from None


async def _body(receive: Receive) -> bytes:
    """The whole body, counted as it arrives; what lies beyond the limit is never held."""
    body = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":  # the client left: a page that was closed, nobody's fault
            raise NotTaken("disconnected", None)
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise NotTaken("too_large", _TOO_LARGE)
        if not message.get("more_body", False):
            return body
