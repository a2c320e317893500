"""What docs/jobs.md shows runs as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.backends.process import eventually
from tests.postgres.working import ROOT, enqueue, rows

pytestmark = pytest.mark.timeout(180)
BLOCKS = re.findall(r"```python fragment\n(.*?)```", (ROOT / "docs" / "jobs.md").read_text("utf-8"), re.DOTALL)

# What the page leaves to the reader of its loop: a claim, a completion, work.
READERS = """
import contextlib, os, types
import psycopg
import telemetry
from telemetry.worker import Drain, Heartbeat, JobCancelled, job_span
telemetry.setup("executor", role="worker")
url, TAGS = os.environ["DATABASE_URL"], ("gpu",)
connection = psycopg.connect(url, autocommit=True)

def claim(worker):
    row = connection.execute(
        "WITH next AS (SELECT job_id FROM job_queue WHERE NOT running LIMIT 1 FOR UPDATE SKIP LOCKED) "
        "UPDATE job_queue q SET running = true, started_at = now(), worker = %s FROM next "
        "WHERE q.job_id = next.job_id RETURNING q.job_id, q.tag, q.started_at, q.carrier, 0.5::float8", (worker,)
    ).fetchone()
    names = ("job_id", "tag", "started_at", "carrier", "waited")
    return row and types.SimpleNamespace(**dict(zip(names, row)))

def work(row):
    pass

def complete(row, worker):
    return connection.execute(
        "WITH done AS (DELETE FROM job_queue WHERE job_id = %s AND worker = %s AND started_at = %s RETURNING *) "
        "INSERT INTO job_completed SELECT job_id, tag, 'success', scheduled_for, started_at, now(), worker FROM done "
        "RETURNING job_id", (row.job_id, worker, row.started_at)
    ).fetchone()

"""


def runs(code: str, queue: str, folder: Path) -> None:
    """The program completes three jobs, and ends by SIGTERM without a row left behind."""
    (folder / "worker.py").write_text(code, "utf-8")
    enqueue(queue, "gpu", 3)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "DATABASE_URL": queue, "FLEETGLASS_METRICS_LISTEN": "off"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, "worker.py"], cwd=folder, stdout=log, stderr=log, env=environ)
    try:
        done = "SELECT * FROM job_completed WHERE status = 'success'"
        assert eventually(lambda: len(rows(queue, done)) == 3, timeout=60), (folder / "log").read_text()
        process.terminate()
        assert process.wait(60) == 0, (folder / "log").read_text()
    finally:
        process.kill()
        process.wait()
    assert rows(queue, "SELECT * FROM worker_ping") == []


def test_a_worker_on_windforces_tables_has_fifteen_lines_at_most(queue, tmp_path):
    (code,) = [block for block in BLOCKS if "JobLoop(" in block]
    assert len(code.splitlines()) <= 15
    runs(code, queue, tmp_path)


def test_a_loop_of_ones_own_runs_as_the_page_has_it(queue, tmp_path):
    (code,) = [block for block in BLOCKS if "with Drain(" in block]
    runs(READERS + code, queue, tmp_path)
