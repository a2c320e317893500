"""Two platforms with queue, workers, reaper and observers of ours, as dashboards see them: one in trouble, one at rest.

All is real: a PostgreSQL, observers that read it and workers that claim from it in processes of their own, scraped by
VictoriaMetrics. What a platform itself writes, jobs and the registry of groups, is written here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from examples.platform.postgres import Postgres
from telemetry.catalogue import METRICS
from telemetry.fleet import profiles, schema
from telemetry.grafana.boards import fleet, queue
from telemetry.grafana.records import Dashboard, Query
from tests.backends.postgres import prepare
from tests.backends.process import Server, eventually
from tests.backends.servers import VictoriaMetrics

BOARDS: Final = (queue.DASHBOARD, fleet.DASHBOARD)
NAMES: Final = tuple(name for name in METRICS if name.startswith("fleet_"))
"""What of the catalogue observers, workers and reapers tell."""
PROGRAM: Final = Path(__file__).with_name("apps") / "fleet.py"
ROOT: Final = Path(__file__).parents[2]
VACUUMING: Final = {
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_threshold": "1",
    "autovacuum_vacuum_scale_factor": "0",
    "wal_level": "replica",
}
"""Settings of a server that vacuums at once."""


def tells(board: Dashboard, query: Query) -> bool:
    """Whether these platforms answer ``query``, and no service does."""
    return board in BOARDS or "fleet_" in query.expression


@dataclass(frozen=True)
class Program:
    """A running process, and where it is scraped: its ``instance``."""

    pid: int
    address: str


@dataclass
class Platform:
    """A database with a queue, and what runs around it under names that end in ``-<name>``."""

    name: str
    url: str
    folder: Path
    store: VictoriaMetrics
    environ: Mapping[str, str] = field(default_factory=dict)

    @property
    def jobs(self) -> str:
        """The names of all its programs, as a regular expression."""
        return f"(observer|executor|strays)-{self.name}"

    @contextmanager
    def run(self, kind: str, service: str, *arguments: str, number: int = 1) -> Iterator[Program]:
        """A program of it, scraped under the name ``service``-<name>, until the block is left."""
        job = f"{service}-{self.name}"
        folder = self.folder / f"{job}-{number}"
        folder.mkdir()

        def command(ports: Sequence[int]) -> list[str]:
            return [sys.executable, str(PROGRAM), kind, str(ports[0]), job, self.url, *arguments]

        environ = {**os.environ, "PYTHONPATH": str(ROOT), **self.environ}
        page = "http://127.0.0.1:{}/metrics"
        server, ports = Server.start(job, folder, 1, command, lambda ports: page.format(ports[0]), 90, environ=environ)
        try:
            with self.store.scraping(f"127.0.0.1:{ports[0]}", job):
                yield Program(server.pid, f"127.0.0.1:{ports[0]}")
        finally:
            server.stop()

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """What the database answers, committed at once."""
        with psycopg.connect(self.url, autocommit=True, connect_timeout=30) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    def group(self, name: str, tags: str, replicas: int = 1, *band: int, enabled: bool = True) -> None:
        """Ask for a group of workers."""
        low, high = band or (None, None)
        self.rows(
            "INSERT INTO worker_group (name, tags, desired_replicas, autoscale_min, autoscale_max, enabled) "
            "VALUES (%(name)s, string_to_array(%(tags)s, ','), %(replicas)s, %(low)s, %(high)s, %(enabled)s)",
            name=name,
            tags=tags,
            replicas=replicas,
            low=low,
            high=high,
            enabled=enabled,
        )

    def enqueue(self, tag: str, count: int = 1, ago: float = 0.0, restarts: int = 0) -> list[Any]:
        """Jobs that became due ``ago`` seconds before now; their ids."""
        found = self.rows(
            "INSERT INTO job_queue (tag, scheduled_for, restarts) "
            "SELECT %(tag)s, now() - make_interval(secs => %(ago)s), %(restarts)s FROM generate_series(1, %(count)s) "
            "RETURNING job_id",
            tag=tag,
            count=count,
            ago=ago,
            restarts=restarts,
        )
        return [job_id for (job_id,) in found]

    def holds(self, query: str, timeout: float = 90.0, **values: Any) -> bool:
        """Whether the one value that ``query`` selects becomes true."""
        return bool(eventually(lambda: self.rows(query, **values)[0][0], timeout=timeout, interval=0.2))


def database(server: Postgres, name: str) -> str:
    """The address of a new database with windforce's tables and all that ``fleetglass schema print`` writes."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    url = server.url_of(name)
    with psycopg.connect(url, autocommit=True) as connection:
        prepare(connection)
    command = [server.program("psql"), url, "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"]
    script = schema.script(profiles.WINDFORCE)
    subprocess.run(command, input=script, capture_output=True, text=True, check=True, timeout=60)
    return url


@contextmanager
def at_rest(platform: Platform) -> Iterator[Platform]:
    """A group as it was asked for, whose jobs all succeed, and nothing that waits."""
    platform.group("calm", "quick")
    with (
        platform.run("observer", "observer"),
        platform.run("worker", "executor", "calm", "quick", "1", str(platform.folder)),
    ):
        platform.enqueue("quick", 3)
        assert platform.holds("SELECT count(*) = 3 FROM job_completed")
        yield platform


@contextmanager
def in_trouble(platform: Platform) -> Iterator[Platform]:
    """All that may go wrong with a queue and its workers, at once; two observers without an election look at it.

    The group ``heavy`` works, with two versions. Of its tags *doomed* kills workers: one job was given back, one given
    up, and one runs under a worker that is dead. Nobody serves *gpu* (its group has no workers), *burst* (scaled to
    nothing) and *orphan* (no group has it); *jam* has a worker that claims nothing.
    """
    with ExitStack() as running:
        _ask(platform)
        for number in (1, 2):
            running.enter_context(platform.run("observer", "observer", number=number))
        running.enter_context(platform.run("strays", "strays", str(platform.folder)))
        heavy = ("heavy", "quick,bad,slow", "2", str(platform.folder))
        running.enter_context(platform.run("worker", "executor", *heavy))
        running.enter_context(platform.run("worker", "executor", "heavy", "slow", "1", str(platform.folder), number=2))
        _lose_workers(platform)
        _enqueue(platform)
        yield platform
        (platform.folder / "go").touch()  # so that its workers end well


def _ask(platform: Platform) -> None:
    platform.group("heavy", "quick,bad,slow,shared", 1, 1, 3)
    platform.group("light", "cpu,shared")
    platform.group("disabled", "old", enabled=False)
    platform.group("leaving", "bye")
    platform.group("gpu", "gpu", 2)
    platform.group("burst", "burst", 0, 0, 3)
    platform.group("asleep", "night", 0, 0, 3)
    platform.group("hung", "jam")
    platform.group("broken", "broken", 1, 5, 2)
    platform.rows("INSERT INTO app (workspace_id, app_key, tag) VALUES ('acme', 'reports', 'printed')")
    platform.rows("INSERT INTO action (workspace_id, app_key, action_key) VALUES ('acme', 'reports', 'print')")
    # By a clock of its own, and by a worker that is not ours.
    platform.rows(
        "INSERT INTO worker_ping (worker, worker_group, tags, ping_at) "
        "VALUES ('ahead', 'stray', '{odd}', now() + interval '2 hours')"
    )
    platform.rows(
        "INSERT INTO job_completed (job_id, tag, status, scheduled_for, started_at) "
        "SELECT gen_random_uuid(), 'early', 'success', now() + interval '1 hour', now() + interval '59 minutes'"
    )


def _lose_workers(platform: Platform) -> None:
    reap = platform.folder / "reap"
    reap.touch()
    platform.enqueue("doomed")
    platform.enqueue("doomed", restarts=3)
    _kill_with(platform, "doomed", 2, number=8)
    assert platform.holds("SELECT count(*) = 1 FROM job_queue WHERE tag = 'doomed' AND NOT running AND restarts = 1")
    assert platform.holds("SELECT count(*) = 1 FROM job_completed WHERE status = 'lost'")
    reap.unlink()
    _kill_with(platform, "doomed", 1, number=9)


def _kill_with(platform: Platform, tag: str, count: int, number: int) -> None:
    """Kill a worker once it runs ``count`` jobs."""
    arguments = ("heavy", tag, "2", str(platform.folder))
    with platform.run("worker", "victim", *arguments, number=number) as victim:
        assert platform.holds(
            "SELECT count(*) = %(count)s FROM job_queue WHERE tag = %(tag)s AND running", tag=tag, count=count
        )
        os.kill(victim.pid, signal.SIGKILL)


def _enqueue(platform: Platform) -> None:
    platform.enqueue("quick", 3)
    platform.enqueue("bad")
    # A rate needs two values of a counter, so there is more of the same once the first was scraped.
    told = f'fleet_job_executed_total{{job=~"{platform.jobs}", tag=~"quick|bad"}}'
    assert eventually(lambda: sum(each.value for each in platform.store.query(told)) == 4, timeout=90, interval=0.5)
    platform.enqueue("quick", 3)
    platform.enqueue("bad")
    (taken,) = platform.enqueue("slow")
    running = "SELECT count(*) = 1 FROM job_queue WHERE tag = 'slow' AND running"
    assert platform.holds(running)
    # Somebody takes the job away under the worker: what it would complete is fenced off.
    platform.rows("DELETE FROM job_queue WHERE job_id = %(id)s", id=taken)
    platform.enqueue("slow")
    assert platform.holds(running)
    assert platform.holds("SELECT count(*) = 9 FROM job_completed WHERE tag IN ('quick', 'bad', 'early')")
    platform.enqueue("worn", restarts=3)
    platform.enqueue("gpu", 5)
    platform.enqueue("shared", 4)
    platform.enqueue("burst", 3, ago=300)
    platform.enqueue("jam", ago=1200)
    platform.enqueue("orphan", 1005, ago=60)
