"""What the tests of workers share: jobs in the queue, workers in processes of their own, a reaper that never rests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from telemetry.worker import Reaper
from tests.backends.process import eventually

ROOT = Path(__file__).parents[2]
ZOMBIE = 8.0
"""Seconds after which the tests' reaper takes a job for dead: several pings of a second each, on a busy machine."""


def rows(url: str, query: str, values: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The rows that ``query`` returns."""
    with psycopg.connect(url, row_factory=dict_row, connect_timeout=20, autocommit=True) as connection:
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def enqueue(url: str, tag: str, count: int = 1, carrier: Mapping[str, str] | None = None) -> list[uuid.UUID]:
    """New jobs that are due."""
    query = (
        "INSERT INTO job_queue (tag, carrier) SELECT %(tag)s, %(carrier)s FROM generate_series(1, %(count)s) "
        "RETURNING job_id"
    )
    values = {"tag": tag, "carrier": None if carrier is None else Jsonb(dict(carrier)), "count": count}
    return [row["job_id"] for row in rows(url, query, values)]


def job(url: str, job_id: uuid.UUID) -> dict[str, Any]:
    """Its row in the queue with its ping, or in the completed ones."""
    query = (
        "SELECT q.running, q.worker, q.restarts, q.started_at, q.carrier, r.ping, NULL AS status, "
        "extract(epoch FROM now() - q.started_at)::float8 AS runs_for "
        "FROM job_queue q LEFT JOIN job_runtime r USING (job_id) WHERE job_id = %(id)s "
        "UNION ALL SELECT false, worker, NULL, started_at, NULL, NULL, status, NULL FROM job_completed "
        "WHERE job_id = %(id)s"
    )
    (found,) = rows(url, query, {"id": job_id})
    return found


def stays_ours(url: str, job_id: uuid.UUID, since: datetime) -> bool:
    """Whether a job was pinged again since, and runs for longer than a reaper would let it without."""
    now = job(url, job_id)
    assert now["running"], now
    return bool(now["runs_for"] > 2 * ZOMBIE and now["ping"] > since)


class Program:
    """A worker in a process of its own."""

    def __init__(self, kind: str, url: str, folder: Path, grace: float, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self._log = folder / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    str(Path(__file__).with_name("worker_program.py")),
                    kind,
                    url,
                    str(folder),
                    str(grace),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "FLEETGLASS_METRICS_LISTEN": "off", **environ},
            )

    @property
    def said(self) -> str:
        """What it wrote so far."""
        return self._log.read_text("utf-8", "replace")

    def runs(self, job_id: uuid.UUID) -> bool:
        """Whether its work on ``job_id`` has begun, within a minute."""
        return eventually((self.folder / f"ran-{job_id}").exists, timeout=60)

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def code(self) -> int:
        """How it ended; waits a minute for that."""
        return self.process.wait(60)


@contextmanager
def worker(
    kind: str, url: str, folder: Path, *, grace: float = 60.0, environ: Mapping[str, str] | None = None
) -> Iterator[Program]:
    """A worker of ``kind`` (threads, tasks, hand) until the block is left; killed then, if it is still there."""
    folder.mkdir(exist_ok=True)
    program = Program(kind, url, folder, grace, environ or {})
    try:
        yield program
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.process.pid, signal.SIGKILL)
        program.process.wait(60)


@contextmanager
def reaping(url: str, reapers: int = 2) -> Iterator[Counter[uuid.UUID]]:
    """Reapers side by side, as impatient as can be, until the block is left; how often each job was requeued."""
    requeued: Counter[uuid.UUID] = Counter()
    stop, lock, failed = threading.Event(), threading.Lock(), []

    def reap() -> None:
        reaper = Reaper(zombie_timeout=ZOMBIE, interval=5.0)
        while not stop.wait(0.2):
            try:
                with psycopg.connect(url, autocommit=True, connect_timeout=20) as connection:
                    while not stop.wait(0.2):
                        found = reaper.reap(connection)
                        with lock:
                            requeued.update(each for each, _ in found.requeued)
            except psycopg.OperationalError:
                continue
            except Exception as error:
                failed.append(error)
                return

    threads = [threading.Thread(target=reap) for _ in range(reapers)]
    for thread in threads:
        thread.start()
    try:
        yield requeued
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not failed
