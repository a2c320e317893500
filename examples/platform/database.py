"""The platform's database: its schema, and a job into the queue."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from examples.platform.postgres import Postgres, PostgresError
from examples.platform.times import PROFILE
from telemetry.fleet import schema
from telemetry.worker import enqueue_span

HERE = Path(__file__).parent
# Due when it is put there, not when the transaction began: the wait is told from this.
QUEUE = "INSERT INTO job_queue (job_id, tag, carrier, scheduled_for) VALUES (%s, %s, %s, clock_timestamp())"


def prepare(server: Postgres) -> str:
    """Make all tables in a database of its own; its address. Raises PostgresError.

    First windforce's tables, then the platform's, then what ``fleetglass schema print`` asks to be added.
    """
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE platform")
    url = server.url_of("platform")
    files = [HERE / "windforce.sql", HERE / "platform.sql"]
    script = "\n".join([*(file.read_text("utf-8") for file in files), schema.script(PROFILE)])
    command = [server.program("psql"), url, "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise PostgresError(f"the schema was refused: {done.stderr.strip()}")
    return url


def enqueue(connection: psycopg.Connection[Any], tag: str, given: Mapping[str, object], count: int = 1) -> list[str]:
    """Put jobs under ``tag`` into the queue, each with the carrier of its trace; their ids."""
    jobs = [uuid.uuid4() for _ in range(count)]
    with connection.transaction():
        for job in jobs:
            with enqueue_span(tag, job_id=str(job)) as carrier:
                connection.execute("INSERT INTO job_input (job_id, input) VALUES (%s, %s)", (job, Jsonb(dict(given))))
                connection.execute(QUEUE, (job, tag, Jsonb(carrier)))
    return [str(job) for job in jobs]


def given_to(connection: psycopg.Connection[Any], job: object) -> dict[str, Any]:
    """What a job was given."""
    row = connection.execute("SELECT input FROM job_input WHERE job_id = %s", (job,)).fetchone()
    return dict(row[0]) if row else {}
