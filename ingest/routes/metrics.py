"""``/metrics`` behind a token, for services that strangers can reach."""

from __future__ import annotations

from typing import Any, Final, cast

from litestar.handlers import asgi
from litestar.handlers.asgi_handlers import ASGIRouteHandler
from litestar.types import Receive, Scope, Send

from ingest.answers import FORBIDDEN
from ingest.principal import Gate, Refused
from telemetry.web import MetricsEndpoint

PATH: Final = "/metrics"
ROLES: Final = frozenset({"metrics", "super_admin"})
"""Who may read the metrics: a scraper's token has the first, operators the second."""


def guarded_metrics_route(gate: Gate) -> ASGIRouteHandler:
    """The exposition for callers with one of ``ROLES``; 401 without a principal, 403 for others."""
    endpoint = MetricsEndpoint()

    async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await gate.identify(scope)
        except Refused as refused:
            await refused.answer.send(send)
            return
        if ROLES.isdisjoint(principal.roles):
            await FORBIDDEN.send(send)
        else:
            await endpoint(cast("dict[str, Any]", scope), receive, send)

    return asgi(PATH, name="metrics", copy_scope=False)(metrics)
