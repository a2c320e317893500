"""A thousand workers in one process: their heartbeats, and claims and completions at a steady rate.

The statements are those of ``telemetry.worker``; only the connections are shared, as a pooler would share them. Each
worker pings every ten seconds, its own row and the jobs that it runs in one transaction. A job runs until it is the
oldest of all: its worker then completes it, claims another under its tags, and somebody enqueues one in its place.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Final

import msgspec
import psycopg
from psycopg.types.json import Jsonb

from telemetry.worker.claims import Claims
from telemetry.worker.heartbeat import INTERVAL, AsyncHeartbeat
from tests.bench import child
from tests.bench.fleet.estate import CARRIER, Scale

CLAIMING: Final = 4
"""Connections that claim."""
PINGING: Final = 2
"""Connections that ping."""
CLAIMED: Final = {**msgspec.json.decode(CARRIER), "last_run": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}
"""What a claim writes into the carrier."""
ENQUEUE: Final = "INSERT INTO job_queue (tag, carrier) VALUES (%s, %s)"


class Held(msgspec.Struct, frozen=True):
    """A job that runs."""

    id: Any
    started_at: datetime
    worker: int
    tag: str


class Workers:
    """All of them, in an event loop in a thread."""

    def __init__(self, url: str, scale: Scale) -> None:
        self._url, self._scale = url, scale
        claims = Claims(worker="", group="", tags=())
        self._next, self._take, self._complete = claims._next, claims._take, claims._complete
        heartbeat = AsyncHeartbeat(url, group="")
        self._ping, self._jobs = heartbeat._ping, heartbeat._jobs
        self._running: deque[Held] = deque()
        self._of: list[dict[Any, datetime]] = [{} for _ in range(scale.workers)]
        self._executed = [0] * scale.workers
        self._rate = self._due = 0.0
        self._claimed = self._completed = self._enqueued = self._idle = self._fenced = self._pings = 0
        self._late = 0.0
        self._busy = 0
        self._still = asyncio.Event()
        self._still.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._tasks: list[asyncio.Task[None]] = []
        self._do(self._open())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(300)

    async def _open(self) -> None:
        async with await self._connect() as connection:
            cursor = await connection.execute(
                "SELECT job_id, started_at, worker, tag FROM job_queue WHERE running ORDER BY started_at"
            )
            async for job_id, started_at, worker, tag in cursor:
                number = int(worker.rpartition("-")[2])
                self._running.append(Held(job_id, started_at, number, tag))
                self._of[number][job_id] = started_at
            for number in range(self._scale.workers):
                await self._beat(connection, number)
        share = [range(place, self._scale.workers, PINGING) for place in range(PINGING)]
        loops = [self._pinging(mine) for mine in share] + [self._claiming() for _ in range(CLAIMING)]
        self._tasks = [asyncio.create_task(each) for each in loops]

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(self._url, autocommit=True, prepare_threshold=None)

    async def _pinging(self, mine: range) -> None:
        async with await self._connect() as connection:
            began, turn = time.monotonic(), 0
            while True:
                for place, number in enumerate(mine):
                    due = began + INTERVAL * (turn + place / len(mine))
                    await asyncio.sleep(max(0.0, due - time.monotonic()))
                    await self._beat(connection, number)
                    self._late = max(self._late, time.monotonic() - due)
                turn += 1

    async def _beat(self, connection: psycopg.AsyncConnection[Any], number: int) -> None:
        jobs, group = self._of[number], self._scale.group_of(number)
        async with connection.pipeline(), connection.transaction():
            await connection.execute(
                self._ping,
                {
                    "worker": f"worker-{number}",
                    "group": f"group-{group}",
                    "tags": self._scale.tags_of(group),
                    "node": f"node-{number % 50}",
                    "version": "1.0.0",
                    "status": "active",
                    "current": str(next(iter(jobs))) if jobs else None,
                    "running": len(jobs),
                    "executed": self._executed[number],
                    "draining": None,
                },
            )
            if jobs:
                values = {"ids": [str(each) for each in jobs], "started": list(jobs.values())}
                await connection.execute(self._jobs, {**values, "worker": f"worker-{number}"})
        self._pings += 1

    async def _claiming(self) -> None:
        async with await self._connect() as connection:
            while True:
                if self._rate <= 0:
                    await asyncio.sleep(0.02)
                    continue
                # A second behind is caught up with; more was more than this rate can do.
                due = max(self._due, time.monotonic() - 1)
                self._due = due + 1 / self._rate
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if self._rate > 0:
                    self._busy += 1
                    self._still.clear()
                    await self._turn(connection)
                    self._busy -= 1
                    if not self._busy:
                        self._still.set()

    async def _turn(self, connection: psycopg.AsyncConnection[Any]) -> None:
        if not self._running:
            return
        job = self._running.popleft()
        worker = f"worker-{job.worker}"
        done = await self._row(
            connection,
            self._complete,
            {"id": job.id, "worker": worker, "started_at": job.started_at, "status": "success"},
        )
        self._of[job.worker].pop(job.id, None)
        self._executed[job.worker] += 1
        self._completed += done is not None
        self._fenced += done is None
        tags = self._scale.tags_of(self._scale.group_of(job.worker))
        async with connection.transaction():
            found = await self._row(connection, self._next, {"tags": tags})
            if found is None:
                self._idle += 1
                return
            taken = await self._row(
                connection, self._take, {"id": found[0], "worker": worker, "carrier": Jsonb(CLAIMED)}
            )
        assert taken is not None
        self._claimed += 1
        self._running.append(Held(found[0], taken[0], job.worker, found[1]))
        self._of[job.worker][found[0]] = taken[0]
        await connection.execute(ENQUEUE, (found[1], CARRIER))
        self._enqueued += 1

    @staticmethod
    async def _row(connection: psycopg.AsyncConnection[Any], text: str, values: dict[str, Any]) -> Any:
        return await (await connection.execute(text, values)).fetchone()

    def churn(self, rate: float) -> dict[str, Any]:
        """Claim at ``rate`` a second from now on; with 0, everything that was begun is ended when this returns."""
        self._do(self._churn(rate))
        return self.counts()

    async def _churn(self, rate: float) -> None:
        self._rate = rate
        if rate <= 0:
            await asyncio.wait_for(self._still.wait(), 60)

    def counts(self) -> dict[str, Any]:
        """What was done so far; ``late`` is by how many seconds the latest ping came too late, since last asked."""
        late, self._late = self._late, 0.0
        for task in self._tasks:
            if task.done() and task.exception() is not None:
                raise RuntimeError(f"a worker ended: {task.exception()!r}")
        return {
            "claimed": self._claimed,
            "completed": self._completed,
            "enqueued": self._enqueued,
            "idle": self._idle,
            "fenced": self._fenced,
            "pings": self._pings,
            "late": late,
        }


if __name__ == "__main__":
    address, scale = child.enter()
    workers = Workers(address, msgspec.json.decode(scale, type=Scale))
    child.serve({"churn": workers.churn, "counts": workers.counts}, workers=len(workers._of))
