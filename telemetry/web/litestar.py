"""The Litestar plugin: the whole application traced, measured and access-logged; metrics and health routes.

Litestar's own middleware sits behind its router and never sees a 404 or 405, so this plugin wraps the
application itself once it is built.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

from litestar.exceptions import HTTPException
from litestar.handlers import asgi
from litestar.plugins import InitPlugin
from litestar.types import Receive, Scope, Send

from telemetry.web import lifespan
from telemetry.web.asgi import TelemetryMiddleware
from telemetry.web.endpoints import HealthEndpoint, MetricsEndpoint, ReadinessEndpoint
from telemetry.web.health import Ping, Readiness
from telemetry.web.protocol import MARK
from telemetry.web.running import running

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.config.app import AppConfig
    from litestar.handlers import ASGIRouteHandler

    from telemetry.pipeline import Telemetry
    from telemetry.web.protocol import ASGIApp

_logger = logging.getLogger("litestar")


class TelemetryPlugin(InitPlugin):
    """``Litestar(plugins=[TelemetryPlugin()])``: one span, one measurement and one access line a request.

    ``telemetry`` is what ``telemetry.setup()`` returned; without it, the one that runs when a request
    comes. A path of None leaves its route out. ``pings`` are what ``/readyz`` asks: name to function,
    plain or async, or a ``Readiness`` of your own. ``exclude`` adds paths that make no telemetry.

    Exceptions that become a 5xx are recorded on the span and, with ``log_exceptions``, logged once by
    the logger ``litestar``. Litestar's own logging set-up, which would take over the root logger, is
    switched off (``logging_config=None``). Name the plugin last: what other plugins do at shutdown is
    then over when it sends what is queued.

    Requires a server that runs the lifespan; under one that does not (granian ``asginl``), wrap the
    application in ``TelemetryMiddleware``, or lose the first request.
    """

    def __init__(
        self,
        telemetry: Telemetry | None = None,
        *,
        metrics_path: str | None = "/metrics",
        health_path: str | None = "/healthz",
        ready_path: str | None = "/readyz",
        pings: Mapping[str, Ping] | Readiness | None = None,
        exclude: Iterable[str] = (),
        server_timing: bool | None = None,
        access_log: bool | None = None,
        log_exceptions: bool = True,
    ) -> None:
        self._telemetry = telemetry
        self.readiness = pings if isinstance(pings, Readiness) else Readiness(pings, telemetry=self._running)
        self._routes: dict[str, ASGIApp] = {}
        if metrics_path is not None:
            self._routes[metrics_path] = MetricsEndpoint(telemetry)
        if health_path is not None:
            self._routes[health_path] = HealthEndpoint()
        if ready_path is not None:
            self._routes[ready_path] = ReadinessEndpoint(self.readiness)
        self._exclude = (*self._routes, *exclude)
        self._server_timing = server_timing
        self._access_log = access_log
        self._log_exceptions = log_exceptions

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Add routes and hooks; called by Litestar."""
        app_config.logging_config = None
        app_config.route_handlers.extend(_route(path, endpoint) for path, endpoint in self._routes.items())
        app_config.after_exception.append(self._note_exception)
        app_config.lifespan.insert(0, self._lifespan)
        app_config.on_shutdown.append(self._flush)
        app_config.before_send.append(self._late)
        return app_config

    def wrap(self, app: Litestar) -> None:
        """Put the middleware around ``app``, once; happens at startup."""
        if self._late in app.before_send:
            app.before_send.remove(self._late)
        if isinstance(app.asgi_handler, TelemetryMiddleware):
            return
        middleware = TelemetryMiddleware(
            cast("ASGIApp", app.asgi_handler),
            self._telemetry,
            exclude=self._exclude,
            server_timing=self._server_timing,
            access_log=self._access_log,
        )
        app.asgi_handler = middleware  # type: ignore[assignment]  # the scope types differ

    async def _late(self, _message: Any, scope: Scope) -> None:
        """A response before any startup: the server runs no lifespan. Wrap now, for the next request."""
        self.wrap(scope["litestar_app"])

    @asynccontextmanager
    async def _lifespan(self, app: Litestar) -> AsyncIterator[None]:
        lifespan.take_over_logs()
        self.wrap(app)
        yield
        self.readiness.drain()

    async def _flush(self) -> None:
        await lifespan.flush(self._running())

    def _running(self) -> Telemetry | None:
        return self._telemetry or running()

    async def _note_exception(self, error: Exception, scope: Scope) -> None:
        """What a handler raised, before Litestar turns it into a response."""
        if isinstance(error, HTTPException) and error.status_code < 500:
            return
        exchange = cast("dict[str, Any]", scope).get(MARK)
        if exchange is not None:
            exchange.error = error
        if self._log_exceptions:
            _logger.error("unhandled exception", exc_info=error)


def _route(path: str, endpoint: ASGIApp) -> ASGIRouteHandler:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint(scope, receive, send)

    # The keys by which Litestar's authentication and CSRF middleware leave a route alone.
    return asgi(path, exclude_from_auth=True, exclude_from_csrf=True, copy_scope=False)(serve)
