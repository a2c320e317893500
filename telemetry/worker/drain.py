"""The end of a worker: SIGTERM stops claims, running jobs finish within the grace, then the process leaves.

    with Drain(grace=570) as drain, Heartbeat(url, group="heavy", roster=drain.roster):
        while drain.claiming:
            row = …  # your claim
            if row is None:
                drain.wait(1.0)
                continue
            with drain.job(row.id, row.started_at) as job, job_span(row.carrier, …):
                with job.cancellable():
                    …  # your work
                …  # your completion, fenced on worker and started_at

The heartbeat goes on meanwhile, for the worker, which says that it drains, and for its jobs. Past the grace the jobs
are cancelled; what they would have completed is left to the reaper, which finds their pings lapsed once the process
is gone. A job that does not heed that takes the process with it: telemetry is flushed, and the process ends.

The signal's handler takes no lock and starts no thread: it may have interrupted one who does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from types import FrameType
from typing import Any, Final, Literal, Self

from telemetry import faults, pipeline
from telemetry.sigterm import Hook
from telemetry.worker import held
from telemetry.worker.held import Held
from telemetry.worker.jobs import Outcome
from telemetry.worker.roster import Roster, Running

GRACE: Final = 570.0
"""Seconds that running jobs have after SIGTERM; windforce's ``drain_timeout_s``."""
MOMENT: Final = 3.0
"""Seconds that cancelled jobs have to end; with the flush and the leave-taking it stays below ten."""
EXIT_CODE: Final = 128 + signal.SIGTERM

_log = logging.getLogger("telemetry.worker")


class Drain:
    """Whether this process may claim, which jobs it runs, and how it ends; a context manager, entered once.

    ``grace`` counts seconds from the signal, or from ``begin()``. Entered in the main thread it handles SIGTERM: a
    handler of the application that stands already is called as well, and a SystemExit that it raises is raised when
    the block is left, after the drain; telemetry's own flush follows at the end of the process. A handler that comes
    later has to call the one before it, or ``begin()``; so has a callback of an event loop.
    """

    def __init__(self, *, grace: float = GRACE) -> None:
        if grace < 0:
            raise ValueError(f"grace={grace:g} s must not be below 0")
        self.roster = Roster(self._lost)
        self.grace = grace
        self.gave_up: Callable[[], object] = lambda: None
        """Called when jobs have not ended a moment after they were cancelled."""
        self._held: dict[tuple[Any, datetime], Held] = {}
        self._draining = self._signalled = self._inside = False
        self._words: queue.SimpleQueue[Literal["drain", "leave"]] = queue.SimpleQueue()
        self._begun, self._over = threading.Event(), threading.Event()
        self._wakers: set[Callable[[], object]] = set()
        self._watcher = threading.Thread(target=self._watch, name="drain", daemon=True)
        self._handler = self._on_sigterm
        self._before: Any = None
        self._kept: BaseException | None = None
        self._pid = os.getpid()

    # -- what a claim loop asks --------------------------------------------------------------------

    @property
    def claiming(self) -> bool:
        """Whether jobs may be claimed; False from the very moment of the signal."""
        return not self._draining

    @property
    def over(self) -> bool:
        """Whether the grace has passed."""
        return self._over.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait for the next claim, for so long at most; returns ``claiming``, and at once when a drain begins."""
        self._begun.wait(seconds)
        return self.claiming

    async def pause(self, seconds: float) -> bool:
        """``wait()`` in an event loop."""
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

        self._wakers.add(wake)
        try:
            if self.claiming:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), seconds)
        finally:
            self._wakers.discard(wake)
        return self.claiming

    @contextmanager
    def job(self, job_id: Any, started_at: datetime) -> Iterator[Held]:
        """A claimed job, from its claim to its completion; ``started_at`` as the claim wrote it."""
        mine = Held(job_id, started_at)
        self._held[job_id, started_at] = mine
        self.roster.begin(job_id, started_at)
        try:
            if self.over:
                mine.cancel("cancelled")
            yield mine
        finally:
            self.roster.end(job_id, started_at)
            self._held.pop((job_id, started_at), None)

    # -- how it ends -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take no more jobs, as after SIGTERM; safe in a signal handler, and to call again."""
        self._draining = True
        self._words.put("drain")

    def cancel(self, reason: Outcome = "cancelled") -> None:
        """Cancel all running jobs now. Not for signal handlers."""
        for each in list(self._held.values()):
            each.cancel(reason)

    def __enter__(self) -> Self:
        self._pid, self._inside = os.getpid(), True
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGTERM)
            if self._before is not None:  # a handler in C, as uWSGI has one, could not be called any more
                signal.signal(signal.SIGTERM, self._handler)
            if signal.getsignal(signal.SIGURG) == signal.SIG_DFL:
                signal.signal(signal.SIGURG, held.interrupt)
        self._watcher.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._draining = True
        self._words.put("leave")
        self._watcher.join()
        self._inside = False
        if threading.current_thread() is threading.main_thread():
            self._hand_back()
        if self._kept is not None and kind is None:
            raise self._kept

    def _hand_back(self) -> None:
        if signal.getsignal(signal.SIGURG) is held.interrupt:
            signal.signal(signal.SIGURG, signal.SIG_DFL)
        if self._before is None:
            return
        now: Any = signal.getsignal(signal.SIGTERM)
        if now is self._handler:
            signal.signal(signal.SIGTERM, self._before)
        elif isinstance(now, Hook) and now.before is self._handler:  # setup() came after us
            now.before = self._before.before if isinstance(self._before, Hook) else self._before

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        if not self._inside or os.getpid() != self._pid:
            self._pass_on(number, frame)
            return
        self._signalled = True
        self.begin()
        before = self._before.before if isinstance(self._before, Hook) else self._before
        if not callable(before):
            return  # telemetry's hook would end the process here; its flush comes with the end of the process
        try:
            self._before(number, frame)
        except (SystemExit, KeyboardInterrupt) as error:
            self._kept = error

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """In a forked child, or when the drain is long over: as if we were not there."""
        if callable(self._before):
            self._before(number, frame)
        elif self._before == signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    def _lost(self, job: Running) -> None:
        mine = self._held.get((job.id, job.started_at))
        if mine is not None:
            mine.cancel("lost")

    def _watch(self) -> None:
        if self._words.get() == "leave":
            return
        self._begun.set()
        for wake in list(self._wakers):
            wake()
        self.roster.drain()
        if self._left_within(self.grace):
            return
        self._over.set()
        self.cancel()
        if self._left_within(MOMENT):
            return
        if self._signalled and self._held:
            self._end_process()
        self.gave_up()

    def _left_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if self._words.get(timeout=max(0.0, deadline - time.monotonic())) == "leave":
                    return True
            except queue.Empty:
                return False

    def _end_process(self) -> None:
        ids = ", ".join(str(each.id) for each in list(self._held.values())[:5])
        sentence = f"{len(self._held)} jobs still run {MOMENT:g} s after they were cancelled ({ids}): the process ends"
        _log.error(sentence)
        faults.say(sentence)
        active = pipeline.active()
        if active is not None:
            active.shutdown()
        os._exit(EXIT_CODE)
