"""Enqueue jobs of arq, one trace for all; told by REDIS: ``arq_enqueue.py HOW [FUNCTION [ARGUMENT …]] …``.

HOW is ``traced``, ``plain`` (a pool without us), ``strict`` (a serializer that takes arq's own keys only) or ``abort``
(each FUNCTION is the id of a job). Prints the ids, a line each. Jobs are separated by ``,``.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys

from arq import create_pool
from arq.connections import RedisSettings
from arq.jobs import Job

import telemetry
from telemetry.worker import arq as adapter


def strict(job: dict) -> bytes:
    """As one that has a schema."""
    assert set(job) == {"t", "f", "a", "k", "et"}
    return pickle.dumps(job)


async def main(how: str, jobs: list[list[str]]) -> None:
    serializer = strict if how == "strict" else None
    pool = await create_pool(RedisSettings.from_dsn(os.environ["REDIS"]), job_serializer=serializer)
    if how != "plain":
        adapter.install_pool(adapter.install_pool(pool))
    try:
        with telemetry.span("request"):
            for function, *arguments in jobs:
                if how == "abort":
                    await Job(function, pool).abort(timeout=60, poll_delay=0.05)
                    continue
                job = await pool.enqueue_job(function, *map(int, arguments))
                print(job.job_id)
                again = await pool.enqueue_job(function, *map(int, arguments), _job_id=job.job_id)
                assert again is None, "there is one under this id"
    finally:
        await pool.aclose()


how, *words = sys.argv[1:]
with telemetry.setup("shop", role="server"):
    asyncio.run(main(how, [job.split() for job in " ".join(words).split(",")]))
