"""A worker on windforce's tables in one line: claims, spans, metrics, heartbeat, drain, fenced completions.

    JobLoop(url, group="heavy", tags=("gpu",), concurrency=4).run(work)              # work(job) in threads
    await AsyncJobLoop(url, group="heavy", tags=("gpu",), concurrency=4).run(work)   # await work(job) in tasks

It ends when SIGTERM (or ``drain()``) has come and the running jobs have ended. One slot at a time looks for the next
job, on the one connection that claims and completions share; the heartbeat has its own, in a thread of its own, so
that it goes on while a job keeps the event loop busy.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import ExitStack
from typing import Any, Final, Literal, TypeVar, cast

import psycopg

from telemetry.metrics import registry
from telemetry.traces.provider import fail
from telemetry.worker.claims import Claims, Job, Query, Row
from telemetry.worker.drain import GRACE, MOMENT, Drain
from telemetry.worker.failures import FAILURES, NoAnswer, failure
from telemetry.worker.heartbeat import INTERVAL, Heartbeat
from telemetry.worker.jobs import JobCancelled
from telemetry.worker.tables import Tables

T = TypeVar("T")
Steps = Generator[Query, Row | None, T]

_AGAIN: Final = 1.0
"""Seconds after a claim or a completion that the database did not take."""
_ANSWERS_WITHIN: Final = 10.0
"""Seconds that a claim or a completion may take: a database that hangs keeps its connections open, and is silent."""
_CONNECTION: Final[dict[str, Any]] = {
    "autocommit": True,
    "prepare_threshold": None,  # a pooler in transaction mode has another session the next time
    "connect_timeout": 5,
    "tcp_user_timeout": 10_000,
    "application_name": "fleetglass-claims",
}

_log = logging.getLogger("telemetry.worker")


class _Loop:
    """What both kinds share."""

    def __init__(
        self,
        conninfo: str,
        *,
        group: str,
        tags: tuple[str, ...],
        grace: float = GRACE,
        concurrency: int = 1,
        poll: float = 1.0,
        order: str = "priority DESC, scheduled_for",
        tables: Tables | None = None,
        worker: str | None = None,
        node: str | None = None,
        version: str = "",
        interval: float = INTERVAL,
        deadline: float = 3.0,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency={concurrency} must be 1 or more")
        self._conninfo, self._concurrency, self._poll = conninfo, concurrency, poll
        self._drain = Drain(grace=grace)
        self._heartbeat = Heartbeat(
            conninfo,
            group=group,
            tags=tags,
            worker=worker,
            node=node,
            version=version,
            roster=self._drain.roster,
            interval=interval,
            deadline=deadline,
            tables=tables,
        )
        self.worker = self._heartbeat.worker
        self._claims = Claims(worker=self.worker, group=group, tags=tags, order=order, tables=tables)
        self._away = False
        self._error: BaseException | None = None
        self._failures = {
            doing: registry.counter(name).start(FAILURES)
            for doing, name in (
                ("claim", "fleet_job_claim_failures_total"),
                ("completion", "fleet_job_completion_failures_total"),
            )
        }
        self._begin()

    def _begin(self) -> None:
        """What each kind keeps."""
        raise NotImplementedError

    def drain(self) -> None:
        """Take no more jobs and end when those that run have; safe from any thread and in a signal handler."""
        self._drain.begin()

    def _claim(self, running: ExitStack) -> Steps[Job | None]:
        return self._claims.claim(running, lambda: self._drain.claiming)

    def _stop(self, error: BaseException) -> None:
        """Something is wrong with the loop itself: the jobs end, then ``run()`` raises it."""
        self._error = self._error or error
        self._drain.begin()

    def _database_away(self, doing: Literal["claim", "completion"], error: psycopg.Error) -> None:
        self._failures[doing].child(failure(error)).inc()
        if isinstance(error, psycopg.ProgrammingError):
            raise error  # no such table, no right to it: it will not mend itself
        if not self._away:
            _log.warning("%s: the database did not take it, trying again: %s", doing, str(error).strip())
        self._away = True

    @staticmethod
    def _spread(seconds: float) -> float:
        """A thousand idle workers don't ask at once."""
        return seconds * random.uniform(0.8, 1.2)  # noqa: S311

    @staticmethod
    def _status(job: Job, error: Exception | None) -> str:
        if error is None:
            return "success"
        job.run.outcome = "failure"
        fail(job.run.span, error)
        _log.error("job failed", exc_info=error)
        return "failure"


class JobLoop(_Loop):
    """Jobs in threads, ``concurrency`` at a time, claimed by ``order``, an ORDER BY of its columns.

    ``grace``, ``poll`` (between two looks at an empty queue), ``interval`` and ``deadline`` (of the heartbeat) count
    seconds. A job whose completion the database does not take is tried again until the grace has passed; one that is
    not ours any more is cancelled, and what it would complete is fenced off.
    """

    def _begin(self) -> None:
        self._connection: psycopg.Connection[Any] | None = None
        self._hung_up: psycopg.Connection[Any] | None = None
        self._asked: float | None = None
        self._looking, self._talking, self._counting = threading.Lock(), threading.Lock(), threading.Lock()
        self._finished = threading.Event()
        self._left = self._concurrency

    def run(self, work: Callable[[Job], object]) -> None:
        """Run ``work`` for each job until a drain has ended; to be called once, in the main thread for SIGTERM's sake.

        What ``work`` raises makes the job a failure. Raises psycopg.ProgrammingError when the tables are not there or
        not as they should be.
        """
        self._drain.gave_up = self._finished.set
        with self._drain, self._heartbeat:
            for number in range(self._concurrency):
                threading.Thread(target=self._slot, args=(work,), name=f"job-{number}", daemon=True).start()
            try:
                while not self._finished.wait(1.0):
                    self._hang_up_if_silent()
            except BaseException:  # Ctrl-C
                self._drain.begin()
                self._drain.cancel()
                self._finished.wait(MOMENT)
                raise
            finally:
                if self._connection is not None and not self._left:
                    self._connection.close()
        if self._error is not None:
            raise self._error

    def _slot(self, work: Callable[[Job], object]) -> None:
        try:
            while self._drain.claiming:
                with contextlib.suppress(JobCancelled), ExitStack() as running:
                    self._one(running, work)
        except BaseException as error:
            self._stop(error)
        finally:
            with self._counting:
                self._left -= 1
                last = not self._left
            if last:
                self._finished.set()

    def _one(self, running: ExitStack, work: Callable[[Job], object]) -> None:
        with self._looking:
            job = self._next(running)
        if job is None:
            return
        held = running.enter_context(self._drain.job(job.id, job.started_at))
        failed: Exception | None = None
        try:
            with held.cancellable():
                work(job)
        except JobCancelled:
            job.run.outcome = held.reason
            raise
        except SystemExit as error:
            failed = RuntimeError(f"the job would have ended the worker: SystemExit({error.code!r})")
        except Exception as error:
            failed = error
        if not self._completed(job, self._status(job, failed)):
            job.run.outcome = "lost"

    def _next(self, running: ExitStack) -> Job | None:
        while self._drain.claiming:
            pause = self._poll
            try:
                job = self._transact(self._claim(running))
                self._away = False
                if job is not None:
                    return job
            except psycopg.Error as error:
                running.__exit__(type(error), error, None)  # a claim that did not arrive is a run that is lost
                self._database_away("claim", error)
                pause = _AGAIN
            self._drain.wait(self._spread(pause))
        return None

    def _completed(self, job: Job, status: str) -> bool:
        again = False
        while True:
            try:
                return self._transact(self._claims.complete(job, status, again=again))
            except psycopg.Error as error:
                self._database_away("completion", error)
            if self._drain.over:
                return False
            again = True
            time.sleep(self._spread(_AGAIN))

    def _transact(self, steps: Steps[T]) -> T:
        with self._talking:
            if self._connection is None or self._connection.closed:
                self._connection = psycopg.connect(self._conninfo, **_CONNECTION)
            connection, self._asked = self._connection, time.monotonic()
            try:
                with connection.transaction():
                    row: Row | None = None
                    while True:
                        try:
                            query = steps.send(row)
                        except StopIteration as end:
                            return cast("T", end.value)
                        row = connection.execute(*query).fetchone()
            except psycopg.Error as error:
                connection.close()
                if self._hung_up is connection:
                    raise NoAnswer(f"no answer in {_ANSWERS_WITHIN:g} s") from error
                raise
            finally:
                self._asked = None

    def _hang_up_if_silent(self) -> None:
        """A thread that waits for the database can't be told to stop; the end of its connection tells it."""
        asked, connection = self._asked, self._connection
        if asked is None or connection is None or time.monotonic() - asked < _ANSWERS_WITHIN:
            return
        self._hung_up = connection
        with contextlib.suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)


class AsyncJobLoop(_Loop):
    """Jobs in tasks of one event loop, ``concurrency`` at a time, claimed by ``order``, an ORDER BY of its columns.

    ``grace``, ``poll`` (between two looks at an empty queue), ``interval`` and ``deadline`` (of the heartbeat) count
    seconds. A job whose completion the database does not take is tried again until the grace has passed; one that is
    not ours any more is cancelled, and what it would complete is fenced off.
    """

    def _begin(self) -> None:
        self._connection: psycopg.AsyncConnection[Any] | None = None
        self._looking, self._talking = asyncio.Lock(), asyncio.Lock()

    async def run(self, work: Callable[[Job], Awaitable[object]]) -> None:
        """Run ``work`` for each job until a drain has ended; to be awaited once, in the main thread for SIGTERM.

        Cancelled itself, it cancels its jobs. Otherwise as ``JobLoop.run()``.
        """
        loop, gave_up = asyncio.get_running_loop(), asyncio.Event()
        self._drain.gave_up = lambda: loop.call_soon_threadsafe(gave_up.set)
        with self._drain:
            await asyncio.to_thread(self._heartbeat.__enter__)
            slots = [asyncio.create_task(self._slot(work), name=f"job-{number}") for number in range(self._concurrency)]
            giving_up = asyncio.create_task(gave_up.wait())
            try:
                everyone: asyncio.Future[Any] = asyncio.gather(*slots)
                await asyncio.wait({everyone, giving_up}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (*slots, giving_up):
                    task.cancel()
                await asyncio.wait([*slots, giving_up], timeout=MOMENT)
                if self._connection is not None:
                    await self._connection.close()
                await asyncio.to_thread(self._heartbeat.__exit__)
        if self._error is not None:
            raise self._error

    async def _slot(self, work: Callable[[Job], Awaitable[object]]) -> None:
        try:
            while self._drain.claiming:
                with contextlib.suppress(JobCancelled), ExitStack() as running:
                    await self._one(running, work)
        except Exception as error:
            self._stop(error)

    async def _one(self, running: ExitStack, work: Callable[[Job], Awaitable[object]]) -> None:
        async with self._looking:
            job = await self._next(running)
        if job is None:
            return
        held = running.enter_context(self._drain.job(job.id, job.started_at))
        failed: Exception | None = None
        try:
            with held.cancellable():
                await work(job)
        except JobCancelled:
            job.run.outcome = held.reason
            raise
        except SystemExit as error:
            failed = RuntimeError(f"the job would have ended the worker: SystemExit({error.code!r})")
        except Exception as error:
            failed = error
        if not await self._completed(job, self._status(job, failed)):
            job.run.outcome = "lost"

    async def _next(self, running: ExitStack) -> Job | None:
        while self._drain.claiming:
            pause = self._poll
            try:
                job = await self._transact(self._claim(running))
                self._away = False
                if job is not None:
                    return job
            except psycopg.Error as error:
                running.__exit__(type(error), error, None)
                self._database_away("claim", error)
                pause = _AGAIN
            await self._drain.pause(self._spread(pause))
        return None

    async def _completed(self, job: Job, status: str) -> bool:
        again = False
        while True:
            try:
                return await self._transact(self._claims.complete(job, status, again=again))
            except psycopg.Error as error:
                self._database_away("completion", error)
            if self._drain.over:
                return False
            again = True
            await asyncio.sleep(self._spread(_AGAIN))

    async def _transact(self, steps: Steps[T]) -> T:
        async with self._talking:
            try:
                async with asyncio.timeout(_ANSWERS_WITHIN):
                    return await self._drive(steps)
            except (psycopg.Error, TimeoutError, asyncio.CancelledError) as error:
                if self._connection is not None:
                    await self._connection.close()
                if isinstance(error, TimeoutError):
                    raise NoAnswer(f"no answer in {_ANSWERS_WITHIN:g} s") from None
                raise

    async def _drive(self, steps: Steps[T]) -> T:
        if self._connection is None or self._connection.closed:
            self._connection = await psycopg.AsyncConnection.connect(self._conninfo, **_CONNECTION)
        async with self._connection.transaction():
            row: Row | None = None
            while True:
                try:
                    query = steps.send(row)
                except StopIteration as end:
                    return cast("T", end.value)
                cursor = await self._connection.execute(*query)
                row = await cursor.fetchone()
