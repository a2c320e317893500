"""A Celery application whose worker runs in a process of its own, with a pool of processes.

Told by BROKER, and by DATABASE_URL where it has a heartbeat.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from celery import Celery
from celery.exceptions import Ignore

import telemetry
from telemetry.worker import celery

log = logging.getLogger("shop")
telemetry.setup("shop-worker", role="worker", version="7")
app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(broker_connection_retry_on_startup=True, worker_send_task_events=False, task_ignore_result=True)
url = os.environ.get("DATABASE_URL")
presence = {"heartbeat": url, "interval": 1.0, "deadline": 0.9} if url else {}
celery.install(group="heavy", **presence)


@app.task(name="resize")
def resize(width: int) -> None:
    log.info("resizing %d", width)


@app.task(name="broken")
def broken() -> None:
    raise ValueError("no such image")


@app.task(name="again", bind=True, max_retries=1, default_retry_delay=0)
def again(self) -> None:
    if not self.request.retries:
        raise self.retry(exc=ValueError("not yet"))
    log.info("got it")


@app.task(name="ignored")
def ignored() -> None:
    raise Ignore


@app.task(name="slow")
def slow() -> None:
    while not Path("go").exists():
        time.sleep(0.02)
