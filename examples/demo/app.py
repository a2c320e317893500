"""One Litestar application: the routes of ingest, those of the shop, the knobs of the platform, and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from litestar import Litestar, get
from litestar.datastructures import CacheControlHeader
from litestar.handlers import HTTPRouteHandler
from litestar.response import File, Stream
from litestar.static_files import create_static_files_router

from examples.demo.feed import Feed, server_sent
from examples.demo.knobs import pass_on, platform_client, pod_routes
from examples.demo.shop import shop_client, shop_routes
from examples.platform import times
from examples.platform.running import Platform
from ingest.app import IngestPlugin
from ingest.settings import Settings
from telemetry.web.litestar import TelemetryPlugin

STATIC = Path(__file__).parent / "static"
# The page may load and call nothing but its own origin; what it shows comes from broken pages.
_POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS = {"content-security-policy": _POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_UNTOLD = ["/", "/static/*", "/telemetry/*", "/demo/session", "/demo/events", "/api/admin/*"]
_FRESH = CacheControlHeader(no_cache=True)


def create_app(
    settings: Settings,
    feed: Feed,
    platform: Platform,
    *,
    base_url: str,
    token: str,
    service: str,
    stopping: Callable[[], bool],
) -> Litestar:
    """The demo's application; ``stopping()`` ends the streams of open pages."""
    return Litestar(
        route_handlers=[
            *shop_routes(),
            pass_on,
            *pod_routes(platform.cluster, settings.tokens),
            *_page_routes(feed, token=token, service=service, stopping=stopping),
            create_static_files_router("/static", directories=[STATIC], cache_control=_FRESH, include_in_schema=False),
        ],
        plugins=[IngestPlugin(settings), TelemetryPlugin(exclude=_UNTOLD)],
        lifespan=[shop_client(base_url), platform_client(platform.api)],
        logging_config=None,
    )


def _page_routes(feed: Feed, *, token: str, service: str, stopping: Callable[[], bool]) -> list[HTTPRouteHandler]:
    @get("/", sync_to_thread=False, include_in_schema=False)
    def page() -> File:
        return File(STATIC / "index.html", content_disposition_type="inline", media_type="text/html", headers=_HEADERS)

    @get(
        "/demo/session", sync_to_thread=False, include_in_schema=False, cache_control=CacheControlHeader(no_store=True)
    )
    def session() -> dict[str, Any]:
        return {"token": token, "service": service, "times": _times()}

    @get("/demo/events", include_in_schema=False)
    async def events() -> Stream:
        async def stream() -> AsyncIterator[bytes]:
            async for name, value in feed.events(stopping):
                yield server_sent(name, value)

        return Stream(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    return [page, session, events]


def _times() -> dict[str, float]:
    """By which times the platform lives, in seconds, for the page to say."""
    return {
        "heartbeat": times.HEARTBEAT,
        "alive": times.WINDOWS.alive,
        "zombie": times.ZOMBIE,
        "back_off": times.BACK_OFF,
    }
