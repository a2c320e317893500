"""A platform of the size that is promised, in a real PostgreSQL with its data on disk: windforce's tables, filled.

Jobs arrived and ended at ``rate`` for as long as the history goes back. The queue is what a queue is: rows in the order
in which they came, the oldest longest due. Nothing is unlogged, and autovacuum is off: ``vacuum`` is when it ran last.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg

from examples.platform.postgres import Postgres
from telemetry.fleet import profiles, schema
from tests.backends.postgres import prepare

SETTINGS: Final = {
    "shared_buffers": "4GB",
    "effective_cache_size": "12GB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "fsync": "on",
    "full_page_writes": "on",
    # No claim waits for the disk, so that the processor is what claims and the exporter compete for.
    "synchronous_commit": "off",
    "autovacuum": "off",
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track_planning": "on",
    "compute_query_id": "on",
    "max_connections": "100",
}
"""What the server is told beside ``examples.platform.postgres.SETTINGS``; all else is PostgreSQL's default."""

CLAIM_INDEX: Final = (
    "CREATE INDEX job_queue_claim ON job_queue (priority DESC, scheduled_for) INCLUDE (tag) WHERE running = false"
)
"""The platform's own index for its claims: without one, each claim would sort the backlog."""

WINDOW: Final = 720.0
"""Seconds of history before now that must be there: what the exporter looks back, and some."""
CARRIER: Final = '{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}'
OBSERVER: Final = "fleetglass"
"""The exporter's role: by it the server tells the exporter's statements from all others."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much there is of everything. ``rate`` is claims a second while the history was made."""

    history: int = 10_000_000
    pending: int = 200_000
    running: int = 4_000
    workers: int = 1_000
    tags: int = 10
    groups: int = 5
    apps: int = 200
    rate: float = 50.0

    def tags_of(self, group: int) -> list[str]:
        """The tags that the workers of a group serve."""
        return [f"tag-{tag}" for tag in range(self.tags) if tag % self.groups == group]

    def group_of(self, worker: int) -> int:
        """Whose worker it is."""
        return worker % self.groups


class Size(msgspec.Struct, frozen=True):
    """What the server holds: rows, and bytes of a table and of all its indexes."""

    table: str
    rows: int
    bytes: int
    indexes: int


class Estate:
    """The filled database."""

    def __init__(self, server: Postgres, scale: Scale, database: str = "postgres") -> None:
        self.server, self.scale = server, scale
        self.url = server.url_of(database)
        self.observer_url = server.url_of(database, OBSERVER)

    def run(self, *statements: str, values: Any = None) -> list[tuple[Any, ...]]:
        """Statements, each by itself; the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        with psycopg.connect(self.url, autocommit=True) as connection:
            for text in statements:
                cursor = connection.execute(text.encode(), values)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def one(self, text: str, values: Any = None) -> Any:
        """The only value."""
        return self.run(text, values=values)[0][0]

    @property
    def loaded(self) -> bool:
        return bool(self.one("SELECT to_regclass('public.bench_loaded') IS NOT NULL"))

    def load(self) -> float:
        """Fill it; seconds that it took."""
        began = time.monotonic()
        with psycopg.connect(self.url, autocommit=True) as connection:
            prepare(connection)
        scale = self.scale.__struct_fields__
        values = {name: getattr(self.scale, name) for name in scale} | {"carrier": CARRIER}
        self.run("CREATE EXTENSION pg_stat_statements", "ALTER TABLE job_completed DROP CONSTRAINT job_completed_pkey")
        self.run(_HISTORY, values=values | {"first": 1, "last": self.scale.history, "until": 0})
        self.run("ALTER TABLE job_completed ADD PRIMARY KEY (job_id)")
        for text in (_PENDING, _RUNNING, _RUNTIME, _APPS, _ACTIONS):
            self.run(text, values=values)
        self.run(CLAIM_INDEX)
        with psycopg.connect(self.url, autocommit=True) as connection:
            for group in range(self.scale.groups):
                connection.execute(
                    "INSERT INTO worker_group (name, tags, desired_replicas) VALUES (%s, %s, %s)",
                    (f"group-{group}", self.scale.tags_of(group), self.scale.workers // self.scale.groups),
                )
        script = schema.script(profiles.WINDFORCE)
        subprocess.run(
            [self.server.program("psql"), self.url, "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=script, text=True, check=True, capture_output=True,
        )  # fmt: skip
        self.run(
            f"CREATE ROLE {OBSERVER} LOGIN",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {OBSERVER}",
            f"GRANT USAGE ON SCHEMA telemetry TO {OBSERVER}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON telemetry.exporter_lease TO {OBSERVER}",
            f"GRANT pg_read_all_stats TO {OBSERVER}",
            "VACUUM (ANALYZE)",
            "CHECKPOINT",
            "CREATE TABLE bench_loaded AS SELECT now() AS at",
        )
        return time.monotonic() - began

    def settle(self, rate: float) -> None:
        """Make the last minutes of history what ``rate`` claims a second would have left, and vacuum.

        Run before a stage, with nobody claiming: what an earlier one completed is taken away.
        """
        values = {name: getattr(self.scale, name) for name in self.scale.__struct_fields__} | {"rate": rate}
        self.run("DELETE FROM job_completed WHERE started_at > now() - make_interval(secs => 900)")
        count = min(int(rate * WINDOW), self.scale.history)
        self.run(_HISTORY, values=values | {"first": 1, "last": count, "until": 0})
        self.vacuum(analyze=True)

    def scatter(self) -> None:
        """Put the jobs that wait into the table in no order: as many as there are pages may then have to be looked at.

        Run with nobody claiming.
        """
        columns = "tag, priority, priority_band, scheduled_for, restarts, carrier"
        self.run(
            "CREATE TABLE bench_waiting AS SELECT * FROM job_queue WHERE NOT running ORDER BY random()",
            "DELETE FROM job_queue WHERE NOT running",
            "VACUUM job_queue",
            f"INSERT INTO job_queue ({columns}) SELECT {columns} FROM bench_waiting",
            "DROP TABLE bench_waiting",
        )

    def vacuum(self, *, analyze: bool = False) -> None:
        """What autovacuum would do, now; and a checkpoint, so that none falls into what is measured."""
        how = "VACUUM (ANALYZE)" if analyze else "VACUUM"
        tables = ("job_queue", "job_runtime", "job_completed", "worker_ping")
        self.run(*(f"{how} {table}" for table in tables), "CHECKPOINT")

    def sizes(self) -> list[Size]:
        """Tables and how large they are."""
        rows = self.run(
            "SELECT relname, greatest(0, reltuples)::bigint, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
            "WHERE relname IN ('job_queue', 'job_runtime', 'job_completed', 'worker_ping') ORDER BY relname"
        )
        return [Size(*row) for row in rows]

    def dead(self) -> int:
        """Dead rows of the queue's table, as the server's own statistics have it."""
        return int(self.one("SELECT pg_stat_get_dead_tuples('job_queue'::regclass)"))


@contextmanager
def running(folder: Path, scale: Scale, settings: dict[str, str] | None = None) -> Iterator[Estate]:
    """The server with its data below ``folder``, stopped when the block is left; the data stays."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    server = Postgres.start(folder, {**SETTINGS, **(settings or {})})
    try:
        yield Estate(server, scale)
    finally:
        server.down("fast")


# A job runs as long as Little's law says: so many run at once, so many start a second. It waited for as long as the
# backlog takes to be worked off. The newest has just ended; one in a hundred failed.
_HISTORY: Final = """
INSERT INTO job_completed (job_id, tag, status, scheduled_for, started_at, completed_at, worker)
SELECT gen_random_uuid(), 'tag-' || n %% %(tags)s, CASE WHEN n %% 100 = 0 THEN 'failure' ELSE 'success' END,
    ended - make_interval(secs => (%(running)s + %(pending)s + n %% 97) / %(rate)s::float8),
    ended - make_interval(secs => %(running)s / %(rate)s::float8), ended, 'worker-' || n %% %(workers)s
FROM generate_series(%(first)s::int, %(last)s::int) n,
    LATERAL (SELECT now() - make_interval(secs => %(until)s + (%(last)s::int - n) / %(rate)s::float8) AS ended) t
"""
_PENDING: Final = """
INSERT INTO job_queue (tag, scheduled_for, carrier)
SELECT 'tag-' || n %% %(tags)s, now() - make_interval(secs => (%(pending)s - n) / %(rate)s::float8), %(carrier)s::jsonb
FROM generate_series(1, %(pending)s) n
"""
_RUNNING: Final = """
INSERT INTO job_queue (tag, scheduled_for, running, started_at, worker, carrier)
SELECT 'tag-' || n %% %(tags)s, at - make_interval(secs => %(pending)s / %(rate)s::float8), true, at,
    'worker-' || n %% %(workers)s, %(carrier)s::jsonb
FROM generate_series(0, %(running)s - 1) n,
    LATERAL (SELECT now() - make_interval(secs => (%(running)s - n) / %(rate)s::float8) AS at) t
"""
_APPS: Final = """
INSERT INTO app (workspace_id, app_key, tag)
SELECT 'workspace-' || n %% 7, 'app-' || n, 'tag-' || n %% %(tags)s FROM generate_series(1, %(apps)s) n
"""
_ACTIONS: Final = """
INSERT INTO action (workspace_id, app_key, action_key)
SELECT workspace_id, app_key, 'action-' || n FROM app, generate_series(1, 5) n
"""
_RUNTIME: Final = "INSERT INTO job_runtime (job_id, ping) SELECT job_id, now() FROM job_queue WHERE running"
