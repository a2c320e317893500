"""A Celery application whose worker runs in a process of its own, with a pool of processes; told by BROKER."""

from __future__ import annotations

import logging
import os

from celery import Celery
from celery.exceptions import Ignore

import telemetry
from telemetry.worker import celery

log = logging.getLogger("shop")
telemetry.setup("shop-worker", role="worker")
app = Celery("shop", broker=os.environ["BROKER"])
app.conf.update(broker_connection_retry_on_startup=True, worker_send_task_events=False, task_ignore_result=True)
celery.install(group="heavy")


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
