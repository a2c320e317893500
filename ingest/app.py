"""The ingest service as a Litestar application, and its routes for a host application."""

from __future__ import annotations

from litestar import Litestar
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from ingest.errors.document import document_errors_route
from ingest.errors.route import errors_route
from ingest.principal import Gate, Resolver, StaticTokens
from ingest.routes.config import config_route
from ingest.routes.metrics import PATH as METRICS_PATH
from ingest.routes.metrics import guarded_metrics_route
from ingest.settings import Settings
from telemetry.web.litestar import TelemetryPlugin

RouteHandler = ASGIRouteHandler | HTTPRouteHandler

_OPENAPI = OpenAPIConfig(
    title="Fleetglass ingest",
    version="1",
    description="What comes in over HTTP: browser errors, and what a console asks before anybody has signed in.",
    components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
)


def create_app(settings: Settings, *, resolver: Resolver | None = None) -> Litestar:
    """The whole service. ``telemetry.setup()`` is the caller's: without it, requests pass untraced.

    ``resolver`` finds the principal of a request; without one, ``settings.tokens`` do.
    """
    resolver = resolver or StaticTokens(settings.tokens)
    routes = ingest_routes(settings, resolver=resolver)
    metrics_path: str | None = METRICS_PATH
    if not settings.metrics_public:
        metrics_path = None
        routes.append(guarded_metrics_route(_gate(settings, resolver)))
    app = Litestar(
        route_handlers=routes,
        plugins=[TelemetryPlugin(metrics_path=metrics_path, exclude=[METRICS_PATH])],
        openapi_config=_OPENAPI,
        logging_config=None,
    )
    document_errors_route(app)
    return app


def ingest_routes(settings: Settings, *, resolver: Resolver | None = None) -> list[RouteHandler]:
    """The service's own routes, to be mounted into a host's Litestar application."""
    gate = _gate(settings, resolver or StaticTokens(settings.tokens))
    return [errors_route(gate), config_route(settings.feedback_url)]


def _gate(settings: Settings, resolver: Resolver) -> Gate:
    return Gate(resolver, allowed_origins=settings.allowed_origins, workspace_header=settings.workspace_header)
