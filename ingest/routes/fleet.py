"""``GET /api/admin/fleet`` and ``/api/admin/coverage``: observed against desired, for those who run the platform.

Both are made from what an observer last read; a request reads no database.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Annotated, Any, Final

import msgspec
from litestar import Request, Response
from litestar.connection import ASGIConnection
from litestar.datastructures import CacheControlHeader
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler, get
from litestar.handlers.base import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import Parameter

from ingest.answers import FORBIDDEN, Answer
from ingest.principal import Gate, Refused
from telemetry.fleet.console import coverage_view, fleet_view
from telemetry.fleet.facts import CoverageView, FleetView
from telemetry.fleet.snapshot import Snapshot

FLEET_PATH: Final = "/api/admin/fleet"
COVERAGE_PATH: Final = "/api/admin/coverage"


class Problem(msgspec.Struct, frozen=True):
    """A problem (RFC 9457) whose ``detail`` is one sentence."""

    title: str
    status: int
    detail: str


Snapshots = Callable[[], Snapshot]
"""What is known of the fleet now."""


def fleet_routes(gate: Gate, roles: Collection[str], snapshots: Snapshots) -> list[HTTPRouteHandler]:
    """The two routes, for callers with one of ``roles``; 401 without a principal, 403 for others."""
    allowed = frozenset(roles)

    async def admin(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
        try:
            principal = await gate.identify(connection.scope)
        except Refused as refused:
            raise _Answered(refused.answer) from refused
        if allowed.isdisjoint(principal.roles):
            raise _Answered(FORBIDDEN)

    common: dict[str, Any] = {
        "guards": [admin],
        "exception_handlers": {_Answered: _answered},
        "cache_control": CacheControlHeader(no_store=True),
        # Judging thousands of workers takes milliseconds, which requests on the event loop would feel.
        "sync_to_thread": True,
        "tags": ["console"],
        "security": [{"bearer": []}],
        "responses": _PROBLEMS,
    }

    @get(FLEET_PATH, summary="Groups of workers: asked for, seen, waiting, and the badge of each", **common)
    def fleet(
        workers: Annotated[bool, Parameter(description="List each worker of each group as well.")] = False,
    ) -> FleetView:
        return fleet_view(snapshots(), workers=workers)

    @get(COVERAGE_PATH, summary="Tags: what waits under each, and whether anybody serves it", **common)
    def coverage() -> CoverageView:
        return coverage_view(snapshots())

    return [fleet, coverage]


class _Answered(HTTPException):
    """A refusal as Litestar knows them: anything else that a guard raises is logged as a fault, with its stack."""

    def __init__(self, answer: Answer) -> None:
        # 403 for all: that an issuer is away (503) has been said by the gate, once.
        super().__init__(status_code=403)
        self.answer = answer


def _answered(_: Request[Any, Any, Any], refusal: _Answered) -> Response[bytes]:
    headers = {name.decode(): value.decode() for name, value in refusal.answer.headers}
    media_type = headers.pop("content-type")
    return Response(refusal.answer.body, status_code=refusal.answer.status, headers=headers, media_type=media_type)


_PROBLEMS: Final = {
    status: ResponseSpec(
        Problem, description=description, generate_examples=False, media_type="application/problem+json"
    )
    for status, description in (
        (401, "No valid token."),
        (403, "The caller has none of the roles that may read this."),
        (503, "Who is speaking can't be found out now."),
    )
}
