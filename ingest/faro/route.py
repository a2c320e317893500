"""``POST /api/telemetry/faro``: batches of Grafana's Faro Web SDK 2.x, each exception treated as a report of its own.

Checks in the order of the errors route: method, principal, origin and workspace, rate, declared size, encoding and
type, counted size, decode; then each exception's own token, noise, limits and line. What was read is answered with
202, whatever became of its items: it is the only answer of which the SDK reads more than the status, and a 429 would
have it send the items again that were taken.
"""

from __future__ import annotations

from typing import Any, Final

from litestar.enums import ScopeType
from litestar.handlers import asgi
from litestar.handlers.asgi_handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from ingest.answers import Answer, declares_more, problem
from ingest.errors.intake import Intake
from ingest.errors.report import Unreadable, is_readable
from ingest.errors.route import CLOSED, RESULTS, NotTaken, Result
from ingest.faro.body import BadBody, Fault, drained, whole
from ingest.faro.payload import LEFT, MAX_ITEM_BYTES, Batch, read
from ingest.faro.replays import Replays
from ingest.principal import Gate, Principal, Refused
from telemetry.metrics.registry import counter

PATH: Final = "/api/telemetry/faro"
MAX_BODY_BYTES: Final = 256 * 1024
_REPLAYS: Final = "replays"

_ACCEPTED = Answer(202, [(b"content-length", b"0")])
_NOT_POST = problem(405, "Method Not Allowed", "Faro batches are sent with POST.", [(b"allow", b"POST")])
_TOO_LARGE = problem(413, "Content Too Large", f"A batch has at most {MAX_BODY_BYTES:,} bytes, sent and decoded.")
_OTHER_ENCODING = problem(
    415,
    "Unsupported Media Type",
    "A batch is sent with gzip as its only Content-Encoding, or with none.",
    [(b"accept-encoding", b"gzip, identity")],
)
_OTHER_TYPE = problem(
    415,
    "Unsupported Media Type",
    "A batch is sent as application/json, as text/plain or without Content-Type.",
    [(b"accept-post", b"application/json, text/plain")],
)
_NOT_GZIP = problem(400, "Bad Request", "The body is not one whole gzip stream.")
_FAULTS: Final[dict[Fault, Answer | None]] = {
    "disconnected": None,
    "malformed": _NOT_GZIP,
    "too_large": _TOO_LARGE,
}


def faro_route(gate: Gate, intake: Intake) -> ASGIRouteHandler:
    """The route; ``gate`` and ``intake`` are those of the errors route, so that one caller has one set of limits."""
    batches = _Batches(intake)

    async def report_faro_batch(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == ScopeType.WEBSOCKET:  # an ASGI route gets these as well
            await send(CLOSED)
            return
        if scope["method"] != "POST":
            await _NOT_POST.send(send)
            return
        try:
            principal, batch = await _admit(scope, receive, gate, intake)
        except (Refused, NotTaken) as refused:
            batches.count(refused.result, 1)
            if refused.answer is not None:
                await refused.answer.send(send)
            return
        await batches.take(batch, principal, _idempotency_key(scope))
        await _ACCEPTED.send(send)

    return asgi(PATH, name="report_faro_batch", exclude_from_csrf=True, copy_scope=False)(report_faro_batch)


class _Batches:
    """Takes batches apart; each of their items is counted once, whatever becomes of it."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._replays = Replays()
        self._reports = counter("frontend_reports_total").start(RESULTS)
        self._ignored = counter("frontend_faro_ignored_total").start((*LEFT, _REPLAYS))

    def count(self, result: Result, count: int) -> None:
        """Count so many reports under ``result``."""
        if count:
            self._reports.child(result).inc(count)

    async def take(self, batch: Batch, principal: Principal, key: bytes) -> None:
        """Take what was read; ``key`` is the request's ``Idempotency-Key``, empty without one."""
        for kind, count in batch.left.items():
            self._ignored.child(kind).inc(count)
        if not batch.exceptions:
            return
        if key and self._replays.again(principal.email, key):
            self._ignored.child(_REPLAYS).inc(batch.exceptions)
            return
        self.count("too_large", batch.oversized)
        self.count("malformed", batch.malformed)
        for place, report in enumerate(batch.reports):
            if place:  # the first one's token was taken before the body was read
                decision = await self._intake.admit(principal)
                if decision.refused is not None:
                    self.count(decision.refused, len(batch.reports) - place)
                    return
            self.count(await self._intake.take(report, principal), 1)


async def _admit(scope: Any, receive: Receive, gate: Gate, intake: Intake) -> tuple[Principal, Batch]:
    principal = await gate.admit(scope)
    decision = await intake.admit(principal)
    try:
        if decision.refused is not None:
            await drained(receive, MAX_BODY_BYTES)
            raise NotTaken(decision.refused, _ACCEPTED)
        gzipped = _gzipped(scope["headers"])
        body = await whole(receive, MAX_BODY_BYTES, gzipped=gzipped)
    except BadBody as bad:
        raise NotTaken(bad.fault, _FAULTS[bad.fault]) from None
    try:
        batch = read(body)
    except Unreadable as unreadable:
        raise NotTaken("malformed", problem(400, "Bad Request", str(unreadable))) from None
    # Measurements and events come all the time and are no reports. A large batch of them keeps its token, so that
    # decoding is bounded as well.
    if not batch.exceptions and len(body) <= MAX_ITEM_BYTES:
        intake.give_back(principal)
    return principal, batch


def _gzipped(headers: Any) -> bool:
    """Whether the body is compressed. Raises for what is refused by its headers."""
    gzipped = False
    for name, value in headers:
        if name == b"content-length" and declares_more(value, MAX_BODY_BYTES):
            raise NotTaken("too_large", _TOO_LARGE)
        if name == b"content-encoding" and (coding := value.strip().lower()) not in {b"", b"identity"}:
            if coding != b"gzip" or gzipped:
                raise NotTaken("unsupported", _OTHER_ENCODING)
            gzipped = True
        if name == b"content-type" and not is_readable(value):
            raise NotTaken("unsupported", _OTHER_TYPE)
    return gzipped


def _idempotency_key(scope: Any) -> bytes:
    return b",".join(value for name, value in scope["headers"] if name == b"idempotency-key")
