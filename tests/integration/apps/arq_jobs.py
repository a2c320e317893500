"""Jobs of arq for a worker in a process of its own; told by REDIS, and by DATABASE_URL where it has a heartbeat."""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path

import arq
from arq.connections import RedisSettings
from arq.worker import Retry

import telemetry
from telemetry.worker import arq as adapter

log = logging.getLogger("shop")
telemetry.setup("shop-worker", role="worker", version="7")


async def resize(ctx, width):
    log.info("resizing %d", width)
    return width


async def broken(_ctx):
    raise ValueError("no such image")


async def again(ctx):
    if ctx["job_try"] == 1:
        raise Retry
    log.info("got it")


async def slow(_ctx):
    log.info("slow begins")
    while not Path("go").exists():  # noqa: ASYNC110, ASYNC240 - another process makes the file
        await asyncio.sleep(0.02)


async def late(_ctx):
    await asyncio.sleep(600)


async def parent(ctx):
    await ctx["redis"].enqueue_job("resize", 7)


async def startup(ctx):
    ctx["ready"] = True


async def tick(ctx):
    assert ctx["ready"]


class WorkerSettings:
    functions = (
        resize,
        "arq_jobs.again",
        arq.func(broken, name="cut"),
        slow,
        arq.func(late, timeout=0.5),
        parent,
    )
    cron_jobs = (arq.cron(tick, month=1, day=1, hour=3, minute=0, run_at_startup=True),)
    on_startup = startup
    redis_settings = RedisSettings.from_dsn(os.environ["REDIS"])
    allow_abort_jobs = True
    poll_delay = 0.05
    job_timeout = 120
    job_completion_wait = int(os.environ.get("COMPLETION_WAIT", "0"))


class Plain:
    """A worker without us."""

    functions = (resize,)
    redis_settings = WorkerSettings.redis_settings
    poll_delay = 0.05


url = os.environ.get("DATABASE_URL")
presence = {"heartbeat": url, "interval": 1.0, "deadline": 0.9} if url else {}
adapter.install(WorkerSettings, group="heavy", **presence)
