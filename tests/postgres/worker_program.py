"""A worker in a process of its own, for the tests that kill and drain it: ``worker_program.py KIND URL FOLDER GRACE``.

What a job does is in its tag: ``quick`` ends at once, ``brief`` in a moment, ``slow`` when FOLDER has a file ``go``,
``stuck`` blocks where no exception reaches it. Each run leaves a file named for its job.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

import psycopg

import telemetry
from telemetry.worker import AsyncJobLoop, Drain, Heartbeat, Job, JobCancelled, JobLoop, job_span

kind, url, place, grace = sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])
TAGS = ("quick", "brief", "slow", "stuck")
log = logging.getLogger("program")


def began(job_id: object, tag: str) -> None:
    (place / f"ran-{job_id}").touch()
    log.info("running %s", tag)


def work(job: Job) -> None:
    began(job.id, job.tag)
    if job.tag == "brief":
        time.sleep(0.1)
    if job.tag == "stuck":
        time.sleep(600)
    while job.tag == "slow" and not (place / "go").exists():
        time.sleep(0.02)


async def await_it(job: Job) -> None:
    began(job.id, job.tag)
    if job.tag == "brief":
        await asyncio.sleep(0.1)
    if job.tag == "stuck":
        time.sleep(600)  # noqa: ASYNC251 - the mistake that the heartbeat's own thread is for
    while job.tag == "slow" and not (place / "go").exists():  # noqa: ASYNC110 - another process makes the file
        await asyncio.sleep(0.02)


CLAIM = """
WITH next AS (
    SELECT job_id FROM job_queue
    WHERE running = false AND canceled_by IS NULL AND scheduled_for <= now() AND tag = ANY(%s)
    LIMIT 1 FOR UPDATE SKIP LOCKED
), mine AS (
    UPDATE job_queue q SET running = true, started_at = now(), worker = %s FROM next WHERE q.job_id = next.job_id
    RETURNING q.job_id, q.tag, q.started_at, q.carrier
), pinged AS (
    INSERT INTO job_runtime SELECT job_id, now() FROM mine ON CONFLICT (job_id) DO UPDATE SET ping = now()
)
SELECT * FROM mine
"""


def by_hand() -> None:
    """A loop of one's own, its jobs in the main thread."""
    with (
        psycopg.connect(url, autocommit=True) as connection,
        Drain(grace=grace) as drain,
        Heartbeat(url, group="g", tags=TAGS, roster=drain.roster, interval=1.0, deadline=0.9) as heartbeat,
    ):
        while drain.claiming:
            row = connection.execute(CLAIM, (list(TAGS), heartbeat.worker)).fetchone()
            if row is None:
                drain.wait(0.1)
                continue
            job_id, tag, started_at, carrier = row
            try:
                with drain.job(job_id, started_at) as job, job_span(carrier, job_id=str(job_id), tag=tag, group="g"):
                    with job.cancellable():
                        began(job_id, tag)
                        if tag == "brief":
                            time.sleep(0.1)
                        while tag not in {"quick", "brief"} and not (place / "go").exists():
                            time.sleep(600 if tag == "stuck" else 0.02)
                    connection.execute(
                        "WITH done AS (DELETE FROM job_queue WHERE job_id = %s AND worker = %s AND started_at = %s "
                        "RETURNING *) INSERT INTO job_completed SELECT job_id, tag, 'success', scheduled_for, "
                        "started_at, now(), worker FROM done",
                        (job_id, heartbeat.worker, started_at),
                    )
            except JobCancelled:
                continue


telemetry.setup("executor", role="worker")
options = {"group": "g", "tags": TAGS, "grace": grace, "poll": 0.1, "interval": 1.0, "deadline": 0.9}
if kind == "threads":
    JobLoop(url, concurrency=2, **options).run(work)
elif kind == "tasks":
    asyncio.run(AsyncJobLoop(url, concurrency=2, **options).run(await_it))
else:
    by_hand()
