"""Procrastinate's jobs with a trace across the queue, log fields and metrics, in one line beside ``App(…)``.

    app = procrastinate.install(App(connector=…), group="heavy")     # from telemetry.worker import procrastinate

A job of Procrastinate has arguments and nothing else, so the carrier travels as one of them, which the worker takes
out again. Therefore it comes to the workers first: one without it would hand the argument to the task. ``tag`` is the
task's name. A job that is tried again keeps its trace, but has no link to the run before.

With ``heartbeat=``, the address of the database that holds ``worker_ping``, each worker has its row there.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from procrastinate import App
from procrastinate.exceptions import JobAborted
from procrastinate.jobs import Job

from telemetry.worker.jobs import enqueue_span, job_span
from telemetry.worker.roster import Roster

if TYPE_CHECKING:
    from telemetry.worker.presence import Presence

ARGUMENT: Final = "fleetglass_carrier"
"""Name of the argument: ``carrier`` (docs/jobs.md) and ``due``, Unix time by the enqueueing process's clock."""
_ROSTER: Final = "fleetglass_roster"


def install(app: App, *, group: str = "", heartbeat: str | None = None, **more: Any) -> App:
    """Trace and count all jobs that ``app`` defers or runs; ``group`` is the worker group, if it runs any.

    Workers get it by ``worker_defaults``; one that is given a ``worker_middleware`` of its own has to name
    ``middleware(group)`` there too. Returns ``app``. Jobs that it defers periodically begin a trace where they run.

    ``heartbeat`` is the address of the database that holds ``worker_ping``; ``more`` goes to ``Heartbeat`` (``tags``,
    the names of the tasks unless told, ``node``, ``version``, …).
    """
    if heartbeat is not None or more:
        from telemetry.worker.presence import Presence

        presence = Presence.told(heartbeat, group, more)
        if presence is not None:
            setattr(app, "_worker", _present(app, app._worker, presence))  # nothing public sees a worker made
    manager: Any = app.job_manager
    manager.batch_defer_jobs = _deferring(manager.batch_defer_jobs)
    manager.batch_defer_jobs_async = _deferring_async(manager.batch_defer_jobs_async)
    defaults = app.worker_defaults
    defaults["worker_middleware"] = [middleware(group), *defaults.get("worker_middleware", [])]
    return app


def middleware(group: str = "") -> Callable[..., Awaitable[Any]]:
    """A worker middleware that runs each job in its span."""

    async def run(call_next: Callable[[], Awaitable[Any]], context: Any, worker: Any) -> Any:
        job: Job = context.job
        brought: Any = job.task_kwargs.pop(ARGUMENT, None)
        found = brought if isinstance(brought, dict) else {}
        due = found.get("due")
        waited = time.time() - due if isinstance(due, (int, float)) and not job.attempts else None
        roster, started_at = getattr(worker, _ROSTER, None) or Roster(), datetime.now(UTC)
        with job_span(
            found.get("carrier"),
            job_id=str(job.id),
            tag=job.task_name,
            group=group,
            waited=waited,
            **{"job.attempts": job.attempts},
        ) as running:
            roster.begin(job.id, started_at)
            try:
                return await call_next()
            except JobAborted:
                running.outcome = "cancelled"
                raise
            finally:
                roster.end(job.id, started_at)

    return run


def _present(app: App, make: Callable[..., Any], presence: Presence) -> Callable[..., Any]:
    """What makes a worker, but for its row in ``worker_ping`` from its start to its end."""

    @functools.wraps(make)
    def making(**options: Any) -> Any:
        worker, roster = make(**options), Roster()
        setattr(worker, _ROSTER, roster)
        run, stop = worker.run, worker.stop

        async def running() -> None:
            own = [name for name in app.tasks if "procrastinate.builtin_tasks" not in name]
            heartbeat = presence.heartbeat(roster, own)
            await asyncio.to_thread(heartbeat.__enter__)
            try:
                await run()
            finally:
                await asyncio.to_thread(heartbeat.__exit__)

        def stopping() -> None:
            roster.drain()
            stop()

        worker.run, worker.stop = running, stopping
        return worker

    return making


def _sending(jobs: list[Job], sending: ExitStack) -> list[Job]:
    """The jobs, which are all of one task, with the carrier of the one span that sends them."""
    more = {"messaging.batch.message_count": len(jobs)} if len(jobs) > 1 else {}
    carrier = sending.enter_context(enqueue_span(jobs[0].task_name, **more)) if jobs else {}
    return [
        job.evolve(task_kwargs={**job.task_kwargs, ARGUMENT: {"carrier": carrier, "due": _due(job)}}) for job in jobs
    ]


def _due(job: Job) -> float:
    return job.scheduled_at.timestamp() if job.scheduled_at else time.time()


def _deferring(defer: Callable[..., list[Job]]) -> Callable[..., list[Job]]:
    @functools.wraps(defer)
    def deferring(jobs: list[Job], *arguments: Any, **more: Any) -> list[Job]:
        with ExitStack() as sending:
            return defer(_sending(jobs, sending), *arguments, **more)

    return deferring


def _deferring_async(defer: Callable[..., Awaitable[list[Job]]]) -> Callable[..., Awaitable[list[Job]]]:
    @functools.wraps(defer)
    async def deferring(jobs: list[Job], *arguments: Any, **more: Any) -> list[Job]:
        with ExitStack() as sending:
            return await defer(_sending(jobs, sending), *arguments, **more)

    return deferring
