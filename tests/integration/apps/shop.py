"""One service twice, as a Litestar and as a Starlette application, with last words of its own at shutdown."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from litestar import Litestar, get
from prometheus_client import Counter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

import telemetry
from telemetry.web import HealthEndpoint, TelemetryMiddleware, TelemetryPlugin

telemetry.setup(service="shop", role="server")
logger = logging.getLogger("shop")
closed = Counter("shop_closed", "Times that the shop was closed.")


def open_shop() -> None:
    """Say that this process serves: granian forgets a SIGTERM that comes while a worker is still starting."""
    os.write(1, b"the shop is open\n")  # whole: print() writes the line's end by itself, after another worker's line


def close_shop() -> None:
    """What a service does last: a span, a line, a count."""
    with telemetry.span("closing"):
        logger.warning("closing the shop")
    closed.inc()


async def turn() -> str:
    """The trace id, if it stayed the same while others ran."""
    mine = telemetry.trace_id()
    for _ in range(3):
        await asyncio.sleep(0.01)
        if telemetry.trace_id() != mine:
            return "mixed up"
    return mine


@get("/turn/{number:int}")
async def litestar_turn() -> str:
    """A request that gives way to others."""
    return await turn()


@get("/boom")
async def litestar_boom() -> str:
    """A request that fails."""
    raise ValueError("boom")


async def starlette_turn(_request: Request) -> PlainTextResponse:
    """A request that gives way to others."""
    return PlainTextResponse(await turn())


async def starlette_boom(_request: Request) -> PlainTextResponse:
    """A request that fails."""
    raise ValueError("boom")


async def forever(_request: Request) -> StreamingResponse:
    """An event stream that only its reader ends."""

    async def events() -> AsyncIterator[str]:
        while True:
            yield "data: tick\n\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(events(), media_type="text/event-stream")


@asynccontextmanager
async def closing(_app: Starlette) -> AsyncIterator[None]:
    """The Starlette way to begin and to end."""
    open_shop()
    yield
    close_shop()


litestar = Litestar(
    [litestar_turn, litestar_boom],
    plugins=[TelemetryPlugin()],
    on_startup=[open_shop],
    on_shutdown=[close_shop],
    openapi_config=None,
)
starlette = TelemetryMiddleware(
    Starlette(
        routes=[
            Route("/turn/{number:int}", starlette_turn),
            Route("/boom", starlette_boom),
            Route("/forever", forever),
            Route("/healthz", HealthEndpoint()),
        ],
        lifespan=closing,
    )
)
