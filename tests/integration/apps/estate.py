"""A service that has everything of ours: the example's API, the ingest routes, streams, and what may go wrong.

All is configured by environment variables. At rest nothing of it fails; the load of a test calls the routes that do.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import prometheus_client
from litestar import Litestar, get
from litestar.response import Stream
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import telemetry
from ingest.app import IngestPlugin
from ingest.settings import Settings
from telemetry.metrics import guarded
from telemetry.web import TelemetryPlugin

running = telemetry.setup(role="server")
uploads = guarded(prometheus_client.Counter("uploads_total", "Uploads.", ["tenant"]), limit=2)


class Failing(Collector):
    """A user's collector whose source is gone."""

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        raise OSError("the source is gone")


@get("/items/{item:int}")
async def item(item: int) -> dict[str, int]:
    """An item; 1 is slow to find, 13 is what breaks it."""
    with telemetry.span("items.load", item=item):
        if item == 1:
            await asyncio.sleep(0.7)
        if item == 13:
            raise RuntimeError("there is no such shelf")
    return {"item": item}


@get("/uploads/{tenant:str}")
async def upload(tenant: str) -> dict[str, str]:
    """Count an upload by tenant, of which there are more than were thought of."""
    uploads.child(tenant).inc()
    return {"tenant": tenant}


@get("/stream")
async def stream() -> Stream:
    """An event stream that ends."""

    async def events() -> AsyncIterator[str]:
        for number in range(3):
            yield f"data: {number}\n\n"
            await asyncio.sleep(0.01)

    return Stream(events(), media_type="text/event-stream")


@get("/break", sync_to_thread=False)
def break_collector() -> dict[str, bool]:
    """From now on a collector of the application's fails at each scrape."""
    prometheus_client.REGISTRY.register(Failing())
    return {"broken": True}


app = Litestar([item, upload, stream, break_collector], plugins=[IngestPlugin(Settings.load()), TelemetryPlugin()])
