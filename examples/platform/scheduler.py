"""The scheduler: puts what is due into the queue, and gives back what dead workers had.

``python -m examples.platform.scheduler``, with DATABASE_URL. Several may run: a row of the schedule is taken by one.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from typing import Any

import psycopg

import telemetry
from examples.platform.database import enqueue
from examples.platform.lifeline import end_with_parent
from examples.platform.times import ZOMBIE
from telemetry.worker import Reaper

log = logging.getLogger("scheduler")
TICK = 0.5

# What was missed while nobody looked is not made up for.
DUE = """
UPDATE schedule s SET due_at = now() + make_interval(secs => s.every_s)
WHERE name IN (SELECT name FROM schedule WHERE due_at <= now() FOR UPDATE SKIP LOCKED)
RETURNING name, tag, input
"""


def put_due(connection: psycopg.Connection[Any]) -> None:
    """Enqueue what is due now: all of it, or nothing."""
    with connection.transaction():
        for name, tag, given in connection.execute(DUE).fetchall():
            with telemetry.span(f"schedule {name}"):
                enqueue(connection, tag, given)


def give_back(connection: psycopg.Connection[Any], reaper: Reaper) -> None:
    """Requeue jobs whose worker died."""
    reaped = reaper.reap(connection)
    for job, tag in reaped.requeued:
        log.warning("%s goes back to the queue: its worker fell silent", tag, extra={"job_id": str(job), "tag": tag})
    for job, tag in reaped.given_up:
        log.error("%s is given up: it took too many workers", tag, extra={"job_id": str(job), "tag": tag})


def run(url: str, stop: threading.Event) -> None:
    """Until told to stop; a database that is away is waited for."""
    reaper = Reaper(zombie_timeout=ZOMBIE, interval=5.0)
    while not stop.wait(TICK):
        try:
            with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
                while not stop.wait(TICK):
                    put_due(connection)
                    give_back(connection, reaper)
        except psycopg.OperationalError as error:
            log.warning("the database is away, trying again: %s", str(error).strip())


if __name__ == "__main__":
    end_with_parent()
    telemetry.setup("platform-scheduler", role="worker")
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    run(os.environ["DATABASE_URL"], stopping)
