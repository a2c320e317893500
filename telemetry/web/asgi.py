"""The middleware: wraps a whole ASGI application, frameworks' own error pages and 404s included."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from telemetry import faults
from telemetry.web import lifespan
from telemetry.web.protocol import FASTAPI_OWN, MARK, ASGIApp, Receive, Scope, Send
from telemetry.web.running import running

if TYPE_CHECKING:
    from telemetry.pipeline import Telemetry
    from telemetry.web.exchange import Exchange
    from telemetry.web.instruments import Instruments

EXCLUDED = ("/healthz", "/readyz", "/metrics")
"""Paths that make neither span nor metric nor access line, unless told otherwise."""


class TelemetryMiddleware:
    """Server span, request metrics and access line of every request, in one pass.

    Put it outermost, around the finished application: ``app = TelemetryMiddleware(app)``. A second one
    inside (Litestar's plugin, say) notices and passes through.

    ``telemetry`` is what ``telemetry.setup()`` returned; without it, the one that is running is used, and
    while none is, requests pass through untouched.

    ``exclude`` names paths that are left alone, ``/static/*`` with all below. ``server_timing`` and
    ``access_log`` override the settings of those names. ``route`` gives the route template of a scope
    after the application has run (None: as Litestar or Starlette say), for routers of another kind.

    It also sits in the lifespan protocol: at start the server's own log handlers are taken over, at
    shutdown, after the application's own handlers, what is queued is sent.
    """

    def __init__(
        self,
        app: ASGIApp,
        telemetry: Telemetry | None = None,
        *,
        exclude: Iterable[str] = EXCLUDED,
        server_timing: bool | None = None,
        route: Callable[[Mapping[str, Any]], str | None] | None = None,
        access_log: bool | None = None,
    ) -> None:
        paths = [path.rstrip("/") or "/" for path in exclude]
        self.app = app
        self._given = telemetry
        self._bound: Telemetry | None = None
        self._instruments: Instruments | None = None
        self._kinds: dict[str, type[Exchange]] = {}
        self._exact = frozenset(path for path in paths if not path.endswith("*"))
        self._below = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._server_timing = server_timing
        self._route = route
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection, or the lifespan."""
        kind = scope["type"]
        if kind == "lifespan":
            await lifespan.run(self.app, scope, receive, send, self._telemetry)
            return
        exchange = self._exchange(kind, scope, receive, send)
        if exchange is None:
            await self.app(scope, receive, send)
            return
        detach = True
        try:
            await self.app(scope, exchange.receive, exchange.send)
        except GeneratorExit:
            detach = False  # thrown away, not run to its end: this may be another context than the one it began in
            raise
        except BaseException as error:
            exchange.failed(error)
            raise
        finally:
            exchange.close(detach=detach)

    def _telemetry(self) -> Telemetry | None:
        return self._given if self._given is not None else running()

    def _exchange(self, kind: str, scope: Scope, receive: Receive, send: Send) -> Exchange | None:
        """The exchange for this connection; None when it is none of our business, or a fault of ours."""
        try:
            telemetry = self._telemetry()
            if telemetry is not self._bound:
                self._bind(telemetry)
            instruments = self._instruments
            if instruments is None:
                return None
            excluded = self._excludes(scope)
            if MARK in scope:
                outer: Exchange | None = scope[MARK]
                if excluded and outer is not None:
                    outer.ignored = True
                return None
            if excluded:
                scope[MARK] = None
                scope.setdefault(FASTAPI_OWN, None)
                return None
            begin = self._kinds.get(kind)
            if begin is None:
                return None
            exchange = scope[MARK] = begin(instruments, scope, receive, send)
        except Exception as error:
            faults.report("web", error)
            return None
        return exchange

    def _bind(self, telemetry: Telemetry | None) -> None:
        self._bound = telemetry
        self._instruments = None
        if telemetry is not None:
            # Not before setup(): prometheus-client decides for good about multiprocess mode when it is imported.
            from telemetry.web.exchange import Exchange
            from telemetry.web.instruments import Instruments
            from telemetry.web.websocket import WebsocketExchange

            self._kinds = {"http": Exchange, "websocket": WebsocketExchange}
            self._instruments = Instruments(
                telemetry, server_timing=self._server_timing, access_log=self._access_log, route=self._route
            )

    def _excludes(self, scope: Scope) -> bool:
        path: str = scope["path"]
        if path in self._exact:
            return True
        root: str = scope.get("root_path", "")
        if root and path.startswith(root):
            path = path[len(root) :]
        elif not self._below and not path.endswith("/"):
            return False
        return path.rstrip("/") in self._exact or (bool(self._below) and path.startswith(self._below))
