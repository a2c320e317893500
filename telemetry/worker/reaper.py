"""A reaper to copy or to run: jobs of workers that died go back to the queue, each exactly once.

Any number may run side by side. Two things make that right, and are easily missed:

- The ping lies in a table of its own. A reaper that locks only the queue's row waits for the other one, looks at the
  queue again, and takes the job away from its new owner by the *old* ping. So both rows are locked, and both looked at
  again (``FOR UPDATE OF q, r``), and rows that another reaper has are skipped.
- After an outage every ping is old. Until the zombie timeout has passed in uninterrupted reads, nothing is reaped.
"""

from __future__ import annotations

import time
from typing import Any, Final

import msgspec
import psycopg

from telemetry.metrics import registry
from telemetry.worker.patience import Patience
from telemetry.worker.tables import Tables

ZOMBIE_TIMEOUT: Final = 90.0
"""Seconds without a ping after which a running job is taken for dead; windforce's is 60 to 90."""
RESTART_LIMIT: Final = 3
BATCH: Final = 100

# A job without a row of pings is dead by the time of its claim; an outer join can't lock its inner side, hence two.
_DEAD: Final = """
WITH pinged AS (
    SELECT q.job_id FROM {queue} q JOIN {runtime} r USING (job_id)
    WHERE q.running AND (r.ping IS NULL OR r.ping < now() - make_interval(secs => %(timeout)s))
    ORDER BY q.started_at LIMIT %(batch)s FOR UPDATE OF q, r SKIP LOCKED
), silent AS (
    SELECT q.job_id FROM {queue} q
    WHERE q.running AND q.started_at < now() - make_interval(secs => %(timeout)s)
        AND NOT EXISTS (SELECT FROM {runtime} r WHERE r.job_id = q.job_id)
    ORDER BY q.started_at LIMIT %(batch)s FOR UPDATE OF q SKIP LOCKED
), dead AS (SELECT job_id FROM pinged UNION ALL SELECT job_id FROM silent)
"""

_REQUEUE: Final = """
{dead}
UPDATE {queue} q SET running = false, started_at = NULL, worker = NULL, restarts = q.restarts + 1
FROM dead WHERE q.job_id = dead.job_id AND q.restarts < %(limit)s
RETURNING q.job_id, q.tag
"""

_GIVE_UP: Final = """
{dead}, gone AS (
    DELETE FROM {queue} q USING dead WHERE q.job_id = dead.job_id AND q.restarts >= %(limit)s
    RETURNING q.job_id, q.tag, q.scheduled_for, q.started_at, q.worker
)
INSERT INTO {completed} (job_id, tag, status, scheduled_for, started_at, worker)
SELECT job_id, tag, 'lost', scheduled_for, coalesce(started_at, now()), worker FROM gone
RETURNING job_id, tag
"""


class Reaped(msgspec.Struct, frozen=True):
    """Ids and tags of the jobs that went back to the queue, and of those that had died too often."""

    requeued: tuple[tuple[Any, str], ...] = ()
    given_up: tuple[tuple[Any, str], ...] = ()


class Reaper:
    """``reap()`` every few seconds, on a connection in autocommit mode; times in seconds."""

    def __init__(
        self,
        *,
        zombie_timeout: float = ZOMBIE_TIMEOUT,
        restart_limit: int = RESTART_LIMIT,
        interval: float = 10.0,
        tables: Tables | None = None,
    ) -> None:
        tables = tables or Tables()
        names = {
            "queue": tables.quoted(tables.job_queue),
            "runtime": tables.quoted(tables.job_runtime),
            "completed": tables.quoted(tables.job_completed),
        }
        names["dead"] = _DEAD.format(**names).strip()
        self._requeue, self._give_up = _REQUEUE.format(**names), _GIVE_UP.format(**names)
        self._values = {"timeout": zombie_timeout, "limit": restart_limit, "batch": BATCH}
        self._patience = Patience(after=zombie_timeout, gap=2 * interval)

    def reap(self, connection: psycopg.Connection[Any]) -> Reaped:
        """Take away what is dead, once silence may be believed. Raises psycopg.Error, and waits again after it."""
        try:
            (epoch,) = connection.execute("SELECT pg_postmaster_start_time()").fetchone() or (None,)
            self._patience = self._patience.read(time.monotonic(), epoch)
            if not self._patience.settled(time.monotonic()):
                return Reaped()
            with connection.transaction():
                given_up = connection.execute(self._give_up, self._values).fetchall()
                requeued = connection.execute(self._requeue, self._values).fetchall()
        except psycopg.Error:
            self._patience = self._patience.failed()
            raise
        for name, jobs in (("fleet_queue_requeues_total", requeued), ("fleet_queue_given_up_total", given_up)):
            for _, tag in jobs:
                registry.counter(name).child(tag).inc()
        return Reaped(tuple(requeued), tuple(given_up))
