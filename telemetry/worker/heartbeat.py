"""The heartbeat of a worker: its row in ``worker_ping``, and the pings of the jobs that it runs.

It has a connection of its own and a deadline for everything it does there, on this side: a database that hangs keeps
its connections open and says nothing, and a heartbeat that waits for it in silence looks like a dead worker. What
fails is counted, and tried again until it works; the worker itself never waits.

One coroutine does the work; a process without an event loop runs it in a thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import threading
import uuid
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec
import psycopg

from telemetry import faults
from telemetry.metrics import registry
from telemetry.worker.failures import FAILURES, failure
from telemetry.worker.roster import Roster, Running
from telemetry.worker.tables import Tables

INTERVAL: Final = 10.0
"""Seconds between pings, as windforce has it."""

_PING: Final = """
INSERT INTO {ping} AS p (worker, worker_group, tags, node_name, version, status, current_job, running_jobs,
    jobs_executed, started_at, ping_at, draining_since)
VALUES (%(worker)s, %(group)s, %(tags)s, %(node)s, %(version)s, %(status)s, %(current)s, %(running)s, %(executed)s,
    now(), now(), CASE WHEN %(draining)s::float8 IS NULL THEN NULL
        ELSE now() - make_interval(secs => %(draining)s::float8) END)
ON CONFLICT (worker) DO UPDATE SET worker_group = excluded.worker_group, tags = excluded.tags,
    node_name = excluded.node_name, version = excluded.version, status = excluded.status,
    current_job = excluded.current_job, running_jobs = excluded.running_jobs,
    jobs_executed = excluded.jobs_executed, ping_at = now(),
    draining_since = coalesce(p.draining_since, excluded.draining_since)
"""

# Fenced on worker and started_at: the ping of a job that was taken away must not look alive through us. Whether it was
# is for the queue alone to say; a claim that wrote no row of pings has lost nothing by that.
_JOBS: Final = """
WITH mine AS (
    SELECT q.job_id, ran.place
    FROM unnest(%(ids)s::{type}[], %(started)s::timestamptz[]) WITH ORDINALITY AS ran(job_id, started_at, place)
    JOIN {queue} AS q ON q.job_id = ran.job_id AND q.running AND q.worker = %(worker)s AND q.started_at = ran.started_at
), pinged AS (
    UPDATE {runtime} AS r SET ping = now() FROM mine WHERE r.job_id = mine.job_id
)
SELECT place FROM mine
"""

_GONE: Final = "DELETE FROM {ping} WHERE worker = %(worker)s"


class Pinger(msgspec.Struct, frozen=True, kw_only=True):
    """Who pings. ``worker`` must be unique for each process: a restart with the same id hides its predecessor."""

    worker: str
    group: str
    tags: tuple[str, ...] = ()
    node: str | None = None
    version: str = ""


def worker_id(environ: Mapping[str, str] = os.environ) -> str:
    """An id that no other process has had: the pod's or the machine's name, and a nonce for this start."""
    return f"{environ.get('POD_NAME') or environ.get('HOSTNAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"


class AsyncHeartbeat:
    """The heartbeat in an event loop: ``async with AsyncHeartbeat(…) as heartbeat:`` pings until the block is left.

    ``deadline`` counts seconds for one ping, connecting included; it and its retries fit into ``interval`` three
    times over. Leaving the block deletes the row, last of all, so that a worker that ended well is simply not there.
    ``ping_jobs=False`` is for jobs that another library keeps: they are told of in the row, and not pinged.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        group: str,
        tags: tuple[str, ...] = (),
        worker: str | None = None,
        node: str | None = None,
        version: str = "",
        roster: Roster | None = None,
        interval: float = INTERVAL,
        deadline: float = 3.0,
        tables: Tables | None = None,
        ping_jobs: bool = True,
    ) -> None:
        if not 0 < deadline < interval:
            raise ValueError(f"deadline={deadline:g} s must be above 0 and below interval={interval:g} s")
        self.me = Pinger(worker=worker or worker_id(), group=group, tags=tags, node=node, version=version)
        self.roster = roster or Roster()
        self._conninfo = conninfo
        self._interval, self._deadline = interval, deadline
        self._ping_jobs = ping_jobs
        tables = tables or Tables()
        names = {
            "ping": tables.quoted(tables.worker_ping),
            "queue": tables.quoted(tables.job_queue),
            "runtime": tables.quoted(tables.job_runtime),
            "type": tables.job_id_type,
        }
        self._ping, self._jobs, self._gone = (text.format(**names) for text in (_PING, _JOBS, _GONE))
        self._failures = registry.counter("fleet_worker_heartbeat_failures_total").start(FAILURES)
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._missed: frozenset[Running] = frozenset()
        self._wake = asyncio.Event()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def wake() -> None:
            # A loop that is closed has no heartbeat left to wake.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake.set)

        self.roster.changed = wake
        self._task = asyncio.create_task(self._go_on(await self.beat()), name="heartbeat")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        self._wake.set()
        if self._task is not None:
            await self._task
        with contextlib.suppress(Exception):
            await asyncio.wait_for(self._leave(), self._deadline)
        await self._hang_up()

    async def beat(self) -> bool:
        """One ping now; whether it arrived."""
        try:
            async with asyncio.timeout(self._deadline):
                await self._send()
        except (psycopg.Error, OSError, TimeoutError) as error:
            self._failed(error)
            await self._hang_up()
            return False
        registry.gauge("fleet_worker_heartbeat_last_success_timestamp_seconds").child().set_to_current_time()
        return True

    async def _go_on(self, arrived: bool) -> None:
        while True:
            # Soon again after a failure; spread out, since a thousand workers lost the same database.
            pause = self._interval if arrived and not self._missed else self._deadline / 3
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause * random.uniform(0.9, 1.0))  # noqa: S311  (no secret)
            self._wake.clear()
            if self._stop.is_set():
                return
            arrived = await self.beat()

    async def _send(self) -> None:
        connection = await self._connected()
        running = self.roster.running
        draining = self.roster.draining_for
        ours: set[int] = set()
        async with connection.transaction():
            await connection.execute(
                self._ping,
                {
                    "worker": self.me.worker,
                    "group": self.me.group,
                    "tags": list(self.me.tags),
                    "node": self.me.node,
                    "version": self.me.version,
                    "status": "active" if draining is None else "draining",
                    "current": str(running[0].id) if running else None,
                    "running": len(running),
                    "executed": self.roster.executed,
                    "draining": draining,
                },
            )
            if running and self._ping_jobs:
                cursor = await connection.execute(
                    self._jobs,
                    {
                        "ids": [str(job.id) for job in running],
                        "started": [job.started_at for job in running],
                        "worker": self.me.worker,
                    },
                )
                ours = {row[0] async for row in cursor}
        if self._ping_jobs:
            self._settle([job for place, job in enumerate(running, 1) if place not in ours])

    def _settle(self, missing: list[Running]) -> None:
        """Jobs that the queue no longer has as ours: lost, if it says so twice.

        Between the commit that completes a job and the worker's word that it has ended, it is missing too.
        """
        for job in missing:
            if job in self._missed:
                self.roster.take_away(job)
        self._missed = frozenset(missing) - self._missed

    async def _connected(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                prepare_threshold=None,  # a pooler in transaction mode has another session the next time
                connect_timeout=max(2, int(self._deadline)),
                tcp_user_timeout=int(self._deadline * 1000),
                application_name="fleetglass-heartbeat",
            )
        return self._connection

    async def _leave(self) -> None:
        connection = await self._connected()
        await connection.execute(self._gone, {"worker": self.me.worker})

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                await connection.close()

    def _failed(self, error: Exception) -> None:
        reason = failure(error)
        self._failures.child(reason).inc()
        if reason == "refused":
            # No table, no right, a column that isn't there: it will not mend itself.
            faults.report("worker.heartbeat", error)


class Heartbeat:
    """The heartbeat of a process without an event loop: ``with Heartbeat(…) as heartbeat:``, the same arguments."""

    def __init__(self, conninfo: str, *, roster: Roster | None = None, **more: Any) -> None:
        self.roster = roster or Roster()
        self._arguments = {**more, "conninfo": conninfo, "roster": self.roster}
        self.worker: str = self._arguments.setdefault("worker", None) or worker_id()
        self._arguments["worker"] = self.worker
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        AsyncHeartbeat(**self._arguments)  # what is wrong with the arguments is said here, not in a thread
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None and self._done is not None:
            self._loop.call_soon_threadsafe(self._done.set)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with AsyncHeartbeat(**self._arguments):
                self._ready.set()
                await self._done.wait()
        finally:
            self._ready.set()
