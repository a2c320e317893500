"""arq's jobs with a trace across Redis, log fields and metrics: a line for who enqueues, and a line for who runs.

    pool = arq.install_pool(await create_pool(RedisSettings()))     # from telemetry.worker import arq
    arq.install(WorkerSettings, group="heavy")

The carrier travels in what arq serializes, beside the function's name and its arguments: a worker without us does not
look at it, so that either side may come first. The run before, to which a retry links, is kept in Redis for as long as
arq counts tries. ``tag`` is the name of the function.

With ``heartbeat=``, the address of the database that holds ``worker_ping``, each worker has its row there.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import inspect
import pickle
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
from opentelemetry import trace

from telemetry import faults
from telemetry.traces.provider import fail
from telemetry.worker.carrier import LAST_RUN
from telemetry.worker.jobs import Run, enqueue_span, job_span
from telemetry.worker.roster import Roster

if TYPE_CHECKING:
    from telemetry.worker.heartbeat import Heartbeat
    from telemetry.worker.presence import Presence

KEY: Final = "fleetglass"
"""The carrier's key in what arq serializes, and ours in a worker's ``ctx``."""
LAST_RUN_KEY: Final = "arq:fleetglass:"
"""Begins the key in Redis that holds the last run of a job; its id follows."""
KEPT: Final = 88_400
"""Seconds for which arq counts the tries of a job, and we know its last run."""
_SYSTEM: Final = {"messaging.system": "arq"}
_PATIENCE: Final = 1.0
"""Seconds that a job waits for Redis to say which run was the last."""

_sending: ContextVar[dict[str, str] | None] = ContextVar("fleetglass_arq_sending", default=None)
_brought: ContextVar[Any] = ContextVar("fleetglass_arq_brought", default=None)


class Pool(Protocol):
    """What enqueues: arq's ``ArqRedis``."""

    job_serializer: Any
    enqueue_job: Any


class _Worker(Protocol):
    """What we look at in arq's ``Worker``."""

    allow_pick_jobs: bool
    aborting_tasks: set[str]
    main_task: asyncio.Task[Any] | None


class _Here(msgspec.Struct):
    """A worker that runs in this process."""

    worker: _Worker
    roster: Roster
    heartbeat: Heartbeat | None = None
    watcher: asyncio.Task[None] | None = None

    @property
    def leaving(self) -> bool:
        """Whether it cancels what still runs."""
        main = self.worker.main_task
        return main is None or main.done() or main.cancelling() > 0


P = TypeVar("P", bound=Pool)
S = TypeVar("S")


def install_pool(pool: P, *, untraced: frozenset[str] = frozenset()) -> P:
    """Trace what ``pool`` enqueues, but for the functions ``untraced``. Returns ``pool``; safe to call again.

    A serializer that takes nothing but arq's own keys loses the trace, and nothing else.
    """
    enqueue, serialize = pool.enqueue_job, pool.job_serializer or pickle.dumps
    if hasattr(enqueue, KEY):
        return pool

    def serializing(job: dict[str, Any]) -> Any:
        carrier = _sending.get()
        if not carrier:
            return serialize(job)
        try:
            return serialize({**job, KEY: carrier})
        except Exception as error:
            plain = serialize(job)  # raises what arq expects, if it is the job that can't be serialized
            faults.report("worker.arq", error)
            return plain

    @functools.wraps(enqueue)
    async def enqueueing(function: str, *args: Any, **kwargs: Any) -> Any:
        if function in untraced:
            return await enqueue(function, *args, **kwargs)
        with enqueue_span(function, **_SYSTEM) as carrier:
            before = _sending.set(carrier)
            try:
                job = await enqueue(function, *args, **kwargs)
            finally:
                _sending.reset(before)
            if job is not None:  # None: there is one under this id, and nothing was enqueued
                trace.get_current_span().set_attribute("job_id", str(job.job_id))
            return job

    setattr(enqueueing, KEY, True)
    pool.job_serializer, pool.enqueue_job = serializing, enqueueing
    return pool


def install(settings: S, *, group: str = "", heartbeat: str | None = None, **more: Any) -> S:
    """Trace and count all jobs that workers of ``settings`` run: arq's class of settings, or a dict of them.

    ``group`` is the worker group. ``heartbeat`` is the address of the database that holds ``worker_ping``; ``more``
    goes to ``Heartbeat`` (``tags``, the names of the functions unless told, ``node``, ``version``, …). Returns
    ``settings``; to be called once on each. What jobs enqueue by ``ctx["redis"]`` is traced too; jobs of ``cron_jobs``
    begin a trace where they run.
    """
    from arq.worker import func

    presence = None
    if heartbeat is not None or more:
        from telemetry.worker.presence import Presence

        presence = Presence.told(heartbeat, group, more)
    given = _Settings(settings)
    functions = [func(each) for each in given.get("functions") or ()]
    crons = list(given.get("cron_jobs") or ())
    adapter = _Adapter(
        group,
        presence,
        names=frozenset(each.name for each in functions),
        crons=frozenset(each.name for each in crons),
        started=given.get("on_startup"),
        ended=given.get("on_shutdown"),
    )
    given.set("functions", [adapter.running(each) for each in functions])
    given.set("cron_jobs", [adapter.running(each) for each in crons] or None)
    given.set("job_deserializer", _deserializing(given.get("job_deserializer") or pickle.loads))
    given.set("on_startup", adapter.on_startup)
    given.set("on_shutdown", adapter.on_shutdown)
    return settings


class _Settings:
    """A class or a dict, as arq reads either: of a class, what stands in it and not what it inherits."""

    def __init__(self, settings: Any) -> None:
        self._settings = settings

    def get(self, name: str) -> Any:
        found = self._settings if isinstance(self._settings, MutableMapping) else vars(self._settings)
        return found.get(name)

    def set(self, name: str, value: Any) -> None:
        if isinstance(self._settings, MutableMapping):
            self._settings[name] = value
        else:
            setattr(self._settings, name, value)


def _deserializing(deserialize: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def deserializing(raw: bytes) -> Any:
        job = deserialize(raw)
        # arq reads each job in a task of its own, from which that of the function is made.
        _brought.set(job.get(KEY) if isinstance(job, dict) else None)
        return job

    return deserializing


class _Adapter:
    def __init__(
        self,
        group: str,
        presence: Presence | None,
        *,
        names: frozenset[str],
        crons: frozenset[str],
        started: Callable[[dict[Any, Any]], Awaitable[object]] | None,
        ended: Callable[[dict[Any, Any]], Awaitable[object]] | None,
    ) -> None:
        self._group, self._presence = group, presence
        self._names, self._crons = names, crons
        self._started, self._ended = started, ended

    async def on_startup(self, ctx: dict[Any, Any]) -> None:
        install_pool(ctx["redis"], untraced=self._crons)
        worker = _this_worker()
        if worker is not None:
            here = ctx[KEY] = _Here(worker, Roster())
            if self._presence is not None:
                here.heartbeat = self._presence.heartbeat(here.roster, self._names | self._crons)
                await asyncio.to_thread(here.heartbeat.__enter__)
                here.watcher = asyncio.create_task(_watch(here), name="drain")
        if self._started is not None:
            await self._started(ctx)

    async def on_shutdown(self, ctx: dict[Any, Any]) -> None:
        try:
            if self._ended is not None:
                await self._ended(ctx)
        finally:
            here: _Here | None = ctx.pop(KEY, None)
            if here is not None and here.heartbeat is not None and here.watcher is not None:
                here.watcher.cancel()
                await asyncio.to_thread(here.heartbeat.__exit__)

    def running(self, function: Any) -> Any:
        """The record of a function, or of a cron job, whose coroutine runs in a span."""
        from arq.worker import Retry, RetryJob

        coroutine, tag = function.coroutine, function.name

        @functools.wraps(coroutine)
        async def run(ctx: dict[Any, Any], *args: Any, **kwargs: Any) -> Any:
            job_id, first = str(ctx["job_id"]), ctx["job_try"] == 1
            here: _Here | None = ctx.get(KEY)
            redis, ends = ctx["redis"], True
            carrier = await _carrier(redis, job_id, first)
            try:
                with (
                    job_span(
                        carrier,
                        job_id=job_id,
                        tag=tag,
                        group=self._group,
                        waited=time.time() - ctx["score"] / 1000 if first else None,
                        **{"job.attempts": ctx["job_try"] - 1},
                        **_SYSTEM,
                    ) as running,
                    _listed(here, job_id),
                ):
                    await _quietly(redis.set(LAST_RUN_KEY + job_id, running.carrier[LAST_RUN], ex=KEPT))
                    try:
                        return await coroutine(ctx, *args, **kwargs)
                    except asyncio.CancelledError:
                        ends = _ends(here, job_id, running)
                        raise
            except (Retry, RetryJob):
                ends = False
                raise
            finally:
                if ends:
                    await _quietly(redis.delete(LAST_RUN_KEY + job_id))

        return dataclasses.replace(function, coroutine=run)


def _this_worker() -> _Worker | None:
    """The worker, of which arq tells its hooks nothing; its ``main()`` is the task that calls them."""
    task = asyncio.current_task()
    coroutine = task.get_coro() if task is not None else None
    found = inspect.getcoroutinelocals(coroutine).get("self") if inspect.iscoroutine(coroutine) else None
    return found if hasattr(found, "aborting_tasks") and hasattr(found, "allow_pick_jobs") else None


async def _watch(here: _Here) -> None:
    """Nobody else can be told of a signal: arq gives its handlers to the loop before it calls anybody."""
    while here.worker.allow_pick_jobs and not here.leaving:  # noqa: ASYNC110 - arq has no event for it
        await asyncio.sleep(0.2)
    here.roster.drain()


@contextmanager
def _listed(here: _Here | None, job_id: str) -> Iterator[None]:
    if here is None:
        yield
        return
    started_at = datetime.now(UTC)
    here.roster.begin(job_id, started_at)
    try:
        yield
    finally:
        here.roster.end(job_id, started_at)


async def _carrier(redis: Any, job_id: str, first: bool) -> dict[str, Any]:
    brought = _brought.get()
    carrier = dict(brought) if isinstance(brought, dict) else {}
    if not first:
        last = await _quietly(redis.get(LAST_RUN_KEY + job_id))
        carrier[LAST_RUN] = last.decode("ascii", "replace") if isinstance(last, bytes) else last
    return carrier


async def _quietly(command: Awaitable[Any]) -> Any:
    """What Redis answers, or None: no job fails for want of a link, and arq itself says that its Redis is away."""
    from redis.exceptions import RedisError

    with contextlib.suppress(RedisError, OSError, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            return await command


def _ends(here: _Here | None, job_id: str, running: Run) -> bool:
    """Whether a job that was cancelled is over: aborted, or out of time, and not merely for another worker to run.

    Out of time is a failure, as arq has it: it cancelled the job, which nobody aborted, and the worker goes on.
    """
    if here is None:
        return False
    if job_id in here.worker.aborting_tasks:
        return True
    task = asyncio.current_task()
    if here.leaving or task is None or not task.cancelling():
        return False
    running.outcome = "failure"
    fail(running.span, TimeoutError("the job ran longer than its timeout"))
    return True
