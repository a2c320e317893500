"""What a worker process does at this moment: which jobs it runs, how many it has run, whether it still takes any."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec


class Running(msgspec.Struct, frozen=True):
    """A job that runs here.

    ``started_at`` is what the claim wrote. With the worker's id it is the fence: a job that was taken away and given to
    somebody else, or to us again, has another one.
    """

    id: Any
    started_at: datetime
    since: float


class Roster:
    """Jobs that run in this process; safe to use from any thread.

    ``lost`` is called, from the heartbeat, with a job that is no longer ours: the work is somebody else's now, and what
    it would complete is fenced off.
    """

    def __init__(self, lost: Callable[[Running], None] | None = None) -> None:
        self._lock = threading.Lock()
        # By both halves of the fence: a job that was lost may be claimed here again while its old run still ends.
        self._running: dict[tuple[Any, datetime], Running] = {}
        self._executed = 0
        self._draining_since: float | None = None
        self._lost = lost
        self.changed: Callable[[], None] = lambda: None
        """Called when a ping should go out at once."""

    def begin(self, job_id: Any, started_at: datetime) -> None:
        """A job was claimed; ``started_at`` as the claim returned it."""
        with self._lock:
            self._running[job_id, started_at] = Running(job_id, started_at, time.monotonic())

    def end(self, job_id: Any, started_at: datetime) -> None:
        """Its run has ended, however it did."""
        with self._lock:
            if self._running.pop((job_id, started_at), None) is not None:
                self._executed += 1

    def drain(self) -> None:
        """No more jobs are taken. Safe to call again, and in a signal handler: it takes no lock."""
        if self._draining_since is None:
            self._draining_since = time.monotonic()
        self.changed()

    def take_away(self, job: Running) -> None:
        """The job is no longer ours."""
        with self._lock:
            known = self._running.pop((job.id, job.started_at), None) is not None
        if known and self._lost is not None:
            self._lost(job)

    @property
    def running(self) -> tuple[Running, ...]:
        """The jobs that run, the oldest first."""
        with self._lock:
            return tuple(sorted(self._running.values(), key=lambda job: job.since))

    @property
    def executed(self) -> int:
        """How many jobs have ended here."""
        return self._executed

    @property
    def draining_for(self) -> float | None:
        """How long no jobs have been taken, in seconds; None while they are."""
        return None if self._draining_since is None else time.monotonic() - self._draining_since
