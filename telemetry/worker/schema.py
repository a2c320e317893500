"""What a platform adds to its database so that workers can be seen: printed for it to apply, never applied by us."""

from __future__ import annotations

from typing import Final

from telemetry.worker.tables import Tables

_WORKER_PING: Final = """\
-- One row for each worker process; a worker that ends well deletes its own.
CREATE TABLE IF NOT EXISTS {ping} (
    worker         text PRIMARY KEY,
    worker_group   text NOT NULL,
    tags           text[] NOT NULL DEFAULT '{{}}',
    node_name      text,
    version        text NOT NULL DEFAULT '',
    status         text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'draining')),
    current_job    text,
    running_jobs   integer NOT NULL DEFAULT 0,
    jobs_executed  bigint NOT NULL DEFAULT 0,
    started_at     timestamptz NOT NULL DEFAULT now(),
    ping_at        timestamptz NOT NULL DEFAULT now(),
    draining_since timestamptz
);
-- Every ping rewrites its row; room in the page keeps that out of the index (heap-only tuples).
ALTER TABLE {ping} SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
"""

_CARRIER: Final = """\
-- The trace that a job belongs to, and the run before; see docs/jobs.md.
ALTER TABLE {queue} ADD COLUMN IF NOT EXISTS {carrier} jsonb;
"""


def worker_ping(tables: Tables | None = None) -> str:
    """The DDL of the table of pings."""
    tables = tables or Tables()
    return _WORKER_PING.format(ping=tables.quoted(tables.worker_ping))


def carrier_column(tables: Tables | None = None) -> str:
    """The DDL of the column that carries traces across the queue."""
    tables = tables or Tables()
    return _CARRIER.format(queue=tables.quoted(tables.job_queue), carrier=tables.quoted(tables.carrier))
