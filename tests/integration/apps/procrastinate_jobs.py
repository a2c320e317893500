"""An application of Procrastinate whose worker runs in a process of its own; told by DATABASE_URL."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from procrastinate import App, PsycopgConnector

import telemetry
from telemetry.worker import procrastinate

telemetry.setup("shop-worker", role="worker", version="7")
url = os.environ["DATABASE_URL"]
app = procrastinate.install(
    App(connector=PsycopgConnector(conninfo=url)), group="heavy", heartbeat=url, interval=1.0, deadline=0.9
)


@app.task(name="resize")
async def resize() -> None:
    pass


@app.task(name="slow")
async def slow() -> None:
    while not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - another process makes the file
        await asyncio.sleep(0.02)
