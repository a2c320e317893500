"""Browser errors answered before the application's router looks for a route.

Between the server and an ASGI route of its own Litestar does what this route has no use for: state of the request,
normal form of the path, host, handlers of exceptions. That is a sixth of what a report costs, the server included
(bench B5), and more of what a refused one costs, so that a flood is turned away the sooner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from litestar.routes import ASGIRoute

from telemetry.web.protocol import ASGIApp, Receive, Scope, Send

if TYPE_CHECKING:
    from litestar import Litestar


def answer_first(app: Litestar, path: str) -> None:
    """Have the ASGI route that ``app`` has at ``path`` answered first, past the application's router.

    What stands around the whole application (``TelemetryPlugin``, ``CORS``) sees its requests as before; guards,
    middleware and exception handlers of the application don't. A host whose resolver needs none of them may call it
    for the errors route of ``ingest_routes``, before the application starts. ``LookupError`` without such a route.
    """
    for route in app.routes:
        if route.path == path and isinstance(route, ASGIRoute):
            app.asgi_handler = _First(cast("ASGIApp", app.asgi_handler), route)  # type: ignore[assignment]  # scope types
            return
    raise LookupError(f"the application has no ASGI route at {path}")


class _First:
    """``app``, but for requests whose path is that of ``route``, letter by letter."""

    def __init__(self, app: ASGIApp, route: ASGIRoute) -> None:
        self._app = app
        self._path = route.path
        self._handler = route.route_handler
        self._answer = cast("ASGIApp", route.route_handler.fn)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        # What Litestar says of a route that it has found: request metrics are labelled by it.
        scope["route_handler"], scope["path_template"] = self._handler, self._path
        await self._answer(scope, receive, send)
