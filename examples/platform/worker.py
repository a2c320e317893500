"""A worker: it claims jobs of its group's tags, one at a time, and says every second that it is alive.

``python -m examples.platform.worker``, with DATABASE_URL, WORKER_GROUP, WORKER_TAGS and WORKER_GRACE.
"""

from __future__ import annotations

import logging
import os
import signal
import time

import psycopg

import telemetry
from examples.platform.database import given_to
from examples.platform.lifeline import end_with_parent
from examples.platform.times import HEARTBEAT
from telemetry.worker import Job, JobLoop

log = logging.getLogger("worker")
URL = os.environ["DATABASE_URL"]


class MailboxFull(Exception):
    """A job can fail for reasons of its own."""


def work(job: Job) -> None:
    """One job. Each line that is logged here has its job_id, tag, group and trace_id."""
    with psycopg.connect(URL) as connection:
        given = given_to(connection, job.id)
    seconds = float(given.get("seconds", 0.5))
    log.info("%s begins%s", job.tag, ", once more" if job.run.redelivered else "")
    if given.get("does") == "poison":
        poisoned()
    with telemetry.span(f"{job.tag} at work", seconds=seconds):
        busy(seconds)
    if given.get("does") == "fail":
        raise MailboxFull("the mailbox is full")
    log.info("%s done", job.tag)


def busy(seconds: float) -> None:
    """Stand in for work of that length. In steps: a drain past its grace can stop a job between two of them only."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))


def poisoned() -> None:
    """Die as a process does that runs out of memory: at once, and with everything it runs."""
    log.error("this job takes its worker with it")
    running.flush(timeout=2.0)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with_parent()
    running = telemetry.setup("platform-worker", role="worker")
    JobLoop(
        URL,
        group=os.environ["WORKER_GROUP"],
        tags=tuple(os.environ["WORKER_TAGS"].split(",")),
        grace=float(os.environ["WORKER_GRACE"]),
        poll=0.5,
        node=os.environ.get("NODE_NAME"),
        version=os.environ.get("FLEETGLASS_SERVICE_VERSION", ""),
        interval=HEARTBEAT,
        deadline=0.9 * HEARTBEAT,
    ).run(work)
