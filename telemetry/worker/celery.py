"""Celery's tasks with a trace across the broker, log fields and metrics, in one line beside ``Celery(…)``.

    app = Celery("shop", broker=…)
    celery.install(group="heavy")          # from telemetry.worker import celery

The carrier travels as a message header. A retry links to the run before; a message that the broker delivers again,
since its worker was lost, can't: nobody may write into it. ``tag`` is the task's name. Celery leaves logging to
telemetry, and processes of its pool, which end without ``atexit``, deliver before they do.

With ``heartbeat=``, the address of the database that holds ``worker_ping``, a worker has its row there: one, written by
its main process, for all the processes or threads of its pool.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from celery import signals

from telemetry import faults, pipeline
from telemetry.traces.provider import fail
from telemetry.worker.jobs import Outcome, Run, enqueue_span, job_span
from telemetry.worker.roster import Roster, Running

if TYPE_CHECKING:
    from telemetry.worker.heartbeat import Heartbeat
    from telemetry.worker.presence import Presence

HEADER: Final = "fleetglass"
"""Name of the message header: ``carrier`` (docs/jobs.md) and ``due``, Unix time by the sender's clock."""
_SYSTEM: Final = {"messaging.system": "celery"}
_OUTCOMES: Final[dict[str | None, Outcome]] = {
    "SUCCESS": "success",
    "IGNORED": "success",
    "FAILURE": "failure",
    "RETRY": "failure",
}


class _Pool(Roster):
    """What the pool does, as the worker's main process keeps account of it, whatever the pool is made of."""

    @property
    def running(self) -> tuple[Running, ...]:
        """The tasks that the pool has taken on, the oldest first."""
        found = [
            Running(request.id, datetime.fromtimestamp(since, UTC), since)
            for request in self._requests()
            if (since := request.time_start) is not None
        ]
        return tuple(sorted(found, key=lambda task: task.since))

    @property
    def executed(self) -> int:
        """How many it has taken on and ended."""
        from celery.worker import state

        taken: int = state.all_total_count[0]
        return max(0, taken - len(state.active_requests))

    @staticmethod
    def _requests() -> list[Any]:
        from celery.worker import state

        while True:
            try:
                return list(state.active_requests)
            except RuntimeError:  # the worker's own thread takes one in or out meanwhile
                continue


class _Adapter:
    def __init__(self, group: str, presence: Presence | None = None) -> None:
        self._group = group
        self._presence = presence
        self._pool = _Pool()
        self._heartbeat: Heartbeat | None = None
        self._sending: ContextVar[tuple[str, ExitStack] | None] = ContextVar("fleetglass_sending", default=None)
        self._running: dict[str, tuple[ExitStack, Run]] = {}

    def receivers(self) -> dict[str, tuple[Any, Callable[..., None]]]:
        """Signals and who receives them, each under an id: a second install() takes the place of the first."""
        return {
            "fleetglass.before_publish": (signals.before_task_publish, self.before_publish),
            "fleetglass.after_publish": (signals.after_task_publish, self.after_publish),
            "fleetglass.before_run": (signals.task_prerun, self.before_run),
            "fleetglass.failed": (signals.task_failure, self.failed),
            "fleetglass.retried": (signals.task_retry, self.retried),
            "fleetglass.after_run": (signals.task_postrun, self.after_run),
            "fleetglass.process_ends": (signals.worker_process_shutdown, self.process_ends),
            "fleetglass.logging": (signals.setup_logging, self.logging),
            "fleetglass.ready": (signals.worker_ready, self.worker_ready),
            "fleetglass.shutting_down": (signals.worker_shutting_down, self.worker_shutting_down),
            "fleetglass.shutdown": (signals.worker_shutdown, self.worker_shutdown),
        }

    def before_publish(self, sender: Any = None, headers: dict[str, Any] | None = None, **_: Any) -> None:
        """``sender`` is the name of the task; what the message's headers get is sent."""
        self._sent(None)  # one whose publishing failed says nothing any more
        if headers is None:
            return
        task_id = str(headers.get("id", ""))
        again = self._running.get(task_id)
        if again is not None:  # a retry, published from within its run
            headers[HEADER] = {"carrier": again[1].carrier}
            return
        sending = ExitStack()
        carrier = sending.enter_context(enqueue_span(str(sender), job_id=task_id, **_SYSTEM))
        headers[HEADER] = {"carrier": carrier, "due": _due(headers.get("eta"))}
        self._sending.set((task_id, sending))

    def after_publish(self, headers: dict[str, Any] | None = None, **_: Any) -> None:
        self._sent(str((headers or {}).get("id", "")))

    def _sent(self, task_id: str | None) -> None:
        sending = self._sending.get()
        if sending is not None and task_id in (None, sending[0]):
            self._sending.set(None)
            sending[1].close()

    def before_run(self, task_id: str = "", task: Any = None, **_: Any) -> None:
        brought = (task.request.headers or {}).get(HEADER) or getattr(task.request, HEADER, None) or {}
        due = brought.get("due")
        running = ExitStack()
        run = running.enter_context(
            job_span(
                brought.get("carrier"),
                job_id=task_id,
                tag=task.name,
                group=self._group,
                waited=time.time() - due if isinstance(due, (int, float)) else None,
                **_SYSTEM,
            )
        )
        self._running[task_id] = running, run

    def failed(self, task_id: str = "", exception: BaseException | None = None, **_: Any) -> None:
        self._failed(task_id, exception)

    def retried(self, request: Any = None, reason: Any = None, **_: Any) -> None:
        self._failed(request.id, getattr(reason, "exc", None) or reason)

    def _failed(self, task_id: str, error: object) -> None:
        running = self._running.get(task_id)
        if running is not None and isinstance(error, Exception):
            fail(running[1].span, error)

    def after_run(self, task_id: str = "", state: str | None = None, **_: Any) -> None:
        running = self._running.pop(task_id, None)
        if running is not None:
            running[1].outcome = _OUTCOMES.get(state, "cancelled")
            running[0].close()

    def process_ends(self, **_: Any) -> None:
        active = pipeline.active()
        if active is not None:
            active.flush()

    def logging(self, **_: Any) -> None:
        """That somebody listens is enough: Celery leaves the handlers of the root logger where they are."""

    def worker_ready(self, sender: Any = None, **_: Any) -> None:
        """In the main process, once it takes tasks; its pool has been forked by now."""
        if self._presence is None or self._heartbeat is not None:
            return
        kind = type(sender.pool).__module__
        if kind.endswith(("gevent", "eventlet")):
            faults.say(f"no heartbeat for a worker on {kind}: it needs a thread with an event loop")
            return
        own = [name for name in sender.app.tasks if not name.startswith("celery.")]
        self._heartbeat = self._presence.heartbeat(self._pool, own)
        self._heartbeat.__enter__()

    def worker_shutting_down(self, **_: Any) -> None:
        """In the handler of the signal."""
        self._pool.drain()

    def worker_shutdown(self, **_: Any) -> None:
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is not None:
            heartbeat.__exit__()


def install(*, group: str = "", heartbeat: str | None = None, **more: Any) -> None:
    """Trace and count all tasks that this process publishes or runs; ``group`` is the worker group, if it runs any.

    ``heartbeat`` is the address of the database that holds ``worker_ping``; ``more`` goes to ``Heartbeat`` (``tags``,
    the names of the tasks unless told, ``node``, ``version``, …).
    """
    presence = None
    if heartbeat is not None or more:
        from telemetry.worker.presence import Presence

        presence = Presence.told(heartbeat, group, more)
    uninstall()
    for uid, (signal, receiver) in _Adapter(group, presence).receivers().items():
        signal.connect(receiver, weak=False, dispatch_uid=uid)


def uninstall() -> None:
    """Take it back."""
    for uid, (signal, _) in _Adapter("").receivers().items():
        signal.disconnect(dispatch_uid=uid)


def _due(eta: object) -> float:
    """When the task is due, Unix time: its ETA, or now."""
    if isinstance(eta, str):
        try:
            return datetime.fromisoformat(eta).timestamp()
        except ValueError as error:
            faults.report("worker.celery", error)
    return time.time()
