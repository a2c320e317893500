"""The ingest service as a Litestar application, and its routes for a host application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from litestar import Litestar
from litestar.config.app import AppConfig
from litestar.handlers import ASGIRouteHandler, HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.plugins import InitPlugin

from ingest.cors import CORS
from ingest.errors.document import document_errors_route
from ingest.errors.intake import Intake
from ingest.errors.route import PATH as ERRORS_PATH
from ingest.errors.route import errors_route
from ingest.faro.document import document_faro_route
from ingest.faro.route import faro_route
from ingest.first import answer_first
from ingest.principal import Gate, Resolver, configured_resolver
from ingest.routes.browser import browser_routes
from ingest.routes.config import config_route
from ingest.routes.metrics import PATH as METRICS_PATH
from ingest.routes.metrics import guarded_metrics_route
from ingest.settings import Settings
from telemetry.web.litestar import TelemetryPlugin

if TYPE_CHECKING:
    from ingest.routes.fleet import Snapshots

RouteHandler = ASGIRouteHandler | HTTPRouteHandler

_OPENAPI = OpenAPIConfig(
    title="Fleetglass ingest",
    version="1",
    description="What comes in over HTTP: browser errors, and what a console asks before anybody has signed in.",
    components=Components(security_schemes={"bearer": SecurityScheme(type="http", scheme="bearer")}),
)


def create_app(settings: Settings, *, resolver: Resolver | None = None, fleet: Snapshots | None = None) -> Litestar:
    """The whole service. ``telemetry.setup()`` is the caller's: without it, requests pass untraced.

    ``resolver`` finds the principal of a request; without one, the settings say whose word counts. ``fleet`` says what
    is known of the fleet (``lambda: snapshot(observer)``); without it there are no routes under ``/api/admin``.
    """
    resolver = resolver or configured_resolver(settings)
    intake = Intake(settings)
    routes = ingest_routes(settings, resolver=resolver, intake=intake, fleet=fleet)
    metrics_path: str | None = METRICS_PATH
    if not settings.metrics_public:
        metrics_path = None
        routes.append(guarded_metrics_route(_gate(settings, resolver)))
    app = Litestar(
        route_handlers=routes,
        lifespan=[intake.running],
        plugins=[TelemetryPlugin(metrics_path=metrics_path, exclude=[METRICS_PATH])],
        openapi_config=_OPENAPI,
        logging_config=None,
    )
    document_errors_route(app)
    document_faro_route(app)
    answer_first(app, ERRORS_PATH)
    if settings.allowed_origins:
        app.asgi_handler = CORS(  # type: ignore[assignment]  # scope types
            app.asgi_handler, settings.allowed_origins, also=[settings.workspace_header]
        )
    return app


class IngestPlugin(InitPlugin):
    """The service's own routes in a host's Litestar application, their windows closed when it shuts down.

    Name it before ``TelemetryPlugin``, which sends what is logged to the end. Arguments as for ``ingest_routes``.
    """

    def __init__(self, settings: Settings, *, resolver: Resolver | None = None, fleet: Snapshots | None = None) -> None:
        self._intake = Intake(settings)
        self._routes = ingest_routes(settings, resolver=resolver, intake=self._intake, fleet=fleet)

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Add routes and lifespan; Litestar calls it."""
        app_config.route_handlers.extend(self._routes)
        app_config.lifespan.append(self._intake.running)
        return app_config


def ingest_routes(
    settings: Settings,
    *,
    resolver: Resolver | None = None,
    intake: Intake | None = None,
    fleet: Snapshots | None = None,
) -> list[RouteHandler]:
    """The service's own routes, to be mounted into a host's Litestar application; ``IngestPlugin`` does it.

    Whoever mounts them by hand hands over an ``intake`` and puts ``intake.running`` into the application's lifespan:
    without it, repeats that are being counted when the process ends are never told.

    ``resolver`` is the host's own, by whose sessions callers are known; without one, the settings say. Both at once:
    ``FirstOf(own, configured_resolver(settings))``. ``fleet`` as for ``create_app``.
    """
    gate = _gate(settings, resolver or configured_resolver(settings))
    intake = intake or Intake(settings)
    routes: list[RouteHandler] = [
        errors_route(gate, intake),
        faro_route(gate, intake),
        config_route(settings.feedback_url),
        *browser_routes(),
    ]
    if fleet is not None:
        # What it needs comes with the extra `fleet`, which a service without one does without.
        from ingest.routes.fleet import fleet_routes

        routes += fleet_routes(gate, settings.admin_roles, fleet)
    return routes


def _gate(settings: Settings, resolver: Resolver) -> Gate:
    return Gate(resolver, allowed_origins=settings.allowed_origins, workspace_header=settings.workspace_header)
